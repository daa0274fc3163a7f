"""The rollout engine against one row played again from nothing, and against the scorer."""

import numpy as np
import pytest
import torch

from arl_mini.batch import collate
from arl_mini.models import score
from arl_mini.rollout import Limits, Sampling, demonstrate, rewind, rollout, run, start
from tests.core.stage import Echo, Parrot, Talk, chatty, play, script

FIELDS = ("tokens", "mask", "turn", "rewards")
# short turns, long observations; many turns; cut by the total in the middle of things; one token a turn
LIMITS = [Limits(6, 4, 200), Limits(20, 6, 400), Limits(30, 8, 60), Limits(1, 5, 100)]
SAMPLINGS = [Sampling(0.7), Sampling(1.3, top_k=5), Sampling(top_p=0.9)]


def same(one, other, close: float = 1e-5) -> None:
    """The same episode; log-probabilities up to rounding."""
    for name in FIELDS:
        assert list(getattr(one, name)) == list(getattr(other, name)), name
    assert np.abs(one.logp - other.logp).max() < close
    assert (one.terminated, one.truncated, one.infos) == (other.terminated, other.truncated, other.infos)


# --- against one row played alone, without a cache --------------------------------------------------------


@pytest.mark.parametrize(
    "limits, sampling", [(cut, Sampling()) for cut in LIMITS] + [(LIMITS[0], how) for how in SAMPLINGS], ids=str
)
def test_every_row_is_what_it_is_alone(limits, sampling):
    """Tokens, masks, turns, rewards, ends: 12 ragged rows in one cache are 12 rows played one by one."""
    policy, env = chatty(3), Talk(turns=6)
    rows = rollout(policy, env, range(6), 2, seed=5, sampling=sampling, limits=limits)
    for i, row in enumerate(rows):
        alone = play(policy, env, i // 2, (5, i // 2, i % 2), sampling, limits)
        for name in FIELDS:
            assert getattr(row, name).tolist() == alone[name], name
        assert np.abs(row.logp - alone["logp"]).max() < 1e-5
        assert (row.terminated, row.truncated, row.infos) == (alone["terminated"], alone["truncated"], alone["infos"])
        assert (row.seed, row.group, row.temperature) == (i // 2, i // 2, sampling.temperature)
        assert row.full_support == (sampling.top_k == 0 and sampling.top_p == 1)


def test_the_rows_above_are_ragged_in_every_way(monkeypatch):
    """Otherwise the test before shows little: lengths, turns, ends, short and long observations, each way to catch up."""
    policy, calls = chatty(3), []
    advance = policy.advance

    def watched(tokens, counts, cache, rows):
        calls.append((tokens.shape, counts is None, rows is None))
        return advance(tokens, counts, cache, rows)

    monkeypatch.setattr(policy, "advance", watched)
    rows = rollout(policy, Talk(turns=6), range(6), 2, seed=5, limits=LIMITS[1])
    rows += rollout(policy, Talk(turns=6), range(6), 2, seed=5, limits=LIMITS[2])
    assert len({len(r) for r in rows}) > 5 and len({r.turns for r in rows}) > 2
    assert any(r.truncated for r in rows) and any(r.terminated for r in rows)
    observed = {int(((r.mask == 0) & (r.turn == t)).sum()) for r in rows for t in range(r.turns)}
    assert min(observed - {0}) == 2 and max(observed) > 15
    assert {"all rows, one token each", "some rows wait", "a chunk for some rows", "rows have left"} <= {
        name
        for shape, full, everyone in calls[1:]
        for name, seen in {
            "all rows, one token each": shape[1] == 1 and full and everyone,
            "some rows wait": shape[1] == 1 and not full,
            "a chunk for some rows": shape[1] > 1 and not everyone,
            "rows have left": everyone and shape[0] < 12,
        }.items()
        if seen
    }


@pytest.mark.parametrize("size", [
    dict(width=32, layers=2, heads=2, hidden=48), dict(width=16, layers=1, heads=1, hidden=8),
    dict(width=48, layers=3, heads=4, hidden=64),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("temperature", [1.0, 0.7, 2.0])
def test_engine_and_scorer_agree(size, temperature):
    """Cached, ragged, with early leavers, against `score`, which has no cache: < 1e-5 in float32, and so ratio 1."""
    policy = chatty(1, size=size)
    rows = rollout(policy, Talk(turns=5), range(24), 2, sampling=Sampling(temperature), limits=Limits(12, 5, 150))
    batch = collate(rows)
    with torch.no_grad():
        logp = score(policy, batch).logp
    assert float((logp - batch.old_logp).abs().max()) < 1e-5
    assert float(((logp - batch.old_logp).exp() - 1).abs().max()) < 1e-5
    assert batch.mask.sum() > 300


def test_ignoring_the_temperature_would_be_seen():
    """The ratio of the first step would not be 1: this is what the temperature in the batch is for."""
    policy = chatty(1)
    batch = collate(rollout(policy, Talk(), range(8), 2, sampling=Sampling(0.7), limits=Limits(12, 5, 150)))
    with torch.no_grad():
        wrong = score(policy, batch.set(temperature=1.0)).logp
    assert float((wrong - batch.old_logp).abs().max()) > 0.1


# --- neighbours, order, copies ----------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", [[4], [0, 6], [6, 1, 3], [5, 4, 3, 2, 1, 0]], ids=str)
def test_neighbours_do_not_matter(chosen):
    policy, env, how = chatty(3), Talk(turns=6), dict(seed=5, limits=LIMITS[1])
    everyone = rollout(policy, env, range(7), 3, **how)
    for i, row in enumerate(rollout(policy, env, chosen, 3, **how)):
        same(row, everyone[3 * chosen[i // 3] + i % 3])


def test_more_tries_leave_the_first_ones_as_they_were():
    policy, how = chatty(3), dict(seed=5, limits=LIMITS[1])
    few, many = (rollout(policy, Talk(), [2, 9], tries, **how) for tries in (2, 5))
    for row, again in zip(few, many[:2] + many[5:7]):
        same(row, again)


def test_another_seed_gives_other_episodes_and_the_same_seed_the_same():
    policy = chatty(3)
    one, again, other = (rollout(policy, Talk(), range(4), 2, seed=s) for s in (1, 1, 2))
    for a, b, c in zip(one, again, other):
        same(a, b, 1e-12)
        assert a.tokens.tolist() != c.tokens.tolist()
    assert one[0].tokens.tolist() != one[1].tokens.tolist()  # the tries of one task differ


def test_a_rollout_changes_neither_world_nor_policy():
    policy, env = chatty(3), Talk()
    env.reset(11)
    before = env.rng.getstate(), [p.clone() for p in policy.parameters()], torch.get_rng_state(), np.random.get_state()[1]
    rollout(policy, env, range(3))
    assert env.rng.getstate() == before[0] and torch.equal(torch.get_rng_state(), before[2])
    assert all(torch.equal(p, q) for p, q in zip(policy.parameters(), before[1]))
    assert bool((np.random.get_state()[1] == before[3]).all())


def test_a_shared_prefix_is_computed_once_and_changes_nothing():
    """Eight tries of one task: the prompt is fed once; the same rows without sharing are the same episodes."""
    parrot = Parrot(script("<act> key</act>"))
    rollout(parrot, Echo(turns=1), [3], 8)
    assert parrot.fed[0] == 4  # one prompt of four tokens
    parrot.fed.clear()
    rollout(parrot, Echo(turns=1), [3, 13, 4], 8)  # 3 and 13 tell the same task
    assert parrot.fed[0] == 8

    policy, limits = chatty(3), LIMITS[1]
    shared = rollout(policy, Talk(), [2], 6, limits=limits)
    for k, row in enumerate(shared):
        rows = [start(policy, Talk(), 2), start(policy, Talk(), 3)]  # beside another prompt
        alone = run(policy, rows, [(0, 2, k), (0, 3, k)], sampling=Sampling(), limits=limits)[0]
        same(row, alone)


def test_going_on_from_a_prefix():
    """A row taken back to the start of a turn, with the random numbers it had, is the same episode again."""
    policy, env, limits = chatty(3), Talk(turns=6), Limits(8, 6, 300)
    whole = next(row for row in rollout(policy, env, range(9), limits=limits) if row.turns > 3)
    for turn in range(whole.turns):
        back = rewind(env, whole, turn)
        assert len(back.episode) == int(np.argmax(whole.turn == turn))
        (again,) = run(policy, [back], [(0, whole.seed, 0)], sampling=Sampling(), limits=limits)
        same(whole, again)


# --- demonstrations ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_a_demonstration_has_the_tokens_of_the_engine(turns):
    """A policy that says what the expert says, in the engine, and the expert through `demonstrate`."""
    said = Echo().expert()
    (engine,) = rollout(Parrot(script(*[said] * turns)), Echo(turns), [3])
    (shown,) = demonstrate(Parrot(script()), Echo(turns), [3], lambda env: env.expert())
    same(engine, shown)
    assert shown.success and engine.success


def test_a_demonstration_that_runs_out_of_turns_is_truncated():
    (shown,) = demonstrate(Parrot(script()), Echo(turns=9), [3], lambda env: env.expert(), turns=2)
    assert shown.truncated and not shown.terminated and shown.turns == 2 and shown.reward == 3.0
