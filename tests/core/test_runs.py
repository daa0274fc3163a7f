"""Training as an iterator: what a record says, what a seed fixes, what is asked of the world, what goes wrong aloud."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from arl_mini.algorithms import DAPO, GRPO, GSPO, RLOO, Algorithm, DrGRPO, Reinforce
from arl_mini.envs import Chain
from arl_mini.evaluate import HELD_OUT
from arl_mini.models import score
from arl_mini.batch import collate
from arl_mini.rewards import judged
from arl_mini.rollout import Limits
from arl_mini.train import train
from tests.core.stage import Bandit, Echo, Talk, chatty, token

SMALL = dict(prompts=4, tries=3, limits=Limits(6, 3, 80), lr=1e-2)


def plain(record) -> tuple:
    """All of a record that must not depend on the clock: numbers and episodes, bit for bit."""
    numbers = {k: v for k, v in record.numbers().items() if not k.startswith("seconds")}
    rows = [tuple(getattr(e, k).tobytes() for k in ("tokens", "mask", "turn", "logp", "rewards")) for e in record.episodes]
    return numbers, rows, [(e.seed, e.group, e.success, e.truncated, e.infos) for e in record.episodes]


# --- records ----------------------------------------------------------------------------------------------


def test_a_record_says_what_the_episodes_say():
    policy = chatty(1)
    before = policy.copy()
    (record,) = train(policy, Talk(), GRPO(beta=0.1), steps=1, **SMALL)
    rows = record.episodes
    batch = collate(rows)
    assert len(rows) == 12 and record.step == 1
    assert record.reward == pytest.approx(np.mean([e.rewards.sum() for e in rows]))
    assert record.success == np.mean([e.success for e in rows])
    assert record.tokens == sum(int(e.mask.sum()) for e in rows) and record.positions == sum(len(e) for e in rows)
    assert record.turns == np.mean([e.turns for e in rows])
    assert record.malformed == np.mean([info["malformed"] for e in rows for info in e.infos])
    groups = {g: {e.reward for e in rows if e.group == g} for g in {e.group for e in rows}}
    assert len(groups) == 4 and record.signal_share == np.mean([len(rewards) > 1 for rewards in groups.values()])
    with torch.no_grad():
        exact = score(before, batch)
    assert record.entropy == pytest.approx(float(exact.entropy.sum() / batch.mask.sum()), rel=1e-4)
    assert record.kl == pytest.approx(0, abs=1e-9) and record.clip_share == 0
    assert record.grad_norm > 0 and 0 < record.signal_share
    assert set(record.seconds) == {"rollout", "score", "update"} and all(s > 0 for s in record.seconds.values())
    flat = record.numbers()
    assert all(isinstance(v, (int, float)) for v in flat.values()) and flat["seconds_rollout"] == record.seconds["rollout"]


def test_the_kl_grows_as_the_policy_leaves_its_reference():
    kl = [record.kl for record in train(chatty(1), Talk(), GRPO(beta=0.01), steps=4, **SMALL)]
    assert kl[0] < 1e-9 and kl[0] < kl[1] < kl[3]


@pytest.mark.parametrize("algorithm", [Reinforce(baseline=True), RLOO(), GRPO(), DrGRPO(), DAPO(rounds=2), GSPO(0.1, 0.1)], ids=str)
def test_each_algorithm_learns_a_bandit(algorithm):
    """` red` pays: from chance among a few words to (almost) always, in 25 steps."""
    policy = chatty(1, stops=1.0, sharp=0.3)
    with torch.no_grad():
        policy.embed[[token(f" {w}") for w in ("red", "green", "blue", "key")], 0] = 2.0
    run = train(policy, Bandit(), algorithm, steps=25, prompts=2, tries=32, lr=5e-3, limits=Limits(turn_tokens=2))
    success = [record.success for record in run]
    assert success[0] < 0.5 and np.mean(success[-3:]) > 0.8


def test_malformed_calls_are_counted_and_answered():
    """A policy that never writes a well-formed call: each turn is told so, and the record counts all of them."""
    policy = chatty(1)
    (record,) = train(policy, Echo(turns=3), GRPO(), steps=1, **SMALL)
    infos = [info for e in record.episodes for info in e.infos]
    assert 0 < record.malformed == np.mean([bool(i.get("malformed")) for i in infos])
    told = [e.text.count("<obs> error say act</obs>") for e in record.episodes]
    heard = [sum(bool(i.get("malformed")) for i in e.infos[:-1]) for e in record.episodes]
    assert told == heard and sum(told) > 0


# --- what a seed fixes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [GRPO(beta=0.05), DAPO(rounds=3)], ids=str)
def test_the_same_seed_gives_the_same_records(algorithm):
    how = SMALL | dict(steps=3, epochs=2, minibatches=2, micro=5)
    one, again, other = (
        [plain(r) for r in train(chatty(1), Talk(), algorithm, seed=s, **how)] for s in (4, 4, 5)
    )  # fmt: skip
    assert one == again and one[0] != other[0] and one[1] != one[0]


def test_the_global_generators_have_no_say_and_are_left_alone():
    torch.manual_seed(1)
    np.random.seed(1)
    one = plain(next(train(chatty(1), Talk(), GRPO(), **SMALL)))
    torch.manual_seed(2)
    np.random.seed(2)
    states = torch.get_rng_state(), np.random.get_state()[1].copy()
    assert plain(next(train(chatty(1), Talk(), GRPO(), **SMALL))) == one
    assert torch.equal(torch.get_rng_state(), states[0]) and bool((np.random.get_state()[1] == states[1]).all())


# --- what is asked of the world ---------------------------------------------------------------------------


def test_tasks_are_fresh_in_every_step_and_never_held_out():
    seeds = [[e.seed for e in r.episodes] for r in train(chatty(1), Talk(), RLOO(), steps=4, **SMALL)]
    for step in seeds:
        assert len(set(step)) == 4 and all(0 <= s < HELD_OUT for s in step)
    assert len({s for step in seeds for s in step}) == 16


def test_tasks_given_are_the_only_ones():
    for record in train(chatty(1), Talk(), RLOO(), steps=3, tasks=(3, 5, 8, 13, 21), **SMALL):
        asked = [e.seed for e in record.episodes[::3]]
        assert set(asked) <= {3, 5, 8, 13, 21} and len(set(asked)) == 4


def test_dynamic_sampling_asks_for_other_tasks_in_its_next_round():
    class Asked(Talk):
        seen: list = []

        def reset(self, seed):
            self.seen.append(seed)
            return super().reset(seed)

    next(train(chatty(1), Asked(), DAPO(rounds=4), **SMALL | dict(limits=Limits(6, 1, 80))))
    assert len(set(Asked.seen)) > 4 and len(set(Asked.seen)) * 3 == len(Asked.seen)


def test_a_task_drawn_twice_is_tried_anew():
    (record,) = train(chatty(1), Talk(), RLOO(), steps=1, tasks=(3,), **SMALL)
    assert len({e.tokens.tobytes() for e in record.episodes}) > 6  # 12 tries in four groups


def test_the_world_that_was_given_stays_as_it_was():
    env = Talk()
    env.reset(77)
    state = env.rng.getstate()
    next(train(chatty(1), env, GRPO(), **SMALL))
    assert env.rng.getstate() == state


# --- updates ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Watched(RLOO):
    """Notes the rows of every update (in a list that the instances share)."""

    seen: tuple = ()

    def loss(self, scores, batch):
        self.seen[0].append(sorted(id(e) for e in batch.episodes))
        return super().loss(scores, batch)


@pytest.mark.parametrize("epochs, minibatches", [(1, 1), (1, 5), (3, 1), (2, 4), (1, 99)])
def test_every_pass_uses_every_row_once(epochs, minibatches):
    parts: list = []
    how = SMALL | dict(epochs=epochs, minibatches=minibatches)
    (record,) = train(chatty(1), Talk(), Watched(seen=(parts,)), steps=1, **how)
    assert len(parts) == epochs * min(minibatches, 12)
    everyone = sorted(id(e) for e in record.episodes)
    per = len(parts) // epochs
    for k in range(epochs):
        assert sorted(i for part in parts[k * per : (k + 1) * per] for i in part) == everyone


def test_the_gradient_is_clipped_to_its_largest_norm():
    policy = chatty(1)
    run = train(policy, Talk(), Reinforce(), steps=1, max_grad_norm=1e-3, **SMALL)
    record = next(run)
    norm = math.sqrt(sum(float((p.grad**2).sum()) for p in policy.parameters()))
    assert record.grad_norm > 1e-3 and norm == pytest.approx(1e-3, rel=1e-3)


def test_a_reference_is_a_copy_and_is_not_trained():
    policy = chatty(1)
    ref = policy.copy()
    for run in (train(policy, Talk(), GRPO(beta=0.1), steps=2, ref=ref, **SMALL), train(policy, Talk(), GRPO(beta=0.1), **SMALL)):
        start = [p.clone() for p in run.ref.parameters()]
        next(run)
        assert all(torch.equal(p, q) for p, q in zip(run.ref.parameters(), start))
        assert not any(torch.equal(p, q) for p, q in zip(policy.parameters(), start))
    assert train(policy, Talk(), GRPO(), **SMALL).ref is None


def test_a_run_stops_after_its_steps_and_knows_how_many_are_left():
    run = train(chatty(1), Bandit(), RLOO(), steps=2, **SMALL)
    assert run.__length_hint__() == 2 and len(list(run)) == 2 and run.__length_hint__() == 0
    assert list(run) == []


# --- what goes wrong --------------------------------------------------------------------------------------


def test_an_unknown_setting_is_named():
    with pytest.raises(TypeError, match="stepz"):
        train(chatty(1), Bandit(), GRPO(), stepz=3)


@pytest.mark.parametrize("wrong, message", [
    (dict(steps=0), "steps must be at least 1, got 0"), (dict(prompts=0), "prompts must be at least 1, got 0"),
    (dict(tries=-1), "tries must be at least 1, got -1"), (dict(epochs=0), "epochs must be at least 1, got 0"),
    (dict(minibatches=0), "minibatches must be at least 1"), (dict(temperature=0), "must be positive to learn from samples, got 0"),
])  # fmt: skip
def test_impossible_settings_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        train(chatty(1), Bandit(), GRPO(), **wrong)


@dataclass(frozen=True)
class Judged(GRPO):
    """Pays what a reward function says."""

    judge: object = None

    def reward(self, batch):
        return batch.set(rewards=batch.rewards + judged(batch.episodes, self.judge)[:, None] * batch.mask / batch.mask.sum())


def test_a_reward_function_that_raises_stops_the_run_before_it_learns():
    policy = chatty(1)
    start = [p.clone() for p in policy.parameters()]

    def strict(episode):
        raise KeyError("answer")

    with pytest.raises(RuntimeError, match="reward function strict raised KeyError.'answer'. on episode 0: '<user>"):
        next(train(policy, Talk(), Judged(judge=strict), **SMALL))
    assert all(torch.equal(p, q) for p, q in zip(policy.parameters(), start))


class NoLoss(RLOO):
    def loss(self, scores, batch):
        return super().loss(scores, batch) * float("nan")


def test_a_loss_that_is_no_number_stops_the_run_before_it_spoils_the_policy():
    policy = chatty(1)
    start = [p.clone() for p in policy.parameters()]
    with pytest.raises(FloatingPointError, match="loss is nan at step 0; hint: lower lr or clip rewards"):
        next(train(policy, Talk(), NoLoss(), **SMALL))
    assert all(torch.equal(p, q) for p, q in zip(policy.parameters(), start))


class NoGradient(RLOO):
    """A finite loss whose gradient is not: √ at 0."""

    def loss(self, scores, batch):
        return super().loss(scores, batch) + (scores.logp * 0).abs().sqrt().sum()


def test_a_gradient_that_is_no_number_stops_the_run_before_it_spoils_the_policy():
    policy = chatty(1)
    with pytest.raises(FloatingPointError, match="gradient"):
        next(train(policy, Talk(), NoGradient(), **SMALL))
    assert all(bool(p.isfinite().all()) for p in policy.parameters())


class KeepsNone(RLOO):
    def keep(self, batch):
        return torch.zeros(len(batch), dtype=torch.bool)


def test_an_algorithm_that_keeps_no_row_is_named():
    with pytest.raises(ValueError, match="KeepsNone.keep left none of 12 rows to train on"):
        next(train(chatty(1), Talk(), KeepsNone(), **SMALL))


def test_an_algorithm_without_a_loss_is_no_algorithm():
    with pytest.raises(NotImplementedError):
        next(train(chatty(1), Talk(), Algorithm(), **SMALL))


def test_a_reply_cut_in_the_middle_is_marked():
    """A world of one turn, and a reply that was cut at turn_tokens before its end token."""
    policy = chatty(1, stops=-9.0)
    record = next(train(policy, Chain(), RLOO(), prompts=2, tries=2, limits=Limits(turn_tokens=4)))
    assert all(not e.said(0).endswith(("<end>", "</act>")) for e in record.episodes)
    assert all(e.truncated for e in record.episodes)

