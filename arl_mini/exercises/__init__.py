"""The chapters' exercises: question, checker, solution and wrong answers, a module a chapter.

`lab.check("00.1", answer)` runs them. To add one, write in `chNN.py` a checker (of a `lab.check.Trial`,
returning in words what it tried), a solution and three or more wrong answers; list them in `EXERCISES`.
"""

import inspect
import linecache
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..lab.check import Trial, show

Answer = Callable  # a function, or a class


@dataclass(frozen=True)
class Wrong:
    """An answer that the checker must reject: the mistake it makes, and words that the message must hold."""

    answer: Answer
    mistake: str
    symptom: str


@dataclass(frozen=True)
class Exercise:
    """One exercise. The checker tries an answer on random inputs and returns in words what it tried."""

    id: str  # "08.2": chapter and number
    question: str  # one line
    checker: Callable[[Trial], str]
    solution: Answer
    wrong: tuple[Wrong, ...]


def numbers(trial: Trial, came, shape: tuple[int, ...]) -> Tensor:
    """What an answer returned, as float64 numbers of this shape, or the end of the trial."""
    hint = f"Return numbers of shape {shape}: a list or a tensor."
    try:
        found = torch.as_tensor(came, dtype=torch.float64).detach()
    except Exception:
        trial.fail(show(came), hint)
    if tuple(found.shape) != shape:
        trial.fail(f"shape {tuple(found.shape)}: {show(came)}", hint)
    return found


def changed(solution: Answer, old: str, new: str) -> Answer:
    """The solution with a mistake: `old`, which stands once in its source, replaced by `new`."""
    source = inspect.getsource(solution)
    if source.count(old) != 1:
        raise ValueError(f"{old!r} stands {source.count(old)} times in {solution.__name__}; expected once")
    source, file = source.replace(old, new), f"<{solution.__name__}: {old!r} → {new!r}>"
    names = dict(vars(sys.modules[solution.__module__]))
    exec(compile(source, file, "exec"), names)
    # No file holds this source; known here, a traceback can still quote it, as it quotes a notebook's cell.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    return names[solution.__name__]
