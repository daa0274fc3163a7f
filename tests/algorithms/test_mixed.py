"""LUFFY, CHORD and PAPO: their losses against oracles and loops, and the rows they add against the worlds."""

import math

import numpy as np
import pytest
import torch

from arl_mini import Limits, envs, models, train
from arl_mini.algorithms import CHORD, DAPO, GRPO, LUFFY, PAPO
from arl_mini.batch import collate
from arl_mini.models.score import score
from arl_mini.ops import group_center, group_zscore, token_mean
from tests.algorithms.rows import by_hand, f64, random_batch, value_and_grad
from tests.oracles.reading import cases

CHAIN = {"steps": 1, "prompts": 3, "tries": 4, "limits": Limits(turn_tokens=12, turns=2, total=64)}


def marked(batch, expert):
    """The batch with these rows (B,) as the expert's."""
    return batch.set(expert=torch.as_tensor(expert).bool())


# --- oracles ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("mixed", "luffy-loss"))
def test_luffy_oracle(case):
    """Both readings: the paper's clipped mean over tokens, the release's unclipped sum over the width."""
    expert = case.tensor("off_policy_mask").any(1)
    batch = by_hand(
        case.inputs["mask"], old_logp=case.tensor("old_logp"), advantages=case.inputs["adv"], expert=expert
    )
    released = case.hyper["on_policy_clip"] is None
    clip = torch.inf if released else case.hyper["on_policy_clip"]
    loss, grad = value_and_grad(LUFFY(clip, clip, gamma=case.hyper["gamma"]), batch, case.inputs["logp"])
    scale = float(batch.mask.sum() / batch.mask.shape[1]) if released else 1.0
    case.meets(scale * loss, case.outputs["loss"])
    case.meets(scale * grad, case.grads["logp"])


@pytest.mark.parametrize("case", cases("mixed", "luffy-adv"))
def test_luffy_advantage_oracle(case):
    """The group's statistics hold all its rows; a variant of the release takes those of its own tries."""
    rewards, group, mask = case.tensor("rewards"), case.group, case.tensor("mask")
    own = torch.tensor(case.inputs.get("on_policy", [1] * len(rewards))).bool()
    if "split" not in case.id:
        got = (group_zscore if case.hyper["use_std"] else group_center)(rewards, group)
        batch = by_hand(mask, rewards=torch.stack([rewards, 0 * rewards], 1), group=group)
        assert case.hyper["use_std"] or torch.equal(LUFFY().advantages(batch)[:, 0], got)
    else:
        got = torch.zeros_like(rewards)
        for g in group.unique():
            mine = rewards[own & (group == g)]
            scale = mine.std() + case.hyper["epsilon"] if case.hyper["use_std"] else 1.0
            got[group == g] = (rewards[group == g] - mine.mean()) / scale
    case.meets(got[:, None] * mask, case.outputs["advantages"])


@pytest.mark.parametrize("case", cases("mixed", "chord-loss"))
def test_chord_oracle(case):
    hyper = case.hyper
    batch = by_hand(case.inputs["mask"], old_logp=case.tensor("old_logp"), advantages=case.inputs["adv"])
    weight = {"peak": hyper["mu"], "valley": hyper["mu"], "phi": hyper["phi"]}
    chord = CHORD(hyper["clip"], hyper["clip"], dual_clip=hyper["dual_clip"], **weight)
    loss, grad = value_and_grad(chord, marked(batch, case.inputs["expert"]), case.inputs["logp"])
    case.meets(loss, case.outputs["loss"])
    case.meets(grad, case.grads["logp"])


@pytest.mark.parametrize("case", cases("mixed", "chord-mu"))
def test_chord_schedule_oracle(case):
    chord = CHORD(**{k: case.hyper[k] for k in ("peak", "valley", "warmup", "decay")})
    case.meets([chord.mu(step) for step in case.inputs["step"]], case.outputs["mu"])


def paired(case):
    """Rows and, behind them in another order, their copies; and the log-probabilities of both."""
    order = [2, 0, 1]
    n = len(order)
    two = {k: torch.cat([case.tensor(k), case.tensor(k)[order]]) for k in ("mask", "old_logp", "ref_logp")}
    adv = torch.cat(
        [case.tensor("adv"), case.tensor("adv")[order] + 9]
    )  # a copy's own advantage must not matter
    batch = by_hand(
        two["mask"], old_logp=two["old_logp"], ref_logp=two["ref_logp"], advantages=adv,
        pair=torch.tensor([*range(n), *order]), blanked=torch.tensor([False] * n + [True] * n),
    )  # fmt: skip
    return batch, torch.cat([case.tensor("logp"), case.tensor("aug_logp")[order]]), order


