"""Task, sub-task and no reward; shaping that keeps the optimum and bonuses that do not."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from .mdp import FiniteMDP, exact


@dataclass(frozen=True)
class Reward:
    """r_task where the task is completed, r_sub where a step makes progress, 0 otherwise.

    The survey does not say what a step pays that does both; tie 'task' (default): r_task alone, so that the
    sub-reward cannot change what completing is worth; 'sum': both.
    """

    task: float = 1.0
    sub: float = 0.0
    tie: Literal["task", "sum"] = "task"

    def __call__(self, completes, progresses) -> Tensor:
        """R_agent(s, a, s'), survey Eq. (9). Both arguments are bool tensors of one shape, (S, A, S) for a
        whole world."""
        completes, progresses = torch.as_tensor(completes), torch.as_tensor(progresses)
        if completes.shape != progresses.shape:
            raise ValueError(
                f"shapes must be equal, got {tuple(completes.shape)} and {tuple(progresses.shape)}"
            )
        sub = progresses if self.tie == "sum" else progresses & ~completes
        return self.task * completes.double() + self.sub * sub.double()


def expected(P: Tensor, r: Tensor) -> Tensor:
    """R(s, a) = Σ_s' P(s' | s, a) r(s, a, s'): a reward of transitions (S, A, S) as one of actions (S, A)."""
    return (exact(P) * exact(r)).sum(-1)


def with_reward(mdp: FiniteMDP, r: Tensor) -> FiniteMDP:
    """The same world paying r (S, A), or r (S, A, S) in expectation."""
    r = exact(r)
    return replace(mdp, R=r if r.dim() == 2 else expected(mdp.P, r))


def shape(mdp: FiniteMDP, potential: Tensor) -> FiniteMDP:
    """Pays γ Φ(s') − Φ(s) on top, Φ (S,): V changes by −Φ, the gradient and the best policy not at all.

    Φ must be 0 in terminal states, and the world must have no horizon: what Φ pays where an episode stops
    would be left over as a reward (use `clocked`, and Φ of the clocked states). Raises ValueError naming the
    state.
    Source: Ng, Harada and Russell 1999, Theorem 1; the terminal condition: Grześ 2017.
    """
    potential = exact(potential)
    if mdp.horizon is not None:
        raise ValueError(
            f"shape needs horizon None, got {mdp.horizon}; hint: shape(clocked(mdp), Φ of its states)"
        )
    bad = (potential != 0) & mdp.terminal
    if bool(bad.any()):
        s = int(bad.nonzero()[0])
        raise ValueError(f"Φ({mdp.states[s]!r}) is {potential[s].item()} in a terminal state, expected 0")
    extra = mdp.discounts * (mdp.P @ potential) - potential[:, None]
    extra[mdp.terminal] = 0.0
    return replace(mdp, R=mdp.R + extra)


def bonus(mdp: FiniteMDP, progresses: Tensor, sub: float) -> FiniteMDP:
    """Pays `sub` for every transition marked in progresses (S, A, S), each time: it may change the
    optimum."""
    paid = exact(progresses) * sub
    paid[mdp.terminal] = 0.0
    return replace(mdp, R=mdp.R + expected(mdp.P, paid))
