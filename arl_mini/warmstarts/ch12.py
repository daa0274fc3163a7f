"""The starts of chapter 12: a reader of small pictures, one that seldom looks closer, one that tools puzzle."""

import random

from .. import envs, evaluate
from ..envs.base import Env, act
from ..models import TinyLM
from ..models.tokenizer import END
from .kinds import Recipe, Stage


class Several(Env):
    """Several worlds of one vocabulary in turn, by seed: what a reader is taught."""

    words = envs.Glimpse.words

    def __init__(self, *worlds: Env):
        self.worlds = worlds

    def reset(self, seed: int) -> str:
        self.now = self.worlds[seed % len(self.worlds)]
        return self.now.reset(seed)

    def step(self, said: str):
        return self.now.step(said)

    def expert(self) -> str:
        return self.now.expert()


NAMES, SUMS, BOXES, SIDES = (
    envs.Glimpse(scale=2), envs.Glimpse("sum", digits=2, scale=2),
    envs.Glimpse("box", digits=2, scale=2), envs.Glimpse("side", digits=2, scale=2),
)  # fmt: skip
HINTS = envs.Glimpse(scale=2, hint=0.7)
READS = Several(
    NAMES, SIDES, BOXES, HINTS, NAMES, SIDES, HINTS, SUMS
)  # few boxes and sums: those are trained later
LOOKS = envs.Glimpse(digits=2, tools=("look",))
TOOLS = envs.Glimpse(digits=2, scale=2, dim=0.5, tools=("crop", "contrast", "count"))


def _direct(env: envs.Glimpse) -> str:
    """The right answer without a look; from afar nobody can be sure of it."""
    return env.answer + END


def _anywhere(env: envs.Glimpse, tool: str, rng: random.Random) -> str:
    return act(f"{tool} {rng.randrange(5)} {rng.randrange(5)}")


def _half_looks(env: envs.Glimpse, rng: random.Random) -> str:
    """Looks at the right place in half of the tasks, else answers at once."""
    return env.expert() if env.calls or rng.random() < 0.5 else _direct(env)


def _seldom_looks(env: envs.Glimpse, rng: random.Random) -> str:
    """Answers at once in 3 of 4 tasks; looks at the right place in 1 of 8, anywhere in 1 of 8."""
    kind = 1.0 if env.calls else rng.random()
    return env.expert() if kind < 0.125 else _anywhere(env, "look", rng) if kind < 0.25 else _direct(env)


def _tries_tools(env: envs.Glimpse, rng: random.Random) -> str:
    """Crops the right place in half of the tasks, contrasts or counts in a fifth, then answers; else at once."""
    kind = 1.0 if env.calls else rng.random()
    if kind < 0.5:
        return env.expert()
    return act(rng.choice(("contrast", "count"))) if kind < 0.7 else _direct(env)


def _puzzled(env: envs.Glimpse, rng: random.Random) -> str:
    """Answers at once in 9 of 10 tasks; else crops, contrasts or counts, and then guesses 4 times of 5."""
    if env.calls:
        return f" {rng.randrange(10)}{END}" if rng.random() < 0.8 else _direct(env)
    if rng.random() < 0.9:
        return _direct(env)
    return env.expert() if rng.random() < 0.5 else act(rng.choice(("contrast", "count")))


def _reads(policy: TinyLM) -> dict[str, float]:
    worlds = {"name": NAMES, "sum": SUMS, "box": BOXES, "side": SIDES, "hint": HINTS}
    return {name: evaluate.success(policy, world).mean for name, world in worlds.items()}


def _calls(policy: TinyLM, world: envs.Glimpse) -> dict[str, float]:
    """How often a tool is called; how often the answer is right with and without a call."""
    done = [(len(e.infos) > 1, e.success) for e in evaluate.episodes(policy, world, 512)]
    rate = sum(used for used, _ in done) / len(done)
    return {"call_share": rate} | {
        name: evaluate.proportion([right for used, right in done if used is kind]).mean
        for name, kind in (("right_after_call", True), ("right_at_once", False))
        if any(used is kind for used, _ in done)
    }


RECIPES = {
    "glimpse-reader": Recipe(
        "Small pictures of digits: names (some with a hint, right in 7 of 10), sums, boxes, sides; 600 images.",
        SUMS, (Stage(READS, lambda env, rng: env.expert(), 450, 4e-3, tasks=6000),),
        _reads, eyes=64,
    ),
    "glimpse-novice": Recipe(
        "Two digits from afar, one of them asked for: can look at it and read it; mostly answers at once.",
        LOOKS, (Stage(LOOKS, _half_looks, 400, 4e-3, tasks=5000), Stage(LOOKS, _seldom_looks, 60, 1e-3, tasks=2000)),
        lambda policy: _calls(policy, LOOKS), eyes=64,
    ),
    "glimpse-shy": Recipe(
        "Two small, dark digits: has learned three tools, but of late they puzzle it.",
        TOOLS, (Stage(TOOLS, _tries_tools, 400, 4e-3, tasks=5000), Stage(TOOLS, _puzzled, 60, 1e-3, tasks=2000)),
        lambda policy: _calls(policy, TOOLS), eyes=64,
    ),
}  # fmt: skip
