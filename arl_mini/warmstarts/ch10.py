"""Chapter 10: a programmer who also predicts and reviews, an adder who also looks backwards, a solver of puzzles."""

import random
import re
from functools import partial

import numpy as np

from .. import envs, evaluate
from ..capabilities.improvement_roles import WORDS, Questions, deduced, executed, missing, review
from ..envs.base import Env, Reply
from ..models.tokenizer import END, THINK, THINK_END
from ..rollout import Limits, Sampling
from .kinds import Recipe, Stage


class Mixed(Env):
    """Several jobs in turn, by seed."""

    def __init__(self, **worlds: Env):
        self.worlds, self.words = worlds, " ".join(world.words for world in worlds.values())

    def reset(self, seed: int) -> str:
        self.job = tuple(self.worlds)[seed % len(self.worlds)]
        self.now = self.worlds[self.job]
        return self.now.reset(seed)

    def step(self, said: str) -> Reply:
        return self.now.step(said)

    def expert(self) -> str:
        return self.now.expert()


# --- programs ---------------------------------------------------------------------------------------------

KINDS = ("line", "square", "rest", "share")
PROGRAMS = envs.PyFunc(KINDS)
PROGRAMS.words = f"{WORDS} choose none check run"  # of its other jobs too


def near_miss(env: envs.PyFunc, rng: random.Random) -> str:
    """The right program with one number changed."""
    said = env.expert()
    places = [m.span() for m in re.finditer(r"\d+", said)]
    start, stop = rng.choice(places)
    lowest = 0 if start == places[-1][0] else 2  # what follows % or // is at least 2
    other = rng.choice([n for n in range(lowest, 6) if str(n) != said[start:stop]])
    return f"{said[:start]}{other}{said[stop:]}"


def reviewed(seed: int) -> tuple[str, str]:
    """What is wrong with a program: half of them are right, half have one number changed."""
    env, rng = envs.PyFunc(KINDS), random.Random(f"review {seed}")
    task = env.reset(seed)
    said = env.expert() if rng.random() < 0.5 else near_miss(env, rng)
    return review(task, said), executed(task, said)


def proposed(seed: int) -> tuple[str, str]:
    """A question to propose."""
    return " propose", deduced(seed, KINDS)[0]


JOBS = dict(
    write=envs.PyFunc(KINDS),
    deduce=Questions(partial(deduced, kinds=KINDS)),
    review=Questions(reviewed),
    propose=Questions(proposed),
)


def _careless(env: Mixed, rng: random.Random) -> str:
    """Every second program at first with a wrong number, then mended; every third prediction anything; else as it should be."""
    if env.job == "write" and env.now.tried == 0 and rng.random() < 0.5:
        return near_miss(env.now, rng)
    if env.job == "deduce" and rng.random() < 0.35:
        return f" {rng.randint(0, 40)}{END}"
    return env.expert()


def _mending(env: Mixed, rng: random.Random) -> str:
    """Programs to mend begin with a wrong number; all else is as it should be."""
    return near_miss(env.now, rng) if env.job == "mend" and env.now.tried == 0 else env.expert()


def _program_atoms(policy) -> dict[str, float]:
    limits = Limits(turn_tokens=16, turns=2, total=160)
    tried = evaluate.episodes(policy, envs.PyFunc(KINDS), 512, limits=limits)
    again = [e.success for e in tried if e.turns > 1]
    measured = {
        "first_try": float(np.mean([e.turns == 1 and e.success for e in tried])),
        "mended": float(np.mean(again)),
    }
    for job in ("deduce", "review"):
        for name, sampling in (("", Sampling()), ("_greedy", Sampling(temperature=0))):
            measured[job + name] = evaluate.success(
                policy, JOBS[job], 256, sampling=sampling, limits=limits
            ).mean
    return measured


# --- sums -------------------------------------------------------------------------------------------------

SUMS = envs.Chain((1, 3))
SUMS.words = " + = ? propose"


def backwards(seed: int) -> tuple[str, str]:
    """A sum with its result and one number missing: ` 3 + ? + 8 = 5`, the sums of what is there, then ` 4`."""
    env, rng = envs.Chain((1, 3)), random.Random(f"backwards {seed}")
    digits = [int(d) for d in re.findall(r"\d", env.reset(seed))]
    k = rng.randrange(len(digits))
    known = digits[:k] + digits[k + 1 :]
    sums = [f" {sum(known[: n + 1]) % 10}" for n in range(1, len(known))]
    thought = f"{THINK}{''.join(sums)}{THINK_END}" if sums else ""
    return missing(digits, k, env.answer), f"{thought} {digits[k]}"


def summed(seed: int) -> tuple[str, str]:
    """A sum of two to five numbers to propose."""
    return " propose", envs.Chain((1, 4)).reset(seed)


ADDING = dict(add=SUMS, back=Questions(backwards, SUMS.words), propose=Questions(summed, SUMS.words))


def _hasty(env: Mixed, rng: random.Random) -> str:
    """Guesses every second sum at once; looking backwards and proposing, it does as it should."""
    return env.now.guess(rng) if env.job == "add" and rng.random() < 0.55 else env.expert()


def _sum_atoms(policy) -> dict[str, float]:
    limits = Limits(turn_tokens=16, turns=1, total=64)
    measured = {
        f"depth_{d}": evaluate.success(policy, envs.Chain((d, d)), limits=limits).mean for d in (1, 2, 3, 4)
    }
    return measured | {"backwards": evaluate.success(policy, ADDING["back"], limits=limits).mean}


# --- puzzles ----------------------------------------------------------------------------------------------

PUZZLES = envs.Bootcamp(("parity", "sort", "brackets", "count", "copy", "lookup"), (2, 4))


def _puzzle_atoms(policy) -> dict[str, float]:
    return {k: evaluate.success(policy, envs.Bootcamp((k,), PUZZLES.sizes)).mean for k in PUZZLES.kinds}


RECIPES = {
    "pyfunc-novice": Recipe(
        "Writes short programs, half of the time with a wrong number; mends them when told what is wrong; predicts values, "
        "reviews programs and proposes questions about them.",
        PROGRAMS,
        (
            Stage(Mixed(**JOBS), lambda env, rng: env.expert(), 1700, 3e-3, tasks=16000),
            Stage(Mixed(**JOBS), _careless, 300, 1.5e-3, tasks=6000),
            Stage(Mixed(mend=envs.PyFunc(KINDS), **JOBS), _mending, 500, 2e-3, tasks=10000),
        ),
        _program_atoms,
    ),
    "sums-novice": Recipe(
        "Adds by steps, but guesses every second sum; finds a missing number; proposes sums.",
        SUMS,
        (
            Stage(SUMS, lambda env, rng: env.expert(), 1200, 3e-3),
            Stage(Mixed(**ADDING), lambda env, rng: env.expert(), 600, 2e-3, tasks=9000),
            Stage(Mixed(**ADDING), _hasty, 60, 5e-4),
        ),
        _sum_atoms,
    ),
    "bootcamp-novice": Recipe(
        "Solves six kinds of small puzzles, but in three of four tasks answers as if the puzzle were another.",
        PUZZLES,
        (
            Stage(PUZZLES, lambda env, rng: env.expert(), 1100, 3e-3, tasks=12000),
            Stage(
                PUZZLES, lambda env, rng: env.expert() if rng.random() < 0.25 else env.random(rng), 60, 1e-3
            ),
        ),
        _puzzle_atoms,
    ),
}
