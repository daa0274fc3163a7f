"""Chapter 09: four operations, an advantage for many contexts, what held when, how fast one forgets, a split
with a bug."""

import math
import random

from ..lab.check import Trial, same, show
from . import Exercise, Wrong, changed, numbers

# --- 09.1 -------------------------------------------------------------------------------------------------

RULES = "Update and delete do nothing where the number is not in the store; a number given once is never given again."
WORDS = ("ada in hall", "ada in cave", "key in attic", "ben in hall", "key is gone")


def _program(rng: random.Random) -> list[tuple]:
    """Operations on entries that are there, that were there, and that never were."""
    made = [("add", "ada in hall")]
    for _ in range(rng.randint(4, 14)):
        number, text = rng.randint(1, 6), rng.choice(WORDS)
        made.append(
            rng.choice(
                [("add", text), ("update", number, text), ("delete", number), ("delete", number), ("noop",)]
            )
        )
    return made


def _kept(program: list[tuple]) -> dict[int, str]:
    """The store after a program, from the rules as they stand in the question."""
    store, given = {}, 0
    for verb, *rest in program:
        if verb == "add":
            given += 1
            store[given] = rest[0]
        elif verb == "update" and rest[0] in store:
            store[rest[0]] = rest[1]
        elif verb == "delete" and rest[0] in store:
            del store[rest[0]]
    return store


def check_operate(trial: Trial) -> str:
    for _ in range(50):
        program = _program(trial.rng)
        expected = _kept(program)
        trial.begin(f"operate({program})", str(expected), RULES)
        came = trial.answer(list(program))
        if not same(came, expected):
            trial.fail(show(came))
    return "50 random programs against a reference"


def operate(program: list[tuple]) -> dict[int, str]:
    """The store, number → text, after add, update, delete and noop; numbers count from 1 and are given
    once."""
    store, given = {}, 0
    for verb, *rest in program:
        if verb == "add":
            given += 1
            store[given] = rest[0]
        elif verb == "update" and rest[0] in store:
            store[rest[0]] = rest[1]
        elif verb == "delete":
            store.pop(rest[0], None)
    return store


# --- 09.2 -------------------------------------------------------------------------------------------------


def check_split(trial: Trial) -> str:
    rng = trial.rng
    for _ in range(40):
        rewards = [rng.choice((0.0, 0.5, 1.0)) for _ in range(rng.randint(2, 5))]
        rewards[:2] = [1.0, 0.0]
        owner = [i for i in range(len(rewards)) for _ in range(rng.randint(1, 5))]
        if len(set(map(owner.count, owner))) == 1:
            owner.append(0)
        rng.shuffle(owner)
        mean = math.fsum(rewards) / len(rewards)
        expected = [(rewards[i] - mean) / owner.count(i) for i in owner]
        hint = "Take the mean over the episodes; then share each episode's advantage out among its contexts."
        trial.begin(f"split({rewards}, {owner})", str([round(x, 4) for x in expected]), hint)
        came = numbers(trial, trial.answer(list(rewards), list(owner)), (len(owner),)).tolist()
        if any(not abs(a - b) <= 1e-6 for a, b in zip(came, expected)):
            total = math.fsum(came)
            if abs(total) > 1e-6:
                hint = f"All advantages together make {total:.3f}; with weights that sum to one per episode they make 0. {hint}"
            trial.fail(show([round(x, 4) for x in came]), hint)
    return "40 random groups of 2 to 5 episodes with 1 to 5 contexts"


def split(rewards: list[float], owner: list[int]) -> list[float]:
    """(R_i − mean R) · 1/K_i for each context; owner[c] is the episode i of context c, K_i how many it
    has."""
    mean = sum(rewards) / len(rewards)
    return [(rewards[i] - mean) / owner.count(i) for i in owner]


# --- 09.3 -------------------------------------------------------------------------------------------------


