"""What can be kept outside a context: a store searched by BM25, one whose entries are managed, a graph with
time."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache


class VectorStore:
    """Short texts under numbers, found again by their words: BM25 of SQLite's full-text index.

    Among equal scores the older entry comes first, as in a database that is not told otherwise; newest: the
    newer. Entries that score less than a tenth of the best one are not shown: they share only a word that is
    everywhere.
    """

    def __init__(self, newest: bool = False):
        self.newest, self._next = newest, 1
        self.entries: dict[int, str] = {}

    def add(self, text: str) -> int:
        """The number of the new entry."""
        self.entries[self._next] = text
        self._next += 1
        return self._next - 1

    def search(self, words: Sequence[str], top: int) -> list[int]:
        """Numbers of the `top` entries that fit any of the words best, best first."""
        return list(_ranked(tuple(self.entries.items()), tuple(words), self.newest)[: max(0, top)])


@lru_cache(maxsize=4096)
def _ranked(entries: tuple[tuple[int, str], ...], words: tuple[str, ...], newest: bool) -> tuple[int, ...]:
    """Numbers of the entries that hold any of the words, best first. Cached: many tries of a task store the
    same."""
    asked = " OR ".join(f'"{w}"' for w in (word.replace('"', "").replace("\0", "") for word in words) if w)
    if not asked or not entries:
        return ()
    base = sqlite3.connect(":memory:")
    base.execute("CREATE VIRTUAL TABLE memory USING fts5(body)")
    base.executemany("INSERT INTO memory(rowid, body) VALUES (?, ?)", entries)
    order = f"round(bm25(memory), 9), rowid {'DESC' if newest else 'ASC'}"
    query = f"SELECT rowid, -bm25(memory) FROM memory WHERE memory MATCH ? ORDER BY {order}"
    rows = base.execute(query, (asked,)).fetchall()
    base.close()
    return tuple(number for number, score in rows if score >= rows[0][1] / 10)


class ManagedStore(VectorStore):
    """A store under the four operations of Memory-R1 (arXiv 2508.19828); an operation on nothing changes
    nothing."""

    def update(self, number: int, text: str) -> bool:
        """Puts a text in the place of an entry; whether there was one."""
        if number not in self.entries:
            return False
        self.entries[number] = text
        return True

    def delete(self, number: int) -> bool:
        """Forgets an entry; whether there was one. Its number is not given again."""
        return self.entries.pop(number, None) is not None

    def operate(self, words: list[str], text: str, shown: list[int]) -> str:
        """`add`, `update N`, `delete N` or `noop`, N counting the entries `shown` from 1; the name of what
        was done."""
        match words:
            case ["add"]:
                self.add(text)
                return "add"
            case [("update" | "delete") as verb, number] if number.isdecimal() and 0 < int(number) <= len(
                shown
            ):
                entry = shown[int(number) - 1]
                done = self.update(entry, text) if verb == "update" else self.delete(entry)
                return verb if done else "noop"
        return "noop"


@dataclass(frozen=True)
class Edge:
    """subject –relation→ object, true from `start` up to and without `end` (None: still true)."""

    subject: str
    relation: str
    object: str
    start: int
    end: int | None = None

    def holds(self, time: int) -> bool:
        """Whether it was true at a time."""
        return self.start <= time and (self.end is None or time < self.end)


@dataclass
class GraphMemory:
    """Triples with the time for which they hold, as in Zep (arXiv 2501.13956): what changed is closed, not
    lost."""

    edges: list[Edge] = field(default_factory=list)

    def insert(self, subject: str, relation: str, object: str, time: int) -> None:
        """A new edge, true from now on; edges that are open stay open."""
        self.edges.append(Edge(subject, relation, object, time))

    def close(self, subject: str, relation: str, time: int) -> int:
        """Ends what is open between a subject and anything; how many edges that were. Same start and end:
        never true."""
        mine = [
            i for i, e in enumerate(self.edges) if (e.subject, e.relation, e.end) == (subject, relation, None)
        ]
        for i in mine:
            self.edges[i] = replace(self.edges[i], end=time)
        return len(mine)

    def at(self, subject: str, relation: str, time: int) -> list[Edge]:
        """Edges that hold at a time, older first."""
        return [e for e in self.edges if (e.subject, e.relation) == (subject, relation) and e.holds(time)]

    def before(self, subject: str, relation: str, time: int) -> list[Edge]:
        """The edge that ended last, at a time or earlier: what was true before. Empty where nothing ended."""
        ended = [
            e for e in self.edges
            if (e.subject, e.relation) == (subject, relation) and e.end is not None and e.end <= time
        ]  # fmt: skip
        return [max(ended, key=lambda e: (e.end, e.start))] if ended else []
