"""Searching ahead with a frozen proposer: Monte-Carlo tree search and beam search over whole turns.

Trees of many tasks grow together, so that each call of the policy serves all of them. A simulator step is one
turn played in a copy of the world; every search counts its own.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...rollout import Limits, Row, start
from ..ahead import Candidate, propose

Evaluate = Callable[
    [Sequence[Row]], Sequence[tuple[float, int]]
]  # rows → (value in [0, 1], simulator steps spent)


@dataclass(eq=False)
class Node:
    """A state in a search tree, reached by `candidate` (None at the root)."""

    row: Row
    candidate: Candidate | None = None
    prior: float = 1.0
    parent: "Node | None" = field(default=None, repr=False)
    children: list["Node"] = field(default_factory=list, repr=False)
    visits: int = 0
    total: float = 0.0  # of the values backed up through it
    best: float = 0.0  # highest reward found at an end below it

    @property
    def over(self) -> bool:
        """Whether the episode ended here."""
        return self.row.episode.terminated or self.row.episode.truncated

    @property
    def depth(self) -> int:
        """Turns below the root."""
        return 0 if self.parent is None else self.parent.depth + 1


def puct(node: Node, c: float) -> Node:
    """The child to go to: argmax of mean value + c · prior · √N / (1 + n), N visits of the node, n of the
    child.

    Source: Silver et al. 2017 (AlphaZero); with priors all alike it is UCT but for the logarithm.
    """

    def worth(child: Node) -> float:
        mean = child.total / child.visits if child.visits else 0.0
        return mean + c * child.prior * math.sqrt(node.visits) / (1 + child.visits)

    return max(node.children, key=worth)


def mcts(
    policy, rows: Sequence[Row], evaluate: Evaluate, *, steps: int, width: int = 4, c: float = 1.0,
    seed: int = 0, limits: Limits = Limits(),
) -> list[Node]:  # fmt: skip
    """Grows a tree at each row until it has spent `steps` simulator steps; returns the roots.

    A visit goes down by `puct` to a state not visited yet, whose value (`evaluate`) is added to all states
    above it. One met again is expanded first: `width` proposals of the policy, equal ones merged, shares as
    priors. Where the budget does not suffice for another expansion, or an end that pays 1 was found, the tree
    is done.
    """
    roots, spent = [Node(row, visits=1) for row in rows], [0] * len(rows)
    for visit in range(8 * steps):
        growing = [
            i
            for i in range(len(roots))
            if spent[i] + width <= steps and not roots[i].over and roots[i].best < 1
        ]
        if not growing:
            break
        leaves = [_descend(roots[i], c) for i in growing]
        grow = [n for n, leaf in enumerate(leaves) if leaf.visits and not leaf.over]
        made = (
            propose(policy, [leaves[n].row for n in grow], width, seed=seed * 1009 + visit, limits=limits)
            if grow
            else []
        )
        for n, candidates in zip(grow, made):
            _expand(leaves[n], candidates)
            spent[growing[n]] += width
            leaves[n] = puct(leaves[n], c)
        for i, leaf, (value, cost) in zip(growing, leaves, evaluate([leaf.row for leaf in leaves])):
            spent[i] += cost
            _back_up(leaf, value, leaf.over or cost > 0)
    return roots


def _descend(node: Node, c: float) -> Node:
    while node.children and not node.over:
        node = puct(node, c)
    return node


def _expand(node: Node, candidates: Sequence[Candidate]) -> None:
    merged: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        merged.setdefault(candidate.said, []).append(candidate)
    node.children = [
        Node(same[0].row, same[0], len(same) / len(candidates), node) for same in merged.values()
    ]


def _back_up(node: Node | None, value: float, certain: bool) -> None:
    """certain: the value is a reward that was reached, not an estimate."""
    while node is not None:
        node.visits += 1
        node.total += value
        node.best = max(node.best, value if certain else 0.0)
        node = node.parent


def choice(root: Node) -> Candidate:
    """The turn to take: below which the highest reward was reached; of equals the one visited most."""
    return max(root.children, key=lambda child: (child.best, child.visits, child.total)).candidate


def guided(guide) -> Evaluate:
    """A state is worth what a guide says; costs no simulator step."""
    return lambda rows: [(value, 0) for value in guide.values(rows)]


def random_playouts(seed: int = 0) -> Evaluate:
    """A state is worth what a random legal player gets from it; each of its turns costs a simulator step."""

    def play(row: Row, rng: random.Random) -> tuple[float, int]:
        if row.episode.terminated or row.episode.truncated:
            return row.episode.reward, 0
        env, total, turns = row.env.clone(), 0.0, 0
        while True:
            reply = env.step(env.random(rng))
            total, turns = total + reply.reward, turns + 1
            if reply.done or reply.truncated:
                return total, turns

    rng = random.Random(f"playouts {seed}")
    return lambda rows: [play(row, rng) for row in rows]


@dataclass
class Beam:
    """A beam search of one task. kept: at each depth the candidates it went on with; steps: simulator steps
    spent.
    """

    kept: list[list[Candidate]] = field(default_factory=list)
    steps: int = 0

    @property
    def end(self) -> Candidate:
        """The end that paid most; of equals the one reached first."""
        ends = [c for level in self.kept for c in level if c.over]
        return max(ends, key=lambda c: c.row.episode.reward)


def beam(
    policy, rows: Sequence[Row], values: Callable[[Sequence[Row]], Sequence[float]], *, keep: int = 4,
    width: int = 4, seed: int = 0, limits: Limits = Limits(),
) -> list[Beam]:  # fmt: skip
    """Of `width` proposals from each of `keep` states the `keep` best by values(rows) go on, until all are
    over.

    One beam a row. A beam stops as soon as one of its states was paid. Equal sayings from one state are
    merged.
    """
    beams, fronts = [Beam() for _ in rows], [[row] for row in rows]
    for depth in range(limits.turns):
        live = [i for i, front in enumerate(fronts) if front]
        if not live:
            break
        flat = [row for i in live for row in fronts[i]]
        made = iter(propose(policy, flat, width, seed=seed * 1009 + depth, limits=limits))
        new = {i: [c for _ in fronts[i] for c in {c.said: c for c in next(made)}.values()] for i in live}
        scores = iter(values([c.row for i in live for c in new[i]]))
        for i in live:
            beams[i].steps += width * len(fronts[i])
            ranked = sorted(((next(scores), c) for c in new[i]), key=lambda pair: -pair[0])
            beams[i].kept.append([c for _, c in ranked[:keep]])
            paid = any(c.row.episode.reward > 0 for c in beams[i].kept[-1])
            fronts[i] = [] if paid else [c.row for c in beams[i].kept[-1] if not c.over]
    return beams


Choose = Callable[[Sequence[Row], int], Sequence[Candidate]]  # (rows, turn) → the turn that each takes


def play(policy, env, seeds: Sequence[int], choose: Choose, limits: Limits = Limits()) -> list[Row]:
    """Episodes in which every turn is chosen by looking ahead; the rows at their ends."""
    rows = [start(policy, env, seed, group) for group, seed in enumerate(seeds)]
    for turn in range(limits.turns):
        live = [i for i, row in enumerate(rows) if not (row.episode.terminated or row.episode.truncated)]
        if not live:
            break
        for i, taken in zip(live, choose([rows[i] for i in live], turn), strict=True):
            rows[i] = taken.row
    return rows
