"""Chapter 04: what a token weighs, what an estimate of a KL pulls at, refilling, long ratios, the axis."""

import math
import statistics
from numbers import Real

import torch
from torch import Tensor

from ..lab.check import Trial, show
from . import Exercise, Wrong, changed, numbers


def _short(x: Tensor) -> str:
    """Numbers with four digits."""
    return str([_short(row) if row.dim() else round(float(row), 4) for row in x]).replace("'", "")


# --- 04.1 -------------------------------------------------------------------------------------------------

REDUCTIONS = {
    "token": "1/Σn: every token of the batch weighs the same, so all weights sum to 1",
    "sequence": "1/(B·n): a row's weights sum to 1/B, however long it is; B counts empty rows too",
    "constant": "1/(B·length): the weight depends on nothing that was sampled",
    "sum": "1/B: the log-probability of a row is a sum",
    "width": "1/T, T the padded width: no division by B at all",
}


def check_weights(trial: Trial) -> str:
    rng = trial.rng
    for index in range(60):
        B, T, length = rng.randint(2, 4), rng.randint(3, 7), rng.randint(8, 20)
        mask = [[0.0] + [float(rng.random() < 0.6) for _ in range(T - 1)] for _ in range(B)]
        mask[0][-1] = 1.0
        if index % 4 == 3:
            mask[-1] = [0.0] * T  # nobody sampled a token of this row
        sizes = [max(1.0, sum(row)) for row in mask]
        for name, hint in REDUCTIONS.items():
            divisors = {"token": [sum(map(sum, mask))] * B, "sequence": [B * n for n in sizes],
                        "constant": [B * length] * B, "sum": [B] * B, "width": [T] * B}[name]  # fmt: skip
            expected = torch.tensor([[m / d for m in row] for row, d in zip(mask, divisors)]).double()
            shown = [[int(m) for m in row] for row in mask]
            trial.begin(f"weights(mask = {shown}, {name!r}, length = {length})", _short(expected),
                        f"{name!r} is {hint}; forced tokens weigh nothing.")  # fmt: skip
            came = numbers(trial, trial.answer(torch.tensor(mask), name, length), (B, T))
            if not torch.allclose(came, expected, atol=1e-6):
                trial.fail(_short(came))
    return "60 ragged masks, five reductions each"


def weights(mask: Tensor, name: str, length: int) -> Tensor:
    """mask (B, T) → (B, T): what each token's loss is multiplied by in the scalar."""
    B, T = mask.shape
    n = mask.sum(1, keepdim=True).clamp(min=1)
    scale = {"token": 1 / mask.sum(), "sequence": 1 / (B * n), "constant": 1 / (B * length),
             "sum": 1 / B, "width": 1 / T}  # fmt: skip
    return mask * scale[name]


# --- 04.2 -------------------------------------------------------------------------------------------------

KL_HINTS = {
    "k1": "E[∇ log π] = 0 whatever the reference is: k1 as a loss pulls at nothing.",
    "k2": "Expected: the gradient of KL(π ‖ ref), by hand π_j (x_j − Σ π x).",
    "k3": "Expected: the gradient of KL(ref ‖ π), by hand π − ref: the other way round.",
}


def check_kl_gradient(trial: Trial) -> str:
    rng = trial.rng
    for _ in range(40):
        theta, other = ([rng.gauss(0, 1.5) for _ in range(4)] for _ in range(2))
        pi, ref = ([math.exp(v) / sum(map(math.exp, row)) for v in row] for row in (theta, other))
        x = [math.log(p / q) for p, q in zip(pi, ref)]
        kl = sum(p * v for p, v in zip(pi, x))
        by_hand = {
            "k1": [0.0] * 4,
            "k2": [p * (v - kl) for p, v in zip(pi, x)],
            "k3": [p - q for p, q in zip(pi, ref)],
        }
        for name, expected in by_hand.items():
            trial.begin(
                f"kl_gradient({name!r}), π = {_short(torch.tensor(pi))}, ref = {_short(torch.tensor(ref))}",
                str([round(v, 4) for v in expected]),
                f"{KL_HINTS[name]} Only k(y) is differentiated, not the π(y) that weighs it.",
            )
            given = torch.tensor(theta).double(), torch.tensor(ref).double().log(), name
            came = numbers(trial, trial.answer(*given), (4,))
            if not torch.allclose(came, torch.tensor(expected).double(), atol=1e-6):
                trial.fail(_short(came))
    return "40 random policies and references over 4 tokens, three estimators each"


