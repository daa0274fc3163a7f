"""Two modes of one policy, votes and verifiers, search, prices and masks, thoughts as vectors."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from arl_mini import collate, envs, evaluate, models, ops, train
from arl_mini.algorithms import GRPO
from arl_mini.capabilities import reasoning, reasoning_rl
from arl_mini.models.score import score
from arl_mini.rollout import Limits, demonstrate, rollout
from arl_mini.train import backward

LIMITS = Limits(turn_tokens=12, turns=1, total=40)
THREE = envs.Chain((3, 3))


@pytest.fixture(scope="module")
def policy():
    return models.load("chain-modes")


def said(policy, env, seed, text):
    return demonstrate(policy, env, [seed], lambda env: text)[0]


# --- modes ------------------------------------------------------------------------------------------------


def test_fast_never_thinks_and_slow_always_does(policy):
    quick = evaluate.episodes(reasoning.fast(policy), THREE, 64, limits=LIMITS)
    assert not any("<think>" in e.text for e in quick)
    for e in evaluate.episodes(reasoning.slow(policy), THREE, 16, limits=LIMITS):
        assert e.text.count("<think>") == 1 and e.infos[-1]["thinking"] and "<think>" not in e.said(0)


@pytest.mark.parametrize("mode", [reasoning.fast, reasoning.slow])
def test_a_view_is_scored_as_it_was_sampled(policy, mode):
    batch = collate(evaluate.episodes(mode(policy), THREE, 32, limits=LIMITS))
    found = score(mode(policy), batch)
    assert torch.allclose(found.logp, batch.old_logp, atol=1e-4) and bool(found.entropy.isfinite().all())


def test_the_bar_gives_its_probability_to_the_others(policy):
    batch = collate(evaluate.episodes(reasoning.fast(policy), THREE, 16, limits=LIMITS))
    first = (batch.mask.cumsum(1) == 1) & (batch.mask > 0)
    free, barred = (score(p, batch).logp[first].exp() for p in (policy, reasoning.fast(policy)))
    chance = reasoning.mode_chance(policy, THREE, [e.seed for e in batch.episodes])
    assert torch.allclose(free, barred * (1 - torch.from_numpy(chance)), atol=1e-5)


def test_training_a_view_trains_the_policy():
    twin = models.load("chain-modes")
    before = twin.embed.detach().clone()
    for _ in train(
        reasoning.slow(twin), THREE, GRPO(), steps=1, prompts=4, tries=4, limits=LIMITS, temperature=2.0
    ):
        pass
    assert not torch.equal(before, twin.embed)


def test_a_word_of_several_tokens_cannot_be_barred(policy):
    with pytest.raises(ValueError, match="hint: View"):
        reasoning.View(policy, bar=("<think> 7",))


@pytest.mark.parametrize(
    "text, answer, thinks",
    [
        (" 5<end>", "5", False),
        ("<think> 7 5</think> 6<end>", "6", True),
        ("<think></think> 6<end>", "6", False),
        ("<think> 7 5", None, True),
        ("<think> 7 5<end>", None, True),
        (" 5", None, False),
        ("<end>", None, False),
    ],
)
def test_what_a_reply_answers(policy, text, answer, thinks):
    episode = said(policy, THREE, 0, text)
    assert reasoning.answer_of(episode) == answer and reasoning.thought(episode) is thinks


def test_a_forced_opening_counts_as_the_thought(policy):
    for e in evaluate.episodes(reasoning.slow(policy), THREE, 16, limits=LIMITS):
        assert (
            reasoning.thought(e)
            and reasoning.answer_of(e) == e.said(0).removesuffix("<end>").rpartition("</think> ")[2]
        )
        assert (
            reasoning.answer_of(replace(e, tokens=e.tokens[:-1], mask=e.mask[:-1], turn=e.turn[:-1])) is None
        )


# --- many tries -------------------------------------------------------------------------------------------


def test_votes_and_choices(policy):
    tries = [said(policy, THREE, 0, f" {d}<end>") for d in (4, 7, 7, 2)] + [said(policy, THREE, 0, "<end>")]
    assert reasoning.self_consistency(tries).answer == "7" and reasoning.self_consistency(tries).share == 0.4
    weigh = dict(zip(map(id, tries), (3.0, 1.0, 1.0, 0.0, 9.0)))
    assert reasoning.self_consistency(tries, lambda e: weigh[id(e)]).answer == "4"
    assert reasoning.best_of_n(tries, [0, 5, 5, 1, -math.inf]) is tries[1]
    with pytest.raises(ValueError, match="a score for each"):
        reasoning.best_of_n(tries, [1.0])


def test_labels_by_rule_end_with_the_first_slip(policy):
    env = THREE.clone()
    env.reset(3)
    a, b = env.steps
    wrong = (a + 1) % 10
    cases = {
        f"<think> {a} {b}</think> {env.answer}<end>": [1, 1, 1],
        f"<think> {wrong} {b}</think> {env.answer}<end>": [0, 0, 0],
        f"<think> {a} {b}</think> {(env.answer + 1) % 10}<end>": [1, 1, 0],
        f" {env.answer}<end>": [1],
    }
    for text, wanted in cases.items():
        labels = reasoning.true_labels(said(policy, THREE, 3, text))
        assert labels[~np.isnan(labels)].tolist() == wanted


def test_rerolls_tell_a_right_step_from_a_wrong_one(policy):
    env, shown = THREE.clone(), []
    for seed in range(12):
        env.reset(seed)
        a, b = env.steps
        off = seed % 2
        shown.append(
            said(
                policy,
                THREE,
                seed,
                f"<think> {(a + off) % 10} {(b + off) % 10}</think> {(env.answer + off) % 10}<end>",
            )
        )
    labels, spent = reasoning.reroll_labels(policy, THREE, shown, 4, limits=LIMITS)
    ends = [row[~np.isnan(row)] for row in labels]
    assert all(len(e) == 3 for e in ends) and [e[-1] for e in ends] == [1.0, 0.0] * 6
    assert np.mean([e[0] for e in ends[0::2]]) > 0.8 > 0.2 > np.mean([e[0] for e in ends[1::2]])
    assert 12 * 2 * 4 * 2 < spent < 12 * 2 * 4 * 12


def test_a_verifier_learns_labels_and_adds_up_steps(policy):
    made = rollout(reasoning.slow(policy), THREE, range(48), 2, limits=LIMITS)
    model = reasoning.step_verifier(policy, [(e, reasoning.true_labels(e) * 0) for e in made], steps=30)
    low = reasoning.verified(model, made)
    model = reasoning.step_verifier(policy, [(e, reasoning.true_labels(e) * 0 + 1) for e in made], steps=30)
    high = reasoning.verified(model, made)
    assert max(low) < min(high) <= max(high) <= 0
    assert reasoning.verified(model, [said(policy, THREE, 0, "<end>")]) == [-math.inf]


# --- search -----------------------------------------------------------------------------------------------


def follows(episodes):
    """1 for each right step so far, −9 for a wrong one: an oracle."""
    found = []
    for e in episodes:
        env = THREE.clone()
        env.reset(e.seed)
        written = [p.strip() for p, m in zip(e.pieces, e.mask) if m and p.strip().isdigit()]
        wanted = [*map(str, env.steps), str(env.answer)]
        found.append(sum(1 if a == b else -9 for a, b in zip(written, wanted)) - 9 * (len(written) > 3))
    return found


def test_search_with_an_oracle_finds_what_sampling_finds_rarely():
    careless, seeds = models.load("chain-careless"), range(5000, 5024)
    view = reasoning.slow(careless)
    plain = np.mean([e.success for e in rollout(view, THREE, seeds, limits=LIMITS)])
    found = reasoning.search_chains(view, THREE, seeds, follows, width=2, expand=4, limits=LIMITS)
    assert len(found.best) == 24 and np.mean([e.success for e in found.best]) >= max(0.9, plain + 0.1)
    assert found.scores == [3.0 if e.success else s for e, s in zip(found.best, found.scores)]
    assert all(e.terminated for e in found.best) and sorted(e.seed for e in found.best) == list(seeds)


def test_search_counts_what_it_samples(policy):
    view, asked = reasoning.slow(policy), []

    def score_all(episodes):
        asked.append([int(e.mask.sum()) for e in episodes])
        return [0.0] * len(episodes)

    found = reasoning.search_chains(view, THREE, [7], score_all, width=1, expand=1, limits=LIMITS)
    assert found.tokens == int(found.best[0].mask.sum())  # a beam of one that grows one way is plain sampling
    assert asked[0] == [1]
    none = reasoning.search_chains(
        view, THREE, [7], score_all, limits=Limits(turn_tokens=2, turns=1, total=40)
    )
    assert none.best == [] and none.scores == []


# --- prices and masks -------------------------------------------------------------------------------------


@given(st.integers(1, 5), st.integers(2, 9), st.sampled_from([0.1, 0.2, 0.5, 1.0]), st.integers(0, 10**6))
def test_the_mask_keeps_the_uncertain_share_and_nothing_forced(rows, length, share, seed):
    draw = torch.Generator().manual_seed(seed)
    entropy = torch.rand(rows, length, generator=draw)
    mask = (torch.rand(rows, length, generator=draw) < 0.6).float()
    kept = reasoning_rl.entropy_mask(entropy, mask, share)
    n = int(mask.sum())
    assert int(kept.sum()) == math.ceil(share * n) and bool((kept <= mask).all())
    if 0 < kept.sum() < n:
        assert entropy[kept > 0].min() >= entropy[(mask > 0) & (kept == 0)].max()


def test_only_the_chosen_tokens_have_a_gradient(policy):
    batch = collate(evaluate.episodes(policy, THREE, 8, 4, limits=LIMITS))
    with torch.no_grad():
        batch = batch.set(entropy=score(policy, batch).entropy)
    grads = []
    for algorithm in (reasoning_rl.Forks(), reasoning_rl.Forks(rest=True), reasoning_rl.Forks(share=1.0)):
        full = batch.set(advantages=algorithm.advantages(batch))
        logp = batch.old_logp.clone().requires_grad_()
        algorithm.loss(models.Scores(logp, batch.entropy), full).backward()
        grads.append(logp.grad)
        assert bool((logp.grad[algorithm.chosen(batch) == 0] == 0).all())
    assert torch.allclose(grads[0] + grads[1], grads[2], atol=1e-7) and bool((grads[0] != 0).any())


def test_prices(policy):
    right, length = torch.tensor([1.0, 0.0, 1.0]), torch.tensor([2.0, 2.0, 7.0])
    assert reasoning_rl.length_reward(right, length, 0.1).tolist() == pytest.approx([0.8, -0.2, 0.3])
    assert reasoning_rl.length_reward(right, length, 0.1, only_right=True).tolist() == pytest.approx(
        [0.8, 0, 0.3]
    )
    with pytest.raises(ValueError, match="one shape"):
        reasoning_rl.length_reward(right, length[:2], 0.1)
    batch = collate(evaluate.episodes(policy, THREE, 8, limits=LIMITS))
    paid = reasoning_rl.Priced(price=0.05).reward(batch)
    assert torch.allclose(paid.reward, batch.success.float() - 0.05 * batch.mask.sum(1))
    assert bool((paid.rewards[batch.mask == 0] == 0).all())


def test_the_limit_shrinks(policy):
    batch = collate(evaluate.episodes(policy, envs.Chain((1, 4)), 64, limits=LIMITS))
    pruned = reasoning_rl.ThinkPrune(limits=(99, 5, 1), each=10)
    for step, limit in ((0, 99), (9, 99), (10, 5), (25, 1), (99, 1)):
        expected = batch.reward * (batch.mask.sum(1) <= limit)
        assert torch.equal(pruned.reward(batch.set(step=step)).reward, expected)


def test_forks_learn_in_the_loop():
    twin = models.load("chain-modes")
    how = dict(steps=1, prompts=4, tries=4, limits=LIMITS, seed=1)
    records = list(train(twin, envs.Chain((2, 4)), reasoning_rl.Forks(), **how))
    assert records[0].grad_norm > 0


def test_an_update_with_all_tokens_is_grpo_with_a_token_mean(policy):
    class TokenGRPO(GRPO):
        def reduce(self, x, batch):
            return ops.token_mean(x, batch.mask)

    batch = collate(evaluate.episodes(policy, THREE, 4, 4, limits=LIMITS))
    with torch.no_grad():
        batch = batch.set(entropy=score(policy, batch).entropy)
    found = []
    for algorithm in (TokenGRPO(), reasoning_rl.Forks(share=1.0)):
        twin = policy.copy().requires_grad_(True)
        backward(twin, algorithm, batch.set(advantages=algorithm.advantages(batch)))
        found.append(twin.embed.grad)
    assert torch.allclose(*found, atol=1e-7)
