"""Chapter 10: what a revision did, what a proposal is worth, a vote, a leak between critic and actor, pairs with a bug."""

import math
import random
from collections.abc import Sequence
from numbers import Real

from ..lab.check import Trial, same, show
from . import Exercise, Wrong, changed, numbers

# --- 10.1 -------------------------------------------------------------------------------------------------


def check_matrix(trial: Trial) -> str:
    cases = [([0, 0, 0, 1, 1], [1, 0, 0, 1, 0])]
    for _ in range(60):
        n = trial.rng.randint(4, 30)
        first = [0, 1, *(int(trial.rng.random() < 0.5) for _ in range(n))]
        cases.append((first, [int(trial.rng.random() < 0.6) for _ in first]))
    for first, last in cases:
        expected = [[0.0, 0.0], [0.0, 0.0]]
        for a, b in zip(first, last):
            expected[a][b] += 1 / first.count(a)
        trial.begin(
            f"matrix({[bool(a) for a in first]}, {[bool(b) for b in last]})", show([[round(x, 3) for x in r] for r in expected]),
            "Row 0: answers that were wrong at first; column 0: wrong in the end. Each row sums to 1.",
        )  # fmt: skip
        came = numbers(
            trial, trial.answer([bool(a) for a in first], [bool(b) for b in last]), (2, 2)
        ).tolist()
        if any(abs(sum(row) - 1) > 1e-6 for row in came):
            trial.fail(
                show(came),
                "A row does not sum to 1: divide by the number of first answers of its kind, not by all.",
            )
        if any(abs(x - y) > 1e-6 for r, s in zip(came, expected) for x, y in zip(r, s)):
            trial.fail(show(came))
    return f"a case by hand and {len(cases) - 1} random ones"


def matrix(first: Sequence[bool], last: Sequence[bool]) -> list[list[float]]:
    """Shares: rows wrong and right at first, columns wrong and right in the end."""
    counts = [[0, 0], [0, 0]]
    for a, b in zip(first, last):
        counts[a][b] += 1
    return [[n / sum(row) for n in row] for row in counts]


# --- 10.2 -------------------------------------------------------------------------------------------------


def check_worth(trial: Trial) -> str:
    seen = {}
    tries = trial.rng.randint(6, 12) * 2
    for right in range(tries + 1):
        hint = "A number between 0 and 1."
        if right in (0, tries):
            hint = "What is never solved teaches nothing, and what is always solved neither: 0."
        trial.begin(
            f"worth({right}, {tries}), solved in {right} of {tries} tries",
            "0" if right in (0, tries) else "> 0",
            hint,
        )
        came = trial.answer(right, tries)
        if not isinstance(came, Real) or not math.isfinite(came) or not -1e-9 <= came <= 1 + 1e-9:
            trial.fail(show(came))
        if (right in (0, tries)) != (abs(came) < 1e-9):
            trial.fail(show(came))
        seen[right] = float(came)
    half = tries // 2
    for right in range(half):
        trial.begin(
            f"worth({right}, {tries}) and worth({right + 1}, {tries})",
            "the second is larger",
            "It rises up to one half.",
        )
        if seen[right] >= seen[right + 1]:
            trial.fail(f"{seen[right]:.3f} and {seen[right + 1]:.3f}")
        trial.begin(
            f"worth({right}, {tries}) and worth({tries - right}, {tries})",
            "equal",
            "Too easy is as bad as too hard.",
        )
        if abs(seen[right] - seen[tries - right]) > 1e-9:
            trial.fail(f"{seen[right]:.3f} and {seen[tries - right]:.3f}")
    trial.begin(f"worth({half}, {tries})", "1", "At one half it is 1.")
    if abs(seen[half] - 1) > 1e-9:
        trial.fail(f"{seen[half]:.3f}")
    return f"all shares of {tries} tries"


def worth(right: int, tries: int) -> float:
    """1 where half of the tries are right, 0 where none or all are."""
    return 1 - 2 * abs(right / tries - 0.5)


# --- 10.3 -------------------------------------------------------------------------------------------------


def _vote(answers: Sequence[str | None]) -> tuple[str | None, float]:
    valid = [a for a in answers if a is not None]
    if not valid:
        return None, 0.0
    best = max(valid.count(a) for a in valid)
    winner = next(a for a in answers if a is not None and valid.count(a) == best)
    return winner, best / len(answers)