def check_held(trial: Trial) -> str:
    rng = trial.rng
    for _ in range(30):
        edges = []
        for name in ("ada", "ben", "key"):
            time = rng.randint(0, 3)
            for _ in range(rng.randint(1, 3)):
                end = time + rng.randint(1, 3)
                edges.append((name, rng.choice(("hall", "cave", "attic")), time, end))
                time = end + rng.choice((0, 0, 2, -1))  # -1: two edges hold at once
            if rng.random() < 0.6:
                edges[-1] = (*edges[-1][:3], None)
        rng.shuffle(edges)
        for time in range(12):
            name = rng.choice(("ada", "ben", "key"))
            expected = [
                o for s, o, start, end in edges if s == name and start <= time and (end is None or time < end)
            ]
            hint = (
                "An edge holds from its start on and no longer at its end; one without an end holds still. "
                "Keep the order of the edges."
            )
            trial.begin(f"held({edges}, {name!r}, {time})", str(expected), hint)
            came = trial.answer(list(edges), name, time)
            if not same(came, expected):
                trial.fail(show(came))
    return "360 questions to 30 random graphs"


def held(edges: list[tuple], subject: str, time: int) -> list[str]:
    """Objects of a subject's edges (subject, object, start, end) that hold at a time; end None: still
    open."""
    return [o for s, o, start, end in edges if s == subject and start <= time and (end is None or time < end)]


# --- 09.4 -------------------------------------------------------------------------------------------------


def check_retention(trial: Trial) -> str:
    rng = trial.rng
    for size in range(60):
        log = sorted(rng.sample(range(30), 1 + size % 6))
        now = log[-1] + rng.randint(0, 10)
        expected = math.exp(-(now - log[-1]) / len(log))
        hint = f"It was stored or recalled {len(log)} times, last {now - log[-1]} steps ago."
        trial.begin(f"retention({log}, {now})", f"{expected:.6f}", hint)
        came = float(numbers(trial, trial.answer(list(log), now), ()))
        if not abs(came - expected) <= 1e-9:
            trial.fail(f"{came:.6f}")
    return "60 random logs with 1 to 6 entries"


def retention(log: list[int], now: int) -> float:
    """exp(−t/S): t steps since the last recall, S how often it was stored or recalled. log: those times, in
    order."""
    return math.exp(-(now - log[-1]) / len(log))


# --- 09.5 -------------------------------------------------------------------------------------------------


def check_rows(trial: Trial) -> str:
    rng = trial.rng
    for _ in range(40):
        tries = [
            (task, rng.randint(2, 4), rng.choice((0.0, 1.0)))
            for task in range(2)
            for _ in range(rng.randint(2, 3))
        ]
        tries[0], tries[1] = (0, 3, 1.0), (0, 2, 0.0)
        expected = [(task, reward, 1 / count) for task, count, reward in tries for _ in range(count)]
        trial.begin(
            f"rows({tries})",
            show(expected),
            "A row for each context: the task as its group, the reward, 1/contexts.",
        )
        came = trial.answer(list(tries))
        came = list(came) if isinstance(came, (list, tuple)) else []
        if len(came) != len(expected):
            trial.fail(f"{len(came)} rows: {show(came)}")
        for place, (row, wanted) in enumerate(zip(came, expected)):
            if not same(tuple(row), wanted):
                trial.fail(f"{show(row)} at place {place}", _rows_hint(row, wanted), str(wanted))
    return "40 random sets of tries with 2 to 4 contexts each"


def _rows_hint(row, wanted) -> str:
    group, reward, _ = row
    if not same(group, wanted[0]):
        return "Which rows are compared with each other? All tries of one task; a try alone has nothing to be compared with."
    if not same(reward, wanted[1]):
        return "Every context gets the whole reward of its try, the first one too."
    return "The weights of a try's contexts sum to one."


def rows(tries: list[tuple]) -> list[tuple]:
    """(group, reward, weight) of each context, tries in order. tries: (task, how many contexts, reward)."""
    made = []
    for number, (task, count, reward) in enumerate(tries):
        made += [(task, reward, 1 / count)] * count
    return made


