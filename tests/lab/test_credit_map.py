"""The credit map: a row a method, a column a turn, numbers as shares of the row's largest."""

import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

from arl_mini.lab import style
from arl_mini.lab.credit_map import STRONGEST, agreement, credit_map

TURNS = ["forward", "forward", "up"]
ROWS = {"GRPO": [1.0, 1.0, 1.0], "learned": [0.0, 0.1, 2.0], "exact": [0.1, 0.0, -1.0]}


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_the_truth_comes_first_and_the_others_are_compared_with_it():
    ax = credit_map(TURNS, ROWS, truth="exact")
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names[0] == "exact" and names[1] == "GRPO (no contrast)"
    assert names[2] == f"learned (r = {agreement(ROWS['learned'], ROWS['exact']):.2f})".replace("-", "−")
    assert [label.get_text() for label in ax.get_xticklabels()] == TURNS


def test_a_cell_is_coloured_by_sign_and_share():
    ax = credit_map(TURNS, ROWS, truth="exact")
    cells = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert len(cells) == 9
    blame, little, most = cells[2], cells[7], cells[8]
    assert blame.get_facecolor()[:3] == pytest.approx(to_rgb(style.VERMILLION)) and blame.get_alpha() == STRONGEST
    assert most.get_facecolor()[:3] == pytest.approx(to_rgb(style.SKY))
    assert little.get_alpha() == pytest.approx(0.05 * STRONGEST)
    texts = [t.get_text() for t in ax.texts]
    assert texts[:3] == ["+0.1", "0", "−1.0"] and texts[6] == "0" and texts[8] == "+1.0"


def test_without_a_truth_nothing_is_compared():
    ax = credit_map(TURNS, ROWS)
    assert [label.get_text() for label in ax.get_yticklabels()] == list(ROWS)


def test_no_verdict_is_a_dash():
    ax = credit_map(TURNS, {"a": [float("nan"), 1.0, 0.0]})
    assert [t.get_text() for t in ax.texts] == ["–", "+1.0", "0"]


def test_all_zero_is_no_error():
    assert [t.get_text() for t in credit_map(TURNS, {"a": [0.0, 0.0, 0.0]}).texts] == ["0"] * 3


def test_errors_say_what_came():
    with pytest.raises(ValueError, match="row 'GRPO' has 3 numbers, expected 2"):
        credit_map(TURNS[:2], ROWS)
    with pytest.raises(ValueError, match="truth 'VinePPO' is no row"):
        credit_map(TURNS, ROWS, truth="VinePPO")


def test_agreement_is_a_correlation_over_turns_that_both_have():
    assert agreement([1, 2, float("nan"), 4], [2, 4, 9, 8]) == pytest.approx(1.0)
    assert agreement([1, 1, 1], [1, 2, 3]) != agreement([1, 1, 1], [1, 2, 3])  # nan
