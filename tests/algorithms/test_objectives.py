"""GSPO-token, GMPO, CISPO and what public code adds: against oracles, loops and each other."""

import math

import pytest
import torch

from arl_mini.algorithms import CISPO, DAPO, GMPO, GRPO, GSPO, DrGRPO, GSPOToken
from arl_mini.models.score import Scores
from tests.algorithms.rows import by_hand, random_batch, rewarded, value_and_grad
from tests.oracles.reading import cases

MINE = [GSPOToken(), GMPO(), CISPO()]


def checked(case, algorithm):
    batch = by_hand(case.inputs["mask"], old_logp=case.tensor("old_logp"), advantages=case.inputs["adv"])
    loss, grad = value_and_grad(algorithm, batch, case.inputs["logp"])
    case.meets(loss, case.outputs["loss"])
    case.meets(grad, case.grads["logp"])


@pytest.mark.parametrize("case", cases("objectives", "gspotoken"))
def test_gspo_token_oracle(case):
    checked(case, GSPOToken(case.hyper["eps_low"], case.hyper["eps_high"]))


@pytest.mark.parametrize("case", cases("objectives", "gmpo"))
def test_gmpo_oracle(case):
    checked(case, GMPO(case.hyper["log_clip_low"], case.hyper["log_clip_high"]))


@pytest.mark.parametrize("case", cases("objectives", "cispo"))
def test_cispo_oracle(case):
    checked(case, CISPO(1 - case.hyper["is_weight_min"], case.hyper["is_weight_max"] - 1))


@pytest.mark.parametrize("case", cases("objectives", "grpo-loss") + cases("objectives", "dapo-loss"))
def test_dual_clip_oracle(case):
    """TRL's `delta` caps the ratio for A > 0 too, where the upper clip is lower already: the same loss."""
    dual = case.hyper.get("dual_clip", case.hyper.get("delta"))
    kind = DAPO if case.id.startswith("dapo") else GRPO
    checked(case, kind(case.hyper["eps_low"], case.hyper["eps_high"], dual_clip=dual))


# --- loops written from the papers ------------------------------------------------------------------------


def sampled(batch, i):
    return [t for t in range(batch.mask.shape[1]) if batch.mask[i, t] > 0]


def gspo_token_loop(a, batch, logp):
    total = 0.0
    for i in range(len(batch)):
        at = sampled(batch, i)
        s = math.exp(sum(float(logp[i, t] - batch.old_logp[i, t]) for t in at) / len(at))
        held = min(max(s, 1 - a.clip_low), 1 + a.clip_high)
        total += sum(max(-float(batch.advantages[i, t]) * x for x in (s, held)) for t in at) / len(at)
    return total / len(batch)


def gmpo_loop(a, batch, logp):
    """The paper's product form: (Π |min(r·A, clip(r, e^−a, e^b)·A)|)^{1/n} sgn(A) at |A| = 1, times |A|."""
    total = 0.0
    for i in range(len(batch)):
        at, adv, product = sampled(batch, i), float(batch.advantages[i, 0]), 1.0
        for t in at:
            r = math.exp(float(logp[i, t] - batch.old_logp[i, t]))
            held = min(max(r, math.exp(-a.clip_low)), math.exp(a.clip_high))
            product *= abs(min(r * math.copysign(1, adv), held * math.copysign(1, adv)))
        total -= adv * product ** (1 / len(at))
    return total / len(batch)


def cispo_loop(a, batch, logp):
    total, n = 0.0, 0
    for i in range(len(batch)):
        for t in sampled(batch, i):
            weight = min(math.exp(float(logp[i, t] - batch.old_logp[i, t])), 1 + a.clip_high)
            total, n = total - weight * float(batch.advantages[i, t]) * float(logp[i, t]), n + 1
    return total / n


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "algorithm, loop", list(zip(MINE, [gspo_token_loop, gmpo_loop, cispo_loop])), ids=lambda x: str(x)[:9]
)
def test_loop_from_the_paper(algorithm, loop, seed):
    batch, logp = random_batch(seed)
    batch = batch.set(advantages=algorithm.advantages(batch))
    loss, _ = value_and_grad(algorithm, batch, logp)
    assert loss == pytest.approx(loop(algorithm, batch, logp), rel=1e-12, abs=1e-14)


# --- identities -------------------------------------------------------------------------------------------


