"""Chapter 12: overlap of boxes, a crop at the border, does it look at all, and a bonus with a bug."""

import random
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from .. import pictures
from ..capabilities.perception import curiosity
from ..lab.check import Trial, show
from . import Exercise, Wrong, changed, numbers
from .ch12_audio import EXERCISES as SOUND

# --- 12.1 -------------------------------------------------------------------------------------------------


def _box(rng: random.Random, side: int = 12) -> tuple[int, int, int, int]:
    """A box on a canvas; one of four has its edges in the wrong order or on one line."""
    left, right, top, bottom = (rng.randint(0, side) for _ in range(4))
    if rng.random() < 0.75 and left != right and top != bottom:
        return min(left, right), min(top, bottom), max(left, right), max(top, bottom)
    return max(left, right), max(top, bottom), min(left, right), min(top, bottom)


def _paint(box: tuple[int, int, int, int]) -> np.ndarray:
    left, top, right, bottom = box
    canvas = np.zeros((12, 12), bool)
    canvas[top:bottom, left:right] = True
    return canvas


def check_iou(trial: Trial) -> str:
    for number in range(200):
        told, wanted = _box(trial.rng), _box(trial.rng)
        if number % 10 == 0:
            told = wanted
        a, b = _paint(told), _paint(wanted)
        expected = float((a & b).sum() / (a | b).sum()) if (a | b).any() else 0.0
        hint = "Count pixels: those in both boxes, divided by those in either. right and bottom are the first ones outside."
        if not a.any() or not b.any():
            hint = "A box with edges in the wrong order, or on one line, holds no pixel: negative sides must not make an area."
        elif expected == 0:
            hint = "Boxes that do not meet share nothing; negative sides must not make an area."
        trial.begin(f"iou({told}, {wanted})", f"{expected:.4f}", hint)
        (came,) = numbers(trial, [trial.answer(told, wanted)], (1,)).tolist()
        if not abs(came - expected) <= 1e-9:  # nan is wrong too
            trial.fail(f"{came:.4f}")
    return "200 random pairs of boxes, counted pixel by pixel"


def iou(told: pictures.Box, wanted: pictures.Box) -> float:
    """Pixels in both boxes over pixels in either, boxes (left, top, right, bottom); 0 where a box is empty."""
    width = min(told[2], wanted[2]) - max(told[0], wanted[0])
    height = min(told[3], wanted[3]) - max(told[1], wanted[1])
    both = max(0, width) * max(0, height)
    either = sum(max(0, b[2] - b[0]) * max(0, b[3] - b[1]) for b in (told, wanted)) - both
    return both / either if either else 0.0


# --- 12.2 -------------------------------------------------------------------------------------------------


def check_crop(trial: Trial) -> str:
    rng = trial.rng
    for number in range(150):
        height, width = rng.randint(3, 8), rng.randint(3, 8)
        picture = np.arange(1, height * width + 1).reshape(height, width)
        reach = 0 if number < 30 else 6
        left, top = rng.randint(-reach, width - 1 + reach), rng.randint(-reach, height - 1 + reach)
        right, bottom = (a + rng.randint(1, 5) for a in (left, top))
        if reach == 0:
            right, bottom = min(right, width), min(bottom, height)
        expected = [
            [int(picture[y, x]) if 0 <= y < height and 0 <= x < width else 0 for x in range(left, right)]
            for y in range(top, bottom)
        ]
        trial.begin(f"a picture of {height}×{width}, the box {(left, top, right, bottom)}", f"{expected}",
                    f"The result is {bottom - top} high and {right - left} wide wherever the box lies; each pixel keeps its place, "
                    "and outside the picture it is black, 0.")  # fmt: skip
        came = np.asarray(trial.answer(picture.copy(), (left, top, right, bottom)))
        if came.tolist() != expected:
            trial.fail(show(came.tolist()))
    return "150 random boxes, most of them across the border"


def crop(picture: np.ndarray, box: pictures.Box) -> np.ndarray:
    """The pixels in a box (left, top, right, bottom), always of its size; 0 beyond the picture (H, W)."""
    left, top, right, bottom = box
    wide = np.pad(picture, 12)
    return wide[top + 12 : bottom + 12, left + 12 : right + 12]


# --- 12.3 -------------------------------------------------------------------------------------------------

Reader = Callable[[int, np.ndarray], int]


