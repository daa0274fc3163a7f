"""Finite Markov decision processes with exact tensors, and PBRFT as the one with a single step.

S states, A actions. All tensors are float64. An absorbing state that pays nothing is terminal: the episode is
over there and no action is taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from .check import check_mdp


def exact(x) -> Tensor:
    """Any numbers as a float64 tensor."""
    return torch.as_tensor(x, dtype=torch.float64)


def numbered(names: Sequence[str], n: int, letter: str) -> tuple[str, ...]:
    """The names given, or s0, s1, … where there are none."""
    return tuple(names) or tuple(f"{letter}{i}" for i in range(n))


@dataclass(frozen=True, eq=False)
class FiniteMDP:
    """⟨S, A, P, R, ρ, γ, T⟩: the decision process that the agent acts in.

    P[s, a, s'] = P(s' | s, a), R[s, a] = expected reward, start = ρ(s₀).
    gamma: a float in [0, 1], or (S, A): the discount of what follows action a in state s.
    horizon: number of actions T after which the episode is cut; None: it runs until a terminal state.
    states, actions: names for messages and pictures; numbered where not given.

    Raises ValueError naming state and action for rows that do not sum to one, a reward that is not finite, or
    γ = 1 without horizon in a state from which no terminal state can be reached.
    Survey §2.1 lists ⟨S, O, A, P, R, T, γ⟩ without a start distribution; here it is `start`, O is in
    `FinitePOMDP`.
    """

    P: Tensor  # (S, A, S)
    R: Tensor  # (S, A)
    start: Tensor  # (S,)
    gamma: float | Tensor = 1.0
    horizon: int | None = None
    states: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()

    def __post_init__(self):
        fix = object.__setattr__
        for name in ("P", "R", "start"):
            fix(self, name, exact(getattr(self, name)))
        if isinstance(self.gamma, Tensor) and self.gamma.dim():
            fix(self, "gamma", exact(self.gamma))
        else:
            fix(self, "gamma", float(self.gamma))
        if self.P.dim() == 3:
            fix(self, "states", numbered(self.states, self.P.shape[0], "s"))
            fix(self, "actions", numbered(self.actions, self.P.shape[1], "a"))
        check_mdp(self)

    @cached_property
    def terminal(self) -> Tensor:
        """(S,) bool: absorbing under every action, and paying nothing."""
        stays = torch.diagonal(self.P, dim1=0, dim2=2).T == 1  # (S, A)
        return stays.all(1) & (self.R == 0).all(1)

    @cached_property
    def discounts(self) -> Tensor:
        """(S, A): γ of each state and action."""
        return exact(self.gamma).expand_as(self.R)

    def step(
        self, state: Tensor, action: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Draws s' ~ P(· | s, a) for n pairs; returns s', reward and done, each (n,). Survey Eq. (4)."""
        after = torch.multinomial(self.P[state, action], 1, generator=generator)[:, 0]
        return after, self.R[state, action], self.terminal[after]


@dataclass(frozen=True, eq=False)
class PBRFT(FiniteMDP):
    """Preference-based RFT: the decision process whose every action leads to the end. Survey Eq. (1).

    The last state is `end`; every other state is a prompt. Nothing else differs from FiniteMDP: the same
    functions compute its values, objective and gradient, and γ and T ≥ 1 drop out by themselves.
    """

    def __post_init__(self):
        super().__post_init__()
        leads = self.P[:, :, -1] == 1
        if not bool(leads.all()):
            s, a = (~leads).nonzero()[0].tolist()
            raise ValueError(
                f"P[{self.states[s]!r}, {self.actions[a]!r}] does not lead to {self.states[-1]!r} "
                "for certain; expected T = 1 as in survey Eq. (6); hint: take a FiniteMDP for several steps"
            )

    @classmethod
    def from_rewards(cls, r, start=None, gamma=1.0, prompts=(), replies=()) -> "PBRFT":
        """The process of a reward table r (N, A): P(end | s₀, a) = 1 for all. Survey Eq. (6).

        start: (N,) distribution over prompts, uniform where not given. r with one row is the survey's case.
        """
        r = torch.atleast_2d(exact(r))
        n, replies_n = r.shape
        P = torch.zeros(n + 1, replies_n, n + 1, dtype=torch.float64)
        P[:, :, n] = 1
        start = torch.full((n,), 1 / n, dtype=torch.float64) if start is None else exact(start)
        names = (*numbered(prompts, n, "prompt"), "end")
        R = torch.cat([r, torch.zeros(1, replies_n, dtype=torch.float64)])
        return cls(P, R, torch.cat([start, start.new_zeros(1)]), gamma, None, names, replies)

    @property
    def prompts(self) -> tuple[str, ...]:
        """S_trad = {prompt}: the states in which the policy is asked. Survey Eq. (3) has one."""
        return self.states[:-1]

    @property
    def r(self) -> Tensor:
        """R(s₀, a) = r(a), (N, A): one scalar for the whole reply. Survey Eq. (8)."""
        return self.R[:-1]


def clocked(mdp: FiniteMDP) -> FiniteMDP:
    """The same world with the clock in its state, so that the horizon becomes an ordinary terminal state.

    State t·S + s is s after t actions, the last state is `end`: T·S + 1 states. A stationary policy (S, A) of
    the old world is `policy[clock_rows(mdp)]` in the new one.
    """
    if mdp.horizon is None:
        raise ValueError("clocked() needs a horizon, got None; hint: dataclasses.replace(mdp, horizon=…)")
    S, A, T = *mdp.R.shape, mdp.horizon
    end = T * S
    P = torch.zeros(end + 1, A, end + 1, dtype=torch.float64)
    for t in range(T):
        here, there = slice(t * S, (t + 1) * S), slice((t + 1) * S, (t + 2) * S)
        if t + 1 < T:
            P[here, :, there] = mdp.P
        else:
            P[here, :, end] = 1
        # A terminal state goes on to the end at once: waiting there would only cost states.
        P[t * S : (t + 1) * S][mdp.terminal] = torch.nn.functional.one_hot(
            torch.tensor(end), end + 1
        ).double()
    P[end, :, end] = 1
    R = torch.cat([mdp.R.repeat(T, 1), mdp.R.new_zeros(1, A)])
    start = torch.cat([mdp.start, mdp.start.new_zeros(end + 1 - S)])
    gamma = mdp.gamma
    if isinstance(gamma, Tensor):
        gamma = torch.cat([gamma.repeat(T, 1), gamma.new_ones(1, A)])
    names = [f"{name} t={t}" for t in range(T) for name in mdp.states] + ["end"]
    return FiniteMDP(P, R, start, gamma, None, tuple(names), mdp.actions)


def clock_rows(mdp: FiniteMDP) -> Tensor:
    """(T·S + 1,): the state of the world without clock that each clocked state stands for (0 for `end`)."""
    S, T = len(mdp.states), mdp.horizon
    return torch.cat([torch.arange(S).repeat(T), torch.zeros(1, dtype=torch.long)])
