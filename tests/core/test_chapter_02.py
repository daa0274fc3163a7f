"""What chapter 02 measures with: bias and variance, noisy labels, idle talk, verdicts against the truth."""

import random

import numpy as np
import pytest
import torch

from arl_mini import collate, envs, models, ops
from arl_mini.envs import check_env
from arl_mini.experiments import ch02, ch02_estimates
from arl_mini.models.score import score
from arl_mini.rollout import demonstrate


def test_bias_is_what_a_policy_gradient_sees():
    """Two actions of one state, tried 30 and 10 times: an offset of both is no bias, of one it is."""
    action = torch.tensor([1] * 30 + [2] * 10)
    state = torch.zeros(40, dtype=torch.long)
    returns = torch.randn(40, generator=torch.Generator().manual_seed(0))
    same = ch02_estimates.bias_and_variance(returns + 3.0, returns, state, action)
    assert same["bias"] == pytest.approx(0, abs=1e-5)
    expected = 0.75 * float(returns[:30].var()) + 0.25 * float(returns[30:].var())
    assert same["variance"] == pytest.approx(expected, rel=1e-5)
    off = ch02_estimates.bias_and_variance(returns + (action == 2), returns, state, action)
    assert off["bias"] == pytest.approx((0.75 * 0.25) ** 0.5, rel=1e-4)


def test_the_best_constant_scatters_least():
    """Against its neighbours, with the gradients of real tries."""
    policy = models.load("chain-atoms")
    batch = collate(ch02.tries(policy, ch02.HARD, 3, 8, 4))
    best = ch02_estimates.best_constant(policy, batch)
    rows = [batch.rows(torch.tensor([i])) for i in range(len(batch))]
    grads = torch.stack([ch02_estimates.gradient(policy, row, row.mask) for row in rows])

    def square(b: float) -> float:
        return float(((batch.reward - b)[:, None] * grads).square().sum(1).mean())

    assert square(best) < min(square(best - 0.02), square(best + 0.02))


def test_the_fitted_critic_beats_one_number():
    policy = models.load("chain-atoms")
    shown, others = (ch02.tries(policy, ch02.WORLD, seed, 256, 1) for seed in (0, 1))
    batch = collate(others)
    critic = ch02_estimates.fitted_critic(policy, shown, steps=40)
    off = (critic.values(batch).detach() - ops.per_token(batch.reward, batch.mask))[batch.mask > 0]
    paid = ops.per_token(batch.reward, batch.mask)[batch.mask > 0]
    assert float(off.square().mean()) < 0.8 * float(paid.var())


def test_the_noisy_judge_errs_in_one_of_four_and_less_at_the_extremes():
    world, rng = ch02.NoisyRewardModel((1, 3)), random.Random(0)
    said = []
    for seed in range(4000):
        world.reset(seed)
        reply = world.step(world.guess(rng))
        said.append((abs(reply.reward), (reply.reward > 0) == reply.info["success"]))
    sure = [right for c, right in said if c > 0.9]
    assert 0.73 < np.mean([right for _, right in said]) < 0.77
    assert np.mean(sure) > 0.93


def test_talk_behind_the_answer_changes_nothing():
    plain, rambling = envs.Chain((2, 3)), ch02.Rambling((2, 3))
    for seed in range(20):
        plain.reset(seed)
        rambling.reset(seed)
        for said in (plain.expert(), plain.guess(random.Random(seed)), " 3", "<think> 7</think>", ""):
            talked = said.replace("<end>", " = =<end>")
            assert rambling.step(talked).reward == plain.step(said).reward
            assert rambling.step(talked).info["talk"] == 2 * said.endswith("<end>")
    check_env(rambling)


def test_the_truth_about_verdicts_ends_where_the_expert_is_left():
    policy, spoken = models.load("chain-atoms"), []

    def speak(env) -> str:
        spoken.append(env.expert())
        return spoken[-1].replace("<think> ", "<think> 1", 1) if len(spoken) % 2 else spoken[-1]

    wrong, right = demonstrate(policy, ch02.SPARSE, [5, 5], speak)
    assert ch02.truth(right) == [1] * int(right.mask.sum())
    told = ch02.truth(wrong)
    assert told[0] == 1 and told[-1] == -1 and told == sorted(told, reverse=True)
    assert bool((score(policy, collate([right])).logp[0, right.mask > 0] < 0).all())
