"""REINFORCE, RLOO, GRPO, Dr.GRPO, DAPO, GSPO against loops from their papers and numbers of public code."""

from functools import partial

import pytest
import torch

from arl_mini.algorithms import DAPO, GRPO, GSPO, RLOO, DrGRPO, Reinforce
from tests.algorithms import loops
from tests.algorithms.loops import draw, ours
from tests.algorithms.rows import by_hand, f64, value_and_grad
from tests.core.drawn import close
from tests.oracles.reading import cases

SIX = [  # the class, its advantages as a loop, its loss as a loop
    (Reinforce(), loops.reinforce_advantages, loops.log_likelihood_loss),
    (Reinforce(gamma=0.9), partial(loops.reinforce_advantages, gamma=0.9), loops.log_likelihood_loss),
    (Reinforce(baseline=True), partial(loops.reinforce_advantages, baseline=True), loops.log_likelihood_loss),
    (RLOO(), loops.rloo_advantages, loops.log_likelihood_loss),
    (GRPO(), loops.grpo_advantages, loops.grpo_loss),
    (GRPO(0.1, 0.3, beta=0.04), loops.grpo_advantages, partial(loops.grpo_loss, low=0.1, high=0.3, beta=0.04)),
    (DrGRPO(length=9), loops.drgrpo_advantages, partial(loops.drgrpo_loss, length=9)),
    (DAPO(), loops.grpo_advantages, loops.dapo_loss),
    (GSPO(), loops.grpo_advantages, loops.gspo_loss),
    (GSPO(0.2, 0.3), loops.grpo_advantages, partial(loops.gspo_loss, low=0.2, high=0.3)),
]
ALGORITHMS = [algorithm for algorithm, *_ in SIX]
NAMES = [str(algorithm) for algorithm in ALGORITHMS]


@pytest.mark.parametrize("algorithm, advantages, loss", SIX, ids=NAMES)
@pytest.mark.parametrize("shape", [
    dict(), dict(groups=1), dict(groups=6), dict(width=2, filled=0.0), dict(filled=1.0), dict(away=0.0),
], ids=["ragged", "one group", "groups of one", "single tokens", "no gaps", "on-policy"])  # fmt: skip
@pytest.mark.parametrize("seed", range(3))
def test_loop(algorithm, advantages, loss, shape, seed):
    """Advantages, loss, and its gradient by central differences."""
    case = draw(seed, **shape)
    adv, value, grad = ours(algorithm, case)
    naive = advantages(case)
    wanted = [[naive.get((i, t), 0.0) for t in range(adv.shape[1])] for i in range(adv.shape[0])]
    assert close(adv, wanted)
    assert close(value, loss(case, naive))
    assert close(grad, loops.slope(loss, case, naive), 1e-6)


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_forced_tokens_have_gradient_zero_and_no_say(algorithm, seed):
    """Whatever the scores at forced tokens are, the loss is the same and never pulls on them."""
    case = draw(seed)
    _, value, grad = ours(algorithm, case)
    forced = torch.tensor(case["mask"]) == 0
    assert bool((grad[forced] == 0).all()) and bool((grad[~forced] != 0).any())
    for name in ("logp", "old", "ref"):
        case[name] = torch.where(forced, f64(case[name]) - 1.7, f64(case[name])).tolist()
    _, again, grad_again = ours(algorithm, case)
    assert again == value and torch.equal(grad, grad_again)


@pytest.mark.parametrize("algorithm", [RLOO(), GRPO(), DrGRPO(), DAPO(), GSPO()], ids=str)
@pytest.mark.parametrize("reward", [0.0, 1.0, 0.1])
@pytest.mark.parametrize("rows, groups", [(6, 2), (6, 6), (1, 1)], ids=["equal rewards", "groups of one", "one row"])
def test_groups_without_contrast_teach_exactly_nothing(algorithm, reward, rows, groups):
    mask = torch.ones(rows, 3)
    placed = torch.zeros(rows, 3, dtype=torch.float64)
    placed[:, 2] = reward
    batch = by_hand(mask, rewards=placed, group=torch.arange(rows) % groups, old_logp=f64(mask) * -1)
    batch = batch.set(advantages=algorithm.advantages(batch))
    assert bool((batch.advantages == 0).all())
    loss, grad = value_and_grad(algorithm, batch, f64(mask) * -1.3)
    assert loss == 0.0 and bool((grad == 0).all())


