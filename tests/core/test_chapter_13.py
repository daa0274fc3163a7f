"""Chapter 13: what it measures without training, its arms, and one seed of its claims."""

import numpy as np
import pytest
import torch

from arl_mini import experiments, models
from arl_mini.experiments import ch13, ch13_credit
from arl_mini.experiments.ch13_arms import FromRerolls, Until
from arl_mini.formal import bonus, shape, value_iteration


@pytest.fixture(scope="module")
def walker():
    return models.load("maze-novice")


def test_signal_fades_with_the_corridor_and_exact_credit_does_not(walker):
    short, long = (ch13_credit.signal_to_noise(walker, n) for n in (3, 12))
    assert long["the return"] < 0.8 * short["the return"]
    assert long["exact advantage"] == pytest.approx(short["exact advantage"], rel=0.01)


def test_signal_to_noise_is_that_of_sampled_gradients(walker):
    """One episode's score times its return, sampled by hand from the table."""
    truth = ch13_credit.true_credit(walker, ch13_credit.tmaze(3))
    draws = np.random.default_rng(0)
    pi, gradients = truth.chances.numpy(), []
    first = [i for i, h in enumerate(truth.told.histories) if len(h) == 1]
    for _ in range(20_000):
        row = first[draws.integers(2)]
        gradient = np.zeros((2, 3))
        a = draws.choice(3, p=pi[row])
        # What follows, in one draw: the return is ±1 with mean Q.
        q = float(truth.values[row] + truth.advantages[row, a])
        ret = 1.0 if draws.random() < (1 + q) / 2 else -1.0
        gradient[first.index(row)] = ret * (np.eye(3)[a] - pi[row])
        gradients.append(gradient.ravel())
    gradients = np.array(gradients)
    found = np.sqrt(np.square(gradients.mean(0)).sum() / gradients.var(0).sum())
    assert found == pytest.approx(ch13_credit.signal_to_noise(walker, 3)["the return"], rel=0.15)


def test_a_table_needs_more_updates_for_a_longer_corridor(walker):
    short, long = (ch13_credit.updates_to(walker, n, "the return", 3, tries=8) for n in (3, 12))
    assert 0 < short < long


def test_paid_for_taking_nobody_opens_the_door_and_a_potential_changes_nothing():
    mdp = ch13_credit.carry()
    hand = ch13_credit.held(mdp)
    took = (mdp.P > 0) * (1 - hand)[:, None, None] * hand[None, None, :]
    plain = ch13_credit.best_way(mdp)
    assert plain == ["west", "take", "east", "east", "open"]
    assert "open" not in ch13_credit.best_way(bonus(mdp, took, 0.5), 40)
    shaped = shape(mdp, 0.5 * hand)
    assert ch13_credit.best_way(shaped) == plain
    moved = value_iteration(mdp).values - value_iteration(shaped).values
    assert torch.allclose(moved, 0.5 * hand, atol=1e-9)  # V changes by −Φ


def test_an_arm_stops_where_it_is_good_enough():
    class Made:
        def __init__(self, step):
            self.step, self.success, self.entropy = step, step / 10, 0.0

    records = list(Until(lambda policy, seed: map(Made, range(1, 20)), goal=0.65, window=3)(None, 0))
    assert [r["step"] for r in records] == list(range(1, 9))  # 0.6, 0.7, 0.8


def test_labels_count_their_tokens():
    made, spent = FromRerolls(6, 2, 2)(models.load("quest-novice"), ch13.HOUSE, 0, ch13.LONG)
    assert spent > sum(int(e.mask.sum()) for e, _ in made)
    assert all(1 <= int((~np.isnan(x)).sum()) <= 2 for _, x in made)


def test_what_pays_for_taking_and_for_holding():
    tried = ch13.evaluate.episodes(models.load("errand-novice"), ch13.Errand(), 64, limits=ch13.LONG)
    taken = [e for e in tried if any(i["took"] for i in e.infos)]
    assert taken
    for e, bonus_, rise in zip(taken, ch13.for_taking(taken), ch13.for_holding(taken)):
        assert bonus_.sum() == 0.5 * sum(i["took"] for i in e.infos)
        assert rise.sum() == pytest.approx(0.0)  # nobody holds the key at first


@pytest.mark.slow
def test_credit_claims_in_a_seed_of_their_own(walker):
    _, found = ch13_credit.maze_credit(walker, 20)
    table = ch13_credit.compared(found)
    assert table["SPA, every prefix"]["error"] < table["equal parts"]["error"]
    assert table["peers' differences"]["correlation"] > table["GiGPO"]["correlation"]


@pytest.mark.slow
@pytest.mark.parametrize("name, arm", [("advice", "strategist"), ("rules", "GRPO")])
def test_recorded_runs_come_again(name, arm):
    """The first updates of seed 10, up to what another machine's last digits do to sampling."""
    experiment = experiments.EXPERIMENTS[f"{ch13.NAME}/{name}"]
    run = experiments.recorded(f"{ch13.NAME}/{name}").curves[arm][0]
    again = experiment.arms[arm](models.load(experiment.start), 10)
    for old, new in zip(run[:2], again):
        assert new["success"] == pytest.approx(old["success"], abs=0.1)
