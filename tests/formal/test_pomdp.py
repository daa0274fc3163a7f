"""Belief-MDP = POMDP, and what a policy loses that sees less than its history."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from arl_mini.formal import (
    FinitePOMDP,
    belief_mdp,
    belief_start,
    belief_update,
    best_by_enumeration,
    exact_gradient,
    history_mdp,
    joint_objective,
    last_observation,
    memory,
    objective,
    rows,
    softmax_policy,
    tiger,
    tmaze,
    value_iteration,
    walk,
    whole,
    window,
)
from tests.formal.worlds import CHECKED, SLOW_CHECKED, close, numbers, pomdps, seeds


def by_brute_force(pomdp, history):
    """P(s_t | history) by summing over every sequence of hidden states; sequences that ended do not count."""
    mdp, S = pomdp.mdp, len(pomdp.mdp.states)
    actions, seen = history[1::2], history[::2]
    weight = torch.zeros(S, dtype=torch.float64)
    for hidden in itertools.product((~mdp.terminal).nonzero()[:, 0].tolist(), repeat=len(seen)):
        p = mdp.start[hidden[0]] * pomdp.O_start[hidden[0], seen[0]]
        for t, a in enumerate(actions):
            p = p * mdp.P[hidden[t], a, hidden[t + 1]] * pomdp.O[a, hidden[t + 1], seen[t + 1]]
        weight[hidden[-1]] += p
    return weight / weight.sum()


@CHECKED
@given(pomdps())
def test_beliefs_are_bayes_rule(pomdp):
    told = history_mdp(pomdp)
    for history, belief in zip(told.histories, told.beliefs):
        updated = belief_start(pomdp, history[0])
        for a, o in zip(history[1::2], history[2::2]):
            updated = belief_update(pomdp, updated, a, o)
        assert close(updated, by_brute_force(pomdp, history))
        assert close(updated, belief)


@CHECKED
@given(pomdps(), seeds)
def test_histories_as_states_give_the_objective_and_gradient_of_the_hidden_world(pomdp, seed):
    told = history_mdp(pomdp)
    logits = numbers(seed, len(told.mdp.states), len(told.mdp.actions))
    row = {h: i for i, h in enumerate(told.histories)}
    theta = logits.clone().requires_grad_()
    outside = joint_objective(pomdp, lambda history: theta[row[history]].softmax(-1))
    assert close(objective(told.mdp, softmax_policy(logits)), outside)
    assert close(exact_gradient(told.mdp, logits), torch.autograd.grad(outside, theta)[0])


@CHECKED
@given(pomdps(), seeds)
def test_a_policy_over_beliefs_is_worth_the_same_over_histories(pomdp, seed):
    """π(a | b) = softmax(b W): in the belief-MDP, and outside through the hidden world."""
    W = numbers(seed, len(pomdp.mdp.states), len(pomdp.mdp.actions))
    told = belief_mdp(pomdp)

    def policy(history):
        belief = belief_start(pomdp, history[0])
        for a, o in zip(history[1::2], history[2::2]):
            belief = belief_update(pomdp, belief, a, o)
        return (belief @ W).softmax(-1)

    assert close(objective(told.mdp, (told.beliefs @ W).softmax(-1)), joint_objective(pomdp, policy))


@CHECKED
@given(pomdps())
def test_the_best_over_beliefs_is_the_best_over_histories(pomdp):
    histories, beliefs = history_mdp(pomdp), belief_mdp(pomdp)
    assert len(beliefs.histories) <= len(histories.histories)
    best = [told.mdp.start @ value_iteration(told.mdp).values for told in (histories, beliefs)]
    assert close(*best)


@SLOW_CHECKED
@given(pomdps(horizon=st.integers(1, 2)))
def test_no_policy_tree_beats_the_best_over_beliefs(pomdp):
    """Every deterministic policy over histories, each valued through the hidden world."""
    told = history_mdp(pomdp)
    row, A = {h: i for i, h in enumerate(told.histories)}, len(pomdp.mdp.actions)
    eye = torch.eye(A, dtype=torch.float64)
    values = [
        joint_objective(pomdp, lambda history, tree=tree: eye[tree[row[history]]])
        for tree in itertools.product(range(A), repeat=len(row))
    ]
    beliefs = belief_mdp(pomdp)
    assert close(max(values), beliefs.mdp.start @ value_iteration(beliefs.mdp).values)
    everything, _ = rows(told.histories, whole)
    assert close(best_by_enumeration(told.mdp, everything)[0], max(values))


@CHECKED
@given(pomdps(), seeds)
def test_seeing_less_is_a_policy_that_shares_rows(pomdp, seed):
    """The gradient of a shared row is the sum over its histories; the best with less is never better."""
    told = history_mdp(pomdp)
    best = float(told.mdp.start @ value_iteration(told.mdp).values)
    seen_best = -float("inf")
    for context in (last_observation, window(2)):
        shared, names = rows(told.histories, context)
        logits = numbers(seed, len(names), len(told.mdp.actions))
        own = exact_gradient(told.mdp, logits[shared])
        summed = torch.zeros_like(logits).index_add(0, shared, own)
        assert close(exact_gradient(told.mdp, logits, shared), summed)
        if len(names) <= 8:
            value, _ = best_by_enumeration(told.mdp, shared)
            assert seen_best <= value + 1e-10 and value <= best + 1e-10
            seen_best = value


def test_a_fully_seen_world_needs_no_memory():
    mdp = walk(1, 3, gamma=0.9, slip=0.2)
    told = history_mdp(FinitePOMDP.seen(mdp, list(mdp.states)), horizon=4)
    shared, _ = rows(told.histories, lambda h: (h[-1], len(h)))  # what is seen now, and the clock
    value, _ = best_by_enumeration(told.mdp, shared)
    assert close(value, told.mdp.start @ value_iteration(told.mdp).values)


def test_tiger_listening_pays_only_with_memory():
    """The values of Tiger by hand: without memory nobody dares to open, with it two equal signs are
    enough."""
    told = history_mdp(tiger(horizon=5))
    shared, _ = rows(told.histories, last_observation)
    memoryless, table = best_by_enumeration(told.mdp, shared)
    assert close(memoryless, -sum(0.95**t for t in range(5)))  # listens for ever
    assert table.argmax(-1).tolist() == [0, 0, 0]
    with_belief = float(told.mdp.start @ value_iteration(told.mdp).values)
    assert with_belief > memoryless + 1
    # The original, in which the game goes on: merged beliefs make 40 steps small.
    beliefs = belief_mdp(tiger(again=True, horizon=40))
    assert len(beliefs.histories) <= 40**2  # (clock, sign count): Σ (2t + 1)
    listening = -sum(0.95**t for t in range(40))
    assert float(beliefs.mdp.start @ value_iteration(beliefs.mdp).values) > listening + 1


@pytest.mark.parametrize("n", [1, 2])
def test_tmaze_memory_decides(n):
    told = history_mdp(tmaze(n))
    blind, _ = rows(told.histories, last_observation)
    assert close(best_by_enumeration(told.mdp, blind)[0], 0.0)
    cue_kept = memory(lambda o: o, lambda m, a, o: m)  # remembers the first observation
    keeps, _ = rows(told.histories, cue_kept)
    assert close(best_by_enumeration(told.mdp, keeps)[0], 1.0)
    for k in range(1, n + 2):
        seen, _ = rows(told.histories, window(k))
        value, _ = best_by_enumeration(told.mdp, seen)
        assert close(value, 1.0 if k > n else 0.0)  # the window must reach back to the cue


def test_what_each_context_keeps():
    history = (5, 0, 6, 1, 7)  # o₀ a₀ o₁ a₁ o₂
    assert whole(history) == window(3)(history) == window(9)(history) == history
    assert last_observation(history) == 7 and window(1)(history) == (7,) and window(2)(history) == (6, 1, 7)
    assert memory(lambda o: o, lambda m, a, o: m + 10 * a + o)(history) == (5 + 6 + 10 + 7, 7)
    with pytest.raises(ValueError, match="a window of 0 observations shows nothing"):
        window(0)
    assert rows([(5,), (6,), (5, 0, 6)], last_observation)[0].tolist() == [0, 1, 1, 0]


def test_impossible_observations_are_named():
    pomdp = tmaze(2)
    belief = belief_start(pomdp, pomdp.observations.index("cue-up"))
    with pytest.raises(ValueError, match="observation 'junction' after action 'forward' has probability 0"):
        belief_update(pomdp, belief, 0, pomdp.observations.index("junction"))
    with pytest.raises(ValueError, match="observation 'corridor' at the start"):
        belief_start(pomdp, pomdp.observations.index("corridor"))


def test_unrolling_needs_a_horizon_and_room():
    with pytest.raises(ValueError, match="needs a horizon"):
        history_mdp(tiger(horizon=None))
    with pytest.raises(ValueError, match="too many to enumerate"):
        history_mdp(tiger(again=True), horizon=12)


def test_histories_are_told_in_names():
    told = history_mdp(tiger(horizon=2))
    assert told.mdp.states[:2] == ("silence", "silence listen hear-left")