# --- numbers of public code -------------------------------------------------------------------------------

KIND = {"grpo": GRPO, "drgrpo": DrGRPO, "dapo": DAPO, "gspo": GSPO}


def empties_out(case):
    return "empty" in case.id and case.peer["repo"].startswith("verl")


def lossy(case):
    """Losses our classes state as they are: no dual clip, the peer's reading of empty rows and lengths is ours."""
    h = case.hyper
    return h.get("dual_clip", 1e9) == 1e9 and not empties_out(case) and "padded" not in str(h.get("L_max"))


LOSSES = [c for kind in KIND for c in cases("policy_losses", f"{kind}-loss") if lossy(c.values[0])]


@pytest.mark.parametrize("case", LOSSES)
def test_loss_oracle(case):
    kind, h = KIND[case.id.split("-")[0]], case.hyper
    more = {"length": h["L_max"]} if kind is DrGRPO else {}
    algorithm = kind(clip_low=h["eps_low"], clip_high=h["eps_high"], beta=h["beta"], **more)
    columns = {"ref_logp": case.tensor("ref_logp")} if h["beta"] else {}
    batch = by_hand(case.inputs["mask"], old_logp=case.tensor("old_logp"), advantages=case.inputs["adv"], **columns)
    loss, grad = value_and_grad(algorithm, batch, case.inputs["logp"])
    case.meets(loss, case.outputs["loss"])
    case.meets(grad, case.grads["logp"])


# its other reductions are in tests/core/test_oracles.py
SUMS = [
    c for c in cases("policy_losses", "reinforce_loss") if c.values[0].hyper["loss_agg_mode"] == "seq-mean-token-sum"
]


@pytest.mark.parametrize("case", SUMS)
def test_reinforce_oracle(case):
    filled = [any(row) for row in case.inputs["mask"]]
    batch = by_hand(case.inputs["mask"], advantages=case.inputs["advantages"])
    loss, grad = value_and_grad(Reinforce(), batch, case.inputs["logp"])
    out = sum(filled) / len(filled)  # verl's mean leaves rows without sampled tokens out
    case.meets(loss / out, case.outputs["loss"])
    case.meets(grad / out, case.grads["logp"])


@pytest.mark.parametrize("case", cases("end_to_end"))
def test_from_rewards_to_gradient(case):
    """TRL's advantage block and loss in one; its ε is 1e-4, ours 1e-6: the same direction, 1.4e-4 apart."""
    kind, h, mask = KIND[case.id.removeprefix("e2e-")], case.hyper, f64(case.inputs["mask"])
    more = {"length": h["max_completion_length"]} if kind is DrGRPO else {}
    placed = torch.zeros_like(mask)
    placed[:, 0] = case.tensor("rewards")
    batch = by_hand(mask, rewards=placed, group=case.group, old_logp=case.tensor("old_logp"))
    batch = batch.set(advantages=kind(**more).advantages(batch))
    loss, grad = value_and_grad(kind(**more), batch, case.inputs["logp"])
    std = 0.5**0.5  # of rewards 1 and 0
    scale = 1.0 if kind is DrGRPO else (std + 1e-6) / (std + h["epsilon"])
    case.meets(batch.advantages[:, 0] * scale, case.outputs["advantages"])
    case.meets(loss * scale, case.outputs["loss"])
    case.meets(grad * scale, case.grads["logp"])


@pytest.mark.parametrize("case", cases("dapo", "dapo-overlong"))
def test_overlong_oracle(case):
    """verl scales the penalty and trusts that no row is longer than the limit."""
    lengths, h = case.inputs["lengths"], case.hyper
    mask = torch.tensor([[float(t < n) for t in range(max(lengths))] for n in lengths])
    paid = DAPO(length=h["L_max"], soft=h["L_cache"]).reward(by_hand(mask))
    case.meets(paid.reward * h.get("penalty_factor", 1.0), case.outputs["reward"])
    assert bool((paid.rewards[mask == 0] == 0).all())
    ends = [int(row.nonzero()[-1]) for row in paid.rewards if bool((row != 0).any())]
    assert ends == [n - 1 for n, r in zip(lengths, case.outputs["reward"]) if r]
