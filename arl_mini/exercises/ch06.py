"""Chapter 06: a loss from its knobs, an interval for few seeds, a variant, a ledger, a fair choice of rates."""

import ast
import inspect
import math
import random
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np
import torch
from torch import Tensor

from .. import ops
from ..algorithms import GRPO, Algorithm
from ..batch import Batch
from ..lab.check import Trial, same, show
from ..models.score import Scores
from . import Exercise, Wrong, changed

# --- 06.1 -------------------------------------------------------------------------------------------------

KNOBS = {
    "statistic": ("centre", "group std", "batch std"),
    "level": ("token", "row"),
    "clip": ((0.2, 0.2), (0.2, 0.28), (0.05, 0.1)),
    "mean": ("rows", "tokens"),
}
FACETS = {
    "statistic": "A_i = R_i − mean of its group, divided by nothing, by the group's std, or by that of all rewards.",
    "level": "At level 'row' every token of a row has the ratio exp(mean over its tokens of logp − old_logp).",
    "clip": "clip = (low, high): the ratio is held within (1 − low, 1 + high), whichever costs more.",
    "mean": "'rows': the mean of each row first, then of the rows. 'tokens': the mean over all sampled tokens.",
}


def _batch(rng: random.Random, groups: int, tries: int) -> tuple[Tensor, Batch]:
    """Log-probabilities now (a leaf, B × T), and a batch of one-turn rows that are rewarded at their end."""
    sizes = [(rng.randint(1, 3), rng.randint(1, 6)) for _ in range(groups * tries)]
    length = max(map(sum, sizes))
    place, first, size = torch.arange(length), *torch.tensor(sizes).T[:, :, None]
    mask = ((first <= place) & (place < first + size)).double()
    lengths = torch.tensor([a + b for a, b in sizes])
    old, moved = (
        torch.tensor([[rng.uniform(*span) for _ in range(length)] for _ in sizes]).double() * mask
        for span in ((-3, -0.1), (-0.5, 0.5))
    )
    won = torch.tensor([float(rng.random() < 0.5) for _ in sizes], dtype=torch.float64)
    won[:2] = torch.tensor([1.0, 0.0])[:2]  # the first group differs
    rewards = won[:, None] * (torch.arange(length) == lengths[:, None] - 1)
    batch = Batch(
        torch.zeros_like(mask).long(), mask, old, rewards, mask.long() - 1,
        torch.arange(groups).repeat_interleave(tries), lengths, torch.zeros(len(sizes)) > 0, won > 0,
    )  # fmt: skip
    return (old + moved).requires_grad_(), batch


def _loss(logp: Tensor, batch: Batch, statistic: str, level: str, clip: tuple, mean: str) -> float:
    """The loss as plain loops over the formula."""
    logp, old, mask, group = (x.tolist() for x in (logp, batch.old_logp, batch.mask, batch.group))
    rewards, costs = batch.reward.tolist(), []
    for i, row in enumerate(mask):
        peers = [r for r, g in zip(rewards, group) if g == group[i]]
        whole = {"centre": None, "group std": peers, "batch std": rewards}[statistic]
        adv = rewards[i] - sum(peers) / len(peers)
        adv = adv if whole is None else adv / (float(np.std(whole, ddof=1)) + 1e-6)
        logs = [logp[i][t] - old[i][t] for t, sampled in enumerate(row) if sampled]
        logs = [sum(logs) / len(logs)] * len(logs) if level == "row" else logs
        ratios = [math.exp(x) for x in logs]
        costs.append([max(-adv * r, -adv * min(max(r, 1 - clip[0]), 1 + clip[1])) for r in ratios])
    if mean == "rows":
        return sum(sum(row) / len(row) for row in costs) / len(costs)
    return sum(map(sum, costs)) / sum(map(len, costs))


