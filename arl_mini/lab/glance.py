"""One record at a glance, as HTML: its numbers, where its time went, some of its episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from . import style

FIRST = ("success", "reward", "loss", "entropy", "kl", "clip_share", "signal_share", "grad_norm", "tokens",
         "seconds")
CARDS, SAMPLE = 6, 600  # episodes in the strip, and characters of each
PHASES = "seconds "  # how `records.numbers` names what stands in a mapping called seconds


def in_words(numbers: Mapping[str, float], most: int = 10) -> list[str]:
    """The numbers of a record as "name value", at most `most`, the ones people look at first in front."""
    order = [name for name in FIRST if name in numbers]
    order += [name for name in numbers if name not in order and name != "step"]
    return [f"{name.replace('_', ' ')} {short(numbers[name])}" for name in order[:most]]


def short(number: float) -> str:
    """Three digits that matter: 0.123, 12.3, 4,096."""
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"


def figures(count: int, numbers: Mapping[str, float]) -> str:
    """How far the run is, and the numbers of its newest record, without those of the clock."""
    told = in_words({name: number for name, number in numbers.items() if not name.startswith(PHASES)})
    words = "".join(f"<span>{escape(text)}</span>" for text in told)
    return f'<div class="arl-numbers"><span>update <b class="arl-count">{count}</b></span>{words}</div>'


def shares(latest: Sequence[Mapping[str, float]]) -> str:
    """Bars of the newest records' means: groups that teach something, and where the time went."""
    bars = []
    signal = [numbers["signal_share"] for numbers in latest if "signal_share" in numbers]
    if signal:
        mean = sum(signal) / len(signal)
        bars.append(_bar("groups with signal", [("", mean, style.GREEN)], f"{mean:.0%}", "arl-signal"))
    names = [name for name in latest[-1] if name.startswith(PHASES)] if latest else []
    spent = [sum(numbers.get(name, 0.0) for numbers in latest) / len(latest) for name in names]
    if names and (whole := sum(spent)) > 0:
        parts = [(name.removeprefix(PHASES), seconds / whole, style.COLOURS[i % len(style.COLOURS)])
                 for i, (name, seconds) in enumerate(zip(names, spent, strict=True))]
        words = " · ".join(f"{name} {share:.0%}" for name, share, _ in parts)
        bars.append(_bar("time", parts, f"{words} of {short(whole)} s an update", "arl-phases"))
    return "".join(bars)


def _bar(name: str, parts: Sequence[tuple[str, float, str]], words: str, kind: str) -> str:
    pieces = "".join(f'<i style="width:{100 * share:.1f}%;background:{colour}" title="{escape(part)}"></i>'
                     for part, share, colour in parts)
    return (f'<div class="arl-bar {kind}"><span>{name}</span><span class="arl-track">{pieces}</span>'
            f"<span>{escape(words)}</span></div>")


def strip(record: Any) -> str:
    """Up to six episodes of a record side by side, evenly picked; empty where there are none with text."""
    episodes = record.get("episodes") if isinstance(record, Mapping) else getattr(record, "episodes", None)
    if not episodes or not isinstance(getattr(episodes[0], "text", None), str):
        return ""
    most = min(CARDS, len(episodes))
    picked = [episodes[i * len(episodes) // most] for i in range(most)]
    return f'<div class="arl-strip" tabindex="0" role="list">{"".join(map(_card, picked))}</div>'


def _card(episode: Any) -> str:
    text = episode.text if len(episode.text) <= SAMPLE else episode.text[:SAMPLE] + " …"
    won, reward = getattr(episode, "success", None), getattr(episode, "reward", None)
    outcome = "" if won is None else ("✓ success" if won else "✗ no success")
    paid = "" if reward is None else f"reward {short(float(reward))}"
    head = " · ".join(part for part in (outcome, paid) if part)
    return (f'<div class="arl-card" role="listitem"><small>{escape(head)}</small>'
            f"<pre>{escape(text)}</pre></div>")
