"""Small batches by hand, and what a loss and its gradient are on them."""

import torch

from arl_mini.algorithms.base import Algorithm
from arl_mini.batch import Batch
from arl_mini.models.score import Scores


def f64(x) -> torch.Tensor:
    """Numbers as float64."""
    return torch.as_tensor(x, dtype=torch.float64)


def by_hand(mask, **columns) -> Batch:
    """A batch in which only the mask and the columns given mean anything; advantages (B,) or (B, T)."""
    mask = f64(mask)
    rows = len(mask)
    if "advantages" in columns:
        adv = f64(columns["advantages"])
        columns["advantages"] = (adv[:, None] if adv.dim() == 1 else adv) * torch.ones_like(mask)
    plain = dict(
        tokens=torch.zeros_like(mask).long(), mask=mask,
        old_logp=torch.zeros_like(mask), rewards=torch.zeros_like(mask),
        turn=torch.zeros_like(mask).long(), group=torch.zeros(rows).long(), lengths=mask.sum(1).long(),
        truncated=torch.zeros(rows).bool(), success=torch.zeros(rows).bool(),
        expert=torch.zeros(rows).bool(), blanked=torch.zeros(rows).bool(),
    )  # fmt: skip
    return Batch(**(plain | columns))


def rewarded(rewards, group, mask, **columns) -> Batch:
    """Rows with these rewards (B,), each at the row's first token; right where the reward is positive."""
    mask, rewards = f64(mask), f64(rewards)
    placed = torch.zeros_like(mask)
    placed[:, 0] = rewards
    return by_hand(mask, rewards=placed, group=torch.as_tensor(group), success=rewards > 0, **columns)


def value_and_grad(algorithm: Algorithm, batch: Batch, logp) -> tuple[float, torch.Tensor]:
    """The loss at these log-probabilities (B, T), and its gradient with respect to them."""
    logp = f64(logp).clone().requires_grad_()
    loss = algorithm.loss(Scores(logp, torch.zeros_like(logp)), batch)
    (grad,) = torch.autograd.grad(loss, logp)
    return float(loss.detach()), grad


def random_batch(seed: int, rows: int = 6, width: int = 7, groups: int = 2, ragged: bool = True):
    """(batch with rewards, groups, ratios around 1; logp). Every row has a token, some are forced."""
    made = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=made, dtype=torch.float64)

    mask = (torch.rand(rows, width, generator=made) < (0.7 if ragged else 2)).double()
    mask[:, 0] = 1
    old = -normal(rows, width).abs() - 0.05
    logp = (old + 0.4 * normal(rows, width)).clamp(max=-1e-3)
    group = torch.arange(rows) % groups
    batch = rewarded(
        (normal(rows) > 0).double(), group, mask, old_logp=old, ref_logp=old + 0.1 * normal(rows, width)
    )
    return batch, logp
