"""Notes with a memory between the stream and the question. Every context is short; what crosses from one to
the next is what the policy has put into its memory."""

import random
from collections.abc import Callable
from dataclasses import replace

from ...envs.base import Env, Reply, act, parse_act
from ...envs.notes import GONE, PLACES, Line, Notes, places, read, told
from .stores import GraphMemory, ManagedStore, VectorStore


class Remembering(Env):
    """The base of the worlds below: `per` lines a context are heard, then memory answers each question.

    Subclasses write `hear` (what one context adds to the memory) and `shows` (what a context shows). price is
    taken from the reward for each unit of `size`, at the end. Malformed or impossible turns change no memory
    and are counted. rule: a hand-written command for each context of the stream; the policy then only
    answers.
    """

    words = Notes.words
    per = 1  # lines a context

    def __init__(self, notes: Notes, price: float = 0.0, rule: Callable[["Remembering"], str] | None = None):
        self.notes, self.price, self.rule = notes, price, rule

    def reset(self, seed: int) -> str:
        self.notes.reset(seed)
        self.at = 0  # lines heard
        self.begin()
        while self.rule is not None and self.listening:
            self.hear(self.rule(self).split())
            self.at += self.per
        return self.shows()

    @property
    def heard(self) -> list[Line]:
        """The lines of this context."""
        return self.notes.stream[self.at : self.at + self.per]

    @property
    def rounds(self) -> int:
        """Contexts before the last one."""
        return self.notes.lines // self.per

    @property
    def listening(self) -> bool:
        return self.at < self.notes.lines

    @property
    def answering(self) -> bool:
        """Whether the context asks for an answer."""
        return not self.listening

    def begin(self) -> None:
        """Empties the memory."""
        raise NotImplementedError

    def shows(self) -> str:
        """The text of the context that begins."""
        raise NotImplementedError

    def hear(self, words: list[str]) -> str:
        """Does what the policy says of the lines heard; the name of what was done."""
        raise NotImplementedError

    def size(self) -> int:
        """How much is kept."""
        raise NotImplementedError

    def step(self, said: str) -> Reply:
        words = parse_act(said)
        if self.listening:
            reply = Reply(info={"did": self.hear(words or []), "line": self.heard[-1]})
            self.at += self.per
        else:
            reply = self.asked(words or [])
        info = {"malformed": words is None, **reply.info}
        if reply.done:
            cost = self.price * self.size()
            return replace(reply, reward=reply.reward - cost, info={**info, "size": self.size()})
        return replace(reply, text=self.shows(), info={**info, "fresh": self.shows()})

    def asked(self, words: list[str]) -> Reply:
        """A turn after the stream has ended."""
        return self.notes.answer(words)

    def recalled(self) -> list[Line]:
        """The lines that the answering context shows."""
        raise NotImplementedError

    def answer(self) -> str:
        """The right answer."""
        return act(f"answer {self.notes.truth(self.notes.now)}")

    def reading(self) -> str:
        """The answer by what the context shows: what a reader can be taught."""
        return act(f"answer {read(self.recalled(), self.notes.now)}")


class SegmentMemory(Remembering):
    """A note of at most `room` words that the policy writes anew in each context (MemAgent, MEM1).

    The question is known from the start. ` where is it ? note hall . ben in cave it in attic` is answered by
    `<act> note attic</act>`; at the end ` note attic where is it ?` by `<act> answer attic</act>`. Nothing
    but the note passes from one context to the next.
    """

    words = Notes.words + " note"

    def __init__(self, notes: Notes, per: int = 4, room: int = 12):
        super().__init__(notes)
        self.per, self.room = per, room

    def begin(self) -> None:
        self.note: list[str] = []

    def shows(self) -> str:
        lines, question = self.notes.ask(self.heard)
        note = "".join(f" {word}" for word in ["note", *self.note])
        return f"{question}{note} .{lines}" if self.listening else f"{note}{question}"

    def hear(self, words: list[str]) -> str:
        if words[:1] != ["note"]:
            return "nothing"
        self.note = words[1 : self.room + 1]
        return "note"

    def size(self) -> int:
        return len(self.note)

    def recalled(self) -> list[Line]:
        return [(self.notes.now[1], "in", word) for word in self.note]

    def expert(self) -> str:
        """Keeps the last place that was told of the subject."""
        if not self.listening:
            return self.answer()
        last = places(self.heard, self.notes.now[1])[-1:]
        return act(" ".join(["note", *(last or self.note[-1:])]))

    def random(self, rng: random.Random) -> str:
        """Keeps its note, or writes a place that was just heard, whoever was there; answers with any
        place."""
        if not self.listening:
            return act(f"answer {rng.choice((GONE, *PLACES))}")
        heard = [place for _, verb, place in self.heard if verb != "saw"]
        return act(
            " ".join(["note", *([rng.choice(heard)] if heard and rng.random() < 0.5 else self.note[-1:])])
        )

    def render_chat(self) -> str:
        return (
            "A long list of lines tells who is where; you are shown a few at a time, with a question and your note. Write a new note with "
            "all you must still know, such as <act> note hall </act>. When no lines are left, answer from your note, such as "
            "<act> answer hall </act>."
        )


