"""Chapter 08: a calculator that cannot be abused, a fair price for calls, the mask."""

import ast
import itertools
import math
import random
import re
import unicodedata
from collections.abc import Iterable
from numbers import Real

from ..envs.calc import evaluate
from ..lab.check import Trial, same, show
from . import Exercise, Wrong, changed
from .ch08_bug import EXERCISES as FIND_THE_BUG
from .ch08_filter import EXERCISES as FILTER

# --- 08.1 -------------------------------------------------------------------------------------------------

# Hint → texts. What goes wrong mildly comes before what would hang an evaluator that makes the same mistake.
HOSTILE = {
    "Powers grow without bound: 9**9**9 has 369,693,100 digits.": ("2**3", "2**10", "2**-1", "9**9**9"),
    "Only whole numbers, + - * // %, signs and brackets are allowed; all else is a ValueError.": (
        *("x", "abs", "True", "None", "...", "print(1)", "abs(-1)", "__import__('os').getpid()", "1 .real"),
        *("'a'", "'a'*9", "f'{1}'", "b'1'", "[1]", "(1, 2)", "()", "{1: 2}", "[0]*9", "().__class__", "7/2"),
        *("[x for x in (1, 2)]", "sum(x for x in (1, 2))", "(x := 5)", "x = 5", "lambda: 1", "1 if 1 else 2"),
        *("while 1: pass", "for x in (1,): x", "import os", "del x", "1; 2", "await x", "(yield)", "(1,)[0]"),
        *(
            "1 < 2",
            "1 == 1",
            "1 and 2",
            "not 1",
            "~1",
            "5 & 3",
            "5 | 3",
            "5 ^ 3",
            "5 @ 3",
            "1 << 4",
            "8 >> 1",
        ),
        *("1.5", "1e3", "2j", "1−1", "2×3", "1\0"),
    ),
    "What does not parse is a ValueError too.": ("", "   ", "(", "1 +", "+", "1 2", "1)", "(1"),
    "Dividing by zero raises ZeroDivisionError, which the tool does not expect.": ("7//0", "7%0"),
    "Python knows the digits of all scripts; here only 0 to 9 count.": ("٣+٤", "１+１", "²", "5²"),
    "A result can be large though each number is small.": ("1000000000001", "999999999999*999999999999"),
    "Look at the length first, 60 letters: a long text can exhaust the stack.": (
        *("+".join("1" * 31), "(" * 40 + "1" + ")" * 40, "-" * 60 + "1", "9" * 5000),
        *("-" * 3000 + "1", "(" * 3000 + "1" + ")" * 3000, "1" + "+1" * 3000),
    ),
}


def _expression(rng: random.Random, depth: int, largest: int) -> str:
    """A random legal expression of at most 2^depth numbers."""
    kind = rng.random()
    if depth == 0 or kind < 0.2:
        return str(rng.randint(0, largest))
    left, right = (_expression(rng, depth - 1, largest) for _ in range(2))
    if kind < 0.3:
        return f"-{left}"
    if kind < 0.5:
        return f"({left})"
    space = rng.choice(("", " "))
    return f"{left}{space}{rng.choice(('+', '-', '*', '//', '%'))}{space}{right}"


def _legal(rng: random.Random, depth: int) -> tuple[str, int]:
    """A random legal expression and its value according to Python; no number on the way is beyond 10¹²."""
    while True:
        text = _expression(rng, depth, 99 if depth < 3 else 9)
        try:
            value = eval(text)  # safe: made above of numbers, operators and brackets
        except ZeroDivisionError:
            continue
        if len(text) <= 60:
            return text, value


