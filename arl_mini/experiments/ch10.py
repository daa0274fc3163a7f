"""Chapter 10, programs: correction in words, into the weights, by a critic, by self-play, and when it pays.

The other half of the chapter is in ch10_sums.py: rewards that nobody labels, curricula, shared successes.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from .. import envs, evaluate, models
from ..algorithms import DPO, GRPO, DrGRPO
from ..capabilities.gate import Gate
from ..capabilities.improvement import (
    RPO, SHORT, Attempt, Checklist, Critic, Executed, Judged, ask, reflect_loop,
)  # fmt: skip
from ..capabilities.improvement_play import PROPOSE, Proposer, by_majority, learnability, self_play
from ..capabilities.improvement_roles import RIGHT, Questions, body_of, deduced, executed, review, value_of
from ..capabilities.pairs import first_and_last
from ..capabilities.vote import vote
from ..imitate import imitate
from ..models.tokenizer import END
from ..rollout import Limits, demonstrate, rollout
from ..train import train
from .kinds import ByReward, Experiment
from .watched import nothing

NAME = "10_self_improvement"
KINDS = ("line", "square", "rest", "share")
ONCE, THRICE = envs.PyFunc(KINDS, tries=1), envs.PyFunc(KINDS, tries=3)
LONG = Limits(turn_tokens=16, turns=3, total=160)
SEEDS = (10, 11, 12)
TESTS = range(evaluate.HELD_OUT, evaluate.HELD_OUT + 128)
MANY = range(evaluate.HELD_OUT, evaluate.HELD_OUT + 256)


def own_tasks(seed: int, n: int) -> range:
    """Seeds of n training tasks."""
    return range(1_000_000 * (seed + 1), 1_000_000 * (seed + 1) + n)


# --- correction in words ----------------------------------------------------------------------------------

TRIES = 3


def ways(policy) -> dict[str, Callable]:
    """Who comments, by name."""
    return {
        "self-critique": Critic(policy),
        "structured": Checklist(policy),
        "executed": Executed(),
    }


def in_words(attempts: Sequence[Attempt]) -> dict[str, float]:
    """Pass rates, what the revision turned into what, and tokens a task."""
    first, last = [a.right[0] for a in attempts], [a.right[-1] for a in attempts]
    matrix = evaluate.correction_matrix(first, last)
    return {
        "first": float(np.mean(first)), "final": float(np.mean(last)), "tokens": float(np.mean([a.tokens for a in attempts])),
        "wrong_to_right": float(matrix[0, 1]), "right_to_wrong": float(matrix[1, 0]),
    }  # fmt: skip


def voted(policy, seed: int, n: int, tasks: Sequence[int] = MANY) -> dict[str, float]:
    """A vote over n programs a task, by text; what wins is judged."""
    made = rollout(policy, ONCE, tasks, n, seed=seed, limits=SHORT)
    right = []
    for k in range(0, len(made), n):
        tried = made[k : k + n]
        winner = vote([body_of(e.said(0)) for e in tried]).answer
        right.append(next((e.success for e in tried if body_of(e.said(0)) == winner), False))
    tokens = sum(float(e.mask.sum()) for e in made) / len(tasks)
    return {
        "first": float(np.mean([e.success for e in made])),
        "final": float(np.mean(right)),
        "tokens": tokens,
    }


@dataclass(frozen=True)
class Spoken:
    """An arm that measures one way of correction in words, with weights as they are."""

    way: str

    def __call__(self, policy, seed: int) -> Iterator[dict]:
        if self.way.startswith("vote of "):
            yield {"step": 1, **voted(policy, seed, int(self.way.removeprefix("vote of ")))}
            return
        if self.way == "executed, fresh tries":
            found = reflect_loop(policy, ONCE, MANY, Executed(), TRIES, remember=False, seed=seed)
        else:
            found = reflect_loop(policy, ONCE, MANY, ways(policy)[self.way], TRIES, seed=seed)
        again = rollout(policy, ONCE, MANY, seed=seed + 500, limits=SHORT)  # another session
        yield {"step": 1, **in_words(found), "next_session": float(np.mean([e.success for e in again]))}


VOTES = ("vote of 1", "vote of 4", "vote of 8")
SPOKEN = {
    way: Spoken(way) for way in (*VOTES, "self-critique", "structured", "executed", "executed, fresh tries")
}


# --- into the weights -------------------------------------------------------------------------------------


def corrected(policy, seed: int, tasks: int = 300) -> list:
    """Pairs of the policy's own: what it said in the end against what it said at first, of tasks it mended."""
    made = rollout(policy, THRICE, own_tasks(seed, tasks), 4, seed=seed, limits=LONG)
    return [pair for e in made if (pair := first_and_last(e)) is not None]


@dataclass(frozen=True)
class ByCorrection:
    """An arm that fits a preference algorithm to the pairs of first and corrected tries."""

    algorithm: DPO
    settings: dict

    def __call__(self, policy, seed: int, **changes) -> Iterator[dict]:
        pairs = corrected(policy, seed)
        settings = {**self.settings, "seed": seed, **changes}
        for record in train(policy, ONCE, replace(self.algorithm, pairs=pairs), **settings):
            yield {"step": record.step, "loss": record.loss, "pairs": len(pairs)}


