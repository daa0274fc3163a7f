"""Chapter 00: counting what was chosen, stopping in time, building a world."""

import random
from dataclasses import dataclass

import numpy as np

from ..batch import Episode
from ..envs.base import Env, Reply, act, check_env, check_reply, malformed, parse_act
from ..lab.check import Trial, same, show
from . import Exercise, Wrong, changed
from .ch00_bug import EXERCISES as FIND_THE_BUG

# --- 00.1 -------------------------------------------------------------------------------------------------

WORDS = ("<user>", "<bot>", "<act>", "</act>", "<obs>", "</obs>", "<end>", " go", " take", " key", " hall")


class _Words:
    """Enough of a tokenizer to read an episode."""

    def decode(self, ids) -> str:
        return "".join(WORDS[i] for i in ids)


def _episode(rng: random.Random) -> tuple[Episode, list[tuple[str, int]]]:
    """A random episode, and what it is made of: ("prompt" | "sampled" | "forced", tokens) in order.

    A policy can write anything, so sampled stretches hold `<obs>` too; any token may have had probability 1.
    """
    parts = [("prompt", rng.randint(1, 6))]
    for _ in range(rng.choice((0, 1, 1, 2, 3, 4))):
        parts += [("sampled", rng.randint(1, 6)), ("forced", rng.randint(1, 8))]
    if len(parts) > 1 and rng.random() < 0.5:
        parts.pop()  # the episode ended with what the policy said
    sizes = [n for _, n in parts]
    mask = np.repeat([kind == "sampled" for kind, _ in parts], sizes).astype(np.float32)
    turn = np.repeat([(k + 1) // 2 - 1 for k in range(len(parts))], sizes)
    logp = np.array([rng.choice((0.0, -rng.random())) for _ in mask], np.float32) * mask
    tokens = np.array([rng.randrange(len(WORDS)) for _ in mask])
    return Episode(tokens, mask, turn, logp, np.zeros_like(mask), tokenizer=_Words()), parts


def check_count(trial: Trial) -> str:
    for _ in range(100):
        episode, parts = _episode(trial.rng)
        number = {kind: sum(n for k, n in parts if k == kind) for kind in ("prompt", "sampled", "forced")}
        sampled, forced = number["sampled"], number["prompt"] + number["forced"]
        trial.begin(
            f"an episode of {len(episode)} tokens: {', '.join(f'{n} {kind}' for kind, n in parts)}",
            show((sampled, forced)),
            "The mask is 1 where a token was sampled, 0 where it was forced.",
        )
        came = trial.answer(episode)
        if not isinstance(came, (tuple, list)) or len(came) != 2:
            trial.fail(show(came), "Return two numbers: sampled, forced.")
        if not same(tuple(came), (sampled, forced)):
            trial.fail(show(came), " Perhaps: ".join([trial.hint, *_guesses(came, episode, number)]))
    return "100 random episodes"


def _guesses(came, episode: Episode, number: dict[str, int]) -> list[str]:
    """What the two numbers look like, in words."""
    sampled, forced = number["sampled"], number["prompt"] + number["forced"]
    known = (
        (
            (came[0], came[1]),
            (forced, sampled),
            "The order is the other way round: sampled first, then forced.",
        ),
        (came[1], number["forced"], f"The {number['prompt']} tokens of the prompt are forced as well."),
        (came[0], sampled + number["forced"], "Observations follow the prompt, but nobody sampled them."),
        (
            came[0],
            int((episode.logp != 0).sum()),
            "A token sampled with probability 1 has log-probability 0.",
        ),
    )
    return [hint for got, mistaken, hint in known if same(got, mistaken)]


def count(episode) -> tuple[int, int]:
    """(sampled, forced)"""
    return int(episode.mask.sum()), int((episode.mask == 0).sum())


def count_by_text(episode):
    behind = episode.text.partition("<bot>")[2]
    said = "".join(part.rpartition("</obs>")[2] for part in behind.split("<obs>"))
    sampled = sum(said.count(word) for word in WORDS)
    return sampled, len(episode) - sampled


# --- 00.2 -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Record:
    """What a run yields, as far as this exercise needs it."""

    step: int
    success: float
    reward: float = 0.0


class _Run:
    """An iterator over records that counts how often it was asked for one."""

    def __init__(self, records: list[_Record]):
        self._records, self.asked = records, 0

    def __iter__(self):
        return self

    def __next__(self) -> _Record:
        self.asked += 1
        if self.asked > len(self._records):
            raise StopIteration
        return self._records[self.asked - 1]


def check_until(trial: Trial) -> str:
    rng = trial.rng
    for index, kind in enumerate(("above", "exact", "never", "early", "late") * 12):
        goal, length = rng.choice((0.25, 0.5, 0.75)), rng.randint(2, 4 + index // 6)
        first = {"early": 0, "never": length, "late": length - 1}.get(kind, rng.randrange(length))
        success = [round(rng.uniform(0, goal - 0.05), 2) for _ in range(first)]
        success += [goal if kind == "exact" else goal + 0.1] * (first < length)
        success += [round(rng.random(), 2) for _ in range(length - len(success))]
        need = min(first + 1, length)
        trial.begin(
            f"goal {goal}, a run of {length} records with success {success}",
            f"the records up to number {need}, as a list"
            if first < length
            else "all: the goal is never reached",
            "Stop at the first record whose success is at least the goal.",
        )
        records = [_Record(step + 1, s) for step, s in enumerate(success)]
        _judge_until(trial, _Run(records), goal, records[:need])
    return "60 random runs"


def _records(number: int) -> str:
    return f"{number} record{'s' * (number != 1)}"


def _judge_until(trial: Trial, run: _Run, goal: float, expected: list[_Record]) -> None:
    came = trial.answer(run, goal)
    if not isinstance(came, list):
        trial.fail(f"{type(came).__name__} {show(came)}", "Return a list of the records.")
    got = _records(len(came))
    if run.asked > len(expected) and expected[-1].success >= goal:
        hint = "Each record costs an update: look at a record before you ask for the next."
        if expected[-1].success == goal:
            hint = "A success equal to the goal reaches it: ≥, not >."
        got = f"{got}, and the run was asked for {run.asked}: the goal was reached at number {len(expected)}"
        trial.fail(got, hint)
    if same(came, expected[:-1]):
        trial.fail(got, "The last record is missing: it belongs to the list.")
    if not same(came, expected):
        trial.fail(f"{got}: {show(came)}")


def until(run, goal: float) -> list:
    """Records up to and with the first that reaches the goal."""
    seen = []
    for record in run:
        seen.append(record)
        if record.success >= goal:
            break
    return seen


def until_one_more(run, goal):
    seen = []
    for record in run:
        if seen and seen[-1].success >= goal:
            break
        seen.append(record)
    return seen


def until_never_ends(run, goal):
    seen = [next(run)]
    while seen[-1].success < goal:
        seen.append(next(run))
    return seen


# --- 00.3 -------------------------------------------------------------------------------------------------


def check_world(trial: Trial) -> str:
    trial.begin("your class, made without arguments", "a world: a subclass of envs.Env")
    world, other = trial.answer(), trial.answer()
    if not isinstance(world, Env):
        trial.fail(show(world), "Write `class Guess(envs.Env):`.")
    for _ in range(10):
        seed = trial.rng.randrange(10**6)
        trial.begin(f"check_env on seed {seed}", "the contract of a world, kept")
        try:
            check_env(world, range(seed, seed + 1))
        except AssertionError as broken:
            if broken.__cause__ is None:
                trial.fail(
                    str(broken) or show(broken), "Quest, in envs/quest.py, keeps the contract: compare."
                )
            _any_saying(trial, str(broken).partition("; expected")[0])
            raise broken.__cause__
    _check_slips(trial, world)
    _check_apart(trial, world, other)
    constants = _check_constants(trial, world)
    return f"10 random seeds, slips of the tongue, two worlds side by side, {constants} constant answers"


def _any_saying(trial: Trial, shown: str) -> None:
    hint = "A policy can say anything: `return malformed(…)` where it makes no sense."
    trial.begin(shown, "a Reply, whatever is said", hint)


def _play(world: Env, seed: int, say, between=lambda turn: None) -> tuple[list[str], list[Reply]]:
    """What `say()` says and the replies it gets, up to 30. `between` is called before each turn."""
    world.reset(seed)
    said, replies = [], []
    for turn in range(30):
        between(turn)
        said.append(say())
        replies.append(world.step(said[-1]))
        if replies[-1].done or replies[-1].truncated:
            break
    return said, replies


def _check_slips(trial: Trial, world: Env) -> None:
    """Actions that begin like an expert's and go wrong: check_env does not know the world's verbs."""
    for _ in range(5):
        seed = trial.rng.randrange(10**6)
        words = parse_act(_play(world, seed, world.expert)[0][0]) or ["?"]
        for end in ([], ["x"], ["²"], ["-1"], ["10" * 20], [words[-1]] * 3):
            said = act(" ".join(words[:-1] + end))
            _any_saying(trial, f"seed {seed}: step({said!r})")
            world.reset(seed)
            check_reply(world.step(said), world, said)


def _check_apart(trial: Trial, world: Env, other: Env) -> None:
    """A world must not notice that another of its class is played meanwhile: an engine plays many."""
    for _ in range(10):
        seed = trial.rng.randrange(10**6)
        said, alone = _play(world, seed, world.expert)
        trial.begin(
            f"seed {seed}, said: {', '.join(said)}; another world of the class is reset in between",
            f"the replies it gives alone: {[r.text for r in alone]}",
            "Keep the state in self, made in reset: none in the class, no global random numbers.",
        )
        line = iter(said)
        _, beside = _play(
            world, seed, lambda: next(line, said[-1]), lambda turn: other.reset(seed + turn + 1)
        )
        if beside != alone:
            trial.fail(f"other replies: {[r.text for r in beside]}")


def _check_constants(trial: Trial, world: Env) -> int:
    """No single saying may win every task. Returns how many were tried."""
    tasks = [trial.rng.randrange(10**6) for _ in range(30)]
    sayings = {said for seed in tasks for said in _play(world, seed, world.expert)[0]}
    for saying in sorted(sayings):
        trial.begin(
            f"{saying!r}, again and again on 30 tasks", "some tasks lost", "Let the seed change the task."
        )
        ends = [_play(world, seed, lambda: saying)[1][-1] for seed in tasks]
        if all(end.info.get("success") for end in ends):
            trial.fail("a constant answer won all 30 tasks")
    return len(sayings)


class Guess(Env):
    """Guess a digit."""

    words = " guess higher lower error say act"

    def reset(self, seed: int) -> str:
        self.secret, self.low, self.high = random.Random(seed).randrange(10), 0, 9
        return " guess"

    def step(self, said: str) -> Reply:
        match parse_act(said):
            case ["guess", digit] if digit.isdecimal() and len(digit) == 1:
                digit = int(digit)
            case _:
                return malformed("say act")
        if digit == self.secret:
            return Reply(reward=1.0, done=True, info={"success": True})
        higher = digit < self.secret
        self.low, self.high = (digit + 1, self.high) if higher else (self.low, digit - 1)
        return Reply(" higher" if higher else " lower")

    def expert(self) -> str:
        return act(f"guess {(self.low + self.high) // 2}")


# fmt: off
EXERCISES = (
    Exercise(
        "00.1",
        "count(episode) returns how many tokens were sampled and how many forced, the prompt included.",
        check_count, count,
        (
            Wrong(changed(count, "(episode.mask == 0)", "((episode.mask == 0) & (episode.turn >= 0))"),
                  "does not count the prompt", "tokens of the prompt are forced"),
            Wrong(lambda episode: (int((episode.turn >= 0).sum()), int((episode.turn < 0).sum())),
                  "takes all that follows the prompt for sampled", "nobody sampled them"),
            Wrong(lambda episode: (int((episode.logp != 0).sum()), int((episode.logp == 0).sum())),
                  "takes log-probability 0 for forced", "sampled with probability 1"),
            Wrong(lambda episode: count(episode)[::-1], "returns forced before sampled", "other way round"),
            Wrong(count_by_text, "reads the mask from the text", "The mask is 1 where"),
        ),
    ),
    Exercise(
        "00.2",
        "until(run, goal) gives records up to the first whose success reaches goal, and asks for no more.",
        check_until, until,
        (
            Wrong(changed(until, ">= goal", "> goal"), "waits for more than the goal", "≥, not >"),
            Wrong(until_one_more, "asks for one record too many", "Each record costs an update"),
            Wrong(changed(until, "return seen", "return seen[:-1]"),
                  "leaves out the last record", "The last record is missing"),
            Wrong(changed(until, "in run:", "in list(run):"),
                  "trains to the end, then looks", "Each record costs an update"),
            Wrong(until_never_ends, "expects every run to reach the goal", "StopIteration"),
        ),
    ),
    Exercise(
        "00.3",
        "A world, guess a digit, that passes check_env and is not won by a constant answer.",
        check_world, Guess,
        (
            Wrong(changed(Guess, "random.Random(seed).randrange(10)", "4"),
                  "has the same secret in every task", "a constant answer won all"),
            Wrong(changed(Guess, " if digit.isdecimal() and len(digit) == 1", ""),
                  "raises for what it does not understand", "A policy can say anything"),
            Wrong(changed(Guess, "random.Random(seed)", "random.SystemRandom()"),
                  "draws the secret without the seed", "the same sayings got other replies"),
            Wrong(changed(Guess, 'info={"success": True}', "info={}"),
                  "does not say that the task was solved", "no info['success']"),
            Wrong(changed(Guess, "self.secret, self.low", "Guess.secret, self.low"),
                  "keeps its state in the class", "another world of the class"),
            Wrong(changed(Guess, 'Reply(" higher" if higher', '(" higher" if higher'),
                  "returns a text instead of a Reply", "expected a Reply"),
            Wrong(changed(Guess, "higher lower error", "error"), "hides words it uses", "words lacks"),
        ),
    ),
    *FIND_THE_BUG,
)
# fmt: on
