"""Exact values, visits, objective and gradient of a policy, differentiable from end to end.

policy: (S, A) probabilities, or (T, S, A) for a horizon T when the policy changes with the clock. rows: where
several states share one row of a policy table (S,) says which; `softmax_policy(logits, rows)` spreads the
table.
"""

import torch
from torch import Tensor

from .check import check_ends, check_policy
from .mdp import FiniteMDP, clock_rows, clocked, exact


def softmax_policy(logits: Tensor, rows: Tensor | None = None) -> Tensor:
    """π(a | s) = softmax(θ[row(s)]): a table of logits (rows, A) as a policy (S, A)."""
    policy = logits.softmax(-1)
    return policy if rows is None else policy[rows]


def backup(mdp: FiniteMDP, values: Tensor) -> Tensor:
    """Q(s, a) = R(s, a) + γ Σ_s' P(s' | s, a) V(s'), (S, A): one look ahead. Bellman's equation."""
    return mdp.R + mdp.discounts * (mdp.P @ values)


def exact_value(mdp: FiniteMDP, policy: Tensor, steps: int | None = None) -> Tensor:
    """V^π(s) = Σ_a π(a | s) [R(s, a) + γ Σ_s' P(s' | s, a) V^π(s')], (S,).

    With a horizon: T backups from V = 0; steps ≤ T gives the value with that many steps to go. Without: the
    linear system solved. Raises ValueError naming state and action where the policy never ends and γ = 1.
    """
    check_policy(mdp, policy)
    if mdp.horizon is None:
        return _solved(mdp, policy)
    values = mdp.R.new_zeros(len(mdp.states))
    for left in range(1, (mdp.horizon if steps is None else steps) + 1):
        values = (at(policy, mdp.horizon - left) * backup(mdp, values)).sum(-1)
    return values


def at(policy: Tensor, t: int) -> Tensor:
    """The policy (S, A) that is followed at time t."""
    return policy if policy.dim() == 2 else policy[t]


def _chain(mdp: FiniteMDP, policy: Tensor) -> Tensor:
    """γ P_π between the states in which somebody acts, (live, live)."""
    live = ~mdp.terminal
    moves = torch.einsum("sa,sat->st", (policy * mdp.discounts)[live], mdp.P[live])
    return moves[:, live]


def _solved(mdp: FiniteMDP, policy: Tensor) -> Tensor:
    check_ends(mdp, policy.detach())
    live = ~mdp.terminal
    paid = (policy * mdp.R).sum(-1)[live]
    eye = torch.eye(len(paid), dtype=paid.dtype)
    values = torch.linalg.solve(eye - _chain(mdp, policy), paid)
    return mdp.R.new_zeros(len(live)).masked_scatter(live, values)


def action_value(mdp: FiniteMDP, policy: Tensor) -> Tensor:
    """Q^π(s, a), (S, A), at the first step."""
    later = None if mdp.horizon is None else mdp.horizon - 1
    return backup(mdp, exact_value(mdp, policy, later))


def advantage(mdp: FiniteMDP, policy: Tensor) -> Tensor:
    """A^π(s, a) = Q^π(s, a) − V^π(s), (S, A), at the first step. What survey Eq. (14) estimates."""
    return action_value(mdp, policy) - exact_value(mdp, policy)[:, None]


def occupancy(mdp: FiniteMDP, policy: Tensor) -> Tensor:
    """d(s, a) = Σ_t γ^t Pr(s_t = s, a_t = a), (S, A); 0 in terminal states. J = Σ d(s, a) R(s, a)."""
    check_policy(mdp, policy)
    live = ~mdp.terminal
    if mdp.horizon is None:
        check_ends(mdp, policy.detach())
        chain = _chain(mdp, policy)
        visits = torch.linalg.solve(torch.eye(len(chain), dtype=chain.dtype) - chain.T, mdp.start[live])
        return mdp.R.new_zeros(len(live)).masked_scatter(live, visits)[:, None] * policy
    total, now = torch.zeros_like(mdp.R), mdp.start * live
    for t in range(mdp.horizon):
        acting = now[:, None] * at(policy, t)
        total = total + acting
        now = torch.einsum("sa,sat->t", acting * mdp.discounts, mdp.P) * live
    return total


def objective(mdp: FiniteMDP, policy: Tensor) -> Tensor:
    """J(π) = E_τ[Σ_t γ^t R(s_t, a_t)] = Σ_s ρ(s) V^π(s), a scalar. Survey Eq. (11)."""
    return mdp.start @ exact_value(mdp, policy)


def bandit_objective(r, policy: Tensor, start=None) -> Tensor:
    """J(π) = E_{a~π}[r(a)], a scalar: no time, no states. r, policy: (N, A), start: (N,). Survey Eq. (10)."""
    r = exact(r)
    start = torch.full(r.shape[:1], 1 / len(r), dtype=r.dtype) if start is None else start
    return (start[:, None] * policy * r).sum()


def exact_gradient(mdp: FiniteMDP, logits: Tensor, rows: Tensor | None = None) -> Tensor:
    """∇_θ J(softmax(θ)), shaped like the logits: autograd through `objective`."""
    logits = logits.detach().requires_grad_()
    return torch.autograd.grad(objective(mdp, softmax_policy(logits, rows)), logits)[0]


def theorem_gradient(mdp: FiniteMDP, logits: Tensor, rows: Tensor | None = None) -> Tensor:
    """The same by the policy gradient theorem: ∇_θ J = Σ_s d(s) Σ_a ∇_θ π(a | s) Q^π(s, a).

    For softmax tables that is d(s) π(a | s) A^π(s, a), summed over the states of a row. Nothing is
    differentiated.
    """
    if mdp.horizon is not None:
        rows = clock_rows(mdp) if rows is None else rows[clock_rows(mdp)]
        mdp = clocked(mdp)
    policy = softmax_policy(logits.detach(), rows)
    per_state = occupancy(mdp, policy) * advantage(mdp, policy)
    return per_state if rows is None else torch.zeros_like(logits).index_add(0, rows, per_state)
