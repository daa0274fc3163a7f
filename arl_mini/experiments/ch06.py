"""Chapter 06: every algorithm on one task, with one budget of sampled tokens."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from .. import algorithms, envs, evaluate, ops
from ..algorithms.base import Algorithm, Sampler
from ..algorithms.dpo import KTO, Pair, choose_pairs
from ..algorithms.grpo import GRPO
from ..algorithms.ppo import LitePPO
from ..algorithms.preference import best_and_worst
from ..algorithms.rerolls import token_starts
from ..batch import Batch, Episode
from ..imitate import imitate
from ..models.score import Scores, score
from ..rollout import Limits, rollout
from ..train import Run, Settings
from . import kinds
from .kinds import ByReward, Experiment
from .watched import counted, sampled

if TYPE_CHECKING:
    from . import Recorded

TASK, LIMITS = envs.Chain((2, 3)), Limits(turn_tokens=10, turns=1, total=32)
BUDGET = 8_000  # sampled tokens of one run, those of tries that are thrown away included
MARKS = 8  # held-out success is measured each time another 1/MARKS of the budget is spent
SETTINGS = dict(steps=100_000, prompts=12, tries=8, epochs=1, minibatches=2, limits=LIMITS)
UPDATES = 24  # of an offline fit, whose budget goes into its data
RATES = (1e-4, 3e-4, 1e-3)


class Metered(Run):
    """A run that knows what it cost: every token it sampled, kept or not, and the expert's that it was shown.

    A record counts what its update was made of. A filter, a re-roll or a judge's tries cost tokens as well.
    """

    def __init__(self, policy, algorithm: Algorithm, lr: float, seed: int, **changes):
        settings = Settings(**{**SETTINGS, "lr": lr, "seed": seed, **changes})
        super().__init__(policy, TASK, algorithm, settings)
        self.made, self.shown = [0], 0

    @property
    def spent(self) -> int:
        """Tokens sampled so far."""
        return self.made[-1]

    def _sampler(self) -> Sampler:
        base = counted(super()._sampler(), self.made)

        def demonstrate(seeds: Sequence[int]) -> list[Episode]:
            shown = base.demonstrate(seeds)
            self.shown += sampled(shown)
            return shown

        return replace(base, demonstrate=demonstrate)


def held_out(policy) -> float:
    """Share of 128 held-out tasks solved, always the same tasks."""
    return evaluate.success(policy, TASK, 128, limits=LIMITS).mean


@dataclass(frozen=True)
class OnBudget:
    """Train until the budget of sampled tokens is spent; a row of numbers each time a mark is passed."""

    algorithm: Algorithm
    lr: float
    changes: dict  # of SETTINGS
    budget: int = BUDGET
    marks: int = MARKS

    def __call__(self, policy, seed: int) -> Iterator[dict]:
        """Yields mark, spent, shown, updates, held_out and the mean signal_share since the mark before."""
        run = Metered(policy, self.algorithm, self.lr, seed, **self.changes)
        mark, signal = 1, []
        for record in run:
            signal.append(record.signal_share)
            if run.spent * self.marks < mark * self.budget:
                continue
            row = {
                "spent": run.spent,
                "shown": run.shown,
                "updates": record.step,
                "held_out": held_out(policy),
            }
            row["signal_share"] = float(np.mean(signal))
            while mark <= self.marks and run.spent * self.marks >= mark * self.budget:
                yield {"mark": mark, **row}
                mark += 1
            if mark > self.marks:
                return
            signal = []


@dataclass(frozen=True)
class Offline:
    """Spend the whole budget on tries of the start policy, then learn from those alone.

    fit(policy, pairs, lr, seed) → an iterator over UPDATES updates; pairs: best and worst try of a task.
    """

    fit: Callable[..., Iterator]
    lr: float
    budget: int = BUDGET

    def __call__(self, policy, seed: int) -> Iterator[dict]:
        """Yields mark, spent, updates and held_out, MARKS times."""
        pairs, spent = pairs_of(policy, seed, self.budget)
        mark = 1
        for step, _ in enumerate(self.fit(policy, pairs, self.lr, seed), 1):
            if step * MARKS >= mark * UPDATES:
                yield {
                    "mark": mark,
                    "spent": spent,
                    "shown": 0,
                    "updates": step,
                    "held_out": held_out(policy),
                }
                mark += 1


def pairs_of(policy, seed: int, budget: int) -> tuple[list[Pair], int]:
    """Best and worst of 8 tries of each task, tasks until the budget is spent; and the tokens it took."""
    tried: list[Episode] = []
    spent, first = 0, 1_000_000 * (seed + 1)
    while spent < budget:
        more = rollout(policy, TASK, range(first, first + 32), SETTINGS["tries"], seed=seed, limits=LIMITS)
        tried += [replace(e, group=e.group + first) for e in more]
        spent, first = spent + sampled(more), first + 32
    return choose_pairs(tried, best_and_worst), spent


def preferring(kind: type[Algorithm]) -> Callable[..., Iterator]:
    """A fit of one of the DPO family to given pairs; KTO takes them apart."""

    def fit(policy, pairs: list[Pair], lr: float, seed: int) -> Iterator:
        labelled = [(e, good) for pair in pairs for e, good in zip(pair, (True, False))]
        algorithm = kind(labelled=labelled) if kind is KTO else kind(pairs=pairs)
        return Metered(policy, algorithm, lr, seed, steps=UPDATES, prompts=48)

    return fit


def imitating(policy, pairs: list[Pair], lr: float, seed: int) -> Iterator:
    """Imitation of the preferred tries, with as many optimizer steps and rows as the others."""
    losses = imitate(policy, [best for best, _ in pairs], steps=2 * UPDATES, rows=48, lr=lr, seed=seed)
    return (loss for step, loss in enumerate(losses) if step % 2 == 1)


# What a class is given beyond its defaults: its own docstring asks for it, or it goes over fixed tasks.
FIELDS = {"VAPO": {"alpha": 1.0}, "VinePPO": {"steps": token_starts}, "PSGPO": {"steps": token_starts}}
CHANGES = {name: {"tasks": tuple(range(256))} for name in ("GRESO", "SRPO")}
OFFLINE = ("DPO", "BetaDPO", "SimPO", "IPO", "KTO", "ORPO")
IMITATION = "imitation of winners"


def arm(name: str, lr: float, budget: int = BUDGET) -> OnBudget | Offline:
    """One algorithm, by its class name or IMITATION, at a learning rate; budget: in sampled tokens."""
    if name == IMITATION:
        return Offline(imitating, lr, budget)
    kind = getattr(algorithms, name)
    if name in OFFLINE:
        return Offline(preferring(kind), lr, budget)
    return OnBudget(kind(**FIELDS.get(name, {})), lr, CHANGES.get(name, {}), budget)


def measure(policy) -> dict[str, float]:
    """On 256 held-out tasks: share solved, share with written steps, sampled tokens a try."""
    tried = evaluate.episodes(policy, TASK, 256, limits=LIMITS)
    return {
        "success": sum(e.success for e in tried) / len(tried),
        "thinking": sum(e.infos[-1]["thinking"] for e in tried) / len(tried),
        "length": sampled(tried) / len(tried),
    }


@dataclass(frozen=True)
class BatchStd(GRPO):
    """The first of LitePPO's two ingredients alone: divide by the std of the whole batch, not of the group."""

    advantages = LitePPO.advantages


