"""Curves as a small SVG, drawn in a few milliseconds, for pictures that change while training runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from . import style
from .records import moving_mean, value

# Pixels: whole width, height of a panel, gap between panels, room for tick labels, a line of text.
WIDTH, PANEL, GAP, LEFT, ROW = 640, 170, 24, 44, 18
MARKS = 6  # so many of the newest are put in words below
POINTS = 200  # more points are averaged together, so that the picture does not grow with the run
SHARES = ("success", "signal_share", "clip_share")


@dataclass(frozen=True)
class Line:
    """A run to draw. series: name → values, as many as `steps`; marks: (x, what happened there).

    What comes before index `start` belongs to another line too, which shows it.
    """

    name: str
    label: str
    steps: Sequence[float]
    series: Mapping[str, Sequence[float]]
    marks: Sequence[tuple[float, str]] = ()
    start: int = 0


@dataclass(frozen=True)
class Band:
    """Where earlier runs went. series: name → (low, mean, high), each as long as `steps`."""

    label: str
    steps: Sequence[float]
    series: Mapping[str, tuple[Sequence[float], Sequence[float], Sequence[float]]]


def band(label: str, runs: Sequence[Sequence[object]], names: Sequence[str]) -> Band:
    """Lowest, mean and highest of `names` over runs, at the steps that all have; a missing name is left out.

    Raises ValueError where the runs have no step in common.
    """
    tables = [{value(record, "step"): record for record in run} for run in runs]
    steps = sorted(set.intersection(*map(set, tables))) if tables else []
    if not steps:
        raise ValueError(f"{label!r}: its {len(runs)} runs share no step; expected a list of runs' records")
    steps = steps[::math.ceil(len(steps) / POINTS)]
    series = {}
    for name in names:
        try:
            columns = [[value(table[step], name) for table in tables] for step in steps]
        except KeyError:
            continue
        series[name] = tuple([f(column) for column in columns]
                             for f in (min, lambda column: sum(column) / len(column), max))
    return Band(label, steps, series)


def sketch(lines: Sequence[Line], *, now: int = 0, behind: Sequence[Band] = (), title: str = "",
           caption: Sequence[str] = (), total: int | None = None, smooth: int = 5) -> str:
    """An SVG with one panel for each series of the lines; line `now` is the one that grows, and lies on top.

    Strong lines are the mean of the last `smooth` updates; the faint one is each update of line `now`.
    `total` fixes the right end of the x axis, so that a running curve grows to the right instead of being
    squeezed.
    """
    names = list(lines[0].series)
    keys = _keys(lines, behind)
    top = 24 if title else 6
    height = top + PANEL + ROW * (len(keys) + len(caption)) + 8
    inner = (WIDTH - GAP * (len(names) - 1)) / len(names)
    body = [f'<text x="0" y="16" font-size="14" font-weight="bold">{escape(title)}</text>'] if title else []
    for index, name in enumerate(names):
        panel = _Panel(name, lines, behind, inner, total)
        drawn = panel.draw(now, smooth)
        body.append(f'<g transform="translate({index * (inner + GAP):.1f},{top})">{drawn}</g>')
    for row, text in enumerate((*keys, *(f'<tspan>{escape(line)}</tspan>' for line in caption))):
        body.append(f'<text x="0" y="{top + PANEL + 14 + ROW * row}" font-size="12">{text}</text>')
    label = f"{title}: {', '.join(names)} over {len(lines[now].steps)} updates"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
            f'height="{height}" style="max-width:100%;height:auto" role="img" '
            f'aria-label="{escape(label, quote=True)}" '
            f'fill="{style.GREY}" font-family="system-ui,sans-serif">{"".join(body)}</svg>')


def _keys(lines: Sequence[Line], behind: Sequence[Band]) -> list[str]:
    """What the lines and numbers in the picture mean, a row of text each."""
    rows = [f'<tspan fill-opacity=".5">▆</tspan> {escape(b.label)}: range and mean' for b in behind]
    if len(lines) > 1 or behind:
        rows += [f'<tspan fill="{style.COLOURS[i % len(style.COLOURS)]}" font-weight="bold">━</tspan> '
                 f"{escape(line.label)}" for i, line in enumerate(lines)]
    marks = [(i, f"{line.name}, {text}" if len(lines) > 1 else text)
             for i, line in enumerate(lines) for _, text in line.marks]
    return rows + [f'<tspan fill="{style.COLOURS[i % len(style.COLOURS)]}">{number}</tspan> {escape(text)}'
                   for number, (i, text) in enumerate(marks, 1)][-MARKS:]


class _Panel:
    """The curves of one number."""

    def __init__(self, name: str, lines: Sequence[Line], behind: Sequence[Band], width: float,
                 total: int | None):
        self.name, self.lines = name, lines
        self.behind = [b for b in behind if name in b.series]
        self.bottom, self.ceiling, self.right = PANEL - 34, 24, width - 6
        self.seen = [_thin(line.steps, line.series[name]) for line in lines]
        xs = [x for line in lines for x in (*line.steps[:1], *line.steps[-1:])]
        self.low = min(xs, default=1)
        ends = [b.steps[-1] for b in self.behind] if not total else []
        self.high = max([self.low + 1, *xs, *ends, self.low + total - 1 if total else self.low])
        values = [y for _, ys, _ in self.seen for y in ys]
        values += [y for b in self.behind for edge in b.series[name] for y in edge]
        self.ticks = _ticks(name, [y for y in values if math.isfinite(y)])

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Pixels of a point."""
        across = (x - self.low) / (self.high - self.low)
        up = (y - self.ticks[0]) / (self.ticks[-1] - self.ticks[0])
        return LEFT + across * (self.right - LEFT), self.bottom - up * (self.bottom - self.ceiling)

    def draw(self, now: int, smooth: int) -> str:
        """The panel as SVG elements; line `now` on top."""
        order = [i for i in range(len(self.lines)) if i != now] + [now]
        return "".join([*self._frame(), *map(self._band, self.behind), *self._marks(),
                        *(self._line(i, smooth, strong=i == now) for i in order)])

    def _frame(self) -> list[str]:
        parts = [f'<text x="{LEFT}" y="10" font-size="12">{escape(style.label(self.name))}</text>']
        for tick in self.ticks:
            x, y = self.place(self.low, tick)
            parts.append(f'<path d="M{x:.1f} {y:.1f}H{self.right:.1f}" stroke="{style.GREY}" '
                         'stroke-opacity=".3"/>' + _text(LEFT - 6, y + 4, "end", f"{tick:.4g}"))
        foot = self.bottom + 16
        return parts + [_text(LEFT, foot, "start", f"{self.low:.6g}"),
                        _text(self.right, foot, "end", f"{self.high:.6g}"),
                        _text((LEFT + self.right) / 2, foot, "middle", style.UNITS["step"])]

    def _band(self, behind: Band) -> str:
        low, mean, high = ([(x, y) for x, y in zip(behind.steps, values, strict=True)
                            if self.low <= x <= self.high and math.isfinite(y)]
                           for values in behind.series[self.name])
        around = " ".join("{:.1f},{:.1f}".format(*self.place(*point)) for point in (*low, *reversed(high)))
        return (f'<polygon points="{around}" fill-opacity=".18" class="arl-behind"/>'
                + _polyline([self.place(*point) for point in mean],
                            f'stroke="{style.GREY}" stroke-width="1.2"'))

    def _line(self, index: int, smooth: int, strong: bool) -> str:
        xs, ys, stride = self.seen[index]
        first = self.lines[index].steps[max(0, self.lines[index].start - 1)] if xs else 0
        colour, dash = style.COLOURS[index % len(style.COLOURS)], style.DASHES[index % len(style.DASHES)]
        dashes = "" if dash == "solid" else f' stroke-dasharray="{" ".join(f"{d:g}" for d in dash[1])}"'
        means = moving_mean(ys, math.ceil(smooth / stride))
        points, raw = ([self.place(x, y) for x, y in zip(xs, heights, strict=True)
                        if x >= first and not math.isnan(y)] for heights in (means, ys))
        if not points:
            return ""
        look = f'stroke="{colour}"{dashes} stroke-width="{2.2 if strong else 1.6}"'
        drawn = _polyline(points, f'{look} class="{"arl-curve" if strong else "arl-other"}"')
        drawn += f'<circle cx="{points[-1][0]:.1f}" cy="{points[-1][1]:.1f}" r="3" fill="{colour}"/>'
        if not strong or smooth <= 1:
            return drawn
        return _polyline(raw, f'stroke="{colour}" stroke-opacity=".4" stroke-width="1"') + drawn

    def _marks(self) -> list[str]:
        marks = [(i, x) for i, line in enumerate(self.lines) for x, _ in line.marks]
        parts = []
        for number, (i, at) in enumerate(marks, 1):
            x, colour = self.place(at, self.ticks[0])[0], style.COLOURS[i % len(style.COLOURS)]
            parts.append(f'<path d="M{x:.1f} {self.ceiling}V{self.bottom}" stroke="{colour}" '
                         f'stroke-dasharray="2 3" class="arl-mark"/>'
                         f'<text x="{x:.1f}" y="{self.ceiling - 2}" font-size="10" '
                         f'text-anchor="middle" fill="{colour}">{number}</text>')
        return parts


