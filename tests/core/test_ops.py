"""The shared formulas against loops written from the papers, on random ragged batches, and their properties."""

import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from arl_mini import ops
from tests.core import naive
from tests.core.drawn import CHECKED, batches, close, numbers

gammas = st.sampled_from([0.0, 0.5, 0.9, 1.0])


# --- reductions -------------------------------------------------------------------------------------------

REDUCTIONS = [
    (ops.token_mean, naive.token_mean),
    (ops.sequence_mean, naive.sequence_mean),
    (ops.sequence_sum, naive.sequence_sum),
    (lambda x, m: ops.constant_mean(x, m, 7), lambda x, m: naive.constant_mean(x, m, 7)),
]


@pytest.mark.parametrize("ours, loop", REDUCTIONS, ids=["token_mean", "sequence_mean", "sequence_sum", "constant_mean"])
@CHECKED
@given(batches())
def test_reduction(ours, loop, drawn):
    assert close(ours(drawn.t_x, drawn.t_mask), loop(drawn.x, drawn.mask))


@pytest.mark.parametrize("ours", [ours for ours, _ in REDUCTIONS])
@CHECKED
@given(batches())
def test_reduction_sees_no_forced_token(ours, drawn):
    """Value and gradient, whatever stands at mask 0."""
    other = torch.where(drawn.t_mask > 0, drawn.t_x, drawn.t_y)
    x = drawn.t_x.requires_grad_()
    value = ours(x, drawn.t_mask)
    assert close(ours(other, drawn.t_mask), value.detach())
    (grad,) = torch.autograd.grad(value, x)
    assert bool((grad[drawn.t_mask == 0] == 0).all())


def test_weight_of_each_token_under_every_reduction():
    """Rows of 1, 2 and 3 sampled tokens: which reduction gives which token how much."""
    mask = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 1, 1]], dtype=torch.float64)

    def weights(reduce):
        x = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
        (grad,) = torch.autograd.grad(reduce(x, mask), x)
        return [sorted(set(row[keep > 0].tolist())) for row, keep in zip(grad, mask)]

    assert weights(ops.token_mean) == [[1 / 6], [1 / 6], [1 / 6]]
    assert weights(ops.sequence_mean) == [[1 / 3], [pytest.approx(1 / 6)], [pytest.approx(1 / 9)]]
    assert weights(ops.sequence_sum) == [[1 / 3], [1 / 3], [1 / 3]]
    assert weights(lambda x, m: ops.constant_mean(x, m, 10)) == [[1 / 30], [1 / 30], [1 / 30]]


def test_rows_without_sampled_tokens_count_in_the_mean_of_rows():
    """TRL counts them, verl leaves them out; ours is the first reading, and the second is B/B' of it."""
    x, mask = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [[1, 1], [0, 0], [1, 0]]
    ours = ops.sequence_mean(torch.tensor(x), torch.tensor(mask).float())
    assert float(ours) == pytest.approx(naive.sequence_mean(x, mask)) == pytest.approx(6.5 / 3)
    assert float(ours) * 3 / 2 == pytest.approx(naive.sequence_mean_of_filled_rows(x, mask))


def test_a_batch_without_sampled_tokens_reduces_to_zero():
    x, mask = torch.ones(2, 3), torch.zeros(2, 3)
    for reduce, _ in REDUCTIONS:
        assert float(reduce(x, mask)) == 0.0


# --- ratios, clips, KL ------------------------------------------------------------------------------------


@CHECKED
@given(batches())
def test_ratios(drawn):
    wanted = [[math.exp(a - b) for a, b in zip(*rows)] for rows in zip(drawn.x, drawn.y)]
    assert close(ops.ratio(drawn.t_x, drawn.t_y), wanted)
    difference = [[a - b for a, b in zip(*rows)] for rows in zip(drawn.x, drawn.y)]
    sums, counts = naive.row_sums(difference, drawn.mask), [max(sum(m), 1) for m in drawn.mask]
    geometric = [[math.exp(s) ** (1 / n)] for s, n in zip(sums, counts)]
    assert close(ops.sequence_ratio(drawn.t_x, drawn.t_y, drawn.t_mask), geometric)


