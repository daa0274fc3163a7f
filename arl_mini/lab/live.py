"""A training run that a reader can watch, pause, step and stop while it trains."""

from __future__ import annotations

import asyncio
import math
import operator
import threading
import time
import traceback
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from .alarms import WINDOW, alarms
from .panel import Panel, in_words
from .records import fields, numbers, value, without_episodes
from .sketch import sketch
from .stage import bundle, has_kernel, is_static

DRAWING_SHARE = 0.05  # drawing may cost this share of the run's time, never more


class Live:
    """One run on its own thread, with buttons. Made by `live()`; see there.

    Attributes:
        total: how many updates there will be, None if not known.
        records: the records so far; those older than the newest `keep` have lost their episodes.
        state: "ready", "running", "paused", "finished", "stopped" or "failed".
        error: the exception that ended the run, or None.
        drawing: seconds spent on pictures so far.
    """

    def __init__(self, run: Iterable[Any], steps: int | None, title: str, show: Sequence[str], every: float,
                 keep: int, static: bool):
        self.title, self.static, self._limit = title, static, steps
        # Known length: asked for, or told by the iterator (Python's own protocol for it); 0 is "not known".
        self.total = steps or operator.length_hint(run) or None
        self.records: list[Any] = []
        self.state, self.error, self.drawing = "ready", None, 0.0
        self._run, self._show, self._every, self._keep = iter(run), tuple(show), every, keep
        self._steps: list[float] = []
        self._series: dict[str, list[float]] = {name: [] for name in self._show}
        self._latest: list[dict[str, float]] = []
        self._times: list[float] = []
        self._drawn, self._cost = -math.inf, 0.0
        self._turn = threading.Condition()
        self._allowed: float = math.inf  # updates that may still run before the next pause
        self._stopping = self._shown = False
        self._thread: threading.Thread | None = None
        self._paint = threading.Lock()
        self._name, self._display_id = f"arl live: {title}", uuid.uuid4().hex
        self._panel = None if static else Panel(title, self.total, toggle=self._toggle, step=self.step,
                                                stop=self.stop)

    # What a reader or a cell asks for.

    def start(self) -> None:
        """Begin, or go on after a pause. An earlier run of the same title is stopped first."""
        self._allow(math.inf)

    def pause(self) -> None:
        """Pause after the update that is under way."""
        with self._turn:
            self._allowed = 0
        self._tell()

    def step(self) -> None:
        """One update, then pause."""
        self._allow(1)

    def stop(self) -> None:
        """End after the update that is under way. The records stay, and the iterator can go on."""
        with self._turn:
            self._stopping = True
            self._turn.notify_all()
        if self._thread is None and self.state == "ready":
            self._become("stopped")
        self._tell()

    async def done(self) -> list[Any]:
        """Show the run, wait for its end while buttons go on working, and return the records.

        Raises what the run raised. Interrupting the cell stops the run.
        """
        self._begin(math.inf if self.static else self._allowed)
        try:
            while self._thread is not None and self._thread.is_alive():
                await asyncio.sleep(0.05)
        except BaseException:
            self.stop()
            raise
        return self._result()

    def wait(self) -> list[Any]:
        """Like `done()`, for plain code: it blocks, so some front ends answer buttons only afterwards."""
        self._begin(math.inf if self.static else self._allowed)
        try:
            while self._thread is not None and self._thread.is_alive():
                self._thread.join(0.1)
        except BaseException:
            self.stop()
            self._thread.join()
            raise
        return self._result()

    def svg(self) -> str:
        """The picture of the run so far, as SVG with its latest numbers below."""
        words = self._words()
        caption = [" · ".join(part) for part in (words[:5], words[5:]) if part]
        return sketch(self._steps, self._series, title=self.title, caption=caption, total=self.total)

    def _words(self) -> list[str]:
        # Seconds differ from run to run; left out, the same run gives the same picture.
        latest = self._latest[-1] if self._latest else {}
        told = {name: number for name, number in latest.items() if not name.startswith("seconds")}
        return [f"update {len(self.records)}", *in_words(told, most=8)]

    def _ipython_display_(self) -> None:
        from IPython.display import display

        self._shown = True
        if self.static:
            self._begin(self._allowed)
            display(self._bundle(), raw=True)
        else:
            display(self._bundle(), raw=True, display_id=self._display_id)
            self._begin(self._allowed)

    # The thread and its control.

    def _bundle(self) -> dict[str, Any]:
        fallback = {"image/svg+xml": self.svg(), "text/plain": " · ".join((self.title, *self._words()))}
        return bundle(self._panel and self._panel.root, fallback)

    def _begin(self, allowed: float) -> None:
        if self._thread is None and (self.state == "ready" or self.static and self.state == "paused"):
            self._allow(allowed)
        if not self._shown and has_kernel():
            from IPython.display import display

            display(self)

    def _result(self) -> list[Any]:
        if self.error is not None:
            raise self.error
        return self.records

    def _toggle(self) -> None:
        self.pause() if self.state == "running" else self.start()

    def _allow(self, count: float) -> None:
        with self._turn:
            self._allowed = count
            self._turn.notify_all()
            if not self.static and self._thread is None and self.state == "ready":
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.live = self
                self._thread.start()
        if self.static and self.state in ("ready", "paused"):
            self._work()

    def _stop_earlier(self) -> None:
        # The thread list is the registry: no table of runs that could keep a dead one alive.
        earlier = [thread for thread in threading.enumerate()
                   if thread.name == self._name and getattr(thread, "live", self) is not self]
        for thread in earlier:
            thread.live.stop()
        # Both runs may train the same policy, so the new one waits for the old one's last update.
        while not self._stopping and any(thread.is_alive() for thread in earlier):
            time.sleep(0.01)

    def _work(self) -> None:
        try:
            if not self.static:
                self._stop_earlier()
            while self._limit is None or len(self.records) < self._limit:
                if not self._may_go_on():
                    self._become("stopped" if self._stopping else "paused")
                    return
                started = time.perf_counter()
                try:
                    record = next(self._run)
                except StopIteration:
                    break
                self._take(record, time.perf_counter() - started)
            self._become("finished")
        except BaseException as error:
            self.error = error
            self._become("failed")
            if self.static:
                raise

    def _may_go_on(self) -> bool:
        with self._turn:
            if self._allowed <= 0 and not self._stopping and not self.static:
                self._become("paused")
                self._turn.wait_for(lambda: self._allowed > 0 or self._stopping)
            if self._stopping or self._allowed <= 0:
                return False
            self._allowed -= 1
        if self.state != "running":
            self._become("running")
        return True

    def _take(self, record: Any, seconds: float) -> None:
        # All is read before anything is kept: a record that cannot be read leaves the picture whole.
        read = {name: value(record, name) for name in self._series}
        step = value(record, "step") if "step" in fields(record) else len(self._steps) + 1.0
        self._latest = [*self._latest[1 - WINDOW:], numbers(record)]
        self.records.append(record)
        if len(self.records) > self._keep:
            self.records[-self._keep - 1] = without_episodes(self.records[-self._keep - 1])
        self._steps.append(step)
        for name, values in self._series.items():
            values.append(read[name])
        self._times = [*self._times[-9:], seconds]
        if self.static:
            return
        # Waiting `cost / share` after each picture keeps drawing below its share, however slow it is here.
        if time.perf_counter() - self._drawn >= max(self._every, self._cost / DRAWING_SHARE):
            self._draw()

    # The picture.

    def _become(self, state: str) -> None:
        self.state = state
        if self.static:
            return
        self._draw()
        if state not in ("finished", "stopped", "failed"):
            return
        if self.error is not None:
            self._panel.set_error("".join(traceback.format_exception(self.error)))
        self._panel.release()
        if self._shown and has_kernel():
            from IPython.display import update_display

            # The saved notebook then keeps the last picture, where a page cannot run widgets.
            update_display(self._bundle(), raw=True, display_id=self._display_id)

    def _draw(self) -> None:
        started = time.perf_counter()
        with self._paint:
            self._panel.set_state(self.state, self._clock())
            if self.records:
                picture = sketch(self._steps, self._series, total=self.total)
                self._panel.set_record(len(self.records), picture, self._latest[-1], self.records[-1],
                                       alarms(self._latest))
        self._drawn = time.perf_counter()
        self._cost = self._drawn - started
        self.drawing += self._cost

    def _tell(self) -> None:
        if self._panel is not None:
            with self._paint:
                self._panel.set_state(self.state, self._clock())

    def _clock(self) -> str:
        count, mean = len(self.records), sum(self._times) / max(1, len(self._times))
        state = self.state
        if state == "running" and (self._stopping or self._allowed <= 0):
            state = "stopping after this update" if self._stopping else "pausing after this update"
        words = [state, f"update {count} of {self.total}" if self.total else f"update {count}"]
        if self._times:
            words.append(f"{mean:.2g} s each" if mean >= 0.001 else "under 1 ms each")
        if self.total and self._times and self.state in ("running", "paused"):
            words.append(f"{mean * max(0, self.total - count):.0f} s left")
        return " · ".join(words)