def _text(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="11" text-anchor="{anchor}">{text}</text>'


def _polyline(points: list[tuple[float, float]], look: str) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline fill="none" stroke-linejoin="round" {look} points="{path}"/>'


def _thin(steps: Sequence[float], values: Sequence[float]) -> tuple[list[float], list[float], int]:
    """At most POINTS means of neighbours (not finite: left out), and how many there are in each."""
    values = [v if math.isfinite(v) else math.nan for v in values]
    stride = max(1, math.ceil(len(steps) / POINTS))
    if stride == 1:
        return list(steps), values, 1
    xs, ys = [], []
    for start in range(0, len(steps), stride):
        seen = [v for v in values[start:start + stride] if not math.isnan(v)]
        xs.append(steps[min(start + stride, len(steps)) - 1])
        ys.append(sum(seen) / len(seen) if seen else math.nan)
    return xs, ys, stride


def _ticks(name: str, values: list[float]) -> list[float]:
    """Three to six round numbers that hold all values between them."""
    if not values or name in SHARES and all(0 <= v <= 1 for v in values):
        return [0.0, 0.5, 1.0]
    low, high = min(values), max(values)
    if high - low < 1e-9 * max(1.0, abs(high)):
        low, high = low - (abs(low) / 2 or 0.5), high + (abs(high) / 2 or 0.5)
    power = 10.0 ** math.floor(math.log10((high - low) / 3))
    unit = next(power * factor for factor in (1, 2, 5, 10) if power * factor * 3 >= high - low)
    first, last = math.floor(low / unit + 1e-9), math.ceil(high / unit - 1e-9)
    return [unit * tick for tick in range(first, max(last, first + 1) + 1)]
