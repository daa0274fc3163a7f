"""Chapter 13: GAE by turns, redistribution, segments, reward cycles, a potential with a bug."""

import random

from ..lab.check import Trial, show
from . import Exercise, Wrong, changed, numbers

# --- 13.1 -------------------------------------------------------------------------------------------------


GAE_HINT = "A turn is one step: one reward, one value, one advantage. Forced tokens get 0."


def _row(rng: random.Random) -> dict[str, list]:
    """A row of turns: prompt, sampled tokens and, between turns, observations; rewards where turns end."""
    row = {"rewards": [], "values": [], "mask": [], "turn": []}

    def put(mask: int, turn: int, reward: float = 0.0) -> None:
        for name, x in (
            ("rewards", reward),
            ("values", round(rng.uniform(-1, 1), 2)),
            ("mask", mask),
            ("turn", turn),
        ):
            row[name].append(x)

    for _ in range(rng.randint(1, 3)):
        put(0, -1)
    turns = rng.randint(1, 4)
    for turn in range(turns):
        size = rng.randint(1, 4)
        for k in range(size):
            put(1, turn, rng.choice((0.0, 0.5, 1.0, -1.0)) if k == size - 1 else 0.0)
        for _ in range(rng.randint(0, 3) if turn < turns - 1 else 0):
            put(0, turn)
    return row


def _gae_by_loops(rewards, values, mask, turn, gamma, lam) -> list[float]:
    """Every turn's advantage from the sum Σ_j (γλ)^j δ_{k+j}, written to its sampled tokens."""
    turns = [[t for t in range(len(mask)) if mask[t] and turn[t] == k] for k in range(max(turn) + 1)]
    value = [values[at[0]] for at in turns] + [0.0]
    delta = [sum(rewards[t] for t in at) + gamma * value[k + 1] - value[k] for k, at in enumerate(turns)]
    found = [0.0] * len(mask)
    for k, at in enumerate(turns):
        for t in at:
            found[t] = sum((gamma * lam) ** j * d for j, d in enumerate(delta[k:]))
    return found


def _with_noise(rng: random.Random, row: dict[str, list]) -> tuple[dict[str, list], list[int]]:
    """The row with observations inserted behind its turns, and where its own tokens are now."""
    more, own = {name: [] for name in row}, []
    for t in range(len(row["mask"])):
        own.append(len(more["mask"]))
        for name, column in row.items():
            more[name].append(column[t])
        last = t == len(row["mask"]) - 1
        if row["mask"][t] and not last and row["turn"][t + 1] != row["turn"][t]:
            for _ in range(rng.randint(1, 3)):
                for name, x in (
                    ("rewards", 0.0),
                    ("values", rng.uniform(-9, 9)),
                    ("mask", 0),
                    ("turn", row["turn"][t]),
                ):
                    more[name].append(x)
    return more, own


def check_turn_gae(trial: Trial) -> str:
    for _ in range(60):
        row = _row(trial.rng)
        gamma, lam = round(trial.rng.uniform(0.5, 1), 2), round(trial.rng.uniform(0, 1), 2)
        expected = _gae_by_loops(**row, gamma=gamma, lam=lam)
        _compare_gae(trial, row, (gamma, lam), expected, GAE_HINT)
        more, own = _with_noise(trial.rng, row)
        wanted = [0.0] * len(more["mask"])
        for place, x in zip(own, expected):
            wanted[place] = x
        hint = f"Observations were inserted, nothing else. {GAE_HINT}"
        _compare_gae(trial, more, (gamma, lam), wanted, hint)
    return "60 random rows, each also with observations inserted"


def _compare_gae(
    trial: Trial, row: dict, numbers_: tuple[float, float], expected: list[float], hint: str
) -> None:
    told = ", ".join(f"{name}={[round(x, 2) for x in column]}" for name, column in row.items())
    trial.begin(
        f"{told}, gamma={numbers_[0]}, lam={numbers_[1]}", show([round(x, 3) for x in expected]), hint
    )
    answer = trial.answer(*(list(column) for column in row.values()), *numbers_)
    came = numbers(trial, answer, (len(expected),)).tolist()
    if any(abs(a - b) > 1e-6 for a, b in zip(came, expected)):
        trial.fail(show([round(x, 3) for x in came]))


