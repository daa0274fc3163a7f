"""Curves draw the numbers they were given."""

import dataclasses

import matplotlib
import numpy as np
import pytest

from arl_mini import lab

matplotlib.use("agg")


@dataclasses.dataclass
class Record:
    step: int
    success: float
    seconds: dict = dataclasses.field(default_factory=dict)


@pytest.fixture(autouse=True)
def close():
    yield
    matplotlib.pyplot.close("all")


def run(*values):
    return [Record(i + 1, v, {"rollout": 2 * v}) for i, v in enumerate(values)]


def test_one_run_and_its_labels():
    ax = lab.curves({"GRPO": run(0.1, 0.5, 0.9)})
    line, = ax.lines
    assert line.get_xdata().tolist() == [1, 2, 3]
    assert line.get_ydata().tolist() == [0.1, 0.5, 0.9]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("step (updates)", "success (share of episodes)")
    assert line.get_color() == lab.style.BLUE


def test_seeds_give_mean_and_range_at_common_steps():
    ax = lab.curves({"GRPO": [run(0.0, 0.2, 0.4, 0.9), run(0.2, 0.6, 0.4)]})
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [0.1, 0.4, 0.4])
    corners = {tuple(map(float, corner)) for corner in ax.collections[0].get_paths()[0].vertices.round(9)}
    assert {(1.0, 0.0), (1.0, 0.2), (2.0, 0.2), (2.0, 0.6)} <= corners


def test_interval_lies_inside_the_range_and_is_the_same_twice():
    seeds = [run(*np.random.default_rng(s).random(6)) for s in range(5)]
    spans = []
    for band in ("range", "interval", "interval"):
        vertices = lab.curves({"a": seeds}, band=band).collections[0].get_paths()[0].vertices
        spans.append(np.array([np.ptp(vertices[vertices[:, 0] == step, 1]) for step in range(2, 6)]))
    assert (spans[1] < spans[0]).all()
    assert (spans[1] == spans[2]).all()


def test_smoothing_averages_the_past_only_and_keeps_the_raw_line():
    ax = lab.curves({"a": run(0.0, 1.0, 0.0, 1.0)}, smooth=2)
    assert list(ax.lines[0].get_ydata()) == [0.0, 1.0, 0.0, 1.0]
    assert ax.lines[1].get_ydata().tolist() == [0.0, 0.5, 0.5, 0.5]


def test_nested_numbers_own_axes_and_legend():
    _, mine = matplotlib.pyplot.subplots()
    ax = lab.curves({"a": run(1, 2), "b": run(2, 3)}, y="seconds rollout", ylabel="rollout (s)", ax=mine)
    assert ax is mine
    assert ax.lines[1].get_ydata().tolist() == [4, 6]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]


@pytest.mark.parametrize(("runs", "options", "error", "words"), [
    ({}, {}, ValueError, "no runs"),
    ({"a": []}, {}, ValueError, "run 'a' has no records"),
    ({"a": [run(1), []]}, {}, ValueError, "seed 1 of 2 has no records"),
    ({"a": [run(1), [Record(7, 1)]]}, {}, ValueError, "share no value of 'step'"),
    ({"a": run(1)}, {"y": "sucess"}, KeyError, "no 'sucess'; their numbers are: step, success"),
    ({"a": run(1)}, {"band": "std"}, ValueError, "'std', expected 'range' or 'interval'"),
    ({"a": [Record(1, "high")]}, {}, TypeError, "'success' of a record is a str"),
])
def test_errors_say_what_came(runs, options, error, words):
    with pytest.raises(error, match=words):
        lab.curves(runs, **options)
