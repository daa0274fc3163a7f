"""PPO and its kin: several updates on one batch, each within a band around the policy that sampled it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from .. import ops
from ..batch import Batch, Episode
from ..models.score import Scores
from .base import Algorithm, Sampler
from .grpo import GRPO

Estimator = Callable[[Tensor, Tensor], Tensor]


def adapted(beta: float, kl: float, target: float, share: float) -> float:
    """β after a step in which the KL was `kl` nats a row: β (1 + clip(KL/target − 1, −0.2, 0.2) · share).

    share = rows of the step / horizon. Source: Ziegler et al. 2019 (arXiv 1909.08593), §2.2 and its code,
    where the factor holds 0.2 · rows / horizon at most.
    """
    return beta * (1 + min(max(kl / target - 1, -0.2), 0.2) * share)


@dataclass(frozen=True)
class Proximal(Algorithm):
    """What PPO and its critic-free kin share: the clipped surrogate, and a KL to a reference policy.

    L = 1/Σn_i Σ_i Σ_t m_it [ max(−A_it r_it, −A_it clip(r_it, 1−ε_low, 1+ε_high)) + β k_it ],   r = π_θ/π_old
    or, with the KL in the reward,   r_it ← r_it − β k(ℓ_old,it, ℓ_ref,it) and no β in L

    m = batch.mask (B, T), A = batch.advantages, ε_low = clip_low, ε_high = clip_high, β = beta. kl_reward,
    kl_loss: the estimator of each place (ops.kl_k1, kl_k2, kl_k3) or None. In the reward k1 has the gradient
    of KL(π_θ‖π_ref); in the loss k2 has it, k3 that of the reverse KL, and k1 has none at all, so it is
    refused. target > 0: β is steered so that the KL of a row, Σ_t m k1, comes near `target` nats (`adapted`,
    horizon in rows); what it is now lies in memory["beta"], and β/beta travels in batch.weight (B,). Off by
    default: dual_clip c (a token with A < 0 costs at most −A c), log_clamp (log r is held within ± this).
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float = 0.0
    log_clamp: float = 0.0
    beta: float = 0.0
    kl_reward: Estimator | None = ops.kl_k1
    kl_loss: Estimator | None = None
    target: float = 0.0
    horizon: int = 10_000

    def __post_init__(self):
        if self.kl_loss is ops.kl_k1:
            raise ValueError(
                "k1 as a loss has expected gradient 0: it holds nothing; hint: kl_loss=ops.kl_k2"
            )
        if self.target and not self.beta:
            raise ValueError(
                f"target={self.target} steers β from its start beta=0, where it stays; hint: beta=0.05"
            )

    def plan(self, sampler: Sampler) -> list[Episode]:
        tried = super().plan(sampler)
        if not self.target:
            return tried
        beta = sampler.memory.get("beta", self.beta)
        kl = float(sampler.logratio(tried).mean())
        sampler.memory["beta"] = adapted(beta, kl, self.target, len(tried) / self.horizon)
        return [replace(e, weight=beta / self.beta) for e in tried]

    def strength(self, batch: Batch) -> Tensor | float:
        """β as it is now."""
        return self.beta * batch.weight[:, None] if self.target else self.beta

    def reward(self, batch: Batch) -> Batch:
        if not self.beta or self.kl_reward is None:
            return batch
        kl = self.kl_reward(batch.old_logp, batch.ref_logp) * batch.mask
        return batch.set(rewards=batch.rewards - self.strength(batch) * kl)

    def ratio(self, scores: Scores, batch: Batch) -> Tensor:
        """(B, T) importance ratio of each token."""
        log = scores.logp - batch.old_logp
        return (log.clamp(-self.log_clamp, self.log_clamp) if self.log_clamp else log).exp()

    def loss(self, scores: Scores, batch: Batch) -> Tensor:
        ratio = self.ratio(scores, batch)
        x = ops.clipped_surrogate(ratio, batch.advantages, self.clip_low, self.clip_high, self.dual_clip)
        if self.beta and self.kl_loss is not None:
            x = x + self.strength(batch) * self.kl_loss(scores.logp, batch.ref_logp)
        return ops.token_mean(x, batch.mask)

    def clipped(self, scores: Scores, batch: Batch) -> Tensor:
        ratio = self.ratio(scores, batch)
        cut = ops.is_clipped(ratio, batch.advantages, self.clip_low, self.clip_high, self.dual_clip)
        return cut & (batch.mask > 0)


