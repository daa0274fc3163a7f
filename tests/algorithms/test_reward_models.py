"""Reward models: losses against public code, and fits that recover what they were shown."""

import math

import numpy as np
import pytest
import torch

from arl_mini import Limits, collate, envs, models, rewards, rollout
from arl_mini.algorithms.dpo import choose_pairs
from arl_mini.algorithms.preference import best_and_worst
from arl_mini.models import RewardModel
from tests.oracles.reading import cases


@pytest.mark.parametrize("case", cases("preferences", "bt-reward-loss/"))
def test_bradley_terry_oracle(case):
    chosen, rejected = case.tensor("chosen").requires_grad_(), case.tensor("rejected").requires_grad_()
    margin = case.tensor("margin") if "margin" in case.inputs else 0.0
    loss = rewards.bradley_terry(chosen, rejected, margin, case.hyper.get("center_coef") or 0.0)
    loss.backward()
    case.meets(loss, case.outputs["loss"])
    case.meets(chosen.grad, case.grads["chosen"])
    case.meets(rejected.grad, case.grads["rejected"])


@pytest.mark.parametrize("case", cases("preferences", "prm-loss/"))
def test_process_loss_oracle(case):
    """The peer takes a softmax over two of the vocabulary's logits: σ of their difference."""
    logits, (good, bad) = case.tensor("logits").requires_grad_(), case.hyper["reward_token_ids"]
    labels = case.tensor("labels")
    right = labels if case.hyper["kind"] == "soft" else (labels == good).double()
    right = right.masked_fill(labels == -100, torch.nan)
    loss = rewards.step_loss(logits[..., good] - logits[..., bad], right)
    loss.backward()
    case.meets(loss, case.outputs["loss"])
    case.meets(logits.grad, case.grads["logits"])


def test_equal_rewards_give_log_2_and_constants_do_not_matter():
    r = torch.tensor([0.3, -1.0])
    assert float(rewards.bradley_terry(r, r)) == pytest.approx(math.log(2))
    a, b = torch.tensor([0.3, 2.0]), torch.tensor([1.0, -1.0])
    assert float(rewards.bradley_terry(a + 5, b + 5)) == pytest.approx(float(rewards.bradley_terry(a, b)))
    far, near = (float(rewards.bradley_terry(a + c, b + c, centre=0.1)) for c in (5, 0))
    assert far > near
    assert math.isfinite(float(rewards.bradley_terry(torch.tensor([-1e4]), torch.tensor([1e4]))))


def test_steps_without_labels_and_data_without_rows_are_errors():
    with pytest.raises(ValueError, match="no step has a label"):
        rewards.step_loss(torch.zeros(1, 2), torch.full((1, 2), torch.nan))
    with pytest.raises(ValueError, match="no data"):
        next(rewards.fit_reward_model(RewardModel(models.load("taste-novice")), [], steps=1))


def agreement(model, pairs):
    """Share of pairs that the model orders as they are."""
    won, lost = (rewards.rewards_of(model, side) for side in zip(*pairs))
    return float((won > lost).float().mean())


def test_a_fit_to_annotators_orders_unseen_replies():
    env, limits = envs.Taste(noise=0.2), Limits(20, 1, 32)
    policy = models.load("taste-novice")
    tries = [rollout(policy, env, s, 2, seed=1, limits=limits) for s in (range(512), range(2000, 2128))]
    made = [choose_pairs(t, best_and_worst) for t in tries]
    model = RewardModel(policy)
    losses = list(rewards.fit_reward_model(model, made[0], steps=40, rows=32, lr=3e-3))
    assert losses[0] == pytest.approx(math.log(2), abs=1e-6)  # the head starts at 0
    assert sum(losses[-5:]) / 5 < 0.55
    assert agreement(model, made[1]) > 0.7
    still = models.load("taste-novice").parameters()  # the policy itself is not touched
    assert all(torch.equal(a, b) for a, b in zip(policy.parameters(), still))


def test_a_fit_to_steps_finds_wrong_ones():
    env, policy, limits = envs.Quest(3, 8), models.load("quest-novice"), Limits(8, 8, 112)

    def labelled(seeds, seed):
        """Each turn of the novice's tries, right where the world let it pass."""
        found = []
        for e in rollout(policy, env, seeds, 1, seed=seed, limits=limits):
            label = np.full(len(e), np.nan, np.float32)
            for k, info in enumerate(e.infos):
                at = np.flatnonzero((e.turn == k) & (e.mask > 0))
                label[at[-1]] = not (info.get("illegal") or info.get("malformed"))
            found.append((e, label))
        return found

    model = RewardModel(policy)
    losses = list(rewards.fit_process_model(model, labelled(range(200), 1), steps=30, rows=24))
    assert losses[0] == pytest.approx(math.log(2), abs=1e-6)
    unseen = labelled(range(3000, 3060), 2)
    logits = rewards.step_logits(model, collate([e for e, _ in unseen])).detach()
    scored = [(float(logits[i, t]), label[t]) for i, (_, label) in enumerate(unseen)
              for t in np.flatnonzero(~np.isnan(label))]  # fmt: skip
    right, wrong = ([z for z, y in scored if y == side] for side in (1, 0))
    assert len(wrong) > 50
    assert np.mean([a > b for a in right for b in wrong]) > 0.85  # chance: 0.5
    with pytest.raises(ValueError, match="expected a label for each of"):
        next(rewards.fit_process_model(model, [(unseen[0][0], np.zeros(2, np.float32))], steps=1))
