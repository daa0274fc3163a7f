"""Chapter 11: a vote that may abstain, the uncertain fifth of the tokens, when thinking pays, calibration, a
bug."""

import itertools
import math
import random

import torch

from ..lab.check import Trial, same, show
from . import Exercise, Wrong, changed, numbers

# --- 11.1 -------------------------------------------------------------------------------------------------


def check_decide(trial: Trial) -> str:
    """Against every list of up to five answers from two letters and None, with several thresholds."""
    cases = 0
    for n in range(1, 6):
        for answers in itertools.product(("a", "b", None), repeat=n):
            need = trial.rng.choice((0.0, 0.4, 0.5, 0.6, 1.0))
            counts = {letter: answers.count(letter) for letter in "ab"}
            top = max(counts.values())
            leaders = [letter for letter in "ab" if counts[letter] == top]
            sure = top > 0 and top >= need * n - 1e-9
            expected = leaders[0] if sure and len(leaders) == 1 else None
            told = repr(expected) if expected else "None: no answer"
            trial.begin(f"decide({list(answers)}, {need})", told, _why_not(counts, need, n))
            if not same(trial.answer(list(answers), need), expected):
                trial.fail(show(trial.answer(list(answers), need)))
            cases += 1
    return f"all {cases} lists of up to five answers"


def _why_not(counts: dict[str, int], need: float, n: int) -> str:
    first, second = counts["a"], counts["b"]
    if first == second:
        return "Two answers lead with as many votes (or there is none): abstain."
    if max(first, second) < need * n:
        return (
            f"The leader needs at least {need:g} of all {n} tries; tries without an answer count among them."
        )
    return "The leader has enough votes; None is nobody's answer."


def decide(answers: list, need: float):
    """The answer with most votes if it has `need` of all tries and leads alone; else None."""
    votes = {a: answers.count(a) for a in answers if a is not None}
    top = max(votes.values(), default=0)
    leaders = [a for a, count in votes.items() if count == top]
    return leaders[0] if len(leaders) == 1 and top >= need * len(answers) - 1e-9 else None


# --- 11.2 -------------------------------------------------------------------------------------------------


def check_forks(trial: Trial) -> str:
    for _ in range(40):
        B, T = trial.rng.randint(1, 4), trial.rng.randint(3, 12)
        drawn = iter(trial.rng.sample(range(10, 2000), B * T))  # no two alike
        entropy = [[next(drawn) / 1000 for _ in range(T)] for _ in range(B)]
        mask = [[float(t > 0 and trial.rng.random() < 0.7) for t in range(T)] for _ in range(B)]
        mask[0][-1] = 1.0
        share = trial.rng.choice((0.1, 0.2, 0.5, 1.0))
        n = int(sum(map(sum, mask)))
        keep = math.ceil(share * n - 1e-9)
        ranked = sorted((-entropy[i][t], i, t) for i in range(B) for t in range(T) if mask[i][t])
        wanted = {(i, t) for _, i, t in ranked[:keep]}
        trial.begin(
            f"forks({entropy}, {mask}, {share})", f"1 at {keep} of the {n} sampled tokens: {sorted(wanted)}"
        )
        came = trial.answer(torch.tensor(entropy), torch.tensor(mask), share)
        found = numbers(trial, came, (B, T))
        _compare_forks(trial, found, mask, wanted, keep)
    return "40 random batches with forced tokens among the sampled"


def _compare_forks(trial: Trial, found, mask, wanted: set, keep: int) -> None:
    ones = {(i, t) for i, row in enumerate(found.tolist()) for t, x in enumerate(row) if x}
    if forced := sorted((i, t) for i, t in ones if not mask[i][t]):
        trial.fail(f"a 1 at {forced[0]}", "Nobody sampled that token: rank the sampled ones alone.")
    if len(ones) != keep:
        trial.fail(
            f"{len(ones)} ones", "Take ⌈share·n⌉ of all n sampled tokens of the batch, not of each row."
        )
    if ones != wanted or not set(found.flatten().tolist()) <= {0.0, 1.0}:
        trial.fail(
            f"ones at {sorted(ones)}", "The highest entropies are wanted: where the policy is least sure."
        )


def forks(entropy, mask, share):
    """1 at the `share` of all sampled tokens with the highest entropy, (B, T)."""
    n = int(mask.sum())
    ranked = entropy.masked_fill(mask == 0, -torch.inf).flatten().argsort(descending=True)
    kept = torch.zeros(mask.numel())
    kept[ranked[: math.ceil(share * n - 1e-9)]] = 1.0
    return kept.view_as(mask)


