"""Exercises that answer at once: a reader's function or class is tried on random inputs.

The exercises live in the package beside this one, a module a chapter: `exercises/ch08.py` lists those of
chapter 08 in `EXERCISES`. They are found by name when asked for, so the lab knows nothing of what they check.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
import re
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import Any, NoReturn

from . import style

CHAPTERS = __package__.rpartition(".")[0] + ".exercises"
LONGEST = 300  # letters of a value that a message shows
CSS = f"""<style>
.arl-check {{ color: var(--jp-content-font-color1, inherit); max-width: 820px; line-height: 1.5;
  border-left: 4px solid {style.VERMILLION}; padding: 2px 0 2px 12px; }}
.arl-check.arl-right {{ border-color: {style.GREEN}; }}
.arl-check dl {{ display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 2px 14px;
  margin: 6px 0 0; }}
.arl-check dt {{ color: {style.GREY}; width: auto; font-weight: normal; }}
.arl-check dd {{ margin: 0; width: auto; overflow-wrap: anywhere; }}
.arl-check dd code {{ font-size: 13px; white-space: pre-wrap; }}
</style>"""


@dataclass(frozen=True, repr=False)
class Verdict:
    """What a check found. `right`, and in words `message`; shown in a cell, it is a box.

    tried: what was tried, in words. Of a wrong answer: the input, what came, the reader's line that raised,
    what was expected and a hint; empty where there is nothing to say.
    """

    id: str
    question: str
    right: bool
    tried: str
    input: str = ""
    came: str = ""
    line: str = ""
    expected: str = ""
    hint: str = ""

    @property
    def heading(self) -> str:
        """One line: the exercise and how it went."""
        return f"{self.id} {'✓ right, tried with' if self.right else '✗ not yet:'} {self.tried}"

    @property
    def rows(self) -> list[tuple[str, str]]:
        """What went wrong, as (name, text)."""
        names = ("input", "came", "line", "expected", "hint")
        return [(name, getattr(self, name)) for name in names if getattr(self, name)]

    @property
    def message(self) -> str:
        """All of it as plain text."""
        return "\n".join([self.heading, *(f"  {name + ':':<10}{text}" for name, text in self.rows)])

    def __repr__(self) -> str:
        return self.message

    def _repr_html_(self) -> str:
        told = "".join(
            f"<dt>{name}</dt><dd>{escape(text) if name == 'hint' else f'<code>{escape(text)}</code>'}</dd>"
            for name, text in self.rows
        )
        return (
            f'{CSS}<div class="arl-check{" arl-right" * self.right}" role="status" '
            f'title="{escape(self.question)}"><strong>{escape(self.heading)}</strong>'
            f"{f'<dl>{told}</dl>' if told else ''}</div>"
        )


class Mistake(Exception):
    """Ends a check: the answer is wrong, and the trial knows why. Raised by `Trial.fail`."""


class _TimeUp(BaseException):
    """The answer runs too long. No `Exception`, so that a reader's `except Exception` does not swallow it."""


class Trial:
    """What a checker works with: the reader's `answer`, its own random numbers `rng`, a place to complain.

    A checker announces each input with `begin`, calls the answer, and calls `fail` where a property does not
    hold. What the answer raises needs no handling: it becomes a message about the input announced last.
    """

    def __init__(self, answer: Any, rng: random.Random):
        self.answer, self.rng = answer, rng
        self.count = 0  # inputs announced so far
        self.input = self.came = self.expected = self.hint = ""

    def begin(self, shown: str, expected: str = "", hint: str = "") -> None:
        """Announce the next input, as text, and what is expected of it."""
        self.count += 1
        self.input, self.expected, self.hint = shown, expected, hint

    def fail(self, came: str, hint: str = "", expected: str = "") -> NoReturn:
        """The answer is wrong: what came, as text. hint and expected replace those announced."""
        self.came, self.hint, self.expected = came, hint or self.hint, expected or self.expected
        raise Mistake


