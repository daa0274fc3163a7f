"""Chapter 05: the best of k in closed form, the state behind a look, a tree of tries, hints, a filter."""

import itertools
import math
import random

from .. import envs
from ..lab.check import Trial, same, show
from . import Exercise, Wrong, changed

# --- 05.1 -------------------------------------------------------------------------------------------------


def _by_enumeration(right: list[bool], k: int) -> list[float]:
    """Mean over all group tries of k that a try is in, of (best of the k − mean) / (std + 1e-6)."""
    n = len(right)
    best = {chosen: float(any(right[i] for i in chosen)) for chosen in itertools.combinations(range(n), k)}
    mean = sum(best.values()) / len(best)
    std = math.sqrt(mean * (1 - mean))
    found = []
    for i in range(n):
        mine = [(value - mean) / (std + 1e-6) for chosen, value in best.items() if i in chosen]
        found.append(sum(mine) / len(mine))
    return found


def check_best_of(trial: Trial) -> str:
    cases = 0
    for n in range(2, 9):
        for k in range(1, n + 1):
            right = [trial.rng.random() < trial.rng.random() for _ in range(n)]
            expected = [round(x, 6) for x in _by_enumeration(right, k)]
            ways, mine = math.comb(n, k), math.comb(n - 1, k - 1)
            hint = f"There are {ways} ways to choose {k} of {n} tries; a try is in {mine} of them."
            trial.begin(f"best_of({right}, {k})", str(expected), hint)
            came = trial.answer(list(right), k)
            if len(came) != n or not all(abs(a - b) <= 1e-5 for a, b in zip(came, expected)):
                trial.fail(show([round(float(x), 6) for x in came]))
            cases += 1
    return f"{cases} random groups against all choices of k tries"


def best_of(right: list[bool], k: int) -> list[float]:
    """Pass@k advantages of a group: of a right try (1 − R̄)/σ, of a wrong one less, each over σ + 1e-6."""
    n, wrong = len(right), len(right) - sum(right)
    none = math.comb(wrong, k) / math.comb(n, k)
    sigma = math.sqrt(none * (1 - none)) + 1e-6
    without = [0.0 if r else math.comb(wrong - 1, k - 1) / math.comb(n - 1, k - 1) for r in right]
    return [(none - alone) / sigma for alone in without]


# --- 05.2 -------------------------------------------------------------------------------------------------


def _walk(rng: random.Random) -> list[tuple[list[str], tuple]]:
    """A random walk in a quest, illegal turns among it: of each turn all texts so far, and the true state."""
    env = envs.Quest(rng.randint(2, 4), 20)
    history = [env.reset(rng.randrange(10**6))]
    told = [(list(history), (env.here, env.holding))]
    for _ in range(14):
        odd = rng.choice(("take key", "open door", "go north", "go up"))
        said = envs.act(odd) if rng.random() < 0.4 else env.random(rng)
        reply = env.step(said)
        if reply.done:
            break
        history += [said, reply.text]
        told.append((list(history), (env.here, env.holding)))
    return told


def check_state(trial: Trial) -> str:
    pairs = 0
    for _ in range(30):
        told = _walk(trial.rng)
        keys = []
        for history, _ in told:
            trial.begin(f"state({history[-3:]} after {len(history) // 2} turns)", "something hashable")
            keys.append(trial.answer(list(history)))
            hash(keys[-1])
        for (i, (a, here)), (j, (b, there)) in itertools.combinations(enumerate(told), 2):
            alike = here == there
            trial.begin(
                f"two turns of a walk, the first after {a[-2:]}, the second after {b[-2:]}",
                f"{'equal' if alike else 'different'} states: {here} and {there} (place, key in hand)",
                "Equal looks can hide different states, and different looks one state: what else was said?",
            )
            if same(keys[i], keys[j]) != alike:
                trial.fail(f"{show(keys[i])} and {show(keys[j])}")
            pairs += 1
    return f"{pairs} pairs of turns from 30 random walks, illegal actions among them"


