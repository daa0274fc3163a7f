"""What each world says, pays and counts, move by move."""

import math
import random

import pytest

from arl_mini.envs import Calc, Chain, Finite, Quest, Taste, act
from arl_mini.envs.quest import WAYS
from arl_mini.envs.taste import LENGTH, TOPICS, WORDS
from arl_mini.formal import tmaze

# --- Quest ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rooms", range(2, 11))
def test_a_map_is_one_tree_of_rooms_with_names_of_their_own(rooms):
    for seed in range(30):
        env = Quest(rooms, limit=40)
        env.reset(seed)
        assert len(env.places) == len(set(env.names)) == rooms and env.key != env.door
        reached, edge = {env.here}, [env.here]
        while edge:
            edge = [there for place in edge for there in env._exits(place).values() if there not in reached]
            reached |= set(edge)
        assert reached == set(env.places)


def test_every_task_can_be_solved_within_the_limit():
    for seed in range(300):
        env = Quest(rooms=6, limit=8)
        env.reset(seed)
        moves = 0
        while True:
            reply = env.step(env.expert())
            moves += 1
            if reply.done or reply.truncated:
                break
        assert reply.done and reply.reward == 1.0 and moves <= 8


def test_quest_shows_what_is_here_and_nothing_else():
    env = Quest()
    for seed in range(40):
        seen = env.reset(seed).removeprefix(" find key open door .")
        for _ in range(6):
            words = seen.split()
            assert words[0] == env.names[env.places[env.here]] and words[1] == "exits"
            assert {w for w in words if w in WAYS} == set(env._exits(env.here))
            assert ("key" in words) == (env.here == env.key and not env.holding)
            assert ("door" in words) == (env.here == env.door)
            reply = env.step(env.expert())
            if reply.done:
                break
            seen = reply.text


def at(where) -> Quest:
    """A quest that stands at its key or its door."""
    env = Quest()
    env.reset(5)
    env.here = getattr(env, where)
    return env


def test_the_door_needs_the_key():
    env = at("door")
    reply = env.step(act("open door"))
    assert (reply.text, reply.reward, reply.done, reply.info) == (" no", 0.0, False, {"illegal": True})
    env.holding = True
    reply = env.step(act("open door"))
    assert (reply.reward, reply.done, reply.info["success"]) == (1.0, True, True)


def test_the_key_is_taken_once_and_leaves_the_room():
    env = at("key")
    assert "key" not in env.step(act("take key")).text.split() and env.holding
    assert env.step(act("take key")).text == " no"


@pytest.mark.parametrize("command", ["go", "go up", "go north now", "take door", "open key", "look", "take", "north"])
def test_what_cannot_be_done_is_answered_no_and_changes_nothing(command):
    env = Quest()
    env.reset(5)
    here = env.here
    reply = env.step(act(command))
    assert reply.text == " no" and reply.info == {"illegal": True} and env.here == here and not env.holding


def test_quest_ends_at_its_limit():
    env = Quest(limit=3)
    env.reset(1)
    replies = [env.step(act("look")) for _ in range(3)]
    assert [r.truncated for r in replies] == [False, False, True] and not replies[2].done
    assert replies[2].info["success"] is False and replies[2].text == " no"


def test_the_explorer_knows_no_map_and_mostly_finds_the_way():
    wins = 0
    for seed in range(200):
        env, rng = Quest(), random.Random(seed)
        env.reset(seed)
        for _ in range(12):
            reply = env.step(env.explorer(rng))
            if reply.done:
                break
        wins += reply.reward
    assert 0.6 < wins / 200 < 1.0


# --- Calc -------------------------------------------------------------------------------------------------


def product(**how) -> tuple[Calc, str]:
    """A task of two numbers, and its right answer."""
    env = Calc(kinds=("product",), **how)
    words = env.reset(3).split()
    return env, str(int(words[0]) * int(words[3]))