def show(value: Any, write: Callable[[Any], str] = repr) -> str:
    """A value as text for a message: its repr, cut where it is long, safe where it raises."""
    try:
        text = write(value)
    except Exception as error:
        return f"a {type(value).__name__} that cannot be shown: {type(error).__name__}"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 20]} … ({len(text)} letters)"


def same(came: Any, expected: Any) -> bool:
    """Whether two values are equal; False where they cannot be compared."""
    try:
        return bool(came == expected)
    except Exception:
        return False


def check(id: str, answer: Any, *, seed: int = 0, seconds: float = 10.0) -> Verdict:
    """Try the answer to exercise `id`, a function or a class, on random inputs.

    Args:
        seed: other seeds give other inputs; the same seed, the same ones.
        seconds: how long the answer may run in all. Signals keep this limit, so it holds in the main thread
            (where cells run) and not on Windows; elsewhere, interrupt the cell.

    A wrong answer is a verdict, never an exception, also where the answer raises. Raises ValueError for an
    unknown id, naming those there are.
    """
    exercise = _exercise(id)
    trial = Trial(answer, random.Random(f"{id} {seed}"))
    if not callable(answer):
        trial.begin("the answer itself", "a function or a class", "Hand it over by name, without brackets.")
        trial.came = show(answer)
        return _wrong(exercise, trial)
    try:
        with _limit(seconds):
            tried = exercise.checker(trial)
    except KeyboardInterrupt:  # the reader's own
        raise
    except Mistake:
        return _wrong(exercise, trial)
    except _TimeUp as error:
        trial.came = f"nothing within {seconds:g} seconds"
        return _wrong(exercise, trial, _line(answer, error))
    except BaseException as error:  # SystemExit too: a reader's exit() must not end the kernel
        trial.came = f"{type(error).__name__}: {show(error, str)}".removesuffix(": ")
        return _wrong(exercise, trial, _line(answer, error))
    return Verdict(id, exercise.question, True, tried)


def _wrong(exercise: Any, trial: Trial, line: str = "") -> Verdict:
    before = trial.count - 1
    tried = "the first input fails"
    if before > 0:
        tried = f"{before} input{'s' * (before > 1)} went well, the next did not"
    told = (trial.input, trial.came, line, trial.expected, trial.hint)
    return Verdict(exercise.id, exercise.question, False, tried, *told)


def _line(answer: Any, error: BaseException) -> str:
    """The innermost line of the answer's own file that the error went through, or nothing."""
    parts = [answer, *vars(answer if isinstance(answer, type) else type(answer)).values()]
    files = {part.__code__.co_filename for part in parts if hasattr(part, "__code__")}
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    return f"line {own[-1].lineno}, in {own[-1].name}: {own[-1].line}" if own else ""


def _exercise(id: str) -> Any:
    chapter = re.fullmatch(r"(\d\d)\.\d+", id) if isinstance(id, str) else None
    modules = [found.name for found in pkgutil.iter_modules(importlib.import_module(CHAPTERS).__path__)]
    modules = sorted(name for name in modules if re.fullmatch(r"ch\d\d", name))
    wanted = f"ch{chapter[1]}" if chapter else ""
    # Only a wrong id pays for importing every chapter.
    for exercise in _listed([wanted]) if wanted in modules else ():
        if exercise.id == id:
            return exercise
    known = ", ".join(exercise.id for exercise in _listed(modules))
    raise ValueError(f"there is no exercise {id!r}; expected one of {known}")


def _listed(modules: list[str]) -> Iterator[Any]:
    for name in modules:
        yield from importlib.import_module(f"{CHAPTERS}.{name}").EXERCISES


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_: Any) -> None:
        raise _TimeUp

    handler = signal.signal(signal.SIGALRM, ring)
    # Rings again and again: a bare `except:` in the answer may swallow the first.
    timer = signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler or signal.SIG_DFL)
