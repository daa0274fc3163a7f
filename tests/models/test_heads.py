"""Value head and reward model: what they start at, what they read, whose trunk they train."""

import torch

from arl_mini.models import RewardModel, ValueHead
from tests.core.stage import chatty


def test_a_value_head_starts_at_zero_everywhere():
    head = ValueHead(8)
    assert head(torch.randn(5, 8, generator=torch.Generator().manual_seed(0))).tolist() == [0.0] * 5
    assert head(torch.zeros(0, 8)).shape == (0,)


def test_a_value_is_linear_in_the_hidden_state():
    head = ValueHead(3)
    with torch.no_grad():
        head.linear.weight.copy_(torch.tensor([[1.0, -2.0, 0.5]]))
        head.linear.bias.fill_(0.25)
    assert head(torch.tensor([[1.0, 1.0, 2.0], [0.0, 0.0, 0.0]])).tolist() == [0.25, 0.25]


@torch.no_grad()
def test_a_reward_model_reads_the_last_real_token():
    """Padding and neighbours change nothing; the last token does."""
    model = RewardModel(chatty(2))
    torch.nn.init.normal_(model.head.linear.weight, generator=torch.Generator().manual_seed(1))
    tokens, lengths = torch.tensor([[4, 60, 61, 62], [4, 60, 9, 9]]), torch.tensor([4, 2])
    reward = model(tokens, lengths)
    wanted = [model.head(model.trunk.hidden(tokens[i : i + 1, :n])[0, -1:]) for i, n in enumerate(lengths.tolist())]
    assert torch.allclose(reward, torch.cat(wanted), atol=1e-6)
    other = torch.tensor([[4, 60, 61, 63], [4, 60, 8, 7]])
    assert reward[1] == model(other, lengths)[1] and reward[0] != model(other, lengths)[0]


def test_a_reward_model_has_a_trunk_of_its_own():
    policy = chatty(2)
    model = RewardModel(policy)
    torch.nn.init.ones_(model.head.linear.weight)
    model(torch.tensor([[4, 60, 61]]), torch.tensor([3])).sum().backward()
    assert all(p.grad is None for p in policy.parameters())
    assert any(p.grad is not None and bool((p.grad != 0).any()) for p in model.trunk.parameters())
