"""PPO, VAPO, LitePPO, REINFORCE++ against loops from their papers, and each other; the places of a KL."""

import re

import numpy as np
import pytest
import torch

from arl_mini import ops
from arl_mini.algorithms import DAPO, PFPPO, PPO, PSGPO, VAPO, LitePPO, ReinforcePlusPlus, VinePPO
from arl_mini.algorithms.ppo import Proximal, adapted
from arl_mini.models.score import Scores
from arl_mini.rewards import at_end
from tests.algorithms.loops import batch_of, count, draw, slope, tokens
from tests.algorithms.rows import by_hand, f64, value_and_grad
from tests.core import naive
from tests.core.drawn import close

SHAPES = [dict(), dict(groups=6), dict(width=2, filled=0.0), dict(filled=1.0), dict(away=0.0)]
NAMES = ["ragged", "groups of one", "single tokens", "no gaps", "on-policy"]


def valued(case, seed=0, spread=1.0):
    """The case with values (B, T) of a critic before the step, and now."""
    made = torch.Generator().manual_seed(1000 + seed)
    shape = torch.tensor(case["mask"]).shape
    old = torch.randn(*shape, generator=made, dtype=torch.float64)
    now = old + spread * torch.randn(*shape, generator=made, dtype=torch.float64)
    return case | {"old_values": old.tolist(), "values": now.tolist()}


def of(algorithm, case):
    """(batch with advantages and returns, loss, gradients with respect to logp and values) of the library."""
    batch = batch_of(case).set(values=f64(case["old_values"]), success=f64(case["reward"]).sum(1) > 0)
    batch = algorithm.reward(batch)
    batch = batch.set(returns=algorithm.returns(batch))
    batch = batch.set(advantages=algorithm.advantages(batch))
    logp, values = (f64(case[k]).requires_grad_() for k in ("logp", "values"))
    loss = algorithm.loss(Scores(logp, torch.zeros_like(logp), values), batch)
    grads = torch.autograd.grad(loss, (logp, values), allow_unused=True, materialize_grads=True)
    return batch, float(loss.detach()), *grads


# --- loops ------------------------------------------------------------------------------------------------


def gae_loop(case, reward, gamma, lam):
    """{(i, t): Σ_k (γλ_i)^k δ_{t+k}} over the sampled tokens of each row, as the double sum of the paper."""
    found = {}
    for i, row in enumerate(case["mask"]):
        at = [t for t, m in enumerate(row) if m]
        V = [case["old_values"][i][t] for t in at] + [0.0]
        delta = [reward[i][t] + gamma * V[k + 1] - V[k] for k, t in enumerate(at)]
        for k, t in enumerate(at):
            found[i, t] = sum((gamma * lam[i]) ** (j - k) * delta[j] for j in range(k, len(at)))
    return found


def whiten_loop(numbers):
    mean = sum(numbers.values()) / max(len(numbers), 1)
    var = sum((x - mean) ** 2 for x in numbers.values()) / max(len(numbers) - 1, 1)
    return {k: (x - mean) / (var + 1e-8) ** 0.5 for k, x in numbers.items()}


def kl_rewards(case, beta):
    return [
        [r - beta * m * (o - f) for r, m, o, f in zip(*row)]
        for row in zip(case["reward"], case["mask"], case["old"], case["ref"])
    ]


def surrogate_loop(case, adv, low, high, dual=0.0, beta=0.0):
    total = 0.0
    for i, t in tokens(case):
        ratio = np.exp(case["logp"][i][t]) / np.exp(case["old"][i][t])
        cost = naive.clipped(ratio, adv[i, t], low, high)
        if dual and adv[i, t] < 0:
            cost = min(cost, -adv[i, t] * dual)
        total += cost + 0.5 * beta * (case["logp"][i][t] - case["ref"][i][t]) ** 2
    return total / max(len(tokens(case)), 1)


def value_loop(case, targets, clip):
    total = 0.0
    for i, t in tokens(case):
        V, old, G = case["values"][i][t], case["old_values"][i][t], targets[i, t]
        held = min(max(V, old - clip), old + clip) if clip else V
        total += 0.5 * max((V - G) ** 2, (held - G) ** 2)
    return total / max(len(tokens(case)), 1)


