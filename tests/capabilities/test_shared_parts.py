"""The parts that several capabilities use: looking ahead, votes, pairs, a gate with a price."""

import itertools

import numpy as np
import pytest

from arl_mini import Limits, Sampling, collate, envs, models, rollout
from arl_mini.capabilities import ahead, gate, pairs, vote
from arl_mini.models import score
from arl_mini.rollout import demonstrate, rewind, start

LIMITS = Limits(turn_tokens=8, turns=6, total=160)


@pytest.fixture(scope="module")
def policy():
    return models.load("quest-novice")


def begin(policy, seeds=(0, 1, 2)):
    return [start(policy, envs.Quest(), seed, seed) for seed in seeds]


def test_turn_by_turn_proposals_make_the_greedy_episode(policy):
    how = dict(sampling=Sampling(temperature=0), limits=LIMITS)
    whole = rollout(policy, envs.Quest(), [0, 1, 2], **how)
    for row, episode in zip(begin(policy), whole, strict=True):
        while True:
            ((candidate,),) = ahead.propose(policy, [row], **how)
            row = candidate.row
            if candidate.over:
                break
        assert row.episode.tokens.tolist() == episode.tokens.tolist()
        for name in ("mask", "turn", "rewards"):
            assert getattr(row.episode, name).tolist() == getattr(episode, name).tolist()
        assert (row.episode.terminated, row.episode.success) == (episode.terminated, episode.success)
        assert row.episode.infos == episode.infos


def test_proposals_leave_the_row_as_it_was(policy):
    rows = begin(policy)
    tokens, texts = [r.episode.tokens.copy() for r in rows], [r.env.clone().step(r.env.expert()).text for r in rows]
    first = ahead.propose(policy, rows, 4, seed=3, limits=LIMITS)
    again = ahead.propose(policy, rows, 4, seed=3, limits=LIMITS)
    assert [[c.said for c in cs] for cs in first] == [[c.said for c in cs] for cs in again]
    assert len({c.said for cs in first for c in cs}) > 3
    assert all((r.episode.tokens == t).all() for r, t in zip(rows, tokens, strict=True))
    assert [r.env.clone().step(r.env.expert()).text for r in rows] == texts


def test_logp_of_a_candidate_is_that_of_scoring(policy):
    for (candidate,) in ahead.propose(policy, begin(policy), limits=LIMITS):
        batch = collate([candidate.row.episode])
        scored = (score(policy, batch).logp * batch.mask).sum().item()
        assert candidate.logp == pytest.approx(scored, abs=1e-4)


def test_following_the_expert_is_its_demonstration(policy):
    for row, shown in zip(begin(policy), demonstrate(policy, envs.Quest(), [0, 1, 2], lambda e: e.expert()), strict=True):
        while not (candidate := ahead.follow(policy, row, row.env.expert())).over:
            row = candidate.row
        made = candidate.row.episode
        for name in ("tokens", "mask", "turn", "rewards"):
            assert getattr(made, name).tolist() == getattr(shown, name).tolist()
        assert made.success and made.terminated


def test_worth_is_the_mean_of_what_is_still_to_come(policy):
    rows = [ahead.follow(policy, row, row.env.expert()).row for row in begin(policy)]
    ends = ahead.reroll(policy, rows, 16, seed=1, limits=LIMITS)
    assert [len(e) for e in ends] == [16, 16, 16]
    assert all(e.text.startswith(row.episode.text) for es, row in zip(ends, rows, strict=True) for e in es)
    value = ahead.worth(policy, rows, 16, seed=1, limits=LIMITS)
    assert value == pytest.approx([np.mean([e.reward for e in es]) for es in ends])
    assert 0 < sum(value) < 3


def test_a_row_that_is_over_is_worth_nothing_more(policy):
    row = begin(policy)[0]
    while not (candidate := ahead.follow(policy, row, row.env.expert())).over:
        row = candidate.row
    assert ahead.worth(policy, [candidate.row, row], 4, limits=Limits(8, 16, 200))[0] == 0
    assert ahead.reroll(policy, [candidate.row], 2)[0] == [candidate.row.episode] * 2


