"""The losses of the DPO family against the numbers of public code."""

from dataclasses import dataclass

import pytest
import torch

from arl_mini import ops
from arl_mini.algorithms import DMPO, DPO, ETO, IPO, KTO, LCPO, ORPO, SDPO, BetaDPO, OnlineDPO, SimPO, StepDPO
from arl_mini.algorithms.preference import by_score
from tests.algorithms.rows import by_hand, f64, value_and_grad
from tests.oracles.reading import cases


def paired(case):
    """(batch, logp): the chosen rows of a case, then its rejected ones."""
    both = {k: torch.cat([case.tensor(f"chosen_{k}"), case.tensor(f"rejected_{k}")])
            for k in ("logp", "mask", "turn") if f"chosen_{k}" in case.inputs}  # fmt: skip
    turn = both.get("turn", torch.zeros_like(both["logp"])).long()
    mask = both.get("mask", (turn >= 0).double())
    columns = {}
    if "ref_chosen_logp" in case.inputs:
        columns["ref_logp"] = torch.cat([case.tensor("ref_chosen_logp"), case.tensor("ref_rejected_logp")])
    pairs = len(mask) // 2
    pair, chosen = torch.arange(pairs).repeat(2), torch.arange(2 * pairs) < pairs
    weight = torch.ones(2 * pairs, dtype=torch.float64)
    return by_hand(mask, turn=turn, pair=pair, chosen=chosen, weight=weight, **columns), both["logp"]


def checked(case, algorithm, batch=None):
    made, logp = paired(case)
    loss, grad = value_and_grad(algorithm, made if batch is None else batch, logp)
    case.meets(loss, case.outputs["loss"])
    if case.grads:
        case.meets(grad, torch.cat([f64(case.grads["chosen_logp"]), f64(case.grads["rejected_logp"])]))


@pytest.mark.parametrize("case", cases("preferences", "dpo/"))
def test_dpo_oracle(case):
    checked(case, DPO(case.hyper["beta"], case.hyper.get("label_smoothing", 0.0)))


@pytest.mark.parametrize("case", cases("preferences", "simpo/"))
def test_simpo_oracle(case):
    h = case.hyper
    gamma = h["gamma"] if "gamma" in h else h["gamma_beta_ratio"] * h["beta"]
    if h.get("loss_type", "sigmoid") == "hinge":
        return checked(case, HingeSimPO(h["beta"], gamma=gamma))
    checked(case, SimPO(h["beta"], h.get("label_smoothing", 0.0), gamma=gamma))


class HingeSimPO(SimPO):
    """The other loss of the authors' code."""

    def penalty(self, margin):
        return (1 - self.beta * margin).clamp(min=0)


@pytest.mark.parametrize("case", cases("preferences", "ipo-sum/"))
def test_ipo_sum_oracle(case):
    checked(case, IPO(case.hyper["tau"], mean=False))


@pytest.mark.parametrize("case", cases("preferences", "ipo-mean/"))
def test_ipo_mean_oracle(case):
    checked(case, IPO(case.hyper["tau"]))


@pytest.mark.parametrize("case", cases("preferences", "step-dpo/"))
def test_step_dpo_oracle(case):
    checked(case, StepDPO(case.hyper["beta"]))


@pytest.mark.parametrize("case", cases("preferences", "lcpo/"))
def test_lcpo_oracle(case):
    checked(case, LCPO())


@pytest.mark.parametrize("case", cases("preferences", "eto/"))
def test_eto_oracle(case):
    checked(case, ETO(case.hyper["beta"]))


@pytest.mark.parametrize("case", cases("preferences", "sdpo/"))
def test_sdpo_oracle(case):
    checked(case, SDPO(case.hyper["beta"]))


@pytest.mark.parametrize("case", cases("preferences", "dmpo"))
def test_dmpo_oracle_in_both_readings(case):
    checked(case, DMPO(case.hyper["beta"], gamma=case.hyper["gamma"], decays=case.id.startswith("dmpo/")))


@dataclass(frozen=True)
class ORPOByRow(ORPO):
    """LLaMA-Factory's likelihood."""

    def nll(self, logp, mask):
        return ops.sequence_mean(-logp, mask)


@dataclass(frozen=True)
class ORPOOver(ORPO):
    """The authors' likelihood, over tokens of its own mask."""

    nll_mask: torch.Tensor | None = None

    def nll(self, logp, mask):
        return ops.token_mean(-logp, self.nll_mask)


@pytest.mark.parametrize("case", cases("preferences", "orpo/"))
def test_orpo_oracle_in_all_three_readings_of_the_likelihood(case):
    if "chosen_nll_mask" in case.inputs:
        return checked(case, ORPOOver(lam=case.hyper["lam"], nll_mask=case.tensor("chosen_nll_mask")))
    checked(case, (ORPOByRow if "per-sequence" in case.hyper["nll"] else ORPO)(lam=case.hyper["lam"]))


