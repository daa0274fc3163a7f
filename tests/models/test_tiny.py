"""TinyLM: shapes, padding, shared beginnings, the cached path, copies."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from arl_mini.models import SIZES, TinyConfig, TinyLM
from arl_mini.models.tiny import shared_beginnings
from arl_mini.rollout import Limits, rollout
from tests.core.drawn import CHECKED
from tests.core.stage import TOKENIZER, Echo, chatty

SHAPES = [
    dict(width=32, layers=2, heads=2, hidden=48), dict(width=8, layers=1, heads=1, hidden=4),
    dict(width=48, layers=3, heads=4, hidden=20), dict(width=64, layers=2, heads=16, hidden=16),
]  # fmt: skip
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)


def tiny(shape, seed=0, vocab=50) -> TinyLM:
    return TinyLM(TinyConfig(vocab, **shape), seed=seed)


@pytest.mark.parametrize("size, millions", [("nano", 0.10), ("micro", 0.70), ("mini", 4.8)])
def test_sizes_are_as_said(size, millions):
    policy = TinyLM.new(size, TOKENIZER)
    count = sum(p.numel() for p in policy.parameters()) - policy.embed.numel()
    assert count / 1e6 == pytest.approx(millions, rel=0.05)
    assert policy.width == SIZES[size]["width"] and policy.embed.shape[0] == len(TOKENIZER)


def test_unknown_size_and_impossible_width():
    with pytest.raises(ValueError, match="unknown size 'huge'; expected one of nano, micro, mini"):
        TinyLM.new("huge", TOKENIZER)
    with pytest.raises(ValueError, match=r"width 30 must be a multiple of 2·heads = 8"):
        TinyConfig(10, width=30, heads=4)


def test_a_seed_makes_a_model_and_leaves_the_global_generator_alone():
    state = torch.get_rng_state()
    one, again, other = tiny(SHAPES[0], 1), tiny(SHAPES[0], 1), tiny(SHAPES[0], 2)
    assert torch.equal(one.embed, again.embed) and not torch.equal(one.embed, other.embed)
    assert torch.equal(torch.get_rng_state(), state)


@shapes
@torch.no_grad()
def test_right_padding_and_neighbours_mean_nothing(shape):
    policy, made = tiny(shape), torch.Generator().manual_seed(3)
    tokens, lengths = torch.randint(0, 50, (5, 11), generator=made), torch.tensor([11, 3, 1, 7, 11])
    tokens[4, :6] = tokens[0, :6]
    logits = policy(tokens, lengths)
    for i, n in enumerate(lengths.tolist()):
        alone = policy(tokens[i : i + 1, :n])
        assert (logits[i, :n] - alone[0]).abs().max() < 1e-5


@shapes
@torch.no_grad()
def test_cached_is_uncached(shape):
    """Chunks of any size, rows of any length, some rows only, some left out: the logits of the plain forward pass."""
    policy, made = tiny(shape), torch.Generator().manual_seed(4)
    tokens = torch.randint(0, 50, (4, 200), generator=made)
    plain = policy(tokens)
    cache, at = policy.cache(4), torch.zeros(4, dtype=torch.long)
    for rows, counts in [
        (None, [5, 3, 1, 2]), (None, None), ([2, 0], [7, 1]), ([1], None), (None, [0, 2, 1, 0]), ([3, 1, 2], [90, 70, 1]),
        (None, None), ([3], [70]),
    ]:  # fmt: skip
        index = torch.arange(4) if rows is None else torch.tensor(rows)
        count = torch.ones(len(index), dtype=torch.long) if counts is None else torch.tensor(counts)
        part = torch.full((len(index), int(count.max())), 33)  # 33: padding, to be ignored
        for line, (i, n) in enumerate(zip(index.tolist(), count.tolist())):
            part[line, :n] = tokens[i, at[i] : at[i] + n]
        logits = policy.advance(part, None if counts is None else count, cache, None if rows is None else index)
        at[index] += count
        for line, i in enumerate(index.tolist()):
            if count[line]:
                assert (logits[line] - plain[i, at[i] - 1]).abs().max() < 1e-5
    assert cache.lengths.tolist() == at.tolist()


# --- equal beginnings -------------------------------------------------------------------------------------


@CHECKED
@given(st.data())
def test_shared_beginnings(data):
    """Positions have the same owner where, and only where, all that stands up to them is the same."""
    B, T = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    rows = data.draw(st.lists(st.lists(st.integers(0, 2), min_size=T, max_size=T), min_size=B, max_size=B))
    lengths = data.draw(st.lists(st.integers(1, T), min_size=B, max_size=B))
    place, owner = shared_beginnings(torch.tensor(rows), torch.tensor(lengths))
    place, owner = place.tolist(), owner.view(B, T).tolist()
    number = {}
    for i in range(B):
        for t in range(lengths[i]):
            assert number.setdefault(tuple(rows[i][: t + 1]), owner[i][t]) == owner[i][t]
    assert sorted(number.values()) == list(range(len(place)))  # no two beginnings share one, none is idle
    for prefix, n in number.items():
        i, t = divmod(place[n], T)
        assert t < lengths[i] and tuple(rows[i][: t + 1]) == prefix


def test_gradients_of_shared_beginnings_add_up():
    """Eight equal rows: the gradient is eight times that of one."""
    policy = chatty(0)
    tokens = torch.tensor([[4, 9, 70, 71]])

    def gradient(rows):
        loss = policy(tokens.expand(rows, 4).clone())[:, -1].log_softmax(-1)[:, 5].sum()
        return torch.autograd.grad(loss, policy.embed)[0]

    assert torch.allclose(gradient(8), 8 * gradient(1), atol=1e-4)


# --- copies -----------------------------------------------------------------------------------------------


def test_a_copy_is_independent_and_needs_no_path():
    policy = chatty(0)
    twin = policy.copy()
    assert twin.tokenizer is policy.tokenizer and twin.format is policy.format
    assert all(torch.equal(a, b) for a, b in zip(policy.parameters(), twin.parameters()))
    with torch.no_grad():
        for p in policy.parameters():
            p.add_(1.0)
    assert not any(torch.equal(a, b) for a, b in zip(policy.parameters(), twin.parameters()))


@torch.no_grad()
def test_positions_beyond_the_first_table_of_angles():
    """The table grows; what a longer row needs is not what a shorter one left behind."""
    policy, made = tiny(SHAPES[0]), torch.Generator().manual_seed(5)
    tokens = torch.randint(0, 50, (1, 700), generator=made)
    short = policy(tokens[:, :10])
    long = policy(tokens)
    assert (long[:, :10] - short).abs().max() < 1e-5
    assert (policy(tokens[:, :600])[0, -1] - long[0, 599]).abs().max() < 1e-5


def test_a_policy_in_double_precision_plays():
    policy = chatty(0).double()
    assert [e.turns > 0 for e in rollout(policy, Echo(), range(2), 2, limits=Limits(4, 2, 60))] == [True] * 4
