"""The charts draw what was measured: against numbers worked out by hand, or counted."""

import itertools
import math

import matplotlib
import numpy as np
import pytest

from arl_mini import evaluate, lab

matplotlib.use("agg")


@pytest.fixture(autouse=True)
def close():
    yield
    matplotlib.pyplot.close("all")


def test_pass_at_k_is_the_share_of_draws_with_a_success():
    """Every draw of k tries, counted one by one."""
    tasks = [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [True, True, True, True]]
    ax = lab.pass_at_k({"policy": tasks}, ks=[1, 2, 3, 4])
    counted = [np.mean([np.mean([any(d) for d in itertools.combinations(t, k)]) for t in tasks]) for k in range(1, 5)]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), counted)
    np.testing.assert_allclose(counted, [np.mean([evaluate.pass_at_k(sum(t), 4, k) for t in tasks]) for k in range(1, 5)])
    assert lab.pass_at_k({"policy": tasks}).lines[0].get_xdata().tolist() == [1, 2, 4]


def test_the_band_of_pass_at_k_narrows_with_more_tasks():
    def width(tasks):
        tries = np.random.default_rng(0).random((tasks, 8)) < 0.4
        vertices = lab.pass_at_k({"a": tries.tolist()}).collections[0].get_paths()[0].vertices
        return np.ptp(vertices[vertices[:, 0] == 1, 1])

    assert width(800) < 0.4 * width(50)


def path(kl, reward, success):
    return [{"kl": k, "reward": r, "success": s} for k, r, s in zip(kl, reward, success, strict=True)]


def test_reward_against_kl_rings_the_turn():
    ax = lab.reward_against_kl({"run": path([0.0, 0.04, 0.16, 0.36], [0.1, 0.4, 0.6, 0.7], [0.2, 0.5, 0.4, 0.1])})
    paid, wanted, ring = ax.lines
    np.testing.assert_allclose(paid.get_xdata(), [0, 0.2, 0.4, 0.6])
    assert (paid.get_ydata()[-1], wanted.get_ydata()[-1]) == (0.7, 0.1)
    assert (paid.get_linestyle(), wanted.get_linestyle()) == ("-", "--")
    np.testing.assert_allclose((ring.get_xdata()[0], ring.get_ydata()[0]), (0.2, 0.5))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["reward", "success"]


def test_reward_against_kl_means_over_seeds():
    seeds = [path([0, 1, 4], [0, 1, 2], [1, 1, 1]), path([0, 1], [1, 3], [0, 1])]
    ax = lab.reward_against_kl({"run": seeds})
    mean = [line for line in ax.lines if line.get_label() == "reward"][0]
    assert mean.get_xdata().tolist() == [0, 1] and mean.get_ydata().tolist() == [0.5, 2.0]
    assert len(ax.lines) == 7  # two numbers of two seeds, two means, one ring


def test_a_phase_portrait_has_start_way_and_flow():
    run = [{"entropy": 2 - i / 10, "success": i / 20} for i in range(20)]
    ax = lab.phase_portrait({"a": run, "b": [run, run[:5]]}, field=lambda X, Y: (-X, 1 - Y))
    way, dots, start = ax.lines[:3]
    assert way.get_xdata()[:2].tolist() == [2.0, 1.9] and way.get_ydata()[-1] == 0.95
    assert len(dots.get_xdata()) == 10
    assert (start.get_xdata()[0], start.get_ydata()[0]) == (2.0, 0.0)
    assert len(ax.lines) == 9 and [t.get_text() for t in ax.get_legend().get_texts()] == ["a", "b"]
    assert ax.collections  # the streamlines
    assert ax.get_xlabel() == "entropy (nats per token)"


def test_calibration_by_hand():
    said = [0.05, 0.05, 0.95, 0.95, 0.95, 1.0]
    right = [False, True, True, True, False, True]
    ax = lab.calibration({"policy": (said, right)})
    points = [tuple(c.get_offsets()[0]) for c in ax.collections]
    np.testing.assert_allclose(points, [(0.05, 0.5), (3.85 / 4, 0.75)])
    error = 0.45 * 2 / 6 + abs(3.85 / 4 - 0.75) * 4 / 6
    assert ax.get_legend().get_texts()[0].get_text() == f"policy: error {error:.3f}"
    bars = ax.lines[1:3]
    for bar, (n, k) in zip(bars, ((2, 1), (4, 3)), strict=True):
        exact = evaluate.proportion([True] * k + [False] * (n - k))
        np.testing.assert_allclose(bar.get_ydata(), [exact.low, exact.high])


def test_an_honest_forecaster_has_a_small_error_and_a_boaster_a_large_one():
    rng = np.random.default_rng(0)
    said = rng.random(4000)
    right = rng.random(4000) < said
    legend = lab.calibration({"honest": (said, right), "boaster": (said**0.3, right)}).get_legend()
    honest, boaster = (float(text.get_text().split()[-1]) for text in legend.get_texts())
    assert honest < 0.03 and boaster > 0.2


@pytest.mark.parametrize("draw", [
    lambda ax: lab.pass_at_k({"a": [[1, 0]]}, ax=ax),
    lambda ax: lab.reward_against_kl({"a": path([0, 1], [0, 1], [0, 1])}, ax=ax),
    lambda ax: lab.phase_portrait({"a": [{"entropy": 1, "success": 0}]}, ax=ax),
    lambda ax: lab.calibration({"a": ([0.5], [True])}, ax=ax),
])  # fmt: skip
def test_each_draws_where_it_is_told_and_leaves_the_settings_alone(draw):
    before = dict(matplotlib.rcParams)
    _, mine = matplotlib.pyplot.subplots()
    assert draw(mine) is mine and mine.get_xlabel() and mine.get_ylabel()
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize(("draw", "words"), [
    (lambda: lab.pass_at_k({}), "got no tries; expected"),
    (lambda: lab.pass_at_k({"a": [[1, 0], [1]]}, ks=[1, 2]), r"ks are \[1, 2\]; expected 1 to 1"),
    (lambda: lab.pass_at_k({"a": [[1, 0]]}, ks=[0]), r"ks are \[0\]"),
    (lambda: lab.reward_against_kl({}), "got no runs"),
    (lambda: lab.phase_portrait({"a": []}), "run 'a' has no records"),
    (lambda: lab.calibration({"a": ([0.5, 1.5], [1, 1])}), "'a' has a confidence of 1.5; expected 0 to 1"),
    (lambda: lab.calibration({"a": ([0.5, math.nan], [1, 1])}), "a confidence of nan"),
    (lambda: lab.calibration({"a": ([0.5], [])}), "1 confidences and 0 outcomes"),
])  # fmt: skip
def test_what_cannot_be_drawn_is_said(draw, words):
    with pytest.raises(ValueError, match=words):
        draw()
