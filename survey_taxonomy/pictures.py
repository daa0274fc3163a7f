"""The four pictures of the atlas as SVG text. They read as they stand; the page makes them live.

What can be pressed carries ``data-facet``/``data-value``, ``data-cell`` or ``data-open``; texts that have
two languages carry both (``data-en``, ``data-ja``). Colours: Okabe and Ito's blue and vermillion, and the
grey that has the same contrast (4.3:1) on white and on near-black; the number always stands beside the
colour.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from .facts import MONTHS_FROM, paths, when
from .frames import CAPABILITY, TASK
from .labels import LANGUAGES, MARKS, VALUES, text

if TYPE_CHECKING:
    from .taxonomy import Taxonomy

BLUE, GREY = "#0072B2", "#797979"
DARKEST = 0.35  # more would hide the number on it
FONT = "font-family='system-ui, sans-serif' font-size='11'"
CAPABILITIES = (*dict.fromkeys([*CAPABILITY.values(), "collaboration"]),)


@dataclass(frozen=True)
class Picture:
    """One SVG; shows itself in a notebook."""

    svg: str
    about: str  # in words, for those who cannot see it

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, str]:
        return {"image/svg+xml": self.svg, "text/plain": self.about}

    def __repr__(self) -> str:
        return self.about


def _svg(width: int, height: int, name: str, body: list[str], about: str) -> Picture:
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' class='arl-{name}' viewBox='0 0 {width} {height}' "
        f"width='{width}' height='{height}' {FONT} fill='{GREY}' role='group' "
        f"aria-label='{escape(about, True)}'>"
    )
    return Picture(head + "".join(body) + "</svg>", about)


def _text(x: float, y: float, words: tuple[str, str], lang: str, more: str = "") -> str:
    """A text in both languages, shown in ``lang``."""
    both = "".join(f" data-{k}='{escape(w, True)}'" for k, w in zip(LANGUAGES, words, strict=True))
    return f"<text x='{x:g}' y='{y:g}'{both} {more}>{escape(words[LANGUAGES.index(lang)])}</text>"


def _plain(x: float, y: float, shown: str, more: str = "") -> str:
    return f"<text x='{x:g}' y='{y:g}' {more}>{escape(shown)}</text>"


def _box(x: float, y: float, w: float, h: float, strength: float) -> str:
    line = "" if strength else " stroke-dasharray='2 2'"
    return (
        f"<rect x='{x:g}' y='{y:g}' width='{w:g}' height='{h:g}' fill='{BLUE}' fill-opacity='{strength:.2f}' "
        f"stroke='{GREY}' stroke-width='0.5'{line}/>"
    )


def shade(count: int, most: int) -> float:
    """How dark a cell with ``count`` of at most ``most`` is: 0 to ``DARKEST``."""
    return DARKEST * math.sqrt(count / most) if count and most else 0.0


def matrix(taxonomy: Taxonomy, lang: str = "en") -> Picture:
    """Capability × task: how many entries stand at each crossing; a dashed cell is empty."""
    counts = taxonomy.matrix()
    left, top, w, h = 128, 24, 70, 27
    most, body, middle = int(counts.to_numpy().max()), [], "text-anchor='middle'"
    count = " data-count=''"
    for j, task in enumerate(counts.columns):
        body.append(
            f"<g data-facet='task' data-value='{task}'>"
            f"<rect x='{left + j * w}' y='2' width='{w}' height='20' "
            f"fill-opacity='0'/>{_text(left + (j + 0.5) * w, 16, VALUES[task], lang, middle)}</g>"
        )
    for i, capability in enumerate(counts.index):
        y = top + i * h
        body.append(
            f"<g data-facet='capability' data-value='{capability}'><rect x='0' y='{y}' width='{left - 4}' "
            f"height='{h}' fill-opacity='0'/>{_text(2, y + 18, VALUES[capability], lang)}</g>"
        )
        for j, task in enumerate(counts.columns):
            n = int(counts.loc[capability, task])
            body.append(
                f"<g data-cell='{capability}|{task}'>"
                f"{_box(left + j * w + 1, y + 1, w - 2, h - 2, shade(n, most))}"
                f"{_plain(left + (j + 0.5) * w, y + 18, str(n) if n else '–', middle + count)}</g>"
            )
    empty = int((counts == 0).sum().sum())
    about = f"Capability × task: {counts.size} cells, {empty} empty, the fullest with {most} entries."
    return _svg(left + w * len(TASK), top + h * len(counts), "matrix", body, about)


def icicle(taxonomy: Taxonomy, lang: str = "en") -> Picture:
    """The section tree from left to right; blue is the share of a section's entries that this project
    realises.
    """
    rows = {s.section_id: s for s in taxonomy.sections.itertuples()}
    above, children, held = paths(taxonomy), defaultdict(list), defaultdict(set)
    for section in rows:
        children[rows[section].parent].append(section)
    listed = set(taxonomy.entries.query("coverage == 'listed'")["entry_id"])
    for p in taxonomy.placements.itertuples():
        for section in above[p.section_id]:
            held[section].add(p.entry_id)
    body = []

    def tall(section: str) -> float:
        own = max(7.0, 5 + 2.0 * math.sqrt(len(held[section]))) if not children[section] else 0.0
        return max(own, 13.0 if len(above[section]) < 3 else 7.0, sum(map(tall, children[section])))

    def draw(section: str, y: float) -> float:
        h, own = tall(section), held[section]
        body.append(_section(rows[section], len(above[section]) - 1, y, h, len(own - listed), len(own), lang))
        for child in children[section]:
            draw(child, y)
            y += tall(child)
        return h

    y = 0.0
    for section in children[""]:
        y += draw(section, y) + 3
    realised, every = len(taxonomy.entries) - len(listed), len(taxonomy.entries)
    about = f"{len(rows)} sections; {realised} of {every} entries are realised or discussed here."
    return _svg(700, math.ceil(y), "icicle", body, about)


#: left edge and width of the icicle's columns, by depth
COLUMNS = ((0, 94), (96, 186), (284, 206), (492, 206))


def _section(row, depth: int, y: float, h: float, done: int, every: int, lang: str) -> str:
    """One box of the icicle; text only where it fits."""
    (x, width), middle = COLUMNS[depth], h / 2 + 3.7
    number = row.section_id if "/" not in row.section_id else ""
    words = (f"{number} {row.title_en}".strip(), f"{number} {row.title_ja}".strip())
    shown = f"<title>{escape(f'{row.section_id} {row.title_en}: {done} of {every}')}</title>"
    shown += _box(0, 0, width, h, DARKEST * done / every if every else 0)
    if h >= 11:
        room = width - 2 - (6.2 * len(f"{done}/{every}") + 6 if every else 0)
        shown += f"<svg width='{room:.0f}' height='{h:.1f}'>{_text(3, middle, words, lang)}</svg>"
    if h >= 11 and every:
        shown += _plain(width - 4, middle, f"{done}/{every}", "text-anchor='end' data-count=''")
    place = f"x='{x}' y='{y:.1f}' width='{width}' height='{h:.1f}'"
    return f"<svg {place} data-facet='section' data-value='{row.section_id}'>{shown}</svg>"


def timeline(taxonomy: Taxonomy, lang: str = "en") -> Picture:
    """Entries by first publication: by month from 2023 where the month is known, else by year."""
    counts = Counter(when(e.first_public, int(e.year)) for e in taxonomy.entries.itertuples())
    months, years = sorted(k for k in counts if "-" in k), sorted(k for k in counts if "-" not in k)
    first, last = months[0], months[-1]
    span = [f"{y}-{m:02d}" for y in range(int(first[:4]), int(last[:4]) + 1) for m in range(1, 13)]
    bars = [*years, "", *(k for k in span if first <= k <= last)]
    width, base = 690, 102
    step, most, body = width / len(bars), max(counts.values()), []
    for i, key in enumerate(bars):
        if counts[key]:
            body.append(_bar(key, i * step, step, base, counts[key], most))
        if key.endswith("-01") or key == first or key in years:
            x, more = (i * step, "") if i * step < width - 24 else (width, "text-anchor='end' ")
            body.append(_plain(x, base + 12, key[:4] if "-" in key else key[2:4], more + "font-size='9'"))
    until = MONTHS_FROM - 1
    words = (f"{text('before')} (to {until}, or month unknown)",
             f"{text('before', 'ja')} ({until} まで、または月が不明)")  # fmt: skip
    body.append(_text(0, 10, words, lang, "font-size='9'"))
    peak = sorted(months, key=lambda k: -counts[k])[:2]
    told = " and ".join(f"{k} ({counts[k]})" for k in peak)
    about = f"{sum(counts.values())} entries; the fullest months are {told}."
    return _svg(width, base + 16, "timeline", body, about)


def _bar(key: str, x: float, step: float, base: float, count: int, most: int, high: float = 84) -> str:
    """A bar of the timeline: all entries as an outline, those shown filled; the whole column can be
    pressed.
    """
    tall = high * count / most
    place = f"x='{x + 1:.1f}' y='{base - tall:.1f}' width='{step - 2:.1f}' height='{tall:.1f}'"
    column = f"x='{x:.1f}' y='{base - high - 12}' width='{step:.1f}' height='{high + 12}'"
    return (
        f"<g data-facet='when' data-value='{key}'><title>{key}: {count}</title>"
        f"<rect {column} fill-opacity='0'/>"
        f"<rect {place} fill='none' stroke='{GREY}' stroke-width='0.7'/>"
        f"<rect {place} data-bar='{high / most:.4f}' fill='{BLUE}' fill-opacity='0.6'/></g>"
    )


def lineage(taxonomy: Taxonomy, lang: str = "en", root: str = "reinforce") -> Picture:
    """Which algorithm is a variant of which; what it changes stands in grey before its name."""
    edges = taxonomy.lineage()
    kids = defaultdict(list)
    for e in edges.itertuples():
        kids[e.dst].append((e.src, e.knob))
    names = dict(zip(taxonomy.entries["entry_id"], taxonomy.entries["name"], strict=True))
    level = dict(zip(taxonomy.entries["entry_id"], taxonomy.entries["coverage"], strict=True))
    indent, line, body, row, bold = 72, 16, [], 0, "font-weight='600'"

    def draw(entry: str, knob: str, depth: int) -> float:
        nonlocal row
        y = 14 + row * line
        row += 1
        x = 4 + depth * indent
        if knob:
            body.append(_plain(x + 10, y, knob, "font-size='10' class='arl-knob'"))
        at = x + 10 + (5.8 * sum(1.8 if ord(c) > 0x2E80 else 1 for c in knob) + 10 if knob else 0)
        size = 7.2 * len(names[entry]) + 24
        body.append(
            f"<g data-open='{entry}'>"
            f"<rect x='{at - 4:.0f}' y='{y - 12}' width='{size:.0f}' height='15' rx='4' "
            f"fill='{BLUE}' fill-opacity='{0.25 if level[entry] == 'implemented' else 0.06}'/>"
            f"{_plain(at, y, MARKS[level[entry]] + ' ' + names[entry], bold)}</g>"
        )
        for child, why in sorted(kids[entry], key=lambda pair: (bool(kids[pair[0]]), names[pair[0]].lower())):
            below = draw(child, why, depth + 1)
            body.append(
                f"<path d='M{x + indent - 6:.0f} {y + 4} V{below - 4:.0f} h14' fill='none' stroke='{GREY}' "
                f"stroke-width='0.7'/>"
            )
        return y

    draw(root, "", 0)
    return _svg(
        620,
        14 + row * line,
        "lineage",
        body,
        f"{row - 1} algorithms below {names[root]}, each with what it changes.",
    )


def overview(taxonomy: Taxonomy, lang: str = "en") -> Picture:
    """Matrix and timeline, one above the other: the explorer where it cannot be live."""
    parts, y, body = (matrix(taxonomy, lang), timeline(taxonomy, lang)), 0, []
    for part in parts:
        body.append(part.svg.replace("<svg ", f"<svg y='{y}' ", 1))
        y += int(part.svg.split(" height='", 1)[1].split("'", 1)[0]) + 12
    return _svg(700, y, "overview", body, " ".join(part.about for part in parts))
