"""Chapter 07: a decision transformer on logs, a library of skills, speculative planning, a learned search
width.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from .. import envs, evaluate, models
from ..algorithms import GRPO
from ..batch import Episode
from ..capabilities.gate import Gate
from ..capabilities.planning import (
    DecisionTransformer,
    Skilled,
    SkillLibrary,
    SpeculativePlanner,
    beam,
    fixed,
    traces,
)  # fmt: skip
from ..capabilities.planning.offline import ReturnFirst, digit
from ..capabilities.planning.speculative import Trace
from ..envs.craft import RECIPES, depth
from ..imitate import imitate
from ..models import TinyLM, tokenizer
from ..rollout import Limits, demonstrate, rollout, start
from ..train import train
from .ch07 import small
from .ch07_search import LIMITS, NAME, guide
from .kinds import FRESH_SEEDS, Experiment
from .watched import nothing

THREE = FRESH_SEEDS[:3]

# --- decision transformer ---------------------------------------------------------------------------------

FLOOR = envs.Robots(3, 8)
WALK = Limits(turn_tokens=6, turns=9, total=240)


def mixed_player(env: envs.Robots, rng: random.Random) -> str:
    """The expert, but with a share of stray moves that differs from task to task: 0, 0.3, 0.6 or 0.9."""
    if env.turns == 0:
        env.stray = rng.choice((0.0, 0.3, 0.6, 0.9))
    return env.random(rng) if rng.random() < env.stray else env.expert()


def transformer(seed: int) -> DecisionTransformer:
    """An untrained decision transformer for two robots."""
    words = tokenizer.build(f"{FLOOR.words} return")
    return DecisionTransformer(TinyLM.new("nano", words, seed), FLOOR)


def floor_logs(made: DecisionTransformer, seed: int, tasks: int = 2000) -> list[Episode]:
    """Logs of mixed quality."""
    rng, first = random.Random(f"logs {seed}"), 1_000_000 * (seed + 1)
    return made.logs(range(first, first + tasks), lambda env: mixed_player(env, rng))


class AsLogged(ReturnFirst):
    """Asks for a return drawn from logs: what a transformer does then is plain cloning of the logs."""

    def __init__(self, env: envs.Robots, digits: list[int]):
        super().__init__(env)
        self.digits = digits

    def reset(self, seed: int) -> str:
        self.wanted = self.digits[seed % len(self.digits)]
        return super().reset(seed)


def reached(policy, world: ReturnFirst, tasks: int = 128) -> float:
    """Mean return on held-out tasks."""
    return float(np.mean([e.reward for e in evaluate.episodes(policy, world, tasks, limits=WALK)]))


@dataclass(frozen=True)
class OnLogs:
    """Fits to logs of mixed quality; the last record holds mean returns: of the logs, cloned, and as asked for."""

    updates: int = 600

    def __call__(self, policy, seed: int) -> Iterator[dict]:
        made = transformer(seed)
        data = floor_logs(made, seed)
        for step, loss in enumerate(made.fit(data, steps=self.updates, rows=32, lr=3e-3, seed=seed), 1):
            if step % 25 == 0:
                yield {"step": step, "loss": loss}
        asked = {f"ask_{n}": reached(made.policy, made.asked(n)) for n in (0, 3, 6, 9)}
        cloned = reached(made.policy, AsLogged(FLOOR, [digit(e.reward) for e in data]))
        mean = float(np.mean([e.reward for e in data]))
        yield {"step": step + 1, "logs": mean, "cloning": cloned} | asked


LONG = Limits(turn_tokens=8, turns=20, total=480)

# --- skill library ----------------------------------------------------------------------------------------


def tasks_for(goal: str, n: int, first: int, spare: int = 4) -> list[int]:
    """n task seeds, from `first` on, of the Craft of this goal's depth, whose goal it is."""
    env, found = craft_of(goal, spare), []
    while len(found) < n:
        env.reset(first)
        found += [first] if env.goal == goal else []
        first += 1
    return found


def craft_of(goal: str, spare: int = 4) -> envs.Craft:
    """The Craft whose goals have the depth of this one, with time for mistakes; spare: raw things beyond need."""
    return envs.Craft((depth(goal), depth(goal)), spare, slack=6)


GOALS = tuple(sorted((g for g in RECIPES if depth(g) <= 3), key=depth))


