"""EDGE-GRPO, ASPO, Pass@k, KTAE: advantages against oracles, loops and their own identities."""

import itertools
import math
import statistics
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from arl_mini import Limits, envs, models, train
from arl_mini.algorithms import ASPO, DAPO, GRPO, KTAE, EdgeGRPO, PassAtK, PosteriorGRPO, StepGRPO, shaping
from arl_mini.batch import Episode, collate
from arl_mini.models.score import score
from arl_mini.rollout import demonstrate
from tests.algorithms.rows import by_hand, f64, random_batch, rewarded, value_and_grad
from tests.oracles.reading import cases

CHAIN = {"steps": 1, "prompts": 4, "tries": 6, "limits": Limits(turn_tokens=12, turns=2, total=64)}


@pytest.fixture(scope="module")
def novice():
    return models.load("chain-atoms")


# --- EDGE-GRPO --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("shaping", "edge-adv"))
def test_edge_advantage_oracle(case):
    """The paper's form: masked entropies, the group's mean."""
    mask, group = case.tensor("mask"), case.group
    batch = by_hand(mask, group=group, entropy=case.tensor("entropy"))
    one = by_hand(mask, group=group, entropy=torch.ones_like(mask))
    rewards = f64([1, 0, 1, 0])[:, None] * (mask.cumsum(1) == 1)
    varied, even = (EdgeGRPO().advantages(b.set(rewards=rewards))[:, 0] for b in (batch, one))
    case.meets(varied / even * case.tensor("adv"), case.outputs["advantages"])


@pytest.mark.parametrize("case", cases("shaping", "edge-loss"))
def test_edge_released_reading_oracle(case):
    """The release: entropies of padding count, and the mean is over all rows; GRPO's mean over rows."""
    entropy = case.tensor("entropy").mean(1)
    batch = by_hand(case.inputs["mask"], old_logp=case.tensor("old_logp"),
                    advantages=case.tensor("adv") / (entropy / entropy.mean()))  # fmt: skip
    loss, grad = value_and_grad(GRPO(), batch, case.inputs["logp"])
    case.meets(loss, case.outputs["loss"])
    case.meets(grad, case.grads["logp"])


def test_edge_identities():
    batch, logp = random_batch(4)
    even = batch.set(entropy=torch.full_like(batch.mask, 0.7))
    torch.testing.assert_close(EdgeGRPO().advantages(even), GRPO().advantages(batch))
    even = even.set(advantages=EdgeGRPO().advantages(even))
    assert value_and_grad(EdgeGRPO(), even, logp)[0] == pytest.approx(
        value_and_grad(DAPO(clip_high=0.2), even, logp)[0]
    )
    varied = batch.set(
        entropy=torch.rand(batch.mask.shape, generator=torch.Generator().manual_seed(0)).double() + 0.1
    )
    adv = EdgeGRPO().advantages(varied)
    assert torch.equal(adv.sign(), GRPO().advantages(batch).sign())
    sure = batch.set(entropy=torch.zeros_like(batch.mask))
    assert bool(EdgeGRPO().advantages(sure).isfinite().all())
    dead = rewarded([1.0, 1.0, 0.0], [0, 0, 1], torch.ones(3, 2), entropy=f64([[1, 2], [3, 4], [5, 6]]))
    assert bool((EdgeGRPO().advantages(dead) == 0).all())


def test_edge_correction_changes_only_failures(novice):
    run = train(novice, envs.Chain((2, 3)), EdgeGRPO(), **CHAIN | {"prompts": 16})
    before = EdgeGRPO(correct=False).plan(run._sampler())
    after = EdgeGRPO().plan(run._sampler())
    kinds = {"kept": 0, "again": 0, "told": 0, "shown": 0}
    for old, new in zip(before, after, strict=True):
        assert (old.group, old.seed) == (new.group, new.seed)
        if old.success:
            assert new is old or np.array_equal(new.tokens, old.tokens)
            kinds["kept"] += 1
        elif len(new) > len(old) and np.array_equal(new.tokens[: len(old)], old.tokens):
            kinds["told" if new.expert else "again"] += 1
            prompt = old.tokens[old.turn == -1]
            middle = slice(len(old), len(old) + len(prompt))
            assert np.array_equal(new.tokens[middle], prompt) and not new.mask[middle].any()
            assert np.array_equal(new.mask[: len(old)], old.mask) and new.reward == float(new.success)
            assert new.turns == 2 and new.success or not new.expert
        else:
            assert new.expert and new.success and not np.array_equal(new.tokens, old.tokens)
            kinds["shown"] += 1
    failed = len(before) - kinds["kept"]
    assert failed > 50
    assert [round(kinds[k] / failed, 1) for k in ("again", "told", "shown")] == pytest.approx(
        [0.5, 0.25, 0.25], abs=0.16
    )


