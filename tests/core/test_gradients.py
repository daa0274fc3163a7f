"""Gradients through the real model: any split into micro-batches, forced tokens, the sign on a bandit, ratio 1."""

import numpy as np
import pytest
import torch

from arl_mini.algorithms import DAPO, GRPO, GSPO, RLOO, Algorithm, DrGRPO, Reinforce
from arl_mini.batch import Episode, collate
from arl_mini.models import ValueHead, score
from arl_mini.rewards import at_end
from arl_mini.rollout import Limits, Sampling, rollout
from arl_mini.train import backward
from tests.core.stage import TOKENIZER, Talk, chatty, token

SIX = [
    Reinforce(gamma=0.9, baseline=True), RLOO(), GRPO(), GRPO(beta=0.1), DrGRPO(), DAPO(length=10, soft=5), GSPO(0.1, 0.1),
]  # fmt: skip
six = pytest.mark.parametrize("algorithm", SIX, ids=str)


def sampled(policy):
    """A ragged multi-turn batch in which the tries of a task are paid differently."""
    rows = rollout(policy, Talk(), range(3), 3, seed=1, sampling=Sampling(0.7), limits=Limits(6, 3, 60))
    batch = collate(rows)
    extra = torch.tensor([0.0, 1.0, 0.5] * 3)
    return batch.set(rewards=batch.rewards + at_end(extra, batch.mask))


def prepared(policy, algorithm: Algorithm, away: float = 0.3):
    """The same with all its columns; `away`: how far the old log-probabilities are, nats a token."""
    batch, made = sampled(policy), torch.Generator().manual_seed(0)
    noise = torch.randn(batch.mask.shape, generator=made)
    with torch.no_grad():
        exact = score(policy, batch).logp
    batch = batch.set(old_logp=(exact + away * noise) * batch.mask, ref_logp=(exact - 0.2 * noise) * batch.mask)
    batch = algorithm.reward(batch)
    return batch.set(advantages=algorithm.advantages(batch))


def gradient(policy, algorithm, batch, micro=0, critic=None):
    modules = [policy] if critic is None else [policy, critic]
    for module in modules:
        module.zero_grad()
    numbers = backward(policy, algorithm, batch, micro, critic)
    parts = [p.grad if p.grad is not None else torch.zeros_like(p) for m in modules for p in m.parameters()]
    return numbers, torch.cat([g.flatten() for g in parts])


@six
def test_every_split_into_micro_batches_gives_the_same_gradient(algorithm):
    """All sizes, divisors or not: within 1e-6 of the largest entry, in float32."""
    policy = chatty(1)
    batch = prepared(policy, algorithm)
    whole, wanted = gradient(policy, algorithm, batch)
    assert float(wanted.abs().max()) > 1e-3
    for micro in range(1, len(batch) + 2):
        numbers, got = gradient(policy, algorithm, batch, micro)
        assert float((got - wanted).abs().max() / wanted.abs().max()) < 1e-6, micro
        assert numbers == pytest.approx(whole, rel=1e-4, abs=1e-6)


class Critic(Algorithm):
    """A loss that needs values and log-probabilities, with a term that couples rows."""

    needs_critic = True

    def loss(self, scores, batch):
        error = ((scores.values - batch.rewards) * batch.mask).sum()
        return error**2 / 100 - (scores.logp * batch.mask).mean() * error.detach()


def test_micro_batches_with_a_critic():
    """The critic's gradient too; the loss squares a sum over all rows, so no row can be treated alone."""
    policy, critic = chatty(1), ValueHead(32)
    torch.nn.init.normal_(critic.linear.weight, generator=torch.Generator().manual_seed(1))
    batch = prepared(policy, Reinforce())
    _, wanted = gradient(policy, Critic(), batch, 0, critic)
    for micro in (1, 2, 4, 8):
        _, got = gradient(policy, Critic(), batch, micro, critic)
        assert float((got - wanted).abs().max() / wanted.abs().max()) < 1e-6


