"""Vectors instead of written steps: the layers run by hand are the model's own, and gradients go through
thoughts."""

import pytest
import torch

from arl_mini import collate, envs, models
from arl_mini.capabilities.reasoning_latent import (
    LatentThought,
    hard_token,
    parted,
    soft_token,
    states,
    think,
)
from arl_mini.models.score import score
from arl_mini.rollout import demonstrate

THREE = envs.Chain((3, 3))


@pytest.fixture(scope="module")
def policy():
    return models.load("chain-modes").requires_grad_(True)


@pytest.fixture(scope="module")
def shown(policy):
    return demonstrate(policy, THREE, range(16), lambda env: env.expert())


def test_layers_by_hand_are_the_models_own(policy, shown):
    rows = torch.tensor([e.tokens.tolist() for e in shown])
    assert torch.allclose(states(policy, policy.embed[rows]), policy.hidden(rows), atol=1e-4)


def test_without_thoughts_the_loss_is_that_of_imitation(policy, shown):
    before, after = parted(policy, shown, 0)
    batch = collate(shown)
    opened = (batch.mask.cumsum(1) == 1) & (batch.mask > 0)  # `<think>` itself stands before
    logp = score(policy, batch).logp * (batch.mask - opened.float())
    assert torch.allclose(
        LatentThought(policy, 0).loss(before, after), -logp.sum() / after.numel(), atol=1e-5
    )


def test_a_thought_is_the_last_state_at_the_length_of_an_embedding(policy, shown):
    before, _ = parted(policy, shown, 1)
    x = LatentThought(policy, 2).inputs(before)
    assert x.shape == (16, before.shape[1] + 2, policy.width)
    last = states(policy, x[:, :-2])[:, -1]
    assert torch.allclose(
        torch.cosine_similarity(x[:, -2], last * policy.norm, dim=1), torch.ones(16), atol=1e-5
    )
    longer = states(policy, x[:, :-1])[:, -1]
    assert torch.allclose(
        torch.cosine_similarity(x[:, -1], longer * policy.norm, dim=1), torch.ones(16), atol=1e-5
    )


def test_gradients_go_through_the_thoughts(policy, shown):
    """The gradient of the answer with respect to a digit of the task differs from that with the thoughts held
    fixed."""
    before, after = parted(policy, shown, 2)
    free = torch.autograd.grad(LatentThought(policy, 2).loss(before, after), policy.blocks[0].qkv)[0]
    held = LatentThought(policy, 2).inputs(before)[:, before.shape[1] :].detach()

    class Held(LatentThought):
        def inputs(self, before):
            return torch.cat((self.policy.embed[before], held), 1)

    fixed = torch.autograd.grad(Held(policy, 2).loss(before, after), policy.blocks[0].qkv)[0]
    assert float((free - fixed).norm()) > 0.01 * float(free.norm())


def test_fillers_are_the_same_word(policy, shown):
    before, _ = parted(policy, shown, 0)
    x = LatentThought(policy, 3, " =").inputs(before)
    assert torch.equal(x[:, -1], x[:, -2]) and torch.equal(x[:, -1], x[:1, -1].expand_as(x[:, -1]))


def test_dropped_steps_are_gone_and_the_rest_stays(policy, shown):
    _, whole = parted(policy, shown, 0)
    assert torch.equal(parted(policy, shown, 2)[1], whole[:, 2:]) and whole.shape[1] == 5
    with pytest.raises(ValueError, match="equally long"):
        parted(policy, demonstrate(policy, envs.Chain((1, 1)), range(4), lambda env: env.expert()), 0)
    with pytest.raises(ValueError, match="close with"):
        parted(policy, demonstrate(policy, THREE, range(4), lambda env: "<think> 1 2"), 0)


def test_a_sure_mixture_is_the_token(policy):
    sure = torch.nn.functional.one_hot(torch.tensor([5, 9]), len(policy.tokenizer)).float()
    assert torch.equal(soft_token(policy.embed, sure), policy.embed[[5, 9]])
    assert torch.equal(hard_token(torch.Generator())(policy.embed, sure), policy.embed[[5, 9]])


def test_thinking_in_tokens_or_mixtures_answers_right(policy, shown):
    before, after = parted(policy, shown, 2)
    for thinker in (soft_token, hard_token(torch.Generator().manual_seed(0))):
        said = think(policy, before, 2, thinker, temperature=0.5)
        assert float((said == after[:, 1:]).float().mean()) > 0.9
