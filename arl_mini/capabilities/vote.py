"""Majority votes over sampled answers (self-consistency, Wang et al. 2022, arXiv 2203.11171)."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Vote:
    """answer: None where no voter gave a valid one. share: its part of all weights, invalid voters included."""

    answer: str | None
    share: float


def vote(answers: Sequence[str | None], weights: Sequence[float] | None = None) -> Vote:
    """The answer with the greatest weight; of equals the one given first.

    answers: None is no valid answer: it wins nothing but counts in the share. weights: at least 0, by default 1
    each; a verifier's score, for instance. Raises ValueError for no answers, or weights that do not fit.
    """
    weights = [1.0] * len(answers) if weights is None else list(weights)
    if not answers or len(weights) != len(answers) or min(weights) < 0:
        raise ValueError(f"expected at least one answer and a weight ≥ 0 for each, got {len(answers)} and {weights}")
    tally: dict[str, float] = {}
    for answer, weight in zip(answers, weights):
        if answer is not None:
            tally[answer] = tally.get(answer, 0.0) + weight
    if not tally or sum(weights) == 0:
        return Vote(None, 0.0)
    best = max(tally, key=tally.get)
    return Vote(best, tally[best] / sum(weights))
