"""What an experiment is: arms that train one checkpoint in different ways, and what is measured of each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from .. import models
from ..algorithms.base import Algorithm
from ..envs.base import Env
from ..imitate import imitate
from ..rollout import Limits, demonstrate
from ..train import Record, Run, train

# A real language model at the `gpu` budget: what chapters without wishes of their own train it with.
REAL = dict(steps=40, prompts=8, tries=8, lr=1e-4, limits=Limits(turn_tokens=32, turns=8, total=640))
FRESH_SEEDS = (10, 11, 12, 13, 14)  # seeds below 10 were used while settings were chosen
Arm = Callable[[models.TinyLM, int], Iterator[Record | dict]]  # trains the policy in place from a seed


@dataclass(frozen=True)
class ByReward:
    """Train by reinforcement: a world, an algorithm, settings of `train`."""

    env: Env
    algorithm: Algorithm
    settings: dict

    def __call__(self, policy, seed: int, **changes) -> Run:
        """The run; `changes` replace settings."""
        return train(policy, self.env, self.algorithm, **{**self.settings, "seed": seed, **changes})


@dataclass(frozen=True)
class ByImitation:
    """Train by imitation: traces of the world's expert on `tasks` tasks, settings of `imitate`."""

    env: Env
    tasks: int
    settings: dict

    def __call__(self, policy, seed: int, **changes) -> Iterator[dict]:
        """Yields the loss of each update."""
        first = 1_000_000 * (seed + 1)
        shown = demonstrate(policy, self.env, range(first, first + self.tasks), lambda env: env.expert())
        losses = imitate(policy, shown, **{**self.settings, "seed": seed, **changes})
        return ({"step": step, "loss": loss} for step, loss in enumerate(losses, 1))


@dataclass(frozen=True)
class Experiment:
    """Arms that train the same checkpoint, measured before and after by measure(policy) → plain numbers."""

    about: str
    start: str
    arms: dict[str, Arm]
    measure: Callable[[models.TinyLM], dict[str, float]]
    seeds: Sequence[int] = FRESH_SEEDS
