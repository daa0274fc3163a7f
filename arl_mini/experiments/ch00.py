"""Chapter 00: GRPO on Quest."""

from .. import envs, evaluate
from ..algorithms import GRPO
from ..rollout import Limits
from . import kinds
from .kinds import ByReward, Experiment

QUEST = dict(
    steps=60, prompts=16, tries=8, lr=1e-3, minibatches=2, limits=Limits(turn_tokens=12, turns=12, total=256)
)


def measure_quest(policy) -> dict[str, float]:
    """Success on 256 held-out tasks."""
    return {"success": evaluate.success(policy, envs.Quest(), limits=QUEST["limits"]).mean}


REAL = ByReward(envs.Quest(), GRPO(beta=0.01), kinds.REAL)

EXPERIMENTS = {
    "00_start_here/quest": Experiment(
        "GRPO teaches the novice to find the key and open the door.",
        "quest-novice",
        {"GRPO": ByReward(envs.Quest(), GRPO(), QUEST)},
        measure_quest,
    ),
}
