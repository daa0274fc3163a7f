"""The widgets of a live run: buttons, progress, curve, numbers, one sample episode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

CSS = """<style>
.arl-live { max-width: 680px; color: var(--jp-ui-font-color1, inherit); }
.arl-live .widget-html-content { line-height: 1.35; }
.arl-live pre { white-space: pre-wrap; max-height: 9em; overflow: auto; margin: 2px 0; padding: 4px 8px;
  font-size: 12px; color: inherit; background: transparent; border-left: 3px solid #797979; }
.arl-live .arl-numbers span { display: inline-block; margin-right: 1.1em; white-space: nowrap; }
.arl-live .arl-alarm { border-left: 3px solid #D55E00; padding-left: 8px; }
.arl-live .arl-error { max-height: 20em; border-left-color: #D55E00; }
</style>"""
FIRST = ("success", "reward", "loss", "entropy", "kl", "clip_share", "signal_share", "grad_norm", "tokens",
         "seconds")
SAMPLE = 1500  # characters of the sample episode that are shown


class Panel:
    """What a reader sees of a run. It knows nothing of threads: it is told what to show.

    Args:
        title: heading, plain text.
        total: number of updates, None if not known (then there is no bar).
        toggle, step, stop: what the buttons do; each is called without arguments.
    """

    def __init__(self, title: str, total: int | None, *, toggle: Callable[[], None],
                 step: Callable[[], None], stop: Callable[[], None]):
        import ipywidgets as w

        self.toggle = self._button("Pause", "pause", "Pause after this update, or go on", toggle)
        self.one = self._button("Step", "step-forward", "One update, then pause", step)
        self.end = self._button("Stop", "stop", "End the run and keep its records", stop)
        self.bar = w.IntProgress(0, 0, total or 1)
        self.bar.layout = w.Layout(width="160px", display=None if total else "none")
        self.clock = self._html("clock")
        self.picture, self.figures, self.notes = map(self._html, ("picture", "numbers", "alarms"))
        self.trouble, self.sample = map(self._html, ("error", "sample"))
        head = w.HTML(f"{CSS}<b>{escape(title)}</b>")
        controls = w.HBox([self.toggle, self.one, self.end, self.bar, self.clock])
        controls.layout.flex_flow = "row wrap"
        shown = [self.picture, self.figures, self.notes, self.trouble, self.sample]
        self.root = w.VBox([head, controls, *shown])
        self.root.add_class("arl-live")

    @staticmethod
    def _button(text: str, icon: str, tooltip: str, act: Callable[[], None]) -> Any:
        import ipywidgets as w

        button = w.Button(description=text, icon=icon, tooltip=tooltip, layout=w.Layout(width="84px"))
        button.add_class(f"arl-{text.lower()}")
        button.on_click(lambda _: act())
        return button

    def release(self) -> None:
        """Let go of what the buttons did: the widgets live as long as the kernel, the run need not."""
        for button in (self.toggle, self.one, self.end):
            button._click_handlers.callbacks.clear()

    @staticmethod
    def _html(part: str) -> Any:
        import ipywidgets as w

        html = w.HTML()
        html.add_class(f"arl-live-{part}")
        return html

    def set_state(self, state: str, clock: str) -> None:
        """Set the buttons to a state of `Live`, and the words beside them."""
        running, over = state == "running", state in ("finished", "stopped", "failed")
        self.toggle.description, self.toggle.icon = ("Pause", "pause") if running else ("Start", "play")
        self.toggle.disabled = self.end.disabled = over
        self.one.disabled = over or running
        self.bar.bar_style = {"finished": "success", "failed": "danger", "stopped": "warning"}.get(state, "")
        self.clock.value = f'<span class="arl-state" data-state="{state}">{escape(clock)}</span>'

    def set_record(self, count: int, picture: str, numbers: Mapping[str, float], record: Any,
                   alarms: Sequence[str]) -> None:
        """Show the newest record: the curve so far, its numbers, its first episode, what is going wrong."""
        self.bar.value = count
        self.picture.value = picture
        words = "".join(f"<span>{escape(text)}</span>" for text in in_words(numbers))
        self.figures.value = (f'<div class="arl-numbers"><span>update <b class="arl-count">{count}</b></span>'
                              f"{words}</div>")
        self.notes.value = "".join(f'<div class="arl-alarm" role="alert">⚠ {escape(a)}</div>' for a in alarms)
        text = sample_text(record)
        self.sample.value = f"<div>a sample episode</div><pre>{escape(text)}</pre>" if text else ""

    def set_error(self, trace: str) -> None:
        """Show a traceback."""
        self.trouble.value = f'<div>⚠ the run failed</div><pre class="arl-error">{escape(trace)}</pre>'


def in_words(numbers: Mapping[str, float], most: int = 10) -> list[str]:
    """The numbers of a record as "name value", at most `most`, the ones people look at first in front."""
    order = [name for name in FIRST if name in numbers]
    order += [name for name in numbers if name not in order and name != "step"]
    return [f"{name.replace('_', ' ')} {short(numbers[name])}" for name in order[:most]]


def short(number: float) -> str:
    """Three digits that matter: 0.123, 12.3, 4,096."""
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"


def sample_text(record: Any) -> str:
    """The text of the record's first episode, cut to a readable length; empty where there is none."""
    episodes = record.get("episodes") if isinstance(record, Mapping) else getattr(record, "episodes", None)
    if not episodes or not isinstance(text := getattr(episodes[0], "text", None), str):
        return ""
    return text if len(text) <= SAMPLE else text[:SAMPLE] + " …"
