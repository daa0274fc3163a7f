"""Preferences over replies, in the population: Bradley–Terry, the DPO loss, and the policy both lead to."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from .mdp import exact


def bradley_terry(r) -> Tensor:
    """(N, A, A): the chance that the first reply is preferred to the second, σ(r(x,y) − r(x,y'))."""
    r = exact(r)
    return torch.sigmoid(r[:, :, None] - r[:, None, :])


def dpo_loss(logits: Tensor, ref_logits: Tensor, pairs: Tensor, beta: float) -> Tensor:
    """L = −E_{(x, y_w, y_l) ~ D} log σ(β log π(y_w|x)/π_ref(y_w|x) − β log π(y_l|x)/π_ref(y_l|x)).

    Survey Eq. (15).

    pairs[x, w, l]: share of D with prompt x, winner w and loser l (sums to 1); logits, ref_logits: (N, A).
    The expectation is exact: D is a table, not a sample.
    """
    margin = beta * (logits.log_softmax(-1) - ref_logits.log_softmax(-1))  # (N, A)
    return -(pairs * logsigmoid(margin[:, :, None] - margin[:, None, :])).sum()


def kl_optimum(ref_logits: Tensor, r, beta: float) -> Tensor:
    """π*(y | x) ∝ π_ref(y | x) exp(r(x, y) / β), (N, A).

    It maximises E[r] − β KL(π ‖ π_ref), and minimises the DPO loss where D is drawn by Bradley–Terry on r.
    Source: Rafailov et al. 2023, Eq. 4.
    """
    return (ref_logits.log_softmax(-1) + exact(r) / beta).softmax(-1)
