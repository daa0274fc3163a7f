"""Every shared formula against numbers that public code computed: value and gradient, at each case's own tolerance.

Where the peers read a formula in two ways, both readings are computed here from our parts.
"""

import pytest
import torch

from arl_mini import ops
from arl_mini.batch import Batch
from arl_mini.rewards import at_end, kl_penalty
from tests.oracles.reading import cases


def grad(loss, x):
    return torch.autograd.grad(loss, x)[0]


def rows_filled(case):
    """Share of rows that have a sampled token: verl's means of rows divide by these only."""
    return float((case.tensor("mask").sum(1) > 0).double().mean())


# --- advantages in a group --------------------------------------------------------------------------------


def advantage_of(case):
    R, g = case.tensor("rewards"), case.group
    if "old_logp" in case.inputs and case.hyper.get("beta"):
        R = R - case.hyper["beta"] * (ops.kl_k1(case.tensor("old_logp"), case.tensor("ref_logp")) * case.tensor("mask")).sum(1)
    if case.id.startswith(("rloo", "rloo_advantage")):
        return ops.group_leave_one_out(R, g)
    if case.id.startswith("drgrpo"):
        return ops.group_center(R, g)
    return ops.group_zscore(R, g, case.hyper["epsilon"])


@pytest.mark.parametrize("case", cases("group_advantages"))
def test_group_advantage(case):
    ours = advantage_of(case)
    shared = ops.group_size(case.group) > 1
    for name, wanted in case.outputs.items():
        wanted = torch.tensor(wanted, dtype=torch.float64)
        got = ours
        if wanted.dim() == 2:
            got = ops.per_token(ours, case.tensor("mask"))
        case.meets(got[shared], wanted[shared])
        if not bool(shared.all()):  # a group of one: ours is 0, and peers keep the reward itself or say 0 too
            assert bool((got[~shared] == 0).all())
            raw = case.tensor("rewards")[~shared]
            theirs = wanted[~shared] if wanted.dim() == 1 else wanted[~shared].abs().amax(1) * wanted[~shared].sum(1).sign()
            keeps = "vect" not in case.id and "trl" not in case.id and "oatzero" not in case.id
            torch.testing.assert_close(theirs, raw if keeps else torch.zeros_like(raw), rtol=1e-5, atol=1e-8)


# --- policy losses ----------------------------------------------------------------------------------------


def advantages_of(case):
    """(B, T) weight of each token, whichever way the case writes it."""
    name = next(n for n in ("adv", "advantages", "advantages_seq") if n in case.inputs)
    A = case.tensor(name)
    return A if A.dim() == 2 else ops.per_token(A, torch.ones_like(case.tensor("logp")))


def ratio_of(case, logp):
    old = case.tensor("old_logp")
    clamp = case.hyper.get("logratio_clamp")  # a guard of verl and OpenRLHF, not part of the formula
    if clamp:
        logp = old + (logp - old).clamp(-clamp, clamp)
    if case.id.startswith("gspo"):
        return ops.sequence_ratio(logp, old, case.tensor("mask")).expand_as(logp)
    return ops.ratio(logp, old)


def per_token_loss(case, logp):
    h, A = case.hyper, advantages_of(case)
    if "old_logp" not in case.inputs:
        return -logp * A
    low, high = (h.get(a, h.get(b)) for a, b in (("eps_low", "clip_low"), ("eps_high", "clip_high")))
    dual = h.get("dual_clip") or h.get("dual_clip_c") or 0.0
    x = ops.clipped_surrogate(ratio_of(case, logp), A, low, high)
    if dual:  # verl's extra bound for A < 0
        x = torch.where(A < 0, torch.minimum(x, -A * dual), x)
    if h.get("beta"):
        x = x + h["beta"] * ops.kl_k3(logp, case.tensor("ref_logp"))
    return x


def reduced(case, x):
    """The case's own reduction, from ours. verl and OpenRLHF leave empty rows out of means of rows."""
    mask = case.tensor("mask")
    B, T = mask.shape
    name = case.hyper.get("agg") or case.hyper["loss_agg_mode"]
    out = 1.0 if case.peer["repo"].startswith(("huggingface", "modelscope")) else rows_filled(case)
    if name == "token-mean":
        return ops.token_mean(x, mask)
    if name in ("seq-mean-token-mean", "mean over sequences"):
        return ops.sequence_mean(x, mask) / out
    if name == "seq-mean-token-sum":
        return ops.sequence_sum(x, mask) / out
    if name == "seq-mean-token-sum-norm":
        return ops.constant_mean(x, mask, T) * B
    if "padded" in str(case.hyper["L_max"]):
        return ops.constant_mean(x, mask, T) / out
    return ops.constant_mean(x, mask, case.hyper["L_max"])


