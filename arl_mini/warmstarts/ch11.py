"""The starts of chapter 11: one that knows two modes, one that slips in its steps, one that re-checks without
end."""

import random

import numpy as np

from .. import envs, evaluate
from ..models import TinyLM
from ..models.tokenizer import END, THINK, THINK_END
from .kinds import Recipe, Stage

# --- what the demonstrators do ----------------------------------------------------------------------------


class _Digits(envs.Chain):
    """Chain that keeps the digits of its task."""

    def reset(self, seed: int) -> str:
        task = super().reset(seed)
        self.digits = [int(word) for word in task.split() if word.isdigit()]
        return task


def _slow(env: envs.Chain) -> str:
    """Writes every step; a chain of one sum has none, and the thought stays empty."""
    return f"{THINK}{''.join(f' {s}' for s in env.steps)}{THINK_END} {env.answer}{END}"


def _modes(thinking: float):
    """A demonstrator that writes its steps in this share of tasks and gives the right answer at once in the
    others."""

    def speak(env: envs.Chain, rng: random.Random) -> str:
        return _slow(env) if rng.random() < thinking else f" {env.answer}{END}"

    return speak


def _doubting(most: int):
    """A demonstrator that writes all sums, the last one too, then ` =` and the same again, zero to `most`
    times."""

    def speak(env: envs.Chain, rng: random.Random) -> str:
        sums = "".join(f" {s}" for s in (*env.steps, env.answer))
        return f"{THINK}{sums}{f' ={sums}' * rng.randint(0, most)}{THINK_END} {env.answer}{END}"

    return speak


def _careless(env: _Digits, rng: random.Random) -> str:
    """Answers at once in 3 of 10 tasks; else writes steps, slips in one of ten, and 7 times of 10 adds 8 for
    a 9.

    A slip is carried on: the next step starts from what was written.
    """
    if rng.random() < 0.3:
        return f" {env.answer}{END}"
    sums = env.digits[:1]
    for digit in env.digits[1:]:
        off = -1 if digit == 9 and rng.random() < 0.7 else rng.randint(1, 9) if rng.random() < 0.1 else 0
        sums.append((sums[-1] + digit + off) % 10)
    return f"{THINK}{''.join(f' {s}' for s in sums[1:-1])}{THINK_END} {sums[-1]}{END}"


# --- what a warm start should know ------------------------------------------------------------------------


def _mode_atoms(policy: TinyLM) -> dict[str, float]:
    measured = {}
    for depth in (1, 2, 3, 4):
        last = [e.infos[-1] for e in evaluate.episodes(policy, envs.Chain((depth, depth)), 512)]
        measured[f"depth_{depth}_thinking"] = float(np.mean([i["thinking"] for i in last]))
        for kind, name in ((True, "slow"), (False, "fast")):
            measured[f"depth_{depth}_{name}"] = float(
                np.mean([i["right"] for i in last if i["thinking"] is kind] or [0])
            )
    return measured


def _careless_atoms(policy: TinyLM) -> dict[str, float]:
    tried = [e for e in evaluate.episodes(policy, envs.Chain((3, 4)), 1024) if e.infos[-1]["thinking"]]
    nine = [" 9" in e.text.partition("<bot>")[0].split("+", 1)[1] for e in tried]
    by = {True: "right_with_a_9", False: "right_without"}
    found = {words: [e.success for e, n in zip(tried, nine) if n is kind] for kind, words in by.items()}
    return {"thinking": len(tried) / 1024} | {
        words: float(np.mean(values)) for words, values in found.items()
    }


def _doubt_atoms(policy: TinyLM) -> dict[str, float]:
    tried = evaluate.episodes(policy, envs.Chain((2, 3)), 512)
    return {"tokens": float(np.mean([e.mask.sum() for e in tried]))}


def _first() -> tuple[Stage, ...]:
    return (
        Stage(envs.Chain((1, 3)), lambda env, rng: _slow(env), 900, 3e-3),
        Stage(envs.Chain((1, 4)), lambda env, rng: _slow(env), 500, 2e-3),
    )


RECIPES = {
    "chain-modes": Recipe(
        "Answers chains of one to four sums at once in 7 of 10 tasks, and writes its steps in the others.",
        envs.Chain((2, 4)),
        (
            *_first(),
            Stage(envs.Chain((1, 4)), _modes(0.5), 700, 2e-3),
            Stage(envs.Chain((1, 4)), _modes(0.3), 60, 5e-4),
        ),
        _mode_atoms,
    ),
    "chain-careless": Recipe(
        "Writes its steps in 7 of 10 tasks, but slips in one of ten, and mostly adds 8 where a 9 stands.",
        envs.Chain((2, 4)),
        (
            *_first(),
            Stage(envs.Chain((1, 4)), _modes(0.5), 300, 2e-3),
            Stage(_Digits((2, 4)), _careless, 400, 1e-3),
        ),
        _careless_atoms,
    ),
    "chain-doubting": Recipe(
        "Writes two or three sums, then the same sums again, up to four times, before it answers.",
        envs.Chain((2, 3)),
        (
            Stage(envs.Chain((1, 3)), _doubting(0), 1000, 3e-3),
            Stage(envs.Chain((2, 3)), _doubting(4), 400, 2e-3),
        ),
        _doubt_atoms,
    ),
}