def forks_by_row(entropy, mask, share):
    out = torch.zeros_like(mask)
    for i, row in enumerate(entropy.masked_fill(mask == 0, -torch.inf)):
        out[i, row.argsort(descending=True)[: math.ceil(share * int(mask[i].sum()) - 1e-9)]] = 1.0
    return out


# --- 11.3 -------------------------------------------------------------------------------------------------


def _simulated(rng: random.Random, right: float, tokens: int, price: float, n: int) -> float:
    """Mean pay of n answers."""
    return sum(float(rng.random() < right) for _ in range(n)) / n - price * tokens


def check_break_even(trial: Trial) -> str:
    for _ in range(60):
        fast, gain = trial.rng.uniform(0.05, 0.7), trial.rng.uniform(0.1, 0.3)
        short, longer = trial.rng.randint(1, 4), trial.rng.randint(2, 9)
        told = f"break_even({fast:.3f}, {short}, {fast + gain:.3f}, {short + longer})"
        trial.begin(told, "a finite number of reward a token", "Compare right − price·tokens of both modes.")
        price = float(numbers(trial, trial.answer(fast, short, fast + gain, short + longer), ()))
        n, band = (
            20_000,
            0.02,
        )  # the band is over 3.9 standard errors of the difference of two shares of 20,000
        slow_pays = _simulated(trial.rng, fast + gain, short + longer, price, n)
        fast_pays = _simulated(trial.rng, fast, short, price, n)
        trial.begin(
            f"{told} = {price:.4f}: both modes, 20,000 answers each at this price",
            f"equal pay, within {band}", "At the price where thinking just stops to pay, both earn the same.",
        )  # fmt: skip
        if not abs(slow_pays - fast_pays) <= band:
            trial.fail(f"slow earns {slow_pays:.3f}, fast {fast_pays:.3f}")
    return "60 pairs of modes, 20,000 answers of each"


def break_even(fast: float, short: int, slow: float, long: int) -> float:
    """The price a token at which slow thinking stops to pay."""
    return (slow - fast) / (long - short)


# --- 11.4 -------------------------------------------------------------------------------------------------


def _reference(confidence: list[float], right: list[bool], bins: int) -> float:
    total = 0.0
    for b in range(bins):
        rows = [i for i, p in enumerate(confidence) if min(int(p * bins), bins - 1) == b]
        if rows:
            said = sum(confidence[i] for i in rows) / len(rows)
            total += abs(said - sum(right[i] for i in rows) / len(rows)) * len(rows) / len(right)
    return total


def check_ece(trial: Trial) -> str:
    for number in range(60):
        n, bins = trial.rng.randint(1, 60), trial.rng.choice((2, 5, 10))
        # odd thousandths: none lies on the edge of a bin, where two honest ways to bin may differ
        confidence = [(2 * int(500 * min(trial.rng.betavariate(2, 1), 0.999)) + 1) / 1000 for _ in range(n)]
        if number % 3 == 0:
            confidence[0] = 1.0
        right = [trial.rng.random() < p * 0.7 for p in confidence]
        expected = _reference(confidence, right, bins)
        told = show(list(zip(confidence, right)))
        hint = "Mean of |mean confidence − share right| over bins, each with its part; 1.0 is in the last."
        trial.begin(f"ece of {n} answers, {bins} bins: {told}", f"{expected:.6f}", hint)
        came = float(numbers(trial, trial.answer(list(confidence), list(right), bins), ()))
        if not abs(came - expected) <= 1e-6:
            trial.fail(f"{came:.6f}")
    return "60 random sets of answers"


def ece(confidence: list[float], right: list[bool], bins: int) -> float:
    """Expected calibration error with bins of equal width."""
    total = 0.0
    for b in range(bins):
        rows = [i for i, p in enumerate(confidence) if min(int(p * bins), bins - 1) == b]
        if rows:
            gap = sum(confidence[i] - right[i] for i in rows)
            total += abs(gap)
    return total / len(right)


# --- 11.5 -------------------------------------------------------------------------------------------------


def check_shaped(trial: Trial) -> str:
    for _ in range(60):
        tries = trial.rng.randint(3, 8)
        right = [trial.rng.random() < 0.5 for _ in range(tries)]
        right[:3] = True, False, False
        length = trial.rng.sample(range(1, 13), tries)
        price = trial.rng.uniform(0.01, 0.07)
        paid = [float(r) * (1 - price * n) for r, n in zip(right, length)]
        expected = [p - sum(paid) / tries for p in paid]
        told = [round(x, 4) for x in expected]
        shown = f"shaped({[int(r) for r in right]}, {length}, {price:.3f})"
        trial.begin(
            shown, str(told), "reward = right·(1 − price·length); advantage = reward − mean of the group"
        )
        came = numbers(
            trial, trial.answer(torch.tensor(right).double(), torch.tensor(length).double(), price), (tries,)
        )
        _compare_shaped(trial, came.tolist(), expected, right, length)
    return "60 random groups of tries"