def check_loss(trial: Trial) -> str:
    first = {name: values[0] for name, values in KNOBS.items()}
    settings = [(knob, first | {knob: value}) for knob, values in KNOBS.items() for value in values]
    mixed = [("mean", {k: trial.rng.choice(v) for k, v in KNOBS.items()}) for _ in range(40)]
    for knob, knobs in settings + mixed:
        logp, batch = _batch(trial.rng, trial.rng.randint(2, 3), trial.rng.randint(2, 4))
        expected = _loss(logp, batch, **knobs)
        rewards = batch.reward.int().tolist()
        told = f"{knobs}, rewards {rewards}, group {batch.group.tolist()}"
        trial.begin(told, f"{expected:.6f}", FACETS[knob])
        came = trial.answer(logp, batch, **knobs)
        if not isinstance(came, Tensor) or came.ndim or not came.requires_grad:
            trial.fail(f"{type(came).__name__} {show(came)}", "Return a torch scalar that depends on logp.")
        if not math.isclose(float(came.detach()), expected, rel_tol=1e-6, abs_tol=1e-9):
            trial.fail(f"{float(came.detach()):.6f}")
    return f"every value of every knob alone, and {len(mixed)} random settings, against plain loops"


def loss_of(logp: Tensor, batch: Batch, statistic: str, level: str, clip: tuple, mean: str) -> Tensor:
    """A loss of the GRPO family from four knobs, a scalar. logp (B, T): of each token under the policy now."""
    adv = ops.group_center(batch.reward, batch.group)
    if statistic != "centre":
        group = batch.group if statistic == "group std" else torch.zeros_like(batch.group)
        adv = adv / (ops.group_std(batch.reward, group) + ops.EPS)
    ratio = ops.ratio(logp, batch.old_logp)
    if level == "row":
        ratio = ops.sequence_ratio(logp, batch.old_logp, batch.mask).expand_as(logp)
    cost = ops.clipped_surrogate(ratio, ops.per_token(adv, batch.mask), *clip)
    return ops.sequence_mean(cost, batch.mask) if mean == "rows" else ops.token_mean(cost, batch.mask)


# --- 06.2 -------------------------------------------------------------------------------------------------


