"""Pictures as tokens: a patch of 4×4 pixels is one token, and its id holds the pixels and the place.

A world writes a picture into its text, patch by patch: `<patch 0 2 0013567700000000>` is the patch in row 0,
column 2, with its 16 pixels from left to right and down, each a grey level from 0 to 7. The tokenizer of the
tiny models makes one id of it; a `models.patches.PatchEncoder` makes a vector of that id, where a word would
be looked up. So the tokens of an episode carry its pictures, in the prompt and in any observation, and
rollout, batch, scoring and training need not know of them. To a text-only model the same text is just text.
"""

import re
from collections.abc import Callable, Sequence

import numpy as np

SIDE, LEVELS, PLACES = 4, 8, 32  # pixels a side, grey levels, rows and columns of patches
MARK = 1 << 62  # set in the id of a patch, far above any vocabulary
ROW, COLUMN = (
    53,
    48,
)  # where the place stands in an id; below it the pixels, three bits each, the first one lowest
PATCH = re.compile(r"<patch (0|[12]?[1-9]|[123]0|31) (0|[12]?[1-9]|[123]0|31) ([0-7]{16})>")


def write(levels: np.ndarray, at: tuple[int, int] = (0, 0)) -> str:
    """The text of a picture (H, W) of grey levels 0 to 7, H and W multiples of 4: its patches, row by row.

    at: row and column of its first patch, where the picture is a part of a larger one.
    """
    levels = np.asarray(levels)
    if levels.ndim != 2 or levels.size == 0 or any(n % SIDE for n in levels.shape):
        raise ValueError(
            f"expected a picture (H, W) with sides that are multiples of {SIDE}, got {levels.shape}"
        )
    if not np.issubdtype(levels.dtype, np.integer) or levels.min() < 0 or levels.max() >= LEVELS:
        raise ValueError(f"expected whole grey levels 0 to {LEVELS - 1}; hint: `grey` makes them")
    rows, columns = (n // SIDE for n in levels.shape)
    if min(at) < 0 or at[0] + rows > PLACES or at[1] + columns > PLACES:
        raise ValueError(f"{rows}×{columns} patches from {at} leave the {PLACES}×{PLACES} places there are")
    cut = levels.reshape(rows, SIDE, columns, SIDE).transpose(0, 2, 1, 3).reshape(rows, columns, -1)
    return "".join(
        f"<patch {at[0] + r} {at[1] + c} {''.join(map(str, cut[r, c]))}>"
        for r in range(rows)
        for c in range(columns)
    )


def read(text: str) -> list[tuple[int, int, np.ndarray]]:
    """The patches in a text: row, column, grey levels (4, 4)."""
    found = PATCH.finditer(text)
    return [(int(m[1]), int(m[2]), np.array(list(m[3]), int).reshape(SIDE, SIDE)) for m in found]


def assemble(text: str) -> np.ndarray:
    """The picture (H, W) that the patches in a text make, from first to last row and column; gaps are black."""
    patches = read(text)
    if not patches:
        raise ValueError(f"no patch in {text!r:.60}")
    top, left = (min(p[k] for p in patches) for k in (0, 1))
    rows, columns = (max(p[k] for p in patches) - first + 1 for k, first in ((0, top), (1, left)))
    whole = np.zeros((SIDE * rows, SIDE * columns), int)
    for row, column, levels in patches:
        y, x = SIDE * (row - top), SIDE * (column - left)
        whole[y : y + SIDE, x : x + SIDE] = levels
    return whole


def grey(brightness: np.ndarray, most: float = 1.0) -> np.ndarray:
    """Brightness from 0 to `most`, any shape, as grey levels 0 to 7."""
    return np.clip(np.rint(np.asarray(brightness) * ((LEVELS - 1) / most)), 0, LEVELS - 1).astype(int)


def encode(text: str, plain: Callable[[str], Sequence[int]]) -> tuple[int, ...]:
    """Token ids of a text: one for each patch, those of `plain` for what stands between."""
    ids, end = [], 0
    for found in PATCH.finditer(text):
        if found.start() > end:
            ids += plain(text[end : found.start()])
        ids.append(_id(found))
        end = found.end()
    return (*ids, *plain(text[end:])) if end < len(text) else tuple(ids)


def _id(found: re.Match) -> int:
    return (
        MARK | int(found[1]) << ROW | int(found[2]) << COLUMN | int(found[3][::-1], LEVELS)
    )  # octal: three bits a pixel


def decode(ids: Sequence[int], plain: Callable[[Sequence[int]], str]) -> str:
    """The text of token ids, exactly what `encode` was given."""
    ids = [int(i) for i in ids]  # arrays and tensors, too
    if not ids or max(ids) < MARK:
        return plain(ids)
    text, run = "", []
    for i in ids:
        if i < MARK:
            run.append(i)
            continue
        place, pixels = (i ^ MARK) >> COLUMN, i & ((1 << COLUMN) - 1)
        levels = "".join(str(pixels >> 3 * k & 7) for k in range(SIDE * SIDE))
        text += f"{plain(run)}<patch {place // PLACES} {place % PLACES} {levels}>"
        run = []
    return text + plain(run)


# --- what may be done to a picture ------------------------------------------------------------------------

Box = tuple[
    int, int, int, int
]  # left, top, right, bottom in pixels; right and bottom are the first ones outside


def shrink(picture: np.ndarray, scale: int) -> np.ndarray:
    """The means of squares of scale×scale pixels, (H / scale, W / scale)."""
    height, width = picture.shape
    if scale < 1 or height % scale or width % scale:
        raise ValueError(
            f"cannot shrink {height}×{width} pixels by {scale}: both sides must be multiples of it"
        )
    return picture.reshape(height // scale, scale, width // scale, scale).mean((1, 3))


def crop(picture: np.ndarray, box: Box) -> np.ndarray:
    """The pixels in a box, always of its size: black where it leaves the picture."""
    left, top, right, bottom = box
    if right <= left or bottom <= top:
        raise ValueError(f"a box {box} has nothing in it; expected left < right and top < bottom")
    cut = np.zeros((bottom - top, right - left), picture.dtype)
    inside = picture[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
    down, across = max(-top, 0), max(-left, 0)
    cut[down : down + inside.shape[0], across : across + inside.shape[1]] = inside
    return cut


def look(picture: np.ndarray, row: int, column: int) -> np.ndarray:
    """The 8×8 pixels whose first patch is the one in that row and column; black beyond the border."""
    return crop(picture, (SIDE * column, SIDE * row, SIDE * (column + 2), SIDE * (row + 2)))


def mark(picture: np.ndarray, box: Box, level: float) -> np.ndarray:
    """A copy with the outermost pixels of a box set to a level."""
    left, top, right, bottom = box
    drawn = picture.copy()
    for rows, columns in (
        (slice(top, top + 1), slice(left, right)), (slice(bottom - 1, bottom), slice(left, right)),
        (slice(top, bottom), slice(left, left + 1)), (slice(top, bottom), slice(right - 1, right)),
    ):  # fmt: skip
        drawn[rows, columns] = level
    return drawn


def area(box: Box) -> int:
    """Pixels in a box, 0 where it is empty."""
    return max(0, box[2] - box[0]) * max(0, box[3] - box[1])


def common(a: Box, b: Box) -> int:
    """Pixels that two boxes share."""
    return area((max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])))


def iou(a: Box, b: Box) -> float:
    """Intersection over union of two boxes, in [0, 1]; 0 where both are empty."""
    union = area(a) + area(b) - common(a, b)
    return common(a, b) / union if union else 0.0
