"""Partially observed worlds: what is seen, what can be believed, and the same world told as an MDP.

A history is a tuple (o₀, a₀, o₁, …, o_t) of indices: everything the agent has seen and done. The end of an
episode is always seen (nobody asks for another action), so beliefs and histories are about worlds that still
run.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch
from torch import Tensor

from .check import check_observations
from .mdp import FiniteMDP, exact, numbered

History = tuple[int, ...]
MOST_ENTRIES = 30_000_000  # of an unrolled transition tensor: 240 MB


@dataclass(frozen=True, eq=False)
class FinitePOMDP:
    """An MDP whose state is not shown: ⟨S, A, P, R, γ, T⟩ and O. Survey Eq. (2).

    O[a, s', o] = P(o | a, s'): what is seen after a led to s'; (S, Z) where the action does not matter.
    O_start[s, o]: what is seen at the start; like O where O is (S, Z).
    The survey's o_t = O(s_t) is `seen(mdp, …)`: one certain observation a state. Survey §2.1 lets the policy
    act on o_t alone and leaves out T and ρ; here it may use the whole history, and the world has both.
    Raises ValueError naming action and state for rows that do not sum to one.
    """

    mdp: FiniteMDP
    O: Tensor  # noqa: E741  (A, S, Z)
    O_start: Tensor | None = None  # (S, Z)
    observations: tuple[str, ...] = ()

    def __post_init__(self):
        fix = object.__setattr__
        O = exact(self.O)  # noqa: E741
        if O.dim() == 2 and self.O_start is None:
            fix(self, "O_start", O)
        elif self.O_start is None:
            raise ValueError(
                "O depends on the action, so O_start (S, Z) must say what is seen before any action"
            )
        fix(self, "O", O.expand(len(self.mdp.actions), -1, -1) if O.dim() == 2 else O)
        fix(self, "O_start", exact(self.O_start))
        fix(self, "observations", numbered(self.observations, self.O.shape[-1], "o"))
        check_observations(self)

    @classmethod
    def seen(cls, mdp: FiniteMDP, looks: list[str]) -> "FinitePOMDP":
        """o_t = O(s_t): looks[s] is what state s shows; states of the same look cannot be told apart."""
        names = tuple(dict.fromkeys(looks))
        O = torch.zeros(len(mdp.states), len(names), dtype=torch.float64)  # noqa: E741
        for s, look in enumerate(looks):
            O[s, names.index(look)] = 1
        return cls(mdp, O, None, names)

    def tell(self, history: History) -> str:
        """A history in names: 'nothing listen hear-left'."""
        names = (self.observations, self.mdp.actions)
        return " ".join(names[k % 2][i] for k, i in enumerate(history))


def belief_start(pomdp: FinitePOMDP, observation: int) -> Tensor:
    """b₀(s) ∝ ρ(s) O_start(o | s), (S,)."""
    weight = pomdp.mdp.start * pomdp.O_start[:, observation] * ~pomdp.mdp.terminal
    return _normalised(weight, f"observation {pomdp.observations[observation]!r} at the start")


def belief_update(pomdp: FinitePOMDP, belief: Tensor, action: int, observation: int) -> Tensor:
    """b'(s') ∝ O(o | a, s') Σ_s P(s' | s, a) b(s), (S,): Bayes' rule, given that the episode goes on.

    Raises ValueError naming action and observation if they cannot follow.
    Source: the state estimator of Kaelbling, Littman and Cassandra 1998.
    """
    weight = (belief @ pomdp.mdp.P[:, action]) * pomdp.O[action, :, observation] * ~pomdp.mdp.terminal
    said = f"observation {pomdp.observations[observation]!r} after action {pomdp.mdp.actions[action]!r}"
    return _normalised(weight, said)


def _normalised(weight: Tensor, said: str) -> Tensor:
    total = weight.sum()
    if total <= 0:
        raise ValueError(f"{said} has probability 0 under this belief, so Bayes' rule has no answer")
    return weight / total


@dataclass(frozen=True, eq=False)
class Unrolled:
    """A POMDP told as an MDP over what the agent knows; state i is histories[i], the last state is `end`.

    beliefs: (N + 1, S), b(s) of each state (0 for `end`). Any function of exact.py and solve.py applies to
    `mdp`.
    """

    mdp: FiniteMDP
    histories: tuple[History, ...]
    beliefs: Tensor


def history_mdp(pomdp: FinitePOMDP, horizon: int | None = None) -> Unrolled:
    """The MDP whose states are all histories that can happen within the horizon (default: the world's
    own)."""
    return _unroll(pomdp, horizon, lambda history, belief: history)


def belief_mdp(pomdp: FinitePOMDP, horizon: int | None = None) -> Unrolled:
    """The same with histories of equal length and equal belief merged: the belief is all that matters.

    A state keeps the first of its histories. Beliefs count as equal up to 1e-12.
    """
    return _unroll(pomdp, horizon, lambda h, belief: (len(h), *(round(x, 12) + 0.0 for x in belief.tolist())))


def _unroll(pomdp: FinitePOMDP, horizon: int | None, key: Callable[[History, Tensor], Hashable]) -> Unrolled:
    mdp = pomdp.mdp
    T = horizon or mdp.horizon
    if T is None or isinstance(mdp.gamma, Tensor):
        raise ValueError(
            f"unrolling needs a horizon and one γ, got horizon {T} and γ {mdp.gamma}; hint: pass horizon=…"
        )
    histories, beliefs, index, moves = [], [], {}, []

    def node(history: History, weight: Tensor) -> int:
        belief = weight / weight.sum()
        name = key(history, belief)
        if name not in index:
            index[name] = len(histories)
            histories.append(history)
            beliefs.append(belief)
            _check_size(len(histories), len(mdp.actions), T)
        return index[name]

    first = (mdp.start * ~mdp.terminal)[:, None] * pomdp.O_start  # (S, Z)
    begun = [(node((o,), first[:, o]), float(first[:, o].sum())) for o in _possible(first)]
    for i, history in enumerate(histories):  # grows while it is walked
        if len(history) // 2 + 1 == T:
            continue  # the horizon: every action leads to the end
        for a in range(len(mdp.actions)):
            after = (beliefs[i] @ mdp.P[:, a] * ~mdp.terminal)[:, None] * pomdp.O[a]  # (S, Z)
            for o in _possible(after):
                moves.append((i, a, node((*history, a, o), after[:, o]), float(after[:, o].sum())))
    return _assembled(pomdp, histories, torch.stack(beliefs), begun, moves)


def _possible(weights: Tensor) -> list[int]:
    return (weights.sum(0) > 0).nonzero()[:, 0].tolist()


def _check_size(n: int, actions: int, horizon: int) -> None:
    if n * n * actions > MOST_ENTRIES:
        raise ValueError(
            f"more than {n} histories of {actions} actions within horizon {horizon}: too many to enumerate; "
            "hint: a shorter horizon, fewer observations, or belief_mdp, which merges equal beliefs"
        )


def _rest(p: Tensor) -> Tensor:
    """What is missing to 1, without the dust of rounding."""
    return torch.where(1 - p > 1e-14, 1 - p, torch.zeros_like(p))


def _assembled(pomdp: FinitePOMDP, histories, beliefs: Tensor, begun, moves) -> Unrolled:
    mdp, end = pomdp.mdp, len(histories)
    A = len(mdp.actions)
    P = torch.zeros(end + 1, A, end + 1, dtype=torch.float64)
    for i, a, j, p in moves:
        P[i, a, j] += p
    P[:, :, end] = _rest(P.sum(-1))  # what does not go on has ended
    start = torch.zeros(end + 1, dtype=torch.float64)
    for i, p in begun:
        start[i] += p
    start[end] = _rest(start.sum())
    beliefs = torch.cat([beliefs, beliefs.new_zeros(1, beliefs.shape[1])])
    told = [pomdp.tell(h) for h in histories]
    # Equal words from different histories are possible when names are shared, states must still differ.
    names = [name if told.count(name) == 1 else f"{name} #{i}" for i, name in enumerate(told)] + ["end"]
    return Unrolled(
        FiniteMDP(P, beliefs @ mdp.R, start, mdp.gamma, None, tuple(names), mdp.actions),
        tuple(histories),
        beliefs,
    )


def joint_objective(
    pomdp: FinitePOMDP, policy: Callable[[History], Tensor], horizon: int | None = None
) -> Tensor:
    """J(π) = Σ over hidden states, observations and actions of probability × discounted reward, a scalar.

    policy(history) gives π(· | history), (A,). No belief is formed: the joint weights w(history, s) =
    Pr(o₀, a₀, …, o_t, s_t = s) are carried along, so this checks `history_mdp` and `belief_mdp` from outside.
    Survey Eq. (11) for Eq. (2).
    """
    mdp = pomdp.mdp
    total = torch.zeros((), dtype=torch.float64)
    weights = {(o,): mdp.start * pomdp.O_start[:, o] for o in range(len(pomdp.observations))}
    for t in range(horizon or mdp.horizon):
        later = {}
        for history, weight in weights.items():
            weight = weight * ~mdp.terminal
            if not bool(weight.detach().any()):
                continue
            pi = policy(history)
            total = total + mdp.gamma**t * (pi * (weight @ mdp.R)).sum()
            for a in range(len(mdp.actions)):
                after = pi[a] * (weight @ mdp.P[:, a])
                for o in range(len(pomdp.observations)):
                    later[(*history, a, o)] = after * pomdp.O[a, :, o]
        weights = later
    return total
