"""What a finite world must be. Every error names the state and the action at fault."""

import torch
from torch import Tensor

TOLERANCE = 1e-9  # a row may miss 1 by rounding


def check_mdp(mdp) -> None:
    """Raises ValueError for tensors that are no decision process."""
    _check_shapes(mdp)
    _check_rows(mdp.P, "P", (mdp.states, mdp.actions))
    _check_rows(mdp.start, "start", ())
    bad = ~torch.isfinite(mdp.R)
    if bool(bad.any()):
        s, a = bad.nonzero()[0].tolist()
        raise ValueError(
            f"R[{mdp.states[s]!r}, {mdp.actions[a]!r}] is {mdp.R[s, a].item()}, expected a finite number; "
            "hint: forbid an action by a large negative reward or by a self-loop, not by nan or inf"
        )
    gamma = torch.as_tensor(mdp.gamma)
    if bool(((gamma < 0) | (gamma > 1) | gamma.isnan()).any()):
        raise ValueError(f"gamma is {mdp.gamma}, expected 0 ≤ γ ≤ 1")
    if mdp.horizon is not None and (not isinstance(mdp.horizon, int) or mdp.horizon < 1):
        raise ValueError(f"horizon is {mdp.horizon!r}, expected an int ≥ 1 or None (until a terminal state)")
    if mdp.horizon is None:
        check_ends(mdp, torch.ones_like(mdp.R))


def _check_shapes(mdp) -> None:
    if mdp.P.dim() != 3 or mdp.P.shape[0] != mdp.P.shape[2] or 0 in mdp.P.shape:
        raise ValueError(f"P has shape {tuple(mdp.P.shape)}, expected (S, A, S) with S, A ≥ 1")
    S, A, _ = mdp.P.shape
    wanted = {"R": (S, A), "start": (S,)}
    if isinstance(mdp.gamma, Tensor):
        wanted["gamma"] = (S, A)
    for name, shape in wanted.items():
        if tuple(getattr(mdp, name).shape) != shape:
            raise ValueError(
                f"{name} has shape {tuple(getattr(mdp, name).shape)}, expected {shape} to fit P {(S, A, S)}"
            )
    for name, n in (("states", S), ("actions", A)):
        names = getattr(mdp, name)
        if len(names) != n or len(set(names)) != n:
            raise ValueError(f"{name} are {names}, expected {n} different names")


def _check_rows(x: Tensor, name: str, axes: tuple) -> None:
    """Distributions along the last axis; axes: names along the others."""

    def at(index: list[int]) -> str:
        inside = ", ".join(repr(names[i]) for names, i in zip(axes, index))
        return f"{name}[{inside}]" if inside else name

    wrong = ~(x >= 0)
    if bool(wrong.any()):
        index = wrong.nonzero()[0].tolist()
        raise ValueError(f"{at(index)} has the entry {x[tuple(index)].item()}, expected probabilities ≥ 0")
    off = ~((x.sum(-1) - 1).abs() <= TOLERANCE)
    if bool(off.any()):
        index = off.nonzero()[0].tolist() if off.dim() else []
        raise ValueError(
            f"{at(index)} sums to {x.sum(-1)[tuple(index)].item():.12g}, expected 1; "
            "hint: a distribution over what comes next must be complete"
        )


def check_observations(pomdp) -> None:
    """Raises ValueError for observation tensors that do not fit the world."""
    S, A = pomdp.mdp.R.shape
    Z = pomdp.O.shape[-1]
    for name, shape in (("O", (A, S, Z)), ("O_start", (S, Z))):
        if tuple(getattr(pomdp, name).shape) != shape:
            raise ValueError(
                f"{name} has shape {tuple(getattr(pomdp, name).shape)}, expected {shape}"
                f" for {A} actions and {S} states"
            )
    if len(pomdp.observations) != Z or len(set(pomdp.observations)) != Z:
        raise ValueError(f"observations are {pomdp.observations}, expected {Z} different names")
    _check_rows(pomdp.O, "O", (pomdp.mdp.actions, pomdp.mdp.states))
    _check_rows(pomdp.O_start, "O_start", (pomdp.mdp.states,))


def check_policy(mdp, policy: Tensor) -> None:
    """Raises ValueError unless policy is (S, A), or (T, S, A) for a horizon T, with rows that sum to one."""
    shape = tuple(mdp.R.shape)
    timed = (mdp.horizon, *shape)
    if tuple(policy.shape) not in (shape, timed):
        hint = f" or {timed}" if mdp.horizon else ""
        raise ValueError(f"policy has shape {tuple(policy.shape)}, expected {shape}{hint}")
    axes = (mdp.states,) if policy.dim() == 2 else (range(policy.shape[0]), mdp.states)
    _check_rows(policy.detach(), "policy", axes)


def check_ends(mdp, policy: Tensor) -> None:
    """Raises ValueError naming a state and action if an undiscounted episode can go on for ever.

    policy (S, A): the actions that are taken (entries > 0). An episode ends where it reaches a terminal
    state, or fades where γ < 1.
    """
    taken = (policy > 0) & ~mdp.terminal[:, None]
    good = mdp.terminal | (taken & (mdp.discounts < 1)).any(1)
    moves = torch.einsum("sa,sat->st", taken.double(), (mdp.P > 0).double()) > 0
    while True:
        wider = good | (moves & good).any(1)
        if torch.equal(wider, good):
            break
        good = wider
    lost = (~good).nonzero()[:, 0].tolist()
    if lost:
        s = lost[0]
        a = int(taken[s].double().argmax())
        after = [mdp.states[i] for i in (mdp.P[s, a] > 0).nonzero()[:, 0].tolist()]
        raise ValueError(
            f"γ = 1 without horizon: in state {mdp.states[s]!r} action {mdp.actions[a]!r} leads to {after}, "
            "and no action taken from there on reaches a terminal state (absorbing, reward 0), so the return "
            "is not defined; hint: give a horizon, γ < 1, or a way to the end"
        )
