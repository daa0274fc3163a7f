"""Quest with a context that is cut every few turns: nothing kept, a summary when the limit is reached, or
lines folded."""

import random
from dataclasses import replace

from ...envs.base import Reply, act, parse_act
from ...envs.quest import Quest

TASK = " find key open door ."


class Cut(Quest):
    """Truncation: after every `every` turns the context begins anew, with the task and the room one stands
    in."""

    words = Quest.words + " sum fold key"

    def __init__(self, rooms: int = 6, limit: int = 20, every: int = 2, room: int = 5):
        super().__init__(rooms, limit)
        self.every, self.room = every, room
        self.rounds = limit // every  # contexts that may come before the last one

    def reset(self, seed: int) -> str:
        super().reset(seed)
        self.rng = random.Random(f"explorer {seed}")  # for the demonstrator, so that clones agree
        self.kept: list[str] = []  # what crosses from one context to the next
        self.left: list[tuple[str, str]] = []  # (room, way out) of each move
        self.age = self.mark = 0  # turns of this context; moves before it
        return self.shows()

    def shows(self) -> str:
        """The text of a context."""
        return f"{TASK}{''.join(f' {w}' for w in self.kept)}{' .' if self.kept else ''}{self._look()}"

    def step(self, said: str) -> Reply:
        where = self.names[self.places[self.here]]
        words, before = parse_act(said), self.here
        reply = super().step(said)
        if self.here != before and words is not None:
            self.left.append((where, words[1]))
        self.age += 1
        over = reply.done or reply.truncated
        return reply if over else self.aged(reply)

    def aged(self, reply: Reply) -> Reply:
        """The reply, or the beginning of the next context."""
        return reply if self.age < self.every else self.anew(reply)

    def anew(self, reply: Reply) -> Reply:
        """The reply as the last of its context."""
        self.age, self.mark = 0, len(self.left)
        return replace(reply, text=self.shows(), info={**reply.info, "fresh": self.shows()})

    def notes(self) -> list[str]:
        """What a demonstrator keeps: the key, and by which way it left the last rooms."""
        pairs = [word for pair in self.left[-2:] for word in pair]
        return ["key"] * self.holding + pairs

    def shown(self) -> str:
        """What a careful player, who remembers all, says: the demonstrator of the warm start."""
        return Quest.expert(self) if len(self.seen) == self.rooms else self.explorer(self.rng)


class Summed(Cut):
    """Summary at the limit (ReSum): the last reply of a context ends with ` sum`; `<act> sum WORDS</act>` is
    then all that the next context shows of the past. A summary holds at most `room` words, replaces the one
    before it, and costs no turn of the quest."""

    def reset(self, seed: int) -> str:
        self.asked = False
        return super().reset(seed)

    def step(self, said: str) -> Reply:
        if not self.asked:
            return super().step(said)
        self.asked, words = False, parse_act(said)
        ok = words is not None and words[0] == "sum"
        self.kept = words[1 : self.room + 1] if ok else []
        return self.anew(Reply(info={"malformed": words is None, "kept": len(self.kept)}))

    def aged(self, reply: Reply) -> Reply:
        self.asked = self.age >= self.every
        return replace(reply, text=f"{reply.text} sum") if self.asked else reply

    def expert(self) -> str:
        return act(" ".join(["sum", *self.notes()])) if self.asked else super().expert()

    def shown(self) -> str:
        return self.expert() if self.asked else super().shown()

    def random(self, rng: random.Random) -> str:
        return act("sum") if self.asked else super().random(rng)


class Folded(Cut):
    """Folding: `<act> fold WORDS</act>` ends a branch when the policy likes. Its turns leave the context, its
    line stays.

    Lines pile up, at most `room` words (the oldest go). A context that has not been folded in `every` turns
    is cut as in `Cut`; the lines stay. A fold costs no turn of the quest, but a second one at once does
    (` no`).
    """

    def step(self, said: str) -> Reply:
        words = parse_act(said)
        if words is None or words[0] != "fold" or not self.age:
            return super().step(said)
        self.kept = [*self.kept, *words[1:]][-self.room :]
        return self.anew(Reply(info={"kept": len(self.kept), "fold": True}))

    def ripe(self) -> bool:
        """Whether a demonstrator folds now: it has just taken the key, or the context is about to be cut."""
        taken = self.holding and "key" not in self.kept
        return bool(self.age) and (taken or self.age >= self.every - 1)

    def notes(self) -> list[str]:
        """The new lines only."""
        pairs = [word for pair in self.left[self.mark :][-2:] for word in pair]
        return ["key"] * (self.holding and "key" not in self.kept) + pairs

    def expert(self) -> str:
        return act(" ".join(["fold", *self.notes()])) if self.ripe() else super().expert()

    def shown(self) -> str:
        return self.expert() if self.ripe() else super().shown()

    def random(self, rng: random.Random) -> str:
        return act("fold") if self.age and rng.random() < 0.2 else super().random(rng)