def check_elect(trial: Trial) -> str:
    by_hand = [
        (["7", "3", "7"], "The most common answer wins."), ([None, None, "3"], "An invalid answer, None, cannot win."),
        (["3", "7", "7", "3"], "Of equals, the one given first."), ([None, None], "Nobody to elect: None, and a share of 0."),
        (["5", None, None, None], "The share is a part of all voters, the invalid ones too."), (["9"], "One voter elects."),
    ]  # fmt: skip
    for _ in range(150):
        pool = trial.rng.sample(["0", "1", "2", "3"], trial.rng.randint(1, 3)) + [None]
        answers = trial.rng.choices(pool, k=trial.rng.randint(1, 9))
        by_hand.append((answers, "Compare with counting by hand: ties, invalid answers, the share of all."))
    for answers, hint in by_hand:
        winner, share = _vote(answers)
        trial.begin(f"elect({answers})", f"({winner!r}, {share:.3f})", hint)
        came = trial.answer(list(answers))
        if not isinstance(came, tuple) or len(came) != 2 or not isinstance(came[1], Real):
            trial.fail(show(came), "Return a pair: the answer, or None, and its share.")
        if not same(came[0], winner) or abs(came[1] - share) > 1e-9:
            trial.fail(show(came))
    return f"6 cases by hand and {len(by_hand) - 6} random ballots"


def elect(answers: Sequence[str | None]) -> tuple[str | None, float]:
    """The most common valid answer, of equals the first, and its share of all voters."""
    tally = {}
    for answer in answers:
        if answer is not None:
            tally[answer] = tally.get(answer, 0) + 1
    if not tally:
        return None, 0.0
    best = max(tally, key=tally.get)
    return best, tally[best] / len(answers)


# --- 10.4 -------------------------------------------------------------------------------------------------


def _told(rng: random.Random, x: int, value: int) -> str:
    other = rng.choice([n for n in range(40) if n != value])
    return f" f ( {x} ) = {other} not {value}"


def _conversation(rng: random.Random, clean: bool) -> tuple[list, list, list[str], list[int]]:
    """Shown and hidden tests, one of them in both; what was told; the places of leaks."""
    a, b = rng.randint(2, 5), rng.randint(0, 5)
    inputs = rng.sample(range(13), 9)
    shown = [(x, a * x + b) for x in inputs[:3]]
    hidden = [(x, a * x + b) for x in (*inputs[2:7], inputs[8])]
    allowed = [_told(rng, *rng.choice(shown)) for _ in range(3)]
    allowed += [" right", " hidden", " error name", f" f ( {inputs[7]} ) = {b}"]
    told = [(c, False) for c in rng.sample(allowed, rng.randint(2, 6))]
    told += [(_told(rng, *rng.choice(hidden[1:])), True) for _ in range(0 if clean else rng.randint(1, 2))]
    rng.shuffle(told)
    return shown, hidden, [c for c, _ in told], [place for place, (_, leak) in enumerate(told) if leak]


def check_leaks(trial: Trial) -> str:
    planted = 0
    for number in range(80):
        shown, hidden, comments, expected = _conversation(trial.rng, clean=number % 4 == 0)
        planted += len(expected)
        hint = "A hidden test and its value were told."
        if not expected:
            hint = "Silent on a clean run: what the task shows may be told."
        trial.begin(f"leaks(shown={shown}, hidden={hidden}, comments={comments})", str(expected), hint)
        came = trial.answer(list(shown), list(hidden), list(comments))
        if not isinstance(came, list) or not all(isinstance(i, int) for i in came):
            trial.fail(show(came), "Return a list of places in `comments`, such as [] or [2].")
        if false := set(came) - set(expected):
            i = min(false)
            what = repr(comments[i]) if 0 <= i < len(comments) else f"place {i}, which is not there"
            trial.fail(show(came), f"False alarm: {what} tells nothing that the task does not show.")
        if missed := set(expected) - set(came):
            trial.fail(show(came), f"Missed: {comments[min(missed)]!r} tells the value of a hidden test.")
    return f"80 conversations, 20 of them clean, {planted} leaks planted"


def leaks(shown, hidden, comments) -> list[int]:
    """The places of comments that tell the value of a hidden test which the task does not show."""
    secret = set(hidden) - set(shown)
    found = []
    for place, comment in enumerate(comments):
        for x, value in secret:
            if comment.startswith(f" f ( {x} ) =") and comment.endswith(f" not {value}"):
                found.append(place)
    return found


def leaks_by_value(shown, hidden, comments):
    return [i for i, c in enumerate(comments) if any(f" {y}" in c for _, y in hidden)]


# --- 10.5 -------------------------------------------------------------------------------------------------

WORDS = ("return", "x", "*", "+", "2", "3", "1")


