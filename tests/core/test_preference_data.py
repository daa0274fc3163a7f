"""The data of chapter 03's experiments is what their words say."""

import numpy as np
import pytest

from arl_mini import demonstrate, envs, models
from arl_mini.experiments import ch03, sums


@pytest.fixture(scope="module")
def novice():
    return models.load("taste-novice")


def test_winners_are_longer_where_they_should_be():
    pairs = ch03.long_pairs(0, 40)
    assert len(pairs) == 40 and all(w.mask.sum() > l.mask.sum() for w, l in pairs)


def test_labels_are_turned_round_at_the_rate_asked_for():
    assert all(w.reward >= l.reward for w, l in ch03.true_pairs(0, 60))
    turned = [w.reward < l.reward for w, l in ch03.true_pairs(0, 400, flipped=0.2)]
    assert 0.12 < np.mean(turned) < 0.28


def test_poor_pairs_are_the_worst_of_six():
    six = ch03.replies(0, 20, 6)
    worst = [sorted(e.reward for e in six if e.group == g)[:2] for g in range(20)]
    assert [sorted((w.reward, l.reward)) for w, l in ch03.low_pairs(0, 20)] == worst


def test_no_two_labels_are_about_one_task():
    data = ch03.labels(0, 30, 10)
    assert [good for _, good in data] == [True] * 30 + [False] * 10
    assert len({e.seed for e, _ in data}) == 40


def test_the_probe_sees_nothing_move_before_training(novice):
    found = ch03.Probe(novice, ch03.noisy_pairs(0, 20))(novice)
    assert found["chosen"] == found["rejected"] == found["margin"] == 0


def test_an_annotator_asked_twice_says_the_same():
    for a, b in ch03.true_pairs(0, 30):
        assert ch03.prefers(a, b) == ch03.prefers(a, b)


@pytest.mark.parametrize("said, right", [
    ("<think> {0} {1}</think> {2}<end>", 3),
    ("<think> {0} {1}</think> {3}<end>", 2),
    ("<think> {3} {1}</think> {2}<end>", 0),
    (" {2}<end>", None),
])  # fmt: skip
def test_right_steps_end_at_the_first_wrong_one(said, right):
    world = envs.Chain((3, 3))
    world.reset(5)
    first, second, answer = [*world.steps, world.answer]
    wrong = (answer + 1) % 10 if right == 2 else (first + 1) % 10
    (episode,) = rollout_of(said.format(first, second, answer, wrong))
    expected = right if right is not None else int(answer == first)
    assert sums.right_steps(episode) == expected


def rollout_of(said: str):
    """The episode of task 5 in which this is said."""
    policy = models.load("chain-atoms")
    return demonstrate(policy, envs.Chain((3, 3)), [5], lambda env: said)