def state(history: list[str]):
    """(room, key in hand) from the texts so far: what was shown first, then said and shown by turns."""
    room, key = "", False
    for said, seen in zip(["", *history[1::2]], history[0::2]):
        if " exits " in seen:
            room = seen.partition(" exits ")[0].split()[-1]
            key = key or "take key" in said
    return room, key


# --- 05.3 -------------------------------------------------------------------------------------------------

FINISHED = 0  # the token that ends a try


class _Model:
    """Samples segments; knows what everything it said was worth, and counts."""

    def __init__(self, rng: random.Random, segment: int, levels: int):
        self.rng, self.segment, self.levels = rng, segment, levels
        self.logp: dict[tuple, float] = {}
        self.generated = 0

    def extend(self, tokens: tuple[int, ...]) -> tuple[tuple[int, ...], float]:
        if tokens[-1] == FINISHED:
            raise ValueError("this try is finished; hint: extend only what is still under way")
        before = tokens
        for _ in range(self.segment):
            last = len(tokens) == self.levels * self.segment
            tokens = (*tokens, FINISHED if last else self.rng.randint(1, 10**9))
            self.logp.setdefault(tokens, -self.rng.uniform(0.1, 3))  # two tries may end alike
        self.generated += self.segment
        return tokens, self.score(tokens) - self.score(before)

    def score(self, tokens: tuple[int, ...]) -> float:
        """Log-probability of all behind the prompt, which is one token."""
        return sum(self.logp.get(tokens[:n], math.nan) for n in range(2, len(tokens) + 1))


def check_grow(trial: Trial) -> str:
    for _ in range(40):
        segment, levels = trial.rng.randint(1, 4), trial.rng.randint(2, 5)
        leaves = trial.rng.randint(1, 2 ** (levels - 1))
        model = _Model(trial.rng, segment, levels)
        width = [min(leaves, 2**level) for level in range(levels)]
        shown = f"grow(extend, (7,), {leaves}): tries have {levels} segments of {segment} tokens"
        expected = f"{leaves} finished tries"
        trial.begin(shown, expected, "Split in two what is under way, until there are enough.")
        came = list(trial.answer(model.extend, (7,), leaves))
        if len(came) != leaves or any(tokens[-1] != FINISHED for tokens, _ in came):
            done = sum(tokens[-1] == FINISHED for tokens, _ in came)
            trial.fail(f"{len(came)} tries, {done} of them finished")
        trial.expected = f"{segment * sum(width)} tokens generated"
        trial.hint = f"Widths of the tree: {width}. What is shared is generated once, nothing is thrown away."
        if model.generated != segment * sum(width):
            trial.fail(f"{model.generated} tokens generated")
        for tokens, logp in came:
            trial.expected = f"log-probability {model.score(tuple(tokens)):.4f} of a leaf"
            if not abs(logp - model.score(tuple(tokens))) < 1e-9:
                trial.fail(f"{logp:.4f}", "It is the sum over all segments of the try, shared ones too.")
    return "40 random trees: leaves, tokens generated, log-probabilities"


def grow(extend, prompt: tuple[int, ...], leaves: int) -> list[tuple[tuple[int, ...], float]]:
    """`leaves` finished tries (tokens, logp) from one beginning; extend(tokens) samples one segment more."""
    tree = [extend(prompt)]
    while any(tokens[-1] != 0 for tokens, _ in tree):
        room, longer = leaves - len(tree), []
        for tokens, logp in tree:
            for _ in range(2 if room > 0 else 1):
                more, gain = extend(tokens)
                longer.append((more, logp + gain))
            room -= 1
        tree = longer
    return tree


def alone(extend, prompt, leaves):
    tries = []
    for _ in range(leaves):
        tokens, logp = extend(prompt)
        while tokens[-1] != 0:
            tokens, gain = extend(tokens)
            logp += gain
        tries.append((tokens, logp))
    return tries