def live(run: Iterable[Any], steps: int | None = None, title: str = "training",
         show: Sequence[str] = ("success", "reward"), every: float = 0.3, keep: int = 100,
         static: bool | None = None) -> Live:
    """Watch `run`, an iterator of records, while it trains; it starts when the cell shows it.

    `records = await live(train(...), steps=15).done()` shows the run, waits for it, and buttons work.

    Args:
        run: yields records: any objects or mappings with numbers such as step, reward, success. A record with
            `episodes` whose items have `.text` also gets a sample shown.
        steps: end after so many updates; None: when the iterator ends (its `__length_hint__` sets the bar).
        title: heading, and the run's name: starting another run of the same title stops the earlier one.
        show: the numbers to draw, a panel each.
        every: seconds between pictures, at least; drawing never costs more than 5 % of the run.
        keep: so many of the newest records keep their episodes; in older ones `episodes` is empty.
        static: no thread and no widget, just the loop and one picture; by default where ARL_STATIC=1 or there
            is no Jupyter kernel.

    Raises ValueError for a bad argument; KeyError, from the run, if a record lacks a number named in `show`.
    """
    if not hasattr(run, "__iter__"):
        raise TypeError(f"run is a {type(run).__name__}, expected an iterator of records such as train(...)")
    if steps is not None and steps < 1:
        raise ValueError(f"steps is {steps}, expected at least 1, or None to go on until the run ends")
    if isinstance(show, str) or not show:
        raise ValueError(f"show is {show!r}, expected names such as ('success', 'reward')")
    if keep < 1:
        raise ValueError(f"keep is {keep}, expected at least 1")
    return Live(run, steps, title, show, every, keep, is_static() if static is None else static)
