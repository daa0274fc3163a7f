"""What counts as a drawn path, and which tokens each level of a two-level picture trains."""

import random

import pytest
import torch

from arl_mini import GRPO, collate, envs
from arl_mini.capabilities.drawing import OneLevel, valid_path
from arl_mini.envs.maze import EMPTY
from arl_mini.models import TinyLM, tokenizer
from arl_mini.rollout import demonstrate


def flat(rows) -> list[str]:
    return [cell for row in rows for cell in row]


@pytest.mark.parametrize("paths", [2, 4])
def test_the_own_path_is_valid_and_every_change_of_one_cell_is_not(paths):
    env, rng = envs.Maze(paths), random.Random(0)
    pieces = [EMPTY, *envs.maze.Maze.words.split(), "1", "2"]
    for seed in range(60):
        env.reset(seed)
        path = flat(env.own)
        assert valid_path(path, env.cells)
        for _ in range(30):
            i, piece = rng.randrange(36), rng.choice(pieces)
            other = [*path[:i], piece, *path[i + 1 :]]
            assert valid_path(other, env.cells) == (other == path)


def test_another_path_of_the_maze_is_valid_only_from_a():
    env = envs.Maze(2)
    env.reset(3)
    assert not valid_path(flat(env.cells), env.cells)  # both paths at once
    assert not valid_path([EMPTY] * 36, env.cells) and not valid_path([], env.cells)
    assert not valid_path(flat(env.own)[:-1], env.cells)
    other = envs.Maze(2)
    other.reset(4)
    assert not valid_path(flat(other.own), env.cells)


def test_a_path_may_turn_into_itself_without_end():
    ring = ["A", *[EMPTY] * 5, "└", "┐", *[EMPTY] * 4, "┌", "┘", *[EMPTY] * 22]
    cells = [ring[i : i + 6] for i in range(0, 36, 6)]
    assert not valid_path(ring, cells)


@pytest.fixture
def batch():
    policy = TinyLM.new("nano", tokenizer.build(envs.Place.words))
    shown = demonstrate(policy, envs.Place(), [0, 0, 1, 1], lambda env: env.expert())
    for episode, reward in zip(shown, (1.0, 0.0, 0.0, 1.0)):
        episode.rewards[-1] = reward
        episode.group = episode.seed
    return collate(shown)


def test_the_two_levels_share_out_the_tokens(batch):
    whole, plan, picture = (
        algorithm.advantages(batch)
        for algorithm in (GRPO(), OneLevel(level="plan"), OneLevel(level="picture"))
    )
    assert torch.equal(plan + picture, whole)
    for row, episode in enumerate(batch.episodes):
        trained = {kind: [episode.pieces[t] for t in adv[row].nonzero()[:, 0] if batch.mask[row, t]]
                   for kind, adv in (("plan", plan), ("picture", picture))}  # fmt: skip
        assert (
            trained["plan"][0] == "<think>"
            and trained["plan"][-1] == "</think>"
            and len(trained["plan"]) == 8
        )
        assert trained["picture"][-1] == "<end>" and len(trained["picture"]) == 10


def test_an_unknown_level_is_refused():
    with pytest.raises(ValueError, match="'plan' or 'picture'"):
        OneLevel(level="both")