def _readers(rng: random.Random) -> dict[str, Reader]:
    """Policies by what they go by; a task is a hint and a picture whose brightness is the class."""
    clumsy = [rng.random() < 0.3 for _ in range(10_000)]

    def seen(picture: np.ndarray) -> int:
        return int(picture.max())

    return {
        "one that reads the picture": lambda hint, picture: seen(picture),
        "one that reads the hint alone": lambda hint, picture: hint,
        "one that always says 0": lambda hint, picture: 0,
        "one that reads the picture and slips": lambda hint, picture: (
            0 if clumsy[int(picture.sum()) % 10_000] else seen(picture)
        ),
        "one that reads the picture, and the hint in the dark": lambda hint, picture: (
            seen(picture) if picture.any() else hint
        ),
    }


def _tasks(rng: random.Random, classes: int) -> list[tuple[int, np.ndarray, int]]:
    """(hint, picture, class), every class as often; the hint is right in half of them."""
    tasks = []
    for label in list(range(classes)) * 12:
        picture = np.full((4, 4), label)
        picture[rng.randrange(4)] = rng.randint(0, label)
        tasks.append((label if rng.random() < 0.5 else rng.randrange(classes), picture, label))
    rng.shuffle(tasks)
    return tasks


def check_reliance(trial: Trial) -> str:
    for _ in range(12):
        classes = trial.rng.randint(2, 9)
        for name, reader in _readers(trial.rng).items():
            tasks = _tasks(trial.rng, classes)
            black = np.zeros((4, 4), int)
            right, blind = (
                sum(reader(hint, p if see else black) == label for hint, p, label in tasks) / len(tasks)
                for see in (True, False)
            )
            expected = (right - blind) / (1 - 1 / classes)
            trial.begin(f"{name}; {classes} classes, {len(tasks)} tasks", f"{expected:.4f}",
                        "Right with the picture less right without it, over what a blind guesser leaves to be won, 1 − 1/classes. "
                        "Only the picture is blanked, in a copy; the hint stays.")  # fmt: skip
            before = [(h, p.copy(), label) for h, p, label in tasks]
            (came,) = numbers(trial, [trial.answer(reader, tasks, classes)], (1,)).tolist()
            if any((p != q).any() for (_, p, _), (_, q, _) in zip(tasks, before)):
                trial.fail(
                    "the pictures of the tasks were changed",
                    "Blank a copy: the reader's tasks must stay as they are.",
                )
            if not abs(came - expected) <= 1e-9:  # nan is wrong too
                trial.fail(f"{came:.4f}")
    return "60 sets of tasks: readers, followers of the hint, and those in between"


def reliance(reader: Reader, tasks: Sequence[tuple[int, np.ndarray, int]], classes: int) -> float:
    """(seen − blind) / (1 − 1/classes) of reader(hint, picture) → class on (hint, picture, class); blind: all pixels 0."""
    seen = sum(reader(hint, picture) == label for hint, picture, label in tasks) / len(tasks)
    blind = sum(reader(hint, np.zeros_like(picture)) == label for hint, picture, label in tasks) / len(tasks)
    return (seen - blind) / (1 - 1 / classes)


def _reliance_in_place(reader, tasks, classes):
    seen = sum(reader(hint, picture) == label for hint, picture, label in tasks) / len(tasks)
    for _, picture, _ in tasks:
        picture[:] = 0
    return (seen - sum(reader(hint, picture) == label for hint, picture, label in tasks) / len(tasks)) / (
        1 - 1 / classes
    )


# --- 12.4 -------------------------------------------------------------------------------------------------


def check_curious(trial: Trial) -> str:
    rng = trial.rng
    for _ in range(60):
        groups, tries = rng.randint(1, 4), rng.randint(2, 6)
        group = [g for g in range(groups) for _ in range(tries)]
        keen = [rng.random() for _ in range(groups)]
        calls = [rng.randint(1, 4) if rng.random() < keen[g] else 0 for g in group]
        reward = [float(rng.random() < 0.5) for _ in group]
        bonus, least, price, most = (
            rng.uniform(0.2, 1),
            rng.uniform(0.2, 0.9),
            rng.uniform(0.01, 0.1),
            rng.randint(1, 2),
        )
        expected, eager = [], []
        for r, n, g in zip(reward, calls, group):
            peers = [c for c, other in zip(calls, group) if other == g]
            rate = sum(c > 0 for c in peers) / len(peers)
            eager.append(bonus * max(least - rate, 0) if n else 0.0)
            expected.append(r + eager[-1] - price * max(n - most, 0))
        trial.begin(f"calls {calls} in groups {group}, H = {least:.2f}, α = {bonus:.2f}, β = {price:.2f}, N = {most}",
                    show([round(x, 3) for x in expected]),
                    "The bonus is for tries that call a tool, in groups where fewer than H do; calls beyond N cost β each.")  # fmt: skip
        tensors = (torch.tensor(reward), torch.tensor(calls), torch.tensor(group))
        came = numbers(trial, trial.answer(*tensors, bonus, least, price, most), (len(group),)).tolist()
        off = [i for i, (a, b) in enumerate(zip(came, expected)) if not abs(a - b) <= 1e-5]
        if off:
            _explain(trial, came[off[0]], expected[off[0]], calls[off[0]], eager[off[0]])
    return "60 random batches, try by try against a plain loop over the formula"


