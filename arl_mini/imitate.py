"""Supervised training on episodes: make the mask-1 tokens of demonstrations likelier."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from . import ops
from .batch import Episode, collate
from .models.score import score


def imitate(
    policy,
    episodes: Sequence[Episode] | Callable[[int], Sequence[Episode]],
    *,
    steps: int,
    rows: int = 128,
    lr: float = 3e-3,
    seed: int = 0,
) -> Iterator[float]:
    """Yields the loss of each step: mean −log π over the tokens with mask 1 (nats a token).

    episodes: a fixed list, from which `rows` are drawn a step, or a function step → fresh rows. The
    learning rate rises over 20 steps and falls to 10 % in a cosine.
    """
    optimizer = torch.optim.AdamW([p for p in policy.parameters() if p.requires_grad], lr=lr, weight_decay=0.01)
    for step in range(steps):
        if callable(episodes):
            chosen = episodes(step)
        else:
            picks = np.random.default_rng([seed, step]).integers(len(episodes), size=rows)
            chosen = [episodes[i] for i in picks]
        batch = collate(chosen, policy.device)
        loss = ops.token_mean(-score(policy, batch).logp, batch.mask)
        scale = min(1.0, (step + 1) / 20) * (0.55 + 0.45 * np.cos(np.pi * step / steps))
        for part in optimizer.param_groups:
            part["lr"] = lr * scale
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        yield float(loss.detach())