# What the chapter hands out: every try is a group of its own, so nothing is ever better than its group.
rows_with_bug = changed(rows, "[(task, reward", "[(number, reward")


# fmt: off
EXERCISES = (
    Exercise(
        "09.1",
        "operate(program): the store, number → text, after ('add', text), ('update', number, text), ('delete', number), ('noop',).",
        check_operate, operate,
        (
            Wrong(changed(operate, ' and rest[0] in store', ''), "updates what is not there", "do nothing where"),
            Wrong(changed(operate, "store.pop(rest[0], None)", "store.pop(rest[0])"), "fails where nothing is to delete", "KeyError"),
            Wrong(changed(operate, "given += 1", "given = len(store) + 1"), "gives a number again", "never given again"),
            Wrong(changed(operate, 'elif verb == "delete":', 'elif verb == "forget":'), "never deletes", "expected"),
        ),
    ),
    Exercise(
        "09.2",
        "split(rewards, owner): the advantage R_i − mean R of each episode of a group, shared out among its contexts.",
        check_split, split,
        (
            Wrong(changed(split, " / owner.count(i)", ""), "gives the whole advantage to each context", "sum to one per episode"),
            Wrong(changed(split, "sum(rewards) / len(rewards)", "sum(rewards[i] for i in owner) / len(owner)"),
                  "takes the mean over contexts", "mean over the episodes"),
            Wrong(lambda rewards, owner: [(rewards[i] - sum(rewards) / len(rewards)) / len(owner) for i in owner],
                  "divides by all contexts", "share each episode's advantage"),
            Wrong(lambda rewards, owner: [r - sum(rewards) / len(rewards) for r in rewards],
                  "returns one number an episode", "Return numbers of shape"),
        ),
    ),
    Exercise(
        "09.3",
        "held(edges, subject, time): objects of the subject's edges (subject, object, start, end) that hold at a time.",
        check_held, held,
        (
            Wrong(changed(held, "time < end", "time <= end"), "counts the end in", "no longer at its end"),
            Wrong(changed(held, "start <= time", "start < time"), "leaves the start out", "from its start on"),
            Wrong(changed(held, "(end is None or time < end)", "end is not None and time < end"), "loses open edges", "holds still"),
            Wrong(changed(held, "s == subject and ", ""), "asks of nobody in particular", "from its start on"),
            Wrong(lambda edges, subject, time: held(edges, subject, time)[:1], "stops at the first edge", "from its start on"),
            Wrong(lambda edges, subject, time: held(edges[::-1], subject, time), "turns the order round", "order of the edges"),
        ),
    ),
    Exercise(
        "09.4",
        "retention(log, now): MemoryBank's forgetting curve exp(−t/S), t since the last recall, S the number of recalls.",
        check_retention, retention,
        (
            Wrong(changed(retention, "log[-1]", "log[0]"), "counts from the first time", "last"),
            Wrong(changed(retention, " / len(log)", ""), "forgets what was recalled often as fast", "times, last"),
            Wrong(changed(retention, "-(now", "(now"), "grows with time", "steps ago"),
            Wrong(changed(retention, "len(log)", "(len(log) - 1)"), "does not count the first time", "ZeroDivisionError"),
        ),
    ),
    Exercise(
        "09.5",
        "rows(tries): (group, reward, weight) of each context of (task, how many contexts, reward), without its bug.",
        check_rows, rows,
        (
            Wrong(rows_with_bug, "makes a group of each try", "nothing to be compared with"),
            Wrong(changed(rows, "(task, reward, 1 / count)", "(task, reward, 1.0)"), "weighs long tries more", "sum to one"),
            Wrong(lambda tries: [(t, r * (k == n - 1), 1 / n) for t, n, r in tries for k in range(n)],
                  "pays the last context only", "the first one too"),
            Wrong(lambda tries: [(t, r, 1.0) for t, n, r in tries], "returns one row a try", "rows"),
        ),
    ),
)
# fmt: on
