"""Skywork R1V2: rows of earlier steps fill the places of rows without advantage; preferences beside GRPO."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from .. import ops
from ..batch import Batch, Episode, by_group
from ..models.score import Scores
from .base import Sampler
from .grpo import GRPO

KEPT = ("tokens", "mask", "turn", "logp", "rewards")


def stored(episode: Episode) -> dict:
    """A row with its advantage (`weight`) as plain data, for the memory of a run."""
    arrays = {name: torch.from_numpy(np.array(getattr(episode, name))) for name in KEPT}
    return arrays | {"weight": episode.weight, "temperature": episode.temperature, "seed": episode.seed}


def restored(row: dict, tokenizer, group: int) -> Episode:
    """The row again, as a group of its own; its log-probabilities are those of when it was sampled."""
    arrays = {name: row[name].numpy() for name in KEPT}
    return Episode(**row | arrays, group=group, tokenizer=tokenizer, past=True)


def draw(weights: Sequence[float], n: int, rng: np.random.Generator) -> list[int]:
    """Up to n different indices, each with probability ∝ |weight|; one of weight 0 is never drawn."""
    size = np.abs(np.asarray(weights, float))
    n = min(n, int((size > 0).sum()))
    return rng.choice(len(size), n, replace=False, p=size / size.sum()).tolist() if n else []


@dataclass(frozen=True)
class SkyworkR1V2(GRPO):
    """Skywork R1V2: GRPO refilled from a buffer of rows with A ≠ 0, alternating with a mixed preference loss.

    GRPO steps: A from the row's own group when it was sampled. Rows with A = 0 leave; as many come from the
    buffer, drawn with P(i) ∝ |A_i|, with the ℓ_old they were sampled with
    each `every`-th step, on the best and the worst try of each task (w, l):   L = w_p L_p + w_q L_q + w_g L_g
    h = β Σ_t m (ℓ − ℓ_ref),   L_p = softplus(−(h_w − h_l)),   L_g = −1/n_w Σ_t m ℓ_w
    L_q = softplus(−(h_w − δ)) + softplus(h_l − δ),   δ = mean of all h, a constant

    β = margin, w = weights. room: rows that the buffer holds, the latest. beta is the KL of the GRPO steps.
    Source: Wang et al. 2025 (arXiv 2504.16656), selective sample buffer; MPO: Wang et al. 2024 (2411.10442);
    survey Table 2.
    Differs from GRPO in: plan, keep, advantages, loss.
    Departs from the paper: the least certain class here. There is no training code; β, room, the rule of the
    draw and the order of the stages are not in the sources read. No reward model: the world's reward alone.
    """

    every: int = 2
    margin: float = 0.1
    weights: tuple[float, float, float] = (0.8, 0.2, 1.0)
    room: int = 1024
    needs_ref = True

    def plan(self, sampler: Sampler) -> list[Episode]:
        tried = super().plan(sampler)
        rewards, group = (torch.tensor([getattr(e, k) for e in tried]) for k in ("reward", "group"))
        tried = [replace(e, weight=w) for e, w in zip(tried, ops.group_zscore(rewards, group).tolist())]
        buffer = sampler.memory.setdefault("buffer", [])
        first, missing = max(e.group for e in tried) + 1, sum(e.weight == 0 for e in tried)
        picked = draw([row["weight"] for row in buffer], missing, sampler.rng)
        old = [restored(buffer[i], tried[0].tokenizer, first + k) for k, i in enumerate(picked)]
        buffer += [stored(e) for e in tried if e.weight != 0]
        del buffer[: -self.room]
        paired = []
        for number, tries in enumerate(by_group(tried)):
            best, worst = (pick(range(len(tries)), key=lambda i: tries[i].reward) for pick in (max, min))
            split = tries[best].reward > tries[worst].reward
            paired += [
                replace(e, pair=number, chosen=i == best) if split and i in (best, worst) else e
                for i, e in enumerate(tries)
            ]
        return paired + old

    def keep(self, batch: Batch) -> Tensor:
        moved = batch.weight != 0
        return moved if bool(moved.any()) else super().keep(batch)

    def advantages(self, batch: Batch) -> Tensor:
        return ops.per_token(batch.weight, batch.mask)

    def loss(self, scores: Scores, batch: Batch) -> Tensor:
        preferring = (batch.step + 1) % self.every == 0 and bool((batch.pair >= 0).any())
        return self.mixed(scores, batch) if preferring else super().loss(scores, batch)

    def mixed(self, scores: Scores, batch: Batch) -> Tensor:
        """The preference, quality and generation losses of MPO, each a mean over pairs, weighted."""
        w, l = ops.pair_rows(batch.pair, batch.chosen)
        h = self.margin * ops.row_sum(scores.logp - batch.ref_logp, batch.mask)
        delta = torch.cat([h[w], h[l]]).mean().detach()
        quality = softplus(delta - h[w]) + softplus(h[l] - delta)
        said = -ops.row_mean(scores.logp[w], batch.mask[w])
        return sum(k * x.mean() for k, x in zip(self.weights, (softplus(h[l] - h[w]), quality, said)))