@dataclass(frozen=True)
class PPO(Proximal):
    """PPO: advantages over a learned value, and many small steps on one batch, each within a clip.

    A = whiten(Â),   Â_t = Σ_k (γλ)^k δ_{t+k},   δ_t = r_t + γ V_{t+1} − V_t,   G = Â + V
    L = 1/Σn_i Σ_i Σ_t m_it [ max(−A r, −A clip(r, 1−ε_low, 1+ε_high))
        + c_v ½ max((V_θ − G)², (clip(V_θ, V − ε_v, V + ε_v) − G)²) ]

    V = batch.values (B, T), of the state before each token as of the step's start; V_θ = scores.values; G =
    batch.returns; γ = gamma and λ = lam, over sampled tokens only; c_v = value_weight; ε_v = value_clip (0:
    the squares alone). whiten: over all sampled tokens of the batch. Clips, β and its places as in Proximal.
    With one step and λ = 1 the advantage is A = R − V, survey Eq. (14).
    Source: Schulman et al. 2017 (arXiv 1707.06347), Eq. 7 and 9; GAE: Schulman et al. 2016 (arXiv
    1506.02438), Eq. 16; survey Eq. (13), (14). Value clip, whitening: public code, not the paper. Dual clip:
    Ye et al. 2020 (arXiv 1912.09729).
    Departs from the paper: no entropy bonus; γ = λ = 1, as is usual for language models (there 0.99, 0.95).
    The critic is a head on the policy's own hidden states, and the value loss moves them too. A row cut by a
    limit is worth 0 after its end, as in public code.
    """

    gamma: float = 1.0
    lam: float = 1.0
    whiten: bool = True
    value_weight: float = 0.1
    value_clip: float = 0.0

    needs_critic = True

    def returns(self, batch: Batch) -> Tensor:
        estimate = ops.gae(batch.rewards, batch.values, batch.mask, self.gamma, self.lam)
        return estimate + batch.values * batch.mask

    def advantages(self, batch: Batch) -> Tensor:
        estimate = ops.gae(batch.rewards, batch.values, batch.mask, self.gamma, self.lam)
        return ops.whiten(estimate, batch.mask) if self.whiten else estimate

    def value_loss(self, scores: Scores, batch: Batch) -> Tensor:
        """The critic's part, before its weight."""
        V, G = scores.values, batch.returns
        square = (V - G) ** 2
        if self.value_clip:
            held = batch.values + (V - batch.values).clamp(-self.value_clip, self.value_clip)
            square = torch.maximum(square, (held - G) ** 2)
        return 0.5 * ops.token_mean(square, batch.mask)

    def loss(self, scores: Scores, batch: Batch) -> Tensor:
        return super().loss(scores, batch) + self.value_weight * self.value_loss(scores, batch)


@dataclass(frozen=True)
class VAPO(PPO):
    """VAPO: a critic fit for long answers: warmed up first, with a λ of its own, and a λ for each length.

    Â_i with λ_i = max(0, 1 − 1/(α n_i)),  G with λ = 1,   L = L_PPO − μ/Σ_{i∈T} n_i Σ_{i∈T} Σ_t m_it ℓ_it

    n_i = sampled tokens of row i; α = alpha (Σ_k λ^k = α n); T = rows with batch.success, μ = mu (no such
    row: 0); lam = λ of the critic's target; critic_steps = steps in which only the critic learns. Shapes as
    in PPO.
    Source: Yue et al. 2025 (arXiv 2504.05118), Eq. 4, 5, 8 to 10, §4.
    Differs from PPO in: advantages (λ_i), loss (imitation of successes), clip_high, critic_steps.
    Departs from the paper: λ ≥ 0 where it is silent (α n < 1); nothing is whitened (it does not say); critic
    and policy share a network, the paper's are two. alpha = 0.05 suits answers of thousands of tokens: take
    about 1 for answers of tens. The survey's table has an adaptive KL penalty here; the paper's loss has
    none.
    """

    clip_high: float = 0.28
    whiten: bool = False
    alpha: float = 0.05
    mu: float = 0.1
    critic_steps: int = 5

    def advantages(self, batch: Batch) -> Tensor:
        n = batch.mask.sum(1).clamp(min=1)
        lam = (1 - 1 / (self.alpha * n)).clamp(min=0)
        estimate = ops.gae(batch.rewards, batch.values, batch.mask, self.gamma, lam)
        return ops.whiten(estimate, batch.mask) if self.whiten else estimate

    def loss(self, scores: Scores, batch: Batch) -> Tensor:
        right = batch.mask * batch.success[:, None]
        return super().loss(scores, batch) + self.mu * ops.token_mean(-scores.logp, right)


