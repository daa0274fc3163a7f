"""One line of a run that can be gone back to: its records, what is drawn of them, what was changed when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .records import fields, value, without_episodes


@dataclass(frozen=True)
class Change:
    """A setting that was changed in mid-run; update `at` + 1 is the first that has the new value."""

    at: int
    name: str
    old: float
    new: float

    def __str__(self) -> str:
        return f"{self.name.replace('_', ' ')} {self.old:.4g} → {self.new:.4g}"


@dataclass
class Branch:
    """Records of one line of a run, from its first update, and the states of the run along it.

    start: so many of its updates are those of the branch it was forked from. series: name → the number of
    each record. states: updates done → the state of the run then. tip: its state where it was left.
    """

    name: str
    show: Sequence[str]
    start: int = 0
    records: list[Any] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    series: dict[str, list[float]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    states: dict[int, Any] = field(default_factory=dict)
    tip: Any = None

    def __post_init__(self):
        self.series = self.series or {name: [] for name in self.show}

    def __len__(self) -> int:
        return len(self.records)

    @property
    def title(self) -> str:
        """Name, and where it came from."""
        return f"{self.name} · forked at {self.start}" if self.name != "A" else self.name

    def take(self, record: Any, keep: int) -> None:
        """One more record; those older than the newest `keep` lose their episodes."""
        # All is read before anything is kept: a record that cannot be read leaves the picture whole.
        read = {name: value(record, name) for name in self.show}
        step = value(record, "step") if "step" in fields(record) else len(self.steps) + 1.0
        self.records.append(record)
        if len(self) > keep:
            self.records[-keep - 1] = without_episodes(self.records[-keep - 1])
        self.steps.append(step)
        for name, number in read.items():
            self.series[name].append(number)

    def note(self, old: Mapping[str, float], new: Mapping[str, float]) -> None:
        """What was changed since the last record; a change that was taken back leaves no trace."""
        for name in new:
            before = [c for c in self.changes if (c.at, c.name) == (len(self), name)]
            first = before[0].old if before else old[name]
            self.changes = [c for c in self.changes if c not in before]
            if new[name] != first:
                self.changes.append(Change(len(self), name, first, new[name]))

    def cut(self, count: int) -> None:
        """Forget all that came after the first `count` updates; lists that others hold stay as they are."""
        self.start = min(self.start, count)
        self.records, self.steps = self.records[:count], self.steps[:count]
        self.series = {name: numbers[:count] for name, numbers in self.series.items()}
        self.changes = [change for change in self.changes if change.at < count]
        self.states = {at: state for at, state in self.states.items() if at <= count}

    def fork(self, name: str, count: int) -> Branch:
        """A new branch that shares the first `count` updates, and the states up to there."""
        twin = Branch(name, self.show, count, self.records, self.steps, self.series, self.changes,
                      self.states)
        twin.cut(count)
        return twin
