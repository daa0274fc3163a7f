"""Preference pairs out of traces: who won and who lost the same task, and a first try against its correction."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..algorithms.dpo import Pair
from ..batch import Episode


def won_and_lost(episodes: Sequence[Episode], most: int = 1) -> list[Pair]:
    """Up to `most` pairs a task: a success against a failure, no text used twice on its side.

    Source: the contrastive pairs of ETO (Song et al. 2024, arXiv 2403.02502).
    """
    if most < 1:
        raise ValueError(f"expected at least one pair a task, got most={most}")
    tasks: dict[int, tuple[dict, dict]] = {}
    for episode in episodes:
        won, lost = tasks.setdefault(episode.seed, ({}, {}))
        (won if episode.success else lost).setdefault(episode.text, episode)
    return [
        pair for won, lost in tasks.values() for pair in list(zip(won.values(), lost.values(), strict=False))[:most]
    ]


def first_and_last(episode: Episode) -> Pair | None:
    """What a solved episode said last, as if said at once, against what it said first; None where there is no second try.

    Both rows hold the prompt and one turn: the way from first to last stays out, so that it is not needed any more.
    """
    if not episode.success or episode.turns < 2:
        return None
    last = episode.turns - 1
    return _only(episode, last, True), _only(episode, 0, False)


def _only(episode: Episode, turn: int, success: bool) -> Episode:
    """The prompt, and what was said in one turn."""
    at = np.flatnonzero((episode.turn < 0) | ((episode.turn == turn) & (episode.mask > 0)))
    kept = {name: getattr(episode, name)[at] for name in ("tokens", "mask", "logp", "rewards")}
    turns = np.where(episode.mask[at] > 0, 0, -1)
    return replace(
        episode, **kept, turn=turns, infos=[episode.infos[turn]], success=success, terminated=success, truncated=not success
    )