def check_lesson(trial: Trial) -> str:
    rng = trial.rng
    for number in range(80):
        turns = rng.randint(2, 3 + number // 20)
        told = [("task", ["f", "(", "3", ")", "=", str(rng.randint(1, 9))])]
        for k in range(turns):
            told.append(("policy", ["<act>", *rng.choices(WORDS, k=rng.randint(2, 5)), "</act>"]))
            if k < turns - 1:
                told.append(("world", ["<obs>", "not", str(rng.randint(1, 9)), "</obs>"]))
        said = [tokens for who, tokens in told if who == "policy"]
        expected = (told[0][1] + said[-1], told[0][1] + said[0])
        trial.begin(
            f"lesson({told})", f"({' '.join(expected[0])!r}, {' '.join(expected[1])!r})",
            "The lesson is for a fresh context: the task and what was said last, against the task and what was said first.",
        )  # fmt: skip
        came = trial.answer([(who, list(tokens)) for who, tokens in told])
        if not isinstance(came, tuple) or len(came) != 2 or not all(isinstance(part, list) for part in came):
            trial.fail(show(came), "Return a pair of lists of tokens: chosen, rejected.")
        if "<obs>" in came[0]:
            trial.fail(
                show(came[0]),
                "An observation stands in the chosen text: where the policy will be alone, nobody tells it anything. "
                "Worse, the wrong first try is in there too, and the update makes it likelier.",
            )
        if not same(came[0], expected[0]) or not same(came[1], expected[1]):
            trial.fail(show(came))
    return "80 conversations of two to six tries"


def lesson(told: Sequence[tuple[str, list[str]]]) -> tuple[list[str], list[str]]:
    """(chosen, rejected) tokens of a conversation that ended well. told: (who, tokens) in order, the task first."""
    task = told[0][1]
    said = [tokens for who, tokens in told if who == "policy"]
    return task + said[-1], task + said[0]


def lesson_with_bug(told):
    task = told[0][1]
    said = [tokens for who, tokens in told if who == "policy"]
    return [token for _, tokens in told for token in tokens], task + said[0]


# fmt: off
EXERCISES = (
    Exercise(
        "10.1",
        "matrix(first, last): how often a revision mends a wrong answer, and how often it spoils a right one.",
        check_matrix, matrix,
        (
            Wrong(changed(matrix, "n / sum(row)", "n / len(first)"), "divides by all answers", "does not sum to 1"),
            Wrong(changed(matrix, "counts[a][b]", "counts[b][a]"), "exchanges rows and columns", "wrong at first"),
            Wrong(changed(matrix, "counts[a][b]", "counts[a][a]"), "forgets the last answer", "wrong in the end"),
            Wrong(changed(matrix, "zip(first, last)", "zip(last, first)"), "exchanges first and last", "Row 0"),
        ),
    ),
    Exercise(
        "10.2",
        "worth(right, tries): what a proposed task is worth by how often it is solved, most at one half.",
        check_worth, worth,
        (
            Wrong(lambda right, tries: 1 - right / tries, "pays most for the impossible", "never solved"),
            Wrong(lambda right, tries: 1 - abs(right / tries - 0.5), "pays the trivial a half", "neither: 0"),
            Wrong(lambda right, tries: 2 * (right / tries) * (1 - right / tries), "is a half at its peak", "At one half it is 1"),
            Wrong(lambda right, tries: float(0 < right < tries), "knows no peak", "rises up to one half"),
            Wrong(changed(worth, "right / tries - 0.5", "right / tries - 0.6"), "has its peak elsewhere", "worth("),
        ),
    ),
    Exercise(
        "10.3",
        "elect(answers): the most common valid answer, of equals the first, and its share of all voters.",
        check_elect, elect,
        (
            Wrong(changed(elect, "if answer is not None", "if True"), "lets the invalid win", "cannot win"),
            Wrong(changed(elect, "len(answers)", "sum(tally.values())"), "leaves invalid voters out of the share", "invalid"),
            Wrong(changed(elect, "max(tally, key=tally.get)", "max(sorted(tally, reverse=True), key=tally.get)"),
                  "takes the largest of equals", "the one given first"),
            Wrong(changed(elect, "None, 0.0", "None, 1.0"), "is sure where nobody is valid", "share of 0"),
        ),
    ),
    Exercise(
        "10.4",
        "leaks(shown, hidden, comments): the comments that tell an actor the value of a hidden test.",
        check_leaks, leaks,
        (
            Wrong(leaks_by_value, "looks for the value anywhere", "False alarm"),
            Wrong(changed(leaks, "set(hidden) - set(shown)", "set(hidden)"), "forgets that some tests are shown", "False alarm"),
            Wrong(lambda shown, hidden, comments: [], "never cries", "Missed"),
            Wrong(lambda shown, hidden, comments: [i for i, c in enumerate(comments) if " not " in c],
                  "cries at every comment", "False alarm"),
        ),
    ),
    Exercise(
        "10.5",
        "lesson(told): the pair for preference learning out of a corrected conversation, without its bug.",
        check_lesson, lesson,
        (
            Wrong(lesson_with_bug, "takes the whole conversation for chosen", "makes it likelier"),
            Wrong(changed(lesson, "said[-1]", "said[1]"), "takes the second try for the last", "said last"),
            Wrong(changed(lesson, "task + said[-1], task + said[0]", "said[-1], said[0]"), "forgets the task", "the task and what"),
            Wrong(changed(lesson, "task + said[-1], task + said[0]", "task + said[0], task + said[-1]"),
                  "prefers the first try", "said last, against"),
        ),
    ),
)
# fmt: on
