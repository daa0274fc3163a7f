"""The four pictures of the atlas as SVG text. They read as they stand; the page makes them live.

What can be pressed carries ``data-facet``/``data-value``, ``data-cell`` or ``data-open``; texts that have two languages
carry both (``data-en``, ``data-ja``). Colours: Okabe and Ito's blue and vermillion, and the grey that has the same contrast
(4.3:1) on white and on near-black; the number always stands beside the colour.
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
    head = (f"<svg xmlns='http://www.w3.org/2000/svg' class='arl-{name}' viewBox='0 0 {width} {height}' "
            f"width='{width}' height='{height}' {FONT} fill='{GREY}' role='group' aria-label='{escape(about, True)}'>")
    return Picture(head + "".join(body) + "</svg>", about)


def _text(x: float, y: float, words: tuple[str, str], lang: str, more: str = "") -> str:
    """A text in both languages, shown in ``lang``."""
    both = "".join(f" data-{k}='{escape(w, True)}'" for k, w in zip(LANGUAGES, words, strict=True))
    return f"<text x='{x:g}' y='{y:g}'{both} {more}>{escape(words[LANGUAGES.index(lang)])}</text>"


def _plain(x: float, y: float, shown: str, more: str = "") -> str:
    return f"<text x='{x:g}' y='{y:g}' {more}>{escape(shown)}</text>"


def _box(x: float, y: float, w: float, h: float, strength: float) -> str:
    line = "" if strength else " stroke-dasharray='2 2'"
    return (f"<rect x='{x:g}' y='{y:g}' width='{w:g}' height='{h:g}' fill='{BLUE}' fill-opacity='{strength:.2f}' "
            f"stroke='{GREY}' stroke-width='0.5'{line}/>")


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
        body.append(f"<g data-facet='task' data-value='{task}'><rect x='{left + j * w}' y='2' width='{w}' height='20' "
                    f"fill-opacity='0'/>{_text(left + (j + 0.5) * w, 16, VALUES[task], lang, middle)}</g>")
    for i, capability in enumerate(counts.index):
        y = top + i * h
        body.append(f"<g data-facet='capability' data-value='{capability}'><rect x='0' y='{y}' width='{left - 4}' "
                    f"height='{h}' fill-opacity='0'/>{_text(2, y + 18, VALUES[capability], lang)}</g>")
        for j, task in enumerate(counts.columns):
            n = int(counts.loc[capability, task])
            body.append(f"<g data-cell='{capability}|{task}'>{_box(left + j * w + 1, y + 1, w - 2, h - 2, shade(n, most))}"
                        f"{_plain(left + (j + 0.5) * w, y + 18, str(n) if n else '–', middle + count)}</g>")
    empty = int((counts == 0).sum().sum())
    about = f"Capability × task: {counts.size} cells, {empty} empty, the fullest with {most} entries."
    return _svg(left + w * len(TASK), top + h * len(counts), "matrix", body, about)


def icicle(taxonomy: Taxonomy, lang: str = "en") -> Picture:
    """The section tree from left to right; blue says which share of a section's entries this project realises."""
    rows = {s.section_id: s for s in taxonomy.sections.itertuples()}
    above, children, held = paths(taxonomy), defaultdict(list), defaultdict(set)
    for section in rows:
        children[rows[section].parent].append(section)
    level = dict(zip(taxonomy.entries["entry_id"], taxonomy.entries["coverage"], strict=True))
    for p in taxonomy.placements.itertuples():
        for section in above[p.section_id]:
            held[section].add(p.entry_id)
    columns, body = (0, 96, 284, 492), []
    widths = (94, 186, 206, 206)

    def tall(section: str) -> float:
        own = max(7.0, 5 + 2.0 * math.sqrt(len(held[section]))) if not children[section] else 0.0
        return max(own, 13.0 if len(above[section]) < 3 else 7.0, sum(map(tall, children[section])))

    def draw(section: str, y: float) -> float:
        h, depth, own = tall(section), len(above[section]) - 1, held[section]
        done = sum(level[e] != "listed" for e in own)
        row, fits = rows[section], h >= 11
        number = section if "/" not in section else ""
        words = tuple(f"{number} {t}".strip() for t in (row.title_en, row.title_ja))
        room = widths[depth] - (36 if own else 2)
        label = f"<svg width='{room}' height='{h:.1f}'>{_text(3, h / 2 + 3.7, words, lang)}</svg>" if fits else ""
        count = _plain(widths[depth] - 4, h / 2 + 3.7, f"{done}/{len(own)}",
                       "text-anchor='end' data-count=''") if fits and own else ""
        title = f"<title>{escape(' '.join([section, row.title_en]))}: {done} of {len(own)}</title>"
        body.append(f"<svg x='{columns[depth]}' y='{y:.1f}' width='{widths[depth]}' height='{h:.1f}' data-facet='section' "
                    f"data-value='{section}'>{title}{_box(0, 0, widths[depth], h, DARKEST * done / len(own) if own else 0)}"
                    f"{label}{count}</svg>")
        for child in children[section]:
            draw(child, y)
            y += tall(child)
        return h

    y = 0.0
    for section in children[""]:
        y += draw(section, y) + 3
    realised = sum(v != "listed" for v in level.values())
    return _svg(700, math.ceil(y), "icicle", body,
                f"{len(rows)} sections; {realised} of {len(level)} entries are realised or discussed here.")


