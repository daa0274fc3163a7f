"""The widgets of a live run: buttons, progress, sliders, curves, numbers, some episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from .glance import figures, shares, strip
from .keys import own_keys
from .knobs import Knobs
from .worker import OVER

CSS = """<style>
.arl-live { max-width: 700px; color: var(--jp-ui-font-color1, inherit); }
.arl-live .widget-html-content { line-height: 1.35; }
.arl-live pre { white-space: pre-wrap; overflow: auto; margin: 2px 0; font-size: 12px; color: inherit;
  background: transparent; }
.arl-live .arl-numbers span { display: inline-block; margin-right: 1.1em; white-space: nowrap; }
.arl-live .arl-alarm { border-left: 3px solid #D55E00; padding-left: 8px; }
.arl-live .arl-error { max-height: 20em; border-left: 3px solid #D55E00; padding: 4px 8px; }
.arl-live .arl-bar { display: flex; gap: 8px; align-items: center; }
.arl-live .arl-bar > :first-child { width: 9.5em; }
.arl-live .arl-track { display: flex; flex: 0 0 160px; height: 9px; outline: 1px solid #797979; }
.arl-live .arl-track i { display: block; height: 100%; }
.arl-live .arl-strip { display: flex; gap: 8px; overflow-x: auto; padding-bottom: 4px; }
.arl-live .arl-card { flex: 0 0 200px; border-left: 3px solid #797979; padding-left: 8px; }
.arl-live .arl-card pre { max-height: 7.5em; }
</style>"""


@dataclass(frozen=True)
class Handlers:
    """What the controls of a panel do."""

    toggle: Callable[[], None]
    step: Callable[[], None]
    stop: Callable[[], None]
    rewind: Callable[[int], None]  # (updates done)
    fork: Callable[[int], None]
    switch: Callable[[str], None]  # (name of a branch)
    change: Callable[[str, float], None]  # (name of a setting, its new value)
    smooth: Callable[[int], None]  # (updates)


class Panel:
    """What a reader sees of a run. It knows nothing of threads: it is told what to show.

    Args:
        title: heading, plain text.
        total: number of updates, None if not known (then there is no bar).
        settings: what can be changed, as it is now; none: no sliders.
        rewinds: whether there is a way back.
        smooth: updates that a strong line is the mean of, to begin with.
    """

    def __init__(self, title: str, total: int | None, settings: Mapping[str, float], rewinds: bool,
                 smooth: int, handlers: Handlers):
        import ipywidgets as w

        self._quiet = self._running = False
        self.toggle = self._button("Pause", "pause", "Pause after this update, or go on", handlers.toggle)
        self.one = self._button("Step", "step-forward", "One update, then pause", handlers.step)
        self.end = self._button("Stop", "stop", "End the run and keep its records", handlers.stop)
        self.bar = w.IntProgress(0, 0, total or 1)
        self.bar.layout = w.Layout(width="160px", display=None if total else "none")
        self.clock = self._html("clock")
        self.smooth = w.IntSlider(smooth, 1, max(50, smooth), description="smooth over (updates)",
                                  continuous_update=False, layout=w.Layout(width="340px"),
                                  style={"description_width": "150px"})
        self.smooth.add_class("arl-smooth")
        self.smooth.observe(lambda change: handlers.smooth(change.new), "value")
        self.knobs = Knobs(settings, handlers.change) if settings else None
        self.picture, self.figures, self.shares, self.notes, self.trouble, self.sample = map(
            self._html, ("picture", "numbers", "shares", "alarms", "error", "sample"))
        self.way = self._way_back(handlers)
        self.way.layout.display = None if rewinds else "none"
        rows = [w.HTML(f"{CSS}<b>{escape(title)}</b>"),
                self._row(self.toggle, self.one, self.end, self.bar, self.clock), self.way]
        rows += [self.knobs.root] if self.knobs else []
        rows += [self.picture, self.smooth, self.figures, self.shares]
        self.root = w.VBox([*rows, self.notes, self.trouble, self.sample, own_keys("arl-live")])
        self.root.add_class("arl-live")

    def _way_back(self, handlers: Handlers) -> Any:
        import ipywidgets as w

        self.state = w.Dropdown(options=[("none yet", -1)], description="state after",
                                layout=w.Layout(width="230px"), style={"description_width": "72px"})
        self.state.add_class("arl-kept")
        self.rewind = self._button("Rewind", "backward", "Back to this state; what came after it goes",
                                   lambda: handlers.rewind(self.state.value))
        self.fork = self._button("Fork", "code-fork", "A new branch from this state; the old one stays",
                                 lambda: handlers.fork(self.state.value))
        self.branch = w.Dropdown(options=["A"], layout=w.Layout(width="190px", display="none"))
        self.branch.add_class("arl-branches")
        self.branch.observe(lambda change: self._quiet or handlers.switch(change.new), "value")
        return self._row(self.state, self.rewind, self.fork, self.branch)

    @staticmethod
    def _row(*parts: Any) -> Any:
        import ipywidgets as w

        return w.HBox(list(parts), layout=w.Layout(flex_flow="row wrap"))

    @staticmethod
    def _button(text: str, icon: str, tooltip: str, act: Callable[[], None]) -> Any:
        import ipywidgets as w

        button = w.Button(description=text, icon=icon, tooltip=tooltip, layout=w.Layout(width="92px"))
        button.add_class(f"arl-{text.lower()}")
        button.on_click(lambda _: act())
        return button

    @staticmethod
    def _html(part: str) -> Any:
        import ipywidgets as w

        html = w.HTML()
        html.add_class(f"arl-live-{part}")
        return html

    def retire(self) -> None:
        """Switch the controls off: the run they belong to is gone."""
        controls = [self.toggle, self.one, self.end, self.state, self.rewind, self.fork, self.branch]
        for control in (*controls, self.smooth, *(self.knobs.sliders.values() if self.knobs else ())):
            control.disabled = True

    def set_state(self, state: str, clock: str) -> None:
        """Set the buttons to a state of `Live`, and the words beside them."""
        running, over = state == "running", state in OVER
        self._running = running
        self.toggle.description, self.toggle.icon = ("Pause", "pause") if running else ("Start", "play")
        self.toggle.disabled = self.end.disabled = over
        self.one.disabled = over or running
        self.bar.bar_style = {"finished": "success", "failed": "danger", "stopped": "warning"}.get(state, "")
        self.clock.value = f'<span class="arl-state" data-state="{state}">{escape(clock)}</span>'

    def set_history(self, kept: Sequence[int], why_none: str, branches: Mapping[str, str], now: str) -> None:
        """Show the updates that can be gone back to, and the branches (name → title), `now` chosen.

        Where the reader has chosen a state it stays chosen; else the newest is.
        """
        options = [(f"update {at}" if at else "the start", at) for at in kept] or [(why_none, -1)]
        # A list that changes under the reader's hand cannot be used: while the run runs it stays as it is.
        if options != list(self.state.options) and not (self._running and self.state.value in kept):
            newest, chosen = self.state.options[-1][1], self.state.value
            stays = chosen in kept and chosen != newest
            with self.state.hold_sync():
                self.state.options = options
                self.state.value = chosen if stays else options[-1][1]
        self.rewind.disabled = self.fork.disabled = not kept
        self._quiet = True
        try:
            titles = [(title, name) for name, title in branches.items()]
            if titles != list(self.branch.options):
                with self.branch.hold_sync():
                    self.branch.options, self.branch.value = titles, now
            self.branch.value = now
            self.branch.layout.display = None if len(branches) > 1 else "none"
        finally:
            self._quiet = False

    def set_picture(self, picture: str) -> None:
        """Show the curves, as SVG."""
        self.picture.value = picture

    def set_record(self, count: int, latest: Sequence[Mapping[str, float]], record: Any,
                   alarms: Sequence[str]) -> None:
        """Show the newest record: its numbers, some of its episodes, what is going wrong.

        latest: the numbers of the newest records, oldest first.
        """
        self.bar.value = count
        self.figures.value = figures(count, latest[-1] if latest else {})
        self.shares.value = shares(latest)
        alarm = '<div class="arl-alarm" role="alert">⚠ {}</div>'
        self.notes.value = "".join(alarm.format(escape(text)) for text in alarms)
        self.sample.value = strip(record)

    def set_error(self, head: str, trace: str) -> None:
        """Show what went wrong, a traceback for instance; two empty texts take it away."""
        body = f'<pre class="arl-error">{escape(trace)}</pre>' if trace else ""
        self.trouble.value = f'<div role="alert">⚠ {escape(head)}</div>{body}' if head else ""
