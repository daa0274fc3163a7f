"""The gradient estimators of chapter 2.7 and what agent papers make of them, each as a loss of `ops` parts.

An advantage is a function of Draws to (B, T) or (B, 1); a loss combines it with the log-probabilities.
`CATALOGUE` lists what is measured, with the claim whether it is unbiased; tests/formal/test_estimators.py
holds every claim.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from .. import ops
from .laboratory import Draws, Estimator, Loss

Advantage = Callable[[Draws], Tensor]


# --- advantages --------------------------------------------------------------------------------------------


def whole_return(d: Draws) -> Tensor:
    """G(τ) at every token, (B, 1)."""
    return d.returns[:, None]


def to_go(d: Draws) -> Tensor:
    """γ^t Σ_{k≥t} γ^{k−t} r_k, (B, T): an action is not praised for what came before it."""
    return d.weight * ops.discount(d.rewards, d.mask, d.gamma)


def minus_value(d: Draws) -> Tensor:
    """γ^t (G_t − V(s_t)), (B, T): survey Eq. (14), with R read as the return from t on."""
    return d.weight * (ops.discount(d.rewards, d.mask, d.gamma) - d.values)


def minus_constant(b: float) -> Advantage:
    """G(τ) − b with b chosen before anything was drawn: the b(s₀) of survey Eq. (12)."""
    return lambda d: (d.returns - b)[:, None]


def minus_group_mean(d: Draws) -> Tensor:
    """G_i − mean of its group, itself included: 1/G of the baseline is its own return, hence (1 − 1/G) ∇J."""
    return ops.group_center(d.returns, d.group)[:, None]


def leave_one_out(d: Draws) -> Tensor:
    """G_i − mean of the others of its group: RLOO."""
    return ops.group_leave_one_out(d.returns, d.group)[:, None]


def zscore(d: Draws) -> Tensor:
    """(G_i − mean) / std of its group: GRPO, survey Eq. (17)."""
    return ops.group_zscore(d.returns, d.group)[:, None]


def gae(lam: float) -> Advantage:
    """γ^t Σ_k (γλ)^k δ_{t+k} with the laboratory's critic."""
    return lambda d: d.weight * ops.gae(d.rewards, d.values, d.mask, d.gamma, lam)


# --- losses ------------------------------------------------------------------------------------------------


def policy_gradient(advantage: Advantage) -> Loss:
    """−A_t log π(a_t | s_t): survey Eq. (12)."""
    return lambda d: -advantage(d) * d.logp * d.mask


def over_length(loss: Loss) -> Loss:
    """The row's loss divided by its number of tokens: GRPO's 1/|o|."""
    return lambda d: loss(d) / d.mask.sum(1, keepdim=True)


def clipped(advantage: Advantage, low: float = 0.2, high: float = 0.2) -> Loss:
    """PPO's pessimistic bound at every token: survey Eq. (13)."""

    def loss(d: Draws) -> Tensor:
        adv = advantage(d).expand_as(d.logp)
        return ops.clipped_surrogate(ops.ratio(d.logp, d.old_logp), adv, low, high) * d.mask

    return loss


def grpo(low: float = 0.2, high: float = 0.2) -> Loss:
    """The same with the z-score of the group as advantage: survey Eq. (16) as printed, no KL, no 1/|o|."""
    return clipped(zscore, low, high)


def _weights(d: Draws) -> Tensor:
    """π_θ / π_old of each token, a constant, (B, T)."""
    return ops.ratio(d.logp, d.old_logp).detach()


def sequence_weighted(d: Draws) -> Tensor:
    """w(τ) G(τ) Σ_t log π, w = Π_t π_θ/π_old: unbiased, and its variance grows with the product."""
    return -_weights(d).prod(1, keepdim=True) * whole_return(d) * d.logp * d.mask


def truncated(cap: float) -> Loss:
    """The same with min(w(τ), cap): less variance, and what lies above the cap is missing."""
    return lambda d: -_weights(d).prod(1, keepdim=True).clamp(max=cap) * whole_return(d) * d.logp * d.mask


def step_weighted(d: Draws) -> Tensor:
    """Each reward weighted by the ratios up to it (per-decision importance sampling): unbiased, less
    variance."""
    paid = d.rewards * d.weight * _weights(d).cumprod(1)
    later = paid.sum(1, keepdim=True) - paid.cumsum(1) + paid  # Σ_{k≥t}
    return -later * d.logp * d.mask


def token_weighted(d: Draws) -> Tensor:
    """Each token weighted by its own ratio, as in PPO and GRPO: what is around it stays that of π_old."""
    return -_weights(d) * to_go(d) * d.logp * d.mask


def length_normalised(d: Draws) -> Tensor:
    """w(τ)^(1/n): GSPO's ratio."""
    return -ops.sequence_ratio(d.logp, d.old_logp, d.mask).detach() * whole_return(d) * d.logp * d.mask