def check_evaluate(trial: Trial) -> str:
    for index in range(200):
        text, value = _legal(trial.rng, 1 + 3 * index // 200)
        trial.begin(f"evaluate({text!r})", f"{value}, as Python says", "The value is a whole number, an int.")
        came = trial.answer(text)
        if type(came) is not int or came != value:
            trial.fail(f"{type(came).__name__} {show(came)}")
    hostile = [(text, hint) for hint, texts in HOSTILE.items() for text in texts]
    for text, hint in hostile:
        trial.begin(f"evaluate({show(text)})", "ValueError", hint)
        try:
            came = trial.answer(text)
        except ValueError:
            continue
        trial.fail(show(came))
    return f"200 random expressions and {len(hostile)} hostile texts"


def evaluate_bare(text):
    try:
        return eval(text, {"__builtins__": {}})
    except Exception as error:
        raise ValueError(text) from error


def evaluate_letters(text):
    if not re.fullmatch(r"[0-9+*/%() -]+", text):
        raise ValueError(text)
    return evaluate_bare(text)


# --- 08.2 -------------------------------------------------------------------------------------------------

CALLS = 6  # the most that Calc allows


def check_reward(trial: Trial) -> str:
    table = {}
    for success, calls in itertools.product((True, False), range(CALLS + 1)):
        for busy in range(calls + 1):
            trial.begin(f"reward({success}, {calls}, {busy})", "a finite number", "Also in this case.")
            came = trial.answer(success, calls, busy)
            if not isinstance(came, Real) or not math.isfinite(came):
                trial.fail(f"{type(came).__name__} {show(came)}")
            table[success, calls, busy] = float(came)
    _check_retries(trial, table)
    worst = min((case for case in table if case[0]), key=table.get)
    best = max((case for case in table if not case[0]), key=table.get)
    trial.begin(
        f"a right answer reward{worst}, a wrong one reward{best}",
        "the right answer earns more",
        f"A right answer must beat a wrong one for all of up to {CALLS} calls: the price must stay small.",
    )
    if table[worst] <= table[best]:
        trial.fail(f"{table[worst]:g} for the right answer, {table[best]:g} for the wrong one")
    for _ in range(60):
        _check_spammer(trial, table, trial.rng.uniform(0, 0.8), trial.rng.randint(2, CALLS))
    _check_calls(trial, table)
    return f"up to {CALLS} calls and busy answers, and 60 random failure rates with 200 episodes each"


def _check_retries(trial: Trial, table: dict) -> None:
    for (success, calls, busy), paid in table.items():
        answered = calls - busy
        trial.begin(
            f"reward({success}, {calls}, {busy}): {busy} of {calls} calls were busy",
            f"{table[success, answered, 0]:g}, as without the busy ones: reward({success}, {answered}, 0)",
            "The policy cannot help that the tool is busy: retries must neither cost nor pay.",
        )
        if abs(paid - table[success, answered, 0]) > 1e-9:
            trial.fail(f"{paid:g}")


def _check_calls(trial: Trial, table: dict) -> None:
    for calls in range(CALLS):
        trial.begin(
            f"wrong answers: reward(False, {calls + 1}, 0) and reward(False, {calls}, 0)",
            "the answer with more calls earns no more",
            "A call for nothing must not pay, in a wrong answer either.",
        )
        more, fewer = table[False, calls + 1, 0], table[False, calls, 0]
        if more > fewer + 1e-9:
            trial.fail(f"{more:g} with {calls + 1} calls, {fewer:g} with {calls}")


def _check_spammer(trial: Trial, table: dict, rate: float, calls: int) -> None:
    """Both meet the same failures: the honest policy calls until it gets a result, the spammer regardless."""
    honest = spam = 0.0
    trial.begin(
        f"a tool that fails {rate:.0%} of calls; honest: calls until it answers, at most {CALLS} times; "
        f"spammer: always {calls} calls",
        "the honest policy earns more, on average over 200 episodes",
        "A call that was answered and not needed must cost something.",
    )
    for _ in range(200):
        failed = [trial.rng.random() < rate for _ in range(CALLS)]
        waits = next((i for i, busy in enumerate(failed) if not busy), CALLS)
        honest += table[waits < CALLS, min(waits + 1, CALLS), waits] / 200
        spam += table[waits < calls, calls, sum(failed[:calls])] / 200
    if spam >= honest - 1e-9:
        how = "as much as" if abs(spam - honest) < 1e-9 else "more than"
        trial.fail(f"the spammer earns {how} the honest policy: {spam:.3f} against {honest:.3f}")


def reward(success: bool, calls: int, busy: int) -> float:
    """1 for a right answer; a price for each call that the tool answered, none for a busy one."""
    return float(success) - 0.1 * (calls - busy)


# --- 08.3 -------------------------------------------------------------------------------------------------

MARKS = ("<user>", "<bot>", "<act>", "</act>", "<obs>", "</obs>", "<end>")
WORDS = (" py", " 4", " 7", "*", " pens", " busy")


def check_mask_of(trial: Trial) -> str:
    rng = trial.rng
    for size in range(100):
        told = [("task", rng.choices(WORDS, k=rng.randint(1, 3)))]
        for _ in range(rng.randint(1, 2 + size // 20)):
            # The engine writes "policy, tool, policy, …"; a resumed or edited transcript need not.
            who, tokens = rng.choice(("policy", "tool")), rng.choices(MARKS + WORDS, k=rng.randint(0, 5))
            quoted = ["<obs>", *(t for t in tokens if t != "</obs>"), "</obs>"]
            told.append((who, quoted if who == "tool" else tokens))
        flat = [(who, token) for who, tokens in told for token in tokens]
        expected = [int(who == "policy") for who, _ in flat]
        trial.begin(str(told), str(expected), "One entry a token: 1 where the policy wrote it, else 0.")
        came = trial.answer([(who, list(tokens)) for who, tokens in told])
        values = list(came) if isinstance(came, Iterable) else []
        if len(values) != len(flat):
            trial.fail(f"{len(values)} entries for {len(flat)} tokens: {type(came).__name__} {show(came)}")
        for place, (who, token) in enumerate(flat):
            if not same(values[place], expected[place]):
                came = f"{show(values[place])} at place {place}, {token!r}; in all {show(came)}"
                trial.fail(came, f"The {who} wrote it, and only that counts, whatever the token looks like.")
    return "100 random transcripts, with role tokens written by policy and tool"


def mask_of(segments) -> list[int]:
    """One 0 or 1 for each token: 1 where the policy sampled it. segments: (who, tokens) in order."""
    return [int(who == "policy") for who, tokens in segments for _ in tokens]


def mask_by_tags(segments):
    mask, inside = [], False
    for who, tokens in segments:
        for token in tokens:
            inside = inside or token == "<obs>"
            mask.append(int(who != "task" and not inside))
            inside = inside and token != "</obs>"
    return mask


# fmt: off
EXERCISES = (
    Exercise(
        "08.1",
        "evaluate(text): the int that + - * // %, signs and brackets make of whole numbers; ValueError "
        "for all else, for more than 60 letters and for numbers beyond 10¹².",
        check_evaluate, evaluate,
        (
            Wrong(evaluate_bare, "lets Python do it, without built-in names", "Powers grow without bound"),
            Wrong(evaluate_letters, "lets Python evaluate harmless letters", "Powers grow without bound"),
            Wrong(ast.literal_eval, "knows values but no operators", "as Python says"),
            Wrong(changed(evaluate, "SyntaxError, ZeroDivisionError", "SyntaxError"),
                  "lets the error of a division by zero out", "ZeroDivisionError"),
            Wrong(changed(evaluate, "(SyntaxError, ", "("), "lets the parser's error out", "SyntaxError"),
            Wrong(changed(evaluate, "> 60", "> 10**6"), "takes texts of any length", "Look at the length"),
            Wrong(lambda text: evaluate(unicodedata.normalize("NFKC", text)),
                  "reads the digits of other scripts", "digits of all scripts"),
        ),
    ),
    Exercise(
        "08.2",
        "reward(success, calls, busy): retries after 'busy' are free, other calls cost, right wins.",
        check_reward, reward,
        (
            Wrong(lambda success, calls, busy: success - 0.1 * calls,
                  "punishes retries", "must neither cost nor pay"),
            Wrong(lambda success, calls, busy: float(success),
                  "gives needless calls away", "spammer earns as much as"),
            Wrong(lambda success, calls, busy: success - 0.1 * (calls - busy) + 0.05 * busy,
                  "pays for busy answers", "must neither cost nor pay"),
            Wrong(lambda success, calls, busy: success - 0.1 * (calls - busy) + 0.05 * busy * (not success),
                  "pays for busy answers where the answer is wrong", "must neither cost nor pay"),
            Wrong(lambda success, calls, busy: (-0.1 if success else 0.02) * (calls - busy) + success,
                  "pays for calls where the answer is wrong", "must not pay"),
            Wrong(lambda success, calls, busy: success - 0.3 * (calls - busy),
                  "lets a wrong answer without calls beat a right one", "the price must stay small"),
            Wrong(lambda success, calls, busy: success + 0.1 * (calls - busy),
                  "pays a bonus for each answered call", "spammer earns more than"),
            Wrong(lambda success, calls, busy: success * (1 - 0.1 * (calls - busy) / calls),
                  "divides by a number that may be 0", "ZeroDivisionError"),
        ),
    ),
    Exercise(
        "08.3",
        "mask_of(segments): one 0 or 1 for each token of a list of (who, tokens): 1 where who is 'policy'.",
        check_mask_of, mask_of,
        (
            Wrong(mask_by_tags, "reads the mask from <obs> and </obs>", "The policy wrote it"),
            Wrong(lambda told: [int(who == "policy" and t not in MARKS) for who, part in told for t in part],
                  "takes role tokens for the world's", "The policy wrote it"),
            Wrong(lambda told: [k % 2 for k, (_, tokens) in enumerate(told) for _ in tokens],
                  "takes every second part for the policy's", "wrote it, and only that counts"),
            Wrong(lambda told: [int(who != "tool") for who, tokens in told for _ in tokens],
                  "takes the task for the policy's", "The task wrote it"),
            Wrong(lambda told: [int(who == "policy") for who, _ in told],
                  "gives one entry a part", "wrote it"),
        ),
    ),
    *FIND_THE_BUG,
    *FILTER,
)
# fmt: on