@pytest.mark.parametrize("detach", [True, False], ids=["released", "paper"])
@pytest.mark.parametrize("case", cases("mixed", "papo-loss"))
def test_papo_oracle(case, detach):
    """Both readings: gradient through the copies as in the formula, or none as in the release."""
    h = case.hyper
    papo = PAPO(h["eps_low"], h["eps_high"], h["beta"], h["dual_clip"], gamma=h["gamma_prcp"],
                eta_copy=h["eta_aug_entropy"], eta_row=h["eta_ori_entropy"], detach=detach)  # fmt: skip
    batch, logp, order = paired(case)
    loss, grad = value_and_grad(papo, batch, logp)
    case.meets(loss, case.outputs["loss"])
    case.meets(grad[:3], case.grads["logp"])
    case.meets(grad[3:], torch.zeros(3, 5) if detach else f64(case.grads["aug_logp"])[order])


# --- loops written from the papers ------------------------------------------------------------------------


def loop_luffy(a, batch, logp):
    total = 0.0
    for i in range(len(batch)):
        for t in batch.mask[i].nonzero()[:, 0].tolist():
            adv, p = float(batch.advantages[i, t]), math.exp(float(logp[i, t]))
            r = p / math.exp(float(batch.old_logp[i, t]))
            held = min(max(r, 1 - a.clip_low), 1 + a.clip_high)
            total -= adv * p / (p + a.gamma) if batch.expert[i] else min(adv * r, adv * held)
    return total / float(batch.mask.sum())


def loop_chord(a, batch, logp):
    own = told = 0.0
    for i in range(len(batch)):
        for t in batch.mask[i].nonzero()[:, 0].tolist():
            adv, p = float(batch.advantages[i, t]), math.exp(float(logp[i, t]))
            r = p / math.exp(float(batch.old_logp[i, t]))
            if batch.expert[i]:
                told -= (p * (1 - p) if a.phi else 1) * float(logp[i, t])
            else:
                own -= min(adv * r, adv * min(max(r, 1 - a.clip_low), 1 + a.clip_high))
    n, m = (float(batch.mask[rows].sum()) for rows in (~batch.expert, batch.expert))
    mu = a.mu(batch.step)
    return (1 - mu) * own / n + mu * told / m


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("algorithm, loop", [
    (LUFFY(), loop_luffy), (CHORD(), loop_chord),
    (CHORD(phi=False, peak=0.9, valley=0.05, decay=200), loop_chord),
])  # fmt: skip
def test_loop_from_the_paper(algorithm, loop, seed):
    batch, logp = random_batch(seed, rows=8)
    batch = marked(batch.set(step=50), [0, 0, 1, 0, 0, 1, 0, 0])
    batch = batch.set(advantages=algorithm.advantages(batch))
    loss, grad = value_and_grad(algorithm, batch, logp)
    assert loss == pytest.approx(loop(algorithm, batch, logp), rel=1e-12)
    assert bool((grad[batch.mask == 0] == 0).all())


# --- identities and edges ---------------------------------------------------------------------------------


def test_chord_at_mu_one_is_imitation_and_at_mu_zero_grpo_with_a_token_mean():
    batch, logp = random_batch(3, rows=8)
    batch = marked(batch, [0, 1] * 4)
    batch = batch.set(advantages=GRPO().advantages(batch))
    loss, grad = value_and_grad(CHORD(peak=1.0, valley=1.0, phi=False), batch, logp)
    assert loss == pytest.approx(float(token_mean(-logp[batch.expert], batch.mask[batch.expert])), rel=1e-12)
    assert bool((grad[~batch.expert] == 0).all())
    loss, grad = value_and_grad(CHORD(peak=0.0, valley=0.0), batch, logp)
    own = batch.rows(~batch.expert)
    other, wanted = value_and_grad(DAPO(clip_high=0.2), own, logp[~batch.expert])
    assert loss == pytest.approx(other, rel=1e-12)
    torch.testing.assert_close(grad[~batch.expert], wanted)
    assert bool((grad[batch.expert] == 0).all())


def test_chord_phi_pulls_least_at_sure_and_at_hopeless_tokens():
    p = f64([[1e-6, 0.1, 0.5, 0.9, 1 - 1e-9]])
    batch = marked(by_hand(torch.ones(1, 5), advantages=[0.0]), [1])
    pull = -value_and_grad(CHORD(peak=1.0, valley=1.0), batch, p.log())[1][0] * 5
    torch.testing.assert_close(pull, (p * (1 - p))[0])
    assert int(pull.argmax()) == 2


def test_luffy_pulls_most_at_gamma_and_forgets_old_logp():
    p = f64([[0.001, 0.05, 0.1, 0.2, 0.9]])
    batch = marked(by_hand(torch.ones(1, 5), advantages=[1.0]), [1])
    loss, grad = value_and_grad(LUFFY(), batch, p.log())
    torch.testing.assert_close(-grad[0] * 5, (0.1 * p / (p + 0.1) ** 2)[0])
    assert int((-grad[0]).argmax()) == 2
    assert value_and_grad(LUFFY(), batch.set(old_logp=p.log() - 3), p.log())[0] == loss


def test_luffy_with_a_large_gamma_weighs_by_probability():
    p = f64([[0.2, 0.6]])
    batch = marked(by_hand(torch.ones(1, 2), advantages=[1.0]), [1])
    assert 1e9 * value_and_grad(LUFFY(gamma=1e9), batch, p.log())[0] == pytest.approx(-0.4, rel=1e-6)


