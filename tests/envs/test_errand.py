"""Errand: the key can be put down and picked up again; a turn's purpose is noted and changes nothing."""

import random

from arl_mini.envs import Errand, act, check_env
from arl_mini.envs.errand import TAGS


def played(env, seed, speak, turns=14):
    env.reset(seed)
    replies = []
    for _ in range(turns):
        replies.append(env.step(speak(env)))
        if replies[-1].done or replies[-1].truncated:
            break
    return replies


def won(speak, tasks=200):
    env = Errand()
    return sum(bool(played(env, s, speak)[-1].info.get("success")) for s in range(tasks)) / tasks


def test_keeps_the_contract():
    check_env(Errand())


def test_who_knows_the_map_wins_and_careful_beats_random():
    rng = random.Random(0)
    assert won(lambda env: env.expert()) == 1.0
    careful, thinker, walker = (
        won(lambda env, s=s: getattr(env, s)(rng)) for s in ("careful", "thinker", "random")
    )
    assert careful > 0.85 and thinker < 0.4 and walker < careful - 0.3


def test_no_degenerate_policy_wins():
    rng = random.Random(0)
    sayings = [
        "",
        act("open door"),
        act("take key"),
        " plan",
        "<obs> key</obs>" + act("open door"),
        " explore" * 9,
        act("drop key"),
    ]
    assert all(won(lambda env, s=s: s, 60) == 0.0 for s in sayings)
    assert won(lambda env: act(rng.choice(("take key", "drop key"))), 60) == 0.0


def at_the_key():
    env = Errand()
    env.reset(3)
    while env.here != env.key:
        env.step(env.expert())
    return env


def test_the_key_lies_where_it_was_put_down():
    env = at_the_key()
    assert env.step(act("take key")).info["took"] and env.holding
    assert env.step(act("drop key")).text.endswith("key") or " key" in env._look()
    assert not env.holding and env.key == env.here
    assert env.step(act("drop key")).info["illegal"]
    assert env.step(act("take key")).info["took"]


def test_without_the_key_in_hand_the_door_stays_shut():
    env = at_the_key()
    env.step(act("take key"))
    env.step(act("drop key"))
    env.here = env.door
    assert not env.step(act("open door")).done


def test_info_tells_of_the_turn():
    env = Errand()
    env.reset(1)
    room, way = env.names[env.places[env.here]], next(iter(env._exits(env.here)))
    info = env.step(f" explore{act(f'go {way}')}").info
    assert info == {
        "tag": "explore",
        "room": room,
        "holding": False,
        "did": f"go {way}",
        "new": True,
        "took": False,
    }
    assert env.step("nonsense").info["tag"] == "" and env.step("nonsense").info["malformed"]


def test_a_tag_changes_nothing():
    for seed in range(20):
        plain, tagged, rng = Errand(), Errand(), random.Random(seed)
        plain.reset(seed), tagged.reset(seed)
        for _ in range(14):
            said = plain.random(rng)
            a, b = plain.step(said), tagged.step(f" {rng.choice(TAGS)}{said}")
            assert (a.text, a.reward, a.done) == (b.text, b.reward, b.done)
            if a.done or a.truncated:
                break
