"""Going back: the states of a run that are kept, and the branches that grew from them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .branch import Branch

NAMES = "ABCDEF"  # one for each branch; more lines in one picture cannot be told apart
SHARE = 0.01  # keeping states may cost this share of the run's time
CHEAP = 0.001  # seconds; a state that is kept faster than this is not worth sparing


class Steered(Protocol):
    """What a run offers beyond its records to be rewound, forked and changed; each part is optional."""

    def snapshot(self) -> Any:
        """All that the next record depends on; further training leaves it as it is."""

    def restore(self, state: Any) -> None:
        """Back to such a state; the records from there on come again, bit for bit."""

    def changeable(self) -> Mapping[str, float]:
        """The numbers that `change` takes, as they are now."""

    def change(self, **numbers: float) -> None:
        """Other numbers from the next record on."""


class History:
    """The branches of `run`, and as many of its states as the limits allow.

    States are kept at every `stride`-th update; where there are too many, or keeping them takes too long, the
    stride doubles and every second one goes. The first state of all stays. The way to any other update leads
    from the state kept before it, by doing the updates between the two again.

    Args:
        run: an iterator, with the methods of `Steered` or without.
        show: the numbers to read from each record.
        most: states to keep in all branches together.
        memory: bytes that they may take together.
    """

    def __init__(self, run: Any, show: Sequence[str], most: int, memory: float):
        self._run, self._most, self._memory = run, most, memory
        self.now = Branch(NAMES[0], show)
        self.branches = [self.now]
        self.stride, self.size, self.seconds = 1, 0, 0.0
        self.broken = False  # True: an update failed, and the run is somewhere in the middle of it
        self.can_rewind = hasattr(run, "snapshot") and hasattr(run, "restore")
        self.can_change = hasattr(run, "change") and hasattr(run, "changeable")

    @property
    def too_big(self) -> bool:
        """One state alone takes more than all may."""
        return self.size > self._memory

    @property
    def kept(self) -> list[int]:
        """Updates done, for each state of the present branch that can be gone back to."""
        return sorted(self.now.states)

    def settings(self) -> dict[str, float]:
        """What can be changed, as it is now."""
        return dict(self._run.changeable()) if self.can_change else {}

    def keep(self, update: float = 0.0, due: bool = False) -> None:
        """Keep the state as it is now, if it is its turn or `due`. update: seconds that an update takes."""
        count = len(self.now)
        if not self.can_rewind or self.too_big or count in self.now.states or count % self.stride and not due:
            return
        if any(change.at == count for change in self.now.changes):
            return  # a state is from before the changes that are made there
        started = time.perf_counter()
        state = self._run.snapshot()
        self.size = size_of(state)
        cost = time.perf_counter() - started
        self.seconds += cost
        if self.too_big:
            for branch in self.branches:
                branch.states = {}
            return
        self.now.states[count] = state
        if cost > CHEAP and update and cost > SHARE * self.stride * update:
            self.stride *= 2
        while self._too_many():
            self._thin(count)

    def _too_many(self) -> bool:
        held = len({id(state) for branch in self.branches for state in branch.states.values()})
        return held > 1 and (held > self._most or held * self.size > self._memory)

    def _thin(self, newest: int) -> None:
        """Drop the states that are off the stride; where there are none, double it; the newest goes last."""
        places = {at for branch in self.branches for at in branch.states} - {newest}
        if all(at % self.stride == 0 for at in places):
            if self.stride > max(places, default=0):
                self.now.states.pop(newest)
                return
            self.stride *= 2
        for branch in self.branches:
            branch.states = {at: state for at, state in branch.states.items()
                             if at % self.stride == 0 or branch is self.now and at == newest}

    def rewind(self, to: int) -> None:
        """Back to the state after update `to`; what came after it in this branch is forgotten."""
        self._go(to)
        self.now.cut(to)
        self.keep(due=True)

    def fork(self, at: int | None, changes: Mapping[str, float]) -> Branch:
        """A new branch from the state after update `at` (None: as it is now, with what was just changed)."""
        if len(self.branches) == len(NAMES):
            raise ValueError(f"{len(NAMES)} branches are the most; hint: rewind one instead of forking again")
        here, parent, name = self._here(), self.now, NAMES[len(self.branches)]
        try:
            if at is None:
                self.now = parent.fork(name, len(parent))
                self.now.changes = list(parent.changes)
            else:
                self._go(at)
                self.now = parent.fork(name, at)
                self.keep(due=True)
            self.change(changes)
        except Exception:
            self.now = parent
            self._run.restore(here)
            raise
        parent.tip = here
        self.branches.append(self.now)
        return self.now

    def switch(self, name: str) -> None:
        """Go on with another branch where it was left."""
        found = [branch for branch in self.branches if branch.name == name]
        if not found:
            raise KeyError(f"no branch {name!r}; there are {', '.join(b.name for b in self.branches)}")
        if found[0] is self.now:
            return
        self.now.tip = self._here()
        self.now = found[0]
        self._run.restore(self.now.tip)
        self.now.tip = None

    def change(self, numbers: Mapping[str, float]) -> None:
        """Other settings from the next update on."""
        if not numbers:
            return
        if not self.can_change:
            raise TypeError(f"this run is a {type(self._run).__name__} without change() and changeable(): "
                            "its settings cannot be changed while it runs")
        old = self.settings()
        self._run.change(**numbers)
        self.now.note(old, {name: number for name, number in self.settings().items() if name in numbers})

    def _here(self) -> Any:
        if not self.can_rewind:
            raise TypeError(f"this run is a {type(self._run).__name__} without snapshot() and restore(): "
                            "there is no way back; hint: pass train(...) itself, not a generator around it")
        if self.broken:  # an update that failed half-way is done with by going back to its start
            self._go(len(self.now))
        return self._run.snapshot()

    def _go(self, to: int) -> None:
        """Restore the nearest state kept before, and do the updates from there again, with their changes."""
        if not self.can_rewind:
            self._here()
        if self.too_big:
            raise ValueError(f"no state is kept: one takes {self.size / 1e6:,.2f} MB; "
                             "hint: live(…, memory=MB)")
        if not 0 <= to <= len(self.now) or not self.now.states:
            raise ValueError(f"there is no update {to} to go back to; this branch has 0 to {len(self.now)}")
        start = max(at for at in self.now.states if at <= to)
        self._run.restore(self.now.states[start])
        self.broken = False
        for count in range(start, to):
            if changed := {change.name: change.new for change in self.now.changes if change.at == count}:
                self._run.change(**changed)
            next(self._run)


def size_of(state: Any) -> int:
    """Bytes of the arrays and tensors in nested plain data; of anything else nothing is counted."""
    total, todo, seen = 0, [state], set()
    while todo:
        item = todo.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(nbytes := getattr(item, "nbytes", None), int):
            total += nbytes
        elif isinstance(item, Mapping):
            todo.extend(item.values())
        elif isinstance(item, (list, tuple, set)):
            todo.extend(item)
        elif hasattr(item, "__dict__") and not isinstance(item, type) and not callable(item):
            todo.extend(vars(item).values())
    return total
