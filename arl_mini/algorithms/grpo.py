"""GRPO and its repairs: score a try against the other tries of the same prompt, without a critic."""

from dataclasses import dataclass

import torch
from torch import Tensor

from .. import ops
from ..batch import Batch, Episode
from ..models.score import Scores
from ..rewards import at_end
from .base import Algorithm, Sampler


@dataclass(frozen=True)
class GRPO(Algorithm):
    """GRPO: the advantage of every token of a try is the z-score of its reward within its group.

    A_i = (R_i − mean_g R) / (std_g R + 1e-6)
    L = 1/B Σ_i 1/n_i Σ_t m_it [ max(−A_i r_it, −A_i clip(r_it, 1−ε, 1+ε)) + β k3_it ]
    r = π_θ/π_old,   k3 = π_ref/π_θ − log(π_ref/π_θ) − 1

    R = batch.reward (B,), g = batch.group, m = batch.mask, n_i = Σ_t m_it, ε_low = clip_low,
    ε_high = clip_high, β = beta (0: no reference policy is needed). Off by default, since public code has them
    and the paper has not: dual_clip c (a token with A < 0 costs at most −A c), log_clamp (log r is held
    within ± this before the exponential).
    Source: Shao et al. 2024 (arXiv 2402.03300), Eq. 3 and 4; survey Eq. (16), (17).
    Differs from RLOO in: std division, ratio with clip, mean over a row's tokens.
    Departs from the paper: std has Bessel's correction, as all public code has and the paper leaves open; a
    group of one, or of equal rewards, has A = 0, where Eq. (17) divides by zero. Survey Eq. (16) prints
    neither KL nor 1/n_i; the paper has both, and so has this class. beta defaults to 0, the paper's value is
    0.04. TRL multiplies k3 by r unless told otherwise, for an unbiased gradient of the KL.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    beta: float = 0.0
    dual_clip: float = 0.0
    log_clamp: float = 0.0

    def advantages(self, batch: Batch) -> Tensor:
        return ops.per_token(ops.group_zscore(batch.reward, batch.group), batch.mask)

    def ratio(self, scores: Scores, batch: Batch) -> Tensor:
        """(B, T) importance ratio of each token."""
        if not self.log_clamp:
            return ops.ratio(scores.logp, batch.old_logp)
        return (scores.logp - batch.old_logp).clamp(-self.log_clamp, self.log_clamp).exp()

    def surrogate(self, scores: Scores, batch: Batch) -> Tensor:
        """(B, T) what a token costs, before KL and mean."""
        ratio = self.ratio(scores, batch)
        return ops.clipped_surrogate(ratio, batch.advantages, self.clip_low, self.clip_high, self.dual_clip)

    def reduce(self, x: Tensor, batch: Batch) -> Tensor:
        """Token losses (B, T) to a scalar."""
        return ops.sequence_mean(x, batch.mask)

    def loss(self, scores: Scores, batch: Batch) -> Tensor:
        x = self.surrogate(scores, batch)
        if self.beta:
            x = x + self.beta * ops.kl_k3(scores.logp, batch.ref_logp)
        return self.reduce(x, batch)

    def clipped(self, scores: Scores, batch: Batch) -> Tensor:
        ratio = self.ratio(scores, batch)
        cut = ops.is_clipped(ratio, batch.advantages, self.clip_low, self.clip_high, self.dual_clip)
        return cut & (batch.mask > 0)


@dataclass(frozen=True)
class DrGRPO(GRPO):
    """Dr.GRPO: drop the two divisions that bias GRPO, by the group's std and by the row's length.

    A_i = R_i − mean_g R,   L = 1/(B·L_max) Σ_i Σ_t m_it max(−A_i r_it, −A_i clip(r_it, 1−ε, 1+ε))

    L_max = length, a constant: the generation budget in sampled tokens.
    Source: Liu et al. 2025 (arXiv 2503.20783), Eq. in §3.2 and Appendix A.
    Differs from GRPO in: advantages (no std), reduce (constant divisor), no KL.
    Departs from the paper: length defaults to 32 tokens, the paper's budget is 3,000. TRL divides by the
    padded completion limit, verl by the padded width: the same up to this constant.
    """

    length: int = 32

    def advantages(self, batch: Batch) -> Tensor:
        return ops.per_token(ops.group_center(batch.reward, batch.group), batch.mask)

    def reduce(self, x: Tensor, batch: Batch) -> Tensor:
        return ops.constant_mean(x, batch.mask, self.length)


@dataclass(frozen=True)
class DAPO(GRPO):
    """DAPO: clip higher, prompts without contrast are replaced, tokens weigh equally, overlong tries cost.

    L = 1/Σn_i Σ_i Σ_t m_it max(−A_i r_it, −A_i clip(r_it, 1−ε_low, 1+ε_high)),  0 < #right < G in every group
    R_i ← R_i + overlong(n_i): 0 up to L_max − L_c, then falling in a line to −1 at L_max

    ε_low = clip_low, ε_high = clip_high, L_max = length and L_c = soft, both in sampled tokens (length 0: no
    such penalty); rounds = how often new prompts are asked for until as many groups with contrast are there.
    Source: Yu et al. 2025 (arXiv 2503.14476), Eq. 8 to 13.
    Differs from GRPO in: plan (dynamic sampling), reward (overlong), keep, clip_high, reduce.
    Departs from the paper: contrast is judged on the reward before the overlong penalty, as the released
    recipe does with accuracy. The survey's table prints a KL term; the paper has none.
    """

    clip_high: float = 0.28
    length: int = 0
    soft: int = 0
    rounds: int = 10

    def plan(self, sampler: Sampler) -> list[Episode]:
        kept: list[Episode] = []
        for _ in range(self.rounds):
            missing = sampler.prompts - len(kept) // sampler.tries
            tried = sampler.rollout(sampler.fresh(missing), sampler.tries)
            contrast = ops.group_signal(
                torch.tensor([e.reward for e in tried]), torch.tensor([e.group for e in tried])
            )
            kept += [e for e, signal in zip(tried, contrast.tolist()) if signal]
            if len(kept) == sampler.prompts * sampler.tries:
                break
        return kept or tried

    def reward(self, batch: Batch) -> Batch:
        if not self.length:
            return batch
        n = batch.mask.sum(1)
        penalty = ((self.length - self.soft - n) / max(self.soft, 1)).clamp(-1, 0)
        return batch.set(rewards=batch.rewards + at_end(penalty, batch.mask))

    def reduce(self, x: Tensor, batch: Batch) -> Tensor:
        return ops.token_mean(x, batch.mask)


@dataclass(frozen=True)
class GSPO(GRPO):
    """GSPO: one importance ratio a row, because there is one reward a row.

    L = 1/B Σ_i max(−A_i s_i, −A_i clip(s_i, 1−ε_low, 1+ε_high))
    s_i = exp(1/n_i Σ_t m_it (ℓ_it − ℓ_old,it))

    s = ops.sequence_ratio (B, 1), spread over the row's tokens so that the row mean gives it back.
    Source: Zheng et al. 2025 (arXiv 2507.18071), Eq. 5 and 7; clip widths from its §5.1.
    Differs from GRPO in: ratio, clip_low, clip_high.
    Departs from the paper: nothing. The survey's table prints a KL term; the paper has none.
    """

    clip_low: float = 3e-4
    clip_high: float = 4e-4

    def ratio(self, scores: Scores, batch: Batch) -> Tensor:
        return ops.sequence_ratio(scores.logp, batch.old_logp, batch.mask).expand_as(batch.mask)


@dataclass(frozen=True)
class GSPOToken(GRPO):
    """GSPO-token: GSPO's ratio with the gradient of each token, so that advantages may differ within a row.

    L = 1/B Σ_i 1/n_i Σ_t m_it max(−A_it s_it, −A_it clip(s_it, 1−ε_low, 1+ε_high))
    s_it = sg(s_i) · e^{ℓ_it − sg(ℓ_it)}

    s_i = ops.sequence_ratio (B, 1), sg = detach: every token of a row has the value s_i.
    Source: Zheng et al. 2025 (arXiv 2507.18071), §4.3; not a row of the survey's table.
    Differs from GRPO in: ratio, clip_low, clip_high. Where A is equal within rows, value and gradient are
    GSPO's.
    Departs from the paper: nothing.
    """

    clip_low: float = 3e-4
    clip_high: float = 4e-4

    def ratio(self, scores: Scores, batch: Batch) -> Tensor:
        whole = ops.sequence_ratio(scores.logp, batch.old_logp, batch.mask).detach()
        return whole * (scores.logp - scores.logp.detach()).exp()


@dataclass(frozen=True)
class GMPO(GRPO):
    """GMPO: the geometric mean of a row's token ratios, not the arithmetic: extreme tokens weigh less.

    L = −1/B Σ_i A_i exp(1/n_i Σ_t m_it d*_it),   d = ℓ − ℓ_old
    d* = min(d, clip(d, −a, b)) where A_i > 0,  max(d, clip(d, −a, b)) where A_i < 0

    a = clip_low, b = clip_high: bounds of the *logarithm* of the ratio, so r is held within (e^−a, e^b) on
    the side that A pushes to. The row's value stands at each of its tokens, and the row mean gives it back.
    Source: Zhao et al. 2025 (arXiv 2507.20673), objective of §3; clip width from its released script.
    Differs from GRPO in: ratio, surrogate, clip_low, clip_high. Without a clip at work it is GSPO unclipped.
    Departs from the paper: nothing. The survey's table prints a KL term; the released code has none.
    """

    clip_low: float = 0.4
    clip_high: float = 0.4

    def ratio(self, scores: Scores, batch: Batch) -> Tensor:
        d = scores.logp - batch.old_logp
        held = d.clamp(-self.clip_low, self.clip_high)
        d = torch.where(batch.advantages > 0, torch.minimum(d, held), torch.maximum(d, held))
        return ops.row_mean(d, batch.mask).exp()[:, None].expand_as(d)

    def surrogate(self, scores: Scores, batch: Batch) -> Tensor:
        return -batch.advantages * self.ratio(scores, batch)

    def clipped(self, scores: Scores, batch: Batch) -> Tensor:
        d = scores.logp - batch.old_logp
        return ops.is_clipped(1 + d, batch.advantages, self.clip_low, self.clip_high) & (batch.mask > 0)


@dataclass(frozen=True)
class CISPO(GRPO):
    """CISPO: clip the importance weight of REINFORCE, not the update, so that no token loses its gradient.

    L = −1/Σn_i Σ_i Σ_t m_it sg(clip(r_it, 1−ε_low, 1+ε_high)) A_i ℓ_it

    ε_low = clip_low (1: no lower bound), ε_high = clip_high: the cap is 1 + ε_high. sg = detach.
    Source: MiniMax 2025 (arXiv 2506.13585), §3.1; not a row of the survey's table.
    Differs from GRPO in: surrogate, reduce, clip_low, clip_high. On-policy its gradient is DAPO's.
    Departs from the paper: clip_high = 0.28, which the paper tunes and does not state. In TRL `epsilon_high`
    is the cap itself (its 5 is clip_high = 4 here); verl keeps a lower bound (clip_low = 0.2). Loss values
    are not comparable with those of a clipped surrogate.
    """

    clip_low: float = 1.0
    clip_high: float = 0.28

    def surrogate(self, scores: Scores, batch: Batch) -> Tensor:
        weight = self.ratio(scores, batch).detach().clamp(1 - self.clip_low, 1 + self.clip_high)
        return -weight * batch.advantages * scores.logp

    def reduce(self, x: Tensor, batch: Batch) -> Tensor:
        return ops.token_mean(x, batch.mask)

    def clipped(self, scores: Scores, batch: Batch) -> Tensor:
        return torch.zeros_like(batch.mask, dtype=torch.bool)