def table(numbers, case):
    return [[numbers.get((i, t), 0.0) for t in range(len(row))] for i, row in enumerate(case["mask"])]


PPOS = [
    PPO(), PPO(gamma=0.9, lam=0.8, value_clip=0.3, value_weight=0.7), PPO(dual_clip=1.5, whiten=False, lam=0.5),
    PPO(beta=0.1), PPO(beta=0.1, kl_reward=None, kl_loss=ops.kl_k2), PPO(0.1, 0.4, lam=0.0),
]  # fmt: skip


@pytest.mark.parametrize("algorithm", PPOS, ids=lambda a: re.sub(r" at 0x\w+", "", str(a)))
@pytest.mark.parametrize("shape", SHAPES, ids=NAMES)
def test_ppo_loop(algorithm, shape):
    case = valued(draw(1, **shape))
    a = algorithm
    batch, loss, by_logp, by_values = of(a, case)
    reward = kl_rewards(case, a.beta if a.kl_reward else 0.0)
    raw = gae_loop(case, reward, a.gamma, [a.lam] * len(reward))
    targets = {(i, t): x + case["old_values"][i][t] for (i, t), x in raw.items()}
    adv = whiten_loop(raw) if a.whiten else raw
    assert close(batch.advantages, table(adv, case)) and close(batch.returns, table(targets, case))

    def whole(case, adv):
        policy = surrogate_loop(case, adv, a.clip_low, a.clip_high, a.dual_clip, a.beta if a.kl_loss else 0.0)
        return policy + a.value_weight * value_loop(case, targets, a.value_clip)

    assert close(loss, whole(case, adv))
    assert close(by_logp, slope(whole, case, adv), 1e-6)
    forced = torch.tensor(case["mask"]) == 0
    assert bool((by_logp[forced] == 0).all()) and bool((by_values[forced] == 0).all())
    swapped = case | {"logp": case["values"], "values": case["logp"]}  # so that `slope` moves the values
    moved = slope(lambda c, adv: whole(c | {"logp": case["logp"], "values": c["logp"]}, adv), swapped, adv)
    assert close(by_values, moved, 1e-6)


@pytest.mark.parametrize("alpha, mu", [(0.05, 0.1), (1.0, 0.0), (3.0, 0.4)])
@pytest.mark.parametrize("shape", SHAPES, ids=NAMES)
def test_vapo_loop(alpha, mu, shape):
    case, a = valued(draw(2, **shape)), VAPO(alpha=alpha, mu=mu)
    batch, loss, by_logp, _ = of(a, case)
    lam = [max(0.0, 1 - 1 / (alpha * count(case, i))) for i in range(len(case["mask"]))]
    adv = gae_loop(case, case["reward"], 1.0, lam)
    targets = {(i, t): sum(case["reward"][i][t:]) for i, t in tokens(case)}
    assert close(batch.advantages, table(adv, case)) and close(batch.returns, table(targets, case))
    right = [(i, t) for i, t in tokens(case) if sum(case["reward"][i]) > 0]

    def whole(case, adv):
        nll = -sum(case["logp"][i][t] for i, t in right) / max(len(right), 1)
        return surrogate_loop(case, adv, 0.2, 0.28) + 0.1 * value_loop(case, targets, 0.0) + mu * nll

    assert close(loss, whole(case, adv)) and close(by_logp, slope(whole, case, adv), 1e-6)


@pytest.mark.parametrize("algorithm", [
    ReinforcePlusPlus(), ReinforcePlusPlus(gamma=0.8), ReinforcePlusPlus(beta=0.2), ReinforcePlusPlus(baseline=True),
], ids=lambda a: re.sub(r" at 0x\w+", "", str(a)))  # fmt: skip
@pytest.mark.parametrize("shape", SHAPES, ids=NAMES)
def test_reinforce_plus_plus_loop(algorithm, shape):
    case, a = valued(draw(3, **shape)), algorithm
    batch, loss, by_logp, _ = of(a, case)
    reward = kl_rewards(case, a.beta)
    G = naive.returns(reward, case["mask"], a.gamma)
    level = [0.0] * len(reward)
    if a.baseline:
        R = [sum(row) for row in reward]
        level = [naive.mean([x for x, g in zip(R, case["group"]) if g == mine]) for mine in case["group"]]
    adv = whiten_loop({(i, t): G[i][t] - level[i] for i, t in tokens(case)})
    assert close(batch.advantages, table(adv, case), 1e-7)

    def whole(case, adv):
        return surrogate_loop(case, adv, 0.2, 0.2)

    assert close(loss, whole(case, adv), 1e-7) and close(by_logp, slope(whole, case, adv), 1e-6)


