"""Chapter 07: a crafter that is impatient, and a walker that asks for the way now and then."""

import random

import numpy as np

from .. import envs, evaluate
from ..capabilities.planning.plans import PlanFirst, PlanGate, write, written
from ..envs.craft import RECIPES as BOOK
from ..envs.craft import plan
from ..models import TinyLM
from ..models.tokenizer import THINK
from ..rollout import Limits
from .kinds import Recipe, Stage

LIMITS = Limits(turn_tokens=36, turns=16, total=320)


def _needed(thing: str) -> list[str]:
    """All things of the recipe book on the way to a thing, itself included."""
    return [thing, *(n for part in envs.craft.needs(thing) if part in BOOK for n in _needed(part))]


def _craft_habit(env: PlanFirst, rng: random.Random) -> str:
    """Often makes what it needs before it can, or takes whatever is there; its plans leave a command out now
    and then.
    """
    if env.asks and env.turns == 0:
        commands = [c for c in plan(env.goal, env.bag, env.field) if rng.random() > 0.2]
        return write(commands) + env.expert().partition(THINK.replace("<", "</"))[2]
    dice = rng.random()
    if dice < 0.42:
        return envs.act(f"make {rng.choice(_needed(env.goal))}")
    return env.random(rng) if dice < 0.62 else env.expert()


def _grid_clean(env: PlanGate, rng: random.Random) -> str:
    """Half of the time asks for the way first and after every four commands; it always walks a shortest way."""
    if env.turns == 0:
        env.asking = rng.random() < 0.5
    return envs.act("plan") if env.asking and env.turns % 5 == 0 else env.expert()


def _grid_habit(env: PlanGate, rng: random.Random) -> str:
    """As before, but asks in 4 of 10 tasks, and one step of fifty is a stray one."""
    if env.turns == 0:
        env.asking = rng.random() < 0.4
    if env.asking and env.turns % 5 == 0:
        return envs.act("plan")
    return env.random(rng) if rng.random() < 0.02 else env.expert()


def _craft_atoms(policy: TinyLM) -> dict[str, float]:
    measured = {}
    for name, asked in (("", 0.0), ("plan_", 1.0)):
        tried = evaluate.episodes(policy, PlanFirst((2, 3), asked=asked), limits=LIMITS)
        infos = [i for e in tried for i in e.infos]
        measured[f"{name}success"] = float(np.mean([e.success for e in tried]))
        measured[f"{name}malformed"] = float(np.mean([bool(i.get("malformed")) for i in infos]))
        measured[f"{name}refused"] = float(np.mean([bool(i.get("illegal")) for i in infos]))
    first = [(len(written(e.said(0))), e.infos[0].get("done", 0)) for e in tried]
    return measured | {
        "plan_commands": float(np.mean([n for n, _ in first])),
        "plan_done": float(np.mean([d for _, d in first])),
    }


def _grid_atoms(policy: TinyLM) -> dict[str, float]:
    measured = {}
    for name, walled in (("open", 0.0), ("walled", 1.0)):
        for when in ("always", "never"):
            tried = evaluate.success(policy, PlanGate(when, walled=walled), 128, limits=LIMITS)
            measured[f"{name}_{when}_planning"] = tried.mean
    return measured


CRAFT, GRID = PlanFirst((1, 4), asked=0.4), PlanGate()

RECIPES = {
    "craft-novice": Recipe(
        "Knows the recipes but is impatient: it often makes things before it can. Writes a plan when asked, with gaps.",
        PlanFirst((2, 3), asked=0.0),
        (
            Stage(CRAFT, lambda env, rng: env.expert(), 330, 3e-3),
            Stage(CRAFT, _craft_habit, 50, 1e-3, tasks=3000),
        ),
        _craft_atoms,
    ),
    "grid-novice": Recipe(
        "Walks to a goal that it sees; asks for the way in 4 of 10 tasks, wall or not, and follows it.",
        GRID,
        (
            Stage(PlanGate(walled=0.7), _grid_clean, 300, 3e-3, tasks=3000),
            Stage(GRID, _grid_habit, 40, 1e-3, tasks=1500),
        ),
        _grid_atoms,
    ),
}
