"""Where pairs come from: choosers, data drawn in passes, cuts to a step or a segment, tries resumed."""

import random

import numpy as np
import pytest
import torch

from arl_mini import Limits, Settings, collate, demonstrate, envs, models, rollout, train
from arl_mini.algorithms import DPO, ETO, KTO, LCPO, SDPO, BetaDPO, OnlineDPO, StepDPO
from arl_mini.algorithms.base import Sampler
from arl_mini.algorithms.dpo import choose_pairs, draw, mismatched
from arl_mini.algorithms.preference import (
    annotated, best_and_worst, by_score, first_bad_turn, shortest_and_longest, step_numbers,
)  # fmt: skip
from arl_mini.batch import by_group, pairs

CHAIN, QUEST = Limits(12, 1, 48), Limits(8, 8, 112)


def shown(env, *said, name="chain-atoms", seed=0):
    """An episode in which these turns are said."""
    turns = iter(said)
    return demonstrate(models.load(name), env, [seed], lambda env: next(turns), len(said))[0]


@pytest.fixture(scope="module")
def chain():
    """Four tries each of 8 chains by the novice."""
    return rollout(models.load("chain-atoms"), envs.Chain(), range(8), 4, seed=3, limits=CHAIN)


class Stub(Sampler):
    """A sampler for draws alone."""

    def __init__(self, seed=0, prompts=3):
        super().__init__(prompts, 2, lambda n: [], lambda seeds, tries: [], rng=np.random.default_rng(seed))


def test_pairs_are_rows(chain):
    rows = pairs([(chain[0], chain[1]), (chain[5], chain[4])])
    batch = collate(rows)
    assert batch.pair.tolist() == [0, 0, 1, 1]
    assert batch.chosen.tolist() == [True, False, True, False]
    assert batch.rows(torch.tensor([2, 3])).pair.tolist() == [1, 1]
    assert collate(chain).pair.tolist() == [-1] * 32
    assert [e.pair for e in chain] == [-1] * 32  # marks are on copies
    with pytest.raises(ValueError):
        pairs([(chain[0], chain[1], chain[2])])


def test_best_and_worst_of_each_group(chain):
    for won, lost in choose_pairs(chain, best_and_worst):
        assert won.group == lost.group
        assert won.reward == 1 > lost.reward == 0
    mixed = [g for g in by_group(chain) if len({e.reward for e in g}) == 2]
    assert len(choose_pairs(chain, best_and_worst)) == len(mixed) > 0
    assert best_and_worst(chain[:1]) is None  # a group of one


def test_a_score_or_an_annotator_can_choose(chain):
    tries = by_group(chain)[0]
    won, lost = by_score(lambda tries: [e.logp.sum() for e in tries])(tries)
    assert won is max(tries, key=lambda e: e.logp.sum())
    assert lost is min(tries, key=lambda e: e.logp.sum())
    assert by_score(lambda tries: torch.zeros(len(tries)))(tries) is None
    first, second = tries[:2]
    assert annotated(lambda a, b: True)(tries) == (first, second)
    assert annotated(lambda a, b: False)(tries) == (second, first)
    assert annotated(lambda a, b: True)(tries[:1]) is None


def test_short_against_long_only_where_all_are_right():
    env = envs.Chain((2, 2))
    env.reset(0)
    step, last = env.steps[0], env.answer
    thoughts = (f"<think> {step}</think>", f"<think> {step} {step}</think>", "")
    tries = [shown(env, f"{thought} {last}<end>") for thought in thoughts]
    assert shortest_and_longest(tries) == (tries[2], tries[1])
    wrong = shown(env, f" {(last + 1) % 10}<end>")
    assert shortest_and_longest([*tries, wrong]) is None
    assert shortest_and_longest(tries[:1] * 2) is None


