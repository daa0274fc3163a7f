"""Arms that tell more of each update: the tokens it generated, kept or not, and numbers of its batch."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

from torch import Tensor

from ..algorithms.base import Algorithm, Sampler
from ..batch import Batch, Episode
from ..train import Record, Run
from .kinds import ByReward

TOLD = ("step", "reward", "success", "entropy", "signal_share", "tokens")


def sampled(episodes: Sequence[Episode]) -> int:
    """Sampled tokens in all."""
    return int(sum(e.mask.sum() for e in episodes))


def counted(sampler: Sampler, spent: list[int]) -> Sampler:
    """A sampler that adds each token it generates to spent[-1]; a shared beginning is generated once."""

    def note(made: list[Episode], known: int) -> list[Episode]:
        spent[-1] += sampled(made) - known
        return made

    def rollout(seeds: Sequence[int], tries: int) -> list[Episode]:
        return note(sampler.rollout(seeds, tries), 0)

    def fork(episodes: Sequence[Episode], positions: Sequence[int], tries: int) -> list[Episode]:
        known = sum(int(e.mask[:at].sum()) for e, at in zip(episodes, positions, strict=True))
        return note(sampler.fork(episodes, positions, tries), known * tries)

    def branch(episodes: Sequence[Episode], turns: Sequence[int], tries: int) -> list[Episode]:
        known = sum(int(e.mask[e.turn < k].sum()) for e, k in zip(episodes, turns, strict=True))
        return note(sampler.branch(episodes, turns, tries), known * tries)

    def retry(episodes: Sequence[Episode]) -> list[Episode]:
        return note(sampler.retry(episodes), sampled(episodes))

    return replace(sampler, rollout=rollout, fork=fork, branch=branch, retry=retry)


def watching(algorithm: Algorithm, spent: list[int], seen: list[Batch]) -> Algorithm:
    """The same algorithm; it notes the tokens of each plan in `spent` and leaves its last batch in `seen`."""

    class Watching(type(algorithm)):
        def plan(self, sampler: Sampler) -> list[Episode]:
            spent.append(0)
            return super().plan(counted(sampler, spent))

        def advantages(self, batch: Batch) -> Tensor:
            adv = super().advantages(batch)
            seen[:] = [batch.set(advantages=adv)]
            return adv

    return Watching(**{f.name: getattr(algorithm, f.name) for f in fields(algorithm)})


def nothing(_) -> dict[str, float]:
    """No numbers, of whatever there is to look at."""
    return {}


@dataclass(frozen=True)
class Noted:
    """An arm whose records also hold the numbers of note(run, record)."""

    arm: ByReward
    note: Callable[[Run, Record], dict[str, float]]

    def __call__(self, policy, seed: int) -> Iterator[dict]:
        """Yields plain records."""
        run = self.arm(policy, seed)
        for record in run:
            yield record.numbers() | self.note(run, record)


@dataclass(frozen=True)
class Watched:
    """An arm whose records also hold `generated`, all tokens of the step, and the numbers of look(batch)."""

    arm: ByReward
    look: Callable[[Batch], dict[str, float]] = nothing

    def __call__(self, policy, seed: int, **changes) -> Iterator[dict]:
        """Yields plain records; `changes` replace settings."""
        spent, seen = [], []
        arm = replace(self.arm, algorithm=watching(self.arm.algorithm, spent, seen))
        for record in arm(policy, seed, **changes):
            numbers = {name: getattr(record, name) for name in TOLD}
            yield numbers | {"generated": spent[-1]} | self.look(seen[0])


def planned(algorithm: Algorithm, policy, env, *, seed: int, **settings) -> tuple[Batch, int]:
    """The batch that the algorithm would train on next, with advantages, and the tokens generated for it."""
    spent, seen = [], []
    arm = ByReward(env, watching(algorithm, spent, seen), {**settings, "steps": 1, "lr": 0.0})
    next(arm(policy.copy().requires_grad_(True), seed))
    return seen[0], spent[0]
