"""Preference pairs that share their beginning, so that they say which turns made the difference."""

from collections.abc import Callable, Sequence

from ..algorithms.dpo import Pair
from ..algorithms.preference import SDPO
from ..batch import Episode
from ..envs.base import Env
from ..rollout import Limits, rewind
from .ahead import reroll


def middle(episode: Episode) -> int:
    """The turn in the middle."""
    return episode.turns // 2


def branched(
    policy, env: Env, episodes: Sequence[Episode], at: Callable[[Episode], int], tries: int,
    *, seed: int = 0, limits: Limits = Limits(),
) -> list[Pair]:  # fmt: skip
    """For each failure that can be mended from turn at(episode) on: (a re-roll that succeeds, failure)."""
    lost = [e for e in episodes if not e.success]
    if not lost:
        return []
    rows = [rewind(env, e, at(e), policy.format.heard) for e in lost]
    ends = reroll(policy, rows, tries, seed=seed, limits=limits)
    mended = [next((end for end in es if end.success), None) for es in ends]
    return [(won, e) for won, e in zip(mended, lost) if won is not None]


def segment_pairs(pairs: Sequence[Pair], turns: int = 3) -> list[Pair]:
    """Each pair cut to the turns in which both differ first: equally many on both sides, at most `turns`.

    What stands before is forced. turns 1: a single turn against another; 0: all that both have.
    Source: SDPO (Kong et al. 2025, arXiv 2501.01821).
    """
    cut = [SDPO(turns=turns).trim(*pair) for pair in pairs]
    return [pair for pair in cut if pair is not None]