@pytest.mark.parametrize("write, right", [
    (" {}<end>", True), ("{}<end>", True), (" {} <end>", True), (" {}", False), ("<end>", False), (" 0{}<end>", False),
    (" +{}<end>", False), (" {}.0<end>", False), (" {} {}<end>", False), (" -{}<end>", False), (" the answer is {}<end>", False),
    ("<obs> {}</obs><end>", False), (" {}<end><end>", False), ("<think> {}</think><end>", False),
])  # fmt: skip
def test_only_the_number_itself_is_the_answer(write, right):
    env, answer = product()
    reply = env.step(write.format(*[answer] * write.count("{}")))
    assert (reply.reward, reply.done, reply.info["success"]) == (float(right), True, right)


def test_calls_cost_their_price_whatever_the_outcome():
    for last, paid in ((f" {product()[1]}<end>", 1.0), (" 1<end>", 0.0)):
        env, _ = product(price=0.25)
        for _ in range(3):
            assert env.step(act(f"py {env.expression}")).reward == 0.0
        reply = env.step(last)
        assert reply.reward == paid - 0.75 and reply.info["calls"] == 3


def test_a_tool_that_is_down_stays_down_and_the_other_works():
    env, answer = product(failing=1.0)
    for n in (1, 2):
        reply = env.step(act(f"py {env.expression}"))
        assert (reply.text, reply.info["failed"], reply.info["switched"]) == (" down", n, False)
    reply = env.step(act(f"abacus {env.expression}"))
    assert reply.text == f" {answer}" and reply.info["switched"]


def test_the_share_of_tasks_in_which_it_is_down():
    env, down = Calc(failing=0.3), 0
    for seed in range(1000):
        env.reset(seed)
        down += env.down
    assert abs(down / 1000 - 0.3) < 0.05


def test_too_many_calls_end_the_task():
    env, _ = product(calls=2)
    replies = [env.step(act("py 1")) for _ in range(3)]
    assert [r.truncated for r in replies] == [False, False, True] and replies[2].info["success"] is False


def test_without_a_tool_a_call_is_malformed():
    env, _ = product(tool=False)
    reply = env.step(act(f"py {env.expression}"))
    assert reply.text == " error say number" and reply.info["malformed"] and env.expert() == f" {product()[1]}<end>"


# --- Chain ------------------------------------------------------------------------------------------------


def test_the_sums_are_right():
    for seed in range(100):
        env = Chain(depths=(1, 9))
        digits = [int(d) for d in env.reset(seed).replace("=", "").replace("+", "").split()]
        sums = [sum(digits[: i + 1]) % 10 for i in range(1, len(digits))]
        assert (env.steps, env.answer, env.depth) == (sums[:-1], sums[-1], len(digits) - 1)


@pytest.mark.parametrize("score, say, paid, right, steps", [
    ("final", "<think> {s}</think> {a}<end>", True, True, True), ("chain", "<think> {s}</think> {a}<end>", True, True, True),
    ("final", " {a}<end>", True, True, False), ("chain", " {a}<end>", False, True, False),
    ("final", "<think> 1</think> {a}<end>", True, True, False), ("chain", "<think> 1</think> {a}<end>", False, True, False),
    ("chain", "<think> {s}</think><end>", False, False, True), ("final", " {a}", False, False, False),
    ("chain", "<think> {s}</think> {a}", False, False, True), ("final", "<think> {s} {a}<end>", False, False, False),
    ("final", " {a} {a}<end>", False, False, False), ("final", "<think></think> {a}<end>", True, True, False),
])  # fmt: skip
def test_what_a_chain_pays_for(score, say, paid, right, steps):
    env = Chain(depths=(3, 3), score=score)
    env.reset(4)
    assert env.steps != [1]
    reply = env.step(say.format(s=" ".join(map(str, env.steps)), a=env.answer))
    assert (reply.reward, reply.done) == (float(paid), True)
    assert (reply.info["success"], reply.info["right"], reply.info["steps_right"]) == (paid, right, steps)