class Retrieve(Remembering):
    """Everything is stored by rule, line by line; the policy writes the query and says how many lines it
    wants.

    ` search where is ada ?` is answered by `<act> search ada in 3</act>`, and the context after it shows the
    best lines by BM25, in the order in which they were told, and the question:
    ` it in hall it in attic where is it ?`. price is taken for each line shown. fixed: (template, how many),
    a query by rule with {question} or {name} filled in; whatever the policy says in the searching context is
    then ignored.
    """

    words = Notes.words + " search"
    most = 6  # lines shown
    rounds = 1

    @property
    def answering(self) -> bool:
        return self.found is not None

    def __init__(
        self, notes: Notes, price: float = 0.0, newest: bool = False, fixed: tuple[str, int] | None = None
    ):
        super().__init__(notes, price)
        self.newest, self.fixed = newest, fixed

    def begin(self) -> None:
        self.at, self.store = self.notes.lines, VectorStore(self.newest)
        for line in self.notes.stream:
            self.store.add(" ".join(line))
        self.found: list[int] | None = None
        self.spent = 0

    def shows(self) -> str:
        if self.found is None:
            return f" search{self.notes.question()}"
        return "".join(self.notes.ask(self.recalled()))

    def recalled(self) -> list[Line]:
        return [tuple(self.store.entries[n].split()) for n in sorted(self.found or ())]

    def size(self) -> int:
        return self.spent

    def asked(self, words: list[str]) -> Reply:
        if self.found is not None:
            reply, self.found = self.notes.answer(words), None
            return reply
        query, top = self._query(words)
        self.found = self.store.search(query, min(top, self.most))
        self.spent += len(self.found)
        return Reply(info={"query": query, "top": top})

    def _query(self, words: list[str]) -> tuple[list[str], int]:
        """The words to search for and how many lines; nothing for what is no search."""
        if self.fixed is not None:
            template, top = self.fixed
            return template.format(question=self.notes.question(), name=self.notes.now[1]).split(), top
        if words[:1] != ["search"] or len(words) < 3 or not words[-1].isdecimal():
            return [], 0
        return words[1:-1][:8], int(words[-1][:2])

    def expert(self) -> str:
        """Searches for the subject and ` in`, all lines that may show."""
        if self.found is None:
            return act(f"search {self.notes.now[1]} in {self.most}")
        return self.answer()

    def random(self, rng: random.Random) -> str:
        """Searches for any words of the question, perhaps with ` in`; wants 1 to 6 lines; answers from what
        is shown."""
        if self.found is not None:
            return act(f"answer {rng.choice((GONE, *PLACES))}")
        query = [
            w
            for w in self.notes.question().split()
            if w != "?" and (w == self.notes.now[1] or rng.random() < 0.4)
        ]
        return act(
            " ".join(["search", *query, *["in"] * (rng.random() < 0.3), str(rng.randint(1, self.most))])
        )

    def render_chat(self) -> str:
        return (
            "A long list of lines tells who is where; it is stored. First search it: words and how many lines to show, such as "
            "<act> search ada in 4 </act>. Then answer from what is shown, with a place or gone, such as <act> answer hall </act>."
        )


