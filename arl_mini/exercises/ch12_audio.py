"""Chapter 12, sound and drawing: the word error rate, and which tokens belong to the plan."""

import math
import random

from ..lab.check import Trial, same, show
from . import Exercise, Wrong, changed, numbers

# --- 12.5 -------------------------------------------------------------------------------------------------

WORDS = ("ba", "de", "gi", "ko")


FEWEST = "The fewest words to change, drop or add, divided by the number of words that were said."


def _alignments(said: list[str], heard: list[str]) -> int:
    """The least number of changes over all ways to put the two side by side, each way tried."""
    if not said or not heard:
        return len(said) + len(heard)
    return min(
        _alignments(said[1:], heard[1:]) + (said[0] != heard[0]),
        _alignments(said[1:], heard) + 1,
        _alignments(said, heard[1:]) + 1,
    )


def _misheard(rng: random.Random, said: list[str]) -> list[str]:
    """What somebody hears who drops, adds and confuses words."""
    heard = []
    for word in said:
        chance = rng.random()
        heard += [] if chance < 0.2 else [rng.choice(WORDS)] if chance < 0.4 else [word]
        heard += [rng.choice(WORDS)] if rng.random() < 0.2 else []
    return heard[:6]


def check_word_error_rate(trial: Trial) -> str:
    rng = trial.rng
    for size in range(120):
        said = rng.choices(WORDS, k=rng.randint(1, 5))
        heard = rng.choices(WORDS, k=2 + len(said)) if size % 6 == 5 else _misheard(rng, said)
        changes = _alignments(said, heard)
        trial.begin(
            f"said {' '.join(said)!r}, heard {' '.join(heard)!r}",
            f"{changes / len(said):.4f}: {changes} changes for {len(said)} words said",
            FEWEST,
        )
        came = float(numbers(trial, trial.answer(list(said), list(heard)), ()))
        if not abs(came - changes / len(said)) <= 1e-9:  # nan is wrong, too
            trial.fail(f"{came:.4f}", _why(came, said, heard))
    return "120 random pairs, against all alignments tried one by one"


def _why(came: float, said: list[str], heard: list[str]) -> str:
    """A hint, with more for mistakes that are easy to tell."""
    if not math.isfinite(came):
        return FEWEST
    if abs(came * max(1, len(heard)) - _alignments(said, heard)) < 1e-9:
        return f"{FEWEST} Yours seem to be divided by the words heard."
    if sum(a != b for a, b in zip(said, heard)) + abs(len(said) - len(heard)) == round(came * len(said)):
        return f"{FEWEST} In place, one missing word makes all later ones wrong; look for the best alignment."
    return FEWEST


