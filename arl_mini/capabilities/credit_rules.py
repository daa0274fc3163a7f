"""Rules that judge single turns by what they did, for worlds that tell of each turn (`Errand`)."""

from collections.abc import Sequence

import numpy as np

from ..batch import Episode


def repeats(episode: Episode) -> np.ndarray:
    """(K,) bool: turns that say what was said before in the same room with the same things in hand."""
    seen, found = set(), []
    for info in episode.infos[: episode.turns]:
        known = info.get("room"), info.get("holding"), info.get("did")
        found.append(known in seen)
        seen.add(known)
    return np.array(found)


def refused(episode: Episode) -> np.ndarray:
    """(K,) bool: turns that the world could not carry out."""
    return np.array([bool(i.get("illegal") or i.get("malformed")) for i in episode.infos[: episode.turns]])


def tag_of(episode: Episode, turn: int) -> str:
    """The purpose that a turn names, '' for none."""
    return episode.infos[turn].get("tag", "")


def rule_tags(episodes: Sequence[Episode]) -> list[np.ndarray]:
    """What programs pay for the purpose that each turn named, a `Pay`.

    explore: 1 where a new room was entered. plan: 1 where the try succeeded in the end. reflect: 1 where the
    turn before failed (refused, or a repeat) and this one does not. 0 for a turn without a purpose; −1 for
    any turn that is refused.
    Source: the verifiable rewards of RLVMR (Zhang et al. 2025, arXiv 2507.22844). Departs from the paper: no
    tag for monitoring; what counts as new, failed and mended is told by this world.
    """
    paid = []
    for episode in episodes:
        failed = refused(episode) | repeats(episode)
        before = np.append(False, failed[:-1])
        earned = {
            "explore": [float(info["new"]) for info in episode.infos[: episode.turns]],
            "plan": [float(episode.success)] * episode.turns,
            "reflect": (before & ~failed).astype(float),
            "": [0.0] * episode.turns,
        }
        by_tag = np.array([earned[tag_of(episode, k)][k] for k in range(episode.turns)])
        paid.append(np.where(refused(episode), -1.0, by_tag))
    return paid
