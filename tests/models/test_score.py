"""Scores against hand cases and against one row at a time: the shift by one, padding, temperature, causality."""

import math

import pytest
import torch

from arl_mini.batch import Batch
from arl_mini.models import ValueHead, score
from tests.core.stage import TOKENIZER, chatty


class Table:
    """A policy with a hidden state that is the last token and a head that is a table of transitions."""

    def __init__(self, probability):
        self.logits = torch.tensor(probability).log()

    def hidden(self, tokens, lengths):
        return torch.nn.functional.one_hot(tokens, len(self.logits)).float()

    def head(self, hidden):
        return hidden @ self.logits


def batch(tokens, mask, lengths=None, temperature=1.0) -> Batch:
    tokens, mask = torch.tensor(tokens), torch.tensor(mask, dtype=torch.float32)
    B, T = tokens.shape
    zero, row = torch.zeros(B, T), torch.zeros(B, dtype=torch.long)
    lengths = torch.tensor(lengths) if lengths else torch.full((B,), T)
    return Batch(tokens, mask, zero, zero, zero.long(), row, lengths, row > 0, row > 0, temperature)


def test_four_tokens_by_hand():
    """log π(token at t | token at t − 1) stands at t: a shift either way would give other numbers."""
    P = [[0.7, 0.2, 0.1], [0.3, 0.3, 0.4], [0.25, 0.5, 0.25]]
    got = score(Table(P), batch([[0, 1, 2, 1]], [[0, 1, 1, 1]]))
    wanted = [0.0, math.log(P[0][1]), math.log(P[1][2]), math.log(P[2][1])]
    assert got.logp[0].tolist() == pytest.approx(wanted, abs=1e-6)
    entropy = [0.0] + [-sum(p * math.log(p) for p in P[i]) for i in (0, 1, 2)]
    assert got.entropy[0].tolist() == pytest.approx(entropy, abs=1e-6)


def test_forced_tokens_score_nothing_but_are_seen():
    P = [[0.7, 0.2, 0.1], [0.3, 0.3, 0.4], [0.25, 0.5, 0.25]]
    got = score(Table(P), batch([[0, 1, 2, 1]], [[0, 1, 0, 1]]))
    assert got.logp[0].tolist() == pytest.approx([0.0, math.log(0.2), 0.0, math.log(0.5)], abs=1e-6)


def test_temperature_divides_the_logits():
    P = [[0.7, 0.2, 0.1], [0.3, 0.3, 0.4], [0.25, 0.5, 0.25]]
    got = score(Table(P), batch([[0, 1]], [[0, 1]], temperature=0.5))
    assert float(got.logp[0, 1]) == pytest.approx(math.log(0.2**2 / (0.7**2 + 0.2**2 + 0.1**2)), abs=1e-6)


def test_a_first_token_is_nobodys_choice():
    with pytest.raises(ValueError, match="first token of a row has mask 1, but nothing stands before it; hint: prompts"):
        score(chatty(), batch([[1, 2]], [[1, 1]]))


def ragged(seed=0, temperature=1.0) -> Batch:
    made = torch.Generator().manual_seed(seed)
    lengths = [9, 4, 12, 2, 7, 9]
    tokens = torch.randint(1, len(TOKENIZER), (6, 12), generator=made)
    tokens[0, :5] = tokens[5, :5] = tokens[2, :5]  # equal beginnings
    mask = (torch.rand(6, 12, generator=made) < 0.6).float()
    mask[:, 0] = 0
    mask = mask * (torch.arange(12) < torch.tensor(lengths)[:, None])
    return batch(tokens.tolist(), mask.tolist(), lengths, temperature)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@torch.no_grad()
def test_rows_score_as_they_do_alone(temperature):
    """Against the plain forward pass of one unpadded row and a shift written out here."""
    policy, rows = chatty(4), ragged(temperature=temperature)
    got = score(policy, rows)
    for i, n in enumerate(rows.lengths.tolist()):
        logits = policy(rows.tokens[i : i + 1, :n])[0] / temperature
        logp = logits.double().log_softmax(-1)
        for t in range(12):
            if rows.mask[i, t] == 0:
                assert got.logp[i, t] == 0 and got.entropy[i, t] == 0
                continue
            assert float(got.logp[i, t] - logp[t - 1, rows.tokens[i, t]]) == pytest.approx(0, abs=1e-5)
            assert float(got.entropy[i, t] + (logp[t - 1].exp() * logp[t - 1]).sum()) == pytest.approx(0, abs=1e-4)


def test_padding_means_nothing():
    """Other tokens in the padding, more padding, other neighbours, another order: the same scores."""
    policy, rows = chatty(4), ragged()
    wanted = score(policy, rows).logp
    padded = rows.tokens.where(torch.arange(12) < rows.lengths[:, None], torch.tensor(77))
    assert torch.allclose(score(policy, rows.set(tokens=padded)).logp, wanted, atol=1e-6)
    wide = batch(
        torch.cat((padded, padded[:, :3]), 1).tolist(), torch.cat((rows.mask, torch.zeros(6, 3)), 1).tolist(),
        rows.lengths.tolist(),
    )  # fmt: skip
    assert torch.allclose(score(policy, wide).logp[:, :12], wanted, atol=1e-6)
    order = torch.tensor([3, 0, 2])
    assert torch.allclose(score(policy, rows.rows(order)).logp, wanted[order], atol=1e-6)


def test_a_score_depends_only_on_what_stands_before():
    policy, mask = chatty(4), [[0, 0, 0, 1, 0, 0]]
    one, later, before = (score(policy, batch([t], mask)).logp for t in (
        [5, 60, 61, 62, 63, 64], [5, 60, 61, 62, 9, 8], [5, 60, 59, 62, 63, 64]
    ))  # fmt: skip
    assert torch.equal(one, later) and not torch.equal(one, before)


@torch.no_grad()
def test_the_critic_sees_the_state_before_the_token():
    policy, rows = chatty(4), ragged()
    critic = ValueHead(policy.width)
    torch.nn.init.normal_(critic.linear.weight, generator=torch.Generator().manual_seed(1))
    got = score(policy, rows, critic).values
    for i, n in enumerate(rows.lengths.tolist()):
        value = critic(policy.hidden(rows.tokens[i : i + 1, :n])[0])
        for t in range(n):
            wanted = float(value[t - 1]) if rows.mask[i, t] else 0.0
            assert float(got[i, t]) == pytest.approx(wanted, abs=1e-5)
    assert score(policy, rows).values is None


def test_entropy_has_no_gradient_and_the_score_has():
    policy = chatty(4)
    got = score(policy, ragged())
    assert got.logp.requires_grad and not got.entropy.requires_grad


def test_a_batch_without_sampled_tokens_has_scores_zero():
    rows = ragged()
    assert score(chatty(4), rows.set(mask=torch.zeros_like(rows.mask))).logp.abs().sum() == 0