def turn_gae(rewards, values, mask, turn, gamma, lam) -> list[float]:
    """Advantages (L,): GAE over turns, the same for all sampled tokens of a turn, 0 at forced ones."""
    advantage, later, after = {}, 0.0, 0.0
    for k in reversed(range(max(turn) + 1)):
        at = [t for t in range(len(mask)) if mask[t] and turn[t] == k]
        value = values[at[0]]
        later = sum(rewards[t] for t in at) + gamma * after - value + gamma * lam * later
        advantage[k], after = later, value
    return [advantage[k] if m else 0.0 for m, k in zip(mask, turn)]


def gae_by_tokens(rewards, values, mask, turn, gamma, lam):
    found, later, after = [0.0] * len(mask), 0.0, 0.0
    for t in reversed(range(len(mask))):
        if mask[t]:
            later = rewards[t] + gamma * after - values[t] + gamma * lam * later
            found[t], after = later, values[t]
    return found


# --- 13.2 -------------------------------------------------------------------------------------------------


def check_redistribute(trial: Trial) -> str:
    for _ in range(100):
        before = [round(trial.rng.random(), 2) for _ in range(trial.rng.randint(1, 8))]
        ret = trial.rng.choice((0.0, 1.0, round(trial.rng.uniform(-1, 1), 2)))
        after = [*before[1:], ret]
        expected = [a - b + before[0] / len(before) for a, b in zip(after, before)]
        told = show([round(x, 3) for x in expected])
        trial.begin(f"redistribute({before}, {ret})", told, f"The parts must sum to the return, {ret}.")
        came = numbers(trial, trial.answer(list(before), ret), (len(before),)).tolist()
        if abs(sum(came) - ret) > 1e-6:
            trial.fail(f"{show([round(x, 3) for x in came])}, in sum {sum(came):.3f}")
        if any(abs(a - b) > 1e-6 for a, b in zip(came, expected)):
            hint = "A turn earns what the prediction rises by; only the first is shared in equal parts."
            trial.fail(show([round(x, 3) for x in came]), hint)
    return "100 random episodes of 1 to 8 turns"


def redistribute(before: list[float], ret: float) -> list[float]:
    """What each turn earned: the rise of the prediction, and an equal part of what was expected at first."""
    after, share = [*before[1:], ret], before[0] / len(before)
    return [a - b + share for a, b in zip(after, before)]


# --- 13.3 -------------------------------------------------------------------------------------------------

MOVES = ("north", "east", "south", "west", "take", "open")


def _segment(a: tuple, b: tuple, most: int):
    """By trying every start."""
    (said, won), (other, too) = a, b
    if won == too:
        return None
    for start in range(min(len(said), len(other))):
        if said[start] != other[start]:
            size = min(most, len(said) - start, len(other) - start)
            cut = said[start : start + size], other[start : start + size]
            return cut if won else cut[::-1]
    return None


def check_segment(trial: Trial) -> str:
    rng = trial.rng
    for number in range(150):
        start = rng.choices(MOVES, k=rng.randint(0, 4))
        two = [
            (start + rng.choices(MOVES, k=rng.randint(0, 5)), number % 3 > 0 and i == number % 2)
            for i in range(2)
        ]
        if not all(said for said, _ in two):
            continue
        most = rng.randint(1, 4)
        expected = _segment(*two, most)
        hint = "Chosen first, the try that succeeded. Both begin where the tries part, equally long."
        if expected is None:
            hint = "Without different outcomes or a turn that differs there is nothing to prefer: None."
        trial.begin(f"segment({two[0]}, {two[1]}, {most})", str(expected), hint)
        came = trial.answer(*((list(said), won) for said, won in two), most)
        if came is not None and not (isinstance(came, tuple | list) and len(came) == 2):
            trial.fail(show(came), "Return two lists of turns, (chosen, rejected), or None.")
        told = None if came is None else tuple(list(part) for part in came)
        if told != (None if expected is None else tuple(map(list, expected))):
            trial.fail(show(came))
    return "150 random pairs of tries with a shared start"


def segment(a, b, most):
    """(chosen, rejected): equally many turns, at most `most`, from where the tries part; or None."""
    if a[1] == b[1]:
        return None
    chosen, rejected = (a[0], b[0]) if a[1] else (b[0], a[0])
    start = next((k for k, (x, y) in enumerate(zip(chosen, rejected)) if x != y), None)
    if start is None:
        return None
    stop = min(start + most, len(chosen), len(rejected))
    return chosen[start:stop], rejected[start:stop]