def test_papo_without_its_terms_is_grpo_and_with_equal_copies_the_pull_is_zero():
    case = cases("mixed", "papo-loss-D")[0].values[0]
    batch, logp, _ = paired(case)
    host = DAPO(clip_high=0.3)
    wanted, grad = value_and_grad(host, batch.rows(~batch.blanked), logp[:3])
    equal = torch.cat([logp[:3], logp[:3][[2, 0, 1]]])
    plain = PAPO(beta=0.0, gamma=0.0, eta_copy=0.0, eta_row=0.0)
    for papo, at in ((plain, logp), (PAPO(beta=0.0, eta_copy=0.0, eta_row=0.0), equal)):
        loss, got = value_and_grad(papo, batch, at)
        assert loss == pytest.approx(wanted, rel=1e-12)
        torch.testing.assert_close(got[:3], grad)
        assert bool((got[3:] == 0).all())


def test_no_contrast_no_gradient_on_own_rows():
    batch, logp = random_batch(5, rows=4)
    batch = batch.set(rewards=torch.zeros_like(batch.rewards))
    for algorithm in (LUFFY(), CHORD(peak=0.0, valley=0.0)):
        even = batch.set(advantages=algorithm.advantages(batch))
        assert bool((value_and_grad(algorithm, even, logp)[1] == 0).all())


# --- the rows they add ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def novice():
    return models.load("chain-atoms")


def sampler_of(policy, algorithm, **settings):
    return train(policy, envs.Chain((2, 3)), algorithm, **CHAIN | settings)._sampler()


def test_luffy_puts_one_expert_into_each_group(novice):
    batch = collate(LUFFY().plan(sampler_of(novice, LUFFY())))
    assert len(batch) == 12 and int(batch.expert.sum()) == 3
    for g in batch.group.unique():
        rows = (batch.group == g).nonzero()[:, 0].tolist()
        assert len(rows) == 4 and [bool(batch.expert[i]) for i in rows] == [False] * 3 + [True]
        prompts = {batch.episodes[i].tokens[batch.episodes[i].turn == -1].tobytes() for i in rows}
        assert len(prompts) == 1  # the expert was asked the same
    assert bool(batch.success[batch.expert].all())
    with pytest.raises(ValueError, match="at least 2 tries"):
        LUFFY().plan(sampler_of(novice, LUFFY(), tries=1))


def test_chord_adds_its_share_of_expert_rows_on_other_tasks(novice):
    episodes = CHORD().plan(sampler_of(novice, CHORD()))
    shown = [e for e in episodes if e.expert]
    assert (len(episodes), len(shown)) == (15, 3)
    assert not {e.group for e in shown} & {e.group for e in episodes if not e.expert}
    assert all(not e.expert for e in CHORD(share=0.0).plan(sampler_of(novice, CHORD())))


def test_papo_blanks_what_was_observed_and_nothing_else(novice):
    episodes = PAPO(blank=1.0).plan(sampler_of(novice, PAPO()))
    rows, copies = episodes[:12], episodes[12:]
    for row, copy in zip(rows, copies, strict=True):
        assert row.pair == copy.pair and copy.blanked and copy.group == -1 - row.group
        changed = row.tokens != copy.tokens
        assert not (changed & (row.mask > 0)).any()
        assert copy.text.replace("<pad>", "") == f"<user><bot>{row.text.partition('<bot>')[2]}"
    share = np.mean([
        (copy.tokens == 0).sum() / (row.mask == 0).sum()
        for row, copy in zip(rows, PAPO().plan(sampler_of(novice, PAPO()))[12:])
    ])  # fmt: skip
    assert 0.2 < share < 0.7  # of 0.6 blanks, less the two tags that stay


def test_rows_nobody_sampled_get_the_policys_own_old_logp(novice):
    run = train(novice, envs.Chain((2, 3)), LUFFY(), **CHAIN)
    batch, signal = run._prepare(LUFFY().plan(run._sampler()))
    with torch.no_grad():
        now = score(novice, batch).logp
    torch.testing.assert_close(batch.old_logp[batch.expert], now[batch.expert], atol=1e-5, rtol=0)
    assert 0 <= signal <= 1


@pytest.mark.parametrize("algorithm", [LUFFY(), CHORD(), PAPO()], ids=lambda a: type(a).__name__)
def test_records_count_only_what_the_policy_did(algorithm):
    record = next(train(models.load("chain-atoms"), envs.Chain((2, 3)), algorithm, seed=1, **CHAIN))
    assert len(record.episodes) == (9 if isinstance(algorithm, LUFFY) else 12)
    assert record.tokens == sum(int(e.mask.sum()) for e in record.episodes)
    assert abs(record.kl) < 1e-6  # one update, so the policy is still the one that sampled


def test_rows_and_copies_stay_together_in_minibatches():
    run = train(
        models.load("chain-atoms"), envs.Chain((2, 3)), PAPO(), **CHAIN | {"minibatches": 5, "micro": 3}
    )
    assert math.isfinite(next(run).loss)
