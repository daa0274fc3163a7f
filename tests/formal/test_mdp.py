"""Worlds are checked, and every way of computing value, objective and gradient agrees."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from arl_mini.formal import (
    PBRFT,
    FiniteMDP,
    FinitePOMDP,
    action_value,
    advantage,
    clock_rows,
    clocked,
    exact_gradient,
    exact_value,
    objective,
    occupancy,
    path_objective,
    softmax_policy,
    theorem_gradient,
    walk,
)
from arl_mini.formal.paths import enumerate_paths
from tests.formal.worlds import CHECKED, close, distribution, generator, mdps, numbers, seeds


def world(**changes) -> dict:
    """The parts of a sound three-state world."""
    P = torch.zeros(3, 2, 3, dtype=torch.float64)
    P[0, 0, 1] = P[0, 1, 2] = P[1, :, 2] = P[2, :, 2] = 1
    parts = dict(
        P=P, R=torch.zeros(3, 2), start=[1, 0, 0], states=("hall", "cellar", "out"), actions=("down", "leave")
    )
    return parts | changes


def edited(name: str, index: tuple, value: float) -> dict:
    parts = world()
    parts[name] = torch.as_tensor(parts[name], dtype=torch.float64).clone()
    parts[name][index] = value
    return parts


def stuck(R: float = 0.0) -> dict:
    """The cellar has no way out."""
    parts = world()
    parts["P"][1] = 0
    parts["P"][1, :, 1] = 1
    parts["R"][1] = R
    return parts


@pytest.mark.parametrize(
    "parts, words",
    [
        (edited("P", (1, 0, 2), 0.9), ["P['cellar', 'down'] sums to 0.9", "expected 1", "hint"]),
        (edited("P", (0, 1, 0), -0.1), ["P['hall', 'leave'] has the entry -0.1", "≥ 0"]),
        (edited("P", (0, 1, 0), float("nan")), ["P['hall', 'leave'] has the entry nan"]),
        (edited("R", (1, 1), float("nan")), ["R['cellar', 'leave'] is nan", "finite"]),
        (edited("R", (0, 0), float("inf")), ["R['hall', 'down'] is inf"]),
        (edited("start", (0,), 0.5), ["start sums to 0.5"]),
        (
            stuck(R=-1.0),
            ["γ = 1", "state 'cellar' action 'down' leads to ['cellar']", "hint: give a horizon"],
        ),
        (world(gamma=1.5), ["gamma is 1.5", "0 ≤ γ ≤ 1"]),
        (world(gamma=torch.ones(2, 2)), ["gamma has shape (2, 2), expected (3, 2)"]),
        (world(horizon=0), ["horizon is 0"]),
        (world(R=torch.zeros(2, 2)), ["R has shape (2, 2), expected (3, 2)"]),
        (world(P=torch.zeros(3, 2)), ["P has shape (3, 2), expected (S, A, S)"]),
        (world(states=("a", "a", "b")), ["states are ('a', 'a', 'b'), expected 3 different names"]),
    ],
)
def test_bad_worlds_are_named(parts, words):
    with pytest.raises(ValueError) as error:
        FiniteMDP(**parts)
    for word in words:
        assert word in str(error.value)


def test_the_same_world_is_sound_with_a_horizon_or_a_discount():
    assert FiniteMDP(**stuck(-1.0), horizon=5).horizon == 5
    assert FiniteMDP(**stuck(-1.0), gamma=0.9).gamma == 0.9


def test_bad_observations_and_policies_are_named():
    mdp = FiniteMDP(**world(), horizon=2)
    O = torch.full((2, 3, 2), 0.5)
    O[1, 1, 0] = 0.4
    with pytest.raises(ValueError, match=r"O\['leave', 'cellar'\] sums to 0.9"):
        FinitePOMDP(mdp, O, torch.full((3, 2), 0.5))
    with pytest.raises(ValueError, match="O_start"):
        FinitePOMDP(mdp, torch.full((2, 3, 2), 0.5))
    with pytest.raises(ValueError, match=r"policy\['cellar'\] sums to 1.1"):
        objective(mdp, torch.tensor([[0.5, 0.5], [0.6, 0.5], [0.5, 0.5]]).double())
    with pytest.raises(ValueError, match=r"policy has shape \(2, 2\), expected \(3, 2\) or \(2, 3, 2\)"):
        objective(mdp, torch.full((2, 2), 0.5).double())


def test_a_policy_that_never_ends_is_named():
    left_right = walk(2, 2, gamma=1.0)
    circle = torch.tensor([[0, 1], [0, 1], [1, 0], [1, 0]]).double()
    with pytest.raises(ValueError, match=r"in state 'x-1' action 'right' leads to \['x0'\]"):
        exact_value(left_right, circle)
    assert close(exact_value(replace(left_right, gamma=0.5), circle), torch.zeros(4))


def test_terminal_states_are_absorbing_and_pay_nothing():
    assert FiniteMDP(**world()).terminal.tolist() == [False, False, True]
    assert FiniteMDP(**stuck(-1.0), gamma=0.9).terminal.tolist() == [False, False, True]
    assert FiniteMDP(**stuck(0.0)).terminal.tolist() == [False, True, True]


@CHECKED
@given(mdps(), seeds)
def test_objective_is_start_times_value_and_visits_times_reward(mdp, seed):
    policy = distribution(seed, *mdp.R.shape)
    visits = occupancy(mdp, policy)
    assert close(objective(mdp, policy), (visits * mdp.R).sum())
    assert bool((visits[mdp.terminal] == 0).all())
    undiscounted = occupancy(replace(mdp, gamma=1.0, horizon=None), policy)
    assert bool((undiscounted >= visits - 1e-9).all())


@CHECKED
@given(mdps(st.integers(1, 3)), seeds)
def test_objective_is_the_sum_over_all_paths(mdp, seed):
    policy = distribution(seed, *mdp.R.shape)
    assert close(path_objective(mdp, policy), objective(mdp, policy))
    assert close(enumerate_paths(mdp).probability(policy).sum(), 1.0)


@CHECKED
@given(mdps(), seeds)
def test_bellman_holds_and_advantages_have_mean_zero(mdp, seed):
    policy = distribution(seed, *mdp.R.shape)
    values, q = exact_value(mdp, policy), action_value(mdp, policy)
    assert close(values, (policy * q).sum(-1))
    assert close((policy * advantage(mdp, policy)).sum(-1), torch.zeros_like(values))
    if mdp.horizon is None:
        assert close(q, mdp.R + mdp.gamma * mdp.P @ values)


@CHECKED
@given(mdps(), seeds, st.booleans())
def test_gradient_by_autograd_by_theorem_and_by_differences(mdp, seed, tied):
    rows = torch.arange(len(mdp.states)) // 2 if tied else None
    logits = numbers(seed, len(mdp.states), len(mdp.actions))
    gradient = exact_gradient(mdp, logits, rows)
    assert close(gradient, theorem_gradient(mdp, logits, rows))
    way, h = numbers(seed + 7, *logits.shape), 1e-5
    up, down = (objective(mdp, softmax_policy(logits + s * h * way, rows)) for s in (1, -1))
    assert close((up - down) / (2 * h), (gradient * way).sum(), 1e-6)


@CHECKED
@given(mdps(st.integers(1, 4)), seeds)
def test_the_clock_in_the_state_is_the_horizon(mdp, seed):
    logits = numbers(seed, *mdp.R.shape)
    told = clocked(mdp)
    assert told.horizon is None
    assert close(
        objective(told, softmax_policy(logits, clock_rows(mdp))), objective(mdp, softmax_policy(logits))
    )
    assert close(exact_gradient(told, logits, clock_rows(mdp)), exact_gradient(mdp, logits))
    timed = distribution(seed, mdp.horizon, *mdp.R.shape)
    flat = torch.cat([timed.flatten(0, 1), timed[0, :1]])
    assert close(objective(told, flat), objective(mdp, timed))


def test_a_table_of_discounts_is_one_discount_when_all_are_equal():
    mdp = walk(2, 3, gamma=0.9, slip=0.2)
    table = replace(mdp, gamma=torch.full_like(mdp.R, 0.9))
    logits = numbers(3, *mdp.R.shape)
    assert close(exact_gradient(table, logits), exact_gradient(mdp, logits))
    assert close(occupancy(table, softmax_policy(logits)), occupancy(mdp, softmax_policy(logits)))


@CHECKED
@given(mdps(st.integers(1, 3)), seeds)
def test_sampled_episodes_have_the_enumerated_mean(mdp, seed):
    policy, n = distribution(seed, *mdp.R.shape), 4000
    g = generator(seed)
    state = torch.multinomial(mdp.start, n, True, generator=g)
    total, live = torch.zeros(n).double(), ~mdp.terminal[state]
    for t in range(mdp.horizon):
        action = torch.multinomial(policy[state], 1, generator=g)[:, 0]
        state, reward, done = mdp.step(state, action, g)
        total += mdp.gamma**t * reward * live
        live &= ~done
    error = total.std() / n**0.5
    assert abs(total.mean() - objective(mdp, policy)) <= 5 * error + 1e-12


def test_pbrft_refuses_a_second_step():
    with pytest.raises(ValueError, match="P\\['hall', 'down'\\] does not lead to 'out'"):
        PBRFT(**world())