def _explain(trial: Trial, came: float, expected: float, calls: int, eager: float) -> None:
    hint = (
        "The bonus fades with the share of the try's own group that calls; only calls beyond N have a price."
    )
    if eager and abs(came - expected + eager) < 1e-5:
        hint = "This try called a tool where few do, and got no bonus at all: whom does the rate count?"
    trial.fail(f"{came:.3f} for a try with {calls} calls", hint, f"{expected:.3f} for it")


def curious(
    reward: Tensor, calls: Tensor, group: Tensor, bonus: float, least: float, price: float, most: int
) -> Tensor:
    """r + α max(H − rate of the group, 0) for tries that call, − β max(calls − N, 0), all (B,)."""
    eager = curiosity(calls > 0, group, least)
    return reward + bonus * eager - price * (calls - most).clamp(min=0)


# What the chapter hands out: every try counts as one that called, so no group ever seems to need the bonus.
curious_with_bug = changed(curious, "calls > 0", "calls >= 0")


# fmt: off
EXERCISES = (
    Exercise(
        "12.1",
        "iou(told, wanted): intersection over union of two boxes (left, top, right, bottom), 0 where one is empty.",
        check_iou, iou,
        (
            Wrong(changed(iou, "max(0, width) * max(0, height)", "width * height"),
                  "multiplies two negative sides", "must not make an area"),
            Wrong(lambda a, b: pictures.common(a, b) / max(1, pictures.area(b)),
                  "divides by the wanted box alone, so that a large box wins", "divided by those in either"),
            Wrong(changed(iou, ") - both", ")"), "counts the common pixels twice", "divided by those in either"),
            Wrong(changed(iou, "both / either if either else 0.0", "both / either"), "divides by zero", "ZeroDivisionError"),
            Wrong(lambda a, b: float(a == b and pictures.area(a) > 0), "gives no partial credit", "divided by those in either"),
        ),
    ),
    Exercise(
        "12.2",
        "crop(picture, box): the pixels in a box, always of its size, 0 beyond the border.",
        check_crop, crop,
        (
            Wrong(lambda p, b: p[b[1]:b[3], b[0]:b[2]], "takes negative indices from the other end", "wherever the box lies"),
            Wrong(lambda p, b: p[max(b[1], 0):max(b[3], 0), max(b[0], 0):max(b[2], 0)], "returns a smaller picture",
                  "wherever the box lies"),
            Wrong(lambda p, b: crop(p, (b[1], b[0], b[3], b[2])), "exchanges rows and columns", "wherever the box lies"),
            Wrong(lambda p, b: np.pad(p, 12, "edge")[b[1] + 12:b[3] + 12, b[0] + 12:b[2] + 12],
                  "repeats the border instead of black", "it is black"),
        ),
    ),
    Exercise(
        "12.3",
        "reliance(reader, tasks, classes): how much of what can be won by looking is won by looking.",
        check_reliance, reliance,
        (
            Wrong(_reliance_in_place, "blanks the tasks themselves", "Blank a copy"),
            Wrong(changed(reliance, " / (1 - 1 / classes)", ""), "leaves the chance out", "blind guesser"),
            Wrong(lambda reader, tasks, classes: (sum(reader(h, p) == y for h, p, y in tasks) / len(tasks) - 1 / classes)
                  / (1 - 1 / classes), "never blanks the picture", "right without it"),
            Wrong(changed(reliance, "reader(hint, np.zeros_like(picture))", "reader(0, np.zeros_like(picture))"),
                  "takes the hint away too", "the hint stays"),
        ),
    ),
    Exercise(
        "12.4",
        "curious(reward, calls, group, bonus, least, price, most): Pixel Reasoner's reward, without its bug.",
        check_curious, curious,
        (
            Wrong(curious_with_bug, "counts every try as a caller, so that the bonus is always 0", "whom does the rate count"),
            Wrong(changed(curious, "group, least", "torch.zeros_like(group), least"),
                  "takes the rate of the whole batch", "own group"),
            Wrong(changed(curious, "(calls - most).clamp(min=0)", "calls"), "charges for the first call", "only calls beyond N"),
            Wrong(changed(curious, "bonus * eager", "bonus * (eager > 0)"), "pays a bonus that does not fade", "own group"),
        ),
    ),
    *SOUND,
)
# fmt: on