@dataclass(frozen=True)
class TokenMean(GRPO):
    """The second alone: every token weighs the same, not every row."""

    def reduce(self, x: Tensor, batch: Batch) -> Tensor:
        return ops.token_mean(x, batch.mask)


@dataclass(frozen=True)
class OnUpdates:
    """GRPO for a number of updates, whatever they cost: how not to compare."""

    tries: int
    updates: int = 24

    def __call__(self, policy, seed: int) -> Iterator[dict]:
        """Yields updates, spent and held_out after every third update."""
        run = Metered(policy, GRPO(), 3e-4, seed, tries=self.tries, steps=self.updates)
        for record in run:
            if record.step % 3 == 0:
                yield {"updates": record.step, "spent": run.spent, "held_out": held_out(policy)}


# What a method is on this task, where that is not what its paper is about, and what it was given.
NOTES = {
    "VAPO": "alpha 1, for short answers",
    "VinePPO": "each token is a step, tried anew 9 times",
    "PSGPO": "each token is a step, judged by 20 tries",
    "LCPO": "pays for short right answers only",
    "ETO": "one turn: online DPO; the expert where all fail",
    "DMPO": "one turn: online DPO",
    "SDPO": "one turn: tries anew what failed",
    "StarPO": "one turn: GRPO with a little KL",
    "StarPOS": "one turn; keeps 1 task of 4",
    "GiGPO": "one turn: both its advantages agree",
    "TurnGRPO": "one turn: GRPO with a token mean",
    "ARPO": "no tool's answer to branch after",
    "ASPO": "no tool to call early: GRPO",
    "GRESO": "256 fixed tasks",
    "SRPO": "256 fixed tasks",
    "PosteriorGRPO": "a judge knows the right steps",
    "StepGRPO": "a judge knows the right steps",
    "PAPO": "digits are blanked, not pixels",
} | dict.fromkeys(OFFLINE, "pairs of the start policy alone")


def iqm(values: Sequence[float]) -> float:
    """Interquartile mean: of the sorted values, without ⌊n/4⌋ at each end. Agarwal et al. 2021."""
    cut = len(values) // 4
    return float(np.mean(np.sort(values)[cut : len(values) - cut]))


