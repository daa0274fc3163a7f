"""What an algorithm is: five hooks in time order, each with a default."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from .. import ops
from ..batch import Batch, Episode
from ..models.score import Scores


@dataclass
class Sampler:
    """What `plan` may ask for: fresh tasks, and episodes of the current policy.

    prompts, tries: how many tasks and how many tries each the run was set to. memory: plain data that the algorithm
    keeps from step to step; it is saved with the run.
    """

    prompts: int
    tries: int
    fresh: Callable[[int], list[int]]  # n → seeds of n tasks not asked for in this step
    rollout: Callable[[Sequence[int], int], list[Episode]]  # (seeds, tries) → episodes, groups of their own
    memory: dict = field(default_factory=dict)
    branch: Callable[[Sequence[Episode], Sequence[int], int], list[Episode]] | None = None
    # (episodes, turns, tries) → `tries` episodes that go on from each one's start of that turn, groups of their own
    logratio: Callable[[Sequence[Episode]], Tensor] | None = None  # episodes → (B,) Σ_t m (ℓ − ℓ_ref) as of now
    demonstrate: Callable[[Sequence[int]], list[Episode]] | None = None  # seeds → one try of the expert each, own groups
    retry: Callable[[Sequence[Episode]], list[Episode]] | None = None  # the same tasks, each after the episode given
    rng: np.random.Generator | None = None  # this step's
    fork: Callable[[Sequence[Episode], Sequence[int], int], list[Episode]] | None = None
    # (episodes, positions, tries) → as `branch`, but from before any sampled token
    tasks: Sequence[int] = ()  # the fixed tasks of the run; (): it draws from all
    reset: Callable[[], None] | None = None  # the reference becomes the policy as of now, the optimizer starts anew
    entropy: Callable[[Sequence[Episode]], Tensor] | None = None  # episodes → (B, T) nats at sampled tokens, as of now


@dataclass(frozen=True)
class Algorithm:
    """The hooks of one update; every algorithm is a subclass that changes some of them.

    plan       which tasks to try, how many tries each → episodes
    reward     (B, T) rewards the update uses, from what the world paid
    keep       which rows to train on
    advantages (B, T) weight of each sampled token, a constant for the gradient
    loss       a scalar to minimise
    """

    def plan(self, sampler: Sampler) -> list[Episode]:
        """Episodes to learn from; by default `tries` of each of `prompts` fresh tasks."""
        return sampler.rollout(sampler.fresh(sampler.prompts), sampler.tries)

    def reward(self, batch: Batch) -> Batch:
        """The batch with the rewards this algorithm pays; the world's own by default."""
        return batch

    def keep(self, batch: Batch) -> Tensor:
        """(B,) bool: rows that enter the update."""
        return torch.ones(len(batch), dtype=torch.bool, device=batch.tokens.device)

    def advantages(self, batch: Batch) -> Tensor:
        """(B, T)."""
        return ops.discount(batch.rewards, batch.mask, 1.0)

    def returns(self, batch: Batch) -> Tensor:
        """(B, T) what a critic is fitted to, batch.returns; asked for only where there is one."""
        return ops.discount(batch.rewards, batch.mask, 1.0)

    def loss(self, scores: Scores, batch: Batch) -> Tensor:
        """A scalar."""
        raise NotImplementedError

    def clipped(self, scores: Scores, batch: Batch) -> Tensor:
        """(B, T) bool: sampled tokens whose gradient a clip cut off."""
        return torch.zeros_like(batch.mask, dtype=torch.bool)

    needs_critic = False  # True: the run trains a value head, and batch.values is there
    critic_steps = 0  # steps at the start of a run in which only the critic learns
    needs_entropy = False  # True: batch.entropy is there

    @property
    def needs_ref(self) -> bool:
        """Whether a reference policy is scored."""
        return getattr(self, "beta", 0.0) != 0.0
