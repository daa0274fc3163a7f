"""The shared parts of every formula: pure functions of tensors.

Shapes: B rows (one episode each), T positions, `group` (B,) holds the prompt each row belongs to.
Every per-token tensor is (B, T) and aligned with the token it scores; `mask` is 1 where the policy
sampled the token and 0 where the token was forced (prompt, observation, tool result, padding).
All losses are minimised.
"""

import torch
from torch import Tensor

EPS = 1e-6  # added to a standard deviation before dividing


def _same_shape(**tensors: Tensor) -> None:
    """Broadcasting hides mistakes in reductions, so shapes must be equal."""
    shapes = {name: tuple(t.shape) for name, t in tensors.items()}
    if len(set(shapes.values())) > 1:
        raise ValueError(f"shapes must be equal, got {shapes}; hint: expand explicitly before reducing")


# --- reductions: a token loss (B, T) to a scalar ----------------------------------------------------------


def token_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Σ m·x / Σ m: every sampled token of the batch weighs the same (DAPO)."""
    _same_shape(x=x, mask=mask)
    return (x * mask).sum() / mask.sum().clamp(min=1)


def sequence_mean(x: Tensor, mask: Tensor) -> Tensor:
    """1/B Σ_i 1/n_i Σ_t m·x: every row weighs the same, so a token of a long row weighs less (GRPO).

    A row without sampled tokens counts as 0 and stays in B.
    """
    _same_shape(x=x, mask=mask)
    return ((x * mask).sum(1) / mask.sum(1).clamp(min=1)).mean()


def constant_mean(x: Tensor, mask: Tensor, length: int) -> Tensor:
    """1/(B·length) Σ m·x: the divisor does not depend on what was sampled (Dr.GRPO)."""
    _same_shape(x=x, mask=mask)
    return (x * mask).sum() / (x.shape[0] * length)


def sequence_sum(x: Tensor, mask: Tensor) -> Tensor:
    """1/B Σ_i Σ_t m·x: the log-probability of a row is a sum over its tokens (REINFORCE)."""
    _same_shape(x=x, mask=mask)
    return (x * mask).sum(1).mean()


def row_sum(x: Tensor, mask: Tensor) -> Tensor:
    """Σ_t m·x of each row, (B,)."""
    _same_shape(x=x, mask=mask)
    return (x * mask).sum(1)


def row_mean(x: Tensor, mask: Tensor) -> Tensor:
    """1/n Σ_t m·x of each row, (B,); 0 for a row without sampled tokens."""
    return row_sum(x, mask) / mask.sum(1).clamp(min=1)


# --- importance ratios and clips --------------------------------------------------------------------------


def ratio(logp: Tensor, old_logp: Tensor) -> Tensor:
    """r = π_θ / π_old of each token, (B, T)."""
    _same_shape(logp=logp, old_logp=old_logp)
    return (logp - old_logp).exp()


def sequence_ratio(logp: Tensor, old_logp: Tensor, mask: Tensor) -> Tensor:
    """s = exp(1/n Σ m (ℓ − ℓ_old)): the length-normalised ratio of a whole row, (B, 1). GSPO, Eq. 7."""
    _same_shape(logp=logp, old_logp=old_logp, mask=mask)
    total = ((logp - old_logp) * mask).sum(1, keepdim=True)
    return (total / mask.sum(1, keepdim=True).clamp(min=1)).exp()


def clipped_surrogate(ratio: Tensor, advantages: Tensor, low: float, high: float, dual: float = 0.0) -> Tensor:
    """max(−A·r, −A·clip(r, 1−low, 1+high)): PPO's pessimistic bound, per element.

    dual c > 1 (0: off): where A < 0, at most −A·c (Ye et al. 2020, arXiv 1912.09729).
    """
    _same_shape(ratio=ratio, advantages=advantages)
    clipped = ratio.clamp(1 - low, 1 + high)
    loss = torch.maximum(-advantages * ratio, -advantages * clipped)
    return torch.where(advantages < 0, torch.minimum(loss, -advantages * dual), loss) if dual else loss


def is_clipped(ratio: Tensor, advantages: Tensor, low: float, high: float, dual: float = 0.0) -> Tensor:
    """True where `clipped_surrogate` has gradient zero because a clip decides its value."""
    _same_shape(ratio=ratio, advantages=advantages)
    above = ratio > (dual or torch.inf)
    return ((advantages > 0) & (ratio > 1 + high)) | ((advantages < 0) & ((ratio < 1 - low) | above))


# --- KL(π_θ ‖ π_ref) from samples of π_θ, one token each --------------------------------------------------


def kl_k1(logp: Tensor, ref_logp: Tensor) -> Tensor:
    """ℓ − ℓ_ref: unbiased value, may be negative; as a loss term its expected gradient is zero."""
    _same_shape(logp=logp, ref_logp=ref_logp)
    return logp - ref_logp


def kl_k2(logp: Tensor, ref_logp: Tensor) -> Tensor:
    """½(ℓ − ℓ_ref)²: biased value; on-policy its gradient is the gradient of the KL."""
    return 0.5 * kl_k1(logp, ref_logp) ** 2


def kl_k3(logp: Tensor, ref_logp: Tensor) -> Tensor:
    """e^{ℓ_ref − ℓ} − (ℓ_ref − ℓ) − 1 ≥ 0: unbiased value; its gradient is that of KL(π_ref ‖ π_θ)."""
    d = -kl_k1(logp, ref_logp)
    return d.expm1() - d  # exact near 0, where e^d − d − 1 in float32 is rounding noise of either sign


# --- statistics over the tries of one prompt --------------------------------------------------------------


def _index(x: Tensor, group: Tensor) -> tuple[Tensor, int]:
    _same_shape(x=x, group=group)
    unique, index = torch.unique(group, return_inverse=True)
    return index, len(unique)


def group_mean(x: Tensor, group: Tensor) -> Tensor:
    """Mean over the rows of the same group, (B,)."""
    index, n = _index(x, group)
    count = torch.zeros(n, dtype=x.dtype, device=x.device).index_add(0, index, torch.ones_like(x))
    total = torch.zeros(n, dtype=x.dtype, device=x.device).index_add(0, index, x)
    return (total / count)[index]


def group_size(group: Tensor) -> Tensor:
    """Number of rows in each row's group, (B,) long."""
    _, index, count = torch.unique(group, return_inverse=True, return_counts=True)
    return count[index]