def _middle(values: Sequence[float]) -> float:
    """Mean of the middle half: sort, leave out ⌊n/4⌋ at each end."""
    kept = sorted(values)[len(values) // 4 : len(values) - len(values) // 4]
    return sum(kept) / len(kept)


def check_interval(trial: Trial) -> str:
    for size in range(60):
        n = 1 + size // 3
        scores = [round(trial.rng.random(), 3) for _ in range(n)]
        picks = [[trial.rng.randrange(n) for _ in range(n)] for _ in range(40)]
        again = sorted(_middle([scores[i] for i in row]) for row in picks)
        expected = (_middle(scores), *np.quantile(again, [0.025, 0.975]).tolist())
        told = f"scores {show(scores)}, {len(picks)} resamples of {n}"
        hint = f"Of {n} sorted values leave out {n // 4} at each end; the mean of the rest."
        trial.begin(told, show(expected), hint)
        came = trial.answer(list(scores), [list(row) for row in picks])
        three = isinstance(came, (tuple, list)) and len(came) == 3
        if not three or not all(isinstance(x, Real) for x in came):
            trial.fail(f"{type(came).__name__} {show(came)}", "Return three numbers: estimate, low, high.")
        for name, a, b in zip(("estimate", "low end", "high end"), came, expected):
            if not math.isclose(a, b, abs_tol=1e-9):
                ends = "2.5 and 97.5 % quantiles of the estimates of the resamples, each from sorted values."
                fault = hint if name == "estimate" else ends
                trial.fail(f"{a:g} for the {name}, not {b:g}", fault)
    return "60 random lists of 1 to 20 scores, 40 resamples each"


def interval(scores, picks) -> tuple[float, float, float]:
    """Interquartile mean, and its 95 % interval over resamples; picks: rows of indices into scores."""

    def middle(values) -> float:
        cut = len(values) // 4
        return float(np.mean(np.sort(values)[cut : len(values) - cut]))

    again = [middle([scores[i] for i in row]) for row in picks]
    low, high = np.quantile(again, [0.025, 0.975])
    return middle(scores), float(low), float(high)


# --- 06.3 -------------------------------------------------------------------------------------------------

MOST_LINES = 15


def _body(kind: type) -> int:
    """Lines of a class body: its fields and methods, without blanks, comments and docstrings."""
    lines = len(vars(kind).get("__annotations__", {}))
    # A notebook's cells can be quoted by function, not by class. A dataclass makes its dunders itself.
    for name, method in vars(kind).items():
        if inspect.isfunction(method) and not name.startswith("__"):
            tree = ast.parse(textwrap.dedent(inspect.getsource(method))).body[0]
            text = ast.get_docstring(tree) is not None
            lines += len(ast.unparse(tree).splitlines()) - text * len(ast.unparse(tree.body[0]).splitlines())
    return lines


def _advantaged(algorithm: Algorithm, batch: Batch) -> Batch:
    batch = algorithm.reward(batch)
    return batch.set(advantages=algorithm.advantages(batch))


def check_variant(trial: Trial) -> str:
    trial.begin(show(trial.answer), "a class that inherits from an Algorithm", "class Mine(GRPO): …")
    if not isinstance(trial.answer, type) or not issubclass(trial.answer, Algorithm):
        trial.fail(show(trial.answer))
    lines, mine = _body(trial.answer), trial.answer()
    trial.begin("the class body", f"at most {MOST_LINES} lines", "A variant is the difference to its parent.")
    if lines > MOST_LINES:
        trial.fail(f"{lines} lines")
    differs = 0
    for _ in range(20):
        logp, batch = _batch(trial.rng, 3, 4)
        told = f"rewards {batch.reward.int().tolist()}, group {batch.group.tolist()}"
        scores = Scores(logp, torch.zeros_like(logp))
        losses = [kind.loss(scores, _advantaged(kind, batch)) for kind in (mine, GRPO())]
        trial.begin(told, "a finite scalar loss", "Also where all rewards of a group are equal.")
        if not isinstance(losses[0], Tensor) or losses[0].ndim or not bool(losses[0].isfinite()):
            trial.fail(show(losses[0]))
        own, parent = (torch.autograd.grad(x, logp, allow_unused=True)[0] for x in losses)
        own = torch.zeros_like(logp) if own is None else own
        trial.begin(told, "no gradient at forced tokens", "Multiply by batch.mask, or reduce with it.")
        if not bool(own.isfinite().all()) or bool((own * (1 - batch.mask)).any()):
            trial.fail("a gradient at tokens that nobody sampled")
        trial.begin(told, "the right try of group 0 gets likelier than the wrong one", "Look at the sign.")
        push = (own * batch.mask).sum(1) / batch.mask.sum(1)
        if push[0] >= push[1]:
            trial.fail(f"gradient {push[0]:.3g} a token for the right one, {push[1]:.3g} for the wrong one")
        differs += not torch.allclose(own, parent)
    trial.begin("20 random batches", "on some a gradient that is not GRPO's", "Change a knob that matters.")
    if not differs:
        trial.fail("GRPO's gradient on all of them")
    return f"20 random batches; another gradient than GRPO's on {differs}"


@dataclass(frozen=True)
class Ranked(GRPO):
    """GRPO on the share of a group's tries that a try beats, less the share that beat it."""

    def advantages(self, batch: Batch) -> Tensor:
        ahead = (batch.reward[:, None] - batch.reward[None]).sign()
        peers = (batch.group[:, None] == batch.group[None]).to(ahead)
        return ops.per_token((ahead * peers).sum(1) / peers.sum(1), batch.mask)


# --- 06.4 -------------------------------------------------------------------------------------------------


def _log(rng: random.Random, budget: int, success: float) -> list[dict]:
    """A training log whose sampled tokens, kept or not, make `budget`."""
    updates, strict = rng.randint(5, 12), rng.choice((0.3, 1.0))  # a strict filter throws most tries away
    cuts = sorted(rng.sample(range(1, 20), updates - 1))
    parts = [b - a for a, b in zip([0, *cuts], [*cuts, 20])]
    rows = []
    for step, part in enumerate(parts, 1):
        kept = round(strict * rng.uniform(0.8, 1.0), 2)
        tokens = int(budget * part / 20 * kept)
        solved = round(success * step / updates, 2)
        rows.append({"step": step, "tokens": tokens, "kept": kept, "success": solved})
    return rows


def check_twice(trial: Trial) -> str:
    hint = "`tokens` are those of kept tries only: what an update sampled is tokens / kept. Sum it over the updates."
    for _ in range(40):
        budget = 8000 * trial.rng.randint(1, 4)
        sizes = trial.rng.choice(([1, 2], [2, 1]))
        logs = [_log(trial.rng, budget * size, trial.rng.uniform(0.4, 1.0)) for size in sizes]
        expected = "ab"[sizes.index(2)]
        trial.begin(f"a = {logs[0]}\nb = {logs[1]}", repr(expected), hint)
        came = trial.answer(*([dict(row) for row in log] for log in logs))
        if not same(came, expected):
            trial.fail(show(came))
    return "40 random pairs of logs"


def twice(a, b) -> str:
    """'a' or 'b': the log whose run sampled twice as many tokens; rows: step, tokens, kept, success."""
    spent = [sum(row["tokens"] / row["kept"] for row in log) for log in (a, b)]
    return "a" if spent[0] > spent[1] else "b"


# --- 06.5 -------------------------------------------------------------------------------------------------

RATES = (1e-4, 3e-4, 1e-3)


def check_at_its_best(trial: Trial) -> str:
    for _ in range(40):
        names = trial.rng.sample(["GRPO", "DAPO", "GSPO", "PPO", "RLOO"], trial.rng.randint(2, 4))
        tuning, final = _tables(trial.rng, names)
        trial.begin(f"tuning {tuning}\nfinal {final}", "see below", "")
        came = trial.answer({k: list(v) for k, v in tuning.items()}, {k: list(v) for k, v in final.items()})
        if not isinstance(came, dict) or set(came) != set(names):
            trial.fail(show(came), "Return a dict with one number for each method.", f"a dict over {names}")
        for name in names:
            best = max(RATES, key=lambda rate: sum(tuning[name, rate]))
            want = sum(final[name, best]) / 5
            if not isinstance(came[name], Real) or not math.isclose(came[name], want, abs_tol=1e-9):
                trial.fail(f"{show(came[name])} for {name}", _fault(came[name], name, tuning, final),
                           f"{want:g}, the mean of the final seeds at {best:g}")  # fmt: skip
    return "40 random tables of 2 to 4 methods at three rates"


def _tables(rng: random.Random, names: Sequence[str]) -> tuple[dict, dict]:
    """Tuning and final results in which the right rate, and those of two wrong choices, are three rates."""
    tuning, final = {}, {}
    for name in names:
        chosen: set[float] = set()
        while len(chosen) < 3:
            old, new = ({r: [round(rng.random(), 2) for _ in range(n)] for r in RATES} for n in (3, 5))
            sums = {r: round(100 * sum(old[r])) for r in RATES}
            best = {r: max(old[r]) for r in RATES}, {r: sum(new[r]) for r in RATES}
            chosen = {max(x, key=x.get) for x in (sums, *best)} if len(set(sums.values())) == 3 else set()
        tuning |= {(name, r): old[r] for r in RATES}
        final |= {(name, r): new[r] for r in RATES}
    return tuning, final


def _fault(came: object, name: str, tuning: dict, final: dict) -> str:
    """What the wrong number looks like."""

    def is_(value: float) -> bool:
        return isinstance(came, Real) and math.isclose(came, value, abs_tol=1e-9)

    if any(is_(max(final[name, rate])) for rate in RATES):
        return "That is the best seed. Report the mean of all."
    if is_(max(sum(final[name, rate]) / 5 for rate in RATES)):
        return "The rate was chosen on the seeds that are reported: luck is counted as skill. Choose on the tuning seeds."
    if any(is_(sum(tuning[name, rate]) / 3) for rate in RATES):
        return "These are the tuning seeds. They chose the rate, so they flatter it; report the final ones."
    return "Choose the rate with the best mean over the tuning seeds, not the one with the best single seed."


def at_its_best(tuning, final) -> dict[str, float]:
    """Mean final success of each method at its own rate. Both tables: (method, rate) → a list over seeds."""
    result = {}
    for name in {name for name, _ in tuning}:
        rate = max((r for n, r in tuning if n == name), key=lambda r: np.mean(tuning[name, r]))
        result[name] = float(np.mean(final[name, rate]))
    return result


at_its_best_with_bug = changed(at_its_best, "np.mean(tuning[name, r])", "np.mean(final[name, r])")


# fmt: off
EXERCISES = (
    Exercise(
        "06.1",
        "loss_of(logp, batch, statistic, level, clip, mean): a loss of the GRPO family from its knobs.",
        check_loss, loss_of,
        (
            Wrong(changed(loss_of, 'if statistic != "centre"', 'if statistic == "never"'), "never divides", "std"),
            Wrong(changed(loss_of, 'batch.group if statistic == "group std" else torch.zeros_like(batch.group)',
                          "batch.group"), "takes the group's std for the batch's", "or by that of all rewards"),
            Wrong(changed(loss_of, 'if level == "row"', 'if level == "never"'),
                  "has one level", "At level 'row'"),
            Wrong(changed(loss_of, "ops.sequence_ratio(logp, batch.old_logp, batch.mask)",
                          "ops.row_sum(logp - batch.old_logp, batch.mask).exp()[:, None]"),
                  "multiplies the ratios of a row", "mean over its tokens"),
            Wrong(changed(loss_of, "*clip)", "clip[1], clip[0])"), "swaps the ends of the clip", "1 − low"),
            Wrong(changed(loss_of, "else ops.token_mean(cost, batch.mask)", "else ops.sequence_mean(cost, batch.mask)"),
                  "has one mean", "all sampled tokens"),
        ),
    ),
    Exercise(
        "06.2",
        "interval(scores, picks): interquartile mean, and its 95 % bootstrap interval from the resamples given.",
        check_interval, interval,
        (
            Wrong(changed(interval, "len(values) // 4", "0"), "takes the plain mean", "at each end"),
            Wrong(changed(interval, "np.sort(values)", "np.array(values)"), "does not sort", "sorted values"),
            Wrong(changed(interval, "cut : len(values) - cut", "cut:"), "cuts the lowest alone", "at each end"),
            Wrong(changed(interval, "[0.025, 0.975]", "[0.05, 0.95]"), "gives 90 %", "97.5 %"),
            Wrong(changed(interval, "again = [middle(", "again = [np.mean("),
                  "resamples the mean", "estimates of the resamples"),
        ),
    ),
    Exercise(
        "06.3",
        "A variant of your own: a class of at most 15 lines whose loss is not its parent's.",
        check_variant, Ranked,
        (
            Wrong(GRPO, "is GRPO itself, and longer than a difference", "lines"),
            Wrong(changed(Ranked, "def advantages", "def advantage"), "overrides nothing that is called",
                  "GRPO's gradient on all"),
            Wrong(changed(Ranked, "batch.reward[:, None] - batch.reward[None]", "batch.reward[None] - batch.reward[:, None]"),
                  "has the sign wrong", "Look at the sign"),
            Wrong(changed(Ranked, "/ peers.sum(1)", "/ (ahead * peers).abs().sum(1)"),
                  "divides by nothing in a group of equals", "finite"),
            Wrong(ops.group_zscore, "is no class", "class Mine(GRPO)"),
        ),
    ),
    Exercise(
        "06.4",
        "twice(a, b): 'a' or 'b', the log of the run that sampled twice as many tokens.",
        check_twice, twice,
        (
            Wrong(changed(twice, ' / row["kept"]', ""), "forgets what was thrown away", "tokens / kept"),
            Wrong(lambda a, b: "a" if len(a) > len(b) else "b", "counts updates", "Sum it"),
            Wrong(lambda a, b: "a" if a[-1]["success"] > b[-1]["success"] else "b",
                  "takes the winner for the bigger spender", "tokens / kept"),
            Wrong(changed(twice, "else \"b\"", "else \"a\""), "always says a", "'b'"),
        ),
    ),
    Exercise(
        "06.5",
        "at_its_best(tuning, final): each method's mean at its own rate, chosen without looking at what is reported.",
        check_at_its_best, at_its_best,
        (
            Wrong(at_its_best_with_bug, "chooses the rate on the reported seeds", "luck is counted as skill"),
            Wrong(changed(at_its_best, "float(np.mean(final", "float(np.max(final"),
                  "reports the best seed", "That is the best seed"),
            Wrong(changed(at_its_best, "np.mean(tuning[name, r])", "np.max(tuning[name, r])"),
                  "chooses the rate by its best seed", "not the one with the best single seed"),
            Wrong(changed(at_its_best, "final[name, rate]", "tuning[name, rate]"),
                  "reports the tuning seeds", "they flatter it"),
        ),
    ),
)
# fmt: on
