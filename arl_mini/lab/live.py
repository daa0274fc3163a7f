"""A training run that a reader can watch, pause, step, change, rewind, fork and stop while it trains."""

from __future__ import annotations

import asyncio
import math
import operator
import threading
import time
import traceback
import uuid
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .alarms import WINDOW, alarms
from .branch import Branch, Change
from .glance import in_words
from .history import History
from .panel import Handlers, Panel
from .records import numbers
from .sketch import Band, Line, band, sketch
from .stage import bundle, has_kernel, is_static
from .worker import OVER, Worker

DRAWING_SHARE = 0.03  # drawing may cost this share of the run's time, never more


class Live:
    """One run on its own thread, with buttons. Made by `live()`; see there.

    Attributes:
        total: how many updates there will be, None if not known.
        drawing: seconds spent on pictures so far.
    """

    def __init__(self, run: Iterable[Any], steps: int | None, title: str, show: Sequence[str], every: float,
                 keep: int, static: bool, behind: Sequence[Band], smooth: int, memory: float):
        self.title, self.static, self._limit = title, static, steps
        # Known length: asked for, or told by the iterator (Python's own protocol for it); 0 is "not known".
        self.total = steps or operator.length_hint(run) or None
        self.drawing = 0.0
        self._run, self._every, self._keep = iter(run), every, keep
        self._behind, self._smooth = behind, smooth
        self._history = History(self._run, tuple(show), most=24, memory=memory * 1e6)
        self._worker = Worker(f"arl live: {title}", self._update, self._told, not static)
        self._times: list[float] = []
        self._drawn, self._cost, self._shown = -math.inf, 0.0, False
        self._paint, self._display_id = threading.RLock(), uuid.uuid4().hex
        self._panel = None if static else self._make_panel()

    def _make_panel(self) -> Panel:
        acts = (self._toggle, self.step, self.stop, self._rewind_pressed, self._fork_pressed,
                self._branch_chosen, self._knob_turned, self._smoothen)
        history = self._history
        panel = Panel(self.title, self.total, history.settings(), history.can_rewind, self._smooth,
                      Handlers(*map(_weakly, acts)))
        # The widgets live as long as the kernel; the run, with the states it keeps, need not.
        weakref.finalize(self, panel.retire).atexit = False
        return panel

    @property
    def records(self) -> list[Any]:
        """The records of the present branch; those older than the newest `keep` have lost their episodes."""
        return self._history.now.records

    @property
    def branches(self) -> dict[str, list[Any]]:
        """Name → records of each branch, ready for `curves`."""
        return {branch.name: branch.records for branch in self._history.branches}

    @property
    def changes(self) -> list[Change]:
        """What was changed in mid-run in the present branch."""
        return list(self._history.now.changes)

    @property
    def kept(self) -> list[int]:
        """How many updates were done at each state that was kept: going back there takes no time."""
        return self._history.kept

    @property
    def state(self) -> str:
        """ "ready", "running", "paused", "finished", "stopped" or "failed"."""
        return self._worker.state

    @property
    def error(self) -> BaseException | None:
        """The exception that ended the run, or None."""
        return self._worker.error

    # What a reader or a cell asks for.

    def start(self) -> None:
        """Begin, or go on after a pause. An earlier run of the same title is stopped first."""
        self._worker.go(math.inf)

    def pause(self) -> None:
        """Pause after the update that is under way."""
        self._worker.pause()
        self._tell()

    def step(self) -> None:
        """One update, then pause."""
        self._worker.go(1)

    def stop(self) -> None:
        """End after the update that is under way. The records stay, and the iterator can go on."""
        self._worker.stop()
        self._tell()

    def rewind(self, to: int) -> None:
        """Back to the state after update `to`, and pause there; the updates after it are forgotten.

        Policy, optimizer and settings are as they were, so that the same records come again unless something
        is changed. Waits for the update under way. Going to one of `kept` takes no time; for any other, the
        updates since the last of those are done again. Also from an end, or after a failure.
        """
        self.pause()
        self._worker.do(lambda: self._go_to(lambda: self._history.rewind(to)))

    def fork(self, at: int | None = None, **changes: float) -> None:
        """A new branch from the state after update `at` (None: now), with other settings.

        It goes on unless the run was paused; forked from an end it goes on too, with static=True at the next
        `done()`. The old branch stays in the picture, and `switch` goes back to it. `records`, and what the
        run trains, are from now on the new branch's.
        """
        before = self.state
        self._worker.do(lambda: self._go_to(lambda: self._history.fork(at, changes)))
        if before in OVER and not self.static:
            self.start()

    def switch(self, name: str) -> None:
        """Pause, and be at the end of another branch, one of `branches`."""
        self.pause()
        self._worker.do(lambda: self._go_to(lambda: self._history.switch(name)))

    def change(self, **settings: float) -> None:
        """Other settings from the next update on, by the names that `run.changeable()` has."""
        self._worker.do(lambda: self._change(settings))

    async def done(self) -> list[Any]:
        """Show the run, wait for its end while buttons go on working, and return the records.

        Raises what the run raised. Interrupting the cell stops the run.
        """
        self._begin(math.inf if self.static or self.state == "paused" else self._worker.allowed)
        thread = self._worker.thread
        try:
            while thread is not None and thread.is_alive():
                await asyncio.sleep(0.05)
        except BaseException:
            self.stop()
            raise
        return self._result()

    def wait(self) -> list[Any]:
        """Like `done()`, for plain code: it blocks, so some front ends answer buttons only afterwards."""
        self._begin(math.inf if self.static or self.state == "paused" else self._worker.allowed)
        thread = self._worker.thread
        try:
            while thread is not None and thread.is_alive():
                thread.join(0.1)
        except BaseException:
            self.stop()
            thread.join()
            raise
        return self._result()

    def svg(self) -> str:
        """The picture of the run so far, as SVG with its latest numbers below."""
        words = self._words()
        caption = [" · ".join(part) for part in (words[:5], words[5:]) if part]
        return self._sketch(title=self.title, caption=caption)

    def _words(self) -> list[str]:
        # Seconds differ from run to run; left out, the same run gives the same picture.
        latest = numbers(self.records[-1]) if self.records else {}
        told = {name: number for name, number in latest.items() if not name.startswith("seconds")}
        return [f"update {len(self.records)}", *in_words(told, most=8)]

    def _ipython_display_(self) -> None:
        from IPython.display import display

        self._shown = True
        if self.static:
            self._begin(self._worker.allowed)
            display(self._bundle(), raw=True)
        else:
            display(self._bundle(), raw=True, display_id=self._display_id)
            self._begin(self._worker.allowed)

    def _bundle(self) -> dict[str, Any]:
        fallback = {"image/svg+xml": self.svg(), "text/plain": " · ".join((self.title, *self._words()))}
        return bundle(self._panel and self._panel.root, fallback)

    def _begin(self, allowed: float) -> None:
        if self._worker.thread is None and (self.state == "ready" or self.state == "paused" and allowed > 0):
            self._worker.go(allowed)
        if not self._shown and has_kernel():
            from IPython.display import display

            display(self)

    def _result(self) -> list[Any]:
        if self.error is not None:
            raise self.error
        return self.records

    # What the controls do: they never wait for the update that is under way.

    def _toggle(self) -> None:
        self.pause() if self.state == "running" else self.start()

    def _rewind_pressed(self, to: int) -> None:
        self.pause()
        self._ask(lambda: self._go_to(lambda: self._history.rewind(to)))

    def _fork_pressed(self, at: int) -> None:
        self.pause()
        here = at == len(self.records)
        self._ask(lambda: self._go_to(lambda: self._history.fork(None if here else at, {})))

    def _branch_chosen(self, name: str) -> None:
        self.pause()
        self._ask(lambda: self._go_to(lambda: self._history.switch(name)))

    def _knob_turned(self, name: str, number: float) -> None:
        self._ask(lambda: self._change({name: number}))

    def _smoothen(self, updates: int) -> None:
        self._smooth = updates
        self._draw()

    def _ask(self, act: Callable[[], None]) -> None:
        def attempt() -> None:
            try:
                act()
            except Exception as error:
                self._panel.set_error(f"not done: {error}", "")
                self._draw()

        self._worker.ask(attempt)

    # The run, on whichever thread works on it.

    def _update(self) -> bool:
        if self._limit is not None and len(self.records) >= self._limit:
            return False
        mean = sum(self._times) / max(1, len(self._times))
        self._history.keep(mean)
        started = time.perf_counter()
        try:
            record = next(self._run)
        except StopIteration:
            return False
        self._times = [*self._times[-9:], time.perf_counter() - started]
        with self._paint:
            self._history.now.take(record, self._keep)
        self._history.keep(mean)
        # Waiting `cost / share` after each picture keeps drawing below its share, however slow it is here.
        if time.perf_counter() - self._drawn >= max(self._every, self._cost / DRAWING_SHARE):
            self._draw()
        return True

    def _go_to(self, act: Callable[[], Any]) -> None:
        with self._paint:
            act()
        self._worker.revive()
        if self._panel is not None:
            self._panel.set_error("", "")
        self._draw()

    def _change(self, settings: Mapping[str, float]) -> None:
        with self._paint:
            self._history.change(settings)
        self._draw()

    # The picture.

    def _told(self) -> None:
        self._history.broken = self.state == "failed"
        if self.state in ("paused", "finished", "stopped"):
            self._history.keep(due=True)
        if self.static:
            return
        self._draw()
        if self.error is not None:
            self._panel.set_error("the run failed", "".join(traceback.format_exception(self.error)))
        if self.state in OVER and self._shown and has_kernel():
            from IPython.display import update_display

            # The saved notebook then keeps the last picture, where a page cannot run widgets.
            update_display(self._bundle(), raw=True, display_id=self._display_id)

    def _draw(self) -> None:
        if self.static:
            return
        started = time.perf_counter()
        with self._paint:
            history, latest = self._history, [numbers(record) for record in self.records[-WINDOW:]]
            self._tell()
            none = f"none: one takes {history.size / 1e6:,.0f} MB" if history.too_big else "none yet"
            titles = {branch.name: branch.title for branch in history.branches}
            self._panel.set_history(history.kept, none, titles, history.now.name)
            if self._panel.knobs:
                self._panel.knobs.show(history.settings())
            self._panel.set_picture(self._sketch())
            self._panel.set_record(len(self.records), latest, self.records[-1] if self.records else None,
                                   alarms(latest))
        self._drawn = time.perf_counter()
        self._cost = self._drawn - started
        self.drawing += self._cost

    def _sketch(self, title: str = "", caption: Sequence[str] = ()) -> str:
        branches = self._history.branches
        return sketch([_line(branch) for branch in branches], now=branches.index(self._history.now),
                      title=title, behind=self._behind, caption=caption, total=self.total,
                      smooth=self._smooth)

    def _tell(self) -> None:
        if self._panel is not None:
            with self._paint:
                self._panel.set_state(self.state, self._clock())

    def _clock(self) -> str:
        count, mean = len(self.records), sum(self._times) / max(1, len(self._times))
        state, worker = self.state, self._worker
        if state == "running" and (worker.stopping or worker.allowed <= 0):
            state = "stopping after this update" if worker.stopping else "pausing after this update"
        words = [state, f"update {count} of {self.total}" if self.total else f"update {count}"]
        if self._times:
            words.append(f"{mean:.2g} s each" if mean >= 0.001 else "under 1 ms each")
        if self.total and self._times and self.state in ("running", "paused"):
            left = mean * max(0, self.total - count)
            words.append(f"{left:.0f} s left" if left < 100 else f"{left / 60:.0f} min left")
        return " · ".join(words)


