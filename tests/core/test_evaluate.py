"""Estimates and their intervals against enumeration, scipy and simulation; what is evaluated on."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from arl_mini import evaluate
from arl_mini.evaluate import HELD_OUT, bootstrap, pass_at_k, proportion
from arl_mini.rollout import Limits, Sampling, rollout
from tests.core.drawn import CHECKED
from tests.core.stage import Bandit, Parrot, Talk, chatty, script


@pytest.mark.parametrize("tries", [1, 2, 5, 7])
def test_pass_at_k_is_the_share_of_subsets_with_a_right_one(tries):
    for right in range(tries + 1):
        outcomes = [i < right for i in range(tries)]
        for k in range(1, tries + 1):
            subsets = list(itertools.combinations(outcomes, k))
            assert pass_at_k(right, tries, k) == pytest.approx(sum(map(any, subsets)) / len(subsets), abs=1e-12)


@CHECKED
@given(st.integers(1, 12), st.integers(1, 12), st.floats(0, 1))
def test_pass_at_k_is_unbiased(tries, k, p):
    """Over all outcomes of `tries` tries of chance p, its mean is 1 − (1 − p)^k."""
    k = min(k, tries)
    mean = sum(
        math.comb(tries, c) * p**c * (1 - p) ** (tries - c) * pass_at_k(c, tries, k) for c in range(tries + 1)
    )
    assert mean == pytest.approx(1 - (1 - p) ** k, abs=1e-9)


def test_pass_at_k_of_many_tries_does_not_overflow():
    assert 0 < pass_at_k(3, 5000, 100) < 0.1 and pass_at_k(0, 5000, 100) == 0.0 and pass_at_k(5000, 5000, 1) == 1.0


@pytest.mark.parametrize("right, tries, k", [(-1, 3, 1), (4, 3, 1), (1, 3, 0), (1, 3, 4), (0, 0, 0)])
def test_pass_at_k_refuses_what_is_impossible(right, tries, k):
    with pytest.raises(ValueError, match=f"expected 0 ≤ right ≤ tries and 1 ≤ k ≤ tries; got right {right}, tries {tries}, k {k}"):
        pass_at_k(right, tries, k)


@pytest.mark.parametrize("n", [1, 2, 10, 256])
def test_a_share_has_the_interval_of_wilson(n):
    for right in {0, 1, n // 3, n - 1, n}:
        got = proportion([True] * right + [False] * (n - right))
        wanted = stats.binomtest(right, n).proportion_ci(0.95, method="wilson")
        assert (got.low, got.high) == pytest.approx((wanted.low, wanted.high), abs=1e-6)
        assert got.mean == right / n and got.n == n and 0 <= got.low <= got.mean <= got.high <= 1


@pytest.mark.parametrize("p", [0.02, 0.3, 0.5, 0.97])
def test_the_interval_of_a_share_covers_it(p):
    """Exactly, over all outcomes of 100 tries: about 95 %."""
    chance = stats.binom(100, p).pmf(range(101))
    intervals = [proportion([True] * c + [False] * (100 - c)) for c in range(101)]
    assert 0.91 < sum(q for q, i in zip(chance, intervals) if i.low <= p <= i.high) < 0.99


def test_a_share_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="no values: a share of nothing is undefined"):
        proportion([])


@pytest.mark.parametrize("n", [2, 3, 5, 12, 31, 32, 60, 400])
def test_the_interval_of_a_mean_is_students(n):
    values = np.random.default_rng(n).normal(size=n)
    got = evaluate.mean(values)
    wanted = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (got.low, got.high) == pytest.approx((wanted.low, wanted.high), rel=1e-3)
    assert got.mean == pytest.approx(values.mean()) and got.n == n


@pytest.mark.parametrize("n", [3, 5])
def test_it_covers_the_mean_of_few_values(n):
    assert covered(n, interval=lambda values, i: evaluate.mean(values)) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("values", [[], [1.0]])
def test_a_mean_needs_two_values(values):
    with pytest.raises(ValueError, match=f"an interval needs at least 2 values, got {len(values)}"):
        evaluate.mean(values)


def resampled(values, i: int):
    return bootstrap(values, draws=300, seed=i)


def covered(n: int, times: int = 1500, interval=resampled) -> float:
    """How often the interval of n normal numbers holds their mean."""
    rng, hits = np.random.default_rng(n), 0
    for i in range(times):
        found = interval(rng.normal(size=n) + 3.0, i)
        hits += found.low <= 3.0 <= found.high
    return hits / times


@pytest.mark.parametrize("n, said", [(30, 0.935), (10, 0.90), (5, 0.82), (3, 0.73)])
def test_how_often_the_bootstrap_covers_the_mean(n, said):
    """Roughly 95 % from some 20 values on; as few as the docstring says below."""
    assert covered(n) == pytest.approx(said, abs=0.03)


def test_bootstrap_has_the_mean_inside_and_a_seed():
    values = [0.1, 0.4, 0.35, 0.8, 0.2]
    one, again, other = (bootstrap(values, seed=s) for s in (0, 0, 1))
    assert one == again != other and one.low < one.mean < one.high and one.mean == pytest.approx(0.37) and one.n == 5
    assert (other.low, other.high) == pytest.approx((one.low, one.high), abs=0.02)
    assert bootstrap([2.0, 2.0]).low == bootstrap([2.0, 2.0]).high == 2.0


@pytest.mark.parametrize("values", [[], [1.0]])
def test_bootstrap_needs_two_values(values):
    with pytest.raises(ValueError, match=f"a bootstrap needs at least 2 values, got {len(values)}"):
        bootstrap(values)


def test_an_interval_reads_well():
    assert str(proportion([True, False])) == "0.500 [0.095, 0.905] (n = 2)"


# --- calibration ------------------------------------------------------------------------------------------


def test_ece_of_a_hand_case():
    """Bins [0, ½) and [½, 1]: gaps |0.2 − 0| of one answer, |0.8 − ½| of two."""
    assert evaluate.ece([0.2, 0.6, 1.0], [False, True, False], bins=2) == pytest.approx((0.2 + 2 * 0.3) / 3)
    assert evaluate.ece([1.0, 0.0], [True, False]) == 0


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=30))
def test_ece_is_at_least_the_gap_of_all_and_at_most_that_of_each(told):
    said, right = map(np.array, zip(*told, strict=True))
    got = evaluate.ece(said, right)
    assert abs(said.mean() - right.mean()) - 1e-9 <= got <= np.abs(said - right).mean() + 1e-9


@pytest.mark.parametrize("said, right", [([], []), ([0.5], []), ([1.5], [True]), ([-0.1], [True])])
def test_ece_refuses_what_is_no_confidence(said, right):
    with pytest.raises(ValueError, match="confidences in"):
        evaluate.ece(said, right)


# --- episodes ---------------------------------------------------------------------------------------------


def test_evaluation_is_on_held_out_tasks():
    policy, how = chatty(1), dict(sampling=Sampling(0.5), limits=Limits(4, 2, 60), seed=3)
    rows = evaluate.episodes(policy, Talk(), tasks=5, tries=2, **how)
    assert [e.seed for e in rows] == [HELD_OUT + i for i in range(5) for _ in range(2)]
    again = rollout(policy, Talk(), range(HELD_OUT, HELD_OUT + 5), 2, **how)
    assert [e.tokens.tolist() for e in rows] == [e.tokens.tolist() for e in again]


@pytest.mark.parametrize("said, share", [(" red<end>", 1.0), (" green<end>", 0.0)])
def test_success_is_the_share_of_tasks_solved(said, share):
    got = evaluate.success(Parrot(script(said, prompt=3)), Bandit(), tasks=20)
    assert (got.mean, got.n) == (share, 20)