def timeline(taxonomy: Taxonomy, lang: str = "en") -> Picture:
    """Entries by first publication: by month from 2023 where the month is known, else by year."""
    counts = Counter(when(e.first_public, int(e.year)) for e in taxonomy.entries.itertuples())
    months = sorted(k for k in counts if "-" in k)
    first, last = months[0], months[-1]
    span = [f"{y}-{m:02d}" for y in range(int(first[:4]), int(last[:4]) + 1) for m in range(1, 13)]
    years = sorted(k for k in counts if "-" not in k)
    bars = [*years, "", *(k for k in span if first <= k <= last)]
    width, high, base = 690, 84, 102
    step = width / len(bars)
    most, body = max(counts.values()), []
    for i, key in enumerate(bars):
        n, x = counts[key], i * step
        tall = high * n / most
        if key and n:
            body.append(
                f"<g data-facet='when' data-value='{key}'><title>{key}: {n}</title><rect x='{x:.1f}' y='{base - high - 12}' "
                f"width='{step:.1f}' height='{high + 12}' fill-opacity='0'/><rect class='all' x='{x + 1:.1f}' "
                f"y='{base - tall:.1f}' width='{step - 2:.1f}' height='{tall:.1f}' fill='none' stroke='{GREY}' "
                f"stroke-width='0.7'/><rect class='now' data-bar='{high / most:.4f}' x='{x + 1:.1f}' y='{base - tall:.1f}' "
                f"width='{step - 2:.1f}' height='{tall:.1f}' fill='{BLUE}' fill-opacity='0.6'/></g>")
        if key.endswith("-01") or key == first or (key and "-" not in key):
            at = (x, "") if x < width - 24 else (width, "text-anchor='end' ")
            body.append(_plain(at[0], base + 12, key[:4] if "-" in key else key[2:4], at[1] + "font-size='9'"))
    body.append(_text(0, 10, (f"{text('before')} (to {MONTHS_FROM - 1}, or month unknown)",
                              f"{text('before', 'ja')} ({MONTHS_FROM - 1} まで、または月が不明)"), lang, "font-size='9'"))
    peak = [k for k, _ in Counter({k: counts[k] for k in months}).most_common(2)]
    return _svg(width, base + 16, "timeline", body,
                f"{sum(counts.values())} entries; the fullest months are {peak[0]} ({counts[peak[0]]}) and {peak[1]} "
                f"({counts[peak[1]]}).")


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
        at = x + 10 + (5.8 * sum(1.8 if ord(c) > 0x2e80 else 1 for c in knob) + 10 if knob else 0)
        size = 7.2 * len(names[entry]) + 24
        body.append(f"<g data-open='{entry}'><rect x='{at - 4:.0f}' y='{y - 12}' width='{size:.0f}' height='15' rx='4' "
                    f"fill='{BLUE}' fill-opacity='{0.25 if level[entry] == 'implemented' else 0.06}'/>"
                    f"{_plain(at, y, MARKS[level[entry]] + ' ' + names[entry], bold)}</g>")
        for child, why in sorted(kids[entry], key=lambda pair: (bool(kids[pair[0]]), names[pair[0]].lower())):
            below = draw(child, why, depth + 1)
            body.append(f"<path d='M{x + indent - 6:.0f} {y + 4} V{below - 4:.0f} h14' fill='none' stroke='{GREY}' "
                        f"stroke-width='0.7'/>")
        return y

    draw(root, "", 0)
    return _svg(620, 14 + row * line, "lineage", body,
                f"{row} algorithms below {names[root]}, each with what it changes.")


def overview(taxonomy: Taxonomy, lang: str = "en") -> Picture:
    """Matrix and timeline, one above the other: the explorer where it cannot be live."""
    parts, y, body = (matrix(taxonomy, lang), timeline(taxonomy, lang)), 0, []
    for part in parts:
        body.append(part.svg.replace("<svg ", f"<svg y='{y}' ", 1))
        y += int(part.svg.split(" height='", 1)[1].split("'", 1)[0]) + 12
    return _svg(700, y, "overview", body, " ".join(part.about for part in parts))
