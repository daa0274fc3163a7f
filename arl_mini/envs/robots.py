"""Robots: two on one small floor, each with a place to go to; they move at once and must not collide."""

import itertools
import random
from collections import deque
from functools import cache

from .base import Env, Reply, act, malformed, parse_act, within

MOVES = {"stay": (0, 0), "left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
Cell = tuple[int, int]


class Robots(Env):
    """Multi-agent path finding for two: bring both robots to their places in as few turns as possible.

    The task tells how far each has to go, and where the second stands, seen from the first:
    ` first right 3 up 1 . second here . between left 1 down 2`. One command moves both: `left up` moves the first
    to the left and the second up; `stay` is a move too. Who would leave the floor stays. If both would stand on one
    cell, or change places, neither moves. Both must stand on their places at once. The reward comes at the end: 1 less
    0.1 for each turn beyond the shortest way, at least 0.1, and 0 where `limit` turns did not suffice.

    A sample: `<user> first right 1 . second up 1 . between right 3 down 3<bot><act> right up</act>` and the reward is 1.
    """

    words = " first second between here . stay left right up down no error say act"

    def __init__(self, size: int = 4, limit: int = 12):
        if not 2 <= size <= 9:
            raise ValueError(f"size must be 2 to 9, got {size}")
        self.size, self.limit = size, limit

    def reset(self, seed: int) -> str:
        rng = random.Random(f"robots {seed}")
        cells = list(itertools.product(range(self.size), repeat=2))
        while True:
            self.at, self.goals = tuple(rng.sample(cells, 2)), tuple(rng.sample(cells, 2))
            self.shortest = distances(self.size, self.goals)[self.at]
            if 2 <= self.shortest < self.limit:
                break
        self.turns = 0
        return self._look()

    def _look(self) -> str:
        (first, second), (here, there) = self.at, self.goals
        ways = {"first": (first, here), "second": (second, there), "between": (first, second)}
        return " .".join(f" {name}{_way(*ends)}" for name, ends in ways.items())

    def step(self, said: str) -> Reply:
        self.turns += 1
        return within(self._act(parse_act(said)), self.turns, self.limit)

    def _act(self, words: list[str] | None) -> Reply:
        if words is None:
            return malformed("say act")
        if len(words) != 2 or set(words) - set(MOVES):
            return Reply(" no", info={"illegal": True})
        before, self.at = self.at, moved(self.size, self.at, words)
        if self.at == self.goals:
            wasted = self.turns - self.shortest
            return Reply(
                reward=max(0.1, round(1 - 0.1 * wasted, 1)),
                done=True,
                info={"success": True, "wasted": wasted},
            )
        return Reply(
            self._look(), info={"illegal": True} if before == self.at and words != ["stay", "stay"] else {}
        )

    def expert(self) -> str:
        """A pair of moves on a shortest way."""
        left = distances(self.size, self.goals)
        return act(
            " ".join(
                min(itertools.product(MOVES, repeat=2), key=lambda m: left[moved(self.size, self.at, m)])
            )
        )

    def random(self, rng: random.Random) -> str:
        """Any moves."""
        return act(f"{rng.choice(list(MOVES))} {rng.choice(list(MOVES))}")

    def render_chat(self) -> str:
        return (
            "Two robots stand on a small floor; you are told how far each has to go, and where the second stands seen "
            "from the first. One command moves both, the first robot's move before the second's, out of stay, left, "
            "right, up, down: for example <act> left up </act>. They may not meet on a cell or change places. Be quick."
        )


def _way(start: Cell, end: Cell) -> str:
    """From a cell to another in words: ` right 3 up 1`, or ` here`."""
    (x, y), (a, b) = start, end
    across = f" {'right' if a > x else 'left'} {abs(a - x)}" if a != x else ""
    along = f" {'down' if b > y else 'up'} {abs(b - y)}" if b != y else ""
    return across + along or " here"


def moved(size: int, at: tuple[Cell, Cell], moves) -> tuple[Cell, Cell]:
    """Where two robots stand after their moves."""
    to = []
    for (x, y), move in zip(at, moves):
        there = (x + MOVES[move][0], y + MOVES[move][1])
        to.append(there if min(there) >= 0 and max(there) < size else (x, y))
    collide = to[0] == to[1] or (to[0] == at[1] and to[1] == at[0])
    return at if collide else (to[0], to[1])


@cache
def distances(size: int, goals: tuple[Cell, Cell]) -> dict[tuple[Cell, Cell], int]:
    """Fewest turns to both goals from each pair of cells; moves that succeed can be taken back, so it starts
    at the goals.
    """
    found, edge = {goals: 0}, deque([goals])
    while edge:
        at = edge.popleft()
        for moves in itertools.product(MOVES, repeat=2):
            to = moved(size, at, moves)
            if to not in found:
                found[to] = found[at] + 1
                edge.append(to)
    return found
