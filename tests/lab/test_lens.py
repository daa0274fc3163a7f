"""Two algorithms under the lens: what is marked, drawn and said; with plain data and for real."""

import re
import types

import pytest

from arl_mini import lab
from arl_mini.lab.lens import marked, ratio_lines, success_lines, weight_map


def side(name, formula="A = R", scale=1.0, success=(1.0, 0.5), why=""):
    return types.SimpleNamespace(
        name=name, formula=formula, ratios=(0.5, 1.0, 2.0), advantages=(-1.0, 0.0, 1.0),
        weight=[[-scale, -scale, 0.0], [0.0, 0.0, 0.0], [0.0, scale, 2 * scale]],
        lengths=(1, 4), by_length=[1.0, 0.25], by_success=list(success), why=why,
    )  # fmt: skip


def contrast(left, right):
    diff = "--- a.py:1 A\n+++ b.py:2 B\n@@ -1 +1 @@\n-    mean(x) < 1\n+    sum(x)"
    return types.SimpleNamespace(left=left, right=right, settings={"clip": (0.2, "<x>")},
                                 methods={"reduce": diff}, note="one is <more>")


@pytest.fixture
def pair():
    """A lens on plain data."""
    left = side("Left", "A = (R − mean) / std")
    right = side("Right<1>", "A = R − mean", success=(), why="No: words")
    return lab.lens(left, right, contrast=contrast)


def marks(html):
    return re.findall(r"<mark>(.*?)</mark>", html)


def test_only_what_differs_is_marked():
    left, right = marked("A = (R − mean_g R) / std,\nL = x", "A = R − mean_g R,\nL = x < 1")
    assert marks(left) == ["(", ") / std"] and marks(right) == ["&lt; 1"]
    assert re.sub("</?mark>", "", left) == "A = (R − mean_g R) / std,\nL = x"
    assert marked("A = B", "A = B") == ("A = B", "A = B")


def test_page_shows_fields_and_lines_escaped(pair):
    page = pair.html()
    assert marks(page) == ["(", ") / std"]
    assert "<td>clip</td><td>0.2</td><td>&#x27;&lt;x&gt;&#x27;</td>" in page
    assert "<del>-    mean(x) &lt; 1</del><ins>+    sum(x)</ins>" in page
    assert "Right&lt;1&gt;" in page and "Right<1>" not in page
    assert "<details open>" in page and "<del>---" not in page and "one is &lt;more&gt;" in page


def test_equals_are_said_to_be_equal():
    same = types.SimpleNamespace(left=side("A"), right=side("A"), settings={}, methods={}, note="")
    assert "The two are the same." in lab.lens(None, None, contrast=lambda *_: same).html()


def test_picture_holds_names_and_reasons(pair):
    picture = pair.svg()
    assert picture.count("Left") >= 3
    assert "Right&lt;1&gt;: no advantages:" in picture and "No: words" in picture
    assert pair.svg() == picture and len(picture) < 120_000  # bytes: it lies in notebooks


def test_shown_as_two_outputs(pair, monkeypatch):
    import IPython.display

    shown = []
    monkeypatch.setattr(IPython.display, "display", lambda data, raw: shown.append(data))
    pair._ipython_display_()
    assert [sorted(data) for data in shown] == [["text/html", "text/plain"], ["image/svg+xml", "text/plain"]]
    assert "A = R − mean" in shown[0]["text/plain"]


def axes():
    from matplotlib.figure import Figure

    return Figure().subplots()


def test_curves_are_the_numbers_given():
    plot = axes()
    ratio_lines(plot, [side("a"), side("b", scale=3.0)])
    drawn = [line.get_ydata().tolist() for line in plot.lines if len(line.get_xdata()) == 3]
    assert drawn == [[0, 1, 2], [-1, -1, 0], [0, 3, 6], [-3, -3, 0]]
    plot = axes()
    success_lines(plot, [side("a"), side("b", success=())])
    assert [line.get_ydata().tolist() for line in plot.lines] == [[1.0, 0.5]]
    assert plot.get_xlabel() == "successes among 3 tries"


def test_map_is_blank_where_there_is_no_gradient():
    plot = axes()
    weight_map(plot, side("a"))
    rgba = plot.images[0].get_array()
    up, down, none = rgba[2, 2], rgba[0, 0], rgba[0, 2]
    assert none[3] == 0 and up[3] == 1 and 0 < down[3] < 1
    assert up[2] > up[0] and down[0] > down[2]  # sky up, vermillion down


def test_real_algorithms():
    from arl_mini import DAPO, GRPO, DrGRPO

    page = lab.lens(GRPO, DrGRPO).html()
    assert any("std_g R" in mark for mark in marks(page)) and any("L_max" in mark for mark in marks(page))
    assert "group_zscore" in page and "constant_mean" in page
    made = lab.lens(DAPO(), DAPO(clip_high=0.5))
    assert made.contrast.settings == {"clip_high": (0.28, 0.5)} and made.contrast.methods == {}
    assert "DAPO(clip_high=0.5)" in made.svg()