# --- 05.4 -------------------------------------------------------------------------------------------------

SHARES = (0.0, 0.25, 0.5, 0.75)


def check_hint(trial: Trial) -> str:
    for case in range(120):
        depth = 1 + (case + 4) % 9
        env = envs.Chain((depth, depth))
        env.reset(trial.rng.randrange(10**6))
        thought = ["<think>", *(f" {s}" for s in env.steps), "</think>"] if env.steps else []
        expert = [*thought, f" {env.answer}", "<end>"]
        failed = trial.rng.randrange(len(SHARES)) if case else 0
        answer_at = len(expert) - 2
        size = min(int(SHARES[failed] * len(expert)), answer_at)
        why = f"{SHARES[failed]} of {len(expert)}, rounded down."
        if not failed:
            why = "Nobody failed, so there is no hint."
        if failed and int(SHARES[failed] * len(expert)) > answer_at:
            why = "A hint that holds the answer leaves nothing to learn: stop before it."
        trial.begin(f"hint({expert}, {failed})", str(expert[:size]), why)
        came = trial.answer(list(expert), failed)
        if not same(list(came), expert[:size]):
            trial.fail(show(came))
    return "120 random chains, 0 to 3 failed rounds"


def hint(expert: list[str], failed: int) -> list[str]:
    """The first 0, 1/4, 1/2 or 3/4 of an expert's tokens after so many failed rounds, never the answer."""
    share = (0.0, 0.25, 0.5, 0.75)[failed]
    return expert[: min(int(share * len(expert)), len(expert) - 2)]


# --- 05.5 -------------------------------------------------------------------------------------------------


def check_filter(trial: Trial) -> str:
    rng = trial.rng
    for _ in range(20):
        trial.begin("Filter()", "something with wants(task, rng) and note(task, mean)")
        chosen = trial.answer()
        tasks = list(range(40))
        rng.shuffle(tasks)
        dead = {task: rng.choice((0.0, 1.0)) for task in tasks[:20]}
        _offer(trial, chosen, tasks, dead, 12)
        trial.begin("a dead task, offered 200 times after 12 rounds", "tried in less than a third of them",
                    "A long streak without contrast should make a try unlikely.")  # fmt: skip
        tried = sum(chosen.wants(task, rng) for task in list(dead)[:5] for _ in range(40))
        if tried >= 67:
            trial.fail(f"tried {tried} times")
        for task in dead:
            trial.begin(
                f"task {task} was dead for 12 rounds and has contrast now",
                "tried within 400 offers",
                "The policy moves. A task that is never tried again cannot tell that it changed.",
            )
            if not any(chosen.wants(task, rng) for _ in range(400)):
                trial.fail("never tried again")
            chosen.note(task, 0.5)
        _offer(trial, chosen, tasks, {}, 2)
    return "20 runs of 40 tasks, half of them dead at first and alive later"


def _offer(trial: Trial, chosen, tasks: list[int], dead: dict[int, float], rounds: int) -> None:
    """Offers every task in each round; those with contrast must always be tried."""
    for n, task in itertools.product(range(rounds), tasks):
        wanted = chosen.wants(task, trial.rng)
        if task not in dead and not wanted:
            trial.begin(f"wants(task {task}) in round {n}: a task that had contrast when last met", "True",
                        "Only a streak of visits without contrast is a reason to skip.")  # fmt: skip
            trial.fail(show(wanted))
        if wanted:
            chosen.note(task, dead.get(task, 0.5))


class Filter:
    """Which tasks to try: wants(task, rng) before sampling, note(task, mean reward) after it."""

    def __init__(self):
        self.streak = {}  # visits in a row without contrast

    def wants(self, task, rng) -> bool:
        return rng.random() < max(0.5 ** self.streak.get(task, 0), 0.05)

    def note(self, task, mean) -> None:
        self.streak[task] = 0 if 0 < mean < 1 else self.streak.get(task, 0) + 1


