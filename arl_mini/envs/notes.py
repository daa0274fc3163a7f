"""Notes: a stream of short lines about who is where, longer than the context, and questions at its end."""

import random
from collections.abc import Sequence
from dataclasses import replace

from .base import Env, Reply, act, parse_act

PEOPLE = tuple("ada ben cleo dan eva finn".split())
THINGS = tuple("coin key lamp map".split())
PLACES = tuple("attic cave cellar garden hall kitchen library tower".split())
GONE = "gone"
QUESTIONS = {"is": " where is {} ?", "was": " where was {} ?", "many": " how many places {} ?"}
Line = tuple[str, str, str]  # `ada in hall`, `ada is gone`, or chatter: `ada saw ben`
Asked = tuple[str, str]  # kind of question and subject


def told(lines: Sequence[Line], about: str = "") -> str:
    """Lines as text; ` it` stands for the subject that a question is about."""
    return "".join(" it" if word == about else f" {word}" for line in lines for word in line)


def places(lines: Sequence[Line], name: str) -> list[str]:
    """What lines tell of a subject, in their order; ` gone` for `is gone`."""
    return [place for who, verb, place in lines if who == name and verb != "saw"]


def read(lines: Sequence[Line], asked: Asked) -> str:
    """The answer to a question by these lines alone."""
    kind, name = asked
    told_of = [GONE, GONE, *places(lines, name)]
    return {"is": told_of[-1], "was": told_of[-2], "many": str(sum(place != GONE for place in told_of))}[kind]


