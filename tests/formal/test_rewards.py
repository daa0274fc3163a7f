"""Sub-rewards: Eq. (9), shaping that provably keeps the optimum, and a bonus that does not."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from arl_mini.formal import (
    Reward,
    bonus,
    clocked,
    exact_gradient,
    exact_value,
    expected,
    objective,
    shape,
    softmax_policy,
    value_iteration,
    walk,
    with_reward,
)
from tests.formal.worlds import CHECKED, close, distribution, mdps, numbers, seeds


@given(st.floats(-2, 2), st.floats(-2, 2), st.booleans(), st.booleans())
def test_eq_9_case_by_case(task, sub, completes, progresses):
    by_hand = task if completes else sub if progresses else 0.0
    assert float(Reward(task, sub)(completes, progresses)) == by_hand
    both = (task if completes else 0.0) + (sub if progresses else 0.0)
    assert float(Reward(task, sub, tie="sum")(completes, progresses)) == both


def test_eq_9_wants_equal_shapes():
    with pytest.raises(ValueError, match=r"shapes must be equal, got \(2,\) and \(3,\)"):
        Reward()(torch.ones(2).bool(), torch.ones(3).bool())


def test_a_reward_of_transitions_is_paid_in_expectation():
    mdp = walk(1, 2, gamma=1.0, slip=0.25)
    completes = torch.zeros(3, 2, 3).bool()
    completes[:2, :, 2] = True
    paid = with_reward(mdp, Reward(task=1.0)(completes, torch.zeros_like(completes)))
    # From x0 'left' leaves with 0.75, from x1 'right' does; the end itself pays nothing.
    assert paid.R.tolist() == [[0.75, 0.25], [0.25, 0.75], [0, 0]]
    assert close(expected(mdp.P, torch.ones(3, 2, 3)), torch.ones(3, 2))


def potential_of(mdp, seed):
    return numbers(seed, len(mdp.states)) * ~mdp.terminal


@CHECKED
@given(mdps(st.none()), seeds)
def test_potential_shaping_keeps_everything_but_the_values(mdp, seed):
    """V' = V − Φ, J' = J − ρ·Φ, ∇J' = ∇J for every policy, and the same best actions."""
    phi = potential_of(mdp, seed)
    shaped = shape(mdp, phi)
    logits = numbers(seed + 1, *mdp.R.shape)
    policy = softmax_policy(logits)
    assert close(exact_value(shaped, policy), exact_value(mdp, policy) - phi)
    assert close(objective(shaped, policy), objective(mdp, policy) - mdp.start @ phi)
    assert close(exact_gradient(shaped, logits), exact_gradient(mdp, logits))
    best = value_iteration(shaped).policy  # a best policy of the shaped world is one of the old world
    assert close(exact_value(mdp, best), value_iteration(mdp).values, 1e-8)


@CHECKED
@given(mdps(st.integers(1, 3)), seeds)
def test_with_a_horizon_the_potential_needs_the_clock(mdp, seed):
    told = clocked(mdp)
    phi = potential_of(told, seed)
    policy = distribution(seed, *told.R.shape)
    assert close(objective(shape(told, phi), policy), objective(told, policy) - told.start @ phi)
    with pytest.raises(ValueError, match="hint: shape\\(clocked\\(mdp\\)"):
        shape(mdp, potential_of(mdp, seed))


def test_ignoring_the_clock_changes_the_optimum():
    """What Φ pays at the cut stays: with two steps left, walking towards Φ beats the prize."""
    mdp = replace(walk(1, 4, small=1.0, large=0.0, gamma=1.0), horizon=2)
    phi = torch.tensor([0.0, 1.0, 2.0, 3.0, 0.0]).double()
    naive = replace(mdp, R=mdp.R + (mdp.P @ phi - phi[:, None]) * ~mdp.terminal[:, None])
    at_start = [value_iteration(world).policy[0, 0].argmax().item() for world in (mdp, naive)]
    assert [mdp.actions[a] for a in at_start] == ["left", "right"]


def test_a_potential_at_the_end_is_refused():
    with pytest.raises(ValueError, match=r"Φ\('end'\) is 1.0 in a terminal state, expected 0"):
        shape(walk(1, 2), torch.ones(3))


def test_a_bonus_for_progress_makes_a_loop_that_never_finishes():
    """Paid for every step to the right, the walker turns back before the prize, for ever."""
    mdp = walk(1, 3, small=1.0, large=2.0, gamma=0.95)
    progress = torch.zeros_like(mdp.P)
    for s in range(3):
        progress[s, 1, s + 1] = 1
    free, paid = value_iteration(mdp), value_iteration(bonus(mdp, progress[:, :, :], 0.5))
    names = [mdp.actions[a] for a in free.policy[:-1].argmax(-1)]
    assert names == ["right", "right", "right"]
    looping = [mdp.actions[a] for a in paid.policy[:-1].argmax(-1)]
    assert "left" in looping[1:]
    earned = exact_value(mdp, paid.policy)
    assert earned[0] == 0 and free.values[0] > 1.8  # the task itself is never done
    # The same hint as a potential does no harm.
    hint = shape(mdp, torch.tensor([0.0, 0.5, 1.0, 0.0]))
    assert close(exact_value(mdp, value_iteration(hint).policy), free.values)
