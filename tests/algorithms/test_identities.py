"""What one algorithm must be to another: reductions that hold exactly."""

import pytest
import torch

from arl_mini.algorithms import DAPO, GRPO, GSPO, RLOO, DrGRPO, Reinforce
from arl_mini.models.score import Scores
from tests.algorithms.loops import batch_of, draw, ours
from tests.algorithms.rows import by_hand, f64, value_and_grad
from tests.core.drawn import close

SEEDS = pytest.mark.parametrize("seed", range(4))


@SEEDS
def test_gspo_is_grpo_on_rows_of_one_token(seed):
    case = draw(seed, width=2, filled=0.0)
    for one, other in zip(ours(GSPO(0.2, 0.28), case), ours(GRPO(0.2, 0.28), case)):
        assert close(one, other)


@SEEDS
def test_gspo_gives_every_token_of_a_row_the_same_gradient(seed):
    case = draw(seed)
    grad = ours(GSPO(0.5, 0.5), case)[2]
    for row, keep in zip(grad, torch.tensor(case["mask"]) > 0):
        if bool(keep.any()):
            assert close(row[keep], row[keep][:1].expand(int(keep.sum())))


def test_gspo_clips_whole_rows():
    """A row beyond the clip has gradient 0 at all its tokens, also at those whose own ratio is inside."""
    batch = by_hand(torch.ones(2, 2), advantages=[1.0, -1.0], old_logp=f64([[-1, -1], [-1, -1]]))
    grad = value_and_grad(GSPO(0.2, 0.2), batch, [[-1.0, -0.1], [-1.0, -2.0]])[1]
    assert bool((grad == 0).all())
    grad = value_and_grad(GRPO(0.2, 0.2), batch, [[-1.0, -0.1], [-1.0, -2.0]])[1]
    assert grad[:, 0].ne(0).all() and grad[:, 1].eq(0).all()


@SEEDS
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_drgrpo_advantage_is_a_share_of_rloo(seed, groups):
    """(G − 1)/G of it, G = rows of the group."""
    batch = batch_of(draw(seed, rows=6, groups=groups))
    G = 6 / groups
    assert close(DrGRPO().advantages(batch), (G - 1) / G * RLOO().advantages(batch))


def test_drgrpo_halves_where_the_length_doubles_and_sees_no_row_length():
    case = draw(1)
    _, loss, grad = ours(DrGRPO(length=8), case)
    _, half, half_grad = ours(DrGRPO(length=16), case)
    assert close(half, loss / 2) and close(half_grad, grad / 2)
    batch = by_hand([[1, 0, 0], [1, 1, 1]], advantages=[1.0, 1.0])
    grad = value_and_grad(DrGRPO(), batch, torch.zeros(2, 3))[1]
    assert len(set(grad[grad != 0].tolist())) == 1  # a token of the long row weighs as one of the short


@SEEDS
def test_dapo_is_grpo_at_equal_lengths_and_clips(seed):
    case = draw(seed, filled=1.0)
    case = {name: value[:-1] for name, value in case.items()}  # without the row that has no sampled token
    for one, other in zip(ours(DAPO(clip_high=0.2), case), ours(GRPO(), case)):
        assert close(one, other)


@SEEDS
def test_dapo_sees_every_token_alike_grpo_every_row(seed):
    batch = by_hand([[1, 0, 0, 0], [1, 1, 1, 1]], advantages=[1.0, 1.0])
    dapo, grpo = (value_and_grad(a, batch, torch.zeros(2, 4))[1] for a in (DAPO(), GRPO()))
    assert close(dapo[1, 0], dapo[0, 0]) and close(grpo[1, 0], grpo[0, 0] / 4)


def weights(kind, mask):
    """What each reduction gives a sampled token, (B, T)."""
    n = mask.sum(1, keepdim=True).clamp(min=1)
    each = {GRPO: mask / n / len(mask), GSPO: mask / n / len(mask), DAPO: mask / mask.sum(), DrGRPO: mask / (len(mask) * 32)}
    return each[kind]


@SEEDS
@pytest.mark.parametrize("algorithm", [GRPO(), DrGRPO(), DAPO(), GSPO()], ids=str)
def test_on_policy_gradient_is_reinforce(algorithm, seed):
    """At ratio 1 nothing is clipped: −A_it times the token's weight, whatever the clip and the level of the ratio."""
    case = draw(seed, away=0.0)
    case["logp"] = case["old"]
    adv, _, grad = ours(algorithm, case)
    assert close(grad, -adv * weights(type(algorithm), f64(case["mask"])))


@SEEDS
def test_rloo_is_reinforce_on_its_advantages(seed):
    batch, logp = batch_of(draw(seed)), draw(seed)["logp"]
    batch = batch.set(advantages=RLOO().advantages(batch))
    one, other = value_and_grad(RLOO(), batch, logp), value_and_grad(Reinforce(), batch, logp)
    assert one[0] == other[0] and torch.equal(one[1], other[1])


@SEEDS
def test_grpo_kl_adds_its_own_gradient(seed):
    """β scales it; at the reference it vanishes."""
    case = draw(seed)
    free, tied, twice = (ours(GRPO(beta=b), case) for b in (0.0, 0.1, 0.2))
    assert close(twice[2] - free[2], 2 * (tied[2] - free[2])) and close(twice[1] - free[1], 2 * (tied[1] - free[1]))
    case["ref"] = case["logp"]
    assert close(ours(GRPO(beta=0.1), case)[2], ours(GRPO(), case)[2])


@SEEDS
def test_a_constant_baseline_does_not_change_the_expected_gradient(seed):
    """Σ_a π(a) b ∇log π(a) = 0, over an enumerated vocabulary of rows of one token."""
    theta = torch.randn(5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()
    logp, R = theta.log_softmax(0), f64([0, 1, 0, 2, -1])
    pi = logp.detach().exp()

    def expected(b):
        batch = by_hand(torch.ones(5, 1), advantages=R - b)
        loss = Reinforce().loss(Scores(logp[:, None] * 5 * pi[:, None], torch.zeros(5, 1)), batch)
        return torch.autograd.grad(loss, theta, retain_graph=True)[0]

    exact = torch.autograd.grad(-(theta.softmax(0) * R).sum(), theta)[0]
    assert close(expected(0.0), exact) and close(expected(0.7), exact)


@pytest.mark.parametrize("algorithm", [GRPO(), DAPO(), GSPO(0.2, 0.2)], ids=str)
def test_clipped_marks_the_sampled_tokens_without_gradient(algorithm):
    case = draw(2, away=1.0)
    batch = batch_of(case)
    batch = batch.set(advantages=algorithm.advantages(batch))
    scores = Scores(f64(case["logp"]), torch.zeros_like(batch.mask))
    cut = algorithm.clipped(scores, batch)
    grad = ours(algorithm, case)[2]
    assert torch.equal(cut, (grad == 0) & (batch.mask > 0) & (batch.advantages != 0)) and bool(cut.any())
