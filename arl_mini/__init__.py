"""Agentic reinforcement learning, in miniature.

    from arl_mini import GRPO, models, train, envs
    for record in train(models.load("quest-novice"), envs.Quest(), GRPO(), steps=40):
        print(record.step, record.success)
"""

from . import algorithms, envs, evaluate, formal, models, ops, rewards
from .algorithms import DAPO, GRPO, GSPO, RLOO, DrGRPO, Reinforce
from .batch import Batch, Episode, collate
from .imitate import imitate
from .rollout import Limits, Sampling, demonstrate, rollout
from .train import Record, Run, Settings, train

__version__ = "0.1.0"

__all__ = [
    "Batch", "DAPO", "DrGRPO", "Episode", "GRPO", "GSPO", "Limits", "RLOO", "Record", "Reinforce", "Run", "Sampling",
    "Settings", "algorithms", "collate", "demonstrate", "envs", "evaluate", "formal", "imitate", "models", "ops", "rewards",
    "rollout", "train",
]  # fmt: skip