def _compare_shaped(trial: Trial, came: list, expected: list, right: list, length: list) -> None:
    wrong = {came[i] for i in range(len(came)) if not right[i]}
    if max(wrong) - min(wrong) > 1e-6:
        trial.fail(
            str([round(x, 4) for x in came]),
            "Two wrong answers differ: the shorter of them is preferred to the longer.",
        )
    best_wrong = max(wrong)
    beaten = [i for i in range(len(came)) if right[i] and came[i] <= best_wrong]
    if beaten:
        i = beaten[0]
        trial.fail(str([round(x, 4) for x in came]), f"Try {i} is right and no better than a wrong one.")
    if any(abs(a - b) > 1e-6 for a, b in zip(came, expected)):
        trial.fail(str([round(x, 4) for x in came]))


def shaped(right, length, price):
    """Advantages of a group when tokens of right answers cost something."""
    reward = right - price * length * right
    return reward - reward.mean()


# fmt: off
EXERCISES = (
    Exercise(
        "11.1",
        "decide(answers, need): the answer that leads alone and has `need` of all tries; else None.",
        check_decide, decide,
        (
            Wrong(changed(decide, "if len(leaders) == 1 and top", "if leaders and top"),
                  "takes the first of two leaders", "lead with as many votes"),
            Wrong(changed(decide, "need * len(answers)", "need * sum(a is not None for a in answers)"),
                  "leaves tries without an answer out of the count", "tries without an answer count"),
            Wrong(changed(decide, " for a in answers if a is not None}", " for a in answers}"),
                  "lets None take part in the vote", "None is nobody's answer"),
            Wrong(changed(decide, "- 1e-9", "+ 1e-9"), "asks for more than was needed", "has enough votes"),
        ),
    ),
    Exercise(
        "11.2",
        "forks(entropy, mask, share): 1 at the share of all sampled tokens with the highest entropy, (B, T).",
        check_forks, forks,
        (
            Wrong(changed(forks, "entropy.masked_fill(mask == 0, -torch.inf)", "entropy"),
                  "ranks forced tokens too", "Nobody sampled that token"),
            Wrong(forks_by_row, "takes the share of each row", "ones"),
            Wrong(changed(forks, "descending=True", "descending=False"),
                  "takes the lowest", "Nobody sampled that token"),
            Wrong(changed(forks, "int(mask.sum())", "mask.numel()"), "counts all positions", "ones"),
        ),
    ),
    Exercise(
        "11.3",
        "break_even(fast, short, slow, long): the price a token at which thinking just stops to pay.",
        check_break_even, break_even,
        (
            Wrong(changed(break_even, "(long - short)", "long"), "charges only the thinker",
                  "both earn the same"),
            Wrong(changed(break_even, "(slow - fast) / (long - short)", "slow / long - fast / short"),
                  "compares accuracy a token", "both earn the same"),
            Wrong(changed(break_even, "(slow - fast)", "(fast - slow)"),
                  "has the sign wrong", "both earn the same"),
        ),
    ),
    Exercise(
        "11.4",
        "ece(confidence, right, bins): expected calibration error with bins of equal width.",
        check_ece, ece,
        (
            Wrong(changed(ece, "min(int(p * bins), bins - 1)", "int(p * bins)"),
                  "loses a confidence of 1.0", "is in the last"),
            Wrong(changed(ece, "total += abs(gap)", "total += gap"),
                  "lets bins make up for each other", "share right"),
            Wrong(lambda c, r, bins: abs(sum(c) / len(c) - sum(r) / len(r)), "has one bin", "share right"),
            Wrong(lambda c, r, bins: sum((p - x) ** 2 for p, x in zip(c, r)) / len(c),
                  "is a Brier score", "share right"),
        ),
    ),
    Exercise(
        "11.5",
        "shaped(right, length, price): advantages of a group, a price on right tokens; without its bug.",
        check_shaped, shaped,
        (
            Wrong(changed(shaped, "price * length * right", "price * length"),
                  "makes wrong answers pay too, so that short ones gain", "Two wrong answers differ"),
            Wrong(changed(shaped, "reward - reward.mean()", "(right - right.mean()) - price * length"),
                  "takes the price off the advantage", "Two wrong answers differ"),
            Wrong(changed(shaped, "reward.mean()", "reward.max()"),
                  "compares with the best of the group", "mean of the group"),
            Wrong(changed(shaped, "- price * length * right", "+ price * (length.max() - length)"),
                  "pays for being short", "Two wrong answers differ"),
        ),
    ),
)
# fmt: on