def group_std(x: Tensor, group: Tensor) -> Tensor:
    """Standard deviation with Bessel's correction over the group, (B,); a group of one has 0."""
    square = group_mean((x - group_mean(x, group)) ** 2, group)
    n = group_size(group).to(x.dtype)
    return (square * n / (n - 1).clamp(min=1)).sqrt()


def group_signal(x: Tensor, group: Tensor) -> Tensor:
    """True where the group's values differ, (B,). Groups without contrast teach nothing."""
    index, n = _index(x, group)
    start = torch.zeros(n, dtype=x.dtype, device=x.device)
    high = start.scatter_reduce(0, index, x, "amax", include_self=False)
    low = start.scatter_reduce(0, index, x, "amin", include_self=False)
    return (high > low)[index]


def group_center(x: Tensor, group: Tensor) -> Tensor:
    """x − mean of the group; exactly 0 where the group has no contrast (rounding must not leak)."""
    return torch.where(group_signal(x, group), x - group_mean(x, group), torch.zeros_like(x))


def group_zscore(x: Tensor, group: Tensor, eps: float = EPS) -> Tensor:
    """(x − mean) / (std + eps) in the group; exactly 0 without contrast and in a group of one. Eq. (17)."""
    return group_center(x, group) / (group_std(x, group) + eps)


