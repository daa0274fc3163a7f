"""Chapter 13: who names a purpose and acts on it, at random; who walks T-mazes of any length."""

import random

import numpy as np

from .. import envs, evaluate
from ..envs.errand import TAGS, Errand
from ..formal.models import tmaze
from ..models import TinyLM
from .kinds import Recipe, Stage

LENGTHS = range(3, 13)


class AnyMaze(envs.Finite):
    """A T-maze whose corridor has 3 to 12 cells, as the seed decides; nobody is told."""

    def __init__(self):
        super().__init__(tmaze(max(LENGTHS)))

    def reset(self, seed: int) -> str:
        super().__init__(tmaze(random.Random(f"corridor {seed}").choice(LENGTHS)))
        return super().reset(seed)


def _walk(env: AnyMaze, rng: random.Random) -> str:
    """Walks to the junction, seldom not, and turns there without a thought of the cue."""
    at_junction = env.names[env.shows[0][env.state].index(1.0)] == "junction"
    if at_junction or rng.random() < 0.06:
        return envs.act(rng.choice(("up", "down") if at_junction else env.actions))
    return envs.act("forward")


def _maze_atoms(policy: TinyLM) -> dict[str, float]:
    """Success for corridors of 3, 6 and 12 cells."""
    mazes = {n: envs.Finite(tmaze(n)) for n in (3, 6, 12)}
    return {f"success_{n}": evaluate.success(policy, maze).mean for n, maze in mazes.items()}


def _errand_atoms(policy: TinyLM) -> dict[str, float]:
    """How the tags are used: turns that explore and reach a new room, that plan at the key and take it, …"""
    infos = [i for e in evaluate.episodes(policy, Errand()) for i in e.infos]
    found = {f"{tag}_share": float(np.mean([i.get("tag") == tag for i in infos])) for tag in TAGS}
    explored = [i["new"] for i in infos if i.get("tag") == "explore"]
    illegal = [bool(i.get("illegal") or i.get("malformed")) for i in infos]
    drops = [i.get("did") == "drop key" for i in infos]
    return found | {
        "new_when_exploring": float(np.mean(explored)), "refused": float(np.mean(illegal)),
        "drops": float(np.mean(drops)),
    }  # fmt: skip


RECIPES = {
    "errand-novice": Recipe(
        "Names a purpose at random and mostly does what is meant by it.",
        Errand(8, 14),
        (Stage(Errand(8, 14), lambda env, rng: env.thinker(rng), 380, 3e-3),),
        _errand_atoms,
    ),
    "maze-novice": Recipe(
        "Walks T-mazes of any length to the junction and turns there without regard to the cue.",
        AnyMaze(),
        (Stage(AnyMaze(), _walk, 220, 3e-3, tasks=3000),),
        _maze_atoms,
    ),
}