def test_data_is_drawn_in_passes_each_in_its_own_order():
    sampler, data = Stub(), list("abcdefg")
    drawn = [x for _ in range(7) for x in draw(data, 3, sampler)]
    passes = ["".join(drawn[i : i + 7]) for i in (0, 7, 14)]
    assert all(sorted(p) == data for p in passes)
    assert len(set(passes)) == 3
    assert sorted(draw(data, 20, sampler)) == data
    assert draw(data, 7, Stub(1)) == draw(data, 7, Stub(1)) != draw(data, 7, Stub(2))


@pytest.mark.parametrize("algorithm", [DPO(), KTO()])
def test_no_data_is_an_error_that_says_what_to_give(algorithm):
    with pytest.raises(ValueError, match="hint: pairs=choose_pairs"):
        algorithm.plan(Stub())


# --- Step-DPO ---------------------------------------------------------------------------------------------


def kept(e):
    """The text of the sampled tokens."""
    return e.tokenizer.decode(e.tokens[e.mask > 0].tolist())


def test_only_the_first_differing_step_is_compared():
    env = envs.Chain((3, 3))
    right = shown(env, "<think> 7 5</think> 6<end>")
    cases = {
        "<think> 7 2</think> 6<end>": (" 5", " 2"),
        "<think> 7 5</think> 9<end>": ("</think> 6<end>", "</think> 9<end>"),
        " 4<end>": ("<think> 7", " 4<end>"),
        "<think> 7 5 5</think> 6<end>": ("</think> 6<end>", " 5"),
    }
    for said, wanted in cases.items():
        wrong = shown(env, said)
        cut = StepDPO().trim(right, wrong)
        assert (kept(cut[0]), kept(cut[1])) == wanted
        n = int(cut[0].mask.argmax())
        assert cut[0].tokens[:n].tolist() == cut[1].tokens[:n].tolist()  # the shared beginning
        assert len(cut[0]) == np.flatnonzero(cut[0].mask)[-1] + 1  # nothing after the step
        assert [e.reward for e in cut] == [right.reward, wrong.reward]
        assert bool((cut[0].logp[cut[0].mask == 0] == 0).all())
    assert StepDPO().trim(right, right) is None


def test_one_step_in_all_is_dpo():
    env = envs.Chain((1, 1))
    a, b = shown(env, " 4<end>"), shown(env, " 5<end>")
    for whole, cut in zip((a, b), StepDPO().trim(a, b)):
        assert cut.tokens.tolist() == whole.tokens.tolist()
        assert cut.mask.tolist() == whole.mask.tolist()
    assert step_numbers(a, str.isalpha).max() == 0  # nothing ends a step: all is one


def test_step_dpo_compares_a_right_with_a_wrong_step_on_live_tries():
    policy, env = models.load("chain-atoms"), envs.Chain((2, 3), "chain")
    run = train(policy, env, StepDPO(), steps=1, prompts=64, tries=8, limits=CHAIN, lr=1e-4)
    couples = [e for e in next(run).episodes if e.pair >= 0]
    assert len(couples) >= 2
    for won, lost in zip(couples[0::2], couples[1::2]):
        env.reset(won.seed)
        said = won.tokenizer.decode(won.tokens[won.turn >= 0].tolist())
        assert env.expert().startswith(said)  # right so far, the step itself included
        assert not env.expert().startswith(lost.tokenizer.decode(lost.tokens[lost.turn >= 0].tolist()))


# --- trajectories -----------------------------------------------------------------------------------------