@dataclass(frozen=True)
class LitePPO(GRPO):
    """LitePPO: two tricks are enough for a PPO without critic: the batch's std, and every token equal.

    A_i = (R_i − mean_g R) / (std_B R + 1e-6)
    L = 1/Σn_i Σ_i Σ_t m_it max(−A_i r_it, −A_i clip(r_it, 1−ε, 1+ε))

    std_B over all rows of the batch (Bessel), so that a group of near-equal rewards is not blown up.
    Source: Liu et al. 2025 (arXiv 2508.08221), its §on combined tricks; not a row of the survey's table.
    Differs from GRPO in: advantages (std of the batch), reduce (token mean).
    Departs from the paper: nothing known. std is that of the rewards, as in TRL and ROLL; AReaL divides by
    the std of the centred rewards, another number.
    """

    def advantages(self, batch: Batch) -> Tensor:
        everything = torch.zeros_like(batch.group)
        std = ops.group_std(batch.reward, everything)
        return ops.per_token(ops.group_center(batch.reward, batch.group) / (std + ops.EPS), batch.mask)

    def reduce(self, x: Tensor, batch: Batch) -> Tensor:
        return ops.token_mean(x, batch.mask)


# --- filtration: which tries of a prompt to learn from ----------------------------------------------------


def best(rewards: np.ndarray) -> np.ndarray:
    """Weights (N,) of best-of-N: the best alone. Of equals the last is best, the first worst."""
    weights = np.zeros(len(rewards))
    weights[np.argsort(rewards, kind="stable")[-1]] = 1.0
    return weights


def best_rest(rewards: np.ndarray) -> np.ndarray:
    """½ for the best, ½ shared by the rest."""
    rest = (1 - best(rewards)) / max(len(rewards) - 1, 1)
    return (best(rewards) + rest) / (best(rewards) + rest).sum()


def best_worst(rewards: np.ndarray) -> np.ndarray:
    """½ for the best, ½ for the worst: where a reward model errs least."""
    weights = best(rewards)
    weights[np.argsort(rewards, kind="stable")[0]] += 1.0
    return weights / weights.sum()


def power(rewards: np.ndarray, k: float = 2.0) -> np.ndarray:
    """∝ |R|^k, for rewards in [−1, 1]; all equal where every reward is 0."""
    weights = np.abs(rewards) ** k
    return weights / weights.sum() if weights.any() else np.full(len(rewards), 1 / len(rewards))


@dataclass(frozen=True)
class PFPPO(PPO):
    """PF-PPO: learn from the tries whose reward can be trusted, the best and the worst of each prompt.

    of N tries of a prompt, `draws` are drawn with replacement with probability w(R)_j, then PPO
    best_worst: w = (½, 0, …, 0, ½);  best_rest: w = (½, 1/(2(N−1)), …);  best: w = (1, 0, …)
    power: w ∝ |R|^k

    R sorted from the best down, N = the run's tries, w = weigh: rewards (N,) → probabilities (N,). A try
    drawn twice is two rows; the draw counts as on-policy. The run's records tell of the rows drawn.
    Source: Shen et al. 2024 (arXiv 2409.06957), §4 and §5.3.
    Differs from PPO in: plan.
    Departs from the paper: the released code draws from its whole buffer, and its best_rest weights 0.4 and
    0.1 are the paper's at N = 5 alone. Here each prompt has its draws.
    """

    draws: int = 2
    weigh: Callable[[np.ndarray], np.ndarray] = best_worst

    def plan(self, sampler: Sampler) -> list[Episode]:
        groups: dict[int, list[Episode]] = {}
        for episode in super().plan(sampler):
            groups.setdefault(episode.group, []).append(episode)
        drawn: list[Episode] = []
        for tried in groups.values():
            weights = self.weigh(np.array([e.reward for e in tried]))
            drawn += _draw(tried, weights, self.draws, sampler.rng)
        return drawn


def _draw(tried: Sequence[Episode], weights: np.ndarray, n: int, rng: np.random.Generator) -> list[Episode]:
    return [tried[i] for i in rng.choice(len(tried), n, p=weights)]
