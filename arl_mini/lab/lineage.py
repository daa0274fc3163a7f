"""A family tree drawn from plain edges: who is the difference to whom, with what changed written on the edge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from . import style
from .stage import bundle, is_static

# Pixels: height of a row, indent of a branch, a letter of a name and of a label, room at the ends.
ROW, INDENT, LETTER, SMALL, EDGE = 21, 10, 7.4, 5.5, 6
Edge = tuple[str, str, str]  # parent, child, what changed


class Lineage:
    """A tree with one row a member. Made by `lineage()`; `widget` is None where the page stands still."""

    def __init__(
        self, edges: Sequence[Edge], lit: Sequence[str], about: Mapping[str, str], title: str, static: bool
    ):
        self.edges, self.lit, self.about, self.title = list(edges), tuple(lit), dict(about), title
        self.parent = {child: parent for parent, child, _ in self.edges}
        self.rows = _rows(self.edges, self.parent)  # name → depth, in the order of the rows
        if unknown := [name for name in (*self.lit, *self.about) if name not in self.rows]:
            raise ValueError(f"{unknown[0]!r} is not in the tree; it has {', '.join(self.rows)}")
        self.widget = None if static else self._controls()

    def path(self, name: str) -> list[str]:
        """From the root to a member, both included."""
        found = [name]
        while found[-1] in self.parent:
            found.append(self.parent[found[-1]])
        return found[::-1]

    def svg(self, lit: Sequence[str] | None = None) -> str:
        """The tree as SVG; `lit` members stand out (by default those the tree was made with)."""
        lit = self.lit if lit is None else lit
        words = {child: knob for _, child, knob in self.edges}
        left = self._columns(words)
        at = {name: (left[depth], ROW * row + ROW) for row, (name, depth) in enumerate(self.rows.items())}
        width = max(x + LETTER * len(name) for name, (x, _) in at.items()) + EDGE
        height = ROW * (len(self.rows) + 1)
        order = sorted(self.rows, key=lambda name: name in lit)  # lit edges last, so that they lie on top
        body = "".join(self._member(name, at, words.get(name, ""), name in lit) for name in order)
        title = self.title or "lineage"
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
                f'height="{height}" style="max-width:100%;height:auto" role="img" aria-label="{escape(title)}: '
                f'{len(self.rows)} members" fill="{style.GREY}" font-family="system-ui,sans-serif">{body}</svg>')  # fmt: skip

    def _columns(self, words: Mapping[str, str]) -> list[float]:
        """Where the names of each depth begin: as far right as the longest label before them needs."""
        left = [float(EDGE)]
        for depth in range(1, max(self.rows.values()) + 1):
            longest = max(len(words[name]) for name, d in self.rows.items() if d == depth)
            left.append(left[-1] + INDENT + SMALL * longest + 2 * EDGE)
        return left

    def _member(self, name: str, at: Mapping[str, tuple[float, float]], knob: str, lit: bool) -> str:
        x, y = at[name]
        colour, weight = (style.VERMILLION, 2.2) if lit else (style.GREY, 1)
        tip = f"<title>{escape(self.about[name])}</title>" if name in self.about else ""
        look = f'font-size="12" fill="{colour}" font-weight="{700 if lit else 500}"'
        parts = [f'<text x="{x:.1f}" y="{y + 4}" {look}>{escape(name)}{tip}</text>']
        if name in self.parent:
            px, py = at[self.parent[name]]
            start = px + INDENT / 2
            parts.append(f'<path d="M{start:.1f} {py + 8}V{y}H{x - 4:.1f}" fill="none" stroke="{colour}" '
                         f'stroke-width="{weight}" stroke-opacity="{1 if lit else .45}"/>'
                         f'<text x="{start + 5:.1f}" y="{y - 3}" font-size="10" fill="{colour}" '
                         f'font-style="italic">{escape(knob)}</text>')  # fmt: skip
        return f'<g class="arl-member{" arl-lit" if lit else ""}">{"".join(parts)}</g>'

    def text(self) -> str:
        """The tree as indented lines."""
        words = {child: f": {knob}" for _, child, knob in self.edges}
        lines = ("  " * depth + name + words.get(name, "") for name, depth in self.rows.items())
        return "\n".join(lines)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return bundle(self.widget, {"image/svg+xml": self.svg(), "text/plain": self.text()})

    def _controls(self) -> Any:
        import ipywidgets as w

        first = self.lit[-1] if self.lit else next(iter(self.rows))
        choice = w.Dropdown(options=list(self.rows), value=first, description="walk to")
        picture, told = w.HTML(), w.HTML()

        def show(_: Any = None) -> None:
            way = self.path(choice.value)
            picture.value = self.svg(self.lit if choice.value == first and self.lit else way)
            told.value = f"<pre>{escape(self.about.get(choice.value, ' → '.join(way)))}</pre>"

        choice.observe(show, "value")
        show()
        for widget, name in ((choice, "choice"), (picture, "picture"), (told, "about")):
            widget.add_class(f"arl-lineage-{name}")
        return w.VBox([choice, told, picture])


def lineage(
    edges: Iterable[Sequence[str]],
    *,
    lit: Sequence[str] = (),
    about: Mapping[str, str] | None = None,
    title: str = "",
    static: bool | None = None,
) -> Lineage:
    """A family tree to show in a cell; with a kernel, a list to walk it member by member.

    Args:
        edges: (parent, child, what changed), each child once. Members stand below their parent in this order.
        lit: members that stand out, with the edges that lead to them.
        about: member → text, shown when a reader walks to it and as a tip over its name.
        static: only the picture; by default where no widget can live.

    Raises ValueError for no edges, a child with two parents, a ring, or a name in lit or about that is no member.
    """
    taken = [(str(parent), str(child), str(knob)) for parent, child, knob in edges]
    return Lineage(taken, lit, about or {}, title, is_static() if static is None else static)


def _rows(edges: Sequence[Edge], parent: Mapping[str, str]) -> dict[str, int]:
    """Every member's depth, in the order of a walk that goes to a member's children before its siblings."""
    if not edges:
        raise ValueError("lineage() got no edges; expected (parent, child, what changed), …")
    if len(parent) < len(edges):
        children = [child for _, child, _ in edges]
        twice = next(child for child in children if children.count(child) > 1)
        raise ValueError(f"{twice!r} is a child twice; expected a tree, each child with one parent")
    rows: dict[str, int] = {}

    def walk(name: str, depth: int) -> None:
        rows[name] = depth
        for above, child, _ in edges:
            if above == name:
                walk(child, depth + 1)

    for root in dict.fromkeys(above for above, _, _ in edges if above not in parent):
        walk(root, 0)
    if ring := [child for child in parent if child not in rows]:
        raise ValueError(f"{ring[0]!r} is its own ancestor; expected a tree with a root")
    return rows
