"""Quest: rooms seen one at a time; find the key, take it, find the door, open it."""

import random

from .base import Env, Reply, act, malformed, parse_act, within

WAYS = {"north": (0, 1), "east": (1, 0), "south": (0, -1), "west": (-1, 0)}
ROOMS = ("hall", "attic", "cellar", "kitchen", "library", "tower", "garden", "chapel", "stable", "cave")


class Quest(Env):
    """A text adventure with 0/1 reward at the end.

    The task: ` find key open door . cellar exits north east`. Commands: `go WAY`, `take key`, `open door`.
    Each reply names the room, its exits and what lies there: ` hall exits south key`. The map is a tree of
    `rooms` rooms drawn from the seed; nobody tells where key and door are. Every task can be solved within
    `limit` turns.

    A sample: `<user> find key open door . cave exits east<bot><act> go east</act><obs> hall exits west key</obs>
    <act> take key</act><obs> hall exits west</obs><act> go west</act><obs> cave exits east door</obs>
    <act> open door</act>` and the reward is 1.
    """

    words = (
        " find key open door . exits go take open no error say act "
        + " ".join(WAYS) + " " + " ".join(ROOMS)
    )  # fmt: skip

    def __init__(self, rooms: int = 6, limit: int = 12):
        if not 2 <= rooms <= len(ROOMS):
            raise ValueError(f"rooms must be 2 to {len(ROOMS)}, got {rooms}")
        self.rooms, self.limit = rooms, limit

    def reset(self, seed: int) -> str:
        rng = random.Random(f"quest {seed}")
        while True:
            self._draw(rng)
            if len(self._plan()) <= self.limit:
                return f" find key open door .{self._look()}"

    def _draw(self, rng: random.Random) -> None:
        """A random map: each room is put beside an earlier one."""
        self.places = {(0, 0): 0}
        while len(self.places) < self.rooms:
            x, y = rng.choice(list(self.places))
            dx, dy = rng.choice(list(WAYS.values()))
            self.places.setdefault((x + dx, y + dy), len(self.places))
        self.names = rng.sample(ROOMS, self.rooms)
        self.key, self.door = rng.sample(list(self.places), 2)
        self.here = rng.choice(list(self.places))
        self.holding, self.turns, self.seen = False, 0, {self.here}

    def _exits(self, place) -> dict[str, tuple[int, int]]:
        beside = {way: (place[0] + dx, place[1] + dy) for way, (dx, dy) in WAYS.items()}
        return {way: there for way, there in beside.items() if there in self.places}

    def _look(self) -> str:
        things = " key" * (self.here == self.key and not self.holding) + " door" * (self.here == self.door)
        return f" {self.names[self.places[self.here]]} exits {' '.join(self._exits(self.here))}{things}"

    def step(self, said: str) -> Reply:
        self.turns += 1
        return within(self._act(parse_act(said)), self.turns, self.limit)

    def _act(self, words: list[str] | None) -> Reply:
        exits = self._exits(self.here)
        match words:
            case None:
                return malformed("say act")
            case ["go", way] if way in exits:
                self.here = exits[way]
                self.seen.add(self.here)
            case ["take", "key"] if self.here == self.key and not self.holding:
                self.holding = True
            case ["open", "door"] if self.here == self.door and self.holding:
                return Reply(reward=1.0, done=True, info={"success": True})
            case _:
                return Reply(" no", info={"illegal": True})
        return Reply(self._look())

    def _path(self, start, goal) -> list[str]:
        """The ways from one place to another (the map is a tree, so there is one)."""
        frontier = [(start, [])]
        for place, ways in frontier:
            if place == goal:
                return ways
            seen = {p for p, _ in frontier}
            frontier += [(p, [*ways, w]) for w, p in self._exits(place).items() if p not in seen]
        raise AssertionError("the map is connected")

    def _plan(self) -> list[str]:
        go = self._path(self.here, self.key) if not self.holding else self._path(self.here, self.door)
        plan = [f"go {way}" for way in go]
        if not self.holding:
            plan += ["take key"] + [f"go {way}" for way in self._path(self.key, self.door)]
        return [*plan, "open door"]

    def expert(self) -> str:
        """The shortest way, by someone who knows the map."""
        return act(self._plan()[0])

    def explorer(self, rng: random.Random) -> str:
        """A careful player without the map: goes back to a door it saw, else to the nearest room not yet seen."""
        if self.here == self.key and not self.holding:
            return act("take key")
        if self.holding and self.door in self.seen:
            return act(self._plan()[0])
        beside = {there for place in self.seen for there in self._exits(place).values()}
        paths = [self._path(self.here, place) for place in sorted(beside - self.seen)]
        nearest = min(map(len, paths))
        return act(f"go {rng.choice([path[0] for path in paths if len(path) == nearest])}")

    def render_chat(self) -> str:
        return (
            "Find the key, take it, find the door and open it. Commands: go north, go east, go south, go west, take key, "
            "open door. Write one command at a time between tags, such as <act> go north </act>. "
            "What you see comes back between <obs> and </obs>."
        )

    def random(self, rng: random.Random) -> str:
        """A legal random walker that takes and opens half of the time it can."""
        here_key = self.here == self.key and not self.holding
        if here_key and rng.random() < 0.5:
            return act("take key")
        if self.here == self.door and self.holding and rng.random() < 0.5:
            return act("open door")
        return act(f"go {rng.choice(list(self._exits(self.here)))}")