def kl_gradient(theta: Tensor, ref_logp: Tensor, name: str) -> Tensor:
    """Σ_y π(y) ∇_θ k(y) over the 4 tokens y, as a loss sees it: the weights π(y) are constants. (4,)"""
    theta = theta.clone().requires_grad_()
    logp = theta.log_softmax(0)
    x = logp - ref_logp
    k = {"k1": x, "k2": x**2 / 2, "k3": (-x).exp() + x - 1}[name]
    (logp.detach().exp() * k).sum().backward()
    return theta.grad


# --- 04.3 -------------------------------------------------------------------------------------------------


class _Prompts:
    """Hands out groups of rewards, counts how often it was asked, and refuses what nobody may ask."""

    def __init__(self, trial: Trial, live: float, tries: int, size: int, rounds: int):
        self.trial, self.live, self.tries, self.size, self.rounds = trial, live, tries, size, rounds
        self.given: list[list[float]] = []
        self.asked = 0

    @property
    def useful(self) -> list[list[float]]:
        return [group for group in self.given if min(group) < max(group)]

    def __call__(self, n: int) -> list[list[float]]:
        missing, rng = self.size - len(self.useful), self.trial.rng
        self.asked += 1
        if self.asked > self.rounds:
            hint = f"Ask {self.rounds} times at most, then go on with what there is."
            self.trial.fail(f"call {self.asked} of ask", hint)
        if not isinstance(n, int) or n != missing:
            hint = f"Ask for what is missing: {missing} groups with contrast. Dead ones are never kept."
            self.trial.fail(f"call {self.asked} is ask({show(n)})", hint)
        new = []
        for _ in range(n):
            group = [float(rng.random() < 0.5) for _ in range(self.tries)]
            if rng.random() < self.live:
                group[0], group[1] = 0.0, 1.0
            else:
                group = [rng.choice((0.0, 1.0, 0.3))] * self.tries
            new.append(group)
        self.given += new
        return [list(group) for group in new]


def check_refill(trial: Trial) -> str:
    rng = trial.rng
    for index in range(100):
        size, rounds, tries = rng.randint(1, 6), rng.randint(1, 6), rng.randint(2, 5)
        live = (0.0, 0.2, 0.5, 1.0)[index % 4]
        prompts = _Prompts(trial, live, tries, size, rounds)
        trial.begin(
            f"refill(ask, size = {size}, rounds = {rounds}); a share of {live} of the groups has contrast",
            "the groups with contrast, in the order they came",
            "A group whose tries all earned the same is dead: it is never kept.",
        )
        came = trial.answer(prompts, size, rounds)
        expected = prompts.useful
        if isinstance(came, list) and any(group in came for group in prompts.given if group not in expected):
            trial.fail(show(came), expected=f"{show(expected)} out of {show(prompts.given)}")
        if len(expected) < size and prompts.asked < rounds:
            hint = f"Groups are missing and only {prompts.asked} of {rounds} rounds were used: ask again."
            trial.fail(f"{prompts.asked} calls of ask, {len(expected)} useful groups: {show(came)}", hint)
        if not isinstance(came, list) or not _equal(came, expected):
            trial.fail(show(came), expected=f"{show(expected)} out of {show(prompts.given)}")
    return "100 streams of prompts, of which none, some or all have contrast"


def _equal(came: list, expected: list) -> bool:
    """Whether these are the same lists of numbers, also where what came cannot be compared."""
    return len(came) == len(expected) and all(
        isinstance(a, list) and len(a) == len(b) and all(isinstance(x, Real) and x == y for x, y in zip(a, b))
        for a, b in zip(came, expected)
    )


def refill(ask, size: int, rounds: int) -> list[list[float]]:
    """ask(n) → n new groups, lists of rewards. Up to `size` with contrast, in `rounds` calls at most."""
    kept = []
    for _ in range(rounds):
        kept += [group for group in ask(size - len(kept)) if min(group) < max(group)]
        if len(kept) == size:
            break
    return kept


def refill_all(ask, size, rounds):
    kept = []
    for _ in range(rounds):
        kept += ask(size - len(kept))
        if len(kept) == size:
            break
    return kept


# --- 04.4 -------------------------------------------------------------------------------------------------