def same(one, other, batch, logp, scale=1.0, value=True):
    (x, g), (y, h) = (value_and_grad(a, batch, logp) for a in (one, other))
    assert not value or x == pytest.approx(scale * y, rel=1e-12, abs=1e-14)
    torch.testing.assert_close(g, scale * h, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("seed", range(3))
def test_gspo_token_is_gspo_where_advantages_are_equal_in_a_row(seed):
    batch, logp = random_batch(seed)
    batch = batch.set(advantages=GRPO().advantages(batch))
    same(GSPOToken(0.2, 0.3), GSPO(0.2, 0.3), batch, logp)


@pytest.mark.parametrize("seed", range(3))
def test_one_token_rows(seed):
    """One ratio a row is one ratio a token; GMPO's bounds are logarithms."""
    batch, logp = random_batch(seed, width=1)
    batch = batch.set(advantages=GRPO().advantages(batch))
    for sequence in (GSPO(0.2, 0.2), GSPOToken(0.2, 0.2), GMPO(-math.log(0.8), math.log(1.2))):
        same(sequence, GRPO(0.2, 0.2), batch, logp)


@pytest.mark.parametrize("seed", range(3))
def test_gmpo_without_clip_is_gspo_without_clip(seed):
    batch, logp = random_batch(seed)
    batch = batch.set(advantages=GRPO().advantages(batch))
    same(GMPO(torch.inf, torch.inf), GSPO(torch.inf, torch.inf), batch, logp)


@pytest.mark.parametrize("seed", range(3))
def test_on_policy_all_have_one_gradient(seed):
    batch, _ = random_batch(seed)
    batch = batch.set(advantages=GRPO().advantages(batch))
    for sequence in (GSPO(), GSPOToken(), GMPO()):
        same(sequence, GRPO(), batch, batch.old_logp)
    same(CISPO(), DAPO(), batch, batch.old_logp, value=False)


def test_cispo_keeps_the_gradient_that_a_clip_cuts():
    batch = by_hand([[1, 1]], old_logp=torch.tensor([[-3.0, -1.0]]).double(), advantages=[1.0])
    logp = [[-1.0, -1.0]]  # the first token's ratio is e²
    assert float(value_and_grad(DAPO(), batch, logp)[1][0, 0]) == 0.0
    assert float(value_and_grad(CISPO(), batch, logp)[1][0, 0]) == pytest.approx(-1.28 / 2)


def test_cispo_caps_of_the_libraries():
    """TRL's epsilon_high is the cap itself, verl's is added to 1 and has a lower bound beside it."""
    batch = by_hand([[1, 1]], old_logp=torch.tensor([[-3.0, -1.0]]).double(), advantages=[1.0])
    logp = [[-1.0, -3.0]]  # ratios e², e^−2
    trl, verl = (
        value_and_grad(a, batch, logp)[1][0].tolist() for a in (CISPO(clip_high=4.0), CISPO(0.2, 0.28))
    )
    assert trl == pytest.approx([-5 / 2, -math.exp(-2) / 2])
    assert verl == pytest.approx([-1.28 / 2, -0.8 / 2])


def test_log_clamp_holds_the_ratio():
    batch = by_hand([[1]], old_logp=torch.tensor([[-30.0]]).double(), advantages=[-1.0])
    assert value_and_grad(GRPO(log_clamp=20.0), batch, [[-1.0]])[0] == pytest.approx(math.exp(20))
    assert value_and_grad(GRPO(), batch, [[-1.0]])[0] == pytest.approx(math.exp(29))


# --- edges ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", MINE, ids=lambda a: type(a).__name__)
def test_forced_tokens_have_no_gradient(algorithm):
    batch, logp = random_batch(7)
    batch = batch.set(advantages=algorithm.advantages(batch))
    loss, grad = value_and_grad(algorithm, batch, logp)
    assert bool((grad[batch.mask == 0] == 0).all()) and bool((grad != 0).any())
    other = torch.where(batch.mask > 0, logp, torch.rand_like(logp) - 2)
    assert value_and_grad(algorithm, batch, other)[0] == loss


@pytest.mark.parametrize("algorithm", MINE, ids=lambda a: type(a).__name__)
def test_no_contrast_no_gradient(algorithm):
    for rewards, group in (([0.3] * 4, [0, 0, 1, 1]), ([1.0, 0.0, 0.5, 1.0], [0, 1, 2, 3])):
        batch = rewarded(rewards, group, [[1, 1], [1, 0], [1, 1], [1, 0]])
        batch = batch.set(advantages=algorithm.advantages(batch))
        loss, grad = value_and_grad(algorithm, batch, -torch.ones(4, 2))
        assert loss == 0 and bool((grad == 0).all())


def test_what_is_called_clipped_has_no_gradient_and_the_rest_has():
    batch, logp = random_batch(11, rows=12)
    for algorithm in (
        GRPO(),
        GRPO(dual_clip=1.3),
        DrGRPO(),
        DAPO(),
        GSPO(0.01, 0.01),
        GSPOToken(0.01, 0.01),
        GMPO(),
        CISPO(),
    ):
        marked = batch.set(advantages=algorithm.advantages(batch))
        _, grad = value_and_grad(algorithm, marked, logp)
        cut = algorithm.clipped(Scores(logp, torch.zeros_like(logp)), marked)
        live = (marked.mask > 0) & (marked.advantages != 0)
        assert bool((grad[cut] == 0).all()) and bool((grad[live & ~cut] != 0).all()), algorithm
