"""Rewards an algorithm may add to what the world pays: verifiers, penalties, prices. All (B, T) at sampled tokens."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from . import ops
from .batch import Batch, Episode


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
        if not isinstance(verdict, (int, float)) or verdict != verdict:
            raise TypeError(f"reward function {name} returned {verdict!r} on episode {i}; expected a number")
        verdicts.append(float(verdict))
    return torch.tensor(verdicts)
