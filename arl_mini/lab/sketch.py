"""Curves as a small SVG, drawn in about a millisecond, for pictures that change while training runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from . import style
from .records import moving_mean

# Pixels: whole width, height of a panel, gap between panels, room for tick labels.
WIDTH, PANEL, GAP, LEFT = 640, 170, 24, 44
POINTS = 200  # more points are averaged together, so that the picture does not grow with the run
SHARES = ("success", "signal_share", "clip_share")


def sketch(steps: Sequence[float], series: Mapping[str, Sequence[float]], *, title: str = "",
           caption: Sequence[str] = (), total: int | None = None) -> str:
    """An SVG with one panel for each of `series` (name → values, as many as `steps`; not finite: left out).

    The faint line is each update, the strong one the mean of five. `total` fixes the right end of the x axis,
    so that a running curve grows to the right instead of being squeezed.
    """
    top = 24 if title else 6
    height = top + PANEL + 20 * len(caption) + 4
    inner = (WIDTH - GAP * (len(series) - 1)) / len(series)
    body = [f'<text x="0" y="16" font-size="14" font-weight="bold">{escape(title)}</text>'] if title else []
    for index, (name, values) in enumerate(series.items()):
        left = index * (inner + GAP)
        panel = _panel(name, steps, values, inner, style.COLOURS[index % len(style.COLOURS)], total)
        body.append(f'<g transform="translate({left:.1f},{top})">{panel}</g>')
    for row, line in enumerate(caption):
        body.append(f'<text x="0" y="{top + PANEL + 14 + 20 * row}" font-size="12">{escape(line)}</text>')
    names = ", ".join(series)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
            f'height="{height}" style="max-width:100%;height:auto" role="img" '
            f'aria-label="{escape(f"{title}: {names} over {len(steps)} updates", quote=True)}" '
            f'fill="{style.GREY}" font-family="system-ui,sans-serif">{"".join(body)}</svg>')


def _panel(name: str, steps: Sequence[float], values: Sequence[float], width: float, colour: str,
           total: int | None) -> str:
    bottom, ceiling, right = PANEL - 34, 24, width - 6
    xs, ys = _thin(steps, [v if math.isfinite(v) else math.nan for v in values])
    x_low = steps[0] if steps else 1
    x_high = max([x_low + 1, *steps[-1:], x_low + total - 1 if total else x_low])
    ticks = _ticks(name, [y for y in ys if not math.isnan(y)])

    def place(x: float, y: float) -> tuple[float, float]:
        return (LEFT + (x - x_low) / (x_high - x_low) * (right - LEFT),
                bottom - (y - ticks[0]) / (ticks[-1] - ticks[0]) * (bottom - ceiling))

    parts = [f'<text x="{LEFT}" y="13" font-size="12">{escape(style.label(name))}</text>']
    for tick in ticks:
        x, y = place(x_low, tick)
        parts.append(f'<path d="M{x:.1f} {y:.1f}H{right:.1f}" stroke="{style.GREY}" stroke-opacity=".3"/>'
                     + _text(LEFT - 6, y + 4, "end", f"{tick:.4g}"))
    parts += [_text(LEFT, bottom + 16, "start", f"{x_low:.6g}"),
              _text(right, bottom + 16, "end", f"{x_high:.6g}"),
              _text((LEFT + right) / 2, bottom + 16, "middle", style.UNITS["step"])]
    raw = [place(x, y) for x, y in zip(xs, ys, strict=True) if not math.isnan(y)]
    smooth = [place(x, y) for x, y in zip(xs, moving_mean(ys, 5), strict=True) if not math.isnan(y)]
    if smooth:
        parts.append(_line(raw, f'stroke="{colour}" stroke-opacity=".4" stroke-width="1"')
                     + _line(smooth, f'stroke="{colour}" stroke-width="2.2" class="arl-curve"')
                     + f'<circle cx="{smooth[-1][0]:.1f}" cy="{smooth[-1][1]:.1f}" r="3" fill="{colour}"/>')
    return "".join(parts)


def _text(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="11" text-anchor="{anchor}">{text}</text>'


def _line(points: list[tuple[float, float]], look: str) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline fill="none" stroke-linejoin="round" {look} points="{path}"/>'


def _thin(steps: Sequence[float], values: Sequence[float]) -> tuple[list[float], list[float]]:
    stride = max(1, math.ceil(len(steps) / POINTS))
    if stride == 1:
        return list(steps), list(values)
    xs, ys = [], []
    for start in range(0, len(steps), stride):
        seen = [v for v in values[start:start + stride] if not math.isnan(v)]
        xs.append(steps[min(start + stride, len(steps)) - 1])
        ys.append(sum(seen) / len(seen) if seen else math.nan)
    return xs, ys


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
