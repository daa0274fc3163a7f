"""Wiki: a question about invented people and places; search a real full-text index, open passages, answer."""

import functools
import random
import sqlite3
from dataclasses import replace

from .base import Env, Reply, act, malformed, parse_act, within

PEOPLE = tuple(
    "ada ben cleo dan eva finn gus hana ivo jana karl lena milo nora otto pia quin rosa sven tess uma vera will xena yara zoe".split()
)
PLACES = tuple("arbor brook crest delta elm ford glen haven isle knoll marsh notch oaks pond ridge vale".split())
REGIONS = tuple("coast desert forest hills lakes plains".split())
JOBS = tuple("baker clerk doctor farmer guard miner pilot tailor".split())
# Relation → what it is a relation of, and to.
RELATIONS = {
    "birthplace": ("person", "place"), "friend": ("person", "person"), "job": ("person", "job"),
    "region": ("place", "region"), "ruler": ("place", "person"),
}  # fmt: skip
UNKNOWN = "unknown"
Store = dict[str, dict[str, str]]  # title → relation → value


class Wiki(Env):
    """A question of one to three hops over a store of short passages that is drawn anew for each task.

    The task: ` what is region of birthplace of ada ?`. Commands: `search WORDS` answers with the titles of the `top` best
    passages by BM25, ` ada brook`; `open TITLE` shows a passage that a search has found, ` ada birthplace brook friend ben
    job baker`; `answer WORD` ends the task, with reward 1 for the right word. A share `unanswerable` of the questions is
    about someone who is not in the store: the right answer is `unknown`. `price` is taken from the reward for each search.
    The store has `people` people and as many places as can be ruled, at most 16.

    A sample: `<user> what is job of ada ?<bot><act> search ada</act><obs> ada ben</obs><act> open ada</act><obs> ada
    birthplace brook friend ben job baker</obs><act> answer baker</act>` and the reward is 1.
    """

    words = (
        f" what is of ? search open answer nothing {UNKNOWN} no error say act "
        + " ".join((*RELATIONS, *PEOPLE, *PLACES, *REGIONS, *JOBS))
    )  # fmt: skip

    def __init__(
        self, hops: tuple[int, int] = (1, 2), people: int = 12, unanswerable: float = 0.0,
        price: float = 0.0, top: int = 2, limit: int = 10,
    ):  # fmt: skip
        if not 1 <= hops[0] <= hops[1] <= 3:
            raise ValueError(f"hops must be a range within 1 to 3, got {hops}")
        if not 2 <= people < len(PEOPLE):
            raise ValueError(f"people must be 2 to {len(PEOPLE) - 1}, got {people}")
        if not 0 <= unanswerable <= 1:
            raise ValueError(f"unanswerable is a share in [0, 1], got {unanswerable}")
        if top < 1 or limit < 2 * hops[1] + 1:
            raise ValueError(f"expected top ≥ 1 and limit ≥ {2 * hops[1] + 1}, got {top} and {limit}")
        self.hops, self.people, self.unanswerable, self.price = hops, people, unanswerable, price
        self.top, self.limit = top, limit

    def reset(self, seed: int) -> str:
        self.seed, rng = seed, random.Random(f"wiki question {seed}")
        self.store = draw(seed, self.people)
        self.path = self._draw_path(rng, rng.randint(*self.hops))
        kind = RELATIONS[self.path[0]][0]
        titles = sorted(t for t in self.store if (t in PEOPLE) == (kind == "person"))
        self.answerable = rng.random() >= self.unanswerable
        strangers = [name for name in (PEOPLE if kind == "person" else PLACES) if name not in self.store]
        self.entity = rng.choice(titles if self.answerable or not strangers else strangers)
        self.answerable = self.entity in self.store
        self.found, self.opened, self.searches, self.turns = [], [], 0, 0
        return f" what is {' of '.join((*reversed(self.path), self.entity))} ?"

    @staticmethod
    def _draw_path(rng: random.Random, hops: int) -> tuple[str, ...]:
        """Relations that can follow each other, from the entity to the answer."""
        path = [rng.choice([r for r, (_, to) in RELATIONS.items() if hops == 1 or to in ("person", "place")])]
        while len(path) < hops:
            last, more = len(path) == hops - 1, RELATIONS[path[-1]][1]
            fits = [r for r, (of, to) in RELATIONS.items() if of == more and (last or to in ("person", "place"))]
            path.append(rng.choice(fits))
        return tuple(path)

    def chain(self) -> list[str]:
        """The entity, what is passed on the way, and the answer."""
        chain = [self.entity]
        for relation in self.path:
            chain.append(self.store[chain[-1]][relation] if self.answerable else UNKNOWN)
            if not self.answerable:
                break
        return chain

    def step(self, said: str) -> Reply:
        self.turns += 1
        reply = within(self._act(parse_act(said)), self.turns, self.limit)
        return replace(reply, reward=-self.price * self.searches) if reply.truncated else reply

    def _act(self, words: list[str] | None) -> Reply:
        match words:
            case None:
                return malformed("say act", **self._info())
            case ["search", *query] if query:
                self.searches += 1
                self.found = search(self.seed, self.people, tuple(query[:12]), self.top)
                return Reply("".join(f" {t}" for t in self.found) or " nothing", info=self._info())
            case ["open", title] if title in self.found:
                self.opened.append(title)
                return Reply(f" {passage(title, self.store[title])}", info=self._info())
            case ["answer", word]:
                right = word == self.chain()[-1]
                return Reply(reward=right - self.price * self.searches, done=True, info=self._info(success=right))
            case _:
                return Reply(" no", info=self._info(illegal=True))

    def _info(self, **more) -> dict:
        counts = {"searches": self.searches, "opened": len(self.opened), "hops": len(self.path)}
        return {**counts, "answerable": self.answerable, **more}

    def expert(self) -> str:
        """Searches, opens and follows each link; answers when it has read the last passage."""
        for title in self.chain()[:-1]:
            if title in self.opened:
                continue
            if title in self.found:
                return act(f"open {title}")
            if self.answerable or not self.searches:
                return act(f"search {title}")
        return act(f"answer {self.chain()[-1]}")

    def random(self, rng: random.Random) -> str:
        """Searches for, opens or answers with a random word that fits."""
        verb = rng.choice(("search", "open", "answer") if self.found else ("search", "answer"))
        words = {"search": (self.entity,), "open": self.found, "answer": (*PLACES, *REGIONS, *JOBS, *PEOPLE)}
        return act(f"{verb} {rng.choice(words[verb])}")

    def render_chat(self) -> str:
        return (
            "Answer a question about people and places in a small encyclopedia. Commands: search WORDS lists titles, "
            "open TITLE shows a passage you found, answer WORD ends the task (answer unknown if it is not there). Write "
            "one command at a time between tags, such as <act> search ada </act>. Results come between <obs> and </obs>."
        )


