"""Speculative planning: a cheap model drafts the next turns, the expensive one checks them at once, a bandit
picks how many.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch

from ... import ops
from ...batch import Episode, collate
from ...models.score import score
from ...rollout import Limits, Row, Sampling, start
from ..ahead import propose

GREEDY = Sampling(temperature=0)


@dataclass(frozen=True)
class Trace:
    """One task as the target does it. agreed: for each turn, how many of the drafts made there the target
    would have said in a row; sure: the drafter's probability of its first draft there.
    """

    agreed: tuple[int, ...]
    sure: tuple[float, ...]
    success: bool


def traces(
    drafter, target, env, seeds: Sequence[int], most: int = 4, *, limits: Limits = Limits()
) -> list[Trace]:
    """The target's greedy episodes, with what the drafter would have drafted at each of their turns (up to
    `most`).

    Drafts change nothing about what is done: a turn is taken only if the target says it too.
    """
    how = dict(sampling=GREEDY, limits=limits)
    rows = [start(target, env, seed, group) for group, seed in enumerate(seeds)]
    along: list[list[Row]] = [[] for _ in rows]
    said: list[list[str]] = [[] for _ in rows]
    while live := [i for i, row in enumerate(rows) if not (row.episode.terminated or row.episode.truncated)]:
        for i, (step,) in zip(live, propose(target, [rows[i] for i in live], 1, **how)):
            along[i].append(rows[i])
            said[i].append(step.said)
            rows[i] = step.row
    places = [(i, turn) for i in range(len(rows)) for turn in range(len(said[i]))]
    agreed, sure = _drafted(
        drafter, [along[i][turn] for i, turn in places], [said[i][turn:] for i, turn in places], most, limits
    )
    cut = [0]
    for words in said:
        cut.append(cut[-1] + len(words))
    return [
        Trace(tuple(agreed[a:b]), tuple(sure[a:b]), row.episode.success)
        for a, b, row in zip(cut, cut[1:], rows)
    ]


def _drafted(drafter, rows, wanted, most: int, limits: Limits) -> tuple[list[int], list[float]]:
    """How many greedy drafts from each row are what the target says, and how likely the first draft was."""
    agreed, now, live = [0] * len(rows), list(rows), list(range(len(rows)))
    for ahead in range(most):
        made = propose(drafter, [now[i] for i in live], 1, sampling=GREEDY, limits=limits)
        if ahead == 0:
            sure = _likely(drafter, [draft.row.episode for (draft,) in made])
        going = []
        for i, (draft,) in zip(live, made):
            if draft.said == wanted[i][ahead]:
                agreed[i], now[i] = ahead + 1, draft.row
                if ahead + 1 < len(wanted[i]):
                    going.append(i)
        live = going
        if not live:
            break
    return agreed, sure


@torch.no_grad()
def _likely(drafter, episodes: Sequence[Episode]) -> list[float]:
    """The probability, at temperature 1, of what was said in the last turn of each episode."""
    batch = collate([replace(e, temperature=1.0) for e in episodes], drafter.device)
    last = (batch.turn == batch.turn.amax(1, keepdim=True)) & (batch.mask > 0)
    return ops.row_sum(score(drafter, batch).logp, last.float()).exp().tolist()


@dataclass(frozen=True)
class Price:
    """What a round costs: one unit for the target's check, `draft` for each draft, `waste` for each draft
    thrown away.
    """

    draft: float = 0.15
    waste: float = 0.4

    def of(self, k: int, agreed: int) -> tuple[float, int]:
        """(cost, turns won) of a round with k drafts: those agreed with and one turn of the target's own."""
        taken = min(k, agreed)
        return 1 + self.draft * k + self.waste * (k - taken), taken + 1


@dataclass
class SpeculativePlanner:
    """Learns online how many turns to draft, for each kind of place: the k with the least cost − ρ · turns
    won.

    ρ is the cost of a turn so far. Each round is a pull of one arm; with probability `explore` any arm.
    Estimates are running means. context(trace, turn) → what tells places apart, known before drafting.
    Source: Dynamic Speculative Planning (arXiv 2509.01920), which predicts the number of steps by online RL.
    """

    ks: tuple[int, ...] = (0, 1, 2, 4)
    price: Price = Price()
    explore: float = 0.1
    context: Callable[[Trace, int], object] = lambda trace, turn: round(4 * trace.sure[turn])
    seen: dict = field(default_factory=dict)  # (context, k) → [pulls, cost, turns won]
    spent: float = 0.0
    turns: int = 0

    def pick(self, where: object, rng) -> int:
        """How many turns to draft. rng: `random.Random`."""
        fresh = [k for k in self.ks if (where, k) not in self.seen]
        if fresh:
            return fresh[0]
        return (
            rng.choice(self.ks)
            if rng.random() < self.explore
            else min(self.ks, key=lambda k: self.regret(where, k))
        )

    def regret(self, where: object, k: int) -> float:
        """Mean cost of an arm, less what its turns cost elsewhere."""
        pulls, cost, won = self.seen[where, k]
        return (cost - won * self.spent / max(self.turns, 1)) / pulls

    def plan(self, trace: Trace, rng) -> float:
        """Goes through one task, learning on the way; what it cost."""
        at, total = 0, 0.0
        while at < len(trace.agreed):
            where = self.context(trace, at)
            k = self.pick(where, rng)
            cost, won = self.price.of(k, trace.agreed[at])
            tally = self.seen.setdefault((where, k), [0, 0.0, 0])
            self.seen[where, k] = [tally[0] + 1, tally[1] + cost, tally[2] + won]
            self.spent, self.turns, total, at = self.spent + cost, self.turns + won, total + cost, at + won
        return total


def fixed(trace: Trace, k: int, price: Price = Price()) -> float:
    """What a task costs with always k drafts."""
    at, total = 0, 0.0
    while at < len(trace.agreed):
        cost, won = price.of(k, trace.agreed[at])
        total, at = total + cost, at + won
    return total