@dataclass(frozen=True)
class Lifelong:
    """One life of a frozen policy: goals from shallow to deep, `tries` tasks each and `last` for those of depth 3.

    With a library, what an episode made is kept, and later episodes act in the world that knows it.
    """

    library: bool
    spare: int = 4
    tries: int = 12
    last: int = 24

    def __call__(self, policy, seed: int) -> Iterator[dict]:
        library, first = SkillLibrary(), 5_000_000 * (seed + 1)
        for step, goal in enumerate(GOALS, 1):
            world, tasks = craft_of(goal, self.spare), self.last if depth(goal) == 3 else self.tries
            acted = Skilled(world, library) if self.library else world
            found = rollout(policy, acted, tasks_for(goal, tasks, first, self.spare), seed=seed, limits=LONG)
            for episode in found if self.library else ():
                library.learn_from(world, episode)
            told = {"step": step, "goal": goal, "depth": depth(goal), "skills": len(library.skills)}
            yield told | spent(found)


def spent(found: list[Episode]) -> dict[str, float]:
    """Share won, turns of the policy in all, wins, turns of a won episode (0 where there is none), and the share
    of episodes that ended where the goal was out of reach.
    """
    won = [e.turns for e in found if e.success]
    return {
        "success": len(won) / len(found),
        "turns": sum(e.turns for e in found),
        "wins": len(won),
        "turns_won": float(np.mean(won)) if won else 0.0,
        "dead": float(np.mean([e.infos[-1]["left"] < 0 for e in found])),
    }


# --- speculative planning ---------------------------------------------------------------------------------

DRAFTED = envs.Craft((1, 4))


@cache
def target() -> TinyLM:
    """The planner that is worth waiting for: the novice after 40 updates on an expert's traces."""
    policy = models.load("craft-novice")
    shown = demonstrate(policy, DRAFTED, range(600), lambda env: env.expert())
    for _ in imitate(policy, shown, steps=40, rows=48, lr=1e-3):
        pass
    return policy


@cache
def drafter(updates: int = 150) -> TinyLM:
    """A fifth of its size, taught by its traces."""
    policy = small().copy()
    shown = demonstrate(policy, DRAFTED, range(600), lambda env: env.expert())
    for _ in imitate(policy, shown, steps=updates, rows=48, lr=3e-3):
        pass
    return policy


def drafted(seed: int, tasks: int = 192) -> list[Trace]:
    """What the target does on held-out tasks of this seed, with the drafts at each turn."""
    first = evaluate.HELD_OUT + 1000 * seed
    return traces(drafter(), target(), DRAFTED, range(first, first + tasks), 4, limits=LIMITS)


def speculate(policy, seed: int) -> Iterator[dict]:
    """Cost of a success with each fixed number of drafts, with the bandit, and of the bandit's second half."""
    made = drafted(seed)
    won = sum(t.success for t in made)
    planner, rng = SpeculativePlanner(), random.Random(seed)
    costs = [planner.plan(t, rng) for t in made]
    half = len(made) // 2
    found = {f"fixed_{k}": sum(fixed(t, k) for t in made) / won for k in (0, 1, 2, 4)}
    later = {f"later_{k}": sum(fixed(t, k) for t in made[half:]) for k in (0, 1, 2, 4)} | {
        "later_bandit": sum(costs[half:])
    }
    agreed = [a for t in made for a in t.agreed]
    yield (
        {"step": 1, "success": won / len(made), "bandit": sum(costs) / won, "agreed": float(np.mean(agreed))}
        | found
        | later
    )


# --- learned search width ---------------------------------------------------------------------------------

WIDE = envs.Craft((1, 4))
WIDTHS = ("0", "1", "4")
POOL = range(7_000_000, 7_000_096)
HELD = range(evaluate.HELD_OUT + 70_000, evaluate.HELD_OUT + 70_096)
PRICE = 0.002  # a simulator step