@CHECKED
@given(batches(), st.sampled_from([(0.2, 0.2), (0.2, 0.28), (3e-4, 4e-4), (1.0, 0.0)]))
def test_clipped_surrogate(drawn, widths):
    r = ops.ratio(drawn.t_x, drawn.t_y).requires_grad_()
    loss = ops.clipped_surrogate(r, drawn.t_y, *widths)
    each = [[(a, b) for a, b in zip(*rows)] for rows in zip(r.tolist(), drawn.y)]
    assert close(loss, [[naive.clipped(a, b, *widths) for a, b in row] for row in each])
    assume(all(abs(a - edge) > 1e-5 for row in each for a, _ in row for edge in (1 - widths[0], 1 + widths[1])))
    cut = ops.is_clipped(r, drawn.t_y, *widths)
    assert cut.tolist() == [[naive.is_clipped(a, b, *widths) for a, b in row] for row in each]
    (grad,) = torch.autograd.grad(loss.sum(), r)
    assert close(grad, torch.where(cut, 0.0, -drawn.t_y))


def test_the_clip_is_off_where_it_would_pull_back():
    """A bad token that became likelier, a good one that became rarer: the pessimistic bound keeps their gradient."""
    ratio = torch.tensor([[2.0, 0.5]], requires_grad=True)
    loss = ops.clipped_surrogate(ratio, torch.tensor([[-1.0, 1.0]]), 0.2, 0.2)
    assert loss.tolist() == [[2.0, -0.5]]
    (grad,) = torch.autograd.grad(loss.sum(), ratio)
    assert grad.tolist() == [[1.0, -1.0]]


@CHECKED
@given(batches())
def test_kl_estimators(drawn):
    for ours, loop in ((ops.kl_k1, naive.k1), (ops.kl_k2, naive.k2), (ops.kl_k3, naive.k3)):
        wanted = [[loop(a, b) for a, b in zip(*rows)] for rows in zip(drawn.x, drawn.y)]
        assert close(ours(drawn.t_x, drawn.t_y), wanted)
    assert bool((ops.kl_k3(drawn.t_x, drawn.t_y) >= 0).all())
    assert bool((ops.kl_k3(drawn.t_x, drawn.t_x) == 0).all())


@CHECKED
@given(st.lists(numbers, min_size=2, max_size=5), st.data())
def test_kl_estimators_in_expectation(pi_logits, data):
    """Enumerated over a vocabulary. As a loss term: k1 vanishes, k2 is KL(π‖ref), k3 is KL(ref‖π), k3 × ratio KL(π‖ref)."""
    ref_logits = data.draw(st.lists(numbers, min_size=len(pi_logits), max_size=len(pi_logits)))
    theta = torch.tensor(pi_logits, dtype=torch.float64, requires_grad=True)
    logp, ref = theta.log_softmax(0), torch.tensor(ref_logits, dtype=torch.float64).log_softmax(0)
    pi = logp.detach().exp()  # the samples; constant for the gradient

    def gradient(value):
        return torch.autograd.grad(value, theta, retain_graph=True)[0]

    forward, backward = (logp.exp() * (logp - ref)).sum(), (ref.exp() * (ref - logp)).sum()
    for estimator in (ops.kl_k1, ops.kl_k3):  # unbiased values
        assert close((pi * estimator(logp, ref)).sum(), forward.detach())
    assert close(gradient((pi * ops.kl_k1(logp, ref)).sum()), torch.zeros_like(pi))
    assert close(gradient((pi * ops.kl_k2(logp, ref)).sum()), gradient(forward))
    assert close(gradient((pi * ops.kl_k3(logp, ref)).sum()), gradient(backward))
    corrected = (logp - logp.detach()).exp() * ops.kl_k3(logp, ref)
    assert close(gradient((pi * corrected).sum()), gradient(forward))
    in_reward = ops.kl_k1(logp, ref).detach() * logp  # k1 as a cost that REINFORCE lowers
    assert close(gradient((pi * in_reward).sum()), gradient(forward))