def test_a_micro_batch_without_a_sampled_token():
    policy = chatty(1)
    batch = prepared(policy, GRPO())
    mask = batch.mask.clone()
    mask[4:6] = 0
    batch = batch.set(mask=mask, advantages=batch.advantages * mask)
    _, wanted = gradient(policy, GRPO(), batch)
    _, got = gradient(policy, GRPO(), batch, 2)
    assert float((got - wanted).abs().max() / wanted.abs().max()) < 1e-6


# --- forced tokens ----------------------------------------------------------------------------------------


@six
def test_forced_tokens_get_no_gradient_from_the_loss(algorithm, monkeypatch):
    """The last hidden state before a forced token has gradient exactly 0; before a sampled one it has some."""
    policy, kept = chatty(1), []
    batch, hidden = prepared(policy, algorithm), policy.hidden

    def watched(tokens, lengths):
        kept.append(hidden(tokens, lengths))
        kept[-1].retain_grad()
        return kept[-1]

    monkeypatch.setattr(policy, "hidden", watched)
    backward(policy, algorithm, batch)
    grad = kept[0].grad.abs().sum(2)[:, :-1]
    sampled = batch.mask[:, 1:] > 0
    assert bool((grad[~sampled] == 0).all())
    assert float((grad[sampled] > 0).float().mean()) > 0.3  # the rest is clipped or has no advantage


@six
def test_what_forced_tokens_would_score_is_never_asked(algorithm, monkeypatch):
    """Only sampled tokens go through the vocabulary."""
    policy, asked = chatty(1), []
    batch, head = prepared(policy, algorithm), policy.head
    monkeypatch.setattr(policy, "head", lambda h: asked.append(len(h)) or head(h))
    backward(policy, algorithm, batch)
    assert asked == [int(batch.mask.sum())]


# --- a bandit ---------------------------------------------------------------------------------------------


def arm(text: str, reward: float) -> Episode:
    """` one` and then one sampled token with its reward."""
    mask = np.array([0, 0, 1], np.float32)
    tokens = np.array([token("<user>"), token(" one"), token(text)])
    return Episode(tokens, mask, np.array([-1, -1, 0]), 0 * mask, reward * mask, tokenizer=TOKENIZER)


@six
def test_the_sign_on_a_bandit(algorithm):
    """One small step down the loss makes the better arm likelier and the worse one rarer: off by one, it would not."""
    policy = chatty(1)
    batch = collate([arm(" red", 1.0), arm(" green", -1.0), arm(" red", 1.0), arm(" green", -1.0)])

    def chances():
        with torch.no_grad():
            return policy(batch.tokens[:1, :2])[0, -1].log_softmax(0)[[token(" red"), token(" green")]]

    with torch.no_grad():
        batch = batch.set(old_logp=score(policy, batch).logp, ref_logp=score(policy, batch).logp)
    before = chances()
    batch = algorithm.reward(batch)
    batch = batch.set(advantages=algorithm.advantages(batch))
    _, grad = gradient(policy, algorithm, batch)
    with torch.no_grad():
        for p in policy.parameters():
            p.sub_(1e-3 / grad.norm() * p.grad)
    red, green = (chances() - before).tolist()
    assert red > 1e-5 and green < -1e-5


@six
def test_on_policy_the_ratio_is_one_and_the_gradient_is_not_zero(algorithm):
    """At temperature 0.7 too: nothing is clipped at the first step, though a loss of 0 may look like a mistake."""
    policy = chatty(1)
    batch = sampled(policy)
    batch = algorithm.reward(batch.set(ref_logp=batch.old_logp))
    batch = batch.set(advantages=algorithm.advantages(batch))
    numbers, grad = gradient(policy, algorithm, batch)
    assert abs(numbers["kl"]) < 1e-9 and numbers["clip_share"] == 0 and float(grad.norm()) > 0.01
    if isinstance(algorithm, GRPO) and not isinstance(algorithm, (DAPO, DrGRPO)):
        assert abs(numbers["loss"]) < 1e-6
