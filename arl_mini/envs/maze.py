"""Maze and Place: two worlds in which the policy draws a picture, one token a cell, before or as its answer."""

import random

from .base import Env, Reply
from ..models.tokenizer import END, THINK, THINK_END

STRAIGHT, LEVEL, BRIDGE, EMPTY, START = "│", "─", "┼", "·", "A"
RIGHT, LEFT, FROM_LEFT, FROM_RIGHT = "└", "┘", "┐", "┌"  # turns to the right, to the left; comes from there, turns down
SIZE = 6


def picture(rows: list[list[str]]) -> str:
    """Rows of cells as text, each cell a token with the space before it."""
    return "".join(f" {cell}" for row in rows for cell in row)


class Maze(Env):
    """A picture of 6×6 cells with crossing paths; which number does the path from A reach?

    The top row has A above one of `paths` paths, the bottom row a number below each. In each row between, one path moves
    to a free column, over bridges where others go straight; A's own moves at least twice
    and ends in another column than it began. The task is the 36
    cells as text. The policy may answer at once, ` 3<end>`, or draw first: 36 cells between `<think>` and `</think>` with
    A's path alone, and then the number. Reward 1 for the right number, whatever was drawn. draw=False: an answer with a
    drawing is malformed.

    A sample, row by row (it is one line): `<user> · · A · · ·` `· · └ ┐ · ·` … ` 2 · · 1 · 3<bot><think>` the same with
    one path only `</think> 1<end>`, and the reward is 1.
    """

    words = " A │ ─ ┼ · └ ┘ ┐ ┌"

    def __init__(self, paths: int = 4, draw: bool = True):
        if not 2 <= paths <= 4:
            raise ValueError(f"paths must be 2, 3 or 4, got {paths}")
        self.paths, self.draw = paths, draw

    def reset(self, seed: int) -> str:
        rng = random.Random(f"maze {seed}")
        while True:
            at = rng.sample(range(SIZE), self.paths)  # path 0 is A's
            cells, own = [_empty() for _ in range(SIZE)], [_empty() for _ in range(SIZE)]
            cells[0][at[0]] = own[0][at[0]] = START
            for path in range(1, self.paths):
                cells[0][at[path]] = STRAIGHT
            movers = [self._row(cells[row], own[row], at, rng) for row in range(1, SIZE - 1)]
            if movers.count(0) >= 2 and cells[0][at[0]] != START:
                break
        numbers = rng.sample(range(1, self.paths + 1), self.paths)
        for path, number in enumerate(numbers):
            cells[-1][at[path]] = str(number)
        own[-1][at[0]] = str(numbers[0])
        self.cells, self.own, self.answer = cells, own, numbers[0]
        return picture(cells)

    def _row(self, cells: list[str], own: list[str], at: list[int], rng: random.Random) -> int:
        """Fills one row and moves one path; returns which."""
        mover = rng.randrange(self.paths)
        goal = rng.choice([column for column in range(SIZE) if column not in at])
        own[at[0]] = STRAIGHT
        for column in at:
            cells[column] = STRAIGHT
        here, there = at[mover], goal
        for column in range(min(here, there) + 1, max(here, there)):
            cells[column] = BRIDGE if column in at else LEVEL
        cells[here], cells[there] = (RIGHT, FROM_LEFT) if there > here else (LEFT, FROM_RIGHT)
        if mover == 0:
            own[min(here, there) : max(here, there) + 1] = [LEVEL] * (abs(here - there) + 1)
            own[here], own[there] = cells[here], cells[there]
        at[mover] = goal
        return mover

    def step(self, said: str) -> Reply:
        head, thinking, rest = said.partition(THINK)
        drawn, closed, tail = rest.partition(THINK_END)
        answer = (tail if thinking else head).removesuffix(END).strip()
        malformed = not said.endswith(END) or bool(thinking and (head.strip() or not closed or not self.draw))
        right = not malformed and answer == str(self.answer)
        info = {"success": right, "malformed": malformed, "drew": bool(thinking), "drawn": drawn.split()}
        return Reply(reward=float(right), done=True, info=info)

    def direct(self, answer: int) -> str:
        """An answer at once."""
        return f" {answer}{END}"

    def drawn(self, rows: list[list[str]], answer: int) -> str:
        """A drawing, then an answer."""
        return f"{THINK}{picture(rows)}{THINK_END} {answer}{END}"

    def expert(self) -> str:
        """Draws A's path and reads its number off."""
        return self.drawn(self.own, self.answer) if self.draw else self.direct(self.answer)

    def random(self, rng: random.Random) -> str:
        """A number at once."""
        return self.direct(rng.randint(1, self.paths))

    def render_chat(self) -> str:
        return (
            "The text is a picture of 6 rows with 6 cells each. Paths run from the top to the bottom and cross on bridges ┼. "
            "Which number does the path that begins at A reach? Answer with the number."
        )