def kto_batch(case):
    """(batch, logp): labelled rows, then the mismatched ones."""
    both = {k: torch.cat([case.tensor(k), case.tensor(f"kl_{k}")]) for k in ("logp", "ref_logp", "mask")}
    good = torch.tensor(case.inputs["desirable"])
    pair = torch.cat([torch.arange(len(good)), torch.full((len(case.inputs["kl_logp"]),), -1)])
    chosen = torch.cat([good, torch.zeros(len(pair) - len(good)).bool()])
    return by_hand(both["mask"], ref_logp=both["ref_logp"], pair=pair, chosen=chosen), both["logp"]


@pytest.mark.parametrize("case", cases("preferences", "kto/"))
def test_kto_oracle(case):
    h = case.hyper
    batch, logp = kto_batch(case)
    loss, grad = value_and_grad(KTO(h["beta"], h["desirable_weight"], h["undesirable_weight"]), batch, logp)
    case.meets(loss, case.outputs["loss"])
    n = len(case.inputs["logp"])
    case.meets(grad[:n], case.grads["logp"])
    assert bool((grad[n:] == 0).all())


@pytest.mark.parametrize("case", cases("preferences", "kto-variant/rlhfbook"))
def test_kto_of_a_book_adds_two_means_instead_of_pooling(case):
    batch, logp = kto_batch(case)
    parts = 0.0
    for good, lam in ((True, case.hyper["desirable_weight"]), (False, case.hyper["undesirable_weight"])):
        rows = ((batch.pair < 0) | (batch.chosen == good)).nonzero()[:, 0]
        parts += value_and_grad(KTO(case.hyper["beta"], lam, lam), batch.rows(rows), logp[rows])[0]
    case.meets(parts, case.outputs["loss"])


@pytest.mark.parametrize("case", cases("preferences", "beta-dpo/"))
def test_beta_dpo_oracle(case):
    h = case.hyper
    a = BetaDPO(h["beta0"], a=h["a"])
    batch, logp = paired(case)
    n = len(logp) // 2
    ratio = ((logp - batch.ref_logp) * batch.mask).sum(1)
    gap, selected = ratio[:n] - ratio[n:], torch.tensor(case.inputs["selected"]).bool()
    beta = a.strength(gap[selected], h["gap_mean"])
    case.meets(beta, torch.as_tensor(case.outputs["beta_used"]).reshape(-1)[0])
    if "sampling_weights" in case.outputs:
        case.meets(gap, case.outputs["gap"])
        case.meets(a.weights(gap, h["gap_mean"], h["gap_std"]), case.outputs["sampling_weights"])
    if "loss" in case.outputs:
        pair = torch.where(selected, torch.arange(n), -1).repeat(2)
        weight = torch.full((2 * n,), beta / a.beta, dtype=torch.float64)
        checked(case, a, batch.set(pair=pair, weight=weight))


@pytest.mark.parametrize("case", cases("preferences", "beta-dpo-stats/official"))
def test_beta_dpo_running_statistics_oracle(case):
    """The authors start both at 0; ours start at the first batch and go on by the same rule."""
    memory = {"gap": (case.hyper["init_mean"], case.hyper["init_std"])}
    after = case.outputs["mean_std_after_each_step"]
    for gaps, wanted in zip(case.inputs["gaps_per_step"], after, strict=True):
        case.meets(BetaDPO(momentum=case.hyper["momentum"]).track(f64(gaps), memory), wanted)
    first, fresh = f64(case.inputs["gaps_per_step"][0]), {}
    assert BetaDPO().track(first, fresh) == pytest.approx((float(first.mean()), float(first.std())))


@pytest.mark.parametrize("case", cases("preferences", "online-dpo/"))
def test_online_dpo_oracle(case):
    mask, rewards = case.tensor("mask"), case.inputs["rewards"]
    n = len(mask) // 2
    choose, chosen = by_score(lambda rows: [rewards[i] for i in rows]), torch.zeros(2 * n).bool()
    for i in range(n):
        two = choose([i, i + n]) or (i, i + n)  # at a tie the peer takes the first, we make no pair
        assert two == (case.outputs["chosen_index"][i], case.outputs["rejected_index"][i])
        chosen[two[0]] = True
    batch = by_hand(mask, ref_logp=case.tensor("ref_logp"), pair=torch.arange(n).repeat(2), chosen=chosen)
    beta, sums = case.hyper["beta"], case.hyper["loss_type"] == "ipo"
    kind = IPO(beta, mean=False) if sums else OnlineDPO(beta)
    loss, grad = value_and_grad(kind, batch, case.inputs["logp"])
    case.meets(loss, case.outputs["loss"])
    case.meets(grad, case.grads["logp"])


@pytest.mark.parametrize("case", cases("preferences", "online-dpo-pairs/rlhflow_max_min"))
def test_best_and_worst_oracle(case):
    """The raw rewards decide; a length penalty is the caller's score."""
    penalty, found = case.hyper["length_penalty"], []
    for s in case.inputs["samples"]:
        worth = dict(zip(s["responses"], s["rewards"]))
        score = by_score(lambda tries: [worth[t] - penalty * len(t) for t in tries])
        if two := score(s["responses"]):
            found.append(sorted(two, key=lambda t: -worth[t]))
    wanted = list(map(list, zip(case.outputs["chosen"], case.outputs["rejected"])))
    assert found == wanted
