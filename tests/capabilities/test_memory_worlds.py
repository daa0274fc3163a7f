"""The memory worlds: the contract, what their experts reach, what no habit reaches, what passes between
contexts."""

import random

import pytest

from arl_mini.capabilities.memory import (
    Cut,
    Folded,
    Graph,
    Lessons,
    Manage,
    Retrieve,
    SegmentMemory,
    Summed,
    course,
    novice,
)
from arl_mini.envs import Notes, act, check_env
from arl_mini.envs.notes import PLACES

BOTH = Notes(24, kinds=("is", "was"))
WORLDS = [
    SegmentMemory(Notes()), SegmentMemory(Notes(22), per=4), Retrieve(BOTH), Retrieve(BOTH, newest=True), Manage(Notes()),
    Manage(Notes(questions=3)), Graph(BOTH), Graph(BOTH, price=0.01), Cut(), Summed(), Folded(), course(),
]  # fmt: skip
NOTES = [SegmentMemory(Notes()), Retrieve(Notes()), Manage(Notes()), Graph(Notes())]


def name(env) -> str:
    return type(env).__name__


@pytest.mark.parametrize("env", WORLDS, ids=name)
def test_it_keeps_the_contract(env):
    check_env(env)


def play(env, say, tasks=60) -> tuple[float, float]:
    """Success and mean reward when say(env, text, rng) speaks."""
    rng, right, paid = random.Random(0), 0, 0.0
    for seed in range(tasks):
        text = env.reset(seed)
        while True:
            reply = env.step(say(env, text, rng))
            text, paid = reply.text, paid + reply.reward
            if reply.done or reply.truncated:
                right += bool(reply.info.get("success"))
                break
    return right / tasks, paid / tasks


def as_read(env, text, rng) -> str:
    """The expert, but answers come from what the context shows."""
    return env.reading() if env.answering else env.expert()


@pytest.mark.parametrize("env", NOTES, ids=name)
def test_what_the_expert_keeps_is_enough_and_what_chance_keeps_is_not(env):
    wild, _ = play(env, lambda env, text, rng: env.reading() if env.answering else env.random(rng))
    assert play(env, as_read)[0] > 0.95 and wild < 0.8
    assert play(env, lambda env, text, rng: env.random(rng))[0] < 0.3


@pytest.mark.parametrize("env", NOTES, ids=name)
@pytest.mark.parametrize(
    "say",
    [
        lambda env, text, rng: "",
        lambda env, text, rng: act("answer gone"),
        lambda env, text, rng: act("add"),
        lambda env, text, rng: act(text),
        lambda env, text, rng: f"<obs>{text}</obs>",
        lambda env, text, rng: act("note " + " ".join(PLACES)),
        lambda env, text, rng: act("answer" + " hall" * 99),
    ],
    ids="empty gone add copy result all long".split(),
)
def test_no_habit_wins(env, say):
    assert play(env, say)[0] < 0.3


@pytest.mark.parametrize("env", [Cut(), Summed(), Folded()], ids=name)
def test_a_quest_in_parts_is_still_won_by_exploring_and_not_by_talk(env):
    assert play(env, lambda env, text, rng: env.shown())[0] > 0.9
    for said in (
        "",
        act("sum key door"),
        act("fold key"),
        act("take key"),
        act("open door"),
        act("go north"),
    ):
        assert play(env, lambda env, text, rng: said, 30)[0] < 0.1


def test_only_the_note_passes_from_one_context_to_the_next():
    env = SegmentMemory(Notes(8), room=2)
    env.reset(0)
    reply = env.step(act("note hall cave attic tower"))
    assert env.note == ["hall", "cave"] and " note hall cave ." in reply.text  # at most `room` words
    assert (
        env.step(act("dance")).text == " note hall cave where is it ?"
    )  # what is no note leaves it as it is


def test_a_search_shows_lines_as_they_were_told_and_costs_its_price():
    env = Retrieve(Notes(24, kinds=("was",)), price=0.1)
    env.reset(1)
    found = env.clone().step(act(f"search {env.notes.now[1]} in 6"))
    shown = found.text.replace(" it", f" {env.notes.now[1]}").split()
    order = [env.notes.stream.index(tuple(shown[i : i + 3])) for i in range(0, len(shown) - 4, 3)]
    assert found.text.endswith(" where was it ?") and order == sorted(order)
    assert env.step(act("search nobody 3")).text == " where was it ?"  # nothing found
    free = env.clone().step(env.expert())
    assert free.reward == 1.0 and free.info["size"] == 0
    env.reset(1)
    env.step(act(f"search {env.notes.now[1]} in 3"))
    assert env.step(env.expert()).reward == pytest.approx(1 - 0.1 * 3)


def test_the_policys_query_is_ignored_where_it_is_fixed():
    for fixed in (("{question}", 2), ("{name}", 2)):
        env = Retrieve(Notes(), fixed=fixed)
        env.reset(2)
        assert env.clone().step(act("search key 6")).text == env.step("").text


def test_a_rule_fills_the_store_before_the_first_turn():
    env = Manage(Notes(), rule=lambda world: "add")
    text = env.reset(0)
    assert env.size() == 24 and not env.listening and text.endswith("?")
    graph = Graph(BOTH, rule=lambda world: world.expert().removeprefix("<act> ").removesuffix("</act>"))
    assert play(graph, lambda env, text, rng: env.reading())[0] > 0.95


def test_update_forgets_what_was_and_closing_does_not():
    kinds = {"is": Notes(24), "was": Notes(24, kinds=("was",))}
    reached = {
        (world.__name__, kind): play(world(notes), as_read)[0]
        for world in (Manage, Graph)
        for kind, notes in kinds.items()
    }
    assert reached["Manage", "is"] > 0.95 < reached["Graph", "is"]
    assert reached["Graph", "was"] > 0.95 > 0.3 > reached["Manage", "was"]


def test_a_price_is_paid_for_what_is_kept():
    env = Graph(Notes(8), price=0.01)
    env.reset(0)
    while env.listening:
        env.step(act("link"))
    assert env.step(env.expert()).reward == pytest.approx(1 - 0.08)


def test_a_summary_replaces_and_folded_lines_pile_up():
    env = Summed(every=1, room=3)
    env.reset(0)
    assert env.step(act("go nowhere")).text.endswith(" sum")
    assert " open door . key a b . " in env.step(act("sum key a b c")).text
    env.step(act("go nowhere"))
    assert env.step("nonsense").text.startswith(f" find key open door .{env._look()}")
    env = Folded(every=9, room=3)
    env.reset(0)
    for line in ("one", "two three", "four"):
        env.step(act("take nothing"))
        reply = env.step(act(f"fold {line}"))
    assert " open door . two three four . " in reply.text and "fresh" in reply.info
    assert env.step(act("fold again")).text == " no"


def test_lessons_ask_for_what_the_context_can_tell():
    env, seen = course(), set()
    for seed in range(300):
        env.reset(seed)
        seen.add((name(env.world), env.answering))
        if env.answering:
            assert env.expert() == env.world.reading() == novice(env, random.Random(0))
    assert {kind for kind, _ in seen} == {"Notes", "SegmentMemory", "Retrieve", "Manage", "Graph"} and len(
        seen
    ) == 9
    assert isinstance(env, Lessons)