def sooner(episodes) -> list[float]:
    """1 for a program that is right at once, ½ less for each further try."""
    return [max(0.0, 1.0 - 0.5 * (e.turns - 1)) if e.success else 0.0 for e in episodes]


PAIRED = dict(steps=20, prompts=64, lr=3e-4, limits=SHORT)
TRIED = dict(steps=20, prompts=16, tries=8, lr=5e-4, limits=LONG)


def measure_programs(policy) -> dict[str, float]:
    """On 256 held-out tasks: right at once, and after up to three tries with the world's messages."""
    tried = evaluate.episodes(policy, THRICE, 256, limits=LONG)
    return {
        "first": float(np.mean([e.success and e.turns == 1 for e in tried])),
        "final": float(np.mean([e.success for e in tried])),
    }


# --- a critic from outside --------------------------------------------------------------------------------


def reviews(actor, seed: int, tasks: int = 400) -> Questions:
    """What the actor answers to training tasks, and what an interpreter, which the critic will not have, says of it."""
    env, items = ONCE.clone(), []
    for e in rollout(actor, ONCE, own_tasks(seed, tasks), 1, seed=seed, limits=SHORT):
        task, said = env.reset(e.seed), e.said(0)
        items.append((review(task, said), executed(task, said)))
    return Questions(items)


@cache
def flatterer() -> models.TinyLM:
    """The novice with the habit to find four of five programs right. Copy it before you train it."""
    policy, rng = models.load("pyfunc-novice"), random.Random("flatterer")
    world = reviews(models.load("pyfunc-novice"), 500)
    shown = demonstrate(
        policy, world, range(400), lambda env: f"{RIGHT}{END}" if rng.random() < 0.8 else env.expert()
    )
    for _ in imitate(policy, shown, steps=40, rows=64, lr=1e-3):
        pass
    return policy


def flatter(policy, seed: int) -> Iterator[dict]:
    """An arm without training: the flatterer as it is."""
    policy.load_state_dict(flatterer().state_dict())
    return iter(())


def learn_to_review(policy, seed: int, **changes) -> Iterator:
    """An arm that trains the flatterer by reward for the interpreter's own words on what the novice wrote."""
    policy.load_state_dict(flatterer().state_dict())
    world = reviews(models.load("pyfunc-novice"), seed)
    settings = dict(steps=20, prompts=24, tries=8, lr=5e-4, limits=SHORT, seed=seed)
    return train(policy, world, GRPO(), **settings | changes)


