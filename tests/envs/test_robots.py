"""Robots: shortest ways are shortest, rewards fall with wasted turns, degenerate players win next to nothing."""

import random

import pytest

from arl_mini.envs import Robots, act, check_env
from arl_mini.envs.robots import MOVES


def ends(speak, tasks=range(60), env=None):
    env = env or Robots()
    paid = []
    for seed in tasks:
        text = env.reset(seed)
        while True:
            reply = env.step(speak(env, text))
            text = reply.text
            if reply.done or reply.truncated:
                break
        paid.append(reply.reward)
    return sum(paid) / len(paid)


def test_it_keeps_the_contract():
    check_env(Robots())
    check_env(Robots(3))


def test_the_expert_takes_the_shortest_way_and_random_does_not():
    assert ends(lambda env, text: env.expert()) == 1.0
    rng = random.Random(0)
    assert ends(lambda env, text: env.random(rng)) < 0.2


LAZY = {
    "constant": act("right down"), "empty": "", "long": act("right " * 60), "idle": act("stay stay"),
    "fake": "<obs> first here . second here</obs>", "end": "<end>",
}  # fmt: skip


@pytest.mark.parametrize("name", LAZY)
def test_no_degenerate_player_wins(name):
    assert ends(lambda env, text: LAZY[name]) < 0.15
    assert ends(lambda env, text: text) == 0.0


def test_a_wasted_turn_costs_a_tenth():
    env = Robots()
    env.reset(4)
    env.step(act("stay stay"))
    while not (reply := env.step(env.expert())).done:
        pass
    assert reply.reward == 0.9 and reply.info["wasted"] == 1


def test_every_pair_of_moves_keeps_two_robots_on_the_floor():
    env, rng = Robots(3), random.Random(1)
    for seed in range(20):
        env.reset(seed)
        for _ in range(8):
            env.step(act(f"{rng.choice(list(MOVES))} {rng.choice(list(MOVES))}"))
            assert env.at[0] != env.at[1] and all(0 <= c < 3 for cell in env.at for c in cell)
