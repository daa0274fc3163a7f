"""Bootcamp: eight kinds of small puzzles under one roof, each paid 1 for the exact answer and 0 for anything else."""

import random

from .base import Env, Reply, malformed
from .calc import Calc
from .chain import Chain
from ..models.tokenizer import ACT_END, END

BRACKETS = {"(": ")", "[": "]"}


def parity(rng: random.Random, size: int) -> tuple[str, str]:
    """Is the number of ones even or odd?"""
    bits = [rng.randint(0, 1) for _ in range(size)]
    return f" {_spaced(bits)} =", " odd" if sum(bits) % 2 else " even"


def sort(rng: random.Random, size: int) -> tuple[str, str]:
    """Digits from small to large."""
    digits = [rng.randint(0, 9) for _ in range(size)]
    return f" {_spaced(digits)} =", f" {_spaced(sorted(digits))}"


def brackets(rng: random.Random, size: int) -> tuple[str, str]:
    """Close what is open: one to `size` brackets, some closed already."""
    still_open, shown = [], []
    for _ in range(size):
        still_open.append(rng.choice(tuple(BRACKETS)))
        shown.append(still_open[-1])
        if len(still_open) > 1 and rng.random() < 0.4:
            shown.append(BRACKETS[still_open.pop()])
    return f" {' '.join(shown)} =", f" {' '.join(BRACKETS[b] for b in reversed(still_open))}"


def count(rng: random.Random, size: int) -> tuple[str, str]:
    """How often does a digit occur? Few different digits, so that it often does."""
    few = rng.sample(range(10), 2)
    digits = [rng.choice(few) for _ in range(size)]
    return f" {few[0]} in {_spaced(digits)} =", f" {digits.count(few[0])}"


def copy(rng: random.Random, size: int) -> tuple[str, str]:
    """The same digits once more."""
    digits = [rng.randint(0, 9) for _ in range(size)]
    return f" {_spaced(digits)} =", f" {_spaced(digits)}"


def lookup(rng: random.Random, size: int) -> tuple[str, str]:
    """The value of a key in a table."""
    keys = rng.sample(range(10), size)
    table = {key: rng.randint(0, 9) for key in keys}
    key = rng.choice(keys)
    return f" {key} in {' , '.join(f'{k} : {v}' for k, v in table.items())} =", f" {table[key]}"


def _spaced(digits) -> str:
    return " ".join(map(str, digits))


PUZZLES = {f.__name__: f for f in (parity, sort, brackets, count, copy, lookup)}
KINDS = (*PUZZLES, "chain", "calc")


class Bootcamp(Env):
    """One puzzle of one kind; the kind and its size, from `sizes`, are drawn by the seed.

    The first word of the task is its kind: ` sort 3 1 2 =` wants ` 1 2 3<end>`, ` brackets ( [ ] =` wants `
    )<end>`, ` parity 1 0 1 =` ` even<end>`, ` count 4 in 4 7 4 =` ` 2<end>`, ` copy 3 1 =` ` 3 1<end>`, `
    lookup 4 in 3 : 7 , 4 : 1 =` ` 1<end>`. `chain` and `calc` hand over to the worlds of that name (a chain
    of `size` additions; sums and products with

    A sample: `<user> lookup 4 in 3 : 7 , 4 : 1 =<bot> 1<end>` and the reward is 1.
    """

    words = f" {' '.join(KINDS)} in : , = ( ) [ ] even odd {Chain.words} {Calc.words}"

    def __init__(self, kinds: tuple[str, ...] = KINDS, sizes: tuple[int, int] = (2, 5)):
        if not kinds or set(kinds) - set(KINDS):
            raise ValueError(f"kinds must be among {', '.join(KINDS)}, got {kinds}")
        if not 1 <= sizes[0] <= sizes[1] <= 9:
            raise ValueError(f"sizes must be a range within 1 to 9, got {sizes}")
        self.kinds, self.sizes, self.within = kinds, sizes, None

    def drawn(self, seed: int) -> tuple[str, int]:
        """The kind and the size of a seed's task, without starting it."""
        rng = random.Random(f"bootcamp {seed}")
        return rng.choice(self.kinds), rng.randint(*self.sizes)

    def reset(self, seed: int) -> str:
        self.kind, self.size = self.drawn(seed)
        if self.kind in PUZZLES:
            self.within = None
            task, self.answer = PUZZLES[self.kind](random.Random(f"{self.kind} {seed}"), self.size)
        else:
            self.within = Chain((self.size, self.size)) if self.kind == "chain" else Calc()
            task = self.within.reset(seed)
        return f" {self.kind}{task}"

    def step(self, said: str) -> Reply:
        if self.within is not None:
            reply = self.within.step(said)
            reply.info.update(self._info())
            return reply
        if said.endswith(ACT_END):
            return malformed("say number", **self._info())
        right = said == self.answer + END
        return Reply(reward=float(right), done=True, info={"success": right, **self._info()})

    def _info(self) -> dict:
        return {"puzzle": self.kind, "size": self.size}

    def expert(self) -> str:
        return self.answer + END if self.within is None else self.within.expert()

    def random(self, rng: random.Random) -> str:
        """The right answer to another puzzle of this kind and size."""
        if self.within is not None:
            return self.within.random(rng)
        return PUZZLES[self.kind](rng, self.size)[1] + END

    def render_chat(self) -> str:
        if self.within is not None:
            return self.within.render_chat()
        return (
            "Solve the puzzle; its first word says what is wanted: the parity of the ones (even or odd), the digits sorted, the "
            "closing brackets still missing, how often a digit occurs, a copy, or the value of a key. Write the answer alone."
        )
