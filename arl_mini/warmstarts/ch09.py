"""Chapter 09: policies that can read, and know every operation of a memory but not when to use it."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from .. import evaluate
from ..capabilities.memory import (
    Cut, Folded, LatentMemory, Lessons, Streams, Summed, course, novice, teach,
)  # fmt: skip
from ..envs import Notes
from ..models import TinyLM
from .kinds import Recipe, Stage


def _reads(policy: TinyLM) -> dict[str, float]:
    """How often it reads a context as its expert does, in each world."""
    last = [e.infos[-1] for e in evaluate.episodes(policy, course(), 1024)]
    names = sorted({i["world"] for i in last})
    read = {n: [i["success"] for i in last if i["world"] == n and i["answering"]] for n in names}
    return {f"reads_in_{name}": float(np.mean(right)) for name, right in read.items()}


QUESTS = Lessons((Cut(every=99), Cut(), Summed(), Folded(every=3)))


def _wanders(lesson: Lessons, rng: random.Random) -> str:
    """Moves as a careful player in half of the turns, else at random; a summary or fold is empty half of the
    time."""
    return lesson.expert() if rng.random() < 0.5 else lesson.random(rng)


def _quests(policy: TinyLM) -> dict[str, float]:
    """Share of contexts that it ends without a malformed turn."""
    return {"whole": evaluate.success(policy, Cut(every=99)).mean}


@dataclass(frozen=True)
class _Soft(Stage):
    """Soft tokens, taught through all segments of a stream."""

    def losses(self, policy: TinyLM, first: int, rng: random.Random, seed: int) -> Iterator[float]:
        return teach(LatentMemory(policy), self.env, steps=self.steps, lr=self.lr, seed=seed)


@torch.no_grad()
def _latent(policy: TinyLM) -> dict[str, float]:
    """Right answers on 512 streams with soft tokens carried through all segments, and with none."""
    memory = LatentMemory(policy)
    streams = Streams.draw(policy, Notes(), range(evaluate.HELD_OUT, evaluate.HELD_OUT + 512))
    return {
        gate: float(memory.right(streams, memory.run(streams, gate)[0]).mean())
        for gate in ("always", "never")
    }


def _expert(env: Lessons, rng: random.Random) -> str:
    return env.expert()


RECIPES = {
    "notes-novice": Recipe(
        "Reads short contexts of Notes; writes notes, queries and operations on a store or a graph by chance.",
        course(),
        (Stage(course(), _expert, 1500, 3e-3, tasks=12000, rows=64), Stage(course(), novice, 40, 1e-3, tasks=3000)),
        _reads,
    ),
    "notes-latent": Recipe(
        "Carries what a stream tells of a subject in four soft tokens; its gate is untrained.",
        course(), (_Soft(Notes(), _expert, 250, 2e-3),), _latent, start="notes-novice",
    ),
    "quest-parts": Recipe(
        "Explores a quest whose context is whole, cut, summed up or folded; half of what it does is chance.",
        QUESTS,
        (Stage(QUESTS, _expert, 700, 3e-3, tasks=8000, rows=48), Stage(QUESTS, _wanders, 8, 1e-3, tasks=1000)),
        _quests,
    ),
}  # fmt: skip
