"""Chapter 07: a tree policy, pairs of episodes, shaping that keeps the optimum, the price of a plan, drafts
with a bug.
"""

import itertools
import math
import random

from ..lab.check import Trial, show
from . import Exercise, Wrong, changed, numbers

# --- 07.1 -------------------------------------------------------------------------------------------------


class _Tree:
    """A tree of choices, three deep, with a pay at each leaf."""

    def __init__(self, rng: random.Random, arms: int):
        self.arms = arms
        self.pay = {leaf: round(rng.random(), 3) for leaf in itertools.product(range(arms), repeat=3)}
        self.stats: dict[tuple, list[tuple[int, float]]] = {}

    def visit(self, pick, c: float) -> tuple[int, ...]:
        """Goes down once by pick(children, c), counts, and returns the leaf."""
        path: tuple[int, ...] = ()
        for _ in range(3):
            path += (pick(list(self.stats.setdefault(path, [(0, 0.0)] * self.arms)), c),)
        for deep in range(3):
            n, total = self.stats[path[:deep]][path[deep]]
            self.stats[path[:deep]][path[deep]] = (n + 1, total + self.pay[path])
        return path


def _by_formula(children: list[tuple[int, float]], c: float) -> int:
    parent = sum(n for n, _ in children)
    scores = [
        math.inf if n == 0 else total / n + c * math.sqrt(math.log(parent) / n) for n, total in children
    ]
    return scores.index(max(scores))


def check_uct(trial: Trial) -> str:
    visits = 0
    for number in range(3):
        tree, c = _Tree(trial.rng, trial.rng.randint(2, 3)), 0.4
        best = max(tree.pay, key=tree.pay.get)

        def pick(children, c):
            expected = _by_formula(children, c)
            trial.begin(
                f"pick({show(children)}, c={c}): (visits, total pay) of each child", f"child {expected}",
                "mean + c·√(ln N / n), N visits of all children together; one without visits comes first, the leftmost.",
            )  # fmt: skip
            came = trial.answer(list(children), c)
            if came != expected:
                trial.fail(show(came))
            return expected

        for _ in range(400):
            tree.visit(pick, c)
            visits += 1
        counts = [n for n, _ in tree.stats[()]]
        trial.begin(
            f"tree {number}: the branch visited most after 400 visits",
            f"branch {best[0]}, by trying every leaf",
        )
        if (
            abs(max(tree.pay[p] for p in tree.pay if p[0] == counts.index(max(counts))) - tree.pay[best])
            > 0.1
        ):
            trial.fail(f"branch {counts.index(max(counts))} of visits {counts}")
    return f"{visits} visits of three random trees against all leaves"


def pick(children: list[tuple[int, float]], c: float) -> int:
    """UCT: the child (visits, total pay) to go to."""
    parent = sum(n for n, _ in children)

    def worth(i: int) -> float:
        n, total = children[i]
        return math.inf if n == 0 else total / n + c * math.sqrt(math.log(parent) / n)

    return max(range(len(children)), key=worth)


# --- 07.2 -------------------------------------------------------------------------------------------------


def check_pairs(trial: Trial) -> str:
    rng, found = trial.rng, 0
    for _ in range(60):
        texts = [f"text {rng.randint(0, 5)}" for _ in range(rng.randint(0, 14))]
        tries = [(rng.randint(0, 2), text, text in ("text 0", "text 1", "text 2")) for text in texts]
        hint = "A pair is one task's success against its failure; a text stands in one pair at most."
        sides = {
            t: [{x for k, x, s in tries if k == t and s == side} for side in (True, False)] for t in range(3)
        }
        most = sum(min(map(len, both)) for both in sides.values())
        trial.begin(f"pairs({show(tries)}): (task, text, success)", f"{most} pairs (won, lost)", hint)
        came = [tuple(pair) for pair in trial.answer(list(tries))]
        for won, lost in came:
            if tuple(won) not in tries or tuple(lost) not in tries:
                trial.fail(f"{show((won, lost))}, which are no two of the tries")
            if won[0] != lost[0]:
                trial.fail(f"{show((won, lost))}, two tasks")
            if not won[2] or lost[2]:
                trial.fail(f"{show((won, lost))}, not a success against a failure")
        used = [tuple(e[:2]) for pair in came for e in pair]
        if len(used) != len(set(used)):
            trial.fail(f"{show(came)}, a text twice")
        if len(came) != most:
            trial.fail(f"{len(came)} pairs")
        found += most
    return f"60 random logs with {found} pairs"


def pairs(tries: list[tuple[int, str, bool]]) -> list[tuple[tuple, tuple]]:
    """As many (won, lost) of the same task as there are, no text twice."""
    found = []
    for task in sorted({t for t, _, _ in tries}):
        won, lost = (
            list(dict.fromkeys(e for e in tries if e[0] == task and e[2] == side)) for side in (True, False)
        )
        found += zip(won, lost)
    return found


