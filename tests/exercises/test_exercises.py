"""Every solution passes, every wrong answer is rejected for its mistake, no answer gets out of its check."""

import importlib
import pkgutil

import pytest

from arl_mini import exercises, lab
from arl_mini.exercises import ch08

CHAPTERS = [found.name for found in pkgutil.iter_modules(exercises.__path__) if "_" not in found.name]
EXERCISES = [e for name in CHAPTERS for e in importlib.import_module(f"arl_mini.exercises.{name}").EXERCISES]
WRONG = [(e, wrong) for e in EXERCISES for wrong in e.wrong]
SEEDS = range(5)

every = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)


def test_the_ids_are_told_apart_and_stand_in_their_chapter():
    assert len({e.id for e in EXERCISES}) == len(EXERCISES) >= 7
    for name in CHAPTERS:
        listed = importlib.import_module(f"arl_mini.exercises.{name}").EXERCISES
        assert all(e.id.startswith(f"{name.removeprefix('ch')}.") for e in listed)


@every
def test_the_solution_passes(exercise):
    for seed in SEEDS:
        verdict = lab.check(exercise.id, exercise.solution, seed=seed)
        assert verdict.right, verdict.message
        assert any(letter.isdigit() for letter in verdict.tried)


@every
def test_there_are_three_wrong_answers_with_mistakes_of_their_own(exercise):
    assert len({wrong.mistake for wrong in exercise.wrong}) >= 3
    assert "\n" not in exercise.question


@pytest.mark.parametrize("exercise, wrong", WRONG, ids=[f"{e.id} {w.mistake}" for e, w in WRONG])
def test_a_wrong_answer_is_told_its_mistake(exercise, wrong):
    for seed in SEEDS:
        verdict = lab.check(exercise.id, wrong.answer, seed=seed)
        assert not verdict.right, f"{exercise.id} accepts an answer that {wrong.mistake}"
        assert wrong.symptom in verdict.message
        assert verdict.input and verdict.came and verdict.expected


def raises(*args):
    return 1 / 0


def leaves(*args):
    raise SystemExit("bye")


class Spiteful:
    """A value that can be neither compared nor shown, nor asked for its length."""

    def __init__(self, *args):
        pass

    def __repr__(self):
        raise RuntimeError("no")

    __eq__ = __len__ = __iter__ = __bool__ = __float__ = __repr__


def recurses(*args):
    return recurses(*args)


def deletes(*args):
    for arg in args:
        vars(arg).clear() if hasattr(arg, "__dict__") else None
    return args


ODD = {
    "nothing": lambda *a: None, "text": lambda *a: "abc", "number": lambda *a: 3.5, "empty": lambda *a: [],
    "nan": lambda *a: float("nan"), "itself": lambda *a: a, "two": lambda *a: ("a", None), "dict": dict,
    "int": lambda *a: int, "many": lambda *a: list(range(10**5)), "no arguments": lambda: 0,
    "mapping": lambda *a: {}, "generator": lambda *a: (i for i in a), "raises": raises, "leaves": leaves,
    "recurses": recurses, "deletes": deletes, "spiteful": Spiteful, "print": print, "method": [].append,
    "not callable": 3,
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
@every
def test_no_answer_gets_out(exercise, name):
    verdict = lab.check(exercise.id, ODD[name], seconds=2)
    assert not verdict.right
    assert verdict.input in verdict.message and verdict.came
    assert "arl-check" in verdict._repr_html_()


def test_all_hostile_texts_are_texts_that_python_or_the_task_refuses():
    texts = [text for group in ch08.HOSTILE.values() for text in group]
    assert len(texts) == len(set(texts)) >= 30
    for text in texts:
        with pytest.raises(ValueError):
            ch08.evaluate(text)


def test_a_change_that_does_not_fit_is_an_error():
    with pytest.raises(ValueError, match="stands 0 times"):
        exercises.changed(ch08.reward, "nowhere", "x")