def _line(branch: Branch) -> Line:
    together: dict[int, list[str]] = {}
    for change in branch.changes:
        if branch.start <= change.at < len(branch):
            together.setdefault(change.at, []).append(str(change))
    marks = [(branch.steps[at], f"update {at + 1}: {', '.join(changes)}") for at, changes in together.items()]
    return Line(branch.name, branch.title, branch.steps, branch.series, marks, branch.start)


def _weakly(method: Callable[..., None]) -> Callable[..., None]:
    """`method`, as long as its object lives; nothing afterwards."""
    weak = weakref.WeakMethod(method)

    def call(*arguments: Any) -> None:
        if (strong := weak()) is not None:
            strong(*arguments)

    return call


def live(run: Iterable[Any], steps: int | None = None, title: str = "training",
         show: Sequence[str] = ("success", "reward"), every: float = 0.3, keep: int = 100,
         static: bool | None = None, *, beside: Mapping[str, Sequence[Sequence[Any]]] | None = None,
         smooth: int = 5, memory: float = 256) -> Live:
    """Watch `run`, an iterator of records, while it trains; it starts when the cell shows it.

    `records = await live(train(...), steps=15).done()` shows the run, waits for it, and buttons work. A run
    that offers what `history.Steered` lists, as `train(...)` does, can also be changed, rewound and forked.

    Args:
        run: yields records: any objects or mappings with numbers such as step, reward, success. A record with
            `episodes` whose items have `.text` also gets some of them shown.
        steps: end after so many updates; None: when the iterator ends (its `__length_hint__` sets the bar).
        title: heading, and the run's name: starting another run of the same title stops the earlier one.
        show: the numbers to draw, a panel each.
        every: seconds between pictures, at least; drawing never costs more than 3 % of the run.
        keep: so many of the newest records keep their episodes; in older ones `episodes` is empty.
        static: no thread and no widget, just the loop and one picture; by default where ARL_STATIC=1 or there
            is no Jupyter kernel.
        beside: label → records of several seeds, whose range and mean lie behind the curve.
        smooth: strong lines are the mean of the last so many updates.
        memory: megabytes that kept states may take; where they are too many, every second one goes.

    Raises ValueError for a bad argument; KeyError, from the run, if a record lacks a number named in `show`.
    """
    if not hasattr(run, "__iter__"):
        raise TypeError(f"run is a {type(run).__name__}, expected an iterator of records such as train(...)")
    if steps is not None and steps < 1:
        raise ValueError(f"steps is {steps}, expected at least 1, or None to go on until the run ends")
    if isinstance(show, str) or not show:
        raise ValueError(f"show is {show!r}, expected names such as ('success', 'reward')")
    for name, number in (("keep", keep), ("smooth", smooth)):
        if number < 1:
            raise ValueError(f"{name} is {number}, expected at least 1")
    behind = [band(label, runs, show) for label, runs in (beside or {}).items()]
    still = is_static() if static is None else static
    return Live(run, steps, title, show, every, keep, still, behind, smooth, memory)
