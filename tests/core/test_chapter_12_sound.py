"""Chapter 12, drawing and sound: what its measures count; slow, that claims come out with another seed."""

import numpy as np
import pytest

from arl_mini import envs, evaluate, models
from arl_mini.experiments import ch12_audio, ch12_draw
from arl_mini.rollout import demonstrate


@pytest.fixture(scope="module")
def drawer():
    return models.load("paths-novice")


def test_the_expert_draws_valid_paths_and_a_guess_draws_none(drawer):
    shown = demonstrate(drawer, envs.Maze(), range(20), lambda env: env.expert())
    assert ch12_draw.drawings(shown) == [(True, True)] * 20
    wrong = demonstrate(drawer, envs.Maze(), range(20), lambda env: env.drawn(env.cells, env.answer))
    assert ch12_draw.drawings(wrong) == [(False, True)] * 20
    assert ch12_draw.drawings(demonstrate(drawer, envs.Maze(), range(5), lambda env: env.direct(1))) == []


def test_even_durations_err_as_often_as_the_world_says():
    few, many = ch12_audio.even_error(1), ch12_audio.even_error(3)
    assert 0 < many < few < 1
    cut = ch12_audio.even_error(9)
    assert cut > 0.5  # six times nine frames do not fit in eighteen


@pytest.mark.parametrize("name, experiment", {**ch12_draw.EXPERIMENTS, **ch12_audio.EXPERIMENTS}.items())
def test_a_measure_gives_finite_shares_of_the_start(name, experiment):
    measured = experiment.measure(models.load(experiment.start))
    shares = {k: v for k, v in measured.items() if k not in ("frames", "tokens")}
    assert shares and all(np.isfinite(v) and -1e-9 <= v <= 1 + 1e-9 for v in shares.values())


@pytest.mark.slow
def test_tuned_durations_lose_a_third_of_the_errors():
    experiment = ch12_audio.EXPERIMENTS["12_perception/voice"]
    policy = models.load(experiment.start)
    before = experiment.measure(policy)
    for _ in experiment.arms["tuned"](policy, seed=20):
        pass
    after = experiment.measure(policy)
    assert after["error"] <= 0.7 * before["error"]
    assert after["soft_share"] - before["soft_share"] >= 0.1


@pytest.mark.slow
def test_drawing_beats_answering_at_once():
    experiment = ch12_draw.EXPERIMENTS["12_perception/maze"]
    right = {}
    for arm in ("draws", "answers"):
        policy = models.load(experiment.start)
        for _ in experiment.arms[arm](policy, seed=20):
            pass
        right[arm] = evaluate.success(policy, experiment.arms[arm].env, limits=ch12_draw.DRAWN).mean
    assert right["draws"] - right["answers"] >= 0.3