# --- identities -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_reductions(seed):
    """VAPO without its additions is PPO; without a critic's say REINFORCE++ is PPO; LitePPO's loss is
    DAPO's."""
    case = valued(draw(seed))
    plain = PPO(0.2, 0.28, lam=1.0, whiten=False)
    bare = of(VAPO(alpha=1e12, mu=0.0), case)
    for got, wanted in zip(bare[1:], of(plain, case)[1:]):
        assert close(got, wanted, 1e-8)
    zero = case | {k: torch.zeros_like(f64(case[k])).tolist() for k in ("values", "old_values")}
    assert close(of(PPO(), zero)[0].advantages, of(ReinforcePlusPlus(), zero)[0].advantages)
    batch, logp = batch_of(case), f64(case["logp"])
    batch = batch.set(advantages=f64(case["ref"]))
    one, other = value_and_grad(LitePPO(), batch, logp), value_and_grad(DAPO(clip_high=0.2), batch, logp)
    assert one[0] == other[0] and torch.equal(one[1], other[1])


def test_lam_one_is_return_minus_value():
    """Survey Eq. (14); λ = 0 leaves the one-step errors; an exact constant critic leaves nothing for any
    λ."""
    case = valued(draw(4))
    batch, *_ = of(PPO(lam=1.0, whiten=False), case)
    G = ops.discount(batch.rewards, batch.mask, 1.0)
    assert close(batch.advantages, (G - batch.values) * batch.mask)
    short = of(VAPO(alpha=0.01), case)[0].advantages  # α n ≤ 1: λ = 0
    assert close(short, of(PPO(lam=0.0, whiten=False), case)[0].advantages)
    paid = at_end(torch.full((6,), 0.7, dtype=torch.float64), batch.mask)
    sure = batch.set(rewards=paid, values=0.7 * batch.mask)
    for lam in (0.0, 0.5, 1.0):
        assert close(PPO(lam=lam, whiten=False).advantages(sure), torch.zeros_like(batch.mask))
    assert close(VAPO(alpha=0.3).returns(batch), VAPO(alpha=9.0).returns(batch))


@pytest.mark.parametrize("lengths", [(1, 20, 40), (400, 3000)])
def test_vapo_lambda_solves_its_equation(lengths):
    """Σ_k λ^k = α n wherever α n ≥ 1: read off from how a reward at the end reaches the first token (V =
    0)."""
    for n in lengths:
        mask = torch.ones(1, n, dtype=torch.float64)
        batch = by_hand(
            mask, rewards=at_end(torch.ones(1, dtype=torch.float64), mask), values=torch.zeros_like(mask)
        )
        adv = VAPO(alpha=0.05).advantages(batch)[0]  # λ^(n−1−t)
        lam = max(0.0, 1 - 1 / (0.05 * n))
        assert close(adv, [lam ** (n - 1 - t) for t in range(n)], 1e-7)
        if 0.05 * n >= 1:
            assert 1 / (1 - lam) == pytest.approx(0.05 * n)


def test_clips_stop_the_gradient_where_they_should():
    ratio = torch.tensor([[0.5, 1.0, 1.5, 4.0]] * 2, dtype=torch.float64)
    batch = by_hand(torch.ones(2, 4), advantages=f64([1.0, -1.0]), old_logp=torch.zeros(2, 4))
    _, grad = value_and_grad(ReinforcePlusPlus(dual_clip=3.0), batch, ratio.log())
    flat = grad == 0
    assert flat.tolist() == [[False, False, True, True], [True, False, False, True]]
    scores = Scores(ratio.log(), torch.zeros_like(ratio))
    assert torch.equal(ReinforcePlusPlus(dual_clip=3.0).clipped(scores, batch), flat)
    loss, _ = value_and_grad(ReinforcePlusPlus(log_clamp=0.1), batch, ratio.log())
    held, _ = value_and_grad(ReinforcePlusPlus(), batch, ratio.log().clamp(-0.1, 0.1))
    assert loss == held