# --- 13.4 -------------------------------------------------------------------------------------------------


def _graph(rng: random.Random, clean: bool) -> tuple[dict, dict]:
    """Moves (state → action → state) and what each pays, in whole numbers; clean: a potential difference."""
    states = "abcdefg"[: rng.randint(2, 7)]
    moves = {s: {name: rng.choice(states) for name in rng.sample(MOVES, rng.randint(1, 3))} for s in states}
    high = {s: rng.randint(-5, 5) for s in states}
    paid = {(s, a): high[t] - high[s] for s, ways in moves.items() for a, t in ways.items()}
    if not clean:
        for key in paid:
            paid[key] = rng.randint(-4, 2)
    return moves, paid


def _best_of_length(moves: dict, paid: dict, start: str) -> int:
    """The most that a way of 1 to n moves from `start` back to it pays."""
    best, most = {start: 0}, -(10**9)
    for _ in moves:
        further: dict[str, int] = {}
        for s, sum_ in best.items():
            for a, t in moves[s].items():
                further[t] = max(further.get(t, -(10**9)), sum_ + paid[s, a])
        best = further
        most = max(most, best.get(start, -(10**9)))
    return most


def check_cycle(trial: Trial) -> str:
    for number in range(120):
        moves, paid = _graph(trial.rng, clean=number % 2 == 0)
        pays = any(_best_of_length(moves, paid, s) > 0 for s in moves)
        clean = number % 2 == 0
        hint = (
            "A potential difference pays nothing around any circle."
            if clean
            else "There is no way to farm this one."
        )
        wanted = "a way that ends where it began and pays more than 0" if pays else "None"
        trial.begin(f"cycle({moves}, {paid})", wanted, "It can be farmed." if pays else hint)
        came = trial.answer({s: dict(ways) for s, ways in moves.items()}, dict(paid))
        if came is not None:
            _follow(trial, moves, paid, came)
        elif pays:
            trial.fail("None")
    return "120 random worlds, half of them paid by a potential difference"


def _follow(trial: Trial, moves: dict, paid: dict, came) -> None:
    """The way that came, walked."""
    try:
        way = [(s, a) for s, a in came]
    except (TypeError, ValueError):
        trial.fail(show(came), "Return a list of (state, action).")
    if not way or any(a not in moves.get(s, {}) for s, a in way):
        trial.fail(show(came), "Each entry is a state and an action that can be done there.")
    ends = [moves[s][a] for s, a in way]
    if ends != [s for s, _ in way[1:]] + [way[0][0]]:
        trial.fail(
            show(came), f"The moves lead to {ends}: each must lead to the next state, the last to the first."
        )
    if sum(paid[step] for step in way) <= 0:
        trial.fail(f"{show(came)}, which pays {sum(paid[step] for step in way)}", "Going round must pay.")


def cycle(moves: dict, paid: dict):
    """A circle of (state, action) that pays more than 0, or None: best ways from every state, by length."""
    for start in moves:
        best = {start: (0, [])}
        for _ in moves:
            further = {}
            for s, (sum_, way) in best.items():
                for a, t in moves[s].items():
                    total = sum_ + paid[s, a]
                    if t not in further or total > further[t][0]:
                        further[t] = (total, [*way, (s, a)])
            best = further
            if start in best and best[start][0] > 0:
                return best[start][1]
    return None


def cycle_of_one(moves: dict, paid: dict):
    """Looks at single moves only."""
    return next(([(s, a)] for s, a in paid if moves[s][a] == s and paid[s, a] > 0), None)


def cycle_any(moves: dict, paid: dict):
    """Takes any payment for a circle."""
    return next(([step] for step in paid if paid[step] > 0), None)


# --- 13.5 -------------------------------------------------------------------------------------------------


def check_shaped(trial: Trial) -> str:
    for _ in range(100):
        phi = [trial.rng.choice((0.25, 0.5, 1.0))]
        phi += trial.rng.choices((0.0, 0.25, 0.5, 1.0), k=trial.rng.randint(0, 7))
        expected = [b - a for a, b in zip(phi, [*phi[1:], 0.0])]
        hint = f"Whatever was done, the pay must sum to −Φ of the first state, {0 - phi[0]:g}."
        trial.begin(f"shaped({phi})", str(expected), hint)
        came = numbers(trial, trial.answer(list(phi)), (len(phi),)).tolist()
        if abs(sum(came) + phi[0]) > 1e-9:
            trial.fail(f"{show(came)}, in sum {sum(came):g}")
        if any(abs(a - b) > 1e-9 for a, b in zip(came, expected)):
            trial.fail(
                show(came), "The sum is right, the parts are not: a turn is paid for the state it leads to."
            )
    return "100 random episodes of 1 to 8 turns"