def check_sequence_ratio(trial: Trial) -> str:
    rng = trial.rng
    for index in range(60):
        B, T = rng.randint(1, 3), (4, 8, 500)[index % 3]
        drift = rng.choice((-0.4, 0.0, 0.4))  # over 500 tokens the product leaves what float32 can hold
        mask = torch.tensor([[float(rng.random() < 0.8) for _ in range(T)] for _ in range(B)])
        mask[:, -1] = 1.0
        old = torch.tensor([[-rng.uniform(0.1, 3) for _ in range(T)] for _ in range(B)])
        logp = old + torch.tensor([[drift + rng.uniform(-0.2, 0.2) for _ in range(T)] for _ in range(B)])
        rows = zip(logp.tolist(), old.tolist(), mask.tolist())
        gaps = [[a - b for a, b, m in zip(*row) if m] for row in rows]
        expected = torch.tensor([math.exp(sum(row) / len(row)) for row in gaps]).double()
        sampled = [len(row) for row in gaps]
        trial.begin(
            f"{B} rows of {T} tokens, {sampled} of them sampled, mean log-ratio about {drift}",
            _short(expected),
            "exp of the mean of the log-ratios over the row's sampled tokens: add logarithms, take exp once.",
        )
        came = numbers(trial, trial.answer(logp.clone(), old.clone(), mask.clone()), (B,))
        if not torch.allclose(came, expected, rtol=1e-4):
            trial.fail(_short(came))
    return "60 batches, rows of 4 to 500 tokens in float32"


def sequence_ratio(logp: Tensor, old_logp: Tensor, mask: Tensor) -> Tensor:
    """(B, T) each → (B,): the geometric mean of a row's token ratios."""
    return (((logp - old_logp) * mask).sum(1) / mask.sum(1)).exp()


# --- 04.5 -------------------------------------------------------------------------------------------------


def check_advantages(trial: Trial) -> str:
    rng = trial.rng
    for index in range(60):
        sizes = [rng.randint(2, 5) for _ in range(rng.randint(2, 3))]
        paid = [[rng.choice((0.0, 0.5, 1.0)) for _ in range(n)] for n in sizes]
        paid[0][:2] = 0.0, 1.0
        if index % 5 == 3:
            paid.append([0.3] * 3)  # three times 0.3 add up to a little less than 0.9
        if index % 5 == 4:
            paid.append([rng.random()])
        rows = [(g, r) for g, group in enumerate(paid) for r in group]
        rng.shuffle(rows)
        expected = torch.tensor([_zscore(r, paid[g]) for g, r in rows]).double()
        group, rewards = [g for g, _ in rows], [r for _, r in rows]
        trial.begin(f"advantages(rewards = {show(rewards)}, group = {group})", _short(expected), "")
        came = numbers(trial, trial.answer(torch.tensor(rewards), torch.tensor(group)), (len(rows),))
        off = [i for i in range(len(rows)) if not abs(float(came[i] - expected[i])) < 1e-3]
        if off:
            _explain(trial, came, expected, paid, rows, off[0])
    return "60 batches of two to four groups, dead groups and groups of one among them"


def _zscore(reward: float, group: list[float]) -> float:
    if min(group) == max(group):
        return 0.0
    return (reward - statistics.mean(group)) / (statistics.stdev(group) + 1e-6)


def _explain(trial: Trial, came: Tensor, expected: Tensor, paid: list, rows: list, i: int) -> None:
    g, reward = rows[i]
    whole = [r for _, r in rows]
    hint = "Mean and standard deviation are those of the row's own group."
    if len(paid[g]) == 1:
        hint = "A group of one has nothing to compare with: its advantage is 0."
    elif min(paid[g]) == max(paid[g]):
        hint = "All tries of the group earned the same: the advantage is exactly 0."
    elif abs(float(came[i]) - (reward - statistics.mean(paid[g])) / statistics.stdev(whole)) < 1e-3:
        hint = "You divided by the spread of the whole batch: the wrong axis. Take that of the group."
    elif abs(float(came[i]) - (reward - statistics.mean(paid[g])) / statistics.pstdev(paid[g])) < 1e-3:
        hint = "You divided by √(Σ…/G); with Bessel's correction it is √(Σ…/(G − 1))."
    told = f"{float(came[i]):.4f} for row {i} of group {g}, rewards {paid[g]}"
    trial.fail(told, hint, f"{float(expected[i]):.4f} there")


def advantages(rewards: Tensor, group: Tensor) -> Tensor:
    """z-score of each reward within its group, (B,); 0 where a group has no contrast."""
    result = torch.zeros_like(rewards)
    for g in group.unique():
        mine = rewards[group == g]
        if mine.min() < mine.max():
            result[group == g] = (mine - mine.mean()) / (mine.std() + 1e-6)
    return result


# What the chapter hands out: the spread of the batch for that of the group.
advantages_with_bug = changed(advantages, "mine.std()", "rewards.std()")