# --- 07.3 -------------------------------------------------------------------------------------------------

END = 4  # the state in which an episode is over


def _world(rng: random.Random) -> dict[tuple[int, str], tuple[int, float]]:
    """A deterministic world of four states and an end: (state, action) → (state after, reward)."""
    return {
        (s, a): (rng.choice([t for t in range(END + 1) if t != s]), round(rng.uniform(-1, 1), 2))
        for s in range(END)
        for a in "ab"
    }


def _solve(world, gamma: float) -> dict[tuple[int, str], float]:
    """Q of the best policy, by value iteration."""
    q = dict.fromkeys(world, 0.0)
    for _ in range(500):
        best = [max(q[s, a] for a in "ab") for s in range(END)] + [0.0]
        q = {(s, a): r + gamma * best[t] for (s, a), (t, r) in world.items()}
    return q


def check_bonus(trial: Trial) -> str:
    rng, worlds = trial.rng, 0
    while worlds < 25:
        world, gamma = _world(rng), rng.choice((0.8, 0.9))
        phi = [round(rng.uniform(-3, 3), 1) for _ in range(END)] + [0.0]
        told = list(phi[:END])
        plain = _solve(world, gamma)
        if min(abs(plain[s, "a"] - plain[s, "b"]) for s in range(END)) < 0.02:
            continue  # a tie has no best action to keep
        shaped = {}
        for (s, a), (t, r) in world.items():
            over = t == END
            trial.begin(
                f"bonus(before={told[s]}, after={0.0 if over else told[t]}, over={over}, gamma={gamma})",
                "a number",
                "γ·Φ(after) − Φ(before), and Φ is 0 where the episode is over, whatever is passed.",
            )
            odd = 7.0 if over else told[t]  # what stands behind the end must not count
            shaped[s, a] = (t, r + float(numbers(trial, trial.answer(told[s], odd, over, gamma), ())))
        best = {s: max("ab", key=lambda a: plain[s, a]) for s in range(END)}
        q = _solve(shaped, gamma)
        now = {s: max("ab", key=lambda a: q[s, a]) for s in range(END)}
        moved = max(abs(q[s, a] - (plain[s, a] - told[s])) for s, a in plain)
        trial.begin(
            f"the best actions of a random world with potentials {told} and γ = {gamma}",
            f"{best}, as without the bonus",
            "γ·Φ(after) − Φ(before), and Φ is 0 where the episode is over, whatever is passed.",
        )
        if now != best or moved > 1e-6:
            trial.fail(f"{now}; Q moved by something else than −Φ(before)" if now == best else str(now))
        worlds += 1
    return "25 random worlds, solved exactly with the bonus and without"


def bonus(before: float, after: float, over: bool, gamma: float) -> float:
    """What shaping by a potential adds to the reward of a step."""
    return gamma * (0.0 if over else after) - before


# --- 07.4 -------------------------------------------------------------------------------------------------


def check_break_even(trial: Trial) -> str:
    rng = trial.rng
    for _ in range(100):
        mazes = [
            (rng.random() < 0.9, rng.random() < rng.random(), rng.randint(1, 3))
            for _ in range(rng.randint(4, 12))
        ]
        if sum(w for w, _, _ in mazes) <= sum(o for _, o, _ in mazes):
            continue
        hint = (
            "At that price, what plans earn in all is what they cost in all: plans, not mazes, are paid for."
        )
        trial.begin(
            f"break_even({show(mazes)}): (won with plans, won without, plans asked for)", "a price", hint
        )
        price = float(numbers(trial, trial.answer(list(mazes)), ()))
        for side, sign in (("just below", 1), ("just above", -1)):
            at = price - sign * 1e-3
            gain = sum(w - at * n - o for w, o, n in mazes)
            trial.begin(
                f"{show(mazes)} at a price {side} yours, {at:.4f}",
                f"planning {'ahead of' if sign > 0 else 'behind'} never planning",
                hint,
            )
            if not gain * sign > 0:
                trial.fail(f"planning earns {gain:+.4f} more in all")
    return "up to 100 random sets of mazes, returns on both sides of the price"


def break_even(mazes: list[tuple[bool, bool, int]]) -> float:
    """The price of a plan from which on never planning is better; mazes: (won with plans, won without,
    plans).
    """
    gained = sum(w for w, _, _ in mazes) - sum(o for _, o, _ in mazes)
    return gained / sum(n for _, _, n in mazes)


# --- 07.5 -------------------------------------------------------------------------------------------------


