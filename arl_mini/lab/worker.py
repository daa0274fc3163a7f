"""A thread that does updates as often as it may, and between two of them what it is asked for."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable

OVER = ("finished", "stopped", "failed")


class Worker:
    """Calls `update` again and again until it returns False; pauses, goes on and stops when told to.

    Args:
        name: of the thread. Before its first update a worker stops others of its name, and waits for them:
            both may train the same policy.
        update: one update; False: there are no more.
        tell: called after `state` has changed, on the thread that changed it.
        threaded: False: no thread; `go` returns when the work is done or paused.

    Attributes:
        state: "ready", "running", "paused", "finished", "stopped" or "failed".
        error: what `update` raised, or None.
    """

    def __init__(self, name: str, update: Callable[[], bool], tell: Callable[[], None], threaded: bool):
        self.state, self.error = "ready", None
        self.allowed: float = math.inf  # updates that may still be done before the next pause
        self.stopping = False
        self._name, self._update, self._tell, self._threaded = name, update, tell, threaded
        self._turn = threading.Condition()
        self._asked: deque[Callable[[], None]] = deque()
        self._thread: threading.Thread | None = None

    @property
    def thread(self) -> threading.Thread | None:
        """The thread that works or waits, None where there is none."""
        return self._thread if self._thread is not None and self._thread.is_alive() else None

    def go(self, count: float) -> None:
        """Begin, or go on, for `count` updates."""
        with self._turn:
            self.allowed = count
            self._turn.notify_all()
            if self.state in OVER or self._thread is not None:
                return
            if self._threaded:
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.worker = self
                self._thread.start()
        if not self._threaded:
            self._work()

    def pause(self) -> None:
        """Wait after the update that is under way."""
        with self._turn:
            self.allowed = 0

    def stop(self) -> None:
        """End after the update that is under way."""
        with self._turn:
            self.stopping = True
            self._turn.notify_all()
        if self._thread is None and self.state in ("ready", "paused"):
            self._become("stopped")

    def revive(self) -> None:
        """From an end back to a pause."""
        if self.state in OVER:
            self.error, self.stopping, self.allowed = None, False, 0
            self._become("paused")

    def ask(self, act: Callable[[], None]) -> None:
        """Do `act` between two updates, soon; it must not raise."""
        with self._turn:
            if self._thread is not None:
                self._asked.append(act)
                self._turn.notify_all()
                return
        act()

    def do(self, act: Callable[[], None]) -> None:
        """Do `act` between two updates, wait for it, and raise what it raised."""
        done, raised = threading.Event(), []

        def attempt() -> None:
            try:
                act()
            except Exception as error:
                raised.append(error)
            finally:
                done.set()

        self.ask(attempt)
        done.wait()
        if raised:
            raise raised[0]

    def _become(self, state: str) -> None:
        self.state = state
        self._tell()

    def _work(self) -> None:
        end = "finished"
        try:
            if self._threaded:
                self._stop_others()
            while (act := self._next()) is not None:
                if not act():
                    break
            else:
                end = "stopped" if self.stopping else "paused"
        except BaseException as error:
            self.error, end = error, "failed"
            if not self._threaded:
                self._become(end)
                raise
        self._become(end)
        with self._turn:
            while self._asked:
                self._asked.popleft()()
            self._thread = None

    def _next(self) -> Callable[[], bool] | None:
        """What to do next; None where there is nothing, for now or for good."""
        with self._turn:
            if not self._asked and self.allowed <= 0 and not self.stopping and self._threaded:
                if self.state != "paused":
                    self._become("paused")
                self._turn.wait_for(lambda: self._asked or self.allowed > 0 or self.stopping)
            if self._asked:
                act = self._asked.popleft()
                return lambda: act() or True
            if self.stopping or self.allowed <= 0:
                return None
            self.allowed -= 1
        if self.state != "running":
            self._become("running")
        return self._update

    def _stop_others(self) -> None:
        # The thread list is the registry: no table of runs that could keep a dead one alive.
        others = [thread for thread in threading.enumerate()
                  if thread.name == self._name and getattr(thread, "worker", self) is not self]
        for thread in others:
            thread.worker.stop()
        while not self.stopping and any(thread.is_alive() for thread in others):
            time.sleep(0.01)