def test_a_hint_changes_nothing_but_the_first_words():
    plain, hinted, right = Chain(), Chain(hint=0.7), 0
    for seed in range(300):
        task = plain.reset(seed)
        assert hinted.reset(seed) == f" {hinted.hinted} ={task}"
        told = hinted.step(plain.expert()).info
        assert told["success"] and told["hint_right"] == (hinted.hinted == plain.answer)
        right += told["hint_right"]
    assert 0.62 < right / 300 < 0.78


# --- Taste ------------------------------------------------------------------------------------------------


def test_the_utility_of_a_reply_by_hand():
    env = Taste()
    v = env.values("tea")
    assert env.utility("tea", " warm soft<end>") == pytest.approx((v["warm"] + v["soft"]) / 4 - 6 / 8)
    assert env.utility("tea", " warm warm warm<end>") == pytest.approx(v["warm"] / 4 - 5 / 8)  # once
    assert env.utility("tea", " warm bogus<end>") == pytest.approx((v["warm"] - 1) / 4 - 6 / 8)
    assert env.utility("tea", "<end>") == -1.0
    assert env.utility("tea", " warm" * 500) == pytest.approx(v["warm"] / 4 - 3)  # no worse than twice the longest


def test_no_reply_beats_the_experts():
    rng = random.Random(0)
    for topic in TOPICS:
        env = Taste()
        env.topic = topic
        best = env.utility(topic, env.expert())
        others = [" " + " ".join(rng.sample(WORDS, rng.randint(1, 16))) for _ in range(3000)]
        others += [" " + " ".join(sorted(WORDS, key=lambda w: -env.values(topic)[w])[:n]) for n in range(1, 17)]
        assert max(env.utility(topic, said) for said in others) <= best + 1e-12


def test_success_needs_an_end_and_a_readable_length():
    env = Taste()
    env.reset(2)
    said = env.expert()
    assert env.step(said).info["success"] and not env.step(said.removesuffix("<end>")).info["success"]
    long = said.removesuffix("<end>") + " warm" * (LENGTH - 7) + "<end>"
    assert not env.step(long).info["success"] and env.step(said).info["utility"] == env.utility(env.topic, said)


def test_people_choose_as_bradley_and_terry_say():
    env, rng = Taste(noise=0.4), random.Random(3)
    a, b = " warm soft sweet", " cold loud"
    p = 1 / (1 + math.exp(-(env.utility("tea", a) - env.utility("tea", b)) / 0.4))
    share = sum(env.prefer("tea", a, b, rng) for _ in range(4000)) / 4000
    assert 0.02 < p < 0.98 and abs(share - p) < 0.03


def test_groups_agree_in_half_of_their_taste():
    one, other = Taste(group=0).values("rain"), Taste(group=1).values("rain")
    shared = [one[w] * other[w] for w in WORDS]
    spread = [one[w] ** 2 for w in WORDS]
    assert one != other and 0.1 < sum(shared) / sum(spread) < 0.9
    assert Taste(paid=False).values("rain") == one


# --- Finite -----------------------------------------------------------------------------------------------


def test_a_finite_world_pays_what_its_model_pays():
    env = Finite(tmaze(2))
    for seed in range(20):
        cue = env.reset(seed).strip()
        total, up = 0.0, cue.endswith("up")
        for move in ("forward", "forward", "up" if up else "down"):
            reply = env.step(act(move))
            total += reply.reward
        assert reply.done and reply.info["success"] and total == env.total


def test_an_unknown_action_is_malformed_and_moves_nothing():
    env = Finite(tmaze(2))
    env.reset(0)
    state = env.state
    for said in (act("jump"), act("forward forward"), " forward<end>", ""):
        reply = env.step(said)
        assert reply.info["malformed"] and reply.text == " error say act" and env.state == state
    assert reply.reward <= 0