def test_edge_trains_on_a_corrected_batch_with_ratio_one(novice):
    run = train(models.load("chain-atoms"), envs.Chain((2, 3)), EdgeGRPO(), **CHAIN)
    batch, _ = run._prepare(EdgeGRPO().plan(run._sampler()))
    with torch.no_grad():
        logp = score(novice, batch).logp
    torch.testing.assert_close(batch.old_logp, logp, atol=1e-4, rtol=0)
    assert bool(batch.expert.any()) and bool((~batch.expert).any())


# --- ASPO -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("shaping", "aspo"))
def test_aspo_oracle(case):
    adv, mask = case.tensor("adv"), case.tensor("mask")
    eligible = case.tensor("correct") * case.tensor("used_code") > 0
    bias = shaping.early_bias(
        case.tensor("first_code_pos"), mask.sum(1), case.group, eligible, case.hyper["delta"]
    )
    k = case.hyper["k"] * adv.abs()
    case.meets((adv + bias.clamp(-k, k))[:, None] * mask, case.outputs["advantages"])


def calls(policy, rows) -> list[Episode]:
    """Episodes of one Calc product: (idle words before the call or −1 for no call, right)."""
    made = []
    for idle, right in rows:
        shown = demonstrate(policy, envs.Calc(("product",)), [3], lambda env: env.expert())[0]
        at = int(shown.mask.argmax())
        tokens, mask = shown.tokens, shown.mask
        if idle < 0:  # the answer alone
            said = shown.turn == 1
            tokens = np.concatenate([tokens[:at], tokens[said]])
            mask = np.concatenate([mask[:at], mask[said]])
        else:
            word = tokens[2]
            tokens = np.insert(tokens, at, [word] * idle)
            mask = np.insert(mask, at, [1.0] * idle)
        zeros = np.zeros(len(tokens), np.float32)
        rewards = zeros.copy()
        rewards[-1] = float(right)
        turn = np.where(mask > 0, 0, -1)
        mask = mask.astype(np.float32)
        made.append(Episode(tokens, mask, turn, zeros, rewards, success=right, tokenizer=policy.tokenizer))
    return made


def test_aspo_reads_calls_from_the_tokens():
    policy = models.load("calc-novice")
    rows = [(0, True), (4, True), (0, False), (-1, True), (2, False)]
    batch = collate(calls(policy, rows))
    host, adv = GRPO().advantages(batch)[:, 1:].amax(1), ASPO().advantages(batch)
    host = torch.where(batch.success, host, GRPO().advantages(batch).amin(1))
    got = torch.where(batch.success, adv.amax(1), adv.amin(1))
    n = batch.mask.sum(1)
    bias = -2 * (f64([0, 4]) - 2) / float(n[:2].mean())
    limit = 0.7 * float(host[0])
    assert (got - host)[:2].tolist() == pytest.approx(bias.clamp(-limit, limit).tolist(), rel=1e-5)
    assert torch.equal(got[2:], host[2:])  # wrong ones, and one that never called