def test_k3_near_zero_is_no_rounding_noise():
    """One step away from the reference, in float32: never negative, and right to 1 %."""
    d = torch.linspace(-1e-3, 1e-3, 2001)
    k3 = ops.kl_k3(d, torch.zeros_like(d))
    assert bool((k3 >= 0).all())
    far = d.abs() > 1e-4
    assert close((k3 / (d.double() ** 2 / 2))[far], torch.ones(int(far.sum())), 0.01)


# --- statistics over groups -------------------------------------------------------------------------------


@CHECKED
@given(batches())
def test_group_statistics(drawn):
    R, g, values, ids = drawn.t_reward, drawn.t_group, drawn.reward, drawn.group
    rows = range(len(values))
    assert close(ops.group_mean(R, g), [naive.mean(naive.mates(values, ids, i)) for i in rows])
    assert ops.group_size(g).tolist() == [len(naive.mates(values, ids, i)) for i in rows]
    assert close(ops.group_std(R, g), [naive.std(naive.mates(values, ids, i)) for i in rows])
    assert ops.group_signal(R, g).tolist() == [len(set(naive.mates(values, ids, i))) > 1 for i in rows]
    assert close(ops.group_center(R, g), naive.center(values, ids))
    assert close(ops.group_zscore(R, g), naive.zscore(values, ids, ops.EPS), 1e-7)
    assert close(ops.group_leave_one_out(R, g), naive.leave_one_out(values, ids))


@CHECKED
@given(batches())
def test_group_advantages_sum_to_zero_and_forget_the_order(drawn):
    for advantage in (ops.group_center, ops.group_zscore, ops.group_leave_one_out):
        a = advantage(drawn.t_reward, drawn.t_group)
        for one in set(drawn.group):
            assert abs(float(a[drawn.t_group == one].sum())) < 1e-8
        order = torch.arange(len(a)).flip(0)
        assert close(advantage(drawn.t_reward[order], drawn.t_group[order]), a[order])


@CHECKED
@given(batches())
def test_leave_one_out_is_a_multiple_of_centring(drawn):
    n = ops.group_size(drawn.t_group).double()
    shared = n > 1
    centred = ops.group_center(drawn.t_reward, drawn.t_group)
    alone = ops.group_leave_one_out(drawn.t_reward, drawn.t_group)
    assert close((n - 1)[shared] / n[shared] * alone[shared], centred[shared])


@pytest.mark.parametrize("reward", [0.0, 1.0, 0.1, 1e-30, 1e8 / 3, -7.3])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_rewards_have_advantage_exactly_zero(reward, size, dtype):
    """Rounding in the mean must not leak: 0.1 thrice has a mean that is not 0.1, and dividing by ε would blow it up."""
    R, g = torch.full((size,), reward, dtype=dtype), torch.zeros(size, dtype=torch.long)
    for advantage in (ops.group_center, ops.group_zscore, ops.group_leave_one_out):
        assert advantage(R, g).tolist() == [0.0] * size


def test_bessel_or_not():
    """Both readings of std: ours is the sample's, √((n−1)/n) of it is the population's."""
    values, group = [1.0, 0.0, 0.0, 4.0], [5, 5, 5, 5]
    ours = ops.group_std(torch.tensor(values), torch.tensor(group))
    assert ours.tolist() == pytest.approx([naive.std(values)] * 4)
    assert (ours * (3 / 4) ** 0.5).tolist() == pytest.approx([naive.std(values, bessel=False)] * 4)


# --- along one episode ------------------------------------------------------------------------------------


@CHECKED
@given(batches(), gammas, gammas)
def test_gae_and_returns(drawn, gamma, lam):
    r = drawn.t_x * drawn.t_mask
    got = ops.gae(r, drawn.t_y, drawn.t_mask, gamma, lam)
    assert close(got, naive.gae(drawn.x, drawn.y, drawn.mask, gamma, lam))
    assert close(ops.discount(r, drawn.t_mask, gamma), naive.returns(drawn.x, drawn.mask, gamma))
    monte_carlo = ops.gae(r, drawn.t_y, drawn.t_mask, gamma, 1.0)
    assert close(monte_carlo, (ops.discount(r, drawn.t_mask, gamma) - drawn.t_y) * drawn.t_mask)


