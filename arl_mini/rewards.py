"""Rewards beside the world's: verifiers, penalties, prices, (B, T) at sampled tokens; reward models."""

import math
import numbers
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from . import ops
from .batch import Batch, Episode, collate
from .models.heads import RewardModel


def at_end(amount: Tensor, mask: Tensor) -> Tensor:
    """One number a row (B,) at the row's last sampled token, (B, T)."""
    last = (mask.cumsum(1) == mask.sum(1, keepdim=True)) & (mask > 0)
    return ops.per_token(amount, mask) * last


def kl_penalty(batch: Batch, beta: float) -> Tensor:
    """−β (ℓ_old − ℓ_ref) at every sampled token: the KL of InstructGPT, inside the reward (k1). (B, T)."""
    if batch.ref_logp is None:
        raise ValueError("the batch has no ref_logp; hint: give train(…, ref=policy.copy())")
    return -beta * ops.kl_k1(batch.old_logp, batch.ref_logp) * batch.mask


def judged(episodes: Sequence[Episode], judge: Callable[[Episode], float]) -> Tensor:
    """A reward function's verdict on each episode, (B,). One that raises or answers no number is an error, not 0."""
    verdicts = []
    for i, episode in enumerate(episodes):
        name = getattr(judge, "__name__", type(judge).__name__)
        try:
            verdict = judge(episode)
        except Exception as error:
            raise RuntimeError(f"reward function {name} raised {error!r} on episode {i}: {episode.text!r:.200}") from error
        if not isinstance(verdict, numbers.Real) or not math.isfinite(verdict):
            raise TypeError(f"reward function {name} returned {verdict!r} on episode {i}; expected a finite number")
        verdicts.append(float(verdict))
    return torch.tensor(verdicts)


# --- reward models: fitted to preferences over episodes, or to verdicts on steps --------------------------


def bradley_terry(chosen: Tensor, rejected: Tensor, margin: Tensor | float = 0.0, centre: float = 0.0) -> Tensor:
    """Mean of softplus(−(r_w − r_l − margin)) + centre·(r_w + r_l)² over pairs; chosen r_w, rejected r_l: (P,).

    The preference model P(w over l) = σ(r_w − r_l) leaves a constant open; centre > 0 keeps rewards around 0.
    Source: Christiano et al. 2017 (arXiv 1706.03741), Eq. 1; Ouyang et al. 2022 (arXiv 2203.02155), Eq. 1.
    """
    return (softplus(rejected - chosen + margin) + centre * (chosen + rejected) ** 2).mean()


def step_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of σ(logits) against labels in [0, 1], both (B, T); mean over the steps of the batch.

    A label stands where a step ends: 1 right, 0 wrong, between them the share of tries from there that
    succeed; it is nan everywhere else. Source: Lightman et al. 2023 (arXiv 2305.20050); soft labels: Wang et
    al. 2023 (2312.08935).
    """
    at = ~labels.isnan()
    if not bool(at.any()):
        raise ValueError("no step has a label; hint: labels are nan where no step ends, and a number where one does")
    return binary_cross_entropy_with_logits(logits[at], labels[at].to(logits))


def step_logits(model: RewardModel, batch: Batch) -> Tensor:
    """log p/(1 − p) that all is right so far, after each token, (B, T); differentiable."""
    hidden = model.trunk.hidden(batch.tokens, batch.lengths)
    return model.head(hidden.flatten(0, 1)).view(batch.tokens.shape)


@torch.no_grad()
def rewards_of(model: RewardModel, episodes: Sequence[Episode]) -> Tensor:
    """What a reward model gives each whole episode, (B,)."""
    batch = collate(episodes, model.head.linear.weight.device)
    return model(batch.tokens, batch.lengths)


def fit_reward_model(
    model: RewardModel, pairs: Sequence[tuple[Episode, Episode]], *, steps: int, rows: int = 64,
    lr: float = 1e-3, seed: int = 0, centre: float = 0.01,
) -> Iterator[float]:  # fmt: skip
    """Fits a reward model to (chosen, rejected) episodes; yields the loss of each update over `rows` pairs."""

    def loss(chosen: list[tuple[Episode, Episode]]) -> Tensor:
        batch = collate([e for pair in chosen for e in pair], model.head.linear.weight.device)
        reward = model(batch.tokens, batch.lengths)
        return bradley_terry(reward[0::2], reward[1::2], centre=centre)

    return _fit(model, pairs, loss, steps, rows, lr, seed)


def fit_process_model(
    model: RewardModel, labelled: Sequence[tuple[Episode, np.ndarray]], *, steps: int, rows: int = 64,
    lr: float = 1e-3, seed: int = 0,
) -> Iterator[float]:  # fmt: skip
    """Fits step_logits to (episode, labels (L,)), labels as in `step_loss`; yields the loss of each update."""

    def loss(chosen: list[tuple[Episode, np.ndarray]]) -> Tensor:
        batch = collate([e for e, _ in chosen], model.head.linear.weight.device)
        labels = torch.full(batch.tokens.shape, torch.nan, device=batch.tokens.device)
        for row, (episode, label) in zip(labels, chosen):
            if label.shape != episode.tokens.shape:
                raise ValueError(f"expected a label for each of {len(episode)} tokens, got shape {label.shape}")
            row[: len(episode)] = torch.from_numpy(label)
        return step_loss(step_logits(model, batch), labels)

    return _fit(model, labelled, loss, steps, rows, lr, seed)


def _fit(model, data: Sequence, loss: Callable[[list], Tensor], steps, rows, lr, seed) -> Iterator[float]:
    """`steps` updates on `rows` items drawn with replacement; yields each loss."""
    if not data:
        raise ValueError("no data to fit a reward model to")
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)
    for step in range(steps):
        picks = np.random.default_rng([seed, step]).integers(len(data), size=rows)
        value = loss([data[i] for i in picks])
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield float(value.detach())