def test_a_row_taken_back_from_an_episode_that_ended_goes_on(policy):
    episode = next(e for e in rollout(policy, envs.Quest(), range(8), 2, limits=LIMITS) if e.turns > 2)
    ends = ahead.reroll(policy, [rewind(envs.Quest(), episode, 1)], 4, limits=LIMITS)[0]
    assert len({e.text for e in ends}) > 1


def test_a_turn_cut_by_the_total_is_over(policy):
    row = begin(policy)[0]
    ((candidate,),) = ahead.propose(policy, [row], limits=Limits(8, 6, len(row.episode) + 1))
    assert candidate.over and candidate.row.episode.truncated


@pytest.mark.parametrize("answers", list(itertools.product(["a", "b", None], repeat=4)))
def test_every_vote_of_four(answers):
    counts = {a: answers.count(a) for a in answers if a is not None}
    came = vote.vote(answers)
    if not counts:
        assert came == vote.Vote(None, 0.0)
        return
    top = [a for a in answers if a is not None and counts[a] == max(counts.values())]
    assert came == vote.Vote(top[0], max(counts.values()) / 4)


def test_weights_turn_a_vote():
    assert vote.vote(["a", "a", "b"], [1, 1, 3]) == vote.Vote("b", 0.6)
    assert vote.vote(["a", None], [0, 0]).answer is None
    for bad in (([], None), (["a"], [1, 2]), (["a"], [-1.0])):
        with pytest.raises(ValueError, match="weight"):
            vote.vote(*bad)


def test_pairs_are_of_one_task_and_never_twice_the_same(policy):
    tried = rollout(policy, envs.Quest(), range(12), 8, limits=Limits(8, 12, 300))
    found = pairs.won_and_lost(tried, most=3)
    assert len(found) > 5
    assert all(won.seed == lost.seed and won.success and not lost.success for won, lost in found)
    assert len({won.text for won, _ in found}) == len({lost.text for _, lost in found}) == len(found)
    assert max(np.bincount([won.seed for won, _ in found])) <= 3
    assert pairs.won_and_lost([e for e in tried if e.success]) == []


def test_the_corrected_try_stands_where_the_first_one_stood():
    policy = models.load("calc-novice")
    plans = iter([" 7<end>"] * 9)

    class Twice(envs.Calc):
        """Calc that lets a wrong answer be said once more."""

        def step(self, said):
            if not hasattr(self, "once"):
                self.once = said
                return envs.base.Reply(" no", info={"success": False})
            return super().step(said)

    def speak(env):
        return env.expert() if hasattr(env, "once") else next(plans)

    (episode,) = demonstrate(policy, Twice(("sum",)), [4], speak)
    if episode.turns > 2:  # the expert asked its tool first
        assert episode.success
    chosen, rejected = pairs.first_and_last(episode)
    prompt = episode.text[: episode.text.index(" 7<end>")]
    assert rejected.text == prompt + " 7<end>"
    assert chosen.text == prompt + episode.said(episode.turns - 1)
    assert chosen.success and not rejected.success and chosen.turns == rejected.turns == 1
    assert pairs.first_and_last(rejected) is None


class Table:
    """Outcomes for a gate: easy tasks (even seeds) need no work."""

    def __call__(self, seed, mode):
        return (1.0, {"fast": 1, "slow": 5}[mode]) if mode == "slow" or seed % 2 == 0 else (0.0, 1)


def test_the_gate_pays_reward_less_cost():
    world = gate.Gate(envs.Quest(), Table(), ("fast", "slow"), 0.1)
    envs.check_env(world)
    for seed, mode, pay in ((0, "fast", 0.9), (0, "slow", 0.5), (1, "fast", -0.1), (1, "slow", 0.5)):
        world.reset(seed)
        reply = world.step(envs.act(f"choose {mode}"))
        assert reply.done and reply.reward == pytest.approx(pay)
        assert reply.info["success"] == (mode == world.best())
    assert world.step(envs.act("choose none")).info["illegal"] and world.step(" fast<end>").info["malformed"]
    with pytest.raises(ValueError, match="two modes"):
        gate.Gate(envs.Quest(), Table(), ("fast",), 0.1)
