"""Credit by turn and changed sampling learn in Quest with three rooms (the novice's success: 0.33)."""

import math

import pytest

from arl_mini import Limits, envs, evaluate, models, train
from arl_mini.algorithms import ARPO, DARS, GHPO, GRESO, SRPO, GiGPO, ProRL, SkyworkR1V2
from arl_mini.algorithms import StarPO, StarPOS, TreePO, TurnGRPO

QUEST = Limits(8, 8, 112)
TASKS = tuple(range(64))


def takes_key(episode, turn) -> float:
    """Whether the key was taken in a turn."""
    return float("take key" in episode.said(turn) and not episode.infos[turn].get("illegal"))


LEARN = {
    "StarPO": StarPO(), "bi-level": StarPO(bilevel=True), "StarPOS": StarPOS(), "GiGPO": GiGPO(),
    "TurnGRPO": TurnGRPO(judge=takes_key), "GRESO": GRESO(), "SRPO": SRPO(), "DARS": DARS(most=12),
    "ProRL": ProRL(), "GHPO": GHPO(), "SkyworkR1V2": SkyworkR1V2(), "TreePO": TreePO(), "ARPO": ARPO(),
    "hard ARPO": ARPO(hard=True),
}  # fmt: skip


def learned(name: str, steps: int, seed: int, prompts: int) -> float:
    policy, env, algorithm = models.load("quest-novice"), envs.Quest(3, 8), LEARN[name]
    tasks = TASKS if name in ("GRESO", "SRPO") else ()
    options = dict(steps=steps, prompts=prompts, tries=4, lr=1e-3, seed=seed, limits=QUEST, tasks=tasks)
    assert all(math.isfinite(record.loss) for record in train(policy, env, algorithm, **options))
    return evaluate.success(policy, env, limits=QUEST).mean


@pytest.mark.parametrize("name", LEARN)
def test_learns(name):
    assert learned(name, 6, 0, 12) > 0.33 + 0.04


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARN)
def test_learns_in_every_seed(name):
    for seed in (11, 12, 13):
        assert learned(name, 30, seed, 16) > 0.33 + 0.2