def check_take(trial: Trial) -> str:
    rng, rounds = trial.rng, 0
    for _ in range(80):
        mind = random.Random(rng.random())
        table: dict[tuple, str] = {}

        def target(history):
            return table.setdefault(tuple(history), mind.choice("abc"))

        history: list[str] = [rng.choice("abc") for _ in range(rng.randint(0, 3))]
        alone = list(history)
        for _ in range(8):
            alone.append(target(alone))
        drafts = [
            w if rng.random() < 0.7 else "x" for w in alone[len(history) : len(history) + rng.randint(0, 5)]
        ]
        agreed = next(
            (i for i, (d, w) in enumerate(zip(drafts, alone[len(history) :])) if d != w), len(drafts)
        )
        expected = alone[len(history) : len(history) + agreed + 1]
        trial.begin(
            f"take({drafts}, target, {history})",
            str(expected),
            "Drafts count up to the first that the target would not have said there; then its own turn.",
        )
        came = trial.answer(list(drafts), target, list(history))
        if list(came) != expected:
            trial.fail(show(came))
        rounds += 1
    return f"{rounds} random rounds against what the target does alone"


def take(drafts: list[str], target, history: list[str]) -> list[str]:
    """The turns taken in a round: the drafts that the target agrees with, and one of its own."""
    taken = []
    for draft in drafts:
        if draft != target(history + taken):
            break
        taken.append(draft)
    return [*taken, target(history + taken)]


TakeWithBug = changed(take, "            break\n", "            continue\n")


# fmt: off
EXERCISES = (
    Exercise(
        "07.1",
        "pick(children, c): the child that UCT goes to, from (visits, total pay) of each.",
        check_uct, pick,
        (
            Wrong(changed(pick, "total / n + c * math.sqrt(math.log(parent) / n)", "total / n"),
                  "never explores", "comes first"),
            Wrong(changed(pick, "math.inf if n == 0 else ", "0.0 if n == 0 else "),
                  "leaves children unvisited", "comes first"),
            Wrong(changed(pick, "math.log(parent) / n", "math.log(n) / parent"), "turns the bonus round", "comes first"),
            Wrong(changed(pick, "total / n +", "total +"), "adds pays up", "comes first"),
        ),
    ),
    Exercise(
        "07.2",
        "pairs(tries): a success against a failure of the same task, as many as there are, no text twice.",
        check_pairs, pairs,
        (
            Wrong(changed(pairs, "e[0] == task and ", ""), "mixes tasks", "text"),
            Wrong(changed(pairs, "list(dict.fromkeys(e for e in tries if e[0] == task and e[2] == side))",
                          "[e for e in tries if e[0] == task and e[2] == side]"), "uses a text twice", "twice"),
            Wrong(changed(pairs, "found += zip(won, lost)", "found += list(zip(won, lost))[:1]"), "keeps one pair a task", "pairs"),
            Wrong(changed(pairs, "zip(won, lost)", "zip(lost, won)"), "prefers the failure", "not a success against a failure"),
        ),
    ),
    Exercise(
        "07.3",
        "bonus(before, after, over, gamma): what a potential adds to a step's reward so that the best policy stays.",
        check_bonus, bonus,
        (
            Wrong(changed(bonus, "gamma * (", "1.0 * ("), "forgets γ", "as without the bonus"),
            Wrong(changed(bonus, "(0.0 if over else after)", "after"), "counts a potential behind the end", "as without the bonus"),
            Wrong(changed(bonus, "return gamma * (0.0 if over else after) - before",
                          "return max(gamma * (0.0 if over else after) - before, 0.0)"),
                  "pays progress and forgives regress", "as without the bonus"),
            Wrong(changed(bonus, " - before", ""), "pays for being somewhere", "as without the bonus"),
        ),
    ),
    Exercise(
        "07.4",
        "break_even(mazes): the price of a plan above which never planning is better.",
        check_break_even, break_even,
        (
            Wrong(changed(break_even, "sum(n for _, _, n in mazes)", "len(mazes)"), "shares it out over mazes", "are paid for"),
            Wrong(changed(break_even, " - sum(o for _, o, _ in mazes)", ""), "forgets what is won anyway", "are paid for"),
            Wrong(changed(break_even, "gained /", "0.5 * gained /"), "stops half-way", "are paid for"),
        ),
    ),
    Exercise(
        "07.5",
        "take(drafts, target, history): agreed drafts and one turn of the target's own, without the bug.",
        check_take, take,
        (
            Wrong(TakeWithBug, "takes drafts behind a wrong one", "up to the first"),
            Wrong(changed(take, "[*taken, target(history + taken)]", "taken"), "does not go on where all is rejected", "up to the first"),
            Wrong(lambda drafts, target, history: [*drafts, target([*history, *drafts])], "trusts every draft", "up to the first"),
            Wrong(changed(take, "if draft != target(history + taken)", "if draft != target(history)"),
                  "checks every draft at the beginning", "up to the first"),
        ),
    ),
)
# fmt: on