@CHECKED
@given(batches(), gammas, gammas, st.data())
def test_gae_is_unchanged_by_inserted_observations(drawn, gamma, lam, data):
    """Forced tokens anywhere, with any values of the critic: sampled tokens have the advantages they had."""
    T = len(drawn.mask[0])
    at = data.draw(st.lists(st.integers(0, T), max_size=4))
    index = sorted([*range(T), *at])  # a position named twice becomes a sampled one and an observation before it
    first = [i == 0 or index[i] != index[i - 1] for i in range(len(index))]
    real = torch.tensor([f and t < T for t, f in zip(index, first)])
    wide = torch.full((len(drawn.mask), len(index)), 9.0, dtype=torch.float64)
    parts = []
    for part, fill in ((drawn.t_x * drawn.t_mask, 0.0), (drawn.t_y, 9.0), (drawn.t_mask, 0.0)):
        parts.append(torch.full_like(wide, fill))
        parts[-1][:, real] = part
    got = ops.gae(*parts, gamma, lam)
    assert close(got[:, real], ops.gae(drawn.t_x * drawn.t_mask, drawn.t_y, drawn.t_mask, gamma, lam))
    assert bool((got[:, ~real] == 0).all())


def test_gae_refuses_a_reward_at_a_forced_token():
    zero = torch.zeros(1, 2)
    with pytest.raises(ValueError, match="reward stands at a forced token"):
        ops.gae(torch.tensor([[0.0, 1.0]]), zero, torch.tensor([[1.0, 0.0]]), 1.0, 1.0)


@CHECKED
@given(batches(filled=True))
def test_whiten(drawn):
    got = ops.whiten(drawn.t_x, drawn.t_mask)
    assert close(got, naive.whiten(drawn.x, drawn.mask, 1e-8), 1e-6)
    assert bool((got[drawn.t_mask == 0] == 0).all())


def test_per_token_gives_each_row_its_number():
    mask = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert ops.per_token(torch.tensor([3.0, -2.0]), mask).tolist() == [[3.0, 0.0], [0.0, -2.0]]
    with pytest.raises(ValueError, match=r"one number a row \(2,\), got \(3,\)"):
        ops.per_token(torch.ones(3), mask)


# --- shapes that broadcast would be mistakes that nobody sees --------------------------------------------

ROW, TABLE = torch.ones(2), torch.ones(2, 3)
MISFITS = [
    lambda: ops.token_mean(TABLE, torch.ones(2, 1)),
    lambda: ops.sequence_mean(TABLE, torch.ones(1, 3)),
    lambda: ops.sequence_sum(TABLE, torch.ones(3)),
    lambda: ops.constant_mean(TABLE, torch.ones(2, 1), 3),
    lambda: ops.ratio(TABLE, torch.ones(2, 1)),
    lambda: ops.sequence_ratio(TABLE, TABLE, torch.ones(2, 1)),
    lambda: ops.clipped_surrogate(TABLE, torch.ones(2, 1), 0.2, 0.2),
    lambda: ops.is_clipped(TABLE, torch.ones(2, 1), 0.2, 0.2),
    lambda: ops.kl_k1(TABLE, torch.ones(3)),
    lambda: ops.kl_k2(TABLE, torch.ones(3)),
    lambda: ops.kl_k3(TABLE, torch.ones(3)),
    lambda: ops.group_mean(TABLE, ROW.long()),
    lambda: ops.group_zscore(TABLE, ROW.long()),
    lambda: ops.gae(TABLE, torch.ones(2, 1), TABLE, 1.0, 1.0),
    lambda: ops.whiten(TABLE, torch.ones(2, 1)),
]


@pytest.mark.parametrize("call", MISFITS)
def test_shapes_that_differ_are_an_error(call):
    with pytest.raises(ValueError, match="shapes must be equal, got"):
        call()
