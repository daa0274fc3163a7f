"""PyFunc: examples of a function; write it in Python, and real Python says what it does."""

import functools
import random
from collections.abc import Callable

from .base import Env, Reply, act, malformed, parse_act, within
from ..models.tokenizer import ACT, ACT_END

# Kind → an expression of x with constants a and b, and the inputs it is asked about.
NUMBERS = {
    "line": "x * {a} + {b}", "square": "x * x + {a}", "rest": "x % {a} + {b}", "share": "x // {a} + {b}",
}  # fmt: skip
LISTS = {
    "spread": "max ( x ) - min ( x )", "total": "sum ( x ) + {a}", "size": "len ( x ) * {a}", "ends": "x [ 0 ] + x [ - 1 ]",
    "order": "sorted ( x ) [ 1 ]",
}  # fmt: skip
KINDS = NUMBERS | LISTS
# What Python calls a fault → the word the policy reads.
FAULTS = {
    "SyntaxError": "syntax", "NameError": "name", "TypeError": "type", "ValueError": "value", "IndexError": "index",
    "ZeroDivisionError": "zero", "RecursionError": "deep",
}  # fmt: skip
Runner = Callable[[str, dict], object]  # (code, inputs) → an outcome with status, value, error


class PyFunc(Env):
    """A function of one number or one list, told by examples; up to `tries` answers, each run and judged.

    The task: ` f ( 3 ) = 7 ; f ( 0 ) = 1 ; f ( 5 ) = 11`. The policy writes the body of the function as an action,
    `<act> return x * 2 + 1</act>`; statements before it end with `;`. Three shown examples and five hidden ones are run. Where
    all hold the task is solved, reward 1. Else the reply names the first that fails, ` f ( 5 ) = 10 not 11`, or the fault,
    ` error name`, or ` hidden`. What the policy wrote runs in `trust.Subset`; the verdict is made outside of it.

    A sample: `<user> f ( 3 ) = 7 ; f ( 0 ) = 1 ; f ( 5 ) = 11<bot><act> return x * 2</act><obs> f ( 3 ) = 6 not 7</obs>
    <act> return x * 2 + 1</act>` and the reward is 1.
    """

    words = (
        " f ( ) = ; return x y + - * / // % [ ] , max min sum len sorted not hidden error say act nothing a time "
        + " ".join(FAULTS.values())
    )  # fmt: skip

    def __init__(self, kinds: tuple[str, ...] = tuple(KINDS), tries: int = 3, run: Runner | None = None):
        if not kinds or set(kinds) - set(KINDS):
            raise ValueError(f"kinds must be among {', '.join(KINDS)}, got {kinds}")
        if tries < 1:
            raise ValueError(f"tries must be at least 1, got {tries}")
        self.kinds, self.tries, self.run = kinds, tries, run

    def __deepcopy__(self, memo) -> "PyFunc":
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))  # texts, numbers and lists that are never changed in place
        return twin

    def reset(self, seed: int) -> str:
        rng = random.Random(f"pyfunc {seed}")
        while True:
            self.kind = rng.choice(self.kinds)
            low = 2 if self.kind in ("rest", "share") else 0
            self.expression = KINDS[self.kind].format(a=rng.randint(max(low, 1), 5), b=rng.randint(0, 5))
            inputs = [self._input(rng) for _ in range(8)]
            expected = [_value(self.expression, x) for x in inputs]
            if len({*map(str, inputs)}) >= 6 and len(set(expected[:3])) == 3 and 0 <= min(expected) <= max(expected) < 100:
                break
        self.inputs, self.expected, self.tried = inputs, expected, 0
        return " ;".join(f" f ( {_words(x)} ) = {_words(y)}" for x, y in list(zip(inputs, expected))[:3])

    def _input(self, rng: random.Random):
        if self.kind in NUMBERS:
            return rng.randint(0, 9 if self.kind == "square" else 12)
        return [rng.randint(0, 9) for _ in range(rng.randint(2, 4))]

    def step(self, said: str) -> Reply:
        self.tried += 1
        if parse_act(said) is None:
            reply = malformed("say act", **self._info(ran=False))
        else:
            reply = self._judged(said.partition(ACT)[2].rstrip().removesuffix(ACT_END).strip())
        return within(reply, self.tried, self.tries)

    def _judged(self, body: str) -> Reply:
        code = "def f(x):\n  " + "\n  ".join(line.strip() for line in body.split(";")) + "\n[f(x) for x in inputs]"
        outcome = (self.run or _subset())(code, {"inputs": self.inputs})
        info = self._info(ran=outcome.status == "ok")
        if outcome.status != "ok":
            return Reply(f" error {_fault(outcome)}", info=info)
        came = outcome.value if isinstance(outcome.value, list) else []
        for number, (x, wanted) in enumerate(zip(self.inputs, self.expected)):
            given = came[number] if number < len(came) else None
            if type(given) is not int or given != wanted:
                if number >= 3:
                    return Reply(" hidden", info=info)
                shown = _words(given) if type(given) is int and abs(given) < 1000 else "nothing"
                return Reply(f" f ( {_words(x)} ) = {shown} not {_words(wanted)}", info=info)
        return Reply(reward=1.0, done=True, info={**info, "success": True})

    def _info(self, **more) -> dict:
        return {"kind": self.kind, "tried": self.tried, **more}

    def expert(self) -> str:
        """The function itself."""
        return act(f"return {self.expression}")

    def random(self, rng: random.Random) -> str:
        """Some function of some kind."""
        body = KINDS[rng.choice(tuple(KINDS))].format(a=rng.randint(1, 5), b=rng.randint(0, 5))
        return act(f"return {body}")

    def render_chat(self) -> str:
        return (
            "Write the body of a Python function f(x) that agrees with the examples, in one line; separate statements with "
            "semicolons. Write it between tags, such as <act> return x + 1 </act>. If a test fails you are told which one, "
            f"between <obs> and </obs>; you have {self.tries} tries."
        )


def _value(expression: str, x) -> int:
    names = {"max": max, "min": min, "sum": sum, "len": len, "sorted": sorted}
    return eval(expression, {"__builtins__": {}}, {**names, "x": x})  # ours, from the table above


def _words(value) -> str:
    """A value as the world writes it: brackets, commas and signs as words of their own."""
    if isinstance(value, list):
        return f"[ {' , '.join(map(str, value))} ]"
    return str(value) if value >= 0 else f"- {-value}"


def _fault(outcome) -> str:
    """The word for a fault: Python's, or the limit that was met."""
    if outcome.status == "timeout":
        return "time"
    name = outcome.error.partition(":")[0]
    return FAULTS.get(name, "syntax" if outcome.status == "refused" else "value")


@functools.cache
def _subset() -> Runner:
    """One interpreter for all worlds of this process."""
    import atexit

    from ..trust.sandbox import Limits, Subset

    box = Subset(Limits(seconds=0.3, memory=16_000_000, output=1000, value=10_000))
    atexit.register(box.close)
    return box.run
