"""The distribution sampled from: cuts enumerated, log-probabilities of what is left, frequencies, greed."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from arl_mini.batch import collate
from arl_mini.models import score
from arl_mini.rollout import Limits, Sampling, rollout
from tests.core.drawn import CHECKED, close, numbers
from tests.core.stage import TOKENIZER, Bandit, Talk, chatty

HOW = [Sampling(), Sampling(0.7), Sampling(2.5), Sampling(top_k=3), Sampling(top_p=0.8), Sampling(0.5, 4, 0.95)]


def left(logits: list[float], how: Sampling) -> list[float]:
    """The probabilities after each cut, by sorting: temperature, then the k likeliest, then the smallest set of mass p."""
    weight = [float(np.exp(x / how.temperature)) for x in logits]
    order = sorted(range(len(logits)), key=lambda i: -weight[i])
    keep = order[: how.top_k or None]
    mass, inside = 0.0, []
    total = sum(weight[i] for i in keep)
    for i in keep:
        if mass >= how.top_p:
            break
        inside.append(i)
        mass += weight[i] / total
    return [weight[i] / sum(weight[j] for j in inside) if i in inside else 0.0 for i in range(len(logits))]


@pytest.mark.parametrize("how", HOW, ids=str)
@CHECKED
@given(st.lists(numbers, min_size=1, max_size=12, unique=True))
def test_cut(how, logits):
    got = how.cut(torch.tensor([logits, logits])).softmax(1)
    wanted = left(logits, how)
    assert close(got[0], wanted, 1e-6) and torch.equal(got[0], got[1])
    assert [p > 0 for p in got[0].tolist()] == [p > 0 for p in wanted]


@pytest.mark.parametrize("how", HOW, ids=str)
def test_frequencies_and_log_probabilities(how):
    """20,000 draws against the enumerated distribution (chi-square), and each draw's log-probability against it."""
    made = np.random.default_rng(7)
    logits = made.normal(size=40) * 2
    p = np.array(left(logits.tolist(), how))
    uniform = 1 - made.random(20_000, np.float32)
    tokens, logp = how.draw(torch.tensor(logits, dtype=torch.float32).expand(20_000, -1), uniform)
    count = np.bincount(tokens, minlength=40)
    assert count[p == 0].sum() == 0
    assert np.abs(logp - np.log(p[tokens])).max() < 1e-5
    big = p * 20_000 >= 5
    got, wanted = (np.append(x[big], x[~big].sum()) for x in (count, p * 20_000))
    got, wanted = got[wanted > 0], wanted[wanted > 0]
    assert stats.chisquare(got, wanted).pvalue > 1e-3


@pytest.mark.parametrize("u", [1.0, 2.0**-24, 0.5])
def test_no_draw_falls_outside(u):
    """The ends of the unit interval, and tokens of probability 0 on both sides and in the middle."""
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]])
    tokens, logp = Sampling().draw(logits, np.array([u], np.float32))
    assert tokens[0] == (3 if u == 1.0 else 1) and logp[0] == pytest.approx(np.log(0.5))


def test_every_part_of_the_unit_interval_goes_to_its_token():
    p = torch.tensor([0.125, 0.5, 0.375])
    uniform = np.arange(1, 9, dtype=np.float32) / 8  # (0, 1] in eighths
    tokens, _ = Sampling().draw(p.log().expand(8, -1), uniform)
    assert tokens.tolist() == [0, 1, 1, 1, 1, 2, 2, 2]


def test_rows_of_the_engine_have_the_frequencies_of_the_policy():
    """One token each, 4,000 tries of one task."""
    policy, env, n = chatty(2), Bandit(), 4000
    rows = rollout(policy, env, [0], n, seed=3, sampling=Sampling(0.9), limits=Limits(turn_tokens=1))
    ids = rows[0].tokens[:-1].tolist()
    with torch.no_grad():
        p = (policy(torch.tensor([ids]))[0, -1] / 0.9).softmax(0).double().numpy()
    count = np.bincount([row.tokens[-1] for row in rows], minlength=len(p))
    big = p * n >= 5
    got, wanted = (np.append(x[big], x[~big].sum()) for x in (count, p / p.sum() * n))
    assert big.sum() > 20 and stats.chisquare(got, wanted).pvalue > 1e-3


def test_consecutive_tokens_are_drawn_independently():
    """The uniform numbers of a row: no two neighbours alike, no trend from row to row."""
    rows = rollout(chatty(2, sharp=0.0), Bandit(), [0], 400, limits=Limits(turn_tokens=2))
    first, second = (np.array([row.tokens[k] for row in rows if len(row) > 4]) for k in (3, 4))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.2 and abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 0.2


# --- greed ------------------------------------------------------------------------------------------------


def test_temperature_zero_takes_the_likeliest():
    policy, limits = chatty(2), Limits(8, 3, 80)
    one, other = (rollout(policy, Talk(), range(5), 2, seed=s, sampling=Sampling(0), limits=limits) for s in (0, 1))
    for a, b in zip(one, other):
        assert a.tokens.tolist() == b.tokens.tolist() and a.logp.tolist() == [0.0] * len(a)
        with torch.no_grad():
            best = policy(torch.tensor([a.tokens.tolist()]))[0].argmax(-1)
        sampled = np.flatnonzero(a.mask)
        assert a.tokens[sampled].tolist() == best[sampled - 1].tolist()


def test_greedy_episodes_are_no_batch_to_learn_from():
    rows = rollout(chatty(2), Talk(), range(2), sampling=Sampling(0), limits=Limits(4, 2))
    with pytest.raises(ValueError, match="temperature 0: a choice without chance has no log-probability"):
        collate(rows)


# --- cut distributions in training ------------------------------------------------------------------------


@pytest.mark.parametrize("how", [Sampling(top_k=3), Sampling(top_p=0.5)], ids=str)
def test_cut_distributions_cannot_enter_a_batch(how):
    """Their log-probabilities are those of what was left, so a ratio with full support would not be 1."""
    policy = chatty(2)
    rows = rollout(policy, Talk(), range(4), sampling=how, limits=Limits(6, 3, 80))
    with pytest.raises(ValueError, match="top-k or top-p.*which the ratio π_θ/π_old cannot use; hint: train with top_k=0"):
        collate(rows)
    for row in rows:
        row.full_support = True  # a lie, to see what the refusal protects from
    batch = collate(rows)
    with torch.no_grad():
        assert float((score(policy, batch).logp - batch.old_logp).exp().amin()) < 0.9


def test_temperatures_cannot_be_mixed_in_a_batch():
    rows = [r for t in (0.7, 1.0) for r in rollout(chatty(2), Talk(), [1], sampling=Sampling(t), limits=Limits(4, 2))]
    with pytest.raises(ValueError, match=r"several temperatures \[0.7, 1.0\]; expected one"):
        collate(rows)


@pytest.mark.parametrize("wrong", [dict(temperature=-1), dict(top_k=-1), dict(top_p=0), dict(top_p=1.1)])
def test_impossible_distributions_are_refused(wrong):
    with pytest.raises(ValueError, match="expected temperature ≥ 0, top_k ≥ 0, 0 < top_p ≤ 1; got"):
        Sampling(**wrong)


def test_top_k_beyond_the_vocabulary_is_everything():
    logits = torch.randn(2, 5, generator=torch.Generator().manual_seed(0))
    assert torch.equal(Sampling(top_k=99).cut(logits), Sampling().cut(logits))
    assert len(TOKENIZER) > 5
