"""Pictures drawn by the policy: is a drawn path in the maze, and credit for one of two levels of a picture."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from ..algorithms.grpo import GRPO
from ..batch import Batch
from ..envs.maze import BRIDGE, EMPTY, FROM_LEFT, FROM_RIGHT, LEFT, LEVEL, RIGHT, SIZE, START, STRAIGHT
from ..models.tokenizer import THINK_END, encode

UP, DOWN, WEST, EAST = (-1, 0), (1, 0), (0, -1), (0, 1)
SIDES = {  # the two sides at which a drawn piece opens
    STRAIGHT: (UP, DOWN), LEVEL: (WEST, EAST), RIGHT: (UP, EAST), LEFT: (UP, WEST), FROM_LEFT: (WEST, DOWN),
    FROM_RIGHT: (EAST, DOWN),
}  # fmt: skip


def valid_path(drawn: Sequence[str], cells: Sequence[Sequence[str]]) -> bool:
    """Whether a drawing is one unbroken path of the maze from A to a number, and nothing beside it.

    drawn: 36 cells in reading order. cells: the maze, 6 rows of 6. A piece may stand only where the maze has
    the same, or a bridge that it crosses. What number is reached does not matter here.
    """
    if len(drawn) != SIZE**2 or drawn.count(START) != 1:
        return False
    row, column = divmod(list(drawn).index(START), SIZE)
    way, passed = DOWN, {(row, column)}
    if cells[row][column] != START:
        return False
    while True:
        row, column = row + way[0], column + way[1]
        if not (0 <= row < SIZE and 0 <= column < SIZE) or (row, column) in passed:
            return False
        passed.add((row, column))
        piece, there = drawn[row * SIZE + column], cells[row][column]
        if piece.isdigit():
            used = {divmod(i, SIZE) for i, cell in enumerate(drawn) if cell != EMPTY}
            return piece == there and way == DOWN and used == passed
        back = (-way[0], -way[1])
        fits = piece == there or (there == BRIDGE and piece in (STRAIGHT, LEVEL))
        if not fits or back not in SIDES.get(piece, ()):
            return False
        way = SIDES[piece][SIDES[piece].index(back) - 1]


@dataclass(frozen=True)
class OneLevel(GRPO):
    """GRPO that trains one level of a reply in two: the plan, up to `</think>`, or the picture behind it.

    A_it = A_i where token t belongs to `level`, else 0; the rest is GRPO's. T2I-R1 (arXiv 2505.00703) trains
    both levels in one update, which is GRPO as it is; this is what it is compared with.
    """

    level: str = "plan"

    def __post_init__(self):
        if self.level not in ("plan", "picture"):
            raise ValueError(f"level must be 'plan' or 'picture', got {self.level!r}")

    def advantages(self, batch: Batch) -> Tensor:
        (end,) = encode(batch.episodes[0].tokenizer, THINK_END)
        ends = (batch.tokens == end) & (batch.mask > 0)
        before = ends.cumsum(1) == 0  # (B, T)
        mine = before | ends if self.level == "plan" else ~(before | ends)
        return super().advantages(batch) * mine
