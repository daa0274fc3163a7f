"""Credit as a heat map: one column a turn, one row a way to share the outcome out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from . import style

STRONGEST = 0.9  # opacity of a row's largest entry
BAND = 0.42  # height of the colour in a cell; the number stands above it, where the page's own colour is


def credit_map(
    turns: Sequence[str], credits: Mapping[str, Sequence[float]], truth: str = "", ax: Any = None
) -> Any:
    """Draw what each turn is credited with by each method; return the Axes.

    Sky is credit, vermillion is blame; a row's largest entry has the full colour, for methods use scales of
    their own. Each cell also holds its number, as a share of that largest one.

    Args:
        turns: what was said in each turn, K words or short texts.
        credits: method → K numbers (nan: no verdict).
        truth: the method the others are compared with: its row comes first, and each other name gets the
            correlation of its row with it.

    Raises ValueError where a row has not K numbers, or `truth` names no row.
    """
    import numpy as np

    rows = {name: np.asarray(list(row), float) for name, row in credits.items()}
    for name, row in rows.items():
        if row.shape != (len(turns),):
            raise ValueError(f"row {name!r} has {row.size} numbers, expected {len(turns)}, one a turn")
    if truth and truth not in rows:
        raise ValueError(f"truth {truth!r} is no row; there are {', '.join(rows)}")
    names = sorted(rows, key=lambda name: name != truth)
    sizes = [max(np.nanmax(np.abs(rows[name]), initial=0.0), 1e-12) for name in names]
    shares = np.array([rows[name] / size for name, size in zip(names, sizes, strict=True)])  # (methods, K)
    with style.context():
        if ax is None:
            import matplotlib.pyplot as plt

            size = (1.9 + 0.62 * len(turns), 0.9 + 0.38 * len(names))
            _, ax = plt.subplots(figsize=size, layout="constrained")
        for row, turn in np.ndindex(shares.shape):
            _cell(ax, row, turn, float(shares[row, turn]))
        ax.set(xlim=(-0.5, len(turns) - 0.5), ylim=(len(names) - 0.5, -0.5))
        ax.set_xticks(range(len(turns)), turns, rotation=35, ha="right")
        ax.set_yticks(range(len(names)), [_label(name, rows, truth) for name in names])
        ax.grid(visible=False)
        ax.set_xlabel("turns, in order")
    return ax


def _cell(ax: Any, row: int, turn: int, share: float) -> None:
    from matplotlib.patches import Rectangle

    colour = style.VERMILLION if share < 0 else style.SKY
    opacity = 0.0 if math.isnan(share) else STRONGEST * abs(share)
    band = (turn - 0.47, row + 0.45 - BAND), 0.94, BAND
    ax.add_patch(Rectangle(*band, facecolor=colour, alpha=opacity, linewidth=0))
    text = "–" if math.isnan(share) else f"{share:+.1f}".replace("-", "−")
    text = "0" if text in ("+0.0", "−0.0") else text
    ax.text(turn, row - 0.2, text, ha="center", va="center", fontsize=8)


def agreement(row: Sequence[float], truth: Sequence[float]) -> float:
    """Pearson correlation over the turns that both have a number for; nan where one of them does not vary."""
    import numpy as np

    a, b = np.asarray(row, float), np.asarray(truth, float)
    both = np.isfinite(a) & np.isfinite(b)
    a, b = a[both], b[both]
    if len(a) < 2 or np.ptp(a) < 1e-12 or np.ptp(b) < 1e-12:
        return float("nan")
    return float(np.corrcoef(a, b)[0, 1])


def _label(name: str, rows: Mapping[str, Any], truth: str) -> str:
    if not truth or name == truth:
        return name
    found = agreement(rows[name], rows[truth])
    if math.isnan(found):
        return f"{name} (no contrast)"
    return f"{name} (r = " + f"{found:.2f})".replace("-", "−")