def test_sdpo_goes_on_from_just_before_the_bad_turn_in_the_real_world():
    policy, env = models.load("quest-novice"), envs.Quest(3, 8)
    run = train(policy, env, SDPO(), steps=1, prompts=12, tries=3, limits=QUEST)
    sampler = run._sampler()
    first = sampler.rollout(sampler.fresh(12), 1)
    lost = [e for e in first if not e.success]
    turns = [first_bad_turn(e) for e in lost]
    again = by_group(sampler.branch(lost, turns, 3))
    assert len(again) == len(lost) > 0
    for old, turn, tries in zip(lost, turns, again):
        n = int(np.argmax(old.turn == turn))
        assert len({e.group for e in tries}) == 1
        for e in tries:
            assert e.tokens[:n].tolist() == old.tokens[:n].tolist()
            spoken = iter([e.said(k) for k in range(e.turns)])
            replayed = demonstrate(policy, env, [e.seed], lambda env: next(spoken), e.turns)[0]
            cut = min(len(e), len(replayed))  # an episode that a limit cut has no last observation
            assert replayed.tokens[:cut].tolist() == e.tokens[:cut].tolist()
            assert replayed.reward == e.reward
    with pytest.raises(ValueError, match="expected a turn from 0"):
        sampler.branch(lost[:1], [99], 1)


def test_a_segment_has_equal_turns_from_the_first_difference():
    env, act = envs.Quest(3, 8), "<act> go {}</act>".format
    a = shown(env, *map(act, ("north", "east", "south", "west", "north")), name="quest-novice")
    b = shown(env, *map(act, ("north", "west", "west")), name="quest-novice")
    assert a.turns == 5
    assert b.turns == 3
    for limit, wanted in ((1, [1]), (2, [1, 2]), (0, [1, 2])):
        cut = SDPO(turns=limit).trim(a, b)
        assert [sorted(set(e.turn[e.mask > 0].tolist())) for e in cut] == [wanted] * 2
    same = shown(env, *map(act, ("north", "west")), name="quest-novice")
    assert SDPO().trim(b, same) is None  # one is the beginning of the other


def test_the_first_bad_turn_is_the_worlds_verdict_or_the_middle():
    env = envs.Quest(3, 8)
    bad = shown(env, "<act> open door</act>", "<act> take key</act>", name="quest-novice", seed=1)
    assert first_bad_turn(bad) == next(k for k, i in enumerate(bad.infos) if i.get("illegal"))
    mute = shown(env, " find<end>", name="quest-novice")
    assert first_bad_turn(mute) == 0
    env.reset(0)
    walk = demonstrate(models.load("quest-novice"), env, [0], lambda env: env.expert())[0]
    assert first_bad_turn(walk) == walk.turns // 2


def test_eto_shows_the_expert_where_every_try_failed():
    env = envs.Quest(3, 8)
    run = train(models.load("quest-novice"), env, ETO(), steps=1, prompts=16, tries=2, limits=QUEST)
    rows = run.algorithm.plan(run._sampler())
    for tries in by_group(rows):
        won = any(e.success for e in tries if not e.expert)
        assert [e.expert for e in tries].count(True) == (0 if won else 1)
        if not won:
            chosen, = (e for e in tries if e.chosen)
            assert chosen.expert
    alone = train(models.load("quest-novice"), env, ETO(expert=False), prompts=4, tries=2, limits=QUEST)
    assert not any(e.expert for e in alone.algorithm.plan(alone._sampler()))


# --- in the loop ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    """64 pairs of the Taste novice's tries, by utility."""
    tries = rollout(models.load("taste-novice"), envs.Taste(), range(64), 2, seed=1, limits=Limits(20, 1, 32))
    return choose_pairs(tries, best_and_worst)


def offline(algorithm, seed=0, **changes):
    settings = dict(steps=4, prompts=10, lr=1e-4, seed=seed) | changes
    return train(models.load("taste-novice"), envs.Taste(), algorithm, **settings)


def test_parts_of_a_step_and_of_a_pass_keep_pairs_together(data):
    for algorithm in (DPO(pairs=data), BetaDPO(pairs=data)):
        records = list(offline(algorithm, minibatches=3, epochs=2, micro=4, steps=2))  # a split pair raises
        assert all(r.grad_norm > 0 for r in records)


