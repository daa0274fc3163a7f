"""Chapter 01: a T-maze, with its cue in the context and without."""

from .. import envs, evaluate
from ..algorithms import Reinforce
from ..formal import FinitePOMDP, tmaze
from ..rollout import Limits
from .kinds import FRESH_SEEDS, ByReward, Experiment

TMAZE = dict(steps=40, prompts=16, tries=8, lr=1e-3, limits=Limits(turn_tokens=6, turns=6, total=96))


def cueless(maze: FinitePOMDP) -> FinitePOMDP:
    """The same maze whose cue looks like the corridor: what is left of it for a context that lost the cue."""
    looks = [maze.observations[int(shown.argmax())] for shown in maze.O_start]
    return FinitePOMDP.seen(maze.mdp, ["corridor" if look.startswith("cue-") else look for look in looks])


def measure_tmaze(policy) -> dict[str, float]:
    """Success on 256 held-out mazes, cue shown and cue hidden."""
    shown, hidden = tmaze(5), cueless(tmaze(5))
    return {
        "success": evaluate.success(policy, envs.Finite(shown), limits=TMAZE["limits"]).mean,
        "success_without_cue": evaluate.success(policy, envs.Finite(hidden), limits=TMAZE["limits"]).mean,
    }


EXPERIMENTS = {
    "01_mdp_pomdp/tmaze": Experiment(
        "A T-maze whose cue stays in the context, against one whose cue was never in it: REINFORCE, reward ±1.",
        "tmaze-novice",
        {
            "cue in context": ByReward(envs.Finite(tmaze(5)), Reinforce(), TMAZE),
            "cue lost": ByReward(envs.Finite(cueless(tmaze(5))), Reinforce(), TMAZE),
        },
        measure_tmaze,
        seeds=FRESH_SEEDS[:3],
    ),
}
