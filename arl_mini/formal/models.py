"""Small worlds: Tiger, the T-maze, a walk between two prizes, and random worlds for property tests."""

import torch

from .mdp import FiniteMDP, exact
from .pomdp import FinitePOMDP


def _table(states: list[str], actions: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    S, A = len(states), len(actions)
    return torch.zeros(S, A, S, dtype=torch.float64), torch.zeros(S, A, dtype=torch.float64)


def tiger(
    accuracy: float = 0.85,
    listen: float = -1.0,
    treasure: float = 10.0,
    eaten: float = -100.0,
    gamma: float = 0.95,
    horizon: int | None = 5,
    again: bool = False,
) -> FinitePOMDP:
    """A tiger behind one of two doors. Listening is right with `accuracy`; opening ends the episode.

    again: opening a door puts the tiger behind a random door and the game goes on, as in the original.
    Source: Kaelbling, Littman and Cassandra 1998; the default numbers are theirs but for horizon and γ.
    """
    states = ["tiger-left", "tiger-right"] + ([] if again else ["end"])
    actions = ["listen", "open-left", "open-right"]
    P, R = _table(states, actions)
    P[:, 0] = torch.eye(len(states))
    R[:2, 0] = listen
    R[:2, 1] = exact([eaten, treasure])
    R[:2, 2] = exact([treasure, eaten])
    for opened in (1, 2):
        P[:2, opened, :2] = 0.5 if again else 0.0
        if not again:
            P[:, opened, 2] = 1
    O = torch.zeros(3, len(states), 3, dtype=torch.float64)  # noqa: E741
    O[:, :, 0] = 1  # silence
    O[0, :2] = exact([[0.0, accuracy, 1 - accuracy], [0.0, 1 - accuracy, accuracy]])
    start = [0.5, 0.5] + ([] if again else [0.0])
    mdp = FiniteMDP(P, R, start, gamma, horizon, tuple(states), tuple(actions))
    return FinitePOMDP(mdp, O, O[1], ("silence", "hear-left", "hear-right"))


def tmaze(n: int = 5, gamma: float = 1.0, patient: bool = False, horizon: int | None = None) -> FinitePOMDP:
    """A cue at the start says where to turn at the end of a corridor of n cells; ±1 for the turn.

    States (cue, cell 0 … n); the cue shows in cell 0 only, the junction is cell n. Walking into a wall ends
    the episode with −1; patient: it stays where it is and pays nothing (then a policy without
    memory gains by refusing to walk after one of the cues). horizon: n + 1 by default: no step to waste.
    Source: after Bakker 2002, who pays other numbers.
    """
    if n < 1:
        raise ValueError(f"tmaze needs a corridor of n ≥ 1 cells, got {n}")
    cells = [(cue, cell) for cue in ("up", "down") for cell in range(n + 1)]
    states = [f"{cue}-{cell}" for cue, cell in cells] + ["end"]
    actions = ["forward", "up", "down"]
    P, R = _table(states, actions)
    end = len(cells)
    P[end, :, end] = 1
    for s, (cue, cell) in enumerate(cells):
        for a, action in enumerate(actions):
            wall = (cell == n) == (action == "forward")
            if wall and patient:
                P[s, a, s] = 1
            elif wall or cell == n:
                P[s, a, end] = 1
                R[s, a] = 1.0 if action == cue and not wall else -1.0
            else:
                P[s, a, s + 1] = 1
    start = torch.zeros(end + 1)
    start[0] = start[n + 1] = 0.5
    looks = [f"cue-{cue}" if cell == 0 else "junction" if cell == n else "corridor" for cue, cell in cells]
    mdp = FiniteMDP(P, R, start, gamma, horizon or n + 1, tuple(states), tuple(actions))
    return FinitePOMDP.seen(mdp, [*looks, "end"])


def walk(
    near: int = 1, far: int = 3, small: float = 1.0, large: float = 2.0, gamma: float = 0.9, slip: float = 0.0
) -> FiniteMDP:
    """A line with a small prize `near` steps to the left and a large one `far` steps to the right.

    slip: chance that a step goes the other way. Without it, going right is better iff
    γ > (small / large)^(1 / (far − near)).
    """
    if near < 1 or far < 1:
        raise ValueError(f"walk needs near, far ≥ 1, got {near} and {far}")
    places = [f"x{i}" for i in range(1 - near, far)]
    states = [*places, "end"]
    P, R = _table(states, ["left", "right"])
    end = len(places)
    P[end, :, end] = 1
    for s in range(end):
        for a in (0, 1):
            for way, chance in ((a, 1 - slip), (1 - a, slip)):
                after = s + 1 if way else s - 1 if s else end
                P[s, a, after] += chance
                R[s, a] += chance * (large if way and after == end else small if not way and s == 0 else 0.0)
    start = torch.zeros(end + 1)
    start[near - 1] = 1
    return FiniteMDP(P, R, start, gamma, None, tuple(states), ("left", "right"))


def random_mdp(
    generator: torch.Generator,
    states: int = 4,
    actions: int = 2,
    gamma: float = 1.0,
    horizon: int | None = None,
    ends: float = 0.2,
    sparse: float = 0.3,
) -> FiniteMDP:
    """Random transitions and rewards; a last state `end`, reached with chance ≥ ends from everywhere.

    sparse: share of the other transitions that are impossible.
    """
    if not 0 < ends < 1:
        raise ValueError(f"random_mdp needs 0 < ends < 1, got {ends}")
    weight = torch.rand(states, actions, states, generator=generator, dtype=torch.float64)
    weight = weight * (torch.rand(states, actions, states, generator=generator) >= sparse)
    weight[..., 0] += 1e-3  # no row is empty
    P, R = _table(["s"] * (states + 1), ["a"] * actions)
    P[:-1, :, :-1] = (1 - ends) * weight / weight.sum(-1, keepdim=True)
    P[:, :, -1] = 1 - P[:, :, :-1].sum(-1)
    R[:-1] = torch.randn(states, actions, generator=generator, dtype=torch.float64)
    start = torch.rand(states + 1, generator=generator, dtype=torch.float64) + 1e-3
    start[-1] = 0
    names = (*(f"s{i}" for i in range(states)), "end")
    return FiniteMDP(P, R, start / start.sum(), gamma, horizon, names)


def random_pomdp(
    generator: torch.Generator,
    states: int = 3,
    actions: int = 2,
    observations: int = 2,
    gamma: float = 1.0,
    horizon: int = 3,
    ends: float = 0.2,
) -> FinitePOMDP:
    """A `random_mdp` seen through random observations that depend on action and state."""
    mdp = random_mdp(generator, states, actions, gamma, horizon, ends)
    seen = torch.rand(actions + 1, states + 1, observations, generator=generator, dtype=torch.float64) + 1e-3
    seen = seen / seen.sum(-1, keepdim=True)
    return FinitePOMDP(mdp, seen[1:], seen[0])
