"""The first six algorithms as loops over plain lists, written from their papers: advantages, and the loss at given scores.

A case is a dict of lists: reward (B, T), mask (B, T), group (B,), logp, old and ref (B, T).
"""

import math

import torch

from arl_mini.batch import Batch
from arl_mini.models.score import Scores
from tests.algorithms.rows import by_hand, f64
from tests.core import naive


def totals(case):
    return [sum(row) for row in case["reward"]]


def tokens(case):
    """(row, position) of every sampled token."""
    return [(i, t) for i, row in enumerate(case["mask"]) for t, m in enumerate(row) if m]


def count(case, i):
    return max(sum(case["mask"][i]), 1)


# --- advantages: {(row, position): number} ----------------------------------------------------------------


def reinforce_advantages(case, gamma=1.0, baseline=False):
    G = naive.returns(case["reward"], case["mask"], gamma)
    first = [G[i][naive.steps(row, row)[0]] for i, row in enumerate(case["mask"]) if any(row)]
    b = naive.mean(first) if baseline else 0.0
    return {(i, t): G[i][t] - b for i, t in tokens(case)}


def spread_over_rows(case, each):
    return {(i, t): each[i] for i, t in tokens(case)}


def rloo_advantages(case):
    return spread_over_rows(case, naive.leave_one_out(totals(case), case["group"]))


def grpo_advantages(case):
    return spread_over_rows(case, naive.zscore(totals(case), case["group"], 1e-6))


def drgrpo_advantages(case):
    return spread_over_rows(case, naive.center(totals(case), case["group"]))


# --- losses -----------------------------------------------------------------------------------------------


def log_likelihood_loss(case, adv):
    """REINFORCE, RLOO: −1/B Σ_i Σ_t ℓ A."""
    return -sum(case["logp"][i][t] * adv[i, t] for i, t in tokens(case)) / len(case["mask"])


def token_cost(case, adv, i, t, low, high, beta=0.0):
    ratio = math.exp(case["logp"][i][t]) / math.exp(case["old"][i][t])
    kl = naive.k3(case["logp"][i][t], case["ref"][i][t]) if beta else 0.0
    return naive.clipped(ratio, adv[i, t], low, high) + beta * kl


def grpo_loss(case, adv, low=0.2, high=0.2, beta=0.0):
    rows = [0.0] * len(case["mask"])
    for i, t in tokens(case):
        rows[i] += token_cost(case, adv, i, t, low, high, beta) / count(case, i)
    return naive.mean(rows)


def drgrpo_loss(case, adv, length, low=0.2, high=0.2):
    return sum(token_cost(case, adv, i, t, low, high) for i, t in tokens(case)) / (len(case["mask"]) * length)


def dapo_loss(case, adv, low=0.2, high=0.28):
    return sum(token_cost(case, adv, i, t, low, high) for i, t in tokens(case)) / max(len(tokens(case)), 1)


def gspo_loss(case, adv, low=3e-4, high=4e-4):
    rows = []
    for i, row in enumerate(case["mask"]):
        at = naive.steps(row, row)
        if not at:
            rows.append(0.0)
            continue
        likelihood, old = (math.prod(math.exp(case[k][i][t]) for t in at) for k in ("logp", "old"))
        rows.append(naive.clipped((likelihood / old) ** (1 / len(at)), adv[i, at[0]], low, high))
    return naive.mean(rows)


def slope(loss, case, adv, step=1e-6):
    """∂loss/∂logp (B, T) by central differences."""
    grad = [[0.0] * len(row) for row in case["logp"]]
    for i, row in enumerate(case["logp"]):
        for t, here in enumerate(row):
            row[t] = here + step
            above = loss(case, adv)
            row[t] = here - step
            grad[i][t] = (above - loss(case, adv)) / (2 * step)
            row[t] = here
    return grad


# --- cases ------------------------------------------------------------------------------------------------


def draw(seed: int, rows=6, width=5, groups=2, filled=0.6, away=0.5) -> dict:
    """A ragged case with gaps; away: how far the policy went from where it sampled, nats a token.

    The last row has no sampled token. Rewards stand at one or two sampled tokens of a row.
    """
    made = torch.Generator().manual_seed(seed)
    mask = (torch.rand(rows, width, generator=made) < filled).long()
    mask[:, 1] = 1
    mask[-1] = 0
    old = -torch.rand(rows, width, generator=made, dtype=torch.float64) * 3 - 0.05
    logp, ref = (old + away * torch.randn(rows, width, generator=made, dtype=torch.float64) for _ in range(2))
    reward = torch.zeros(rows, width, dtype=torch.float64)
    reward[:, 1] = (torch.rand(rows, generator=made) < 0.5).double()
    last = (mask.cumsum(1) == mask.sum(1, keepdim=True)) & (mask > 0)
    reward = (reward + 0.25 * last.cumsum(1).eq(1) * last) * mask
    case = dict(reward=reward, mask=mask, group=torch.arange(rows) % groups, logp=logp, old=old, ref=ref)
    return {name: value.tolist() for name, value in case.items()}


def batch_of(case) -> Batch:
    """The same as a Batch; what stands at forced positions is kept, to be ignored."""
    return by_hand(
        case["mask"], rewards=f64(case["reward"]), group=torch.tensor(case["group"]), old_logp=f64(case["old"]),
        ref_logp=f64(case["ref"]),
    )  # fmt: skip


def ours(algorithm, case):
    """(advantages (B, T), loss, gradient) of the library on a case."""
    batch = algorithm.reward(batch_of(case))
    batch = batch.set(advantages=algorithm.advantages(batch))
    logp = f64(case["logp"]).requires_grad_()
    loss = algorithm.loss(Scores(logp, torch.zeros_like(logp)), batch)
    return batch.advantages, float(loss.detach()), torch.autograd.grad(loss, logp)[0]
