"""What policies and algorithms make of each token, against loops, differences and the gradient that trains."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from arl_mini import algorithms as known
from arl_mini.algorithms import CISPO, DAPO, DPO, GRPO, GSPO, PPO, RLOO, DrGRPO, Reinforce, StarPOS, TurnGRPO
from arl_mini.algorithms.base import Algorithm
from arl_mini.algorithms.dpo import choose_pairs
from arl_mini.batch import collate, pairs
from arl_mini.dissect import ADVANTAGES, LENGTHS, RATIOS, TRIES, Dissection, contrast, names, probe, push
from arl_mini.models import ValueHead, score
from arl_mini.rollout import Limits, Sampling, rollout
from arl_mini.train import backward
from tests.core.stage import Talk, chatty


@pytest.fixture(scope="module")
def policies():
    """The policy that samples, and one with other weights."""
    first = chatty()
    second = first.copy()
    made = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for p in second.parameters():
            p += 0.02 * torch.randn(p.shape, generator=made)
    return first, second


@pytest.fixture(scope="module")
def episodes(policies):
    return rollout(policies[0], Talk(), range(3), 4, seed=1, sampling=Sampling(0.7), limits=Limits(6, 3, 60))


def each(column, episodes):
    """(row, place, value) of the sampled tokens."""
    return [(i, t, float(column[i, t])) for i, e in enumerate(episodes) for t in np.flatnonzero(e.mask)]


def test_at_the_first_update_all_ratios_are_one(policies, episodes):
    told = Dissection({"now": policies[0]}, {}).columns(episodes, "now")
    assert max(abs(x - 1) for *_, x in each(told["ratio"], episodes)) < 1e-5
    assert all(abs(x - episodes[i].logp[t]) < 1e-5 for i, t, x in each(told["logp"], episodes))
    assert sorted(told) == ["entropy", "logp", "mask", "ratio", "reward"]


def test_another_policy_has_other_numbers(policies, episodes):
    first, second = policies
    told = Dissection({"a": first, "b": second}, {}, ref=first).columns(episodes, "b")
    now, old = (score(p, collate(episodes)).logp.detach().numpy() for p in (second, first))
    for i, t, x in each(told["ratio"], episodes):
        assert x == pytest.approx(math.exp(now[i, t] - old[i, t]), rel=1e-4)
        d = old[i, t] - now[i, t]
        assert told["kl"][i, t] == pytest.approx(math.exp(d) - d - 1, abs=1e-5)


def test_forced_tokens_and_padding_have_no_numbers(policies, episodes):
    told = Dissection({"now": policies[0]}, {"GRPO": GRPO()}, critic=ValueHead(policies[0].width)).columns(
        episodes, "now", "GRPO")  # fmt: skip
    sampled = np.zeros(told["mask"].shape, bool)
    for row, e in zip(sampled, episodes):
        row[: len(e)] = e.mask > 0
    for name, column in told.items():
        assert np.array_equal(np.isfinite(column), sampled) or name == "mask", name
    assert all(np.isnan(told["mask"][i, len(e):]).all() and np.array_equal(told["mask"][i, : len(e)], e.mask)
               for i, e in enumerate(episodes))  # fmt: skip


SEVEN = [Reinforce(gamma=0.9), RLOO(), GRPO(beta=0.1), DrGRPO(), DAPO(), GSPO(0.1, 0.1), PPO()]


@pytest.mark.parametrize("algorithm", SEVEN, ids=lambda a: type(a).__name__)
def test_push_is_the_gradient_that_training_takes(policies, episodes, algorithm):
    """Σ_t push_t ∇ℓ_t is minus the gradient that `train.backward` adds to the weights."""
    first, second = policies
    dissection = Dissection({"old": first, "now": second}, {"it": algorithm}, ref=first)
    told = dissection.columns(episodes, "now", "it")
    batch = collate(episodes)
    scores = score(second, batch)
    pulled = (scores.logp * torch.from_numpy(told["push"]).nan_to_num()).sum()
    mine = torch.autograd.grad(pulled, list(second.parameters()), allow_unused=True)

    with torch.no_grad():
        batch = batch.set(ref_logp=score(first, batch).logp, values=torch.zeros_like(batch.mask))
        batch = algorithm.reward(batch)
        batch = batch.set(returns=algorithm.returns(batch))
        batch = batch.set(advantages=algorithm.advantages(batch))
    second.zero_grad(set_to_none=True)
    backward(second, without_value_loss(algorithm), batch, critic=ValueHead(second.width))
    for p, g in zip(second.parameters(), mine):
        assert p.grad is None and g is None or torch.allclose(p.grad, -g, atol=2e-5)
    second.zero_grad(set_to_none=True)


def without_value_loss(algorithm: Algorithm) -> Algorithm:
    """PPO's critic moves the weights too, but through values, not through what was sampled."""
    return PPO(value_weight=0.0) if isinstance(algorithm, PPO) else algorithm


