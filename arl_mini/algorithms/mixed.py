"""Mixed batches: rows of the world's expert, and blanked copies of rows, train beside the policy's own tries.

Such rows are ordinary rows with a mark: `batch.expert` (B,) for demonstrations, `batch.blanked` (B,) for
copies. Their old_logp is what the policy gave their tokens before the step's updates: nobody sampled them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from .. import ops
from ..batch import Batch, Episode
from ..models.score import Scores
from ..models.tokenizer import SPECIALS, encode
from .base import Sampler
from .grpo import GRPO


@dataclass(frozen=True)
class LUFFY(GRPO):
    """LUFFY: one try of each group is the expert's, reshaped so that unlikely tokens learn too.

    A_i = R_i − mean_g R over the policy's tries N and the expert's F
    L = 1/Σn_i [ Σ_{i∈N} Σ_t m_it max(−A_i r_it, −A_i clip(r_it, 1−ε, 1+ε)) − Σ_{j∈F} Σ_t m_jt A_j f(π_θ,jt) ]
    f(p) = p / (p + γ),   so ∂f/∂ℓ = γp / (p + γ)²: largest at p = γ

    F = rows with batch.expert, p = e^ℓ (the expert's probability counts as 1), γ = gamma. Of `tries` rows a
    prompt, one is the expert's. Shapes as in GRPO.
    Source: Yan et al. 2025 (arXiv 2504.14945), objective with policy shaping; survey, public list of
    algorithms.
    Differs from GRPO in: plan, advantages (no std), surrogate (expert rows), reduce (all tokens equal).
    Departs from the paper: no entropy bonus (entropies carry no gradient here). The released code also drops
    the clip (clip_low = clip_high = ∞) and divides the token sum by the padded width. The survey prints KL:
    yes; the release has β = 0.
    """

    gamma: float = 0.1

    def plan(self, sampler: Sampler) -> list[Episode]:
        if sampler.tries < 2:
            raise ValueError("LUFFY needs at least 2 tries: one of them is the expert's")
        seeds, tries = sampler.fresh(sampler.prompts), sampler.tries - 1
        tried = sampler.rollout(seeds, tries)
        shown = sampler.demonstrate(seeds)
        return tried + [replace(e, group=tried[i * tries].group) for i, e in enumerate(shown)]

    def advantages(self, batch: Batch) -> Tensor:
        return ops.per_token(ops.group_center(batch.reward, batch.group), batch.mask)

    def surrogate(self, scores: Scores, batch: Batch) -> Tensor:
        p = scores.logp.exp()
        shaped = -batch.advantages * p / (p + self.gamma)
        return torch.where(batch.expert[:, None], shaped, super().surrogate(scores, batch))

    def reduce(self, x: Tensor, batch: Batch) -> Tensor:
        return ops.token_mean(x, batch.mask)

    def clipped(self, scores: Scores, batch: Batch) -> Tensor:
        return super().clipped(scores, batch) & ~batch.expert[:, None]


@dataclass(frozen=True)
class CHORD(GRPO):
    """CHORD: imitation of an expert beside GRPO, with a weight that fades or one for each token.

    L = (1 − μ) L_GRPO(own rows) − μ Σ m φ(p) ℓ / Σ m over expert rows,   φ(p) = sg(p (1 − p)), p = e^ℓ
    μ(step): up in a line to peak within warmup, then a cosine to valley within decay, then valley

    μ = mu(batch.step), peak, valley, warmup, decay in steps. L_GRPO is clipped and averaged over tokens. phi
    False: φ = 1. `share` of all rows are the expert's, on tasks of their own.
    Source: Zhang et al. 2025 (arXiv 2508.11408), CHORD-μ and CHORD-φ; survey Table 2.
    Differs from GRPO in: plan, loss (a second term), reduce (token mean).
    Departs from the paper: nothing. The default is CHORD-φ (μ = 0.1 throughout); CHORD-μ is CHORD(phi=False,
    peak=0.9, valley=0.05, decay=200). Its released example adds a dual clip of 3. The survey's table prints a
    KL term; the example has none.
    """

    peak: float = 0.1
    valley: float = 0.1
    warmup: int = 0
    decay: int = 0
    phi: bool = True
    share: float = 0.2

    def mu(self, step: int) -> float:
        """The weight of imitation after `step` steps."""
        if step < self.warmup:
            return self.peak * step / self.warmup
        done = min(1.0, (step - self.warmup) / self.decay) if self.decay else 1.0
        return self.valley + (self.peak - self.valley) * (1 + math.cos(math.pi * done)) / 2

    def plan(self, sampler: Sampler) -> list[Episode]:
        tried = super().plan(sampler)
        shown = sampler.fresh(round(len(tried) * self.share / (1 - self.share)))
        return tried + (sampler.demonstrate(shown) if shown else [])

    def reduce(self, x: Tensor, batch: Batch) -> Tensor:
        return ops.token_mean(x, batch.mask)

    def loss(self, scores: Scores, batch: Batch) -> Tensor:
        mu, expert, p = self.mu(batch.step), batch.expert[:, None], scores.logp.detach().exp()
        imitation = -(p * (1 - p) if self.phi else 1.0) * scores.logp
        own = super().loss(scores, batch.set(mask=batch.mask * ~expert))
        return (1 - mu) * own + mu * ops.token_mean(imitation, batch.mask * expert)

    def clipped(self, scores: Scores, batch: Batch) -> Tensor:
        return super().clipped(scores, batch) & ~batch.expert[:, None]


@dataclass(frozen=True)
class PAPO(GRPO):
    """PAPO: answers must depend on what was observed: those as likely without it are pushed away.

    L = L_GRPO(rows) − γ k3(ℓ, ℓ′) − η₁ ℓ′ − η₂ ℓ, each a mean over tokens,   k3(ℓ, ℓ′) = e^{ℓ′−ℓ} − (ℓ′ − ℓ)
    − 1

    ℓ = scores.logp of a row, ℓ′ that of its copy: the same sampled tokens behind forced tokens, a share
    `blank` of whose words is replaced by the padding token. Row and copy share batch.pair, copies are marked
    in batch.blanked. γ = gamma, η₁ = eta_copy, η₂ = eta_row: entropy terms that keep ℓ′ from falling without
    bound.
    Source: Wang et al. 2025 (arXiv 2507.06448), objective of PAPO-G with double entropy loss; survey Table 2.
    Differs from GRPO in: plan (copies), loss (three terms), reduce (token mean), clip_high, beta.
    Departs from the paper: text is blanked where the paper blackens patches of a picture. The released code
    holds ℓ′ constant by default (detach=True here), so that η₁ only shifts the value, and adds a dual clip of
    3. On-policy the expected gradient of −ℓ, the estimate of entropy, is zero; what is left of the η₂ term is
    noise.
    """

    clip_high: float = 0.3
    beta: float = 0.01
    gamma: float = 0.02
    eta_copy: float = 0.05
    eta_row: float = 0.05
    blank: float = 0.6
    detach: bool = False

    def plan(self, sampler: Sampler) -> list[Episode]:
        tried = [replace(e, pair=i) for i, e in enumerate(super().plan(sampler))]
        return tried + blanked(tried, self.blank, sampler.rng)

    def reduce(self, x: Tensor, batch: Batch) -> Tensor:
        return ops.token_mean(x, batch.mask)

    def loss(self, scores: Scores, batch: Batch) -> Tensor:
        row, copy = ops.pair_rows(batch.pair, ~batch.blanked)
        seen, blind = scores.logp[row], scores.logp[copy]
        blind = blind.detach() if self.detach else blind
        extra = -self.gamma * ops.kl_k3(seen, blind) - self.eta_copy * blind - self.eta_row * seen
        own = super().loss(scores, batch.set(mask=batch.mask * ~batch.blanked[:, None]))
        return own + ops.token_mean(extra, batch.mask[row])

    def clipped(self, scores: Scores, batch: Batch) -> Tensor:
        return super().clipped(scores, batch) & ~batch.blanked[:, None]


def blanked(episodes: Sequence[Episode], share: float, rng: np.random.Generator) -> list[Episode]:
    """A copy of each episode with a share of its forced tokens blank; special and sampled tokens stay.

    Copies form groups of their own (−1 − group), with the rewards of their originals.
    """
    copies = []
    for episode in episodes:
        tokenizer = episode.tokenizer
        special = [i for s in SPECIALS if len(i := encode(tokenizer, s)) == 1]
        marks = np.isin(episode.tokens, [*tokenizer.all_special_ids, *np.ravel(special)])
        drop = (episode.mask == 0) & ~marks & (rng.random(len(episode)) < share)
        tokens = np.where(drop, tokenizer.pad_token_id, episode.tokens)
        copies.append(replace(episode, tokens=tokens, group=-1 - episode.group, blanked=True))
    return copies
