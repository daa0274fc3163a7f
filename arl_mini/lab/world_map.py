"""The picture of a four-state world: who leads where, what a policy does there, and what it is worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from . import style

WIDTH, HEIGHT = 720, 320
PLACES = ((56, 150), (216, 58), (216, 242), (376, 150))  # of the states
RADIUS, LEFT = 29, 452  # of a state; where the numbers begin
COLOURS, DASHES = (style.BLUE, style.VERMILLION), ("", "6 3")  # of the two actions


def world_svg(world: Any, solved: Any) -> str:
    """An SVG of a `World` and what was `Solved` about it: the map on the left, the numbers on the right."""
    parts = ['<defs>', *(_head(a) for a in (0, 1)), "</defs>"]
    parts += [_arrows(world, solved.policy[world.row(s)], s) for s in range(4)]
    parts += [_state(world, s, solved.values[s]) for s in range(4)]
    parts += [_text(8 + 120 * a, HEIGHT - 8, f"{'━━' if a == 0 else '╍╍'} {name}", colour=COLOURS[a])
              for a, name in enumerate(world.actions)]
    parts.append(_text(250, HEIGHT - 8, "thicker: more often", size=11))
    parts += [_policy(world, solved), _worth(solved)]
    told = f"world {' '.join(world.looks)}, objective {solved.objective:.3f}"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
            f'height="{HEIGHT}" style="max-width:100%;height:auto" role="img" '
            f'aria-label="{escape(told, quote=True)}" fill="{style.GREY}" '
            f'font-family="system-ui,sans-serif">{"".join(parts)}</svg>')


def _head(action: int) -> str:
    return (f'<marker id="arl-head-{action}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" '
            f'markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">'
            f'<path d="M0 0L8 4L0 8z" fill="{COLOURS[action]}"/></marker>')


def _text(x: float, y: float, words: str, size: int = 12, colour: str = style.GREY, anchor: str = "start",
          bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"'
            f"{weight}>{escape(words)}</text>")


def _state(world: Any, s: int, value: float) -> str:
    x, y = PLACES[s]
    start = f'<circle cx="{x}" cy="{y}" r="{RADIUS + 4}" fill="none" stroke="{style.GREY}"/>'
    return (f'{start if world.start[s] else ""}<circle cx="{x}" cy="{y}" r="{RADIUS}" fill="none" '
            f'stroke="{style.GREY}" stroke-width="2"/>'
            + _text(x, y - 3, f"{world.states[s]} {world.looks[s]}", 15, anchor="middle", bold=True)
            + _text(x, y + 15, f"{value:+.2f}", 12, anchor="middle"))


def _arrows(world: Any, policy: Sequence[float], s: int) -> str:
    if world.over(s):
        return ""
    parts = []
    for a in range(2):
        for after, chance in enumerate(world.P[s][a]):
            if chance:
                paid = f"{world.R[s][a]:+g}" if world.R[s][a] else ""
                share = "" if chance == 1 else f"{chance:.0%}"
                parts.append(_arrow(s, after, a, policy[a] * chance, " ".join(filter(None, (share, paid)))))
    return "".join(parts)


def _arrow(s: int, after: int, action: int, flow: float, words: str) -> str:
    (x, y), (to_x, to_y) = PLACES[s], PLACES[after]
    if s == after:
        side = 1 if action else -1
        low, high = x - 13, x + 13
        edge = y + side * (RADIUS - 3)
        path = f"M{low} {edge}C{low - 10} {edge + side * 34} {high + 10} {edge + side * 34} {high} {edge}"
        middle = (x + 24, edge + side * 26)
    else:
        length = math.hypot(to_x - x, to_y - y)
        ux, uy = (to_x - x) / length, (to_y - y) / length
        # To the left of its way and to the right, near and far: four arrows join two states, none hides another.
        bend = -30 if action == 0 else 54
        cx, cy = (x + to_x) / 2 - uy * bend, (y + to_y) / 2 + ux * bend
        path = (f"M{x + ux * (RADIUS + 6):.1f} {y + uy * (RADIUS + 6):.1f}Q{cx:.1f} {cy:.1f} "
                f"{to_x - ux * (RADIUS + 7):.1f} {to_y - uy * (RADIUS + 7):.1f}")
        off = math.copysign(13, bend)
        middle = ((x + to_x) / 4 + cx / 2 - uy * off, (y + to_y) / 4 + cy / 2 + ux * off + 4)
    dash = f' stroke-dasharray="{DASHES[action]}"' if DASHES[action] else ""
    line = (f'<path d="{path}" fill="none" stroke="{COLOURS[action]}" stroke-width="{1 + 4 * flow:.2f}"'
            f'{dash} marker-end="url(#arl-head-{action})"/>')
    return line + (_text(*middle, words, 11, COLOURS[action], "middle") if words else "")


def _policy(world: Any, solved: Any) -> str:
    """A row for each look: π of both actions as one bar, and the gradient of the first action's logit."""
    parts = [_text(LEFT, 18, "policy by look", bold=True),
             _text(WIDTH - 4, 18, f"∂J/∂θ({world.actions[0]})", anchor="end")]
    for row, look in enumerate(dict.fromkeys(world.looks)):
        y, (first, _) = 40 + 26 * row, solved.policy[row]
        idle = all(world.over(s) for s, seen in enumerate(world.looks) if seen == look)
        parts.append(_text(LEFT, y, look, 15))
        if idle:
            parts.append(_text(LEFT + 24, y, "the end: nobody acts"))
            continue
        for left, width, a in ((0, 130 * first, 0), (130 * first, 130 * (1 - first), 1)):
            parts.append(f'<rect x="{LEFT + 24 + left:.1f}" y="{y - 13}" width="{width:.1f}" height="16" '
                         f'fill="{COLOURS[a]}" fill-opacity="{0.85 if a == 0 else 0.4}"/>')
        parts.append(_text(LEFT + 160, y, f"{first:.2f}"))
        parts.append(_text(WIDTH - 4, y, f"{solved.gradient[row][0]:+.3f}", anchor="end"))
    return "".join(parts)


def _worth(solved: Any) -> str:
    """Bars of J now and of the best that each kind of policy can reach, on one scale."""
    rows = [("J now", solved.objective), *solved.best.items()]
    low, high = min(0.0, *(v for _, v in rows)), max(0.0, *(v for _, v in rows))
    scale = 76 / ((high - low) or 1.0)
    zero = LEFT + 136 - low * scale
    parts = [_text(LEFT, 172, "what it is worth", bold=True)]
    for index, (name, value) in enumerate(rows):
        y = 196 + 26 * index
        left, width = zero + min(value, 0.0) * scale, abs(value) * scale
        colour = style.GREEN if index == 0 else style.GREY
        parts += [_text(LEFT, y, name), f'<rect x="{left:.1f}" y="{y - 12}" width="{max(width, 1):.1f}" '
                  f'height="15" fill="{colour}"/>', _text(WIDTH - 4, y, f"{value:.3f}", anchor="end")]
    return "".join(parts)