LOSSES = [c for c in cases("policy_losses") if "mask" in c.values[0].inputs and not c.id.startswith("rloo")]


@pytest.mark.parametrize("case", LOSSES)
def test_policy_loss(case):
    logp = case.tensor("logp").requires_grad_()
    loss = reduced(case, per_token_loss(case, logp))
    case.meets(loss, case.outputs["loss"])
    case.meets(grad(loss, logp), case.grads["logp"])


@pytest.mark.parametrize("case", [c for c in LOSSES if "clipfrac" in c.values[0].outputs])
def test_share_of_clipped_tokens(case):
    r, A, mask = ratio_of(case, case.tensor("logp")), advantages_of(case), case.tensor("mask")
    cut = ops.is_clipped(r, A, case.hyper["clip_low"], case.hyper["clip_high"])
    case.meets(ops.token_mean(cut.double(), mask), case.outputs["clipfrac"])
    if case.peer["repo"].startswith("OpenRLHF"):  # verl logs it after its clamp
        kl = ops.token_mean(ops.kl_k1(case.tensor("old_logp"), case.tensor("logp")), mask)
        case.meets(kl, case.outputs["ppo_kl"])


@pytest.mark.parametrize("case", cases("policy_losses", "ppo_policy_loss_per_token"))
def test_policy_loss_of_each_token(case):
    logp = case.tensor("logp").requires_grad_()
    x = per_token_loss(case, logp)
    case.meets(x, case.outputs["per_token_loss"])
    case.meets(grad(x.sum(), logp), case.grads["logp"])
    cut = ops.is_clipped(ratio_of(case, logp), advantages_of(case), case.hyper["clip_low"], case.hyper["clip_high"])
    assert cut.double().tolist() == case.outputs["clipped"]


@pytest.mark.parametrize("case", cases("policy_losses", "rloo_loss"))
def test_rloo_on_policy_is_reinforce_over_whole_rows(case):
    """TRL's ratio of a whole row is 1 on-policy: its gradient is that of the sum of log-probabilities."""
    logp, mask = case.tensor("logp").requires_grad_(), case.tensor("mask")
    loss = ops.sequence_sum(-logp * ops.per_token(case.tensor("advantages_seq"), mask), mask)
    case.meets(grad(loss, logp), case.grads["logp"])


# --- KL ---------------------------------------------------------------------------------------------------

KIND = {"k1": ops.kl_k1, "k2": ops.kl_k2, "mse": ops.kl_k2, "k3": ops.kl_k3, "control_variate": ops.kl_k3}
ESTIMATORS = [c for c in cases("kl") if c.id.startswith(("kl-k", "kl_estimator", "kl_straight"))]


@pytest.mark.parametrize("case", ESTIMATORS)
def test_kl_estimator(case):
    logp, ref = case.tensor("logp").requires_grad_(), case.tensor("ref_logp")
    kind = case.hyper.get("kl") or case.hyper["kind"]
    if kind == "k3+":  # value of k3, gradient of k2
        k2 = ops.kl_k2(logp, ref)
        kl = k2 + (ops.kl_k3(logp, ref) - k2).detach()
    else:
        kl = KIND[kind](logp, ref)
    if "clamped to [-10,10] at the end" in case.note:  # a guard of OpenRLHF
        kl = kl.clamp(-10, 10)
    case.meets(kl, case.outputs["kl"])
    if case.grads:
        case.meets(grad(kl.sum(), logp), case.grads["logp"])


@pytest.mark.parametrize("case", cases("kl", "kl_expectations"))
def test_kl_expectations(case):
    theta = case.tensor("pi_logits").requires_grad_()
    logp, ref = theta.log_softmax(0), case.tensor("ref_logits").log_softmax(0)
    pi = logp.detach().exp()
    for name, estimator in (("k1", ops.kl_k1), ("k2", ops.kl_k2), ("k3", ops.kl_k3)):
        mean = (pi * estimator(logp, ref)).sum()
        case.meets(mean, case.outputs[f"E_{name}"])
        gradient = torch.autograd.grad(mean, theta, retain_graph=True)[0]
        wanted = torch.tensor(case.outputs[f"E_grad_{name}"], dtype=torch.float64)
        torch.testing.assert_close(gradient, wanted, rtol=case.rtol, atol=1e-12)