def widths(policy, seed: int) -> Iterator[dict]:
    """A record for each task and width: mean reward and simulator steps of the frozen novice with that beam."""
    judge = guide(seed)
    for tasks in filter(len, (POOL, HELD)):
        plain = rollout(policy, WIDE, tasks, 4, seed=seed, limits=LIMITS)
        for n, task in enumerate(tasks):
            yield {
                "step": task,
                "width": "0",
                "reward": float(np.mean([e.reward for e in plain[4 * n : 4 * n + 4]])),
                "cost": 0,
            }
        for width in WIDTHS[1:]:
            rows = [start(policy, WIDE, task) for task in tasks]
            found = beam(policy, rows, judge.values, keep=int(width), width=4, seed=seed, limits=LIMITS)
            for task, b in zip(tasks, found):
                yield {"step": task, "width": width, "reward": b.end.row.episode.reward, "cost": b.steps}


@cache
def outcomes(seed: int) -> dict[tuple[int, str], tuple[float, float]]:
    """(task, width) → (reward, simulator steps), as recorded for this seed, else measured now."""
    from . import path

    file = path(f"{NAME}/widths")
    known = [json.loads(line) for line in file.read_text().splitlines()[1:]] if file.exists() else []
    rows = [r for r in known if "width" in r and r["seed"] == seed]
    rows = rows or list(widths(models.load("craft-novice"), seed))
    return {(r["step"], r["width"]): (r["reward"], r["cost"]) for r in rows}


def gate(seed: int, price: float = PRICE) -> Gate:
    """The world in which a width is chosen before the task is worked on."""
    table = outcomes(seed)
    return Gate(WIDE, lambda task, width: table[task, width], WIDTHS, price)


def learn_width(policy, seed: int) -> Iterator[dict]:
    """GRPO on the recorded outcomes of the training tasks; the last record holds held-out pay, its own and of
    fixed widths.
    """
    world, rng = gate(seed), random.Random(f"gate {seed}")
    shown = demonstrate(policy, world, POOL, lambda env: env.random(rng))
    for _ in imitate(policy, shown, steps=60, rows=64, lr=2e-3, seed=seed):
        pass
    settings = dict(
        steps=40, prompts=24, tries=8, lr=1e-3, limits=Limits(8, 2, 60), seed=seed, tasks=tuple(POOL)
    )
    for record in train(policy, world, GRPO(), **settings):
        yield {"step": record.step, "reward": record.reward}
    tried = rollout(policy, world, HELD, 4, seed=seed, limits=settings["limits"])
    table = outcomes(seed)
    pays = {
        f"fixed_{w}": float(np.mean([table[t, w][0] - PRICE * table[t, w][1] for t in HELD])) for w in WIDTHS
    }
    chose = {f"chose_{w}": float(np.mean([e.infos[-1].get("mode") == w for e in tried])) for w in WIDTHS}
    yield {"step": record.step + 1, "learned": float(np.mean([e.reward for e in tried]))} | pays | chose


EXPERIMENTS = {
    f"{NAME}/transformer": Experiment(
        "Two robots, logs of mixed quality: a decision transformer asked for 0, 3, 6 and 9 tenths, or as logged.",
        "craft-novice",
        {"decision transformer": OnLogs()},
        nothing,
        seeds=THREE,
    ),
    f"{NAME}/skills": Experiment(
        "A life of crafting with a frozen policy, shallow goals first, with a library of what worked and without.",
        "craft-novice",
        {"with a library": Lifelong(True), "without": Lifelong(False)},
        nothing,
        seeds=THREE,
    ),
    f"{NAME}/skills_more": Experiment(
        "The same lives on other seeds, with four times as many tasks of the deepest goals.",
        "craft-novice",
        {"with a library": Lifelong(True, last=96), "without": Lifelong(False, last=96)},
        nothing,
        seeds=(15, 16, 17, 18, 19),
    ),
    f"{NAME}/speculative": Experiment(
        "Drafts of a small model checked by a larger one: cost of a success by drafts a round, and with a bandit.",
        "craft-novice",
        {"drafts": speculate},
        nothing,
        seeds=THREE,
    ),
    f"{NAME}/widths": Experiment(
        "What the frozen novice reaches with a beam of width 0, 1 and 4, and what that costs; 192 tasks.",
        "craft-novice",
        {"beam by V": widths},
        nothing,
        seeds=THREE,
    ),
    f"{NAME}/width": Experiment(
        "The search width as the policy's first choice, paid by the recorded outcomes at 0.002 a simulator step.",
        "craft-novice",
        {"learned width": learn_width},
        nothing,
        seeds=THREE,
    ),
}