class Manage(Remembering):
    """The policy decides of each line what the store does with it: Memory-R1's four operations.

    ` heard ada in hall . found 1 ada in cave` shows the line and the `top` stored ones about its subject; the
    policy says `add`, `update 1`, `delete 1` or `noop`. A question is answered from the `top` best lines for
    its subject and ` in`.
    """

    words = Notes.words + " heard found add update delete noop"
    top = 2

    def begin(self) -> None:
        self.store = ManagedStore()

    def found(self, *query: str) -> list[int]:
        """Numbers of the entries shown, best first."""
        return self.store.search(query, self.top)

    def shows(self) -> str:
        if not self.listening:
            return "".join(self.notes.ask(self.recalled()))
        line = self.heard[0]
        shown = "".join(f" {i} {self.store.entries[n]}" for i, n in enumerate(self.found(line[0]), 1))
        return f" heard{told([line])} . found{shown}"

    def recalled(self) -> list[Line]:
        return [tuple(self.store.entries[n].split()) for n in sorted(self.found(self.notes.now[1], "in"))]

    def hear(self, words: list[str]) -> str:
        line = self.heard[0]
        return self.store.operate(words, " ".join(line), self.found(line[0]))

    def size(self) -> int:
        return len(self.store.entries)

    def expert(self) -> str:
        """One entry a subject: its last place; none for who is gone; no chatter."""
        if not self.listening:
            return self.answer()
        name, verb, place = self.heard[0]
        mine = [
            i for i, n in enumerate(self.found(name), 1) if self.store.entries[n].startswith(f"{name} in")
        ]
        if verb == "saw" or (place == GONE and not mine):
            return act("noop")
        if place == GONE:
            return act(f"delete {mine[-1]}")
        return act(f"update {mine[-1]}" if mine else "add")

    def random(self, rng: random.Random) -> str:
        """Mostly adds, now and then one of the other operations; answers with any place."""
        if not self.listening:
            return act(f"answer {rng.choice((GONE, *PLACES))}")
        shown = len(self.found(self.heard[0][0]))
        some = [f"{verb} {rng.randint(1, shown)}" for verb in ("update", "delete")] if shown else []
        return act("add" if rng.random() < 0.55 else rng.choice(["noop", "noop", *some, *some]))

    def render_chat(self) -> str:
        return (
            "Lines tell, one at a time, who is where. Keep a small store up to date: <act> add </act> stores the line, "
            "<act> update 1 </act> puts it in the place of entry 1, <act> delete 1 </act> removes that entry, <act> noop </act> does "
            "nothing. Then answer from the entries shown, such as <act> answer hall </act>."
        )


class Graph(Remembering):
    """The policy decides of each line what becomes of a graph whose edges have a time of validity (Zep).

    ` heard ada in hall . open ada in cave` shows the line and up to two edges of its subject that are still
    true. The policy says `insert` (a new edge; the open ones stay), `close` (the open ones end; then a new
    one, where the line has a place), `link` (an edge without time, as for chatter) or `skip`. A question is
    answered from one query: ` where is` shows the first edge that holds now, ` where was` the edge that ended
    last before it, ` how many` all of them.
    """

    words = Notes.words + " heard open insert close link skip"

    def begin(self) -> None:
        self.graph = GraphMemory()

    def shows(self) -> str:
        if not self.listening:
            return "".join(self.notes.ask(self.recalled()))
        line = self.heard[0]
        shown = [(e.subject, "in", e.object) for e in self.graph.at(line[0], "in", self.at)[-2:]]
        return f" heard{told([line])} . open{told(shown)}"

    def recalled(self) -> list[Line]:
        (kind, name), now = self.notes.now, self.notes.lines
        if kind == "many":
            return [
                (name, "in", e.object) for e in self.graph.edges if (e.subject, e.relation) == (name, "in")
            ][-8:]
        holds, ended = self.graph.at(name, "in", now)[:1], self.graph.before(name, "in", now)
        if kind == "is":
            return [(name, "in", e.object) for e in holds]
        gap = bool(ended) and bool(holds) and ended[0].end < holds[0].start
        past = [(name, "is", GONE)] if gap else [(name, "in", e.object) for e in ended]
        return past + ([(name, "in", e.object) for e in holds] or [(name, "is", GONE)] * bool(ended))

    def hear(self, words: list[str]) -> str:
        name, verb, place = self.heard[0]
        match words:
            case ["insert"]:
                self.graph.insert(name, "in", place, self.at)
            case ["close"]:
                self.graph.close(name, "in", self.at)
                if verb == "in":
                    self.graph.insert(name, "in", place, self.at)
            case ["link"]:
                self.graph.insert(name, "saw", place, self.at)
            case _:
                return "skip"
        return words[0]

    def size(self) -> int:
        return len(self.graph.edges)

    def expert(self) -> str:
        """A hand rule: what changed is closed, what is new inserted, chatter linked."""
        if not self.listening:
            return self.answer()
        name, verb, _ = self.heard[0]
        if verb == "saw":
            return act("link")
        return act("close" if verb == "is" or self.graph.at(name, "in", self.at) else "insert")

    def random(self, rng: random.Random) -> str:
        """Any of the four operations; answers with any place."""
        if not self.listening:
            return act(f"answer {rng.choice((GONE, *PLACES))}")
        return act(rng.choice(("insert", "close", "link", "skip")))

    def render_chat(self) -> str:
        return (
            "Lines tell, one at a time, who is where. Keep a graph up to date: <act> insert </act> adds what the line says, "
            "<act> close </act> ends what was true before and then adds it, <act> link </act> adds a remark, <act> skip </act> does "
            "nothing. Then answer from what the graph shows, such as <act> answer hall </act>."
        )
