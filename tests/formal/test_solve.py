"""Optimal policies by three methods, and by trying all."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from arl_mini.formal import (
    FiniteMDP,
    best_by_enumeration,
    clocked,
    exact_value,
    objective,
    policy_iteration,
    q_learning,
    value_iteration,
    walk,
)
from tests.formal.worlds import CHECKED, SLOW_CHECKED, close, distribution, generator, mdps, seeds


@CHECKED
@given(mdps(st.none()), seeds)
def test_value_iteration_and_policy_iteration_agree_and_nothing_is_better(mdp, seed):
    by_values, by_policies = value_iteration(mdp), policy_iteration(mdp)
    assert close(by_values.values, by_policies.values)
    assert close(exact_value(mdp, by_values.policy), by_values.values)
    assert bool((exact_value(mdp, distribution(seed, *mdp.R.shape)) <= by_values.values + 1e-9).all())


@CHECKED
@given(mdps(st.integers(1, 4)))
def test_with_a_horizon_the_best_policy_has_a_clock(mdp):
    best = value_iteration(mdp)
    assert best.policy.shape == (mdp.horizon, *mdp.R.shape)
    assert close(exact_value(mdp, best.policy), best.values)
    told = clocked(mdp)
    assert close(told.start @ value_iteration(told).values, mdp.start @ best.values)


@SLOW_CHECKED
@given(mdps(st.none(), st.integers(1, 3)))
def test_trying_every_policy_finds_the_same(mdp):
    value, table = best_by_enumeration(mdp, torch.arange(len(mdp.states)))
    assert close(value, mdp.start @ value_iteration(mdp).values)
    assert close(objective(mdp, table), value)


def test_the_discount_at_which_the_far_prize_wins():
    """γ* = (small / large)^(1 / (far − near)), worked out by hand."""
    flip = (1 / 2) ** (1 / 3)
    for gamma, way in ((flip - 0.01, "left"), (flip + 0.01, "right")):
        mdp = walk(1, 4, 1.0, 2.0, gamma)
        first = value_iteration(mdp).policy[0].argmax()
        assert mdp.actions[first] == way


def test_q_learning_finds_the_optimum_from_samples():
    mdp = walk(1, 3, gamma=0.9, slip=0.1)
    best = value_iteration(mdp)
    run = q_learning(mdp, generator(0))
    errors = []
    for _, q in zip(range(1500), run):
        errors.append(float((q.amax(-1) - best.values).abs().max()))
    assert errors[-1] < 0.1 < errors[20]
    assert torch.equal(q.argmax(-1)[:-1], best.policy.argmax(-1)[:-1])
    again = q_learning(mdp, generator(0))
    assert torch.equal(next(again), next(q_learning(mdp, generator(0))))


def test_a_loop_that_pays_has_no_value():
    """γ = 1: 'stay' pays for ever, though 'leave' exists."""
    P = torch.zeros(2, 2, 2)
    P[0, 0, 0] = P[0, 1, 1] = P[1, :, 1] = 1
    mdp = FiniteMDP(P, [[1.0, 0], [0, 0]], [1, 0], 1.0, None, ("here", "out"), ("stay", "leave"))
    with pytest.raises(ValueError, match="state 'here' under action 'stay' still moves by 1"):
        value_iteration(mdp, sweeps=500)
    with pytest.raises(ValueError, match="in state 'here' action 'stay' leads to \\['here'\\]"):
        policy_iteration(mdp)
    assert float(value_iteration(replace(mdp, horizon=7)).values[0]) == 7


def test_refusals():
    with pytest.raises(ValueError, match="policies, at most 10 are tried"):
        best_by_enumeration(walk(3, 3), torch.arange(6), limit=10)
    cut = replace(walk(), horizon=3)
    with pytest.raises(ValueError, match="policy_iteration\\(clocked\\(mdp\\)\\)"):
        policy_iteration(cut)
    with pytest.raises(ValueError, match="q_learning\\(clocked\\(mdp\\)"):
        next(q_learning(cut, generator(0)))
    with pytest.raises(ValueError, match="clocked\\(\\) needs a horizon"):
        clocked(walk())
