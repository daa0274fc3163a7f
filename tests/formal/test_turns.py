"""Token level and turn level are two views of one world: same objective, same policy gradient."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from arl_mini.formal import (
    FinitePOMDP,
    Utterances,
    clocked,
    commands_of,
    compose,
    exact_gradient,
    exact_value,
    history_mdp,
    joint_objective,
    last_observation,
    objective,
    random_mdp,
    random_pomdp,
    rows,
    softmax_policy,
    speak,
    tiger,
    tmaze,
    token_level,
    turn_policy,
    value_iteration,
    walk,
)
from tests.formal.worlds import CHECKED, SLOW_CHECKED, close, gammas, generator, numbers, seeds, utterances


def both_levels(turns, said, logits):
    """Objective and gradient of token logits at token level, and through `turn_policy` at turn level."""
    tokens = token_level(turns, said)
    theta = logits.clone().requires_grad_()
    at_turns = objective(turns, turn_policy(softmax_policy(theta), said))
    return (
        (objective(tokens, softmax_policy(logits)), exact_gradient(tokens, logits)),
        (at_turns, torch.autograd.grad(at_turns, theta)[0]),
    )


@CHECKED
@given(utterances(st.integers(1, 3)), seeds, gammas, st.booleans())
def test_any_world_whose_actions_are_utterances(said, seed, gamma, cut):
    """A random MDP with one action an utterance, endless or cut after some turns."""
    turns = random_mdp(generator(seed), 2, len(said.complete), gamma, 2 if cut else None)
    turns = clocked(turns) if cut else turns
    logits = numbers(seed, len(turns.states) * len(said.prefixes), len(said.vocabulary))
    (j_tokens, g_tokens), (j_turns, g_turns) = both_levels(turns, said, logits)
    assert close(j_tokens, j_turns) and close(g_tokens, g_turns)


@SLOW_CHECKED
@given(utterances(), seeds, gammas, st.integers(1, 2))
def test_a_hidden_world_over_token_histories(said, seed, gamma, horizon):
    """A random POMDP that a language policy talks to: some utterances act, some are text, some act twice.

    The state of the token level is everything that was said and seen; the objective is also computed from
    outside, through the hidden states and the turn probabilities.
    """
    pomdp = random_pomdp(generator(seed), 2, 2, 2, gamma, horizon)
    meanings = [(), (0,), (1,), (0, 1)]
    spoken = speak(pomdp, said, lambda text, actions: meanings[sum(map(ord, text)) % 4])
    told = history_mdp(spoken)
    logits = numbers(seed, len(told.mdp.states) * len(said.prefixes), len(said.vocabulary))
    (j_tokens, g_tokens), (j_turns, g_turns) = both_levels(told.mdp, said, logits)
    assert close(j_tokens, j_turns) and close(g_tokens, g_turns)
    turn_level = turn_policy(softmax_policy(logits), said)
    row = {h: i for i, h in enumerate(told.histories)}
    assert close(j_tokens, joint_objective(spoken, lambda history: turn_level[row[history]]))


@CHECKED
@given(utterances(st.integers(1, 3)), seeds)
def test_utterances_are_complete_and_prefix_free(said, seed):
    policy = softmax_policy(numbers(seed, len(said.prefixes), len(said.vocabulary)))
    assert close(turn_policy(policy, said).sum(-1), torch.ones(1))
    assert len(set(said.complete)) == len(said.complete)
    for y in said.complete:
        assert not any(y[:j] in said.complete for j in range(len(y)))
        assert all(y[:j] in said.prefixes for j in range(len(y)))


@CHECKED
@given(utterances(), seeds, gammas)
def test_the_best_turns_are_found_token_by_token(said, seed, gamma):
    turns = random_mdp(generator(seed), 2, len(said.complete), gamma)
    tokens = value_iteration(token_level(turns, said)).values.view(len(turns.states), -1)
    assert close(tokens[:, 0], value_iteration(turns).values)


def test_discounting_tokens_is_another_objective():
    """Two turns, one twice as long, each pays 1: γ by tokens prefers the short one."""
    said = Utterances(("a", "b"), ("a",), 2)  # a | b a | b b
    mdp = random_mdp(generator(0), 1, 3, gamma=0.5)
    R = torch.zeros_like(mdp.R)
    R[0] = 1.0
    turns = replace(mdp, R=R)
    logits = numbers(1, 2 * len(said.prefixes), 2)
    by_turn, by_token = token_level(turns, said), token_level(turns, said, per_token=True)
    j_turns = objective(turns, turn_policy(softmax_policy(logits), said))
    assert close(objective(by_turn, softmax_policy(logits)), j_turns)
    assert objective(by_token, softmax_policy(logits)) < j_turns - 0.01
    best = value_iteration(by_token).policy[0]  # the first token of a turn
    assert best.argmax() == 0


def test_text_leaves_the_world_alone_but_not_the_history():
    """With <end> alone nothing ever moves; the policy after it may still differ, so text can be memory."""
    world = FinitePOMDP.seen(replace(walk(1, 2, gamma=1.0), horizon=3), ["x0", "x1", "end"])
    said = Utterances(
        ("hm", "<act> left </act>", "<act> right </act>"),
        ("hm", "<act> left </act>", "<act> right </act>"),
        1,
    )
    spoken = speak(world, said)
    assert torch.equal(spoken.mdp.P[:, 0], torch.eye(3).double()) and not bool(spoken.mdp.R[:, 0].any())
    assert torch.equal(spoken.mdp.P[:, 2], world.mdp.P[:, 1])
    told = history_mdp(spoken)
    histories = [h for h in told.histories if len(h) == 3 and h[1] == 0]
    assert histories == [(0, 0, 0)]  # said 'hm', sees the same, but the history is longer
    policy = torch.zeros(len(told.mdp.states), 3).double()
    policy[:, 0] = 1
    assert objective(told.mdp, policy) == 0
    shared, _ = rows(told.histories, last_observation)
    assert len(set(shared.tolist())) < len(told.histories)


def test_what_was_said_can_be_the_memory():
    """A policy that sees its last turn and observation solves the T-maze by noting the cue in what it says.

    Words that act alike, said on purpose: 'forward up' and 'forward down' both walk. The window shows one
    observation and the turn before it, which is enough, where the observation alone is not.
    """
    world = tmaze(2)
    words = ("north go", "south go", "up", "down")
    said = Utterances(words, words, 1)
    spoken = speak(world, said, lambda text, actions: {"up": (1,), "down": (2,)}.get(text, (0,)))
    told = history_mdp(spoken)
    shared, names = rows(told.histories, lambda history: history[-2:])
    table = torch.zeros(len(names), 4).double()
    looks = world.observations
    for i, name in enumerate(names):
        look, before = looks[name[-1]], words[name[0]] if len(name) == 2 else None
        if look == "junction":
            table[i, 2 if before == "north go" else 3] = 1
        else:
            north = look == "cue-up" or before == "north go"
            table[i, 0 if north else 1] = 1
    assert close(objective(told.mdp, table[shared]), 1.0)


def test_real_delimiters():
    said = Utterances(("hm", "<act>", "left", "right", "</act>"), ("</act>",), 4)
    mdp = replace(walk(1, 2, gamma=1.0), horizon=1)
    meanings = {said.tell(y): commands_of(said.tell(y), mdp.actions) for y in said.complete}
    assert meanings["<act> left </act>"] == (0,) and meanings["hm <act> right </act>"] == (1,)
    assert meanings["<act> <act> left </act>"] == () == meanings["hm hm hm hm"]
    assert meanings["left </act>"] == () == meanings["<act> hm </act>"]
    assert (
        sum(m == (0,) for m in meanings.values()) == 4
    )  # alone, and after one word of thought (three words)
    told = history_mdp(speak(FinitePOMDP.seen(mdp, list(mdp.states)), said))
    logits = numbers(0, len(told.mdp.states) * len(said.prefixes), 5)
    (j_tokens, g_tokens), (j_turns, g_turns) = both_levels(told.mdp, said, logits)
    assert close(j_tokens, j_turns) and close(g_tokens, g_turns)
    assert float(g_tokens.abs().max()) > 1e-6


@CHECKED
@given(seeds)
def test_after_several_actions_the_last_one_is_seen(seed):
    pomdp = random_pomdp(generator(seed), 2, 2, 2)
    said = Utterances(("both", "none"), ("both", "none"), 1)
    spoken = speak(pomdp, said, lambda text, actions: (0, 1) if text == "both" else ())
    assert torch.equal(spoken.O, torch.stack([pomdp.O[1], pomdp.O_start]))
    by_hand = pomdp.mdp.R[:, 0] + torch.stack([p @ pomdp.mdp.R[:, 1] for p in pomdp.mdp.P[:, 0]])
    assert close(spoken.mdp.R[:, 0], by_hand)


def test_nested_actions_are_carried_out_in_order():
    mdp = walk(2, 2, gamma=1.0)
    P, R = compose(mdp, (1, 0, 0))  # right, left, left
    assert P[mdp.states.index("x0"), mdp.states.index("x-1")] == 1 and R[mdp.states.index("x0")] == 0
    assert commands_of("<act> <act> right </act> <act> left </act> </act>", mdp.actions) == (1, 0)
    P, R = compose(mdp, (0, 0, 1))
    assert P[1, -1] == 1 and R[1] == 1.0  # out at the left after two; the third finds nobody there


def test_refusals():
    with pytest.raises(ValueError, match="hint: history_mdp"):
        token_level(tiger().mdp, Utterances(("a", "b"), ("a",), 2))
    with pytest.raises(ValueError, match="expected length ≥ 1"):
        Utterances(("a",), ("b",), 2)
    with pytest.raises(ValueError, match="token policy has shape"):
        turn_policy(torch.ones(3, 2), Utterances(("a", "b"), ("a",), 2))


def test_values_at_turn_ends_agree():
    said = Utterances(("a", "b"), ("a",), 2)
    turns = random_mdp(generator(4), 3, 3, 0.9)
    logits = numbers(5, 4 * 2, 2)
    tokens = exact_value(token_level(turns, said), softmax_policy(logits)).view(4, 2)[:, 0]
    assert close(tokens, exact_value(turns, turn_policy(softmax_policy(logits), said)))
