"""What reinforcement learning is told about thinking: which tokens to train on, what length costs, how long
is too long."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..algorithms import GRPO
from ..batch import Batch
from ..rewards import at_end


def entropy_mask(entropy: Tensor, mask: Tensor, share: float) -> Tensor:
    """1 at the `share` of sampled tokens with the highest entropy, (B, T); never at forced ones.

    Exactly ⌈share·n⌉ of the n sampled tokens of the batch; of equals the earlier ones.
    """
    if entropy.shape != mask.shape:
        raise ValueError(f"entropy {tuple(entropy.shape)} and mask {tuple(mask.shape)} must have one shape")
    if not 0 < share <= 1:
        raise ValueError(f"share is a part of the sampled tokens in (0, 1], got {share}")
    place = (mask > 0).flatten().nonzero()[:, 0]
    order = entropy.flatten()[place].sort(descending=True, stable=True).indices
    kept = place[order[: math.ceil(share * len(place))]]
    return torch.zeros_like(mask).flatten().index_fill(0, kept, 1.0).view_as(mask)


@dataclass(frozen=True)
class Forks(GRPO):
    """The 80/20 rule: only the tokens at which the policy was least sure are trained.

    L = 1/Σn_i Σ_i Σ_t m_it 1[H_it in the top ρ of the batch] max(−A_i r_it, −A_i clip(r_it, 1−ε, 1+ε))

    H = batch.entropy (B, T), of the policy before the step's updates; ρ = share. rest True: the other tokens
    instead.
    Source: Wang et al. 2025 (arXiv 2506.01939), Eq. 5 and 6; survey section 3.5.
    Differs from GRPO in: reduce (token mean), surrogate (masked), needs_entropy.
    Departs from the paper: the top ρ is taken of the whole step, and clip and sampling are GRPO's, not
    DAPO's.
    """

    share: float = 0.2
    rest: bool = False
    needs_entropy = True

    def chosen(self, batch: Batch) -> Tensor:
        """(B, T) 1 at the tokens that are trained."""
        top = entropy_mask(batch.entropy, batch.mask, self.share)
        return batch.mask - top if self.rest else top

    def advantages(self, batch: Batch) -> Tensor:
        return super().advantages(batch) * self.chosen(batch)  # before minibatches part the step

    def reduce(self, x: Tensor, batch: Batch) -> Tensor:
        return (x * batch.mask).sum() / batch.mask.sum().clamp(min=1)


def length_reward(right: Tensor, length: Tensor, price: float, only_right: bool = False) -> Tensor:
    """right − price·length, (B,); only_right: wrong answers get 0 however long, so none gains by being
    short."""
    if right.shape != length.shape:
        raise ValueError(f"right {tuple(right.shape)} and length {tuple(length.shape)} must have one shape")
    return right - price * length * (right if only_right else 1.0)


@dataclass(frozen=True)
class Priced(GRPO):
    """GRPO in which every sampled token costs `price`; only_right: of right answers only.

    R_i = right_i − price·n_i,   or   right_i·(1 − price·n_i)

    right = batch.success, n_i = sampled tokens of the row. The length cost of Kimi k1.5 and of L1's kin, in
    its plainest form.
    Differs from GRPO in: reward.
    """

    price: float = 0.02
    only_right: bool = False

    def reward(self, batch: Batch) -> Batch:
        paid = length_reward(batch.success.to(batch.rewards), batch.mask.sum(1), self.price, self.only_right)
        return batch.set(rewards=at_end(paid, batch.mask))


@dataclass(frozen=True)
class ThinkPrune(GRPO):
    """ThinkPrune: right answers count only within a limit of tokens, and the limit shrinks in stages.

    R_i = r_i if n_i ≤ L_k else 0,   k = ⌊step / each⌋, at most the last stage

    L = limits, in sampled tokens; n_i = sampled tokens of the row; each = steps a stage.
    Source: Hou et al. 2025 (arXiv 2504.01296).
    Differs from GRPO in: reward.
    Departs from the paper: a reply beyond the limit is sampled to its end and then earns nothing, where the
    paper cuts it off; stages have a fixed number of steps.
    """

    limits: tuple[int, ...] = (24, 16, 8)
    each: int = 10

    def reward(self, batch: Batch) -> Batch:
        limit = self.limits[min(batch.step // self.each, len(self.limits) - 1)]
        within = (batch.mask.sum(1) <= limit).to(batch.rewards)
        return batch.set(rewards=batch.rewards * within[:, None])