RULE = "rng.random() < max(0.5 ** self.streak.get(task, 0), 0.05)"
FilterWithBug = changed(Filter, RULE, "self.streak.get(task, 0) == 0")


# fmt: off
EXERCISES = (
    Exercise(
        "05.1",
        "best_of(right, k): the Pass@k advantages of a group from its verdicts, in closed form.",
        check_best_of, best_of,
        (
            Wrong(changed(best_of, "math.comb(wrong - 1, k - 1) / math.comb(n - 1, k - 1)", "none"),
                  "counts group tries that the wrong try is not in", "ways to choose"),
            Wrong(changed(best_of, "(none - alone)", "(1.0 - none - alone)"),
                  "takes the chance of success for that of failure", "ways to choose"),
            Wrong(changed(best_of, ") + 1e-6", ") * 0 + 1.0"), "leaves σ out", "ways to choose"),
            Wrong(changed(best_of, " / math.comb(n, k)", " / n**k * math.factorial(k)"),
                  "draws with return", "ways to choose"),
        ),
    ),
    Exercise(
        "05.2",
        "state(history): equal for two turns of a quest if and only if room and key in hand are the same.",
        check_state, state,
        (
            Wrong(lambda history: history[-1], "takes the last look for the state", "hide different states"),
            Wrong(lambda history: tuple(history), "never meets a state again", "equal states"),
            Wrong(changed(state, "key = key or \"take key\" in said", "key = False"),
                  "forgets the key", "different states"),
            Wrong(changed(state, "if \" exits", "key = key or \"take key\" in said\n        if \" exits"),
                  "believes every `take key`", "equal states"),
        ),
    ),
    Exercise(
        "05.3",
        "grow(extend, prompt, leaves): that many finished tries (tokens, logp) from one beginning.",
        check_grow, grow,
        (
            Wrong(alone, "shares nothing", "generated once"),
            Wrong(changed(grow, "logp + gain", "gain"), "scores the last segment only", "shared ones too"),
            Wrong(changed(grow, "2 if room > 0 else 1", "2"), "splits without end", "finished tries"),
            Wrong(lambda extend, prompt, leaves: grow(extend, prompt, 2 * leaves)[:leaves],
                  "throws half of the tree away", "thrown away"),
        ),
    ),
    Exercise(
        "05.4",
        "hint(expert, failed): the first tokens of an expert after so many failed rounds, never the answer.",
        check_hint, hint,
        (
            Wrong(changed(hint, "min(int(share * len(expert)), len(expert) - 2)", "int(share * len(expert))"),
                  "tells the answer of a short task", "stop before it"),
            Wrong(changed(hint, "(0.0, 0.25, 0.5, 0.75)[failed]", "(0.25, 0.5, 0.75, 0.75)[failed]"),
                  "gives hints to those who need none", "no hint"),
            Wrong(changed(hint, "int(share", "math.ceil(share"), "rounds up", "rounded down"),
            Wrong(lambda expert, failed: expert[len(expert) - len(hint(expert, failed)):],
                  "tells the end instead of the beginning", "rounded down"),
        ),
    ),
    Exercise(
        "05.5",
        "Filter: skips tasks that long gave no contrast, without the bug that it never meets them again.",
        check_filter, Filter,
        (
            Wrong(FilterWithBug, "never tries a dead task again", "cannot tell that it changed"),
            Wrong(changed(Filter, RULE, "True"),
                  "skips nothing", "less than a third"),
            Wrong(changed(Filter, "0 if 0 < mean < 1 else self.streak.get(task, 0) + 1",
                          "self.streak.get(task, 0) + (0 if 0 < mean < 1 else 1)"),
                  "never forgives", "had contrast when last met"),
            Wrong(changed(Filter, ", 0.05)", ", 0.05) * 0.9"), "skips new tasks too", "had contrast"),
        ),
    ),
)
# fmt: on
