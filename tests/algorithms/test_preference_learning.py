"""The DPO family learns: one quick seed by default, three fresh ones and longer (`slow`).

Taste: mean utility of 256 replies (the novice's: −0.31); pairs of its own replies, ordered by annotators.
Quest in three rooms: success (0.33). Chain: success (0.42), or for LCPO the length of the replies.
"""

import random

import pytest

from arl_mini import Limits, demonstrate, envs, evaluate, imitate, models, rollout, train
from arl_mini.algorithms import DMPO, DPO, ETO, IPO, KTO, LCPO, ORPO, SDPO, BetaDPO, OnlineDPO, SimPO, StepDPO
from arl_mini.algorithms.dpo import choose_pairs
from arl_mini.algorithms.preference import annotated

TASTE, CHAIN, QUEST = Limits(20, 1, 32), Limits(12, 1, 48), Limits(8, 8, 112)
PEOPLE = envs.Taste(noise=0.2)


def prefers(a, b) -> bool:
    """A noisy annotator, who judges the same two replies the same way each time."""
    topic = PEOPLE.reset(a.seed).strip()
    return PEOPLE.prefer(topic, a.said(0), b.said(0), random.Random(f"{a.text} {b.text}"))


def preferences(prompts: int, seed: int):
    tries = rollout(models.load("taste-novice"), PEOPLE, range(prompts), 2, seed=seed, limits=TASTE)
    return choose_pairs(tries, annotated(prefers))


@pytest.fixture(scope="module")
def data():
    return preferences(768, 1)


def utility(policy) -> float:
    tried = evaluate.episodes(policy, PEOPLE, 256, limits=TASTE)
    return sum(e.reward for e in tried) / len(tried)


def success(policy, env, limits) -> float:
    tried = evaluate.episodes(policy, env, 256, limits=limits)
    return sum(e.success for e in tried) / len(tried)


OFFLINE = [DPO, BetaDPO, SimPO, IPO, ORPO, KTO]


def given(kind, data):
    """The algorithm with its data; ORPO weighs its preference term 5, KTO sees single labels."""
    if kind is KTO:
        return KTO(labelled=[(e, good) for pair in data for e, good in zip(pair, (True, False))])
    return ORPO(lam=5.0, pairs=data) if kind is ORPO else kind(pairs=data)


def after_taste(algorithm, steps: int, seed: int) -> float:
    policy = models.load("taste-novice")
    run = train(policy, PEOPLE, algorithm, steps=steps, prompts=64, tries=2, lr=6e-4, seed=seed, limits=TASTE)
    assert all(record.grad_norm > 0 for record in run)
    return utility(policy)


@pytest.mark.parametrize("kind", OFFLINE)
def test_fixed_preferences_raise_utility(kind, data):
    assert after_taste(given(kind, data), 12, 0) > -0.31 + 0.06


def test_online_preferences_raise_utility():
    assert after_taste(OnlineDPO(pairs=annotated(prefers)), 10, 0) > -0.31 + 0.06


@pytest.mark.slow
@pytest.mark.parametrize("kind", OFFLINE)
def test_fixed_preferences_raise_utility_in_every_seed(kind):
    for seed in (11, 12, 13):
        assert after_taste(given(kind, preferences(1024, seed)), 32, seed) > -0.31 + 0.15


@pytest.mark.slow
def test_online_preferences_raise_utility_in_every_seed():
    for seed in (11, 12, 13):
        assert after_taste(OnlineDPO(pairs=annotated(prefers)), 32, seed) > -0.31 + 0.3


# --- trajectories -----------------------------------------------------------------------------------------


def after_quest(algorithm, steps: int, seed: int) -> float:
    policy, env = models.load("quest-novice"), envs.Quest(3, 8)
    run = train(policy, env, algorithm, steps=steps, prompts=16, tries=4, lr=5e-4, seed=seed, limits=QUEST)
    list(run)
    return success(policy, env, QUEST)


TRAJECTORIES = [ETO(0.5), DMPO(0.5), SDPO(0.5)]


@pytest.mark.parametrize("algorithm", TRAJECTORIES, ids=["ETO", "DMPO", "SDPO"])
def test_trajectory_preferences_raise_success(algorithm):
    assert after_quest(algorithm, 6, 0) > 0.33 + 0.12


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", TRAJECTORIES, ids=["ETO", "DMPO", "SDPO"])
def test_trajectory_preferences_raise_success_in_every_seed(algorithm):
    for seed in (11, 12, 13):
        assert after_quest(algorithm, 16, seed) > 0.33 + 0.25


# --- steps and lengths ------------------------------------------------------------------------------------


def after_chain(algorithm, steps: int, seed: int, prompts: int = 16) -> float:
    policy = models.load("chain-atoms")
    settings = dict(steps=steps, prompts=prompts, lr=1e-3, seed=seed, limits=CHAIN)
    list(train(policy, envs.Chain(), algorithm, **settings))
    return success(policy, envs.Chain(), CHAIN)


def test_step_preferences_raise_success():
    assert after_chain(StepDPO(), 10, 0) > 0.42 + 0.12


@pytest.mark.slow
def test_step_preferences_raise_success_in_every_seed():
    for seed in (11, 12, 13):
        assert after_chain(StepDPO(), 30, seed, 24) > 0.42 + 0.25


def verbose(env, rng) -> str:
    """Right sums, each written one to three times, and the last one in the thought as well."""
    said = [s for s in env.steps for _ in range(rng.randint(1, 3))] + [env.answer] * rng.randint(0, 2)
    return env._write(said, env.answer)


def brevity(seed: int, updates: int, steps: int) -> tuple[float, float]:
    """(length after/before, success after − before) of LCPO on a policy that was taught to write too much."""
    policy, env, rng = models.load("chain-atoms"), envs.Chain((1, 2)), random.Random(seed)
    shown = demonstrate(policy, env, range(1500), lambda env: verbose(env, rng))
    list(imitate(policy, shown, steps=updates, rows=48, lr=2e-3, seed=seed))

    def measured():
        tried = evaluate.episodes(policy, env, 512, limits=CHAIN)
        return sum(e.mask.sum() for e in tried) / 512, sum(e.success for e in tried) / 512

    before = measured()
    list(train(policy, env, LCPO(), steps=steps, prompts=32, tries=8, lr=1e-4, seed=seed, limits=CHAIN))
    after = measured()
    return after[0] / before[0], after[1] - before[1]


def test_length_preferences_shorten_right_answers():
    shorter, success = brevity(0, 120, 8)
    assert shorter < 0.85
    assert success > -0.03


@pytest.mark.slow
def test_length_preferences_shorten_right_answers_in_every_seed():
    for seed in (17, 18, 19):
        shorter, success = brevity(seed, 300, 12)
        assert shorter < 0.85
        assert success > -0.03
