"""Arms of chapter 13: trained until good enough, with a learned process reward, on advice, by pairs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..algorithms.dpo import DPO, Pair
from ..batch import Episode
from ..capabilities import credit
from ..capabilities.credit_advice import Advised
from ..envs.base import Env
from ..rewards import fit_process_model
from ..rollout import Limits, rollout
from ..train import Record, train
from .kinds import ByReward
from .watched import Watched, sampled

EXPERIMENTS = {}


@dataclass(frozen=True)
class Until:
    """An arm that stops once mean success over the last `window` updates has reached `goal`."""

    arm: Callable[..., Iterator[Record]]
    goal: float = 0.9
    window: int = 5

    def __call__(self, policy, seed: int, **changes) -> Iterator[dict]:
        """Yields plain records."""
        last: list[float] = []
        for record in self.arm(policy, seed, **changes):
            last = [*last, record.success][-self.window :]
            yield {"step": record.step, "success": record.success, "entropy": record.entropy}
            if len(last) == self.window and np.mean(last) >= self.goal:
                return


Labels = Callable[[object, Env, int, Limits], tuple[list[credit.Labelled], int]]


def first_tasks(seed: int, n: int) -> range:
    """Tasks of a seed that are tried before training."""
    return range(7_000_000 + 10_000 * seed, 7_000_000 + 10_000 * seed + n)


@dataclass(frozen=True)
class FromRerolls:
    """Shares of `rolls` re-rolls from `most` looks each of tries of `tasks` tasks."""

    tasks: int
    most: int
    rolls: int

    def __call__(self, policy, env: Env, seed: int, limits: Limits) -> tuple[list[credit.Labelled], int]:
        """Labelled tries, and the tokens they and the re-rolls cost."""
        tried = rollout(policy, env, first_tasks(seed, self.tasks), seed=seed, limits=limits)
        labelled, spent = credit.reroll_labels(
            policy, env, tried, self.rolls, most=self.most, seed=seed, limits=limits
        )
        return labelled, spent + sampled(tried)


@dataclass(frozen=True)
class Learned:
    """An arm with a step reward model, fitted to the start's own tries before training; it stays as it is.

    Records hold `spent`: all tokens sampled so far, those of the labels first.
    """

    arm: ByReward  # its algorithm is a StepCredit; the pay is put in
    labels: Labels
    fit: dict  # settings of credit.fit

    def __call__(self, policy, seed: int, **changes) -> Iterator[dict]:
        """Yields plain records."""
        limits = self.arm.settings["limits"]
        labelled, spent = self.labels(policy, self.arm.env, seed, limits)
        model = credit.fit(policy, labelled, seed=seed, **self.fit)
        paid = replace(self.arm, algorithm=replace(self.arm.algorithm, pay=model))
        return _spending(paid(policy, seed, **changes), spent)


@dataclass(frozen=True)
class Refitted(Learned):
    """The same; after each update the model takes `updates` steps on how that update's own tries ended.

    Records also hold `promised`, what the model expects before the last turn, and `refused`, a share.
    updates 0: the model stays as it is.
    """

    updates: int = 3

    def __call__(self, policy, seed: int, **changes) -> Iterator[dict]:
        """Yields plain records."""
        limits = self.arm.settings["limits"]
        labelled, spent = self.labels(policy, self.arm.env, seed, limits)
        pay = credit.fit(policy, labelled, seed=seed, **self.fit)
        run = replace(self.arm, algorithm=replace(self.arm.algorithm, pay=pay))(policy, seed, **changes)
        for record in run:
            tried, how = record.episodes, {"rows": 32, "lr": 1e-3, "seed": seed + record.step}
            promised = float(np.mean([worth[-2] for worth in pay.worth(tried)]))
            turns = [bool(info.get("illegal")) for e in tried for info in e.infos]
            numbers = {"step": record.step, "success": record.success, "refused": float(np.mean(turns))}
            spent += record.tokens
            yield numbers | {"promised": promised, "spent": spent}
            labels = credit.outcome_labels(tried)
            for _ in fit_process_model(pay.model, labels, steps=self.updates, **how):
                pass


@dataclass(frozen=True)
class Spending:
    """An arm whose records also hold `spent`, all tokens sampled so far."""

    arm: ByReward

    def __call__(self, policy, seed: int, **changes) -> Iterator[dict]:
        """Yields plain records."""
        return _spending(self.arm(policy, seed, **changes), 0)


def _spending(run, spent: int) -> Iterator[dict]:
    for record in run:
        spent += record.tokens
        names = ("step", "success", "reward", "entropy", "signal_share", "turns")
        yield {name: getattr(record, name) for name in names} | {"spent": spent}


@dataclass(frozen=True)
class OnAdvice:
    """An arm that trains a strategist, a copy of the start, over the start as a frozen actor.

    The policy of the experiment becomes the strategist in the end, so that `measure` may put it to work.
    """

    arm: ByReward

    def __call__(self, policy, seed: int, **changes) -> Iterator[dict]:
        """Yields plain records."""
        team = Advised(policy.copy(), policy.copy())
        yield from _spending(self.arm(team, seed, **changes), 0)
        policy.load_state_dict(team.strategist.state_dict())


@dataclass(frozen=True)
class ByPairs:
    """An arm that fits an algorithm to pairs of the start; `pairs(seed)` makes them, alike for all arms."""

    env: Env
    pairs: Callable[[int], list[Pair]]
    algorithm: Callable[[list[Pair]], DPO]
    settings: dict

    def __call__(self, policy, seed: int, **changes) -> Iterator[dict]:
        """Yields the loss of each update, and how many pairs there are."""
        data = self.pairs(seed)
        for record in train(
            policy, self.env, self.algorithm(data), **{**self.settings, "seed": seed, **changes}
        ):
            yield {"step": record.step, "loss": record.loss, "pairs": len(data)}


def look_at(look: Callable[[Sequence[Episode]], dict[str, float]], arm: ByReward) -> Watched:
    """The arm with numbers of each update's episodes in its records."""
    return Watched(arm, lambda batch: look(batch.episodes))
