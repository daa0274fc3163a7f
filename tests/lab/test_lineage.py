"""The family tree shows every member once, below its parent, with what changed; what is no tree is refused."""

import xml.etree.ElementTree as ET

import pytest

from arl_mini import lab

EDGES = [("A", "B", "advantage"), ("A", "C", "clip & KL"), ("B", "D", "sampler")]
SVG = "{http://www.w3.org/2000/svg}"


def drawn(tree, **changes):
    """Name → (x, y) of each member, the labels, and the names that stand out."""
    root = ET.fromstring(tree.svg(**changes))
    groups = root.findall(f"{SVG}g")
    names = {g.findall(f"{SVG}text")[0].text: g for g in groups}
    places = {n: tuple(float(g.find(f"{SVG}text").get(k)) for k in "xy") for n, g in names.items()}
    labels = {
        n: g.findall(f"{SVG}text")[1].text for n, g in names.items() if len(g.findall(f"{SVG}text")) > 1
    }
    return places, labels, {n for n, g in names.items() if "arl-lit" in g.get("class")}


def test_members_stand_below_their_parents_and_edges_say_what_changed():
    places, labels, lit = drawn(lab.lineage(EDGES, static=True))
    assert sorted(places, key=lambda n: places[n][1]) == ["A", "B", "D", "C"]
    assert places["A"][0] < places["B"][0] == places["C"][0] < places["D"][0]
    assert labels == {"B": "advantage", "C": "clip & KL", "D": "sampler"} and lit == set()
    heights = [y for _, y in places.values()]
    assert len(set(heights)) == len(heights)


def test_a_long_label_pushes_the_names_behind_it_to_the_right():
    x = [drawn(lab.lineage([("A", "B", "k" * n)], static=True))[0]["B"][0] for n in (1, 40)]
    assert x[1] - x[0] > 39 * 5


def test_a_path_stands_out():
    tree = lab.lineage(EDGES, lit=["B", "D"], static=True)
    assert tree.path("D") == ["A", "B", "D"]
    assert drawn(tree)[2] == {"B", "D"} and drawn(tree, lit=tree.path("C"))[2] == {"A", "C"}


def test_what_is_shown_is_escaped_and_the_same_twice():
    tree = lab.lineage([("<A>", "B&", "<b>")], about={"B&": "<script>"}, static=True)
    assert drawn(tree)[0].keys() == {"<A>", "B&"} and "<script>" not in tree.svg()
    assert tree.svg() == tree.svg()
    shown = tree._repr_mimebundle_()
    assert shown["text/plain"] == "<A>\n  B&: <b>" and set(shown) == {"text/plain", "image/svg+xml"}


def test_walking_to_a_member_lights_its_path_and_tells_about_it():
    tree = lab.lineage(EDGES, about={"D": "all of D"}, static=False)
    choice, told, picture = tree.widget.children
    choice.value = "D"
    assert "all of D" in told.value and picture.value == tree.svg(["A", "B", "D"])
    choice.value = "C"
    assert "A → C" in told.value


@pytest.mark.parametrize(
    "edges, options, message",
    [
        ([], {}, "no edges"),
        ([*EDGES, ("C", "D", "x")], {}, "'D' is a child twice"),
        ([("A", "B", "x"), ("B", "A", "y")], {}, "'B' is its own ancestor"),
        (EDGES, {"lit": ["E"]}, "'E' is not in the tree; it has A, B, D, C"),
        (EDGES, {"about": {"E": ""}}, "'E' is not in the tree"),
    ],
)
def test_what_is_no_tree_is_refused(edges, options, message):
    with pytest.raises(ValueError, match=message):
        lab.lineage(edges, static=True, **options)
