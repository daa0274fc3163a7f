"""Glimpse: real handwritten digits on a canvas, seen from afar; questions about them, tools to look closer."""

import functools
import random

import numpy as np

from .. import pictures
from ..models.tokenizer import END
from .base import Env, Reply, act, malformed, parse_act, within

SIDE, DIGIT = 24, 8  # pixels of the canvas and of a digit
BRIGHT, INK = 16, 4  # the brightest value, the least one that counts as ink
SPOTS = 5  # rows and columns of places that a digit or a look may take, 4 pixels apart
LESSONS, HELD_OUT = 2**20, 2**30  # seeds below, between and from there on have images of their own
MIRROR = 2**40  # seed + MIRROR: the canvas with left and right exchanged, the digits themselves as they were
LETTERS = "abcdefghijklmnopqrstuvwxy"  # 0 to 24 pixels, one token each
TASKS = ("name", "sum", "box", "side")
TOOLS = ("look", "crop", "contrast", "count")


@functools.cache
def digit_images() -> tuple[np.ndarray, np.ndarray]:
    """The digits of scikit-learn (UCI, CC BY 4.0): 1,797 images (n, 8, 8), 0 to 16 bright; what they show (n,)."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    return digits.images, digits.target


class Glimpse(Env):
    """`digits` images on a 24×24 canvas, shown `scale` times smaller and `dim` times darker; one question
    about them.

    ` name` → ` 7<end>`, with two digits ` name left` or ` name right`; ` sum` → the digits from left to right
    and the last digit of their sum, ` 7 5 = 2<end>`; ` box 7` → left, top, right and bottom of its ink, ` i e
    p m<end>` (a = 0, y = 24); ` side 7 5` → which one stands left of the other, ` 5 left 7<end>`. `pay` says
    what earns the reward: 'right' the right answer (a box: IoU, right from 0.5 on), 'partial' also half a
    point for the share of digits named right, 'covered' the share of the ink's box that is covered. hint:
    with it ` hint 7` comes first, the right answer in this share of tasks.

    Tools, where the world has them, at most `turns` turns in all: `look r c` and `crop r c` bring the 8×8
    pixels from row 4r, column 4c in full size (a look brightened, a crop as dark as the canvas); `contrast`
    the whole canvas, small but brightened; `count` how many digits there are.

    A sample: `<user> name<patch 24 24 …>…<bot><act> look 2 3</act><obs><patch 2 3 …>…</obs> 7<end>` and the
    reward is 1.
    """

    words = f" name sum = box side left right hint {' '.join(TOOLS)} error say act no {' '.join(LETTERS)}"

    def __init__(
        self, task: str = "name", digits: int = 1, scale: int = 3, tools: tuple[str, ...] = (), dim: float = 1.0,
        pay: str = "right", hint: float | None = None, turns: int = 4,
    ):  # fmt: skip
        if task not in TASKS or not set(tools) <= set(TOOLS) or pay not in ("right", "partial", "covered"):
            raise ValueError(
                f"unknown task {task!r}, tools {tools} or pay {pay!r}; tasks {TASKS}, tools {TOOLS}"
            )
        if not 1 <= digits <= 4 or (digits < 2 and task == "side") or scale not in (1, 2, 3):
            raise ValueError(
                f"expected 1 to 4 digits (side: 2 or more), scale 1, 2 or 3; got {digits}, {scale}"
            )
        self.task, self.digits, self.scale, self.tools = task, digits, scale, tools
        self.dim, self.pay, self.hint, self.turns = dim, pay, hint, turns

    def reset(self, seed: int) -> str:
        mirrored, seed = divmod(seed, MIRROR)
        rng = random.Random(f"glimpse {seed}")
        images, labels = digit_images()
        pool = (
            range(600)
            if seed < LESSONS
            else range(600, 1400)
            if seed < HELD_OUT
            else range(1400, len(labels))
        )
        picks = self._distinct(rng, pool, labels)
        spots = self._spots(rng)
        if mirrored:
            spots = [(r, SPOTS - 1 - c) for r, c in spots]
        shown = sorted(zip(spots, picks), key=lambda item: item[0][1])  # from left to right
        self.canvas = np.zeros((SIDE, SIDE))
        self.places, self.values = [], []
        for (r, c), pick in shown:
            self.canvas[4 * r : 4 * r + DIGIT, 4 * c : 4 * c + DIGIT] = images[pick]
            self.places.append((r, c))
            self.values.append(int(labels[pick]))
        self.turn, self.calls, self.looks = 0, [], []  # calls: those that a tool answered
        order = range(self.digits)[:: -1 if mirrored else 1]  # the same digits are asked for in both views
        text = self._ask(random.Random(f"question {seed}"), order)
        return text + self._view(self.canvas * self.dim)

    def _distinct(self, rng: random.Random, pool: range, labels: np.ndarray) -> list[int]:
        picks: list[int] = []
        while len(picks) < self.digits:
            pick = rng.choice(pool)
            if labels[pick] not in labels[picks]:
                picks.append(pick)
        return picks

    def _spots(self, rng: random.Random) -> list[tuple[int, int]]:
        """Places that neither overlap nor share a column."""
        while True:
            spots = [(rng.randrange(SPOTS), rng.randrange(SPOTS)) for _ in range(self.digits)]
            pairs = [(a, b) for i, a in enumerate(spots) for b in spots[:i]]
            if all(a[1] != b[1] and max(abs(a[0] - b[0]), abs(a[1] - b[1])) > 1 for a, b in pairs):
                return spots

    def _ask(self, rng: random.Random, order: range) -> str:
        self.asked, other = rng.sample(order, 2) if self.digits > 1 else (0, 0)
        value, text = self.values[self.asked], f" {self.task}"
        if self.task == "name":
            if self.digits > 1:
                self.asked, side = rng.choice(((0, " left"), (self.digits - 1, " right")))
                value, text = self.values[self.asked], text + side
            self.answer = f" {value}"
        elif self.task == "sum":
            self.answer = f"{self.read} = {sum(self.values) % 10}"
        elif self.task == "box":
            text += f" {value}"
            self.answer = "".join(f" {LETTERS[edge]}" for edge in self.box)
        else:
            text += f" {value} {self.values[other]}"
            self.answer = f" {self.values[min(self.asked, other)]} left {self.values[max(self.asked, other)]}"
        if self.hint is None:
            return text
        right = int(self.answer[-1]) if self.answer[-1].isdigit() else value
        self.hinted = right if rng.random() < self.hint else (right + rng.randint(1, 9)) % 10
        return f" hint {self.hinted}{text}"

    @property
    def read(self) -> str:
        """The digits from left to right."""
        return "".join(f" {value}" for value in self.values)

    @property
    def box(self) -> pictures.Box:
        """The smallest box around the ink of the digit asked for."""
        r, c = self.places[self.asked]
        rows, columns = np.nonzero(self.canvas[4 * r : 4 * r + DIGIT, 4 * c : 4 * c + DIGIT] >= INK)
        return tuple(
            int(x)
            for x in (
                4 * c + columns.min(),
                4 * r + rows.min(),
                4 * c + columns.max() + 1,
                4 * r + rows.max() + 1,
            )
        )

    def _view(self, canvas: np.ndarray) -> str:
        """The whole canvas, `scale` times smaller; its places lie beside those of other sizes."""
        corner = 8 * self.scale
        return pictures.write(pictures.grey(pictures.shrink(canvas, self.scale), BRIGHT), (corner, corner))

    def _window(self, r: int, c: int, bright: float) -> str:
        box = (4 * c, 4 * r, 4 * c + DIGIT, 4 * r + DIGIT)
        place = self.places[self.asked]
        self.looks.append(
            pictures.iou(box, (4 * place[1], 4 * place[0], 4 * place[1] + DIGIT, 4 * place[0] + DIGIT))
        )
        return pictures.write(pictures.grey(pictures.look(self.canvas, r, c) * bright, BRIGHT), (r, c))

    def step(self, said: str) -> Reply:
        if said.endswith(END):
            return self._judge(said.removesuffix(END))
        self.turn += 1
        return within(self._tool(parse_act(said)), self.turn, self.turns)

    def _tool(self, words: list[str] | None) -> Reply:
        match words:
            case ["look" | "crop" as tool, r, c] if tool in self.tools and {r, c} <= set("01234"):
                text = self._window(int(r), int(c), 1.0 if tool == "look" else self.dim)
            case ["contrast"] if "contrast" in self.tools:
                text = self._view(self.canvas)
            case ["count"] if "count" in self.tools:
                text = f" {self.digits}"
            case None:
                return malformed("say act", **self._info())
            case _:
                return Reply(" no", info=self._info() | {"illegal": True})
        self.calls.append(words[0])
        return Reply(text, info=self._info())

    def _info(self) -> dict:
        return {"calls": list(self.calls), "looks": list(self.looks)}

    def _judge(self, answer: str) -> Reply:
        told, wanted = (text.rpartition("=")[2].split() for text in (answer, self.answer))
        info = self._info() | {"answer": answer.strip(), "values": list(self.values)}
        if self.hint is not None:
            info["hint_right"] = str(self.hinted) == wanted[0]
        if self.task == "box":
            return self._judge_box(answer, info)
        right = told == wanted
        named = [a == str(b) for a, b in zip(answer.partition("=")[0].split(), self.values)]
        share = sum(named) / self.digits
        reward = right if self.pay != "partial" else (right + share) / 2
        return Reply(reward=float(reward), done=True, info=info | {"success": right, "share": share})

    def _judge_box(self, answer: str, info: dict) -> Reply:
        edges = answer.split()
        told = (
            tuple(map(LETTERS.find, edges))
            if len(edges) == 4 and set(edges) <= set(LETTERS)
            else (0, 0, 0, 0)
        )
        iou, covered = pictures.iou(told, self.box), pictures.common(told, self.box) / pictures.area(self.box)
        info |= {"iou": iou, "area": pictures.area(told), "success": iou >= 0.5}
        return Reply(reward=covered if self.pay == "covered" else iou, done=True, info=info)

    def expert(self) -> str:
        """Looks at the right place where it can and has not yet, then answers."""
        tool = next((t for t in ("look", "crop") if t in self.tools), None)
        if tool and not self.looks:
            return act(f"{tool} {' '.join(map(str, self.places[self.asked]))}")
        return self.answer + END

    def random(self, rng: random.Random) -> str:
        """A look at any place, or any answer of the right form."""
        if self.tools and rng.random() < 0.5:
            return act(f"{rng.choice(self.tools)} {rng.randrange(SPOTS)} {rng.randrange(SPOTS)}")
        if self.task == "box":
            return "".join(f" {rng.choice(LETTERS)}" for _ in range(4)) + END
        if self.task == "side":
            return f" {' left '.join(map(str, rng.sample(self.values, 2)))}{END}"
        return f" {rng.randrange(10)}{END}"

    def render_chat(self) -> str:
        return (
            "Each <patch row column pixels> is 4 by 4 pixels of a picture, from 0 (dark) to 7 (bright). "
            "Answer the question about the handwritten digits in it. " + (super().render_chat() if self.tools else "")
        ).strip()