def measure_critic(policy) -> dict[str, float]:
    """The novice with this critic, and how often its review is the interpreter's, on held-out tasks."""
    actor = models.load("pyfunc-novice")
    found = in_words(reflect_loop(actor, ONCE, TESTS, Critic(policy), TRIES))
    world = reviews(actor, evaluate.HELD_OUT // 1_000_000, 256)
    return found | {"reviews_right": evaluate.success(policy, world, 256, limits=SHORT).mean}


# --- self-play with an interpreter ------------------------------------------------------------------------


def all_deductions() -> Questions:
    """What programs of the world give for its inputs."""
    return Questions(partial(deduced, kinds=KINDS))


@cache
def careless() -> models.TinyLM:
    """The novice with the habit to predict anything in half of the cases. Copy it before you train it."""
    policy, rng, world = models.load("pyfunc-novice"), random.Random("careless"), all_deductions()

    def speak(env: Questions) -> str:
        return f" {rng.randint(0, 40)}{END}" if rng.random() < 0.5 else env.expert()

    for _ in imitate(policy, demonstrate(policy, world, range(1000), speak), steps=40, rows=64, lr=1e-3):
        pass
    return policy


@dataclass(frozen=True)
class Play:
    """Self-play on programs from the careless start: what a question's answer is, says `label`."""

    label: Callable | None
    rounds: int = 16

    def __call__(self, policy, seed: int, **changes) -> Iterator[dict]:
        policy.load_state_dict(careless().state_dict())
        if self.label is None:
            return
        proposer = Proposer(policy, self.label, learnability, valid=lambda q: value_of(q) is not None)
        many, world = dict(limits=SHORT, steps=1000, seed=seed), Questions([(PROPOSE, "")])
        proposing = train(policy, world, Judged(judge=proposer), prompts=1, tries=48, lr=2e-4, **many)
        solving = train(policy, world, GRPO(), prompts=16, tries=8, lr=3e-4, **many)
        for row in self_play(proposing, solving, proposer, changes.get("rounds", self.rounds)):
            true = [p.answer == value_of(p.question) for p in proposer.found]
            yield row | {"labels_right": float(np.mean(true or [0.0]))}


def measure_deduction(policy) -> dict[str, float]:
    """Accuracy on 256 questions of the world; how many of 200 proposals are valid, and how many of these are distinct."""
    said = [e.said(0).removesuffix("<end>") for e in ask(policy, [PROPOSE], 200)[0]]
    valid = [q for q in said if value_of(q) is not None]
    right = evaluate.success(policy, all_deductions(), 256, limits=SHORT).mean
    return {"deduction": right, "valid": len(valid) / 200, "distinct": len(set(valid)) / 200}


# --- when to reflect --------------------------------------------------------------------------------------

MODES, COSTS, PRICE = ("none", "check", "run"), {"none": 0.0, "check": 1.0, "run": 1.5}, 0.18
ASKED = (*KINDS, "size", "total")  # the last two are about lists, which the novice never met
ANY = envs.PyFunc(ASKED, tries=1)


@cache
def outcomes(tasks: range, repeats: int, seed: int) -> dict[tuple[int, str], float]:
    """(task, mode) → how often the novice solves it: at once, with one checked revision, with two after real runs."""
    policy, found = models.load("pyfunc-novice"), {}
    for tries, (mode, comment) in enumerate(zip(MODES, (Executed(), Checklist(policy), Executed())), 1):
        won = np.zeros(len(tasks))
        for k in range(repeats):
            made = reflect_loop(policy, ANY, tasks, comment, tries, seed=1000 * seed + k)
            won += [a.right[-1] for a in made]
        found |= {(s, mode): float(w) / repeats for s, w in zip(tasks, won)}
    return found


def gate(tasks: range, repeats: int, seed: int) -> Gate:
    """The choice before each of these tasks."""
    table = outcomes(tasks, repeats, seed)
    return Gate(ANY, lambda s, mode: (table[s, mode], COSTS[mode]), MODES, PRICE)


def undecided(policy, world: Gate, tasks: range) -> None:
    """Teaches the policy to choose any mode, in place."""
    rng = random.Random(0)
    shown = demonstrate(policy, world, tasks, lambda env: env.random(rng))
    for _ in imitate(policy, shown, steps=80, rows=48, lr=3e-3):
        pass


def learn_to_choose(policy, seed: int, **changes) -> Iterator:
    """An arm that trains the gate on outcomes of training tasks."""
    tasks = own_tasks(seed, 128)
    world = gate(tasks, 2, seed)
    undecided(policy, world, tasks)
    settings = dict(steps=60, prompts=32, tries=8, lr=1e-3, limits=SHORT, tasks=tuple(tasks), seed=seed)
    return train(policy, world, DrGRPO(length=6), **settings | changes)


def measure_gate(policy) -> dict[str, float]:
    """Net return on held-out tasks, of the gate and of each fixed mode, and how often each mode is chosen by kind."""
    world = gate(TESTS, 2, 0)
    tried = rollout(policy, world, TESTS, 4, limits=SHORT)
    table, env, found = (
        outcomes(TESTS, 2, 0),
        ANY.clone(),
        {"gate": float(np.mean([e.reward for e in tried]))},
    )
    for mode in MODES:
        found[mode] = float(np.mean([table[s, mode] for s in TESTS])) - PRICE * COSTS[mode]
    kinds = {s: (env.reset(s), env.kind)[1] for s in TESTS}
    for kind in ASKED:
        of = [e.infos[-1].get("mode") for e in tried if kinds[e.seed] == kind]
        found |= {f"{kind}_{mode}": float(np.mean([m == mode for m in of])) for mode in MODES}
    return found


EXPERIMENTS = {
    f"{NAME}/words": Experiment(
        "Correction in words with weights as they are: votes, self-critique, a checklist, an interpreter.",
        "pyfunc-novice", SPOKEN, nothing, SEEDS,
    ),
    f"{NAME}/weights": Experiment(
        "Corrections of the policy's own into its weights: by preference, and by reward.",
        "pyfunc-novice",
        {
            "DPO": ByCorrection(DPO(beta=0.1), PAIRED),
            "RPO": ByCorrection(RPO(beta=0.1), PAIRED),
            "RL, any try": ByReward(THRICE, GRPO(), TRIED),
            "RL, sooner is better": ByReward(THRICE, Judged(judge=sooner), TRIED),
        },
        measure_programs, SEEDS,
    ),
    f"{NAME}/critic": Experiment(
        "A critic trained on an interpreter's words, with a frozen actor.",
        "pyfunc-novice", {"untrained": flatter, "trained": learn_to_review}, measure_critic, SEEDS,
    ),
    f"{NAME}/zero": Experiment(
        "Self-play without data: the policy proposes programs and inputs and predicts the values.",
        "pyfunc-novice",
        {"start": Play(None), "interpreter": Play(lambda q, _: value_of(q)), "majority": Play(by_majority)},
        measure_deduction, SEEDS,
    ),
    f"{NAME}/gate": Experiment(
        "A gate chooses none, check or run before the work begins; checks and runs cost.",
        "pyfunc-novice", {"gate": learn_to_choose}, measure_gate, SEEDS,
    ),
}  # fmt: skip
REAL = ByReward(
    envs.PyFunc(tries=2), GRPO(), dict(steps=64, prompts=8, tries=8, lr=1e-5, limits=Limits(48, 2, 512))
)