def word_error_rate(said: list[str], heard: list[str]) -> float:
    """The fewest words to change, drop or add, for each word said."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(said, 1):
        corner, row[0] = row[0], i
        for j, other in enumerate(heard, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (word != other))
    return row[-1] / len(said)


def _in_place(said, heard):
    return (sum(a != b for a, b in zip(said, heard)) + abs(len(said) - len(heard))) / len(said)


# --- 12.6 -------------------------------------------------------------------------------------------------

TAG = "</think>"
PIECES = (" sun", " tree", " cat", " 0", " 1", " 2", " ·")


def check_levels(trial: Trial) -> str:
    rng = trial.rng
    for size in range(120):
        tokens, mask, expected = _reply(rng, quoted=size > 20 and rng.random() < 0.5)
        trial.begin(
            f"tokens {tokens}, mask {mask}",
            str(expected),
            "The policy's tokens up to its first </think>, with it, are the plan; its later ones are the picture.",
        )
        came = trial.answer(list(tokens), list(mask))
        if not same(list(came) if isinstance(came, (list, tuple)) else came, expected):
            trial.fail(show(came), _which(came, tokens, mask, expected))
    return "120 random replies, some after a task that quotes a plan, some without an end of the plan"


def _reply(rng: random.Random, quoted: bool) -> tuple[list[str], list[int], list[str | None]]:
    """A task and a reply, token by token, whether the policy sampled each, and its level."""
    task = ["<user>", *rng.choices(PIECES, k=2), *([TAG] if quoted else []), "<bot>"]
    plan = ["<think>", *rng.choices(PIECES, k=rng.randint(0, 3)), *([TAG] if rng.random() < 0.9 else [])]
    drawn = [*rng.choices(PIECES, k=rng.randint(1, 4)), *([TAG] if rng.random() < 0.2 else []), "<end>"]
    levels = ["plan"] * len(plan) + (["picture"] if TAG in plan else ["plan"]) * len(drawn)
    if TAG not in plan and TAG in drawn:
        levels[-1] = "picture"
    return (
        [*task, *plan, *drawn],
        [0] * len(task) + [1] * (len(plan) + len(drawn)),
        [None] * len(task) + levels,
    )


def _which(came, tokens, mask, expected) -> str:
    """A hint for the first place that differs."""
    if not isinstance(came, (list, tuple)) or len(came) != len(tokens):
        return f"Return a list with one entry for each of the {len(tokens)} tokens."
    place = next(i for i, want in enumerate(expected) if came[i] != want)
    if mask[place] == 0:
        return (
            f"Token {place}, {tokens[place]!r}, was not sampled by the policy: it belongs to no level, None."
        )
    if TAG in [t for t, m in zip(tokens, mask) if m == 0]:
        return f"Token {place}, {tokens[place]!r}: the task quotes a {TAG} too, and that one ends nothing."
    return ""


def levels(tokens: list[str], mask: list[int]) -> list[str | None]:
    """'plan', 'picture', or None for what the policy did not sample, for each token."""
    found, level = [], "plan"
    for token, sampled in zip(tokens, mask):
        found.append(level if sampled else None)
        if sampled and token == TAG:
            level = "picture"
    return found


# What the chapter hands out: a task may quote the tag, too.
levels_with_bug = changed(levels, "if sampled and token", "if token")


# fmt: off
EXERCISES = (
    Exercise(
        "12.5",
        "word_error_rate(said, heard): the fewest words to change, drop or add, for each word said.",
        check_word_error_rate, word_error_rate,
        (
            Wrong(_in_place, "compares word by word in place", "best alignment"),
            Wrong(changed(word_error_rate, "/ len(said)", "/ max(1, len(heard))"),
                  "divides by the words heard", "divided by the words heard"),
            Wrong(changed(word_error_rate, "(word != other)", "2 * (word != other)"),
                  "has no changes, only drops and additions", "fewest words to change"),
            Wrong(changed(word_error_rate, "row[j - 1] + 1, ", ""), "knows no added words", "change, drop or add"),
            Wrong(changed(word_error_rate, "return row[-1] / len(said)", "return min(1.0, row[-1] / len(said))"),
                  "cuts the rate at 1", "fewest words to change"),
            Wrong(lambda said, heard: float(said != heard), "counts texts instead of words", "fewest words to change"),
        ),
    ),
    Exercise(
        "12.6",
        "levels(tokens, mask): 'plan', 'picture' or None for each token, without its bug.",
        check_levels, levels,
        (
            Wrong(levels_with_bug, "takes a tag of the task for the end of the plan", "quotes a </think> too"),
            Wrong(changed(levels, "level if sampled else None", "level"), "gives the task a level", "was not sampled"),
            Wrong(lambda tokens, mask: [None if not m else "plan" if TAG in tokens[i:] else "picture"
                                        for i, (t, m) in enumerate(zip(tokens, mask))],
                  "ends the plan at the last tag", "first </think>"),
            Wrong(lambda tokens, mask: [None if m == 0 else "picture" if TAG in tokens[:i + 1] else "plan"
                                        for i, m in enumerate(mask)],
                  "gives the tag to the picture", "with it, are the plan"),
            Wrong(lambda tokens, mask: [level for level, m in zip(levels(tokens, mask), mask) if m],
                  "leaves the task out", "one entry for each"),
        ),
    ),
)
# fmt: on
