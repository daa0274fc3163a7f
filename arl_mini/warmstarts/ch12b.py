"""Chapter 12, drawing and sound: policies that can draw, plan, listen or speak, and do not do it well."""

import random

import numpy as np

from .. import envs, evaluate
from ..capabilities.sound import SOUNDS, Voice
from ..envs.maze import CANVAS
from ..models import TinyLM
from ..rollout import Limits
from .kinds import Recipe, Stage

LIMITS = Limits(turn_tokens=44, turns=1, total=96)


def _maze_habit(env: envs.Maze, rng: random.Random) -> str:
    """Draws in 3 of 10 mazes, else gives any number at once."""
    return env.expert() if rng.random() < 0.3 else env.random(rng)


def _place_habit(env: envs.Place, rng: random.Random) -> str:
    """Plans anything in 6 of 10 scenes; in as many it draws one thing elsewhere than planned."""
    planned = env.anywhere(rng) if rng.random() < 0.6 else env.plan(rng)
    drawn = dict(planned)
    if rng.random() < 0.6:
        drawn[rng.choice(env.things)] = rng.choice([i for i in range(CANVAS**2) if i not in planned.values()])
    return env.write(planned, drawn)


def _waves_habit(env: envs.Waves, rng: random.Random) -> str:
    """Writes what it hears in 3 of 10 tunes, else gives any number up to that of the tones at once."""
    return env.expert() if rng.random() < 0.3 else env.random(rng)


def _reader(env: Voice, rng: random.Random) -> str:
    """Long for loud sounds and short for soft ones, now and then a frame more or less."""
    return env.write([max(1, SOUNDS[sound][3] + rng.choice((-1, 0, 0, 1))) for sound in env.said])


def _last(policy: TinyLM, env: envs.Env) -> list[dict]:
    return [e.infos[-1] for e in evaluate.episodes(policy, env, 512, limits=LIMITS)]


def _maze_atoms(policy: TinyLM) -> dict[str, float]:
    last = _last(policy, envs.Maze())
    drew = [i["success"] for i in last if i["drew"]]
    # a drawing is longer than the turns that cards are usually measured with
    whole = {"success": float(np.mean([i["success"] for i in last])), "draws": len(drew) / 512}
    return whole | {"success_when_it_draws": float(np.mean(drew or [0.0]))}


def _place_atoms(policy: TinyLM) -> dict[str, float]:
    last = _last(policy, envs.Place())
    return {
        name: float(np.mean([i[name] for i in last])) for name in ("plan_fits", "as_planned", "malformed")
    }


def _waves_atoms(policy: TinyLM) -> dict[str, float]:
    last = _last(policy, envs.Waves())
    by = {wrote: [i["success"] for i in last if i["wrote"] == wrote] or [0.0] for wrote in (True, False)}
    writes = float(np.mean([i["wrote"] for i in last]))
    return {
        "writes": writes,
        "success_with_steps": float(np.mean(by[True])),
        "success_direct": float(np.mean(by[False])),
    }


def _voice_atoms(policy: TinyLM) -> dict[str, float]:
    return {"word_error_rate": float(np.mean([i["error"] for i in _last(policy, Voice())]))}


RECIPES = {
    "paths-novice": Recipe(
        "Can draw the path from A and read its number off; mostly gives any number at once.",
        envs.Maze(),
        (
            Stage(envs.Maze(), lambda env, rng: env.expert(), 320, 4e-3),
            Stage(envs.Maze(), _maze_habit, 30, 1e-3, tasks=2000),
        ),
        _maze_atoms,
    ),
    "place-novice": Recipe(
        "Can plan a scene and draw what it planned; mostly it is careless about one or the other.",
        envs.Place(),
        (
            Stage(envs.Place(), lambda env, rng: env.expert(), 450, 4e-3),
            Stage(envs.Place(), _place_habit, 40, 1e-3),
        ),
        _place_atoms,
    ),
    "waves-novice": Recipe(
        "Hears which tones rise and can write them down with the count; mostly gives a number at once.",
        envs.Waves(),
        (
            Stage(envs.Waves(), lambda env, rng: env.expert(), 150, 4e-3, tasks=4000),
            Stage(envs.Waves(), _waves_habit, 40, 1e-3, tasks=3000),
        ),
        _waves_atoms,
        eyes=64,
    ),
    "voice-novice": Recipe(
        "Says how long each sound lasts, as a reader does who stresses what is loud.",
        Voice(),
        (Stage(Voice(), _reader, 200, 3e-3, tasks=3000),),
        _voice_atoms,
    ),
}