def test_advantage_of_leave_one_out_by_loops(policies, episodes):
    told = Dissection({}, {"RLOO": RLOO()}).columns(episodes, "", "RLOO")
    for i, t, x in each(told["advantage"], episodes):
        others = [e.reward for j, e in enumerate(episodes) if e.group == episodes[i].group and j != i]
        assert x == pytest.approx(episodes[i].reward - sum(others) / len(others), abs=1e-5)
    assert np.nansum(np.abs(told["share"])) == pytest.approx(100, abs=1e-3)


def test_push_by_finite_differences(policies, episodes):
    """Off-policy, with clips: the derivative of the loss by central differences, token by token."""
    first, second = policies
    algorithm, batch = DAPO(), collate(episodes)
    with torch.no_grad():
        batch = batch.set(advantages=algorithm.advantages(batch))
        doubles = {name: getattr(batch, name).double() for name in ("old_logp", "advantages", "mask")}
        batch = batch.set(**doubles)
        scores = score(second, batch)
        scores = replace(scores, logp=scores.logp.double())
    pushed, h = push(algorithm, scores, batch), 1e-6

    def loss(i, t, by):
        moved = scores.logp.clone()
        moved[i, t] += by
        return float(algorithm.loss(replace(scores, logp=moved), batch))

    for i, t, x in each(pushed, episodes):
        assert x == pytest.approx(-(loss(i, t, h) - loss(i, t, -h)) / (2 * h), abs=1e-7)
    assert bool(algorithm.clipped(scores, batch).any()), "no token was clipped: the case tests too little"
    assert float(pushed[algorithm.clipped(scores, batch)].abs().max()) == 0


def test_another_reward_moves_its_group_and_no_other(policies, episodes):
    dissection = Dissection({}, {"GRPO": GRPO()})
    last = int(np.flatnonzero(episodes[0].mask)[-1])
    changed = [dissection.edited(episodes[0], last, reward=9.0), *episodes[1:]]
    before, after = (dissection.columns(e, "", "GRPO")["advantage"] for e in (episodes, changed))
    assert changed[0].rewards[last] == 9 and episodes[0].rewards[last] != 9
    moved = {episodes[i].group for i, t, x in each(after, episodes) if abs(x - before[i, t]) > 1e-6}
    assert moved == {episodes[0].group}


def test_another_token_changes_what_comes_after_it(policies, episodes):
    dissection = Dissection({"now": policies[0]}, {})
    row = max(range(len(episodes)), key=lambda i: episodes[i].mask.sum())
    places = np.flatnonzero(episodes[row].mask)
    place = int(places[2])
    other = " key" if episodes[row].pieces[place] != " key" else " door"
    changed = [*episodes[:row], dissection.edited(episodes[row], place, text=other), *episodes[row + 1 :]]
    assert changed[row].pieces[place] == other
    before, after = (dissection.columns(e, "now") for e in (episodes, changed))
    difference = np.abs(after["logp"] - before["logp"])
    assert np.nanmax(difference[:row], initial=0) == 0 and difference[row, places[1]] < 1e-5
    assert difference[row, place] > 1e-3 and difference[row, places[3]] > 1e-5
    assert np.nanmax(np.abs(after["ratio"][row] - 1)) < 1e-5


def test_rows_that_are_not_kept_have_no_push(policies, episodes):
    told = Dissection({}, {"S": StarPOS(share=0.4)}).columns(episodes, "", "S")
    kept = {episodes[i].group for i, t, x in each(told["push"], episodes) if math.isfinite(x)}
    assert len(kept) == 1 and np.isfinite(told["logp"][:, :]).any(1).all()


def test_what_an_algorithm_pays_shows_in_the_reward(episodes):
    told = Dissection({}, {"T": TurnGRPO(judge=lambda episode, turn: 1.0)}).columns(episodes, "", "T")
    assert np.nansum(told["reward"]) == sum(e.reward + e.turns - 1 for e in episodes)


def test_every_exported_algorithm_is_applied_or_says_why_not(policies, episodes):
    """What cannot be is what judges another world (Chain), or needs verdicts that its plan asks for."""
    made = {n: getattr(known, n)() for n in known.__all__ if n != "Algorithm"}
    dissection, failed = Dissection({"now": policies[0]}, made, ref=policies[1]), {}
    for name in made:
        try:
            dissection.columns(episodes, "now", name)
        except ValueError as error:
            failed[name] = str(error)
    assert set(failed) == {"PSGPO", "PosteriorGRPO", "StepGRPO"}, failed
    assert all("cannot be applied to these episodes" in words for words in failed.values())


def test_names_of_equals_tell_what_differs():
    assert list(names([GRPO(), GRPO(clip_high=0.5), RLOO()])) == ["GRPO", "GRPO(clip_high=0.5)", "RLOO"]
    with pytest.raises(ValueError, match="two algorithms are both RLOO"):
        names([RLOO(), RLOO()])


