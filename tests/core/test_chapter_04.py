"""What chapter 04 adds for its experiments: copies that keep a hint, an expert that slips, counts."""

import re

import numpy as np
import pytest
import torch

from arl_mini import collate, evaluate, models, train
from arl_mini.experiments import ch04


def plan_of(algorithm, start, env, **changes):
    run = train(models.load(start), env, algorithm, **ch04.CHAIN | dict(prompts=4, tries=4) | changes)
    return run, algorithm.plan(run._sampler())


def test_copies_keep_the_hint_and_blank_only_what_is_behind_it():
    _, episodes = plan_of(ch04.HintPAPO(blank=1.0), "chain-hinted", ch04.HINTED)
    row = {e.pair: e for e in episodes if not e.blanked}
    copies = [e for e in episodes if e.blanked]
    assert len(copies) == len(row) == 16
    for copy in copies:
        seen = row[copy.pair].text
        assert copy.text == seen[: len("<user> 5 =")] + "<pad>" * 4 + seen[seen.index("<bot>") :]


def test_the_expert_slips_in_one_step_of_ten_and_so_does_its_clone():
    env, wrong, steps = replaced(0.1), 0, 0
    for seed in range(400):
        env.reset(seed)
        text = env.clone().expert()
        assert text == env.expert()
        said = [int(digit) for digit in re.findall(r"\d", text)]
        before = [env.digits[0], *said]
        steps += len(said)
        wrong += sum((a + d) % 10 != b for a, d, b in zip(before, env.digits[1:], said, strict=False))
    assert steps == 1600 and 0.07 < wrong / steps < 0.13


def replaced(noise):
    env = ch04.NoisyChain((4, 4), score="chain")
    env.noise = noise
    return env


def test_without_slips_it_is_the_expert_of_the_world():
    env, plain = replaced(0.0), ch04.LONG.clone()
    for seed in range(30):
        assert env.reset(seed) == plain.reset(seed) and env.expert() == plain.expert()


def test_sampled_tokens_of_dropped_groups_are_counted():
    run, kept = plan_of(ch04.CountedDAPO(), "chain-atoms", ch04.SHORT)
    assert run.memory["sampled"] > sum(int(e.mask.sum()) for e in kept)
    again, every = plan_of(ch04.CountedDAPO(rounds=1), "chain-atoms", ch04.LONG)
    assert again.memory["sampled"] == sum(int(e.mask.sum()) for e in every)  # none is useful: all stay


def test_a_policy_that_did_not_move_has_no_ratios():
    policy = models.load("chain-atoms")
    batch = collate(evaluate.episodes(policy, ch04.SHORT, 8, limits=ch04.LIMITS))
    assert all(abs(value) < 1e-6 for value in ch04.ratio_numbers(policy, batch).values())
    moved = ch04.ratio_numbers(policy, batch.set(old_logp=batch.old_logp - 0.5 * batch.mask))
    assert moved["extreme"] == 1 and moved["var_sequence"] == pytest.approx(0, abs=1e-6)


def test_one_reply_is_a_batch_of_one_row():
    reply = ch04.one_reply(5, -1.0)
    assert len(reply) == 1 and float(reply.mask.sum()) == 5 and float(reply.advantages.mean()) == -1
    assert np.allclose(reply.old_logp, 0)


def test_the_wrong_axis_compares_tries_of_different_tasks():
    _, episodes = plan_of(ch04.WrongAxis(tries=4), "chain-atoms", ch04.MIXED)
    batch = collate(episodes)
    rewards = batch.reward.view(4, 4)  # (tasks, tries)
    columns = ch04.WrongAxis(tries=4).advantages(batch).sum(1) / batch.mask.sum(1)
    assert torch.allclose(columns.view(4, 4).sum(0), torch.zeros(4), atol=1e-5)
    contrast = rewards.max(0).values > rewards.min(0).values
    assert bool(((columns.view(4, 4) != 0) == contrast).all())