def _empty() -> list[str]:
    return [EMPTY] * SIZE


THINGS = ("sun", "tree", "cat", "boat")
CANVAS = 4


class Place(Env):
    """A scene of three things, told in two relations; the policy plans where they stand, then draws 4×4 cells.

    The task: ` sun above tree . cat left tree`. The reply is a plan in words, each thing with its row and column, between
    `<think>` and `</think>`, and then the picture, a token a cell: ` ·` or a thing. Reward 1 where each of the three things
    stands in the picture exactly once, nothing else does, and both relations hold (`above`: a smaller row; `left`: a smaller
    column). The plan is not looked at: it helps or it does not.

    A sample: `<user> sun above tree . cat left tree<bot><think> sun 0 2 tree 2 3 cat 2 0</think> · · sun · · · · · cat · ·
    tree · · · ·<end>` and the reward is 1.
    """

    words = f" {' '.join(THINGS)} above below left right . ·"

    def reset(self, seed: int) -> str:
        rng = random.Random(f"place {seed}")
        self.things = rng.sample(THINGS, 3)
        first, middle, last = self.things
        self.relations = [(first, rng.choice(RELATIONS), middle), (last, rng.choice(RELATIONS), middle)]
        self.seed = seed
        return " .".join(f" {a} {relation} {b}" for a, relation, b in self.relations)

    def holds(self, places: dict[str, tuple[int, int]]) -> list[bool]:
        """Whether each relation holds where the things stand at (row, column); False where one is missing."""
        return [a in places and b in places and related(places[a], word, places[b]) for a, word, b in self.relations]

    def plan(self, rng: random.Random) -> dict[str, tuple[int, int]]:
        """Places that fit, drawn anew each time."""
        while True:
            cells = rng.sample([(row, column) for row in range(CANVAS) for column in range(CANVAS)], 3)
            places = dict(zip(self.things, cells))
            if all(self.holds(places)):
                return places

    def write(self, planned: dict[str, tuple[int, int]], drawn: dict[str, tuple[int, int]]) -> str:
        """A reply with this plan and this picture."""
        plan = "".join(f" {thing} {row} {column}" for thing, (row, column) in planned.items())
        rows = [[EMPTY] * CANVAS for _ in range(CANVAS)]
        for thing, (row, column) in drawn.items():
            rows[row][column] = thing
        return f"{THINK}{plan}{THINK_END}{picture(rows)}{END}"

    def step(self, said: str) -> Reply:
        planned, closed, drawn = said.removeprefix(THINK).removesuffix(END).partition(THINK_END)
        cells = drawn.split()
        whole = bool(said.startswith(THINK) and said.endswith(END) and closed) and len(cells) == CANVAS**2
        shown = places_in(cells) if whole else {}
        once = sorted(cell for cell in cells if cell != EMPTY) == sorted(self.things)
        success = whole and once and all(self.holds(shown))
        read = planned_in(planned.split())
        info = {"success": success, "malformed": not whole, "plan_fits": all(self.holds(read)),
                "as_planned": whole and once and shown == read}  # fmt: skip
        return Reply(reward=float(success), done=True, info=info)

    def expert(self) -> str:
        """Plans places that fit and draws them."""
        places = self.plan(random.Random(f"plan {self.seed}"))
        return self.write(places, places)

    def random(self, rng: random.Random) -> str:
        """The three things anywhere, planned and drawn alike."""
        cells = rng.sample([(row, column) for row in range(CANVAS) for column in range(CANVAS)], 3)
        return self.write(dict(zip(self.things, cells)), dict(zip(self.things, cells)))

    def render_chat(self) -> str:
        return (
            "Write a plan between <think> and </think>, each thing with its row and column from 0 to 3; then draw the scene "
            "as 16 cells, row by row: · for an empty cell, or the name of a thing."
        )


RELATIONS = ("above", "below", "left", "right")


def related(a: tuple[int, int], word: str, b: tuple[int, int]) -> bool:
    """Whether (row, column) a is above, below, left or right of b."""
    return {"above": a[0] < b[0], "below": a[0] > b[0], "left": a[1] < b[1], "right": a[1] > b[1]}[word]


def places_in(cells: list[str]) -> dict[str, tuple[int, int]]:
    """Where each thing stands in a picture, (row, column)."""
    return {cell: divmod(i, CANVAS) for i, cell in enumerate(cells) if cell in THINGS}


def planned_in(words: list[str]) -> dict[str, tuple[int, int]]:
    """Where each thing of a plan is to stand; empty where the plan cannot be read."""
    if len(words) % 3 or not all(w in "0123" for i, w in enumerate(words) if i % 3):
        return {}
    return {words[i]: (int(words[i + 1]), int(words[i + 2])) for i in range(0, len(words), 3)}
