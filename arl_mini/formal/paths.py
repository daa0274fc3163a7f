"""Every way an episode can go, with its probability: expectations over episodes become sums."""

from dataclasses import dataclass

import torch
from torch import Tensor

from .mdp import FiniteMDP

MOST_PATHS = 300_000


@dataclass(frozen=True, eq=False)
class Paths:
    """All N episodes τ = (s₀, a₀, r₀, s₁, …) of at most T actions that the world allows.

    P_π(τ) = chance(τ) · Π_t π(a_t | s_t); chance is what the world adds: ρ(s₀) Π_t P(s_{t+1} | s_t, a_t).
    mask is 0 where the episode is over; states, actions and rewards are 0 there.
    """

    chance: Tensor  # (N,)
    states: Tensor  # (N, T) long
    actions: Tensor  # (N, T) long
    rewards: Tensor  # (N, T)
    weight: Tensor  # (N, T) γ^t: the discount of what happens at t
    mask: Tensor  # (N, T)

    @property
    def start(self) -> Tensor:
        """(N,) first state of each path."""
        return self.states[:, 0]

    @property
    def returns(self) -> Tensor:
        """G(τ) = Σ_t γ^t r_t, (N,)."""
        return (self.weight * self.rewards).sum(1)

    def logp(self, policy: Tensor) -> Tensor:
        """log π(a_t | s_t), (N, T), 0 where the episode is over. policy: (S, A)."""
        chosen = policy[self.states, self.actions]
        return torch.where(self.mask > 0, chosen, torch.ones_like(chosen)).log()

    def probability(self, policy: Tensor) -> Tensor:
        """P_π(τ), (N,); sums to 1."""
        return self.chance * self.logp(policy).sum(1).exp()


def enumerate_paths(mdp: FiniteMDP) -> Paths:
    """All paths of a world, up to its horizon or to the terminal states.

    Raises ValueError if there are too many; a world that can go round in circles needs a horizon.
    """
    state = ((mdp.start > 0) & ~mdp.terminal).nonzero()[:, 0]
    chance, weight = mdp.start[state], torch.ones(len(state), dtype=torch.float64)
    history = [torch.zeros(len(state), 0, dtype=torch.float64)] * 5
    done: list[tuple] = []
    t = 0
    while len(state):
        parent, action, after = (mdp.P[state] > 0).nonzero(as_tuple=True)
        here = state[parent]
        if len(parent) > MOST_PATHS or t > len(mdp.states) and mdp.horizon is None:
            raise ValueError(
                f"more than {MOST_PATHS} paths or a circle in the world; hint: clocked(mdp) with a horizon"
            )
        new = (here, action, mdp.R[here, action], weight[parent], torch.ones(len(parent)))
        history = [torch.cat([old[parent], x[:, None].double()], 1) for old, x in zip(history, new)]
        chance = chance[parent] * mdp.P[here, action, after]
        weight = weight[parent] * mdp.discounts[here, action]
        t += 1
        over = mdp.terminal[after] | (t == mdp.horizon)
        done.append((chance[over], [x[over] for x in history]))
        history, state, chance, weight = (
            [x[~over] for x in history],
            after[~over],
            chance[~over],
            weight[~over],
        )
    return _joined(done, t)


def _joined(done: list[tuple], T: int) -> Paths:
    """Paths of all lengths side by side, padded with 0 to T."""
    pad = torch.nn.functional.pad
    columns = [torch.cat([pad(h[i], (0, T - h[i].shape[1])) for _, h in done]) for i in range(5)]
    states, actions, rewards, weight, mask = columns
    return Paths(torch.cat([c for c, _ in done]), states.long(), actions.long(), rewards, weight, mask)


def path_objective(mdp: FiniteMDP, policy: Tensor) -> Tensor:
    """J(π) = Σ_τ P_π(τ) G(τ), a scalar: survey Eq. (11) read to the letter. policy: (S, A);
    differentiable."""
    paths = enumerate_paths(mdp)
    return paths.probability(policy) @ paths.returns