def alike(policy, batch: Batch, names: Sequence[str]) -> list[list[str]]:
    """Algorithms grouped by the direction of their gradient with respect to log-probabilities, on one batch.

    policy: whose log-probabilities count as those of now. Two are alike at a cosine above 1 − 1e-5. For
    algorithms that need neither critic nor reference; a KL to the start is left out.
    """
    with torch.no_grad():
        logp = score(policy, batch).logp
    found: list[tuple[Tensor, list[str]]] = []
    for name in names:
        algorithm, now = getattr(algorithms, name)(), logp.clone().requires_grad_()
        known = algorithm.reward(batch.set(ref_logp=logp))
        known = known.set(advantages=algorithm.advantages(known))
        (gradient,) = torch.autograd.grad(algorithm.loss(Scores(now, torch.zeros_like(now)), known), now)
        way = gradient.flatten().double() / gradient.double().norm()
        home = next((group for other, group in found if float(way @ other) > 1 - 1e-5), None)
        if home is None:
            found.append((way, [name]))
        else:
            home.append(name)
    return [group for _, group in found]


def area(rows: Sequence[dict]) -> float:
    """Mean held-out success over the marks of one run: high for who learns early."""
    return float(np.mean([row["held_out"] for row in rows]))


LISTED = tuple(name for name in algorithms.__all__ if name != "Algorithm")
CUTS = [LISTED.index(first) for first in ("DPO", "GRPO", "StarPO")]
PARTS = {  # by the chapter that teaches them: an experiment each, so that a recording comes in short pieces
    "02": LISTED[: CUTS[0]],
    "03": (*LISTED[CUTS[0] : CUTS[1]], IMITATION),
    "04": LISTED[CUTS[1] : CUTS[2]],
    "05": LISTED[CUTS[2] :],
}
NAMES = tuple(name for names in PARTS.values() for name in names)
TUNING_SEEDS, SEEDS, MORE_SEEDS = (0,), (10, 11, 12), tuple(range(10, 18))


@dataclass(frozen=True)
class AtItsRate:
    """One algorithm at the rate that did best on the tuning seed, as recorded."""

    name: str

    def __call__(self, policy, seed: int) -> Iterator[dict]:
        """As `arm` yields."""
        part = next(part for part, names in PARTS.items() if self.name in names)
        return arm(self.name, chosen_rates((part,))[self.name])(policy, seed)


def gathered(kind: str, parts: Sequence[str] = tuple(PARTS)) -> "Recorded":
    """The recorded 'tuning' or 'table' runs of several parts as one."""
    from . import recorded  # at import the room is not whole yet

    found = [recorded(f"06_algorithm_zoo/{kind}_{part}") for part in parts]
    curves, outcomes = (
        {arm: x for r in found for arm, x in getattr(r, k).items()} for k in ("curves", "outcomes")
    )
    return replace(found[0], command="\n".join(r.command for r in found), curves=curves, outcomes=outcomes)


def chosen_rates(parts: Sequence[str] = tuple(PARTS)) -> dict[str, float]:
    """Each name's learning rate: that of its highest success in the recorded tuning runs, of equals the lower."""
    tuning = gathered("tuning", parts)
    names = [name for part in parts for name in PARTS[part]]
    return {n: max(RATES, key=lambda r: np.mean(tuning.values(f"{n} {r:g}", "success"))) for n in names}


REAL = ByReward(envs.Chain((1, 2)), LitePPO(), kinds.REAL)

EXPERIMENTS = {
    f"06_algorithm_zoo/tuning_{part}": Experiment(
        f"Three learning rates for every algorithm of chapter {part}, on a seed that is used for nothing else.",
        "chain-atoms",
        {f"{name} {rate:g}": arm(name, rate) for name in names for rate in RATES},
        measure,
        TUNING_SEEDS,
    )
    for part, names in PARTS.items()
} | {
    f"06_algorithm_zoo/table_{part}": Experiment(
        f"Every algorithm of chapter {part} at its own rate, with one budget of sampled tokens.",
        "chain-atoms",
        {name: AtItsRate(name) for name in names},
        measure,
        SEEDS,
    )
    for part, names in PARTS.items()
} | {
    "06_algorithm_zoo/rates": Experiment(
        "GRPO alone at three learning rates.",
        "chain-atoms",
        {f"{rate:g}": arm("GRPO", rate) for rate in RATES},
        measure,
        SEEDS,
    ),
    "06_algorithm_zoo/ingredients": Experiment(
        "GRPO, LitePPO, and each of LitePPO's two ingredients alone.",
        "chain-atoms",
        {
            name: OnBudget(algorithm, RATES[1], {})
            for name, algorithm in (
                ("neither", GRPO()), ("batch std", BatchStd()), ("token mean", TokenMean()), ("both", LitePPO()),
            )
        },
        measure,
        MORE_SEEDS,
    ),
    "06_algorithm_zoo/rigged": Experiment(
        "One method with twice the tries a task, compared at equal updates.",
        "chain-atoms",
        {"A": OnUpdates(8), "B": OnUpdates(16)},
        measure,
        MORE_SEEDS,
    ),
}  # fmt: skip