def test_a_resumed_offline_run_draws_what_it_would_have_drawn(data, tmp_path):
    whole = [r.loss for r in offline(BetaDPO(pairs=data))]
    run = offline(BetaDPO(pairs=data))
    first = [next(run).loss, next(run).loss]
    run.save(tmp_path / "run.pt")
    again = offline(BetaDPO(pairs=data)).load(tmp_path / "run.pt")
    assert first + [r.loss for r in again] == whole
    assert [r.loss for r in offline(BetaDPO(pairs=data), seed=1)] != whole


def test_beta_dpo_leaves_out_its_share_and_rather_the_outliers(data):
    run = offline(BetaDPO(pairs=data, drop=0.3))
    next(run)
    rows = run.algorithm.plan(run._sampler())
    assert sum(e.chosen for e in rows) == 7
    assert len({e.weight for e in rows if e.pair >= 0}) == 1
    gap = torch.cat([torch.zeros(9), torch.tensor([30.0])]).double()
    a = BetaDPO()
    weights = a.weights(gap, float(gap[:9].mean()), 1.0)
    assert float(weights[9]) < 1e-6 < float(weights[0]) == 1


def test_online_pairs_are_the_policys_own_and_the_record_counts_all_tries():
    env, seen = envs.Taste(), []

    def prefers(a, b):
        seen.append((a.text, b.text))
        return env.prefer(env.reset(a.seed).strip(), a.said(0), b.said(0), random.Random(a.text + b.text))

    online, limits = OnlineDPO(pairs=annotated(prefers)), Limits(20, 1, 32)
    run = train(models.load("taste-novice"), env, online, steps=2, prompts=6, tries=3, limits=limits)
    for record in run:
        assert len(record.episodes) == 18
        assert sum(e.pair >= 0 for e in record.episodes) == 12
    assert len(set(seen)) == 12


def test_a_step_without_any_pair_changes_nothing():
    policy = models.load("chain-atoms")
    before = [p.clone() for p in policy.parameters()]
    never = OnlineDPO(pairs=lambda tries: None)
    record = next(train(policy, envs.Chain(), never, steps=1, prompts=2, tries=2, limits=CHAIN))
    assert record.loss == record.grad_norm == 0
    assert all(torch.equal(a, b) for a, b in zip(before, policy.parameters()))


def test_mismatched_rows_have_the_prompt_of_one_and_the_reply_of_another(chain):
    rows = [g[0] for g in by_group(chain)]
    for row, other in zip(rows, mismatched(rows)):
        assert other.tokens[other.turn < 0].tolist() == row.tokens[row.turn < 0].tolist()
        assert other.said(0) in {e.said(0) for e in rows if e.seed != row.seed}
        assert other.pair == -1
        assert not other.own
    twins = by_group(chain)[0][:2]
    assert [e.said(0) for e in mismatched(twins)] == [twins[1].said(0), twins[0].said(0)]
    assert mismatched(twins[:1])[0].said(0) == twins[0].said(0)


def test_kto_takes_labels_of_data_or_of_fresh_tries(data):
    labelled = [(e, good) for pair in data for e, good in zip(pair, (True, False))]
    record = next(offline(KTO(labelled=labelled)))
    assert len(record.episodes) == 20  # mismatched rows are not counted
    assert record.loss == pytest.approx(0.5, abs=1e-5)
    live = KTO(labelled=lambda e: e.reward > 0)
    limits = Limits(20, 1, 32)
    run = train(models.load("taste-novice"), envs.Taste(), live, prompts=4, tries=3, limits=limits)
    rows = run.algorithm.plan(run._sampler())
    assert [e.chosen for e in rows[:12]] == [e.reward > 0 for e in rows[:12]]
    assert len(rows) == 24


def test_lcpo_runs_without_a_reference():
    run = train(models.load("chain-atoms"), envs.Chain(), LCPO(), steps=1)
    assert run.ref is None
    assert Settings().prompts == run.settings.prompts
