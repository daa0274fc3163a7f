"""Chapter 08: which calls a text asks for, Toolformer's filter."""

import random
from collections.abc import Iterable
from numbers import Integral

from ..lab.check import Trial, show
from . import Exercise, Wrong, changed

# --- 08.5 -------------------------------------------------------------------------------------------------

# Log-probabilities of what follows: none, empty, full.
Candidate = tuple[list[float], list[float], list[float]]


def _tokens(rng: random.Random, size: int, level: float) -> list[float]:
    """Log-probabilities around −level."""
    return [-level - rng.uniform(-0.1, 0.1) for _ in range(size)]


def _candidate(rng: random.Random, kind: str, least: float) -> tuple[Candidate, bool]:
    """A call of a kind, and whether it is to be kept. No gain is within 0.1 nats of the threshold."""
    size, low, high = rng.randint(6, 9), 0.3, 0.3 + least + 0.5
    if kind == "helps":
        return (_tokens(rng, size, high), _tokens(rng, size, high), _tokens(rng, size, low)), True
    if kind == "helps a little":
        return tuple(_tokens(rng, size, x) for x in (low + least - 0.3, low + least - 0.3, low)), False
    if kind == "the call alone helps":
        return (_tokens(rng, size, high), _tokens(rng, size, low), _tokens(rng, size, low)), False
    if kind == "the call alone harms":
        return (_tokens(rng, size, low), _tokens(rng, size, high), _tokens(rng, size, low)), False
    if kind == "harms":
        return (_tokens(rng, size, low), _tokens(rng, size, low), _tokens(rng, size, high)), False
    far = 5  # tokens from here on have no weight
    late = _tokens(rng, far, low) + _tokens(rng, 4, low + 9 * high), _tokens(rng, far + 4, low)
    if kind == "helps far away":
        return (late[0], late[0], late[1]), False
    near = (
        _tokens(rng, 2, low + 3 * high) + _tokens(rng, 7, low),
        _tokens(rng, 2, low) + _tokens(rng, 7, low + high / 2),
    )
    return (near[0], near[0], near[1]), True


KINDS = (
    "helps", "helps a little", "the call alone helps", "the call alone harms", "harms", "helps far away",
    "helps near by",
)  # fmt: skip
HINTS = {
    "helps": "The loss falls: gain = loss before − loss with call and result; τ or more is kept.",
    "helps a little": "The weights are divided by their sum, so a gain is in nats a token: τ is too.",
    "the call alone helps": "Compare with the better of no call and a call without its result.",
    "the call alone harms": "Compare with the better of no call and a call without its result.",
    "harms": "A call that makes what follows less likely has a gain below 0.",
    "helps far away": "w_t = max(0, 1 − 0.2 t): from the sixth token on nothing counts.",
    "helps near by": "w_t falls with t: the first tokens count most.",
}


def check_kept(trial: Trial) -> str:
    rng = trial.rng
    for _ in range(60):
        least = rng.uniform(0.4, 1.0)
        kinds = [rng.choice(KINDS) for _ in range(rng.randint(1, 6))]
        made = [_candidate(rng, kind, least) for kind in kinds]
        expected = [i for i, (_, keep) in enumerate(made) if keep]
        rounded = [tuple([round(x, 2) for x in part] for part in candidate) for candidate, _ in made]
        trial.begin(f"kept({rounded}, {least:.2f})", str(expected), "Return the places of the calls to keep.")
        came = trial.answer([tuple(list(part) for part in candidate) for candidate, _ in made], least)
        found = sorted(came) if isinstance(came, Iterable) else None
        if found is None or any(not isinstance(x, Integral) or isinstance(x, bool) for x in found):
            trial.fail(f"{type(came).__name__} {show(came)}")
        for i, kind in enumerate(kinds):
            if (i in found) != (i in expected):
                verb = "keeps" if i in found else "drops"
                trial.fail(f"{show(came)}: {verb} call {i}, which {kind}", HINTS[kind])
        if found != expected:
            trial.fail(show(came))
    return "60 random sets of up to 6 calls of 7 kinds"


def kept(calls, least: float) -> list[int]:
    """The places of the calls to keep. calls: (none, empty, full), log-probabilities of what follows."""

    def loss(logps: list[float]) -> float:
        weights = [max(0.0, 1 - 0.2 * t) for t in range(len(logps))]
        return -sum(w * x for w, x in zip(weights, logps)) / sum(weights)

    return [
        i for i, (none, empty, full) in enumerate(calls) if min(loss(none), loss(empty)) - loss(full) >= least
    ]


# fmt: off
EXERCISES = (
    Exercise(
        "08.5",
        "kept(calls, least): the places of the calls whose results make what follows likelier (Toolformer).",
        check_kept, kept,
        (
            Wrong(changed(kept, "min(loss(none), loss(empty))", "loss(none)"),
                  "compares with no call alone", "the call alone helps"),
            Wrong(changed(kept, "min(loss(none), loss(empty))", "max(loss(none), loss(empty))"),
                  "compares with the worse of the two", "the better of no call"),
            Wrong(changed(kept, " / sum(weights)", ""), "sums where it should average", "helps a little"),
            Wrong(changed(kept, "max(0.0, 1 - 0.2 * t)", "1.0"), "weighs all tokens alike", "helps"),
            Wrong(changed(kept, "return -sum", "return sum"), "takes likelihood for loss", "call"),
            Wrong(lambda calls, least: [min(sum(n), sum(e)) - sum(f) <= -least for n, e, f in calls],
                  "returns verdicts, not places", "Return the places"),
        ),
    ),
)
# fmt: on
