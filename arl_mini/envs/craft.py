"""Craft: take raw things from the field, make what they make, reach the goal before the field is empty."""

import random
from collections import Counter

from .base import Env, Reply, act, malformed, parse_act, within

RAW = ("wood", "stone", "fibre", "ore")
# Thing → what it takes; a station is needed and stays.
RECIPES = {
    "plank": ("wood",), "brick": ("stone",), "rope": ("fibre",),
    "stick": ("plank",), "net": ("rope", "rope"), "kiln": ("brick", "brick"),
    "ladder": ("stick", "rope"), "hammer": ("stick", "brick"), "metal": ("ore", "wood"),
    "pick": ("metal", "stick"), "bell": ("metal", "rope"), "raft": ("plank", "plank", "net"),
}  # fmt: skip
STATIONS = {"metal": "kiln"}
THINGS = (*RAW, *RECIPES)


def needs(thing: str) -> tuple[str, ...]:
    """What must be at hand to make a thing: its ingredients, and its station."""
    return RECIPES[thing] + ((STATIONS[thing],) if thing in STATIONS else ())


def depth(thing: str) -> int:
    """Makings on the longest way from raw things: 0 for wood, 1 for a plank, 4 for a pick."""
    return 0 if thing in RAW else 1 + max(map(depth, needs(thing)))


def raw(thing: str) -> Counter:
    """The raw things that a thing takes, those of its station included."""
    return Counter([thing]) if thing in RAW else sum(map(raw, needs(thing)), Counter())