def group_leave_one_out(x: Tensor, group: Tensor) -> Tensor:
    """x − mean of the *other* rows of the group = G/(G−1)·(x − mean); 0 in a group of one. RLOO, Eq. 2."""
    n = group_size(group).to(x.dtype)
    return group_center(x, group) * n / (n - 1).clamp(min=1)


# --- returns and advantages along one episode -------------------------------------------------------------


def discount(rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
    """Reward to go G_t = r_t + γ G_{next sampled token}, (B, T); 0 at forced tokens.

    Time counts sampled tokens only: inserting an observation changes nothing.
    """
    return gae(rewards, torch.zeros_like(rewards), mask, gamma, lam=1.0)


def gae(rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float | Tensor) -> Tensor:
    """Generalised advantage estimates over the sampled tokens, (B, T); 0 at forced tokens.

    δ_t = r_t + γ V_{t⁺} − V_t,  A_t = δ_t + γλ A_{t⁺},  t⁺ the next *sampled* token of the row (V = A = 0
    past the last one); λ one number, or one a row (B,). Rewards at forced tokens are an error of the caller. Schulman et al. 2016, Eq. 16.
    """
    _same_shape(rewards=rewards, values=values, mask=mask)
    if bool(((rewards != 0) & (mask == 0)).any()):
        raise ValueError("a reward stands at a forced token (mask 0); rewards belong to sampled tokens")
    advantages = torch.zeros_like(rewards)
    next_value = next_adv = torch.zeros_like(rewards[:, 0])
    for t in reversed(range(rewards.shape[1])):
        sampled = mask[:, t] > 0
        adv = rewards[:, t] + gamma * next_value - values[:, t] + gamma * lam * next_adv
        next_adv = torch.where(sampled, adv, next_adv)
        next_value = torch.where(sampled, values[:, t], next_value)
        advantages[:, t] = torch.where(sampled, adv, torch.zeros_like(adv))
    return advantages


def whiten(x: Tensor, mask: Tensor, eps: float = 1e-8) -> Tensor:
    """Mean 0 and variance 1 (Bessel) over all sampled tokens of the batch, (B, T); 0 at forced tokens."""
    _same_shape(x=x, mask=mask)
    n = mask.sum().clamp(min=1)
    mean = (x * mask).sum() / n
    var = ((x - mean) ** 2 * mask).sum() / (n - 1).clamp(min=1)
    return (x - mean) / (var + eps).sqrt() * mask


def per_token(x: Tensor, mask: Tensor) -> Tensor:
    """One number a row (B,) to every sampled token of the row (B, T)."""
    if x.shape != mask.shape[:1]:
        raise ValueError(f"expected one number a row {tuple(mask.shape[:1])}, got {tuple(x.shape)}")
    return x[:, None] * mask


# --- preferences ------------------------------------------------------------------------------------------


def pair_rows(pair: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Row indices (P,) of the chosen and of the rejected one of each pair; rows with pair −1 are in none.

    A pair that lacks one, or has two of the same kind, is an error.
    """
    if pair is None or chosen is None:
        raise ValueError("the batch has no pairs; hint: mark the episodes with batch.pairs before collate")
    rows = [(pair.masked_fill(kind, -1)).sort(stable=True) for kind in (~chosen, chosen)]
    (won, w), (lost, l) = [(row.values[row.values >= 0], row.indices[row.values >= 0]) for row in rows]
    if won.tolist() != lost.tolist() or len(won.unique()) < len(won):
        raise ValueError(
            f"every pair needs one chosen and one rejected row; chosen rows are of pairs {won.tolist()}, "
            f"rejected rows of pairs {lost.tolist()}"
        )
    return w, l


def log_odds(logp: Tensor) -> Tensor:
    """log p/(1 − p) = ℓ − log(1 − e^ℓ) of a log-probability ℓ < 0; at ℓ = 0, its pole, the largest float below counts."""
    below = logp.clamp(max=-torch.finfo(logp.dtype).eps)
    return below - (-below.expm1()).log()