def passage(title: str, facts: dict[str, str]) -> str:
    """The text of a passage."""
    return " ".join((title, *(word for fact in facts.items() for word in fact)))


@functools.lru_cache(maxsize=512)
def draw(seed: int, people: int) -> Store:
    """The passages of a task."""
    rng = random.Random(f"wiki store {seed}")
    names, places = rng.sample(PEOPLE, people), rng.sample(PLACES, min(people, len(PLACES)))
    store = {
        name: {"birthplace": rng.choice(places), "friend": rng.choice([n for n in names if n != name]), "job": rng.choice(JOBS)}
        for name in names
    }  # fmt: skip
    return store | {place: {"region": rng.choice(REGIONS), "ruler": rng.choice(names)} for place in places}


@functools.lru_cache(maxsize=512)
def index(seed: int, people: int) -> sqlite3.Connection:
    """A full-text index of a task's passages: columns title and body."""
    base = sqlite3.connect(":memory:", check_same_thread=False)  # only read from here on
    base.execute("CREATE VIRTUAL TABLE passages USING fts5(title, body)")
    base.executemany("INSERT INTO passages VALUES (?, ?)", [(t, passage(t, f)) for t, f in draw(seed, people).items()])
    return base


def search(seed: int, people: int, query: tuple[str, ...], top: int) -> list[str]:
    """Titles of the best passages for any of the words, best first, a title's match weighing ten times a body's."""
    words = [word.replace('"', "").replace("\0", "") for word in query]
    asked = " OR ".join(f'"{word}"' for word in words if word)
    if not asked:
        return []
    rows = index(seed, people).execute(
        "SELECT title FROM passages WHERE passages MATCH ? ORDER BY bm25(passages, 10.0, 1.0), title LIMIT ?", (asked, top)
    )
    return [title for (title,) in rows]
