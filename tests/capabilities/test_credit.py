"""Credit for turns: learned worth, rules, exact values, pairs that share a start, advice to an actor."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from arl_mini import GRPO, Limits, collate, envs, models, rollout, train
from arl_mini.algorithms.credit import turn_sums
from arl_mini.batch import Episode
from arl_mini.capabilities import credit, credit_advice, credit_pairs, credit_rules
from arl_mini.capabilities.credit_exact import chances, true_credit, words_before
from arl_mini.formal import tmaze
from arl_mini.models.score import score
from arl_mini.models.tokenizer import encode

LONG, MAZE = Limits(12, 14, 320), Limits(6, 5, 64)


@pytest.fixture(scope="module")
def walker():
    return models.load("maze-novice")


@pytest.fixture(scope="module")
def mazes(walker):
    return rollout(walker, envs.Finite(tmaze(4)), range(6), 6, limits=MAZE)


@pytest.fixture(scope="module")
def thinker():
    return models.load("errand-novice")


@pytest.fixture(scope="module")
def errands(thinker):
    return rollout(thinker, envs.Errand(), range(4), 8, limits=LONG)


# --- learned ----------------------------------------------------------------------------------------------


def test_a_look_is_the_last_token_before_a_turn(mazes):
    for e in mazes:
        at = credit.looks(e)
        assert len(at) == e.turns and e.pieces[at[0]] == "<bot>"
        assert all(e.pieces[i] == "</obs>" and e.mask[i] == 0 and e.mask[i + 1] == 1 for i in at[1:])


def test_outcomes_stand_at_every_look_or_at_the_end_alone(mazes):
    for (e, every), (_, end) in zip(credit.outcome_labels(mazes), credit.outcome_labels(mazes, every=False)):
        assert np.flatnonzero(~np.isnan(every)).tolist() == [*credit.looks(e), len(e) - 1]
        assert np.flatnonzero(~np.isnan(end)).tolist() == [len(e) - 1]
        assert set(every[~np.isnan(every)]) == {float(e.success)} == set(end[~np.isnan(end)])


def test_labels_of_rerolls_are_close_to_the_exact_chance(walker, mazes):
    env, truth = envs.Finite(tmaze(4)), true_credit(walker, tmaze(4))
    labelled, spent = credit.reroll_labels(walker, env, mazes[:3], 200, limits=MAZE)
    assert spent > 200 * 3
    for e, labels in labelled:
        assert np.flatnonzero(~np.isnan(labels)).tolist() == credit.looks(e).tolist()
        for k, at in enumerate(credit.looks(e)):
            exact = (1 + float(truth.values[truth.place[words_before(e, k)]])) / 2
            assert abs(labels[at] - exact) < 0.15  # four standard errors of 200 tries


def test_credit_sums_to_what_was_not_expected(walker, mazes):
    model = credit.fit(walker, credit.outcome_labels(mazes), steps=2)
    for e, worth, c in zip(mazes, model.worth(mazes), model(mazes)):
        assert worth.shape == (e.turns + 1,) and worth[-1] == float(e.success)
        assert ((worth >= 0) & (worth <= 1)).all()
        assert np.isclose(c.sum(), float(e.success) - worth[0]) and c.shape == (e.turns,)


def test_a_fitted_model_tells_prefixes_apart(walker):
    tried = rollout(walker, envs.Finite(tmaze(4)), range(48), limits=MAZE)
    known = [replace(e, success="cue-up" in words_before(e, 0)) for e in tried]  # seen before the first turn
    model = credit.fit(walker, credit.outcome_labels(known), steps=60, rows=24, lr=3e-3)
    assert {e.success for e in known} == {True, False}
    for e, worth in zip(known, model.worth(known)):
        assert np.abs(worth[:-1] - float(e.success)).max() < 0.2


# --- paid and compared ------------------------------------------------------------------------------------


def ones(episodes):
    return [np.arange(1.0, e.turns + 1) for e in episodes]


def test_a_process_reward_is_paid_where_turns_end(errands):
    batch = collate(errands)
    paid = credit.Paid(pay=ones).reward(batch)
    extra = paid.rewards - batch.rewards
    assert bool((extra[batch.mask == 0] == 0).all())
    for i, e in enumerate(errands):
        assert extra[i].sum() == e.turns * (e.turns + 1) / 2
        ends = [int(np.flatnonzero((e.turn == k) & (e.mask > 0))[-1]) for k in range(e.turns)]
        assert extra[i, ends].tolist() == list(range(1, e.turns + 1))


def test_without_a_pay_it_is_grpo(errands):
    batch = collate(errands)
    assert torch.equal(credit.StepCredit().advantages(batch), GRPO().advantages(batch))
    assert torch.equal(credit.Paid().reward(batch).rewards, batch.rewards)


@pytest.mark.parametrize("kind", [lambda e, k: None, lambda e, k: k, credit_rules.tag_of])
def test_turns_are_compared_within_task_and_kind(errands, kind):
    batch = collate(errands)
    rng = np.random.default_rng(0)
    pays = {id(e): rng.normal(size=e.turns) for e in errands}
    algorithm = credit.StepCredit(pay=lambda episodes: [pays[id(e)] for e in episodes], coef=0.5, kind=kind)
    step = algorithm.advantages(batch) - GRPO().advantages(batch)
    peers = {}
    for i, e in enumerate(errands):
        for k in range(e.turns):
            peers.setdefault((e.group, kind(e, k)), []).append((i, k, pays[id(e)][k]))
    for found in peers.values():
        x = np.array([p for *_, p in found])
        for i, k, p in found:
            expected = 0.5 * (p - x.mean()) / (x.std(ddof=1) + 1e-6) if len(x) > 1 else 0.0
            at = (batch.turn[i] == k) & (batch.mask[i] > 0)
            assert torch.allclose(step[i, at], torch.tensor(float(expected)), atol=1e-4)
    assert bool((step[batch.mask == 0] == 0).all())


def test_undivided_small_differences_stay_small(errands):
    batch = collate(errands)
    rng = np.random.default_rng(1)
    pays = {id(e): 0.001 * rng.normal(size=e.turns) for e in errands}
    step = {}
    for std in (True, False):
        algorithm = credit.StepCredit(pay=lambda episodes: [pays[id(e)] for e in episodes], std=std)
        step[std] = (algorithm.advantages(batch) - GRPO().advantages(batch)).abs().max()
    assert step[False] < 0.005 < 1 < step[True]


def test_a_potential_difference_leaves_grpo_as_it_is(errands):
    from arl_mini.experiments import ch13

    batch = collate(errands)
    shaped = credit.Paid(pay=ch13.for_holding)
    farmed = credit.Paid(pay=ch13.for_taking)
    assert torch.allclose(
        shaped.reward(batch).reward, batch.reward, atol=1e-6
    )  # nobody holds the key at first
    assert torch.allclose(shaped.advantages(shaped.reward(batch)), GRPO().advantages(batch), atol=1e-4)
    assert not torch.allclose(farmed.advantages(farmed.reward(batch)), GRPO().advantages(batch), atol=1e-2)


# --- rules ------------------------------------------------------------------------------------------------


def told(*turns, success=False):
    """An episode of which only infos are known: (tag, room, did, new, refused) a turn."""
    infos = [
        {"tag": tag, "room": room, "holding": False, "did": did, "new": new, "illegal": bad}
        for tag, room, did, new, bad in turns
    ]
    turn = np.arange(len(infos))
    return Episode(turn, np.ones(len(infos)), turn, 0 * turn, 0 * turn, infos=infos, success=success)


STORY = (
    ("explore", "hall", "go north", True, False),
    ("explore", "cave", "go south", False, False),  # back: nothing new
    ("plan", "hall", "go north", False, False),  # said before, here
    ("reflect", "cave", "go east", True, False),  # mends it
    ("reflect", "tower", "open door", False, True),
    ("", "tower", "open door", False, True),
)


def test_rules_pay_for_what_the_purpose_achieved():
    episode = told(*STORY)
    assert credit_rules.repeats(episode).tolist() == [False, False, True, False, False, True]
    assert credit_rules.refused(episode).tolist() == [False] * 4 + [True] * 2
    assert credit_rules.rule_tags([episode])[0].tolist() == [1, 0, 0, 1, -1, -1]
    assert credit_rules.rule_tags([told(*STORY, success=True)])[0].tolist() == [1, 0, 1, 1, -1, -1]


def test_what_is_in_hand_makes_a_turn_another_one():
    episode = told(*[("plan", "hall", "go north", False, False)] * 2)
    episode.infos[1]["holding"] = True
    assert credit_rules.repeats(episode).tolist() == [False, False]


# --- exact ------------------------------------------------------------------------------------------------


def test_chances_are_products_over_tokens(walker):
    prefix, sayings = (
        encode(walker.tokenizer, "<user> cue-up<bot>"),
        [envs.act(a) for a in ("forward", "up", "down")],
    )
    by_hand = []
    for said in sayings:
        ids = encode(walker.tokenizer, said)
        logits = walker(torch.tensor([prefix + ids])).log_softmax(-1)[0]
        by_hand.append(sum(logits[len(prefix) + i - 1, t] for i, t in enumerate(ids)).exp())
    by_hand = torch.stack(by_hand) / sum(by_hand)
    assert torch.allclose(chances(walker, [prefix], sayings)[0].float(), by_hand, atol=1e-5)


def test_exact_credit_telescopes_and_averages_to_nothing(walker, mazes):
    truth = true_credit(walker, tmaze(4))
    assert torch.allclose(
        (truth.chances * truth.advantages).sum(1), torch.zeros(len(truth.values)).double(), atol=1e-12
    )
    for e, c in zip(mazes, truth(mazes)):
        if not np.isnan(c).any():
            assert np.isclose(c.sum(), e.reward - truth.value(e))  # deterministic: nothing else is left


def test_exact_values_are_those_of_the_policy_in_the_text_world(walker):
    truth = true_credit(walker, tmaze(4))
    tried = rollout(walker, envs.Finite(tmaze(4)), range(3000, 4500), limits=MAZE)
    expected = np.mean([truth.value(e) for e in tried])
    rewards = np.array([e.reward for e in tried])
    assert abs(rewards.mean() - expected) < 4 * rewards.std() / len(rewards) ** 0.5


def test_a_turn_that_is_no_action_has_no_credit(walker, mazes):
    truth = true_credit(walker, tmaze(4))
    whole = next(e for e in mazes if e.turns == 5)
    tokens = whole.tokens.copy()
    at = np.flatnonzero((whole.turn == 2) & (whole.mask > 0))
    tokens[at[1]] = tokens[at[0]]  # <act><act>…
    broken = Episode(**{**vars(whole), "tokens": tokens})
    assert np.isnan(truth([broken])[0]).tolist() == [False, False, True, True, True]


# --- pairs ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mended():
    policy = models.load("quest-novice")
    tried = rollout(policy, envs.Quest(), range(40), limits=LONG)
    return credit_pairs.branched(policy, envs.Quest(), tried, credit_pairs.middle, 6, limits=LONG)


def test_pairs_share_all_before_the_branch(mended):
    assert len(mended) >= 5
    for won, lost in mended:
        assert won.success and not lost.success and won.seed == lost.seed
        at = int(np.argmax(lost.turn == credit_pairs.middle(lost)))
        assert won.tokens[:at].tolist() == lost.tokens[:at].tolist()


@pytest.mark.parametrize("turns", [1, 3])
def test_segments_are_equally_many_turns_from_where_they_part(mended, turns):
    for chosen, rejected in credit_pairs.segment_pairs(mended, turns):
        free = [sorted({int(k) for k in e.turn[e.mask > 0]}) for e in (chosen, rejected)]
        assert free[0] == free[1] and 1 <= len(free[0]) <= turns
        first = [int(np.argmax(e.mask)) for e in (chosen, rejected)]
        assert (
            first[0] == first[1]
            and chosen.tokens[: first[0]].tolist() == rejected.tokens[: first[0]].tolist()
        )
        assert chosen.said(free[0][0]) != rejected.said(free[0][0])


# --- advice -----------------------------------------------------------------------------------------------


def test_on_its_own_advice_it_says_what_it_says_alone(thinker):
    team = credit_advice.Advised(thinker.copy(), thinker.copy())
    alone, led = (rollout(p, envs.Errand(), range(3), 3, seed=5, limits=LONG) for p in (thinker, team))
    assert [e.text for e in alone] == [e.text for e in led]


def test_first_words_are_the_strategists_and_the_rest_the_actors(thinker):
    other = thinker.copy()
    with torch.no_grad():
        other.embed[encode(thinker.tokenizer, " reflect")[0]] += 3 * other.embed.std()
    team = credit_advice.Advised(other, thinker.copy())
    led = rollout(team, envs.Errand(), range(3), 3, seed=5, limits=LONG)
    advice = collate([credit_advice.advice_only(e) for e in led])
    rest = collate(led)
    rest = rest.set(mask=rest.mask - advice.mask, old_logp=rest.old_logp - advice.old_logp)
    with torch.no_grad():
        assert torch.allclose(score(other, advice).logp, advice.old_logp, atol=1e-4)
        assert torch.allclose(score(thinker, rest).logp, rest.old_logp, atol=1e-4)
    assert bool((turn_sums(advice.mask, advice.mask, advice.turn)[0, : led[0].turns] == 1).all())


def test_training_moves_the_strategist_alone(thinker):
    team = credit_advice.Advised(thinker.copy(), thinker.copy())
    before = {name: p.clone() for name, p in team.named_parameters()}
    settings = dict(steps=2, prompts=6, tries=8, limits=LONG, seed=1)
    records = list(train(team, envs.Errand(), credit_advice.StrategyGRPO(), **settings))
    moved = {name.split(".")[0] for name, p in team.named_parameters() if not torch.equal(p, before[name])}
    assert moved == {"strategist"} and any(r.signal_share > 0 for r in records)
    assert all(float(e.mask.sum()) == e.turns for e in records[0].episodes)


def test_they_must_share_a_tokenizer(thinker, walker):
    with pytest.raises(ValueError, match="share a tokenizer"):
        credit_advice.Advised(thinker, walker)
