"""Bootcamp: every kind against an answer worked out another way, the contract, and players that must not win."""

import random

import pytest

from arl_mini.envs import act, check_env
from arl_mini.envs.bootcamp import KINDS, PUZZLES, Bootcamp
from arl_mini.models.tokenizer import END, pieces

WORLDS = [
    Bootcamp(),
    Bootcamp(("calc",)),
    Bootcamp(("parity", "brackets"), (1, 9)),
    Bootcamp(("lookup", "chain"), (9, 9)),
]
worlds = pytest.mark.parametrize("env", WORLDS, ids=["all", "calc", "two", "long"])


@worlds
def test_it_keeps_the_contract(env):
    check_env(env, seeds=range(60))


def solved(kind: str, task: str) -> str:
    """The answer as a reader of the task would find it."""
    words = task.removesuffix(" =").split()
    match kind:
        case "parity":
            return ("even", "odd")[words.count("1") & 1]
        case "sort":
            return " ".join(d for digit in "0123456789" for d in words if d == digit)
        case "copy":
            return " ".join(words)
        case "count":
            return str(words[2:].count(words[0]))
        case "lookup":
            key, rows = words[0], " ".join(words[2:]).split(" , ")
            return next(value for k, value in (row.split(" : ") for row in rows) if k == key)
    text = "".join(words)
    while (shorter := text.replace("()", "").replace("[]", "")) != text:
        text = shorter
    return " ".join(text[::-1].translate(str.maketrans("([", ")]")))


@pytest.mark.parametrize("kind", PUZZLES)
def test_the_answer_is_the_readers(kind):
    env = Bootcamp((kind,), (1, 7))
    for seed in range(200):
        task = env.reset(seed).removeprefix(f" {kind}")
        assert env.answer.strip() == solved(kind, task), task
        assert env.step(f" {solved(kind, task)}{END}").reward == 1.0


def test_a_seed_tells_its_kind_and_size_beforehand():
    env, seen = Bootcamp(sizes=(2, 4)), set()
    for seed in range(300):
        env.reset(seed)
        assert env.drawn(seed) == (env.kind, env.size)
        seen.add((env.kind, env.size))
    assert seen == {(kind, size) for kind in KINDS for size in (2, 3, 4)}


def test_chain_and_calc_are_the_worlds_of_that_name():
    env = Bootcamp(("chain",), (3, 3))
    assert env.reset(1).count("+") == 3 and env.step(env.expert()).info["depth"] == 3
    env = Bootcamp(("calc",))
    env.reset(0)
    assert env.step(act(f"py {env.within.expression}")).text.strip().isdigit()


@pytest.mark.parametrize("kinds", [("nothing",), ()])
def test_unknown_kinds_are_an_error(kinds):
    with pytest.raises(ValueError, match="parity"):
        Bootcamp(kinds)


def won(env, speak, seeds=range(400)) -> float:
    wins = 0
    for seed in seeds:
        task = env.reset(seed)
        for _ in range(12):
            reply = env.step(speak(env, task))
            if reply.done or reply.truncated:
                break
        wins += bool(reply.info.get("success"))
    return wins / len(seeds)


def test_the_expert_beats_chance_and_lazy_players_lose():
    env, rng = Bootcamp(), random.Random(0)
    assert won(env, lambda env, task: env.expert()) == 1.0
    chance = won(env, lambda env, task: env.random(rng))
    assert chance < 0.25
    lazy = {
        "constant digit": lambda env, task: f" 1{END}", "constant word": lambda env, task: f" odd{END}",
        "empty": lambda env, task: END, "copies": lambda env, task: task + END, "long": lambda env, task: " 1" * 40 + END,
        "copies the digits": lambda env, task: task.removeprefix(f" {env.kind}").removesuffix(" =") + END,
        "fakes a result": lambda env, task: f" 1<obs> right</obs>{END}", "calls for nothing": lambda env, task: act("py 1"),
    }  # fmt: skip
    shares = {name: won(env, speak) for name, speak in lazy.items()}
    assert max(shares.values()) < 0.2, shares


@pytest.mark.parametrize("kind", PUZZLES)
def test_chance_is_well_below_the_expert_in_every_kind(kind):
    rng = random.Random(1)
    assert won(Bootcamp((kind,), (3, 5)), lambda env, task: env.random(rng)) < 0.6


def test_words_of_a_random_player_are_known():
    env, rng = Bootcamp(), random.Random(0)
    known = set(pieces(env.words)) | {f" {d}" for d in range(10)}
    for seed in range(100):
        env.reset(seed)
        assert {p for p in pieces(env.random(rng)) if len(p) > 1} <= known
