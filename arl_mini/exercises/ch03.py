"""Chapter 03: a pair's weight, two readings of IPO, flipped labels, pairs of steps, a loss with a bug."""

import math
import random
from collections.abc import Iterable, Mapping
from numbers import Real

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from .. import ops
from ..batch import Batch
from ..lab.check import Trial, show
from . import Exercise, Wrong, changed


def _near(came, expected: float, tolerance: float = 1e-6) -> bool:
    """Whether something is a real number within a tolerance, relative for large numbers."""
    number = came.item() if isinstance(came, Tensor) and came.numel() == 1 else came
    return isinstance(number, Real) and abs(number - expected) <= tolerance * max(1.0, abs(expected))


# --- 03.1 -------------------------------------------------------------------------------------------------


def check_weight(trial: Trial) -> str:
    rng = trial.rng
    told = [(0.0, 0.1), (0.0, 0.5)] + [(rng.uniform(-30, 30), rng.uniform(0.05, 2.0)) for _ in range(100)]
    for margin, beta in [*told, (2000.0, 1.0), (-2000.0, 1.0)]:
        h = torch.tensor(margin, dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(-logsigmoid(beta * h), h)
        hint = "Differentiate −log σ(βh) by h: the chain rule gives a factor β, and σ' / σ = 1 − σ."
        if abs(margin) >= 2000:
            hint = "e^2000 is beyond a float: use torch.sigmoid, or the form whose exponent is negative."
        trial.begin(f"weight({margin:.4g}, {beta:.4g})", f"{-slope.item():.6g}, as autograd says", hint)
        came = trial.answer(margin, beta)
        if not _near(came, -slope.item()):
            trial.fail(show(came))
    return f"{len(told)} random margins and two extreme ones, against autograd"


def weight(margin: float, beta: float) -> float:
    """−∂L/∂h of L = −log σ(βh): how hard DPO pushes a pair whose log-ratios are h = margin apart."""
    return beta * torch.sigmoid(torch.tensor(-beta * margin, dtype=torch.float64)).item()


# --- 03.2 -------------------------------------------------------------------------------------------------


def check_ipo(trial: Trial) -> str:
    rng = trial.rng
    for size in range(60):
        longest = 1 + size // 6
        rows = [[round(rng.uniform(-2, 2), 2) for _ in range(rng.randint(1, longest))] for _ in range(2)]
        tau = rng.choice((0.05, 0.1, 0.5, 1.0))
        gaps = {"TRL": _mean(rows[0]) - _mean(rows[1]), "OpenRLHF": sum(rows[0]) - sum(rows[1])}
        expected = {name: (gap - 1 / (2 * tau)) ** 2 for name, gap in gaps.items()}
        told = {name: round(value, 4) for name, value in expected.items()}
        call = f"ipo({rows[0]}, {rows[1]}, {tau})"
        trial.begin(call, str(told), "A dict with the loss of each library.")
        came = trial.answer(*[list(row) for row in rows], tau)
        if not isinstance(came, Mapping) or set(came) != set(expected):
            trial.fail(f"{type(came).__name__} {show(came)}")
        if all(_near(came[a], expected[b]) for a, b in (("TRL", "OpenRLHF"), ("OpenRLHF", "TRL"))):
            same = _near(expected["TRL"], expected["OpenRLHF"])
            if not same:
                trial.fail(
                    show(dict(came)), "The other way round: TRL divides a row's log-ratio by its length."
                )
        hints = {"TRL": "TRL takes the mean of each row, by the row's own length; the target is 1/(2τ).",
                 "OpenRLHF": "OpenRLHF takes the sum of each row; the target is 1/(2τ)."}  # fmt: skip
        for name, hint in hints.items():
            if not _near(came[name], expected[name]):
                trial.fail(f"{show(came[name])} for {name}", hint)
    return "60 random pairs of rows, ragged"


def _mean(row: list[float]) -> float:
    return sum(row) / len(row)


def ipo(chosen: list[float], rejected: list[float], tau: float) -> dict[str, float]:
    """The IPO loss of one pair as two libraries read it; chosen, rejected: log π − log π_ref by token."""
    gaps = {
        "TRL": sum(chosen) / len(chosen) - sum(rejected) / len(rejected),
        "OpenRLHF": sum(chosen) - sum(rejected),
    }
    return {name: (gap - 1 / (2 * tau)) ** 2 for name, gap in gaps.items()}


# --- 03.3 -------------------------------------------------------------------------------------------------


def check_learned_gap(trial: Trial) -> str:
    rng = trial.rng
    for gap in [1.0, -1.0] + [rng.uniform(-8, 8) for _ in range(30)]:
        before = math.inf
        for flipped in (0.0, *sorted(rng.uniform(0.01, 0.49) for _ in range(4)), 0.5):
            true = 1 / (1 + math.exp(-gap))
            seen = true * (1 - flipped) + (1 - true) * flipped
            expected = math.log(seen) - math.log1p(-seen)
            hint = "'First' comes with chance σ(gap), a flip says the opposite. What share says 'first'?"
            if flipped == 0:
                hint = "Without flipped labels DPO recovers the true gap: that is what Bradley–Terry means."
            if flipped == 0.5:
                hint = "Half of the labels flipped: they say nothing, so nothing is learned."
            trial.begin(f"learned_gap({gap:.4g}, {flipped:.4g})", f"{expected:.6g}", hint)
            came = trial.answer(gap, flipped)
            if not _near(came, expected, 1e-5):
                trial.fail(show(came))
            if abs(came) > before + 1e-5:
                trial.fail(f"{show(came)}, larger than with fewer flips")
            before = abs(float(came))
    return "32 random gaps with six shares of flipped labels each"


def learned_gap(gap: float, flipped: float) -> float:
    """The gap of implicit rewards that DPO ends at, given endless labels of which a share is flipped."""
    true = 1 / (1 + math.exp(-gap))
    seen = true * (1 - flipped) + (1 - true) * flipped
    return math.log(seen / (1 - seen))


# --- 03.4 -------------------------------------------------------------------------------------------------

Trace = list[tuple[int, bool]]  # (step, whether a judge calls it right)


def _traces(rng: random.Random, n: int) -> list[Trace]:
    """Traces over few steps, which share beginnings. What the judge says after a wrong step means nothing."""
    made = []
    for _ in range(n):
        steps = [rng.choices(range(4), (4, 2, 2, 1))[0] for _ in range(rng.randint(1, 4))]
        wrong = next((k for k, step in enumerate(steps) if step > 1), len(steps))
        made.append([(s, k < wrong or (k > wrong and rng.random() < 0.5)) for k, s in enumerate(steps)])
    return made


def _expected_pairs(traces: list[Trace]) -> set:
    found = set()
    for trace in traces:
        for k, (step, right) in enumerate(trace):
            if right:
                continue
            before = tuple(s for s, _ in trace[:k])
            for other in traces:
                same = tuple(s for s, _ in other[:k]) == before and len(other) > k and other[k][1]
                if same and all(r for _, r in other[:k]):
                    found.add((before, other[k][0], step))
            break
    return found


def check_step_pairs(trial: Trial) -> str:
    rng = trial.rng
    right = [[(0, True), (1, True)], [(1, True)], [(0, True), (0, True)]]
    told = [right] + [_traces(rng, rng.randint(1, 2 + size // 5)) for size in range(60)]
    for traces in told:
        expected = _expected_pairs(traces)
        hint = "Traces without a wrong step make no pair." if traces is right else ""
        trial.begin(f"step_pairs({traces})", show(sorted(expected)), hint)
        came = trial.answer([list(trace) for trace in traces])
        if not isinstance(came, Iterable) or isinstance(came, str):
            trial.fail(f"{type(came).__name__} {show(came)}", "A list of (prefix, right step, wrong step).")
        pairs = [(tuple(before), good, bad) for before, good, bad in came]
        if extra := sorted(set(pairs) - expected):
            trial.fail(f"too many, such as {show(extra[0])}", hint or _why(extra[0], traces))
        if missing := sorted(expected - set(pairs)):
            trial.fail(
                f"{show(missing[0])} is missing",
                "Every wrong step, against each right one after the same prefix.",
            )
        if len(pairs) != len(set(pairs)):
            trial.fail(show(pairs), "Each pair once, however many traces agree on it.")
    return f"{len(told)} random sets of traces, one of them without a wrong step"


def _why(pair: tuple, traces: list[Trace]) -> str:
    """What is wrong with a pair that should not be there."""
    before, _, bad = pair
    at = len(before)
    starts = [(tuple(s for s, _ in t[:at]), t[at]) for t in traces if len(t) > at]
    if (before, (bad, False)) not in starts:
        return "No trace has this wrong step after this prefix."
    if any(step > 1 for step in before):
        return "Only the first wrong step counts: the prefix must be right in every step."
    return "The right step must come after the same prefix, in a trace that is right so far."


def step_pairs(traces: list[Trace]) -> list[tuple[tuple[int, ...], int, int]]:
    """(prefix, right step, wrong step): each first wrong step, each right step after the same prefix."""
    found = set()
    for trace in traces:
        k = next((k for k, (_, right) in enumerate(trace) if not right), None)
        if k is None:
            continue
        for other in traces:
            if len(other) > k and other[:k] == trace[:k] and other[k][1]:
                found.add((tuple(s for s, _ in trace[:k]), other[k][0], trace[k][0]))
    return sorted(found)


def step_pairs_whole(traces):
    """Compares whole answers: a right one with a wrong one."""
    good = [t for t in traces if all(r for _, r in t)]
    bad = [t for t in traces if not all(r for _, r in t)]
    return sorted({((), g[0][0], b[0][0]) for g in good for b in bad})


# --- 03.5 -------------------------------------------------------------------------------------------------


def _pair_batch(rng: random.Random) -> tuple[Tensor, Batch, str]:
    """Log-probabilities (a leaf), a batch of shuffled pairs and single rows, and what it is in words."""
    pairs, alone = rng.randint(1, 4), rng.randint(0, 2)
    marks = [(k, c) for k in range(pairs) for c in (True, False)] + [(-1, False)] * alone
    rng.shuffle(marks)
    lengths = [rng.randint(3, 9) for _ in marks]
    start = [rng.randint(1, n - 1) for n in lengths]
    place = torch.arange(max(lengths))
    mask = torch.stack([((place >= s) & (place < n)).double() for s, n in zip(start, lengths)])
    draw = torch.Generator().manual_seed(rng.randrange(2**31))
    logp, ref = (-3 * torch.rand(mask.shape, generator=draw, dtype=torch.float64) for _ in range(2))
    none = torch.zeros(len(marks), dtype=torch.bool)
    batch = Batch(
        torch.zeros(mask.shape, dtype=torch.long), mask, logp, torch.zeros_like(mask), mask.long() - 1,
        torch.zeros(len(marks), dtype=torch.long), torch.tensor(lengths), none, none, ref_logp=ref,
        pair=torch.tensor([k for k, _ in marks]), chosen=torch.tensor([c for _, c in marks]),
    )  # fmt: skip
    told = f"batch.pair {[k for k, _ in marks]}, batch.chosen {[int(c) for _, c in marks]}, lengths {lengths}"
    return logp.clone().requires_grad_(), batch, told


def _naive_dpo(logp: Tensor, batch: Batch, beta: float) -> Tensor:
    """DPO by loops over pairs and tokens."""
    total, pairs = logp.new_zeros(()), sorted(set(batch.pair.tolist()) - {-1})
    for pair in pairs:
        h = logp.new_zeros(())
        for i in range(len(logp)):
            if int(batch.pair[i]) == pair:
                sign = 1 if bool(batch.chosen[i]) else -1
                for t in range(logp.shape[1]):
                    if batch.mask[i, t] > 0:
                        h = h + sign * (logp[i, t] - batch.ref_logp[i, t])
        total = total - logsigmoid(beta * h)
    return total / len(pairs)


def check_dpo_loss(trial: Trial) -> str:
    for _ in range(40):
        logp, batch, told = _pair_batch(trial.rng)
        beta = trial.rng.choice((0.1, 0.5, 1.0))
        expected = _naive_dpo(logp, batch, beta)
        (slope,) = torch.autograd.grad(expected, logp)
        hint = "Which row is the chosen one, the mask says nothing of: look at batch.pair and batch.chosen."
        trial.begin(f"beta {beta}, {told}", f"loss {expected.item():.6f}", hint)
        came = trial.answer(logp, batch, beta)
        if not isinstance(came, Tensor) or came.shape != ():
            trial.fail(f"{type(came).__name__} {show(came)}", "A scalar tensor.")
        if not came.requires_grad:
            trial.fail("a loss without gradient", "Nothing of the policy's may be detached.")
        if not _near(came, expected.item()):
            trial.fail(f"loss {came.item():.6f}", _diagnosis(came.item(), logp, batch, beta) or hint)
        (found,) = torch.autograd.grad(came, logp, allow_unused=True)
        trial.expected = f"gradient by a naive loop, largest {float(slope.abs().max()):.4f}"
        if found is None or not torch.allclose(found, slope, atol=1e-8):
            trial.fail("another gradient", "The value is right, the gradient is not: what was detached?")
    return "40 random batches of shuffled pairs, value and gradient against a naive loop"


def _diagnosis(came: float, logp: Tensor, batch: Batch, beta: float) -> str:
    """The mistake that gives this value, in words, if it is a known one."""
    logp = logp.detach()
    whole = batch.set(mask=torch.ones_like(batch.mask))
    bare = batch.set(ref_logp=torch.zeros_like(logp))
    mean = ops.row_mean(logp - batch.ref_logp, batch.mask)
    chosen, rejected = ops.pair_rows(batch.pair, batch.chosen)
    known = {
        "With the policy as its own reference every margin is 0 and the loss is log 2.": math.log(2),
        "Prompt and padding count too; only sampled tokens (mask 1) should.": _naive_dpo(logp, whole, beta),
        "Where is the reference? Without it there is no KL to stay near.": _naive_dpo(logp, bare, beta),
        "A reply's log-probability is the sum over its tokens, not the mean.": -logsigmoid(
            beta * (mean[chosen] - mean[rejected])
        ).mean(),
    }
    return next((hint for hint, value in known.items() if abs(float(value) - came) < 1e-9), "")


def dpo_loss(logp: Tensor, batch: Batch, beta: float) -> Tensor:
    """DPO's loss, a scalar. logp: (B, T) of the policy; pairs as batch.pair and batch.chosen say."""
    worth = ops.row_sum(logp - batch.ref_logp, batch.mask)
    chosen, rejected = ops.pair_rows(batch.pair, batch.chosen)
    return -logsigmoid(beta * (worth[chosen] - worth[rejected])).mean()


def dpo_loss_with_bug(logp, batch, beta):
    """Takes it that rows come as chosen, rejected, chosen, rejected."""
    worth = ops.row_sum(logp - batch.ref_logp, batch.mask)[batch.pair >= 0]
    return -logsigmoid(beta * (worth[0::2] - worth[1::2])).mean()


# fmt: off
EXERCISES = (
    Exercise(
        "03.1",
        "weight(margin, beta): −∂L/∂h of DPO's loss L = −log σ(βh) at h = margin.",
        check_weight, weight,
        (
            Wrong(lambda margin, beta: weight(beta * margin, 1.0), "forgets the chain rule's β", "factor β"),
            Wrong(lambda margin, beta: weight(-margin, beta),
                  "pushes hardest where all is well", "as autograd says"),
            Wrong(lambda margin, beta: beta * weight(margin, 1.0),
                  "leaves β out of the sigmoid", "as autograd says"),
            Wrong(lambda margin, beta: beta / (1 + math.exp(beta * margin)), "overflows", "beyond a float"),
            Wrong(lambda margin, beta: -weight(margin, beta), "has the slope's sign", "as autograd says"),
        ),
    ),
    Exercise(
        "03.2",
        "ipo(chosen, rejected, tau): {'TRL': loss, 'OpenRLHF': loss} of one ragged pair.",
        check_ipo, ipo,
        (
            Wrong(lambda w, l, tau: dict(zip(("OpenRLHF", "TRL"), ipo(w, l, tau).values())),
                  "takes one library for the other", "other way round"),
            Wrong(changed(ipo, "/ len(rejected)", "/ len(chosen)"),
                  "divides both by one length", "row's own length"),
            Wrong(changed(ipo, "1 / (2 * tau)", "1 / tau"), "has twice the target", "target is 1/(2τ)"),
            Wrong(lambda w, l, tau: dict.fromkeys(("TRL", "OpenRLHF"), ipo(w, l, tau)["OpenRLHF"]),
                  "sums for both", "mean of each row"),
            Wrong(lambda w, l, tau: ipo(w, l, tau)["TRL"], "knows one reading only", "dict"),
        ),
    ),
    Exercise(
        "03.3",
        "learned_gap(gap, flipped): where DPO ends when a share of the labels is flipped.",
        check_learned_gap, learned_gap,
        (
            Wrong(lambda gap, flipped: (1 - 2 * flipped) * gap,
                  "shrinks the gap in a straight line", "What share"),
            Wrong(lambda gap, flipped: gap, "takes labels at their word", "What share"),
            Wrong(changed(learned_gap, "+ (1 - true) * flipped", ""), "forgets flips in the other direction",
                  "What share"),
            Wrong(changed(learned_gap, "math.log(seen / (1 - seen))", "seen"), "returns a probability",
                  "recovers the true gap"),
        ),
    ),
    Exercise(
        "03.4",
        "step_pairs(traces): (prefix, right step, wrong step) of each first wrong step.",
        check_step_pairs, step_pairs,
        (
            Wrong(step_pairs_whole, "compares whole answers", "wrong step"),
            Wrong(changed(step_pairs, "other[:k] == trace[:k]", "True"), "ignores the prefix", "same prefix"),
            Wrong(changed(step_pairs, "and other[k][1]", "and other[k] != trace[k]"),
                  "takes any other step for a right one", "right so far"),
            Wrong(changed(step_pairs, "return sorted(found)", "return sorted(found) * 2"),
                  "says each twice", "once"),
            Wrong(changed(step_pairs, "        if k is None:\n            continue\n",
                          "        if k is None:\n            k = len(trace) - 1\n"),
                  "makes pairs of right traces", "without a wrong step make no pair"),
        ),
    ),
    Exercise(
        "03.5",
        "dpo_loss(logp, batch, beta): DPO's loss, without its bug.",
        check_dpo_loss, dpo_loss,
        (
            Wrong(dpo_loss_with_bug, "takes every second row for a chosen one", "batch.chosen"),
            Wrong(changed(dpo_loss, "batch.ref_logp", "logp.detach()"), "is its own reference", "log 2"),
            Wrong(changed(dpo_loss, "logp - batch.ref_logp", "logp"),
                  "has no reference", "Where is the reference"),
            Wrong(changed(dpo_loss, "row_sum", "row_mean"), "takes the mean", "not the mean"),
            Wrong(changed(dpo_loss, "batch.mask", "torch.ones_like(logp)"),
                  "counts prompts", "Prompt and padding"),
            Wrong(changed(dpo_loss, "worth[rejected]", "worth[rejected].detach()"),
                  "pushes up only", "gradient"),
        ),
    ),
)
# fmt: on
