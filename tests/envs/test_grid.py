"""Grid: what it shows against the maze itself, its shortest ways against search in the engine, and what it pays."""

import collections
import random
import subprocess
import sys

import pytest

from arl_mini.envs import Grid, act
from arl_mini.envs.grid import COMMANDS, STEPS


def shortest(env: Grid) -> int:
    """Turns to success by breadth-first search in copies of the world."""
    edge, seen = collections.deque([(env, 0)]), set()
    while edge:
        here, turns = edge.popleft()
        for command in COMMANDS:
            there = here.clone()
            if there.step(act(command)).done:
                return turns + 1
            if there._state() not in seen:
                seen.add(there._state())
                edge.append((there, turns + 1))
    raise AssertionError("there is a way")


@pytest.mark.parametrize("kind", ["goal", "key", "door"])
def test_ways_are_shortest(kind):
    for seed in range(6):
        env = Grid(5, (kind,), limit=40)
        env.reset(seed)
        assert len(env.way()) == env.shortest == shortest(env)


def thing_at(env: Grid, cell) -> str:
    thing = env.engine.grid.get(*cell)
    return "free" if thing is None else thing.type


def test_it_shows_what_is_beside_the_agent():
    rng, seen = random.Random(0), set()
    for seed in range(40):
        env = Grid(7)
        text = env.reset(seed)
        for _ in range(8):
            words, (x, y), facing = text.split(), map(int, env.engine.agent_pos), int(env.engine.agent_dir)
            for side, turn in (("front", 0), ("left", -1), ("right", 1)):
                step = STEPS[(facing + turn) % 4]
                shown = words[words.index(side) + 1]
                assert shown == thing_at(env, (x + step[0], y + step[1]))
                seen.add(shown)
            reply = env.step(env.random(rng))
            if reply.done:
                break
            text = reply.text
    assert seen == {"free", "wall", "goal", "key", "door"}


def test_things_stand_where_it_says():
    for seed in range(60):
        env = Grid(9, ("goal",), walled=0.0, limit=60)
        text = env.reset(seed)
        if ". goal" not in text:
            continue
        words = text.split(". goal")[1].split()
        told = {words[i]: int(words[i + 1]) for i in range(0, len(words), 2)}
        ahead, right = told.get("ahead", 0), told.get("right", 0) - told.get("left", 0)
        (x, y), facing = map(int, env.engine.agent_pos), int(env.engine.agent_dir)
        (ax, ay), (rx, ry) = STEPS[facing], STEPS[(facing + 1) % 4]
        assert (x + ahead * ax + right * rx, y + ahead * ay + right * ry) == env.engine.goal


def test_the_door_needs_the_key():
    env = Grid(6, ("door",), limit=40)
    env.reset(1)
    way = env.way()
    assert way[-1] == "toggle" and "pick" in way
    locked = env.clone()
    locked.engine.agent_pos, locked.engine.agent_dir = (locked.engine.door[0] - 1, locked.engine.door[1]), 0
    assert not locked.step(act("toggle")).done
    for command in way[:-1]:
        assert not env.step(act(command)).done
    reply = env.step(act("toggle"))
    assert reply.done and reply.info["spl"] == 1.0


def test_a_detour_lowers_the_path_length_score():
    env = Grid()
    env.reset(0)
    n = env.shortest
    for command in ("left", "left", "left", "left"):
        env.step(act(command))
    while not (reply := env.step(env.expert())).done:
        pass
    assert reply.info["spl"] == pytest.approx(n / (n + 4))


def test_a_hint_tells_the_way_and_has_its_price():
    env = Grid(hint=0.1)
    env.reset(0)
    hinted = env.step(act("plan")).text.split()
    assert hinted == env.way()[:4] and env.step(act("plan")).info["plans"] == 2
    while not (reply := env.step(env.expert())).done:
        pass
    assert reply.reward == pytest.approx(0.8) and reply.info["spl"] == 1.0, "asking is no step"
    without = Grid()
    without.reset(0)
    assert without.step(act("plan")).info["illegal"]


def test_half_of_the_tasks_have_a_wall():
    def walls(env):
        grid = env.engine.grid
        inner = range(1, env.size - 1)
        return sum(thing_at(env, (x, y)) == "wall" for x in inner for y in inner if grid)

    env = Grid(7, ("goal", "key"))
    counts = [env.reset(seed) and walls(env) for seed in range(200)]
    assert set(counts) == {0, 4} and 70 < counts.count(4) < 130


def test_the_engine_greets_nobody():
    code = "from arl_mini.envs import Grid; Grid().reset(0)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert said.returncode == 0 and said.stdout == ""


def test_without_the_engine_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "minigrid", None)
    with pytest.raises(ModuleNotFoundError, match=r"arl-mini\[worlds\]"):
        Grid().reset(0)