def columns(case, mask):
    """A Batch that has what `kl_penalty` needs."""
    B, T = mask.shape
    zero = torch.zeros(B, T, dtype=torch.float64)
    old, ref = (case.tensor(n) for n in ("old_logp", "ref_logp"))
    row = torch.zeros(B, dtype=torch.long)
    return Batch(zero.long(), mask, old, zero, zero.long(), row, row, row > 0, row > 0, ref_logp=ref)


@pytest.mark.parametrize("case", cases("kl", "kl_in_reward"))
def test_kl_in_reward(case):
    beta = case.hyper["kl_coef"]
    if "token_scores" in case.inputs:
        got = case.tensor("token_scores") + kl_penalty(columns(case, torch.ones_like(case.tensor("old_logp"))), beta)
        case.meets(got, case.outputs["token_rewards"])
    else:  # OpenRLHF: the reward at the last sampled token; its KL term is masked later, ours at once
        mask = case.tensor("mask")
        got = at_end(case.tensor("reward_seq"), mask) - beta * case.tensor("kl_per_token")
        case.meets(got, case.outputs["token_rewards"])


# --- along one episode ------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("returns", "gae"))
def test_gae(case):
    mask, gamma, lam = case.tensor("mask"), case.hyper["gamma"], case.hyper["lam"]
    r, V = case.tensor("token_rewards") * mask, case.tensor("values") * mask
    # verl skips what is not sampled, as ours; OpenRLHF takes a gap for states of value 0: the same with a full mask
    steps = torch.ones_like(mask) if case.id.startswith("gae-openrlhf") else mask
    got, sampled = ops.gae(r, V, steps, gamma, lam), mask > 0
    case.meets(got[sampled], torch.tensor(case.outputs["advantages_raw"])[sampled])
    if "returns" in case.outputs:
        case.meets((got + V)[sampled], torch.tensor(case.outputs["returns"])[sampled])
    if "advantages_whitened" in case.outputs:
        case.meets(ops.whiten(got, mask)[sampled], torch.tensor(case.outputs["advantages_whitened"])[sampled])


@pytest.mark.parametrize("case", cases("returns", "returns_to_go"))
def test_returns(case):
    """OpenRLHF multiplies by γ at observations too, ours counts sampled tokens; with γ = 1 there is one reading."""
    mask, gamma = case.tensor("mask"), case.hyper["gamma"]
    r, sampled = case.tensor("token_rewards") * mask, mask > 0
    theirs = ops.discount(r, torch.ones_like(mask), gamma)
    wanted = torch.tensor(case.outputs["returns"])
    case.meets(theirs[sampled], wanted[sampled])
    differs = "gap" in case.id and gamma < 1
    same = torch.allclose(ops.discount(r, mask, gamma)[sampled], theirs[sampled], atol=1e-9)
    assert same != differs


@pytest.mark.parametrize("case", cases("returns", "masked_whiten"))
def test_whiten(case):
    sampled = case.tensor("mask") > 0
    got = ops.whiten(case.tensor("x"), case.tensor("mask"))
    case.meets(got[sampled], torch.tensor(case.outputs["y"])[sampled])


ESTIMATE = {
    "rloo": ops.group_leave_one_out, "dr_grpo": ops.group_center,
    "group_norm": lambda R, g: ops.group_zscore(R, g, 1e-9), "reinforce": lambda R, g: R,
    "reinforce_baseline": ops.group_center,
}  # fmt: skip


@pytest.mark.parametrize("case", cases("returns", "openrlhf_advantages"))
def test_shaped_returns(case):
    """Group statistics, KL in the reward, returns and (both readings of) whitening, one after the other."""
    mask, kind = case.tensor("mask"), case.hyper["estimator"]
    R = ESTIMATE[kind](case.tensor("rewards"), case.group)
    r = at_end(R, mask) - case.hyper["kl_coef"] * case.tensor("kl_per_token") * mask
    got, sampled = ops.discount(r, mask, case.hyper["gamma"]), mask > 0
    case.meets(got[sampled], torch.tensor(case.outputs["returns"])[sampled])
    if kind.startswith("reinforce"):  # OpenRLHF whitens with the population's variance, ours with the sample's
        n = mask.sum()
        spread = got[sampled].var() > 1e-6
        got = ops.whiten(got, mask) * ((n / (n - 1)).sqrt() if spread else 1.0)
    case.meets(got[sampled], torch.tensor(case.outputs["advantages"])[sampled])
