"""The best that can be done: value iteration, policy iteration, Q-learning, and trying every policy."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from .exact import action_value, backup, exact_value, objective
from .mdp import FiniteMDP


@dataclass(frozen=True, eq=False)
class Solution:
    """An optimal policy. values: (S,) at the first step; policy: one-hot (S, A), with horizon T (T, S, A)."""

    values: Tensor
    policy: Tensor
    sweeps: int  # backups of the whole table, or rounds of policy iteration


def greedy(q: Tensor) -> Tensor:
    """The policy that takes the first best action, one-hot, shaped like q (…, A)."""
    return torch.nn.functional.one_hot(q.argmax(-1), q.shape[-1]).to(q.dtype)


def value_iteration(mdp: FiniteMDP, tolerance: float = 1e-13, sweeps: int = 100_000) -> Solution:
    """V ← max_a [R + γ P V] until nothing moves by more than tolerance; exactly T times for a horizon T.

    Raises ValueError naming the state and action whose value still grows after so many sweeps.
    """
    values, policies = mdp.R.new_zeros(len(mdp.states)), []
    for sweep in range(1, (mdp.horizon or sweeps) + 1):
        q = backup(mdp, values)
        change = q.amax(-1) - values
        values = q.amax(-1)
        if mdp.horizon:
            policies.insert(0, greedy(q))
        elif change.abs().max() <= tolerance * max(1.0, float(values.abs().max())):
            return Solution(values, greedy(q), sweep)
    if mdp.horizon:
        return Solution(values, torch.stack(policies), mdp.horizon)
    s = int(change.abs().argmax())
    raise ValueError(
        f"value iteration: after {sweeps} sweeps the value of state {mdp.states[s]!r} under action "
        f"{mdp.actions[int(q[s].argmax())]!r} still moves by {change[s].item():.3g} a sweep; "
        "hint: with γ = 1 a loop that pays has no finite value; give a horizon or γ < 1"
    )


def policy_iteration(mdp: FiniteMDP, rounds: int = 1000) -> Solution:
    """Evaluate exactly, act greedily, repeat until the policy stays. For worlds without horizon.

    An action is only left for one that is better by more than rounding, so the rounds cannot cycle.
    """
    if mdp.horizon is not None:
        raise ValueError(
            f"policy_iteration needs horizon None, got {mdp.horizon}; hint: policy_iteration(clocked(mdp))"
        )
    policy = torch.full_like(mdp.R, 1 / mdp.R.shape[1])
    for number in range(1, rounds + 1):
        q = action_value(mdp, policy)
        now = (policy * q).sum(-1)
        better = q.amax(-1) > now + 1e-10 * now.abs().clamp(min=1)
        if number == 1:
            better = torch.ones_like(better)  # from a mixture to one action a state
        elif not bool(better.any()):
            return Solution(exact_value(mdp, policy), policy, number)
        policy = torch.where(better[:, None], greedy(q), policy)
    raise ValueError(f"policy_iteration did not settle in {rounds} rounds")


def q_learning(
    mdp: FiniteMDP,
    generator: torch.Generator,
    rate: Callable[[int], float] = lambda n: 1 / n**0.7,
    explore: float = 0.2,
    steps: int = 1000,
) -> Iterator[Tensor]:
    """Q(s, a) ← Q(s, a) + α (r + γ max_a' Q(s', a') − Q(s, a)); yields Q (S, A) after each episode.

    Never ends by itself. rate: α of the n-th visit of a pair. explore: chance of a random action. steps: an
    episode is cut after so many. The learner sees samples only, never P or R. For worlds without horizon (use
    `clocked` otherwise).
    """
    if mdp.horizon is not None:
        raise ValueError(
            f"q_learning needs horizon None, got {mdp.horizon}; hint: q_learning(clocked(mdp), …)"
        )
    S, A = mdp.R.shape
    q, visits = torch.zeros_like(mdp.R), torch.zeros(S, A, dtype=torch.long)
    while True:
        s = torch.multinomial(mdp.start, 1, generator=generator)[0]
        for _ in range(steps):
            if mdp.terminal[s]:
                break
            if torch.rand((), generator=generator) < explore:
                a = torch.randint(A, (), generator=generator)
            else:
                a = q[s].argmax()
            after, reward, _ = (x[0] for x in mdp.step(s[None], a[None], generator))
            visits[s, a] += 1
            target = reward + mdp.discounts[s, a] * q[after].max()
            q[s, a] += rate(int(visits[s, a])) * (target - q[s, a])
            s = after
        yield q.clone()


def best_by_enumeration(mdp: FiniteMDP, rows: Tensor, limit: int = 200_000) -> tuple[float, Tensor]:
    """Tries every deterministic table that gives states of the same row the same action.

    rows: (S,), what the policy can tell apart. Returns the best objective and its table (rows, A), one-hot.
    Raises ValueError beyond `limit` tables.
    """
    n, A = int(rows.max()) + 1, mdp.R.shape[1]
    if A**n > limit:
        raise ValueError(f"{A} actions in {n} rows are {A**n:.3g} policies, at most {limit} are tried")
    best, best_table = -float("inf"), None
    for choice in itertools.product(range(A), repeat=n):
        table = torch.nn.functional.one_hot(torch.tensor(choice), A).double()
        value = float(objective(mdp, table[rows]))
        if best_table is None or value > best:
            best, best_table = value, table
    return best, best_table