def plain(rewards, group):
    result = torch.zeros_like(rewards)
    for g in group.unique():
        mine = rewards[group == g]
        result[group == g] = (mine - mine.mean()) / (mine.std() + 1e-6)
    return result


# fmt: off
EXERCISES = (
    Exercise(
        "04.1",
        "weights(mask, name, length): what each token's loss is multiplied by under five ways to average.",
        check_weights, weights,
        (
            Wrong(changed(weights, "mask.sum(1, keepdim=True).clamp(min=1)", "mask.sum() / B"),
                  "divides every row by the mean length", "1/B, however long it is"),
            Wrong(changed(weights, "1 / (B * length)", "1 / length"),
                  "forgets the number of rows", "depends on nothing that was sampled"),
            Wrong(changed(weights, "mask * scale", "torch.ones_like(mask) * scale"),
                  "weighs forced tokens too", "forced tokens weigh nothing"),
            Wrong(changed(weights, "1 / T", "1 / (B * T)"), "divides the width sum by B", "no division by B"),
            Wrong(changed(weights, "B, T = mask.shape", "B, T = int((mask.sum(1) > 0).sum()), mask.shape[1]"),
                  "leaves empty rows out of B", "B counts empty rows too"),
        ),
    ),
    Exercise(
        "04.2",
        "kl_gradient(theta, ref_logp, name): the expected gradient of k1, k2 or k3 in a loss, over 4 tokens.",
        check_kl_gradient, kl_gradient,
        (
            Wrong(changed(kl_gradient, "logp.detach().exp()", "logp.exp()"),
                  "differentiates the sampling too", "k1 as a loss pulls at nothing"),
            Wrong(changed(kl_gradient, "(logp.detach().exp() * k).sum()", "k.mean()"),
                  "weighs the four tokens equally", "k1 as a loss pulls at nothing"),
            Wrong(changed(kl_gradient, "x**2 / 2", "x**2"),
                  "forgets the half of k2", "the gradient of KL(π ‖ ref)"),
            Wrong(changed(kl_gradient, "(-x).exp() + x - 1", "x.exp() - x - 1"),
                  "turns k3 round", "the gradient of KL(ref ‖ π)"),
        ),
    ),
    Exercise(
        "04.3",
        "refill(ask, size, rounds): groups with contrast only, asked for until there are enough.",
        check_refill, refill,
        (
            Wrong(refill_all, "keeps dead groups", "never kept"),
            Wrong(changed(refill, "for _ in range(rounds):", "while True:"),
                  "never gives up", "times at most"),
            Wrong(changed(refill, "ask(size - len(kept))", "ask(size)"),
                  "asks for a full batch each time", "Ask for what is missing"),
            Wrong(changed(refill, "if len(kept) == size:", "if kept:"), "does not refill", "ask again"),
            Wrong(changed(refill, "min(group) < max(group)", "0 < sum(group) < len(group)"),
                  "knows only rewards of 0 and 1", "never kept"),
        ),
    ),
    Exercise(
        "04.4",
        "sequence_ratio(logp, old_logp, mask): GSPO's ratio of each row, also where it has 500 tokens.",
        check_sequence_ratio, sequence_ratio,
        (
            Wrong(lambda logp, old, mask: (((logp - old) * mask).exp().prod(1)) ** (1 / mask.sum(1)),
                  "multiplies ratios and takes the root", "add logarithms"),
            Wrong(changed(sequence_ratio, "/ mask.sum(1)", "/ mask.shape[1]"),
                  "divides by the width", "over the row's sampled tokens"),
            Wrong(lambda logp, old, mask: ((logp - old).exp() * mask).sum(1) / mask.sum(1),
                  "takes the arithmetic mean of the ratios", "add logarithms"),
            Wrong(lambda logp, old, mask: ((logp - old) * mask).sum(1).exp(),
                  "forgets the length", "exp of the mean"),
        ),
    ),
    Exercise(
        "04.5",
        "advantages(rewards, group) with a bug: the spread is taken over the wrong rows.",
        check_advantages, advantages,
        (
            Wrong(advantages_with_bug, "takes the spread of the batch", "the wrong axis"),
            Wrong(changed(advantages, "mine.std()", "mine.std(correction=0)"),
                  "forgets Bessel's correction", "Bessel's correction"),
            Wrong(plain, "divides where there is no contrast", "nothing to compare with"),
            Wrong(changed(advantages, "mine - mine.mean()", "mine - rewards.mean()"),
                  "takes the mean of the batch", "those of the row's own group"),
        ),
    ),
)
# fmt: on
