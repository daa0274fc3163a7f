"""Calc: small sums and products in words; the policy may call a tool in the middle of its answer."""

import ast
import operator
import random

from .base import Env, Reply, act, malformed, parse_act
from ..models.tokenizer import ACT_END, END

OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.USub: operator.neg, ast.UAdd: operator.pos,
}  # fmt: skip
THINGS = ("pens", "cups", "eggs", "nuts")
LARGEST = 10**12


def evaluate(expression: str) -> int:
    """The value of an arithmetic expression of whole numbers; ValueError for anything else.

    Parsed by Python, walked by hand: names, calls, powers, comparisons, loops, texts and numbers beyond 10¹² are
    refused, so nothing a policy writes can run code or take long.
    """
    if len(expression) > 60:
        raise ValueError("expression is too long")
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ZeroDivisionError, MemoryError, RecursionError) as error:
        raise ValueError(type(error).__name__) from error


def _value(node: ast.AST) -> int:
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            pass
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            value = OPERATORS[type(op)](_value(left), _value(right))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATORS:
            value = OPERATORS[type(op)](_value(operand))
        case _:
            raise ValueError(f"{type(node).__name__} is not arithmetic")
    if abs(value) > LARGEST:
        raise ValueError("number is too large")
    return value


class Calc(Env):
    """One question with a whole number as answer.

    Kinds of task: `sum` (two one-digit numbers, ` 3 pens and 5 pens`) and `product` (two two-digit numbers,
    ` 47 boxes of 83 pens`). The policy answers ` 3901<end>`, or calls a tool first:
    `<act> py 47*83</act><obs> 3901</obs> 3901<end>`. In a share `failing` of the tasks the tool `py` is down, for the
    whole task, and answers ` down`; the tool `abacus` always works. `price` is taken from the reward for each call (a
    negative one is a bonus). Reward 1 for the exact answer.

    A sample: `<user> 47 boxes of 83 pens how many ?<bot><act> py 47*83</act><obs> down</obs><act> abacus 47*83</act>
    <obs> 3901</obs> 3901<end>` and the reward is 1 (with price 0.1: 0.8).
    """

    words = f" {' '.join(THINGS)} boxes of and how many ? + * - // py abacus down error say act or number"

    def __init__(
        self,
        kinds: tuple[str, ...] = ("sum", "product"),
        failing: float = 0.0,
        price: float = 0.0,
        tool: bool = True,
        calls: int = 6,
    ):
        unknown = set(kinds) - {"sum", "product"}
        if unknown or not kinds:
            raise ValueError(f"kinds must be 'sum' or 'product', got {kinds}")
        if not 0 <= failing <= 1:
            raise ValueError(f"failing is a share in [0, 1], got {failing}")
        self.kinds, self.failing, self.price, self.tool, self.limit = kinds, failing, price, tool, calls

    def reset(self, seed: int) -> str:
        rng = random.Random(f"calc {seed}")
        self.kind, thing = rng.choice(self.kinds), rng.choice(THINGS)
        low, high = (0, 9) if self.kind == "sum" else (10, 99)
        a, b = rng.randint(low, high), rng.randint(low, high)
        self.down = rng.random() < self.failing
        self.expression = f"{a}{'+' if self.kind == 'sum' else '*'}{b}"
        self.calls, self.failed, self.switched = 0, 0, False
        if self.kind == "sum":
            return f" {a} {thing} and {b} {thing} how many ?"
        return f" {a} boxes of {b} {thing} how many ?"

    def step(self, said: str) -> Reply:
        if said.endswith(ACT_END):
            return self._call(parse_act(said))
        answer = said.rpartition(ACT_END)[2].removesuffix(END).strip()
        right = said.endswith(END) and answer == str(evaluate(self.expression))
        reward = float(right) - self.price * self.calls
        return Reply(reward=reward, done=True, info=self._info(success=right))

    def _info(self, **more) -> dict:
        """calls made; failed: those that a tool which is down got; switched: the other tool was called after one."""
        counts = {"calls": self.calls, "failed": self.failed, "switched": self.switched}
        return {"kind": self.kind, **counts, **more}

    def _call(self, words: list[str] | None) -> Reply:
        self.calls += 1
        if self.calls > self.limit:
            return Reply(reward=-self.price * self.calls, truncated=True, info=self._info(success=False))
        if not self.tool or words is None or words[0] not in ("py", "abacus"):
            return malformed("say number" if not self.tool else "say py", **self._info())
        if words[0] == "py" and self.down:
            self.failed += 1
            return Reply(" down", info=self._info())
        self.switched = self.failed > 0
        try:
            return Reply(f" {evaluate(' '.join(words[1:]))}", info=self._info())
        except ValueError:
            return malformed("py", **self._info())

    def expert(self) -> str:
        """Calls `py`, or `abacus` where that is down, then repeats the answer."""
        if self.tool and self.calls == self.failed:
            return act(f"{'abacus' if self.failed else 'py'} {self.expression}")
        return f" {evaluate(self.expression)}{END}"

    def random(self, rng: random.Random) -> str:
        """A call of the right expression (where there is a tool) or a random number, half of the time each."""
        return act(f"py {self.expression}") if self.tool and rng.random() < 0.5 else f" {rng.randint(0, 99)}{END}"

    def render_chat(self) -> str:
        return (
            "Answer with a whole number. You may compute first by writing <act> py EXPRESSION </act> or "
            "<act> abacus EXPRESSION </act>; the value comes back between <obs> and </obs>. "
            "Then write the number alone."
        )