class Craft(Env):
    """A recipe tree with a goal, a field that runs out and a deadline: what is wasted is missed later.

    The task: ` make stick . field wood 1 fibre 2`. Commands: `get THING` from the field, `make THING` from the bag. Each
    reply shows both: ` bag wood 1 . field fibre 2`. The goal takes between depths[0] and depths[1] makings in a row; the
    field holds what it takes and `spare` other raw things; there are `slack` turns more than the shortest plan has.
    `metal` needs a kiln in the bag, which stays. Reward 1 for the goal. With score='discoveries' there is no goal: each
    thing made for the first time pays 1/12.

    A sample: `<user> make stick . field wood 1 fibre 2<bot><act> get wood</act><obs> bag wood 1 . field fibre 2</obs>
    <act> make plank</act><obs> bag plank 1 . field fibre 2</obs><act> make stick</act>` and the reward is 1.
    """

    words = f" make get explore . field bag empty no error say act {' '.join(THINGS)}"

    def __init__(self, depths: tuple[int, int] = (1, 3), spare: int = 4, slack: int = 2, score: str = "goal"):
        deepest = max(map(depth, RECIPES))
        if not 1 <= depths[0] <= depths[1] <= deepest:
            raise ValueError(f"depths must be a range within 1 to {deepest}, got {depths}")
        if score not in ("goal", "discoveries"):
            raise ValueError(f"score must be 'goal' or 'discoveries', got {score!r}")
        if spare < 0 or slack < 0:
            raise ValueError(f"spare and slack must be at least 0, got {spare} and {slack}")
        self.depths, self.spare, self.slack, self.score = depths, spare, slack, score

    def reset(self, seed: int) -> str:
        rng = random.Random(f"craft {seed}")
        goals = [t for t in RECIPES if self.depths[0] <= depth(t) <= self.depths[1]]
        self.goal = rng.choice(goals) if self.score == "goal" else ""
        self.bag, self.made, self.turns = Counter(), [], 0
        self.field = sum(map(raw, [self.goal] if self.goal else RECIPES), Counter())
        self.limit = self.slack + (len(plan(self.goal, self.bag, self.field)) if self.goal else 2 * self.field.total())
        self.field += Counter(rng.choices(RAW, k=self.spare))
        return f" {f'make {self.goal}' if self.goal else 'explore'} . field{self._list(self.field)}"

    @staticmethod
    def _list(things: Counter) -> str:
        return "".join(f" {t} {things[t]}" for t in THINGS if things[t] > 0) or " empty"

    def step(self, said: str) -> Reply:
        self.turns += 1
        return within(self._act(parse_act(said)), self.turns, self.limit)

    def _act(self, words: list[str] | None) -> Reply:
        match words:
            case None:
                return malformed("say act", **self._info())
            case ["get", thing] if self.field[thing] > 0:
                self.field[thing] -= 1
                self.bag[thing] += 1
            case ["make", thing] if self.can_make(thing):
                self.bag.subtract(RECIPES[thing])
                self.bag[thing] += 1
                return self._made(thing)
            case _:
                return Reply(" no", info=self._info(illegal=True))
        return Reply(self._look(), info=self._info())

    def _made(self, thing: str) -> Reply:
        first = thing not in self.made
        self.made.append(thing)
        if self.score == "discoveries":
            over = len(set(self.made)) == len(RECIPES)
            return Reply(self._look(), first / len(RECIPES), done=over, info=self._info(success=over))
        if thing == self.goal:
            return Reply(reward=1.0, done=True, info=self._info(success=True, left=0))
        return Reply(self._look(), info=self._info())

    def _info(self, **more) -> dict:
        """goal; made: how many kinds of things; left: turns the shortest plan still takes, −1 where there is none."""
        rest = plan(self.goal, self.bag, self.field) if self.goal else None
        left = -1 if rest is None else len(rest)
        return {"goal": self.goal, "made": len(set(self.made)), "left": left, **more}

    def _look(self) -> str:
        return f" bag{self._list(self.bag)} . field{self._list(self.field)}"

    def can_make(self, thing: str) -> bool:
        """Whether the bag holds what a thing takes, and its station."""
        if thing not in RECIPES:
            return False
        return all(self.bag[t] >= n for t, n in Counter(needs(thing)).items())

    def legal(self) -> list[str]:
        """Every command that would change something now."""
        gets = [f"get {t}" for t in RAW if self.field[t] > 0]
        return gets + [f"make {t}" for t in RECIPES if self.can_make(t)]

    def expert(self) -> str:
        """The next step of the shortest plan; where the goal is out of reach, or there is none, whatever is new."""
        if self.goal:
            rest = plan(self.goal, self.bag, self.field)
            return act((rest or self.legal() or ["get wood"])[0])
        for thing in sorted(set(RECIPES) - set(self.made), key=depth):
            if rest := plan(thing, self.bag, self.field):
                return act(rest[0])
        return act("get wood")

    def random(self, rng: random.Random) -> str:
        """A random legal command."""
        return act(rng.choice(self.legal() or ["get wood"]))

    def render_chat(self) -> str:
        book = "; ".join(f"{thing}: {' + '.join(parts)}" for thing, parts in RECIPES.items())
        return (
            f"Reach the goal. Recipes: {book}. To make metal you also need a kiln, which you keep. Commands: get THING "
            "takes a raw thing from the field, make THING uses things from your bag. Write one command at a time between "
            "tags, such as <act> get wood </act>. What you have comes back between <obs> and </obs>."
        )


def plan(goal: str, bag: Counter, field: Counter) -> list[str] | None:
    """The commands that make a thing from what bag and field hold now, fewest first; None where they do not suffice."""
    bag, field, steps = Counter(bag), Counter(field), []

    def have(thing: str) -> bool:
        if bag[thing] > 0:
            bag[thing] -= 1
            return True
        return obtain(thing)

    def obtain(thing: str) -> bool:
        if thing in RAW:
            field[thing] -= 1
            steps.append(f"get {thing}")
            return field[thing] >= 0
        station = STATIONS.get(thing)
        if station and not bag[station]:
            if not obtain(station):
                return False
            bag[station] += 1
        if not all(have(need) for need in RECIPES[thing]):
            return False
        steps.append(f"make {thing}")
        return True

    return steps if obtain(goal) else None
