"""Errand: a Quest whose key can be put down again, played in turns that may begin with their purpose."""

import random
from dataclasses import replace

from .base import Reply, act, parse_act
from .quest import Quest

TAGS = ("explore", "plan", "reflect")


class Errand(Quest):
    """A Quest of 6 rooms and 14 turns with one command more, `drop key`, and a vocabulary for thinking aloud.

    A turn may begin with a word before its action, ` explore<act> go east</act>`; the world does not act on
    it, but notes it in `info['tag']` for those who judge steps. info also holds, as they were before the
    turn, 'room' and 'holding', and what the turn did: 'did' (the command), 'new' (it entered a room not seen
    before), 'took' (it picked the key up).

    A sample: `<user> find key open door . cave exits east<bot> explore<act> go east</act><obs> hall exits
    west key</obs> plan<act> take key</act><obs> hall exits west</obs> reflect<act> go west</act>…`
    """

    words = f"{Quest.words} drop {' '.join(TAGS)}"

    def __init__(self, rooms: int = 6, limit: int = 14):
        super().__init__(rooms, limit)

    def reset(self, seed: int) -> str:
        task = super().reset(seed)
        self.before = self.here  # the room before this one
        return task

    def step(self, said: str) -> Reply:
        words = parse_act(said) or []
        room, holding, known = self.here, self.holding, len(self.seen)
        reply = super().step(said)
        if self.here != room:
            self.before = room
        tag = next((word for word in said.partition("<act>")[0].split() if word in TAGS), "")
        info = {
            "tag": tag, "room": self.names[self.places[room]], "holding": holding, "did": " ".join(words),
            "new": len(self.seen) > known, "took": self.holding and not holding,
        }  # fmt: skip
        return replace(reply, info=info | reply.info)

    def _act(self, words: list[str] | None) -> Reply:
        if words == ["drop", "key"] and self.holding:
            self.holding, self.key = False, self.here
            return Reply(self._look())
        return super()._act(words)

    def meant(self, tag: str, rng: random.Random) -> str:
        """What is meant by a tag: explore, go to the nearest room not yet seen; plan, make for the key or the
        door as far as they were seen; reflect, go back. Where there is no such thing: a way at random."""
        ways, anything = self._exits(self.here), f"go {rng.choice(list(self._exits(self.here)))}"
        if tag == "reflect":
            back = [f"go {way}" for way, there in ways.items() if there == self.before]
            return back[0] if back else anything
        if tag == "plan":
            goal = self.door if self.holding else self.key
            if goal not in self.seen:
                return "drop key" if self.holding and rng.random() < 0.3 else anything
            return self._plan()[0]
        beside = {there for place in self.seen for there in self._exits(place).values()} - self.seen
        if not beside:
            return anything
        paths = [self._path(self.here, place) for place in sorted(beside)]
        nearest = min(map(len, paths))
        return f"go {rng.choice([path[0] for path in paths if len(path) == nearest])}"

    def thinker(self, rng: random.Random) -> str:
        """Takes any tag, and does what is meant by it."""
        tag = rng.choice(TAGS)
        return f" {tag}{act(self.meant(tag, rng))}"

    def careful(self, rng: random.Random) -> str:
        """Explores until the key was seen, plans from there on as far as it can."""
        goal = self.door if self.holding else self.key
        tag = "plan" if goal in self.seen else "explore"
        return f" {tag}{act(self.meant(tag, rng))}"

    def render_chat(self) -> str:
        return f"{super().render_chat()} The key can also be put down: drop key."