class Notes(Env):
    """Where is, or was, who in a stream of `lines` lines is asked about; the context holds `limit` words.

    A line is a fact (` ada in hall`, ` key is gone`), which replaces what was true of its subject before, or
    chatter (` ada saw ben`, a share `chatter` of the rest). A context with a question writes ` it` for the
    subject. Whoever is asked about is told of 1 to 4 times, anywhere in the stream (at least twice where
    `was` is asked). ` where was ada ?` asks for the place before the last fact; ` how many places ada ?` for
    the number of `in` lines. Answers: a place, ` gone` (also right where nothing was told), or a digit. There
    are `questions` questions, each about someone else, drawn from `kinds` and the subjects `about`; each
    right answer pays 1/questions, and success is all of them right.

    This world shows the last lines that fit (limit 0: all) and the question: truncation. The worlds in
    `capabilities.memory` put a memory between stream and question. Every observation can be read without
    those before it: it begins a context of its own (`info['fresh']` holds its text).

    A sample:
    `<user> it in hall ben in cave ada saw ben it in attic where was it ?<bot><act> answer hall</act>` and the
    reward is 1.
    """

    rounds, answering = 0, True  # contexts before the first answer; whether this one asks for an answer
    words = (
        " it in is saw where was how many places ? . answer error say act "
        + " ".join((GONE, *PEOPLE, *THINGS, *PLACES))
    )  # fmt: skip

    def __init__(
        self, lines: int = 24, limit: int = 40, kinds: tuple[str, ...] = ("is",), questions: int = 1,
        about: tuple[str, ...] = PEOPLE + THINGS, subjects: int = 6, chatter: float = 0.4,
    ):  # fmt: skip
        if not 1 <= questions <= 3 or not questions <= subjects <= len(PEOPLE + THINGS):
            raise ValueError(
                f"expected 1 to 3 questions on at most as many subjects, got {questions} on {subjects}"
            )
        if lines < 4 * questions or not kinds or any(kind not in QUESTIONS for kind in kinds):
            raise ValueError(
                f"expected ≥ {4 * questions} lines and kinds of {list(QUESTIONS)}, got {lines} and {kinds}"
            )
        if len(set(about)) < questions or not set(about) <= set(PEOPLE + THINGS) or not 0 <= chatter <= 1:
            raise ValueError(
                f"expected {questions} or more known subjects and a share of chatter, got {about}, {chatter}"
            )
        self.lines, self.limit, self.kinds, self.questions = lines, limit, kinds, questions
        self.about, self.subjects, self.chatter = about, subjects, chatter

    def reset(self, seed: int) -> str:
        rng = random.Random(f"notes {seed}")
        names = rng.sample(self.about, self.questions)
        self.asked: list[Asked] = [(rng.choice(self.kinds), name) for name in names]
        others = [name for name in PEOPLE + THINGS if name not in names]
        self.stream = self._draw(rng, rng.sample(others, self.subjects - self.questions))
        self.right = self.wrong = 0
        return self.window()

    def _draw(self, rng: random.Random, others: list[str]) -> list[Line]:
        stream: list[Line | None] = [None] * self.lines
        free = list(range(self.lines))
        for kind, name in self.asked:
            times = rng.randint(2 if kind == "was" else 1, 4)
            for at in rng.sample(free, times):
                stream[at] = (name, "in", "")
                free.remove(at)
        everyone = [name for _, name in self.asked] + others
        for at in free:
            if rng.random() < self.chatter or not others:
                who = rng.choice(PEOPLE)
                stream[at] = (who, "saw", rng.choice([name for name in everyone if name != who]))
            else:
                stream[at] = (rng.choice(others), "in", "")
        return self._places(rng, stream)

    @staticmethod
    def _places(rng: random.Random, stream: list[Line]) -> list[Line]:
        """The lines with places: each fact differs from the one before it about the same subject."""
        now: dict[str, str] = {}
        lines = []
        for name, verb, second in stream:
            if verb == "in":
                leaves = now.get(name, GONE) != GONE and rng.random() < 0.15
                now[name] = GONE if leaves else rng.choice([p for p in PLACES if p != now.get(name)])
                verb, second = ("is" if leaves else "in"), now[name]
            lines.append((name, verb, second))
        return lines

    def truth(self, asked: Asked) -> str:
        """The right answer."""
        return read(self.stream, asked)

    @property
    def now(self) -> Asked:
        """The question that is open."""
        return self.asked[self.right + self.wrong]

    def question(self) -> str:
        """Its text."""
        return QUESTIONS[self.now[0]].format(self.now[1])

    def ask(self, lines: Sequence[Line]) -> tuple[str, str]:
        """Lines and the open question as a context shows them, its subject as ` it`."""
        kind, name = self.now
        return told(lines, name), QUESTIONS[kind].format("it")

    def recalled(self) -> list[Line]:
        """The lines that the context shows: the last that fit beside the question."""
        room = (self.limit - len(self.question().split())) // 3 if self.limit else self.lines
        return self.stream[max(0, self.lines - room) :]

    def window(self) -> str:
        """The text of the context."""
        return "".join(self.ask(self.recalled()))

    def step(self, said: str) -> Reply:
        words = parse_act(said)
        reply = self.answer(words or [])
        info = {"malformed": words is None, **reply.info}
        if reply.done:
            return replace(reply, info=info)
        return replace(reply, text=self.window(), info={**info, "fresh": self.window()})

    def answer(self, words: list[str]) -> Reply:
        """What an answer to the open question pays; the next question is open then."""
        (kind, name), right = self.now, words == ["answer", self.truth(self.now)]
        info = {"kind": kind, "subject": name, "right": right, "told": len(places(self.stream, name))}
        self.right, self.wrong = self.right + right, self.wrong + (not right)
        done = self.right + self.wrong == len(self.asked)
        return Reply(
            reward=right / len(self.asked),
            done=done,
            info=info | ({"success": not self.wrong} if done else {}),
        )

    def expert(self) -> str:
        """The right answer, by someone who heard everything."""
        return act(f"answer {self.truth(self.now)}")

    def reading(self) -> str:
        """The answer by what the context shows: what a reader can be taught."""
        return act(f"answer {read(self.recalled(), self.now)}")

    def random(self, rng: random.Random) -> str:
        """Answers with any place."""
        return act(f"answer {rng.choice((GONE, *PLACES))}")

    def render_chat(self) -> str:
        return (
            "You are told, line by line, who is where; later lines replace earlier ones. Answer with a place, gone, or a number, "
            "such as <act> answer hall </act>."
        )
