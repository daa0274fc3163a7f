"""The losses of the DPO family: against loops written from the papers, and against each other."""

import math

import pytest
import torch

from arl_mini import ops
from arl_mini.algorithms import DMPO, DPO, ETO, IPO, KTO, LCPO, ORPO, SDPO, BetaDPO, OnlineDPO, SimPO, StepDPO
from tests.algorithms.rows import by_hand, f64, value_and_grad

PAIRWISE = [
    DPO(), DPO(smoothing=0.2), BetaDPO(), SimPO(), SimPO(smoothing=0.1), IPO(), IPO(mean=False), ORPO(),
    LCPO(), StepDPO(), ETO(), DMPO(), DMPO(gamma=1.0), DMPO(decays=False), SDPO(), OnlineDPO(),
]  # fmt: skip
names = [repr(a) for a in PAIRWISE]


# --- loops written from the papers ------------------------------------------------------------------------


def made(seed: int, pairs: int = 4, width: int = 7, turns: int = 3):
    """(batch, logp) with ragged rows, forced gaps, turns, pairs in mixed order, and one row in no pair."""
    draw = torch.Generator().manual_seed(seed)

    def normal():
        return torch.randn(2 * pairs + 1, width, generator=draw, dtype=torch.float64)

    mask = (torch.rand(2 * pairs + 1, width, generator=draw) < 0.7).double()
    mask[:, 0] = 1
    mask[0, 1:] = 0  # a row of one token
    ref = -normal().abs() - 0.05
    logp = (ref + 0.4 * normal()).clamp(max=-1e-3)
    order = torch.randperm(2 * pairs + 1, generator=draw)
    pair, chosen = torch.tensor([*range(pairs), *range(pairs), -1])[order], order < pairs
    turn = (torch.arange(width) * turns // width).expand(2 * pairs + 1, width).clone()
    turn[1, turn[1] == turns - 1] = turns - 2  # a row with fewer turns
    weight = torch.full((2 * pairs + 1,), 1.5, dtype=torch.float64)
    return by_hand(mask, ref_logp=ref, pair=pair, chosen=chosen, turn=turn, weight=weight), logp


def softplus(z: float) -> float:
    return math.log1p(math.exp(z))


def at(batch, i):
    return [t for t in range(batch.mask.shape[1]) if batch.mask[i, t] > 0]


def dpo_loop(a, batch, logp, phi=lambda batch, i, t: 1.0):
    total, pairs = 0.0, sorted(set(batch.pair.tolist()) - {-1})
    for p in pairs:
        h = 0.0
        for i in range(len(batch)):
            if batch.pair[i] == p:
                d = sum(phi(batch, i, t) * float(logp[i, t] - batch.ref_logp[i, t]) for t in at(batch, i))
                h += d if batch.chosen[i] else -d
        beta = a.beta * (1.5 if isinstance(a, BetaDPO) else 1.0)
        total += (1 - a.smoothing) * softplus(-beta * h) + a.smoothing * softplus(beta * h)
    return total / len(pairs)


def dmpo_loop(a, batch, logp):
    def phi(batch, i, t):
        turns, k = int(batch.turn[i].max()) + 1, int(batch.turn[i, t])
        if a.gamma == 1:
            return (turns - k) / turns
        later = sum(a.gamma**j for j in range(turns - k)) / sum(a.gamma**j for j in range(turns))
        return later * (a.gamma**k if a.decays else 1)

    return dpo_loop(a, batch, logp, phi)


def two_rows(batch, p):
    """(chosen, rejected) row of a pair."""
    rows = [i for i in range(len(batch)) if batch.pair[i] == p]
    return sorted(rows, key=lambda i: not batch.chosen[i])


def mean_logp(batch, logp, i):
    return sum(float(logp[i, t]) for t in at(batch, i)) / len(at(batch, i))


def simpo_loop(a, batch, logp):
    total, pairs = 0.0, sorted(set(batch.pair.tolist()) - {-1})
    for p in pairs:
        w, l = (mean_logp(batch, logp, i) for i in two_rows(batch, p))
        z = a.beta * (w - l) - a.gamma
        total += (1 - a.smoothing) * softplus(-z) + a.smoothing * softplus(z)
    return total / len(pairs)


def ipo_loop(a, batch, logp):
    total, pairs = 0.0, sorted(set(batch.pair.tolist()) - {-1})
    for p in pairs:
        gaps = []
        for i in two_rows(batch, p):
            d = [float(logp[i, t] - batch.ref_logp[i, t]) for t in at(batch, i)]
            gaps.append(sum(d) / (len(d) if a.mean else 1))
        total += (gaps[0] - gaps[1] - 1 / (2 * a.beta)) ** 2
    return total / len(pairs)


def odds_loop(a, batch, logp):
    """ORPO's second term, by probabilities; LCPO as it stands."""
    total, pairs = 0.0, sorted(set(batch.pair.tolist()) - {-1})
    for p in pairs:
        odds = [q / (1 - q) for q in (math.exp(mean_logp(batch, logp, i)) for i in two_rows(batch, p))]
        total += -math.log(odds[0] / (odds[0] + odds[1]))
    return total / len(pairs)


def orpo_loop(a, batch, logp):
    won = [i for i in range(len(batch)) if batch.pair[i] >= 0 and batch.chosen[i]]
    tokens = [-float(logp[i, t]) for i in won for t in at(batch, i)]
    return sum(tokens) / len(tokens) + a.lam * odds_loop(a, batch, logp)


LOOPS = {SimPO: simpo_loop, IPO: ipo_loop, ORPO: orpo_loop, LCPO: odds_loop, DMPO: dmpo_loop}


@pytest.mark.parametrize("algorithm", PAIRWISE, ids=names)
@pytest.mark.parametrize("seed", range(3))
def test_equals_the_loop_written_from_the_paper(algorithm, seed):
    batch, logp = made(seed)
    wanted = LOOPS.get(type(algorithm), dpo_loop)(algorithm, batch, logp)
    assert value_and_grad(algorithm, batch, logp)[0] == pytest.approx(wanted, rel=1e-9)


def test_kto_equals_the_loop_written_from_the_paper():
    batch, logp = made(0)
    batch = batch.set(pair=torch.tensor([0, 1, 2, 3, 4, 5, -1, -1, -1]), chosen=torch.arange(9) % 3 == 0)
    a = KTO(0.3, 1.2, 0.8)
    r = [sum(float(logp[i, t] - batch.ref_logp[i, t]) for t in at(batch, i)) for i in range(9)]
    z0 = max(0.0, sum(r[6:]) / 3)
    values = [a.desirable / (1 + math.exp(a.beta * (r[i] - z0))) if batch.chosen[i]
              else a.undesirable / (1 + math.exp(a.beta * (z0 - r[i]))) for i in range(6)]  # fmt: skip
    assert value_and_grad(a, batch, logp)[0] == pytest.approx(sum(values) / 6, rel=1e-9)


# --- what must hold ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [*PAIRWISE, KTO()], ids=[*names, "KTO()"])
def test_forced_tokens_and_rows_in_no_pair_have_no_gradient(algorithm):
    batch, logp = made(1)
    loss, grad = value_and_grad(algorithm, batch, logp)
    off = (batch.mask == 0) | (batch.pair < 0)[:, None]
    assert bool((grad[off] == 0).all())
    assert bool((grad[~off] != 0).all())
    moved = torch.where(batch.mask == 0, logp - 3.0, logp)
    assert value_and_grad(algorithm, batch, moved)[0] == loss


@pytest.mark.parametrize("algorithm", [*PAIRWISE, KTO()], ids=[*names, "KTO()"])
def test_descent_raises_the_chosen_against_the_rejected(algorithm):
    batch, logp = made(2)
    logp = batch.ref_logp.clone()
    _, grad = value_and_grad(algorithm, batch, logp)
    paired = batch.pair >= 0
    side = torch.where(batch.chosen, -1.0, 1.0)[:, None].expand_as(grad)
    there = (batch.mask > 0) & paired[:, None]
    assert bool((grad[there].sign() == side[there]).all())


@pytest.mark.parametrize("algorithm", PAIRWISE, ids=names)
def test_a_batch_without_pairs_teaches_nothing(algorithm):
    batch, logp = made(3)
    loss, grad = value_and_grad(algorithm, batch.set(pair=torch.full((9,), -1)), logp)
    assert loss == 0
    assert bool((grad == 0).all())


def test_a_pair_that_lacks_a_row_is_an_error():
    batch, logp = made(0)
    with pytest.raises(ValueError, match="one chosen and one rejected"):
        value_and_grad(DPO(), batch.set(chosen=torch.ones(9).bool()), logp)
    with pytest.raises(ValueError, match="hint: mark the episodes with batch.pairs"):
        value_and_grad(DPO(), batch.set(pair=None), logp)


def same(a, b, batch, logp):
    (x, gx), (y, gy) = value_and_grad(a, batch, logp), value_and_grad(b, batch, logp)
    assert x == pytest.approx(y, rel=1e-12)
    torch.testing.assert_close(gx, gy, rtol=1e-10, atol=1e-14)


def test_beta_dpo_with_a_of_0_is_dpo():
    batch, logp = made(4)
    weight = BetaDPO(a=0.0).strength(f64([3.0, -1.0]), 0.2) / 0.1
    assert weight == 1
    same(BetaDPO(a=0.0), DPO(), batch.set(weight=torch.full((9,), weight)), logp)


def test_the_mean_gap_alone_moves_beta_and_never_below_the_floor():
    a = BetaDPO()
    assert a.strength(f64([0.2, 0.4]), 0.3) == pytest.approx(a.beta)
    assert a.strength(f64([2.0]), 0.3) > a.beta > a.strength(f64([-1.0]), 0.3)
    assert a.strength(f64([-100.0]), 0.3) == 1e-3


def test_trajectory_losses_of_one_turn_are_dpo():
    batch, logp = made(5)
    batch = batch.set(turn=torch.zeros_like(batch.turn))
    for a in (ETO(), DMPO(), DMPO(gamma=1.0), DMPO(decays=False), SDPO(), StepDPO(beta=0.1), OnlineDPO()):
        same(a, DPO(), batch, logp)


def test_dmpo_with_gamma_to_0_is_dpo_on_the_first_turn_and_eto_as_printed():
    batch, logp = made(6)
    first = batch.set(mask=batch.mask * (batch.turn == 0))
    x, y = (value_and_grad(a, b, logp)[0] for a, b in ((DMPO(gamma=1e-9), batch), (DPO(), first)))
    assert x == pytest.approx(y, abs=1e-7)
    x, y = (value_and_grad(a, batch, logp)[0] for a in (DMPO(gamma=1e-9, decays=False), ETO()))
    assert x == pytest.approx(y, abs=1e-7)
    near, one = (value_and_grad(DMPO(gamma=g), batch, logp)[0] for g in (1 - 1e-7, 1.0))
    assert near == pytest.approx(one, abs=1e-6)
    with pytest.raises(ValueError, match="gamma"):
        value_and_grad(DMPO(gamma=0.0), batch, logp)


def test_simpo_without_margin_is_dpo_a_token_where_lengths_are_equal_and_the_reference_uniform():
    batch, logp = made(7)
    mask = torch.ones_like(batch.mask)
    batch = batch.set(mask=mask, ref_logp=torch.full_like(logp, -2.0))
    same(SimPO(beta=0.7, gamma=0.0), DPO(beta=0.1), batch, logp)


def test_ipo_is_at_rest_at_its_target_and_pulls_back_beyond():
    mask = torch.ones(2, 2)
    chosen = torch.tensor([True, False])
    batch = by_hand(mask, ref_logp=-torch.ones(2, 2).double(), pair=torch.zeros(2).long(), chosen=chosen)
    for mean, gap in ((True, 5.0), (False, 2.5)):  # 1/2τ = 5: a token, or in all over two tokens
        for extra, sign in ((0.0, 0), (-0.5, -1), (0.5, 1)):
            logp = batch.ref_logp + f64([[gap / 2 + extra] * 2, [-gap / 2] * 2])
            _, grad = value_and_grad(IPO(mean=mean), batch, logp)
            assert grad[0].sign().tolist() == [sign] * 2


def test_ipo_readings_agree_where_all_rows_have_one_token():
    batch, logp = made(8)
    one = batch.set(mask=torch.zeros_like(batch.mask).index_fill(1, torch.tensor([0]), 1.0))
    same(IPO(), IPO(mean=False), one, logp)
    assert value_and_grad(IPO(), batch, logp)[0] != value_and_grad(IPO(mean=False), batch, logp)[0]


def test_orpo_without_its_second_term_is_imitation_and_lcpo_is_that_term():
    batch, logp = made(9)
    won = ((batch.pair >= 0) & batch.chosen)[:, None] * batch.mask
    assert value_and_grad(ORPO(lam=0.0), batch, logp)[0] == pytest.approx(float(ops.token_mean(-logp, won)))
    parts = [value_and_grad(a, batch, logp)[0] for a in (ORPO(lam=1.0), ORPO(lam=0.0), LCPO())]
    assert parts[0] - parts[1] == pytest.approx(parts[2])


def test_log_odds_are_defined_at_probability_1_and_turn_into_the_log_probability():
    logp = f64([-1e-12, 0.0, -0.7, -30.0]).requires_grad_()
    odds = ops.log_odds(logp)
    odds.sum().backward()
    assert bool(odds.isfinite().all() and logp.grad.isfinite().all())
    odds, logp = odds.detach(), logp.detach()
    assert float(odds[2]) == pytest.approx(math.log(math.exp(-0.7) / (1 - math.exp(-0.7))))
    torch.testing.assert_close(-torch.nn.functional.logsigmoid(odds[2:]), -logp[2:])


def test_a_reference_equal_to_the_policy_gives_log_2():
    batch, _ = made(10)
    for a in (DPO(), BetaDPO(), ETO(), DMPO(), SDPO(), StepDPO(), OnlineDPO(), DPO(smoothing=0.3)):
        assert value_and_grad(a, batch, batch.ref_logp)[0] == pytest.approx(math.log(2))
    assert value_and_grad(KTO(), batch, batch.ref_logp)[0] == pytest.approx(0.5)


def test_who_needs_a_reference():
    having = (DPO(), BetaDPO(), IPO(), KTO(), StepDPO(), ETO(), DMPO(), SDPO(), OnlineDPO())
    assert all(a.needs_ref for a in having)
    assert not any(a.needs_ref for a in (SimPO(), ORPO(), LCPO()))


def test_the_kto_weight_is_largest_at_the_reference_point():
    grads = []
    for r in (-40.0, 0.0, 40.0):
        batch = by_hand([[1.0]], ref_logp=f64([[0.0]]), pair=torch.tensor([0]), chosen=torch.tensor([True]))
        grads.append(abs(float(value_and_grad(KTO(), batch, [[r]])[1])))
    assert grads[1] == pytest.approx(0.1 / 4)
    assert grads[0] < grads[1] > grads[2]
