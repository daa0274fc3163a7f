"""Pairs over steps and over lengths: sums mod 10 by a policy that slips, and by one that writes too much."""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from .. import envs, evaluate, models
from ..algorithms.base import Algorithm
from ..algorithms.dpo import Pair, choose_pairs
from ..algorithms.preference import best_and_worst, shortest_and_longest
from ..batch import Episode
from ..imitate import imitate
from ..rollout import Limits, demonstrate, rollout
from ..train import train

SUMS = envs.Chain((3, 3), score="chain")
FEW = envs.Chain((1, 2))
WRITTEN = Limits(turn_tokens=16, turns=1, total=48)
SLIPS = 0.25


def slipping(env: envs.Chain, rng: random.Random) -> str:
    """Writes its steps; each is a random digit in a quarter of cases, and the next goes on from there."""
    true, now, said = [*env.steps, env.answer], 0, []
    for before, total in zip([0, *true], true):
        now = rng.randint(0, 9) if rng.random() < SLIPS else (now + total - before) % 10
        said.append(now)
    return env._write(said[:-1], said[-1])


def wordy(env: envs.Chain, rng: random.Random) -> str:
    """Right sums, each written one to three times, and the last one in the thought as well, or not."""
    said = [s for s in env.steps for _ in range(rng.randint(1, 3))] + [env.answer] * rng.randint(0, 2)
    return env._write(said, env.answer)


@cache
def taught(env: envs.Chain, habit: Callable, steps: int, lr: float) -> models.TinyLM:
    """The policy that knows single sums, after some imitation of a habit. Copy it before you train it."""
    policy, rng = models.load("chain-atoms"), random.Random(habit.__name__)
    shown = demonstrate(policy, env, range(1500), lambda env: habit(env, rng))
    for _ in imitate(policy, shown, steps=steps, rows=48, lr=lr):
        pass
    return policy


def slipper() -> models.TinyLM:
    """Writes three steps and slips at each in a quarter of cases."""
    return taught(SUMS, slipping, 60, 1e-3)


def talker() -> models.TinyLM:
    """Writes right sums more than once."""
    return taught(FEW, wordy, 300, 2e-3)


def tries(start: models.TinyLM, env: envs.Chain, seed: int, tasks: int) -> list[Episode]:
    """Eight tries of each of the training tasks of this seed."""
    first = 1_000_000 * (seed + 1)
    return rollout(start, env, range(first, first + tasks), 8, seed=seed, limits=WRITTEN)


def step_data(seed: int) -> list[Pair]:
    """A try with every step right against one with a wrong step, for tasks that have both."""
    return choose_pairs(tries(slipper(), SUMS, seed, 300), best_and_worst)


def length_data(seed: int) -> list[Pair]:
    """Shortest against longest of eight right answers, 200 tasks."""
    return choose_pairs(tries(talker(), FEW, seed, 300), shortest_and_longest)[:200]


@dataclass(frozen=True)
class FitSums:
    """Fits an algorithm to pairs of what `start` wrote; without one, `start` as it is."""

    start: Callable[[], models.TinyLM]
    env: envs.Chain
    data: Callable[[int], list[Pair]]
    algorithm: Callable[[list[Pair]], Algorithm] | None
    settings: dict

    def __call__(self, policy, seed: int, **changes) -> Iterator[dict]:
        policy.load_state_dict(self.start().state_dict())
        if self.algorithm is None:
            return
        settings = {**self.settings, "seed": seed, **changes}
        for record in train(policy, self.env, self.algorithm(self.data(seed)), **settings):
            yield {"step": record.step, "loss": record.loss}


def right_steps(episode: Episode) -> int:
    """How many steps are right before the first wrong one."""
    env = envs.Chain(SUMS.depths)
    env.reset(episode.seed)
    said = [int(digit) for digit in re.findall(r"\d", episode.said(0))]
    return next((k for k, (a, b) in enumerate(zip(said, [*env.steps, env.answer])) if a != b), len(said))


def measure_steps(policy) -> dict[str, float]:
    """On 2048 held-out sums of three steps: right steps before the first wrong one; share with all right."""
    right = [right_steps(e) for e in evaluate.episodes(policy, SUMS, 2048, limits=WRITTEN)]
    return {"right_steps": float(np.mean(right)), "all_right": float(np.mean([n == 3 for n in right]))}


def measure_lengths(policy) -> dict[str, float]:
    """On 2048 held-out sums of one or two steps: share right, tokens an answer; of two steps, share written."""
    tried = evaluate.episodes(policy, FEW, 2048, limits=WRITTEN)
    thinks = [e.infos[-1]["thinking"] for e in tried if e.infos[-1]["depth"] == 2]
    return {
        "success": float(np.mean([e.success for e in tried])),
        "length": float(np.mean([e.mask.sum() for e in tried])),
        "writes_steps": float(np.mean(thinks)),
    }
