"""Mixed and LongCalc: both tools in every task, and no way to win without the right answer."""

import random

import pytest

from arl_mini.envs import Calc, LongCalc, Mixed, Wiki, act, check_env
from arl_mini.envs.calc import evaluate


def played(env, seed, speak):
    """The replies of an episode, to its end."""
    env.reset(seed)
    replies = []
    while not (replies and (replies[-1].done or replies[-1].truncated)):
        replies.append(env.step(speak(env)))
    return replies


def test_they_keep_the_contract():
    check_env(Mixed(), range(40))
    check_env(LongCalc(), range(10))
    check_env(LongCalc(failing=1.0), range(10))


def test_tasks_are_those_of_the_two_worlds():
    env, kinds = Mixed(), []
    for seed in range(300):
        task = env.reset(seed)
        kinds.append(env.kind)
        assert task == (Wiki((1, 1)) if env.kind == "fact" else Calc()).reset(seed)
    assert 0.4 < kinds.count("fact") / 300 < 0.6 and {"sum", "product"} < set(kinds)


def test_the_tool_of_the_other_world_answers_and_decides_nothing():
    env = Mixed(facts=1.0)
    env.reset(1)
    other = env.step(act("py 6*7"))
    assert (other.text, other.reward, other.done) == (" 42", 0.0, False) and not other.info["right_tool"]
    assert env.step(env.expert()).text.split()[0] == env.wiki.entity
    env = Mixed(facts=0.0)
    env.reset(1)
    assert env.step(act("search pens")).text == " nothing"
    assert env.step(act("open pens")).text == " no"
    last = played(env, 1, lambda env: act("search pens") if not env.tools else env.expert())[-1]
    assert last.reward == 1.0 and last.info["tool"] == "search" and last.info["right_tool"] is False


@pytest.mark.parametrize("kind, tool, right", [
    ("sum", "", True), ("sum", "py 1+1", True), ("sum", "search ada", False), ("product", "py 2*3", True),
    ("product", "abacus 2*3", True), ("product", "search ada", False), ("fact", "py 1+1", False), ("fact", "search ada", True),
])  # fmt: skip
def test_which_tool_is_right(kind, tool, right):
    env, seed = Mixed(), 0
    while env.reset(seed) and env.kind != kind:
        seed += 1
    reply = env.step(act(tool)) if tool else env.step(" 3<end>")
    assert reply.info["right_tool"] is right and reply.info["kind"] == kind


def test_no_way_around_the_answer():
    """Constant, empty, very long, the prompt again, made-up results, and calls without end."""
    texts = ["", " 42<end>", act("answer baker"), " many" * 300, "<obs> 42</obs> 42<end>", "<end>", act("search ada"),
             act("py 1*1"), act("open ada")]  # fmt: skip
    for say in texts:
        won = [played(Mixed(), seed, lambda env, say=say: say)[-1].info["success"] for seed in range(60)]
        assert sum(won) <= 6  # a constant answer is right now and then
    for env in (Mixed(), LongCalc()):
        won = [played(env, seed, lambda env, t=env.reset(seed): t)[-1].info["success"] for seed in range(30)]
        assert not any(won)


def test_random_wins_less_than_the_expert():
    rng = random.Random(0)
    won = [played(Mixed(), seed, lambda env: env.random(rng))[-1].reward for seed in range(100)]
    assert sum(won) < 40 and all(played(Mixed(), seed, lambda env: env.expert())[-1].reward == 1 for seed in range(40))


def test_settings_that_make_no_sense():
    with pytest.raises(ValueError, match="share"):
        Mixed(facts=2)
    with pytest.raises(ValueError, match="3 turns"):
        Mixed(limit=2)


def test_long_products_have_three_digits_each():
    for seed in range(100):
        env = LongCalc()
        task = env.reset(seed)
        a, b = env.expression.split("*")
        assert len(a) == len(b) == 3 and f" {a} boxes of {b} " in task
        reply = env.step(f" {evaluate(env.expression)}<end>")
        assert reply.reward == 1.0 and reply.info["kind"] == "long"
