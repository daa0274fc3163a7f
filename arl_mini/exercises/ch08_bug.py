"""Chapter 08: a loss with a bug."""

import math
import random

import torch
from torch import Tensor

from .. import ops
from ..batch import Batch
from ..lab.check import Trial, show
from . import Exercise, Wrong, changed

# --- 08.4 -------------------------------------------------------------------------------------------------


def _tool_batch(rng: random.Random) -> tuple[Tensor, Batch, str]:
    """Log-probabilities now (a leaf), a batch of short tool episodes in groups, and what it is in words."""
    tries, groups = rng.randint(2, 4), rng.randint(1, 3)
    rows = []
    for _ in range(tries * groups):
        row = [(0, -1)] * rng.randint(1, 4)
        for turn in range(rng.randint(1, 3)):
            row += [(1, turn)] * rng.randint(1, 4) + [(0, turn)] * rng.randint(1, 5)
        while row[-1][0] == 0:  # the last turn gets no observation
            row.pop()
        rows.append(row)
    length = max(map(len, rows))
    padded = [row + [(0, -1)] * (length - len(row)) for row in rows]
    mask = torch.tensor([[float(m) for m, _ in row] for row in padded], dtype=torch.float64)
    turn = torch.tensor([[t for _, t in row] for row in padded])
    lengths = torch.tensor([len(row) for row in rows])
    old_logp = torch.tensor([[-rng.uniform(0.1, 3) for _ in row] for row in padded], dtype=torch.float64)
    moved = torch.tensor([[rng.uniform(-0.4, 0.4) for _ in row] for row in padded], dtype=torch.float64)
    won = torch.tensor([float(rng.random() < 0.5) for _ in rows], dtype=torch.float64)
    last = torch.arange(length) == lengths[:, None] - 1
    batch = Batch(
        torch.zeros_like(turn), mask, old_logp, won[:, None] * last, turn,
        torch.arange(groups).repeat_interleave(tries), lengths, torch.zeros(len(rows)) > 0, won > 0,
    )  # fmt: skip
    told = f"tasks: {groups}, tries of each: {tries}, up to {length} tokens, rewards {won.int().tolist()}"
    return (old_logp + moved).requires_grad_(), batch, told


def _gradient(logp: Tensor, batch: Batch) -> list[list[float]]:
    """∂L/∂logp of GRPO, token by token, from the formula."""
    logp, old_logp, mask, group = (x.tolist() for x in (logp, batch.old_logp, batch.mask, batch.group))
    rewards = batch.reward.tolist()
    gradient = [[0.0] * len(row) for row in mask]
    for i, row in enumerate(mask):
        peers = [r for r, g in zip(rewards, group) if g == group[i]]
        mean = sum(peers) / len(peers)
        std = math.sqrt(sum((r - mean) ** 2 for r in peers) / (len(peers) - 1))
        adv = (rewards[i] - mean) / (std + 1e-6)
        for t, sampled in enumerate(row):
            ratio = math.exp(logp[i][t] - old_logp[i][t])
            clipped = ratio > 1.2 if adv > 0 else ratio < 0.8
            if sampled and not clipped:
                gradient[i][t] = -adv * ratio / sum(row) / len(mask)
    return gradient


def check_tool_loss(trial: Trial) -> str:
    for _ in range(30):
        logp, batch, told = _tool_batch(trial.rng)
        trial.begin(
            told, "a scalar tensor that depends on logp", "Return the loss, a torch scalar; do not detach."
        )
        loss = trial.answer(logp, batch)
        if not isinstance(loss, Tensor) or loss.ndim or not loss.requires_grad:
            trial.fail(f"{type(loss).__name__} {show(loss)}")
        (came,) = torch.autograd.grad(loss, logp, allow_unused=True)
        _compare(
            trial,
            torch.zeros_like(logp) if came is None else came,
            torch.tensor(_gradient(logp, batch)),
            batch,
        )
    return "30 random batches, the gradient at every token against a plain loop over the formula"


def _compare(trial: Trial, came: Tensor, expected: Tensor, batch: Batch) -> None:
    off = ((came - expected).abs() > 1e-6).nonzero().tolist()
    if not off:
        return
    forced = [place for place in off if batch.mask[tuple(place)] == 0]
    i, t = (forced or off)[0]
    got, want = came[i, t].item(), expected[i, t].item()
    own, obs = int(batch.mask[i].sum()), int(((batch.mask == 0) & (batch.turn >= 0))[i].sum())
    kind = "a sampled token"
    hint = f"The loss of a try is the mean over its {own} sampled tokens; every try weighs the same."
    if forced:
        kind = (
            "an observation" if batch.turn[i, t] >= 0 else "the prompt" if t < batch.lengths[i] else "padding"
        )
        hint = "Nobody sampled this token, so the loss must not depend on it: where does the mask come from?"
    elif want == 0:
        hint = (
            "The ratio is beyond the clip (0.8 to 1.2) in the direction of the advantage: no gradient there."
        )
    elif math.isclose(got * (own + obs), want * own, rel_tol=1e-6):
        hint = (
            f"The sum is right, but it is divided by {own + obs}: the {obs} observation tokens still count."
        )
    trial.fail(f"gradient {got:.4f} at row {i}, token {t}, {kind}", hint, f"gradient {want:.4f} there")


def tool_loss(logp: Tensor, batch: Batch) -> Tensor:
    """GRPO over episodes with tool calls, a scalar. logp (B, T): of each token under the policy now."""
    own = batch.mask
    adv = ops.per_token(ops.group_zscore(batch.reward, batch.group), own)
    ratio = ops.ratio(logp, batch.old_logp)
    return ops.sequence_mean(ops.clipped_surrogate(ratio, adv, 0.2, 0.2), own)


# What the chapter hands out: the tokens behind the prompt, observations among them, for those of the policy.
tool_loss_with_bug = changed(tool_loss, "batch.mask", "(batch.turn >= 0).to(logp.dtype)")


# fmt: off
EXERCISES = (
    Exercise(
        "08.4",
        "tool_loss(logp, batch): the GRPO loss of a tool loop, without its bug.",
        check_tool_loss, tool_loss,
        (
            Wrong(tool_loss_with_bug, "trains on observations", "observation"),
            Wrong(changed(tool_loss, "0.2, 0.2), own)", "0.2, 0.2), (batch.turn >= 0).to(logp.dtype))"),
                  "takes observations out of the sum, not of the mean", "observation tokens still count"),
            Wrong(changed(tool_loss, "batch.mask", "torch.ones_like(logp)"), "trains on all", "Nobody"),
            Wrong(changed(tool_loss, "ops.clipped_surrogate(ratio, adv, 0.2, 0.2)", "-adv * ratio"),
                  "leaves the clip out", "beyond the clip"),
            Wrong(changed(tool_loss, "sequence_mean", "token_mean"),
                  "weighs tokens instead of tries", "every try weighs the same"),
            Wrong(changed(tool_loss, "ratio(logp,", "ratio(logp.detach(),"), "detaches", "do not detach"),
        ),
    ),
)
# fmt: on