def test_errors_say_what_came(policies, episodes):
    dissection = Dissection({"now": policies[0]}, {})
    forced = int(np.flatnonzero(episodes[0].mask == 0)[0])
    with pytest.raises(ValueError, match="token 0 was forced"):
        dissection.edited(episodes[0], forced, reward=1.0)
    with pytest.raises(ValueError, match=r"' key door' is 2 tokens, expected 1"):
        dissection.edited(episodes[0], forced, text=" key door")
    with pytest.raises(ValueError, match="needs a policy"):
        Dissection({}, {}).edited(episodes[0], forced, text=" key")
    with pytest.raises(KeyError, match="no policy 'then'"):
        dissection.columns(episodes, "then")
    with pytest.raises(ValueError, match="hidden states of a policy"):
        Dissection({}, {}, critic=ValueHead(8))


def test_preferences_push_the_chosen_up(policies):
    tries = rollout(policies[0], Talk(), range(3), 2, seed=1, limits=Limits(6, 3, 60))
    marked = pairs(choose_pairs(tries, lambda two: (two[0], two[1])))
    told = Dissection({"now": policies[0]}, {"DPO": DPO()}).columns(marked, "now", "DPO")
    signs = {(marked[i].chosen, x > 0) for i, t, x in each(told["push"], marked)}
    assert signs == {(True, True), (False, False)}


# --- probes: against what the papers' formulas say by hand ------------------------------------------------


def expected_by_clip(ratio, advantage, low=0.2, high=0.2):
    """Derivative of min(A r, A clip(r)) with respect to log π: A r where the clip does not decide, else 0."""
    cut = ratio > 1 + high if advantage > 0 else ratio < 1 - low
    return 0.0 if cut else advantage * ratio


@pytest.mark.parametrize(("algorithm", "expected"), [
    (GRPO(), expected_by_clip),
    (DAPO(), lambda r, a: expected_by_clip(r, a, high=0.28)),
    (RLOO(), lambda r, a: a),
    (CISPO(), lambda r, a: a * min(r, 1 + CISPO().clip_high)),
], ids=["GRPO", "DAPO", "RLOO", "CISPO"])  # fmt: skip
def test_weight_over_ratio_and_advantage(algorithm, expected):
    weight = probe(algorithm).weight
    for a, row in zip(ADVANTAGES, weight):
        for r, x in zip(RATIOS, row):
            assert x == pytest.approx(expected(r, a), abs=1e-4), (a, r)


def test_weight_of_a_preference_is_a_sigmoid_of_the_margin():
    beta = 0.1
    found = probe(DPO(beta=beta)).weight[ADVANTAGES.index(1.0)]
    for r, x in zip(RATIOS, found):
        assert x == pytest.approx(2 / (1 + math.exp(beta * math.log(r))), abs=1e-4)
    assert probe(DPO()).by_success == []


def test_weight_over_length_is_the_reduction():
    for algorithm, power in ((GRPO(), -1), (DrGRPO(), 0), (DAPO(), 0), (Reinforce(), 0)):
        found = probe(algorithm).by_length
        assert [x / found[0] for x in found] == pytest.approx([n**power for n in LENGTHS], rel=1e-4)


def test_advantage_over_the_number_of_successes():
    shares = [k / TRIES for k in range(1, TRIES)]
    std = [math.sqrt(p * (1 - p) * TRIES / (TRIES - 1)) for p in shares]
    assert probe(DrGRPO()).by_success == pytest.approx([1 - p for p in shares], abs=1e-5)
    assert probe(GRPO()).by_success == pytest.approx([(1 - p) / s for p, s in zip(shares, std)], abs=1e-4)
    assert probe(RLOO()).by_success == pytest.approx([(1 - p) * 8 / 7 for p in shares], abs=1e-5)


def test_every_exported_algorithm_is_probed_or_says_why_not():
    failed = {n for n in known.__all__ if n != "Algorithm" and probe(getattr(known, n)()).why}
    assert failed == {"PSGPO", "PAPO", "PosteriorGRPO", "StepGRPO", "ASPO", "KTAE"}
    assert all(probe(getattr(known, n)()).weight for n in failed - {"PAPO"})


def test_contrast_of_classes_and_of_made_ones():
    both = contrast(GRPO, DAPO)
    assert (both.left.name, both.right.name) == ("GRPO", "DAPO") and both.settings["clip_high"] == (0.2, 0.28)
    assert set(both.methods) == {"plan", "reward", "reduce"}
    assert both.note == contrast(DAPO, GRPO).note and both.note.startswith("DAPO builds on GRPO")
    assert contrast(GRPO(), GRPO()).settings == {} and contrast(GRPO, RLOO).note == ""