@pytest.mark.parametrize("reward", [0.0, 1.0, 0.1])
@pytest.mark.parametrize("rows", [6, 1])
def test_equal_rewards_teach_next_to_nothing(reward, rows):
    """Whitening divides rounding by 1e-4, so what is left is small, not zero; LitePPO centres exactly."""
    mask = torch.ones(rows, 3)
    paid = at_end(torch.full((rows,), reward), mask)
    batch = by_hand(mask, rewards=paid, group=torch.arange(rows) % 2, values=torch.zeros_like(mask))
    for algorithm in (PPO(), ReinforcePlusPlus(), ReinforcePlusPlus(baseline=True)):
        assert float(algorithm.advantages(batch).abs().max()) < 1e-2
    assert bool((LitePPO().advantages(batch) == 0).all())


# --- where a KL may stand ---------------------------------------------------------------------------------


def expected_gradient(algorithm, theta, ref):
    """Exact E[∇ loss] of one-token rows at θ, every token of the vocabulary weighted with its probability."""
    theta = theta.clone().requires_grad_()
    logp = theta.log_softmax(0)
    n = len(theta)
    old = logp.detach()[:, None]
    batch = by_hand(torch.ones(n, 1), old_logp=old, ref_logp=ref[:, None], weight=torch.ones(n))
    batch = algorithm.reward(batch)
    batch = batch.set(advantages=batch.rewards)  # no whitening: the reward itself
    rows = [
        algorithm.loss(Scores(logp[i : i + 1, None], old), batch.rows(torch.tensor([i]))) for i in range(n)
    ]
    return torch.autograd.grad((torch.stack(rows) * logp.detach().exp()).sum(), theta)[0]


def test_gradients_of_the_places_of_a_kl():
    """k1 in the reward and k2 in the loss: ∇KL(π‖ref). k3 in the loss: ∇KL(ref‖π). k1 in the loss:
    refused."""
    made = torch.Generator().manual_seed(5)
    theta, other = (torch.randn(5, generator=made, dtype=torch.float64) for _ in range(2))
    ref, at = other.log_softmax(0), theta.clone().requires_grad_()
    p, q = at.log_softmax(0), ref
    (forward,) = torch.autograd.grad((p.exp() * (p - q)).sum(), at, retain_graph=True)
    (reverse,) = torch.autograd.grad((q.exp() * (q - p)).sum(), at)
    beta = 0.3
    assert close(expected_gradient(Proximal(beta=beta), theta, ref), beta * forward)
    assert close(
        expected_gradient(Proximal(beta=beta, kl_reward=None, kl_loss=ops.kl_k2), theta, ref), beta * forward
    )
    assert close(
        expected_gradient(Proximal(beta=beta, kl_reward=None, kl_loss=ops.kl_k3), theta, ref), beta * reverse
    )
    assert not close(forward, reverse, 1e-2)
    with pytest.raises(ValueError, match="expected gradient 0.*hint"):
        PPO(beta=beta, kl_loss=ops.kl_k1)
    with pytest.raises(ValueError, match="hint"):
        PPO(target=1.0)


def test_adapted_rests_at_its_target():
    assert adapted(0.3, 2.0, 2.0, 0.5) == 0.3
    assert 0.3 < adapted(0.3, 2.1, 2.0, 0.5) < adapted(0.3, 99.0, 2.0, 0.5) == pytest.approx(0.3 * 1.1)


def test_every_class_scores_a_batch_without_a_reference():
    """None asks for a reference policy unless it has a β; critics where the formula has V."""
    critics = {PPO: True, VAPO: True, PFPPO: True, PSGPO: True, VinePPO: False, ReinforcePlusPlus: False}
    for kind, critic in critics.items():
        assert kind().needs_critic is critic and not kind().needs_ref and kind(beta=0.1).needs_ref
