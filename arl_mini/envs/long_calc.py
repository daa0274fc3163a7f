"""LongCalc: products of three digits by three, which no small model knows by heart."""

import random

from .calc import THINGS, Calc


class LongCalc(Calc):
    """Calc with one kind of task, `long`: a product of two three-digit numbers, ` 347 boxes of 283 pens`.

    Tools, price and reward are those of Calc.

    A sample: `<user> 347 boxes of 283 pens how many ?<bot><act> py 347*283</act><obs> 98201</obs> 98201<end>`
    and the reward is 1.
    """

    def reset(self, seed: int) -> str:
        super().reset(seed)
        rng = random.Random(f"long calc {seed}")
        a, b = rng.randint(100, 999), rng.randint(100, 999)
        self.kind, self.expression = "long", f"{a}*{b}"
        return f" {a} boxes of {b} {rng.choice(THINGS)} how many ?"
