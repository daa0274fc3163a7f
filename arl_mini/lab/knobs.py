"""Sliders for the numbers of a run that may change while it trains."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

# Names in the words of the chapters, the ones people reach for first in front.
WORDS = {"lr": "learning rate", "temperature": "temperature", "tries": "tries a task",
         "clip_low": "clip ε below", "clip_high": "clip ε above", "beta": "β (KL weight)",
         "gamma": "γ (discount)", "lam": "λ",
         "prompts": "tasks a step", "max_grad_norm": "gradient norm ≤"}


@dataclass(frozen=True)
class Span:
    """The range of a slider; log: its ends are in powers of ten."""

    low: float
    high: float
    log: bool = False
    step: float = 0.01


SPANS = {"lr": Span(1e-6, 0.1, log=True), "temperature": Span(0.1, 2.0, step=0.05),
         "beta": Span(0.0, 0.5, step=0.001), "max_grad_norm": Span(0.01, 100.0, log=True)}


def span(name: str, value: float) -> Span:
    """A range around `value`; a number that is known by name has one of its own. It always holds `value`."""
    if isinstance(value, int):
        return Span(min(value, 1), max(16, 4 * value), step=1)
    known = SPANS.get(name)
    if known is not None and known.low <= value <= known.high:
        return known
    if 0 < value < 0.01:
        return Span(10.0 ** math.floor(math.log10(value) - 1), 1.0, log=True)
    return Span(min(0.0, 2 * value), 1.0 if value <= 1 else math.ceil(4 * value))


class Knobs:
    """A slider for each number; `turned(name, value)` is called when a reader moves one.

    Attributes:
        root: the widget.
    """

    def __init__(self, numbers: Mapping[str, float], turned: Callable[[str, float], None]):
        import ipywidgets as w

        order = sorted(numbers, key=lambda name: [*WORDS, name].index(name))
        self._turned, self._quiet = turned, False
        self.sliders = {name: self._slider(name, numbers[name]) for name in order}
        inside = w.Box(list(self.sliders.values()), layout=w.Layout(flex_flow="row wrap"))
        self.root = w.Accordion([inside], titles=["change in mid-run"], selected_index=None)
        self.root.add_class("arl-knobs")

    def _slider(self, name: str, number: float) -> Any:
        import ipywidgets as w

        to = span(name, number)
        look = {"description": WORDS.get(name, name.replace("_", " ")), "continuous_update": False,
                "style": {"description_width": "116px"}, "layout": w.Layout(width="306px")}
        if to.log:
            ends = {"min": math.log10(to.low), "max": math.log10(to.high), "step": 0.05}
            slider = w.FloatLogSlider(number, readout_format=".2g", **ends, **look)
        elif isinstance(number, int):
            slider = w.IntSlider(number, to.low, to.high, **look)
        else:
            ends = {"min": to.low, "max": to.high, "step": to.step}
            slider = w.FloatSlider(number, readout_format=".3g", **ends, **look)
        slider.add_class(f"arl-knob-{name}")
        slider.observe(lambda change: self._quiet or self._turned(name, change.new), "value")
        return slider

    def show(self, numbers: Mapping[str, float]) -> None:
        """Set the sliders to what the run has, without calling back."""
        self._quiet = True
        try:
            for name, number in numbers.items():
                slider = self.sliders[name]
                end = math.log10(number) if hasattr(slider, "base") and number > 0 else number
                slider.min, slider.max = min(slider.min, end), max(slider.max, end)
                slider.value = number
        finally:
            self._quiet = False
