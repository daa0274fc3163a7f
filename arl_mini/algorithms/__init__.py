"""Algorithms. Each class body is the difference to its parent."""

from .base import Algorithm
from .grpo import DAPO, GRPO, GSPO, DrGRPO
from .policy_gradient import RLOO, Reinforce

__all__ = ["Algorithm", "Reinforce", "RLOO", "GRPO", "DrGRPO", "DAPO", "GSPO"]
