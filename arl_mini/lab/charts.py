"""Pictures that a learning curve cannot give: pass@k, reward against KL, phase portraits, calibration."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import style
from .curves import interval, seeds_of
from .records import moving_mean, value


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def pass_at_k(outcomes: Mapping[str, Sequence[Sequence[bool]]], ks: Sequence[int] | None = None,
              ax: Any = None) -> Any:
    """Draw the chance that one of k tries succeeds, with a 95 % bootstrap interval over tasks.

    Returns the Axes. Of n tries of a task, c right, the unbiased estimate is 1 − C(n−c, k)/C(n, k); the curve
    is its mean over tasks.
    Source: Chen et al. 2021 (arXiv 2107.03374), Eq. 1.

    Args:
        outcomes: label → for each task the outcomes of its tries (at least max(ks) of them).
        ks: the k to draw; by default 1, 2, 4, … up to the fewest tries.

    Raises ValueError where there are no tasks, or fewer tries than k.
    """
    import numpy as np

    fewest = min((len(tries) for tasks in outcomes.values() for tries in tasks), default=0)
    if not fewest:
        raise ValueError("pass_at_k() got no tries; expected {'label': [[True, False, ...] for each task]}")
    ks = list(ks) if ks else [2**i for i in range(fewest.bit_length())]
    if max(ks) > fewest or min(ks) < 1:
        raise ValueError(f"ks are {ks}; expected 1 to {fewest}, the fewest tries of a task")
    with style.context():
        ax = _axes(ax)
        for index, (label, tasks) in enumerate(outcomes.items()):
            counts = [(sum(map(bool, tries)), len(tries)) for tries in tasks]
            chances = np.array([[_any_of(*count, k) for k in ks] for count in counts])  # (tasks, ks)
            low, high = interval(chances)
            look = style.line(index)
            ax.fill_between(ks, low, high, color=look["color"], alpha=0.2, linewidth=0)
            ax.plot(ks, chances.mean(0), label=label, marker="o", markersize=4, **look)
        ax.set_xscale("log", base=2)
        ax.set_xticks(ks, [str(k) for k in ks])
        ax.minorticks_off()
        ax.set_xlabel("k (tries a task)")
        ax.set_ylabel("pass@k (share of tasks)")
        ax.set_ylim(-0.03, 1.03)
        if len(outcomes) > 1:
            ax.legend()
    return ax


def _any_of(right: int, tries: int, k: int) -> float:
    return 1.0 - math.comb(tries - right, k) / math.comb(tries, k)


def reward_against_kl(runs: Mapping[str, Sequence[Any]], paid: str = "reward", wanted: str = "success", *,
                      kl: str = "kl", smooth: int = 1, ax: Any = None) -> Any:
    """Draw what was paid for and what was wanted against the distance from the reference; return the Axes.

    Where the solid line (paid) goes on rising after the dashed one (wanted) has turned, the reward is being
    over-optimised; a ring marks the wanted number's highest point. The x axis is √KL, in which both are
    smooth near the start. Source: Gao et al. 2022 (arXiv 2210.10760), Fig. 1.

    Args:
        runs: label → records, or a list of records for each seed (each is drawn, thin, beside their mean).
        paid, wanted, kl: names of numbers of the records; kl in nats.
        smooth: each point is the mean of the last `smooth` records.
    """
    if not runs:
        raise ValueError("reward_against_kl() got no runs; expected {'label': [record, ...]}")
    with style.context():
        ax = _axes(ax)
        for index, (label, run) in enumerate(runs.items()):
            colour, seeds = style.COLOURS[index % len(style.COLOURS)], seeds_of(label, run)
            far = [moving_mean([math.sqrt(max(0.0, value(r, kl))) for r in seed], smooth) for seed in seeds]
            for name, dash in ((paid, "solid"), (wanted, (0, (5, 2)))):
                heights = [moving_mean([value(r, name) for r in seed], smooth) for seed in seeds]
                words = f"{label}: {name.replace('_', ' ')}" if len(runs) > 1 else name.replace("_", " ")
                x, y = _mean_path(far), _mean_path(heights)
                for one_x, one_y in zip(far, heights, strict=True) if len(seeds) > 1 else ():
                    ax.plot(one_x, one_y, color=colour, linestyle=dash, alpha=0.3, linewidth=0.8)
                ax.plot(x, y, color=colour, linestyle=dash, label=words)
                if name == wanted:
                    top = max(range(len(y)), key=y.__getitem__)
                    ax.plot(x[top], y[top], "o", color=colour, markersize=9, markerfacecolor="none")
        ax.set_xlabel("√KL to the reference (√nats a token)")
        ax.set_ylabel("mean per episode")
        ax.legend()
    return ax


def _mean_path(seeds: Sequence[Sequence[float]]) -> list[float]:
    """Mean over seeds at each record that all of them have."""
    return [sum(at) / len(at) for at in zip(*seeds)]  # noqa: B905: seeds of other lengths end together


def phase_portrait(runs: Mapping[str, Sequence[Any]], x: str = "entropy", y: str = "success", *,
                   smooth: int = 1, every: int = 0,
                   field: Callable[[Any, Any], tuple[Any, Any]] | None = None, ax: Any = None) -> Any:
    """Draw the way of runs through the plane of two of their numbers; return the Axes.

    A square marks the start, an arrowhead the end, dots every `every` records (0: a tenth of the run).

    Args:
        runs: label → records, or a list of records for each seed (a way each).
        field: (X, Y) arrays → (U, V) arrays, a flow (a gradient, say) drawn as streamlines behind the ways.
    """
    if not runs:
        raise ValueError("phase_portrait() got no runs; expected {'label': [record, ...]}")
    with style.context():
        ax = _axes(ax)
        for index, (label, run) in enumerate(runs.items()):
            for number, seed in enumerate(seeds_of(label, run)):
                way = [moving_mean([value(record, name) for record in seed], smooth) for name in (x, y)]
                _way(ax, *way, every or max(1, len(seed) // 10), index, label if number == 0 else None)
        if field is not None:
            _flow(ax, field)
        ax.set_xlabel(style.label(x))
        ax.set_ylabel(style.label(y))
        if len(runs) > 1:
            ax.legend()
    return ax


def _way(ax: Any, xs: list[float], ys: list[float], every: int, index: int, label: str | None) -> None:
    look = style.line(index)
    ax.plot(xs, ys, label=label, alpha=0.8, **look)
    ax.plot(xs[::every], ys[::every], "o", color=look["color"], markersize=3)
    ax.plot(xs[0], ys[0], "s", color=look["color"], markersize=6, markerfacecolor="none")
    if len(xs) > 1:
        back = min(every, len(xs) - 1)  # one record alone may hardly have moved
        ax.annotate("", (xs[-1], ys[-1]), (xs[-1 - back], ys[-1 - back]),
                    arrowprops={"arrowstyle": "-|>", "color": look["color"], "mutation_scale": 14,
                                "linestyle": "solid", "shrinkA": 0, "shrinkB": 0})


def _flow(ax: Any, field: Callable[[Any, Any], tuple[Any, Any]]) -> None:
    import numpy as np

    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    X, Y = np.meshgrid(np.linspace(left, right, 24), np.linspace(bottom, top, 24))
    U, V = field(X, Y)
    ax.streamplot(X, Y, U, V, color=style.GREY, density=0.8, linewidth=0.4, arrowsize=0.6, zorder=0)
    ax.set(xlim=(left, right), ylim=(bottom, top))


def calibration(told: Mapping[str, tuple[Sequence[float], Sequence[bool]]], bins: int = 10,
                ax: Any = None) -> Any:
    """Draw how often what was said with a confidence was right; return the Axes.

    Points on the diagonal are honest, below it too sure. Bins of equal width; bars are 95 % Wilson intervals,
    the area of a point is its share of the answers. The legend has the expected calibration error, the mean
    distance from the diagonal. Source: Guo et al. 2017 (arXiv 1706.04599), Eq. 3.

    Args:
        told: label → (confidences in [0, 1], whether each was right).

    Raises ValueError for confidences outside [0, 1], or where there are not as many outcomes.
    """
    with style.context():
        ax = _axes(ax)
        ax.plot([0, 1], [0, 1], color=style.GREY, linewidth=1, linestyle="dotted")
        for index, (label, (said, right)) in enumerate(told.items()):
            _reliability(ax, index, label, list(map(float, said)), list(map(bool, right)), bins, len(told))
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.03, 1.03))
        ax.set_xlabel("confidence (mean of a bin)")
        ax.set_ylabel("right (share of answers)")
        ax.legend()
    return ax


def _reliability(ax: Any, index: int, label: str, said: list[float], right: list[bool], bins: int,
                 many: int) -> None:
    if not said or len(said) != len(right):
        raise ValueError(f"{label!r} has {len(said)} confidences and {len(right)} outcomes; expected as many")
    if wrong := [p for p in said if not 0 <= p <= 1]:
        raise ValueError(f"{label!r} has a confidence of {wrong[0]}; expected 0 to 1")
    places: dict[int, list[int]] = {}
    for i, p in enumerate(said):
        places.setdefault(min(int(p * bins), bins - 1), []).append(i)
    colour, mark, error = style.COLOURS[index % len(style.COLOURS)], "osD^v"[index % 5], 0.0
    for place in sorted(places):
        rows = places[place]
        p, share = (sum(column[i] for i in rows) / len(rows) for column in (said, right))
        error += abs(p - share) * len(rows) / len(said)
        low, high = _wilson(share, len(rows))
        p += (index - (many - 1) / 2) * 0.008  # side by side where labels share a bin
        ax.plot([p, p], [low, high], color=colour, linestyle="solid", linewidth=1.4)
        ax.scatter([p], [share], s=20 + 200 * len(rows) / len(said), color=colour, marker=mark, alpha=0.85)
    ax.plot([], [], color=colour, linestyle="none", marker=mark, label=f"{label}: error {error:.3f}")


def _wilson(share: float, n: int, z: float = 1.959964) -> tuple[float, float]:
    """95 % interval of a share of n."""
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)
