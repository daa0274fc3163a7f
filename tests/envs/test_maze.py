"""Maze and Place: the contract, pictures that are what they say, and what careless policies earn."""

import random

import pytest

from arl_mini.envs import Maze, Place, check_env
from arl_mini.envs.maze import EMPTY, SIZE, picture

OPENS = {  # which sides of a cell a path can leave by
    "A": "d", "│": "ud", "─": "lr", "┼": "udlr", "└": "ur", "┘": "ul", "┐": "ld", "┌": "rd",
    **{str(n): "u" for n in range(1, 5)}, EMPTY: "",
}  # fmt: skip
WAYS = {"u": (-1, 0, "d"), "d": (1, 0, "u"), "l": (0, -1, "r"), "r": (0, 1, "l")}
ACROSS = {"u": "d", "d": "u", "l": "r", "r": "l"}


def walk(cells: list[list[str]]) -> tuple[str, set[tuple[int, int]]]:
    """Follows the path from A, straight over bridges; the number reached and the cells passed."""
    row, column, side, seen = 0, cells[0].index("A"), "d", set()
    while True:
        seen.add((row, column))
        down, right, enters = WAYS[side]
        row, column = row + down, column + right
        cell = cells[row][column]
        assert enters in OPENS[cell], f"the path breaks at {row}, {column}"
        if cell.isdigit():
            return cell, seen | {(row, column)}
        side = ACROSS[enters] if cell == "┼" else OPENS[cell].replace(enters, "")


@pytest.mark.parametrize("paths", [2, 3, 4])
def test_the_path_from_a_ends_at_the_answer_and_the_drawing_shows_it_alone(paths):
    for seed in range(200):
        env = Maze(paths)
        env.reset(seed)
        number, cells = walk(env.cells)
        assert number == str(env.answer)
        assert walk(env.own) == (number, cells)
        drawn = {(r, c) for r in range(SIZE) for c in range(SIZE) if env.own[r][c] != EMPTY}
        assert drawn == cells
        assert sorted(c for c in env.cells[-1] if c != EMPTY) == [str(n) for n in range(1, paths + 1)]


@pytest.mark.parametrize(
    "env", [Maze(), Maze(2), Maze(draw=False), Place()], ids=["maze", "two", "direct", "place"]
)
def test_the_contract(env):
    check_env(env, range(20))


def earned(env, speak, tasks: int = 400) -> float:
    rng, total = random.Random(0), 0.0
    for seed in range(tasks):
        env.reset(seed)
        total += env.step(speak(env, rng)).reward
    return total / tasks


def below(env, rng):
    """The number straight below A, or any where there is none."""
    under = env.cells[-1][env.cells[0].index("A")]
    return env.random(rng) if under == EMPTY else env.direct(int(under))


def elsewhere(env, rng):
    """Any number but that straight below A."""
    under = env.cells[-1][env.cells[0].index("A")]
    return env.direct(rng.choice([n for n in range(1, 5) if str(n) != under]))


def test_careless_answers_earn_no_more_than_chance():
    assert earned(Maze(), lambda env, rng: env.expert()) == 1
    for speak in (lambda env, rng: env.random(rng), lambda env, rng: env.direct(1), below):
        assert earned(Maze(), speak) < 0.32
    assert earned(Maze(), elsewhere) < 0.37
    assert (
        earned(Maze(), lambda env, rng: env.drawn([[EMPTY] * SIZE] * SIZE, 2)) < 0.32
    )  # drawing alone is not paid


def test_a_drawing_must_be_closed_and_may_be_forbidden():
    env = Maze()
    env.reset(1)
    cut = env.expert().replace("</think>", "")
    assert env.step(cut).info["malformed"] and env.step(cut).reward == 0
    closed = Maze(draw=False)
    closed.reset(1)
    assert closed.step(env.expert()).reward == 0 and closed.step(closed.expert()).reward == 1
    assert picture(env.own) in env.expert()


def test_a_scene_is_paid_for_what_is_drawn_not_for_what_is_planned():
    env = Place()
    for seed in range(50):
        env.reset(seed)
        good = env.plan(random.Random(seed))
        bad = {thing: good[other] for thing, other in zip(env.things, env.things[1:] + env.things[:1])}
        reply = env.step(env.write(bad, good))
        assert reply.reward == 1 and not reply.info["as_planned"]
        assert env.step(env.write(good, bad)).reward == float(all(env.holds(bad)))


def test_careless_scenes_earn_little():
    def crowd(env, rng):
        """Every cell full of things."""
        cells = [rng.choice(env.things) for _ in range(9)]
        return f"<think></think>{picture([cells])}<end>"

    def two(env, rng):
        """The right scene with its last thing left out."""
        places = env.plan(rng)
        return env.write(places, {k: v for k, v in places.items() if k != env.things[2]})

    assert earned(Place(), lambda env, rng: env.expert()) == 1
    assert earned(Place(), lambda env, rng: env.random(rng)) < 0.3
    for speak in (crowd, two, lambda env, rng: env.write(env.plan(rng), {})):
        assert earned(Place(), speak) == 0


def test_an_unknown_number_of_paths_is_refused():
    with pytest.raises(ValueError, match="2, 3 or 4"):
        Maze(5)
