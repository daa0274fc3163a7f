"""Chapter 12, drawing: a path drawn before the answer, and scenes made on two levels."""

from collections.abc import Sequence

import numpy as np

from .. import envs, evaluate
from ..algorithms import GRPO
from ..batch import Episode
from ..capabilities.drawing import OneLevel, valid_path
from ..capabilities.vote import vote
from ..models.tokenizer import END
from ..rollout import Limits
from .kinds import ByImitation, ByReward, Experiment

SEEDS = (10, 11, 12)
DRAWN, SAID = Limits(turn_tokens=44, turns=1, total=96), Limits(turn_tokens=2, turns=1, total=96)
DRAW = dict(steps=20, prompts=16, tries=8, lr=3e-4, limits=DRAWN)
TAUGHT = dict(steps=150, rows=64, lr=3e-3)
VOTES = 20  # answers at once that have as many tokens as one drawing with its answer
PLACED = Limits(turn_tokens=30, turns=1, total=64)
PLACE = dict(steps=25, prompts=16, tries=8, lr=5e-4, limits=PLACED)


def drawings(episodes: Sequence[Episode]) -> list[tuple[bool, bool]]:
    """Of each episode with a drawing: is the drawn path valid, is the answer right."""
    found, maze = [], envs.Maze()
    for episode in episodes:
        info = episode.infos[-1]
        if info["drew"]:
            maze.reset(episode.seed)
            found.append((valid_path(info["drawn"], maze.cells), episode.success))
    return found


def measure_maze(policy) -> dict[str, float]:
    """On 256 held-out mazes: right, draws, drawings valid, right with valid ones and with others; a vote."""
    tried = evaluate.episodes(policy, envs.Maze(), limits=DRAWN)
    drawn = drawings(tried)
    by = {kind: [right for valid, right in drawn if valid == kind] for kind in (True, False)}
    measured = {
        "success": float(np.mean([e.success for e in tried])),
        "draws": len(drawn) / len(tried),
        "tokens": float(np.mean([e.mask.sum() for e in tried])),
        "vote": voted(policy, envs.Maze(draw=False), VOTES),
    }
    if drawn:
        measured |= {"valid": len(by[True]) / len(drawn)}
    if all(by.values()):
        measured |= {
            "right_when_valid": float(np.mean(by[True])),
            "right_when_not": float(np.mean(by[False])),
        }
    return measured


def voted(policy, env: envs.Maze | envs.Waves, votes: int, tasks: int = 64) -> float:
    """Share of held-out tasks in which the most common of so many answers at once is right."""
    tried, right = evaluate.episodes(policy, env, tasks, votes, limits=SAID), 0
    for first in range(0, len(tried), votes):
        said = [e.said(0).removesuffix(END).strip() for e in tried[first : first + votes]]
        env.reset(tried[first].seed)
        right += vote([word if word.isdigit() else None for word in said]).answer == str(env.answer)
    return right / tasks


def measure_place(policy) -> dict[str, float]:
    """On 512 held-out scenes: right pictures, plans that fit, pictures that are what was planned."""
    last = [e.infos[-1] for e in evaluate.episodes(policy, envs.Place(), 512, limits=PLACED)]
    return {name: float(np.mean([i[name] for i in last])) for name in ("success", "plan_fits", "as_planned")}


EXPERIMENTS = {
    "12_perception/maze": Experiment(
        "Crossing paths: GRPO with and without a drawing before the answer, and imitation of right answers.",
        "paths-novice",
        {
            "draws": ByReward(envs.Maze(), GRPO(), DRAW),
            "answers": ByReward(envs.Maze(draw=False), GRPO(), DRAW),
            "taught answers": ByImitation(envs.Maze(draw=False), 5000, TAUGHT),
        },
        measure_maze,
        SEEDS,
    ),
    "12_perception/place": Experiment(
        "Scenes planned in words and drawn: GRPO on both levels, on the plan alone, on the picture alone.",
        "place-novice",
        {
            "both": ByReward(envs.Place(), GRPO(), PLACE),
            "plan": ByReward(envs.Place(), OneLevel(level="plan"), PLACE),
            "picture": ByReward(envs.Place(), OneLevel(level="picture"), PLACE),
        },
        measure_place,
        SEEDS,
    ),
}