def test_aspo_identities():
    policy = models.load("calc-novice")
    mixed = collate(calls(policy, [(0, True), (3, True), (1, True), (2, False), (0, False)]))
    assert torch.equal(ASPO(k=0.0).advantages(mixed), GRPO().advantages(mixed))
    assert torch.equal(ASPO(delta=-50.0).advantages(mixed).sign(), GRPO().advantages(mixed).sign())
    free = ASPO(delta=-0.1, k=1.0).advantages(mixed) - GRPO().advantages(mixed)
    assert float(free.sum(1)[mixed.success].div(mixed.mask.sum(1)[mixed.success]).sum()) == pytest.approx(
        0, abs=1e-6
    )
    alone = collate(calls(policy, [(3, True), (-1, True), (2, False)]))
    assert torch.equal(ASPO().advantages(alone), GRPO().advantages(alone))


# --- Pass@k -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("shaping", "passk"))
def test_pass_at_k_oracle(case):
    batch = rewarded(case.inputs["rewards"], case.group, torch.ones(len(case.group), 2))
    case.meets(PassAtK(k=case.hyper["k"]).advantages(batch)[:, 0], case.outputs["advantages"])


def passk_loop(right: list[bool], k: int) -> list[float]:
    """Every k-subset is a group try with reward max; a try gets the mean advantage of its subsets."""
    groups = list(itertools.combinations(range(len(right)), k))
    rewards = [float(any(right[i] for i in g)) for g in groups]
    mean, std = statistics.fmean(rewards), statistics.pstdev(rewards)
    adv = [(r - mean) / (std + 1e-6) for r in rewards]
    return [statistics.fmean([a for a, g in zip(adv, groups) if i in g]) for i in range(len(right))]


@pytest.mark.parametrize(
    "n, c, k", [(6, 2, 3), (5, 1, 2), (7, 3, 4), (4, 4, 2), (4, 0, 2), (5, 2, 1), (3, 1, 3)]
)
def test_pass_at_k_loop(n, c, k):
    right = [i < c for i in range(n)]
    batch = rewarded(f64(right), torch.zeros(n).long(), torch.ones(n, 1))
    got = PassAtK(k=k).advantages(batch)[:, 0]
    torch.testing.assert_close(got, f64(passk_loop(right, k)), atol=1e-12, rtol=1e-9)
    assert float(got.sum()) == pytest.approx(0, abs=1e-12)


def test_pass_at_k_in_several_groups_and_small_ones():
    right, group = [1, 0, 0, 1, 0, 0, 1, 0, 1], [0, 0, 0, 0, 1, 1, 2, 3, 3]
    batch = rewarded(right, group, torch.ones(9, 2))
    got = PassAtK(k=2).advantages(batch)[:, 0]
    for g in range(4):
        rows = [i for i, h in enumerate(group) if h == g]
        wanted = passk_loop([bool(right[i]) for i in rows], min(2, len(rows)))
        torch.testing.assert_close(got[rows], f64(wanted), atol=1e-9, rtol=1e-9)
    assert float(got[6]) == 0.0  # a group of one


def test_pass_at_k_looks_at_harder_prompts():
    """The accuracy at which |A| is largest in sum falls as k grows."""
    peaks = []
    for k in (1, 4, 8):
        mass = [
            float(
                PassAtK(k=k)
                .advantages(rewarded([1] * c + [0] * (16 - c), [0] * 16, torch.ones(16, 1)))
                .abs()
                .sum()
            )
            for c in range(17)
        ]
        peaks.append(int(np.argmax(mass)))
    assert peaks[0] == 8 and peaks[0] > peaks[1] > peaks[2] >= 1


# --- KTAE -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("shaping", "ktae"))
def test_ktae_oracle(case):
    """Against exact numbers; the release's own where no exact p is 1, which its float32 sums miss."""
    ids, rewards = case.inputs["token_ids"], case.inputs["rewards"]
    width = max(map(len, ids)) + 1
    mask = torch.zeros(len(ids), width)
    tokens = torch.zeros(len(ids), width).long()
    for i, row in enumerate(ids):
        mask[i, : len(row)], tokens[i, : len(row)] = 1, torch.tensor(row)
    tokenizer = SimpleNamespace(eos_token_id=case.hyper["eos_id"])
    batch = rewarded(
        rewards, case.group, mask, tokens=tokens, episodes=[SimpleNamespace(tokenizer=tokenizer)] * len(ids)
    )
    got = KTAE().advantages(batch)
    for name in ("advantages_exact_hand",) + ("advantages",) * (case.id != "ktae-adv-2"):
        wanted = f64(case.outputs[name])
        case.meets(got[:, : wanted.shape[1]], wanted[:, :width])
    weights = shaping.key_tokens(ids, [r > 0 for r in rewards], 1.0, 1.0)
    for token, weight in case.outputs["token_weight_exact_hand"].items():
        assert int(token) == case.hyper["eos_id"] or weights[int(token)] == pytest.approx(
            weight, rel=case.rtol
        )


