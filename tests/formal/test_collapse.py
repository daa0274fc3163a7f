"""Preference-based RFT is the one-step case of the same code: γ, T and bootstrapping drop out."""

from dataclasses import replace

import torch
from hypothesis import given
from hypothesis import strategies as st

from arl_mini import ops
from arl_mini.algorithms import RLOO, Reinforce
from arl_mini.batch import Batch
from arl_mini.formal import (
    PBRFT,
    FiniteMDP,
    Laboratory,
    bandit_objective,
    estimator,
    exact_gradient,
    exact_value,
    objective,
    occupancy,
    softmax_policy,
    value_iteration,
)
from arl_mini.models.score import Scores
from tests.formal.worlds import CHECKED, close, distribution, gammas, numbers, seeds

sizes = st.tuples(st.integers(1, 3), st.integers(1, 4))


def bandit_gradient(r, logits, start):
    """ρ(x) π(y | x) (r(x, y) − E[r | x]): the contextual bandit's gradient, written out."""
    policy = logits.softmax(-1)
    return start[:, None] * policy * (r - (policy * r).sum(-1, keepdim=True))


@CHECKED
@given(sizes, seeds, gammas, st.none() | st.integers(1, 5))
def test_one_step_collapses_to_the_bandit(size, seed, gamma, horizon):
    r, logits, start = numbers(seed, *size), numbers(seed + 1, *size), distribution(seed + 2, size[0])
    world = replace(PBRFT.from_rewards(r, start, gamma), horizon=horizon)
    table = torch.cat([logits, logits[:1]])  # the row of `end` is never used
    policy = softmax_policy(table)
    assert close(objective(world, policy), bandit_objective(r, logits.softmax(-1), start))
    gradient = exact_gradient(world, table)
    assert close(gradient[:-1], bandit_gradient(r, logits, start)) and close(
        gradient[-1], torch.zeros(size[1])
    )
    assert close(exact_value(world, policy)[:-1], (policy[:-1] * r).sum(-1))
    assert close(occupancy(world, policy)[:-1], start[:, None] * policy[:-1])
    assert close(value_iteration(world).values[:-1], r.amax(-1))


@CHECKED
@given(sizes, seeds, gammas)
def test_it_is_the_same_code_path(size, seed, gamma):
    """The subclass adds a check and names; a plain FiniteMDP with its tensors gives bit for bit the same."""
    world = PBRFT.from_rewards(numbers(seed, *size), gamma=gamma)
    plain = FiniteMDP(world.P, world.R, world.start, gamma)
    logits = numbers(seed + 1, *world.R.shape)
    assert torch.equal(exact_gradient(world, logits), exact_gradient(plain, logits))


def batch_of(rewards, logp, groups) -> tuple[Batch, Scores]:
    """One-token rows for `algorithms`, in double precision: a forced prompt, then the reply."""
    n = len(rewards)
    mask = torch.tensor([[0.0, 1.0]]).double().expand(n, 2)
    empty = torch.zeros(n, 2).double()
    wide = torch.stack([torch.zeros_like(logp), logp], 1)
    batch = Batch(
        empty.long(), mask, wide.detach(), torch.stack([torch.zeros_like(rewards), rewards], 1), empty.long(),
        groups, torch.full((n,), 2), torch.zeros(n).bool(), torch.zeros(n).bool(),
    )  # fmt: skip
    return batch, Scores(wide, empty)


@CHECKED
@given(sizes, seeds)
def test_reinforce_of_the_library_has_this_gradient_as_its_mean(size, seed):
    """Σ_y P(y) · (gradient of Reinforce's loss on y) = −∇J, every reply of every prompt one row."""
    r, logits, start = numbers(seed, *size), numbers(seed + 1, *size), distribution(seed + 2, size[0])
    theta = logits.clone().requires_grad_()
    batch, scores = batch_of(r.flatten(), theta.log_softmax(-1).flatten(), torch.arange(r.numel()))
    reinforce = Reinforce()
    batch = batch.set(advantages=reinforce.advantages(batch))
    chance = (start[:, None] * logits.softmax(-1)).flatten()
    mean = 0
    for i, p in enumerate(chance):
        row = batch.rows(torch.tensor([i]))
        loss = reinforce.loss(Scores(scores.logp[i : i + 1], scores.entropy[i : i + 1]), row)
        mean = mean + p * torch.autograd.grad(loss, theta, retain_graph=True)[0]
    assert close(-mean, bandit_gradient(r, logits, start))


@CHECKED
@given(sizes, seeds, st.integers(2, 3))
def test_leave_one_out_of_the_library_is_the_laboratorys(size, seed, group):
    """RLOO on sampled groups of PBRFT replies gives the very gradient that the laboratory's estimator
    gives."""
    world = PBRFT.from_rewards(numbers(seed, *size))
    lab = Laboratory(world, numbers(seed + 1, *world.R.shape))
    index = lab.sample_paths(torch.Generator().manual_seed(seed), 5, group)
    theta = lab.logits.clone().requires_grad_()
    chosen = index.flatten()
    logp = theta.log_softmax(-1)[lab.paths.states[chosen, 0], lab.paths.actions[chosen, 0]]
    batch, scores = batch_of(lab.paths.returns[chosen], logp, torch.arange(5).repeat_interleave(group))
    rloo = RLOO()
    loss = rloo.loss(scores, batch.set(advantages=rloo.advantages(batch)))
    gradient = torch.autograd.grad(loss, theta)[0]
    assert close(-gradient.flatten(), lab.estimate(estimator("leave one out"), index).mean(0))


@given(sizes, seeds, gammas, st.floats(0, 1))
def test_gae_of_one_step_is_reward_minus_value(size, seed, gamma, lam):
    r, v = numbers(seed, size[0], 1), numbers(seed + 1, size[0], 1)
    assert torch.equal(ops.gae(r, v, torch.ones_like(r), gamma, lam), r - v)