def shaped(phi: list[float]) -> list[float]:
    """What each turn is paid, from the potential before each turn, for any end of the episode."""
    after = [*phi[1:], 0.0]
    return [b - a for a, b in zip(phi, after)]


# What the chapter hands out: a try that is cut off keeps the potential it has.
shaped_with_bug = changed(shaped, "0.0]", "phi[-1]]")


# fmt: off
EXERCISES = (
    Exercise(
        "13.1",
        "turn_gae(rewards, values, mask, turn, gamma, lam): GAE with a turn as one step; 0 where forced.",
        check_turn_gae, turn_gae,
        (
            Wrong(gae_by_tokens, "takes every token for a step", "A turn is one step"),
            Wrong(changed(turn_gae, "+ gamma * lam * later", "+ gamma * later"), "forgets λ",
                  "A turn is one step"),
            Wrong(changed(turn_gae, "values[at[0]]", "values[at[-1]]"), "takes the value where a turn ends",
                  "A turn is one step"),
            Wrong(changed(turn_gae, " if m else 0.0", " if k >= 0 else 0.0"), "credits observations",
                  "Forced tokens get 0"),
        ),
    ),
    Exercise(
        "13.2",
        "redistribute(before, ret): what each turn earned, from predictions before it; in sum the return.",
        check_redistribute, redistribute,
        (
            Wrong(changed(redistribute, " + share", ""), "leaves out what was expected",
                  "must sum to the return"),
            Wrong(lambda before, ret: [ret / len(before)] * len(before), "spreads the return",
                  "the prediction rises"),
            Wrong(lambda before, ret: [*before[1:], ret], "pays predictions, not their rise", "must sum to"),
            Wrong(lambda before, ret: [0.0] * (len(before) - 1) + [ret], "pays the last turn",
                  "the prediction rises"),
        ),
    ),
    Exercise(
        "13.3",
        "segment(a, b, most): (chosen, rejected) turns from where two tries part; or None.",
        check_segment, segment,
        (
            Wrong(changed(segment, "(a[0], b[0]) if a[1] else (b[0], a[0])", "(a[0], b[0])"),
                  "prefers the first", "Chosen first"),
            Wrong(changed(segment, "min(start + most, len(chosen), len(rejected))", "start + most"),
                  "cuts segments of other lengths", "equally long"),
            Wrong(changed(segment, "chosen[start:stop], rejected[start:stop]",
                          "chosen[:stop], rejected[:stop]"),
                  "keeps the shared start", "where the tries part"),
            Wrong(changed(segment, "a[1] == b[1]", "a[0] == b[0]"), "prefers among equals",
                  "nothing to prefer"),
        ),
    ),
    Exercise(
        "13.4",
        "cycle(moves, paid): a circle of (state, action) that pays more than 0, or None where there is none.",
        check_cycle, cycle,
        (
            Wrong(lambda moves, paid: None, "finds nothing", "It can be farmed"),
            Wrong(cycle_of_one, "sees circles of one move alone", "It can be farmed"),
            Wrong(cycle_any, "takes any payment for a circle", "each must lead to the next"),
            Wrong(changed(cycle, "[0] > 0:", "[0] >= 0:"), "takes a circle that pays nothing",
                  "Going round must pay"),
        ),
    ),
    Exercise(
        "13.5",
        "shaped(phi): what a potential difference pays each turn, without its bug.",
        check_shaped, shaped,
        (
            Wrong(shaped_with_bug, "lets a try keep its last potential", "must sum to"),
            Wrong(changed(shaped, "b - a", "max(b - a, 0.0)"), "pays for rises alone", "must sum to"),
            Wrong(changed(shaped, "b - a", "a - b"), "has the sign wrong", "must sum to"),
            Wrong(lambda phi: [-phi[0]] + [0.0] * (len(phi) - 1), "pays all at once", "the parts are not"),
        ),
    ),
)
# fmt: on
