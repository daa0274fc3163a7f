"""The world editor: worlds as plain data, edits that reach the solver, a policy that climbs, a page that stands still."""

import xml.dom.minidom
from dataclasses import replace

import pytest

from arl_mini import lab

VIEW = "application/vnd.jupyter.widget-view+json"


def solve(world, theta):
    """One step of the world from its start: small enough to check by hand. Softmax is replaced by a clip."""
    row = theta[world.row(0)]
    left = min(max(0.5 + row[0], 0.0), 1.0)
    reward = world.R[0]
    J = left * reward[0] + (1 - left) * reward[1]
    policy = [[left, 1 - left] if r == world.row(0) else [0.5, 0.5] for r in range(len(theta))]
    slope = [[reward[0] - reward[1], 0.0] if r == world.row(0) else [0.0, 0.0] for r in range(len(theta))]
    return lab.Solved(J, policy, slope, [J, 0.0, 0.0, 0.0], {"best": max(reward)})


def find(root, name):
    """The control with that class, anywhere below `root`."""
    if f"arl-world-{name}" in root._dom_classes:
        return root
    for child in getattr(root, "children", ()):
        if found := find(child, name):
            return found
    return None


def test_a_world_gives_rows_that_sum_to_one():
    world = lab.FORK
    assert all(abs(sum(row) - 1) < 1e-12 for state in world.P for row in state)
    assert world.P[0][0] == pytest.approx([0, 0.8, 0.2, 0]) and world.R[0] == [0.0, 0.2]
    assert world.start == [1, 0, 0, 0] and replace(world, begin=None).start == [1 / 3, 1 / 3, 1 / 3, 0]
    assert [world.over(s) for s in range(4)] == [False, False, False, True]


def test_states_of_one_look_share_a_row():
    assert lab.FORK.rows == [0, 1, 1, 2]
    assert lab.FORK.seen_as("●■▲◆").rows == [0, 1, 2, 3] and lab.FORK.seen_as("●●●●").rows == [0, 0, 0, 0]


@pytest.mark.parametrize("fields, said", [
    ({"moves": lab.FORK.moves[:7]}, "expected 8 moves and 4 looks, got 7 and 4"),
    ({"looks": ("a",)}, "got 8 and 1"),
    ({"moves": (lab.Move(1, chance=1.5), *lab.FORK.moves[1:])}, "move 'left' in 'A' is .*chance=1.5"),
    ({"moves": (*lab.FORK.moves[:3], lab.Move(4), *lab.FORK.moves[4:])}, "move 'right' in 'B' is .*to=4"),
])  # fmt: skip
def test_what_is_no_world_is_refused(fields, said):
    with pytest.raises(ValueError, match=said):
        replace(lab.FORK, **fields)


def test_the_still_page_is_one_picture():
    editor = lab.world_editor(solve, static=True)
    shown = editor._repr_mimebundle_()
    assert editor.widget is None and sorted(shown) == ["image/svg+xml", "text/plain"]
    picture = xml.dom.minidom.parseString(shown["image/svg+xml"])
    words = [text.firstChild.data for text in picture.getElementsByTagName("text") if text.firstChild]
    assert {"A ●", "B ■", "C ■", "D ◆", "80%", "20%", "+0.2", "the end: nobody acts"} <= set(words)
    assert shown["text/plain"] == "looks ● ■ ■ ◆: J now 0.100, best 0.200"


def test_looks_are_escaped():
    world = lab.FORK.seen_as("<&>\"")
    xml.dom.minidom.parseString(lab.world_editor(solve, world, static=True).svg())


def test_climbing_follows_the_gradient_and_forgetting_goes_back():
    editor = lab.world_editor(solve, static=True)
    editor.climb(2, rate=0.5)
    assert editor.theta[0] == pytest.approx([-0.2, 0]) and editor.solved.objective == pytest.approx(0.14)
    editor.forget()
    assert editor.theta[0] == [0.0, 0.0] and editor.solved.objective == pytest.approx(0.1)


def test_every_number_reaches_the_world():
    editor = lab.world_editor(solve, static=False)
    for name, value, read in (
        ("chance-0", 0.25, lambda w: w.moves[0].chance),
        ("reward-7", -4.0, lambda w: w.moves[7].reward),
        ("horizon", 2, lambda w: w.horizon),
        ("gamma", 0.5, lambda w: w.gamma),
    ):
        before = find(editor.widget, "view").value
        find(editor.widget, name).value = value
        assert read(editor.world) == value
        if name not in ("horizon", "gamma"):  # those two change nothing in one step
            assert find(editor.widget, "view").value != before, name


def test_every_choice_goes_round_and_reaches_the_world():
    editor = lab.world_editor(solve, static=False)
    for name, words, read in (
        ("to-0", "CDAB", lambda w: w.states[w.moves[0].to]),
        ("other-0", "DABC", lambda w: w.states[w.moves[0].other]),
        ("look-3", "●■▲◆", lambda w: w.looks[3]),
        ("begin", ("B", "C", "D", "any", "A"), lambda w: "any" if w.begin is None else w.states[w.begin]),
    ):
        button = find(editor.widget, name)
        for word in words:
            button.click()
            assert read(editor.world) == word and button.description.endswith(word)


def test_fewer_looks_mean_fewer_rows():
    editor = lab.world_editor(solve, static=False)
    editor.climb(3)
    find(editor.widget, "look-0").click()  # from ● to ■
    assert editor.theta == [[0.0, 0.0], [0.0, 0.0]]


def test_buttons_climb():
    editor = lab.world_editor(solve, static=False)
    find(editor.widget, "climb-1").click()
    assert editor.theta[0][0] == pytest.approx(-0.2)
    find(editor.widget, "climb-50").click()
    assert editor.theta[0][0] == pytest.approx(-0.2 * 51)
    find(editor.widget, "forget").click()
    assert editor.theta[0][0] == 0


def test_what_cannot_be_solved_is_told_and_can_be_mended():
    def picky(world, theta):
        if world.horizon > 4:
            raise ValueError("too <long>")
        return solve(world, theta)

    editor = lab.world_editor(picky, static=False)
    find(editor.widget, "horizon").value = 6
    view = find(editor.widget, "view").value
    assert editor.trouble == "ValueError: too <long>" and "too &lt;long&gt;" in view and 'role="alert"' in view
    editor.climb(1)
    assert editor.theta[0] == [0.0, 0.0]
    find(editor.widget, "horizon").value = 3
    assert editor.trouble == "" and "<svg" in find(editor.widget, "view").value


def test_a_first_world_that_cannot_be_solved_is_an_error():
    def never(world, theta):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        lab.world_editor(never, static=True)


def test_the_widget_has_the_picture_beside_it():
    shown = lab.world_editor(solve, static=False)._repr_mimebundle_()
    assert {"image/svg+xml", VIEW} <= set(shown)