# --- penalties for KL(π_θ ‖ π_ref) of whole rows; `row` sums log-probabilities over tokens ---------------


def k1_loss(d: Draws) -> Tensor:
    """k1 as a loss: right value, gradient of mean zero."""
    return ops.kl_k1(d.row(d.logp), d.row(d.ref_logp))


def k2_loss(d: Draws) -> Tensor:
    """k2 as a loss: biased value, right gradient."""
    return ops.kl_k2(d.row(d.logp), d.row(d.ref_logp))


def k2_token_loss(d: Draws) -> Tensor:
    """k2 token by token: misses that a token changes how far the tokens after it stray."""
    return ops.kl_k2(d.logp, d.ref_logp) * d.mask


def k3_loss(d: Draws) -> Tensor:
    """k3 as a loss: right value, but the gradient is that of KL(π_ref ‖ π_θ)."""
    return ops.kl_k3(d.row(d.logp), d.row(d.ref_logp))


def k3_ratio_loss(d: Draws) -> Tensor:
    """k3 times π_θ/π_old: the ratio brings the missing half of the gradient back."""
    return ops.ratio(d.row(d.logp), d.row(d.old_logp)) * k3_loss(d)


def k1_reward(d: Draws) -> Tensor:
    """k1 as a cost that REINFORCE lowers."""
    return ops.kl_k1(d.row(d.logp), d.row(d.ref_logp)).detach() * d.row(d.logp)


def _on(name: str, advantage: Advantage, unbiased: bool, says: str) -> Estimator:
    return Estimator(name, policy_gradient(advantage), unbiased, says, on_policy=True)


CATALOGUE: tuple[Estimator, ...] = (
    _on("REINFORCE", whole_return, True, "log-derivative identity"),
    _on("reward to go", to_go, True, "what came before an action has mean 0 under it"),
    _on("constant baseline", minus_constant(0.5), True, "E[∇ log π] = 0"),
    _on("value baseline", minus_value, True, "the same in every state"),
    _on("leave one out", leave_one_out, True, "the others are independent of the action"),
    _on("group mean", minus_group_mean, False, "the baseline knows the action: (1 − 1/G) ∇J"),
    _on("GRPO z-score", zscore, False, "a prompt counts by 1/std of its returns"),
    Estimator("GRPO z-score / length", over_length(policy_gradient(zscore)), False,
              "and a token by 1/length of its row", on_policy=True),
    Estimator("group mean / length", over_length(policy_gradient(minus_group_mean)), False,
              "a token counts by 1/length of its row", on_policy=True),
    _on("GAE λ=1", gae(1.0), True, "the critic cancels from the mean"),
    _on("GAE λ=0.5", gae(0.5), False, "half of the critic's error stays"),
    _on("GAE λ=0", gae(0.0), False, "right only as far as the critic is"),
    Estimator("no weight", policy_gradient(to_go), False, "the gradient of another policy's data"),
    Estimator("sequence weight", sequence_weighted, True, "P_θ(τ)/P_old(τ)"),
    Estimator("step weight", step_weighted, True, "ratios after a reward have mean 1"),
    Estimator("truncated weight", truncated(1.5), False, "what lies above the cap is missing"),
    Estimator("token weight", token_weighted, False, "states and futures are those of π_old"),
    Estimator("length-normalised weight", length_normalised, False, "w^(1/n) is no density ratio"),
    Estimator("PPO clip", clipped(minus_value), False, "token weight, and 0 outside the clip"),
    Estimator("k1 in the loss", k1_loss, False, "mean gradient 0", "KL", True),
    Estimator("k2 in the loss", k2_loss, True, "(log π − log π_ref) ∇ log π", "KL", True),
    Estimator("k2 per token", k2_token_loss, False, "later tokens are left out", "KL", True),
    Estimator("k3 in the loss", k3_loss, False, "gradient of KL(π_ref ‖ π_θ)", "KL", True),
    Estimator("k3 × ratio", k3_ratio_loss, True, "differentiates the distribution, too", "KL", True),
    Estimator("k1 in the reward", k1_reward, True, "REINFORCE on the KL", "KL", True),
)  # fmt: skip


def estimator(name: str) -> Estimator:
    """The catalogue's estimator of that name."""
    for found in CATALOGUE:
        if found.name == name:
            return found
    raise KeyError(f"no estimator {name!r}; there are: {', '.join(e.name for e in CATALOGUE)}")


def kl_value_moments(lab, kind: Callable[[Tensor, Tensor], Tensor]) -> tuple[float, float]:
    """Exact mean and variance of the *value* of a KL estimator (ops.kl_k1, kl_k2, kl_k3) on one episode of
    π_θ."""
    d = lab.draws(torch.arange(len(lab.paths.chance))[:, None])
    p = lab.paths.chance * d.row(d.logp.detach())[:, 0].exp()
    value = kind(d.row(d.logp.detach()), d.row(d.ref_logp))[:, 0]
    mean = p @ value
    return float(mean), float(p @ (value - mean).square())
