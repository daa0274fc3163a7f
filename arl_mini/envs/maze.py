"""Maze and Place: worlds in which the policy draws a picture, a token a cell, before or as its answer."""

import random

from ..models.tokenizer import END, THINK, THINK_END
from .base import Env, Reply

STRAIGHT, LEVEL, BRIDGE, EMPTY, START = "│", "─", "┼", "·", "A"
RIGHT, LEFT = "└", "┘"  # comes from above, turns there
FROM_LEFT, FROM_RIGHT = "┐", "┌"  # comes from there, turns down
SIZE = 6


def picture(rows: list[list[str]]) -> str:
    """Rows of cells as text, each cell a token with the space before it."""
    return "".join(f" {cell}" for row in rows for cell in row)


class Maze(Env):
    """A picture of 6×6 cells with crossing paths; which number does the path from A reach?

    The top row has A above one of `paths` paths, the bottom row a number below each. In each row between, one
    path moves to a free column, over bridges where others go straight; A's own moves at least twice and ends
    in another column than it began. The task is the 36 cells as text. The policy may answer at once,
    ` 3<end>`, or draw first: 36 cells between `<think>` and `</think>` with A's path alone, and then the
    number. Reward 1 for the right number, whatever was drawn. draw=False: an answer with a drawing is
    malformed.

    A sample, row by row (it is one line): `<user> · · A · · ·` `· · └ ┐ · ·` … ` 2 · · 1 · 3<bot><think>` the
    same with one path only `</think> 1<end>`, and the reward is 1.
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
            "The text is a picture of 6 rows with 6 cells each. Paths run from the top to the bottom "
            "and cross on bridges ┼. Which number does the path that begins at A reach? Answer with the number."
        )


def _empty() -> list[str]:
    return [EMPTY] * SIZE


THINGS = ("sun", "tree", "cat", "boat")
CANVAS = 3


class Place(Env):
    """A scene of three things, told in two relations; the policy plans where they stand, then draws it.

    The task: ` sun above tree . cat left tree`. The reply is a plan in words, each thing with the number of
    its cell (1 to 9 in reading order), between `<think>` and `</think>`, and then the picture of 3×3, a token a
    cell: ` ·` or a thing. Reward 1 where each of the three things stands in the picture exactly once, nothing
    else does, and both relations hold (`above`: a smaller row; `left`: a smaller column). The plan is not
    looked at: it helps or it does not.

    A sample: `<user> sun above tree . cat left tree<bot><think> sun 2 tree 9 cat 4</think>
    · sun · cat · · · · tree<end>` and the reward is 1.
    """

    words = f" {' '.join(THINGS)} above below left right . ·"

    def reset(self, seed: int) -> str:
        rng = random.Random(f"place {seed}")
        self.things = rng.sample(THINGS, 3)
        first, middle, last = self.things
        self.relations = [(first, rng.choice(RELATIONS), middle), (last, rng.choice(RELATIONS), middle)]
        self.seed = seed
        return " .".join(f" {a} {relation} {b}" for a, relation, b in self.relations)

    def holds(self, places: dict[str, int]) -> list[bool]:
        """Whether each relation holds where each thing stands in this cell (0 to 8); False where it is missing."""
        return [
            a in places and b in places and related(places[a], word, places[b])
            for a, word, b in self.relations
        ]

    def plan(self, rng: random.Random) -> dict[str, int]:
        """Places that fit, drawn anew each time."""
        while True:
            places = self.anywhere(rng)
            if all(self.holds(places)):
                return places

    def anywhere(self, rng: random.Random) -> dict[str, int]:
        """Three cells for the three things, whatever the relations say."""
        return dict(zip(self.things, rng.sample(range(CANVAS**2), 3)))

    def write(self, planned: dict[str, int], drawn: dict[str, int]) -> str:
        """A reply with this plan and this picture."""
        plan = "".join(f" {thing} {cell + 1}" for thing, cell in planned.items())
        cells = {cell: thing for thing, cell in drawn.items()}
        return f"{THINK}{plan}{THINK_END}{picture([[cells.get(i, EMPTY) for i in range(CANVAS**2)]])}{END}"

    def step(self, said: str) -> Reply:
        planned, closed, drawn = said.removeprefix(THINK).removesuffix(END).partition(THINK_END)
        cells = drawn.split()
        whole = bool(said.startswith(THINK) and said.endswith(END) and closed) and len(cells) == CANVAS**2
        shown = {cell: i for i, cell in enumerate(cells) if cell in THINGS} if whole else {}
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
        places = self.anywhere(rng)
        return self.write(places, places)

    def render_chat(self) -> str:
        return (
            "Write a plan between <think> and </think>, each thing with the number of its cell, 1 to 9; "
            "then draw the scene as 9 cells, row by row: · for an empty cell, or the name of a thing."
        )


RELATIONS = ("above", "below", "left", "right")


def related(a: int, word: str, b: int) -> bool:
    """Whether cell a is above, below, left or right of cell b."""
    (row, column), (other, beside) = divmod(a, CANVAS), divmod(b, CANVAS)
    truth = {"above": row < other, "below": row > other, "left": column < beside, "right": column > beside}
    return truth[word]


def planned_in(words: list[str]) -> dict[str, int]:
    """The cell of each thing in a plan, 0 to 8; empty where the plan cannot be read."""
    if len(words) % 2 or not all(w in list("123456789") for w in words[1::2]):
        return {}
    return {thing: int(number) - 1 for thing, number in zip(words[::2], words[1::2])}