@pytest.mark.parametrize("right, wrong", [(3, 4), (5, 2), (1, 6)])
def test_fisher_against_the_definition(right, wrong):
    """Two-sided p by listing every way to deal out who is right."""
    people = right + wrong
    for a, b in itertools.product(range(right + 1), range(wrong + 1)):
        holders = set(range(a + b))
        hits = [len(holders & set(chosen)) for chosen in itertools.combinations(range(people), right)]
        chance = {x: hits.count(x) / len(hits) for x in set(hits)}
        p = sum(v for v in chance.values() if v <= chance[a] + 1e-12)
        assert shaping.fisher_p(a, b, right, wrong) == pytest.approx(p, rel=1e-12)


def test_information_gain_of_a_tell():
    assert shaping.information_gain(4, 0, 4, 4) == pytest.approx(1.0)
    assert shaping.information_gain(2, 2, 4, 4) == pytest.approx(0.0, abs=1e-15)
    assert shaping.information_gain(3, 1, 4, 4) == pytest.approx(
        1 - (-0.75 * math.log2(0.75) - 0.25 * math.log2(0.25))
    )


def test_ktae_properties():
    said, right = [[5, 7, 9], [5, 7, 2, 2], [5, 8, 9], [5, 8, 8, 4]], [True, True, False, False]
    weights = shaping.key_tokens(said, right, 1.0, 1.0)
    swapped = shaping.key_tokens(said, [not r for r in right], 1.0, 1.0)
    assert weights[5] == 0 and weights[9] == 0  # in every answer; in one of each side
    assert weights[7] > 0.9 and weights[8] < -0.9 and all(abs(w) <= 1 for w in weights.values())
    assert all(swapped[v] == pytest.approx(-w, abs=1e-12) for v, w in weights.items())
    assert shaping.key_tokens(said, [True] * 4, 1.0, 1.0) == {}


def test_ktae_leaves_groups_without_contrast_and_forced_tokens_alone():
    batch, _ = random_batch(9, rows=8)
    batch = batch.set(tokens=torch.arange(batch.mask.numel()).view_as(batch.mask) % 5)
    even = batch.set(success=torch.ones(8).bool())
    assert torch.equal(KTAE().advantages(even), GRPO().advantages(even))
    adv = KTAE().advantages(batch)
    assert bool((adv[batch.mask == 0] == 0).all()) and not torch.equal(adv, GRPO().advantages(batch))


# --- all of them ------------------------------------------------------------------------------------------

SHAPED = [EdgeGRPO(), PassAtK(k=2), KTAE(), StepGRPO(), PosteriorGRPO()]


@pytest.mark.parametrize("algorithm", SHAPED, ids=lambda a: type(a).__name__)
def test_forced_tokens_and_groups_without_contrast_have_no_gradient(algorithm):
    batch, logp = random_batch(6, rows=8)
    batch = batch.set(entropy=-logp)
    live = batch.set(advantages=algorithm.advantages(batch))
    _, grad = value_and_grad(algorithm, live, logp)
    assert bool((grad[batch.mask == 0] == 0).all()) and bool((grad != 0).any())
    for group in (torch.zeros(8).long(), torch.arange(8)):
        dead = batch.set(rewards=torch.zeros_like(batch.rewards), success=torch.zeros(8).bool(), group=group,
                         ref_logp=logp)  # fmt: skip
        dead = dead.set(advantages=algorithm.advantages(dead))
        assert bool((value_and_grad(algorithm, dead, logp)[1].abs() < 1e-15).all())
