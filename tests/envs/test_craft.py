"""Craft: its recipes, its plans against brute force, and what it pays."""

import random
from collections import Counter

import pytest

from arl_mini.envs import Craft, act
from arl_mini.envs.craft import RAW, RECIPES, STATIONS, THINGS, depth, needs, plan, raw


def at(bag: str, field: str, goal: str = "pick") -> Craft:
    """A world with this in the bag and in the field."""
    env = Craft(depths=(1, 4))
    env.reset(0)
    env.goal, env.bag, env.field = goal, Counter(bag.split()), Counter(field.split())
    return env


def test_recipes_are_a_tree_of_things():
    assert set(STATIONS) <= set(RECIPES) and not set(RAW) & set(RECIPES)
    for thing in RECIPES:
        assert set(needs(thing)) <= set(THINGS) and all(depth(need) < depth(thing) for need in needs(thing))
    assert [depth(t) for t in ("wood", "plank", "stick", "hammer", "pick")] == [0, 1, 2, 3, 4]
    assert raw("pick") == Counter(ore=1, wood=2, stone=2)


def shortest(env: Craft) -> int | None:
    """Turns to the goal by breadth-first search over everything that can be done."""
    edge, seen, turns = [env], set(), 0
    while edge:
        turns, reached = turns + 1, []
        for here in edge:
            for command in here.legal():
                there = here.clone()
                there.turns = -100
                if there.step(act(command)).done:
                    return turns
                state = (*sorted((+there.bag).items()), "|", *sorted((+there.field).items()))
                if state not in seen:
                    seen.add(state)
                    reached.append(there)
        edge = reached
    return None


@pytest.mark.parametrize("seed", range(30))
def test_plans_are_shortest_and_find_a_way_where_there_is_one(seed):
    """From positions that a random player reached, dead ends among them."""
    rng, env = random.Random(seed), Craft(depths=(1, 2), spare=1)
    env.reset(seed)
    for _ in range(rng.randrange(4)):
        if env.step(env.random(rng)).done:
            return
    found, wanted = plan(env.goal, env.bag, env.field), shortest(env)
    assert (None if found is None else len(found)) == wanted


def test_some_positions_are_dead_ends():
    env = at("wood", "ore stone stone stone stone", goal="metal")
    assert env.step(act("make plank")).info["left"] == -1
    env = at("wood", "ore stone stone", goal="metal")
    assert env.step(act("get ore")).info["left"] == 6


def test_making_takes_the_parts_and_keeps_the_station():
    env = at("ore wood kiln", "stone")
    assert env.step(act("make metal")).text == " bag kiln 1 metal 1 . field stone 1"
    env = at("ore wood", "stone")
    reply = env.step(act("make metal"))
    assert reply.text == " no" and reply.info["illegal"] and +env.bag == Counter(ore=1, wood=1)


@pytest.mark.parametrize("command", ["get gold", "get plank", "get ore", "make wood", "make bell", "make", "get", "take wood", "get 3"])
def test_what_cannot_be_done_is_answered_no_and_changes_nothing(command):
    env = at("wood", "stone")
    reply = env.step(act(command))
    assert reply.text == " no" and (+env.bag, +env.field) == (Counter(wood=1), Counter(stone=1))


def test_the_deadline_is_the_shortest_plan_and_the_slack():
    for seed in range(60):
        env = Craft(depths=(1, 4), slack=0)
        env.reset(seed)
        turns = 0
        while True:
            reply = env.step(env.expert())
            turns += 1
            if reply.done:
                break
        assert turns == env.limit and reply.reward == 1.0
    env = Craft(slack=1)
    env.reset(0)
    wasted = [env.step(act("get nothing")) for _ in range(env.limit)]
    assert [r.truncated for r in wasted] == [False] * (env.limit - 1) + [True] and not wasted[-1].info["success"]


def test_discoveries_pay_once_and_add_up_to_one():
    env = Craft(score="discoveries")
    env.reset(1)
    paid = [env.step(act(c)).reward for c in ("get wood", "make plank", "get wood", "make plank")]
    assert paid == [0, 1 / 12, 0, 0]
    total = sum(paid)
    while True:
        reply = env.step(env.expert())
        total += reply.reward
        if reply.done:
            break
    assert total == pytest.approx(1.0) and reply.info["made"] == 12


def test_a_legal_command_changes_something():
    rng, env = random.Random(0), Craft(depths=(1, 4))
    for seed in range(40):
        env.reset(seed)
        for _ in range(4):
            before = (Counter(env.bag), Counter(env.field))
            reply = env.step(env.random(rng))
            if reply.done or reply.truncated:
                break
            assert (env.bag, env.field) != before
