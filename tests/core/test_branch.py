"""Episodes that go on from a prefix of another, from any sampled token."""

import numpy as np
import pytest

from arl_mini.algorithms import Algorithm
from arl_mini.rollout import Limits, Sampling, branch, fork, rewind, rollout, run
from arl_mini.train import Run, Settings
from tests.core.stage import Echo, Talk, chatty
from tests.core.test_engine import FIELDS, same

LIMITS = [Limits(6, 4, 200), Limits(20, 6, 400), Limits(30, 8, 60), Limits(1, 5, 100)]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_with_the_same_random_numbers_it_becomes_the_same_episode(limits):
    """From before every sampled token of ragged rows: in mid-turn, at a turn's first token, at its last."""
    policy, env, how = chatty(3), Talk(turns=6), dict(sampling=Sampling(0.9), limits=limits)
    whole = rollout(policy, env, range(6), seed=5, **how)
    at = [(i, p) for i, e in enumerate(whole) for p in np.flatnonzero(e.mask)]
    inside = [p for i, p in at if whole[i].mask[p - 1] == 1]
    assert len(inside) > 5 or limits.turn_tokens == 1
    again = run(policy, [fork(env, whole[i], p) for i, p in at], [(5, i, 0) for i, _ in at], **how)
    for (i, _), episode in zip(at, again, strict=True):
        same(episode, whole[i], 1e-4)
        assert episode.seed == whole[i].seed and episode.success == whole[i].success


def test_prefixes_stay_and_tries_differ():
    policy, env, limits = chatty(3), Talk(turns=6), Limits(20, 6, 400)
    whole = rollout(policy, env, range(4), seed=5, limits=limits)
    positions = [int(np.flatnonzero(e.mask)[len(np.flatnonzero(e.mask)) // 2]) for e in whole]
    tried = branch(policy, env, whole, positions, 8, seed=1, limits=limits)
    assert [e.group for e in tried] == [i for i in range(4) for _ in range(8)]
    for i, episode in enumerate(tried):
        before = slice(0, positions[i // 8])
        for name in (*FIELDS, "logp"):
            assert getattr(episode, name)[before].tolist() == getattr(whole[i // 8], name)[before].tolist(), (
                name
            )
        assert episode.mask[positions[i // 8]] == 1 and episode.seed == whole[i // 8].seed
    assert all(len({e.tokens.tobytes() for e in tried[k : k + 8]}) > 2 for k in range(0, 32, 8))
    alone = branch(policy, env, whole[:1], positions[:1], 3, seed=1, limits=limits)
    for one, other in zip(alone, tried):
        same(one, other)
    other_seed = branch(policy, env, whole, positions, 8, seed=2, limits=limits)
    assert [e.tokens.tolist() for e in other_seed] != [e.tokens.tolist() for e in tried]


class Listening(Echo):
    """An Echo whose copies know where they are."""

    def __deepcopy__(self, memo):
        copy = Listening(self.turns, self.cut, self.heard)
        copy.now = getattr(self, "now", None)
        return copy


def test_the_world_hears_whole_turns_once_each():
    """Replayed: every turn before the prefix's. Then the turn with its kept beginning, in one piece."""
    heard, policy, limits = [], chatty(1), Limits(6, 4, 200)
    env = Listening(turns=3, heard=heard)
    (whole,) = rollout(policy, env, [4], seed=2, limits=limits)
    (at,) = [p for p in np.flatnonzero(whole.turn == 1) if whole.mask[p]][1:2]
    heard.clear()
    (tried,) = branch(policy, env, [whole], [at], seed=9, limits=limits)
    assert heard == [whole.said(0), tried.said(1), tried.said(2)]
    assert tried.said(1).startswith(whole.pieces[at - 1]) and len(tried.infos) == tried.turns == 3


def test_a_turn_is_its_first_token():
    policy, env = chatty(3), Talk(turns=6)
    whole = max(rollout(policy, env, range(6), seed=5, limits=LIMITS[1]), key=lambda e: e.turns)
    for turn in range(whole.turns):
        first = int(np.flatnonzero((whole.turn == turn) & (whole.mask > 0))[0])
        one, other = rewind(env, whole, turn), fork(env, whole, first)
        assert (
            vars(one.env)["heard"] == vars(other.env)["heard"]
            and one.episode.tokens.tolist() == whole.tokens[:first].tolist()
        )
        assert one.begun == other.begun == first


@pytest.mark.parametrize("position", [0, -1, 10**6])
def test_only_sampled_tokens_can_be_sampled_anew(position):
    policy, env = chatty(3), Talk(turns=6)
    (whole,) = rollout(policy, env, [1], seed=5)
    with pytest.raises(ValueError, match="no sampled token.*hint"):
        fork(env, whole, position)


def test_a_run_forks_with_groups_and_numbers_of_their_own():
    class Asks(Algorithm):
        def plan(self, sampler):
            tried = super().plan(sampler)
            at = [int(np.flatnonzero(e.mask)[-1]) for e in tried]
            return tried + sampler.fork(tried, at, 2) + sampler.fork(tried, at, 2)

    run_ = Run(chatty(3), Talk(turns=3), Asks(), Settings(prompts=2, tries=2, limits=LIMITS[0]))
    episodes = run_.algorithm.plan(run_._sampler())
    assert len(episodes) == 4 + 8 + 8 and len({e.group for e in episodes}) == 2 + 4 + 4
    assert [e.tokens.tolist() for e in episodes[4:12]] != [e.tokens.tolist() for e in episodes[12:]]
    assert branch(run_.policy, run_.env, [], [], 3) == []
