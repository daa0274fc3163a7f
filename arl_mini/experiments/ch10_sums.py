"""Chapter 10, sums and puzzles: rewards that nobody labels, a challenger, a curriculum, a shared bank of successes."""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from .. import envs, evaluate, models
from ..algorithms import GRPO
from ..batch import Batch, Episode
from ..capabilities.improvement import CurriculumBandit, ExperienceBank, Judged, dual_reward, majority_reward
from ..capabilities.improvement_play import PROPOSE, Proposer, by_majority, self_play
from ..capabilities.improvement_roles import Questions, last_of, missing
from ..capabilities.vote import vote
from ..imitate import imitate
from ..models.tokenizer import END
from ..rollout import Limits, demonstrate, rollout
from ..train import train
from .kinds import ByReward, Experiment
from .watched import Noted, Watched, nothing

NAME = "10_self_improvement"
SEEDS = (10, 11, 12)
LIMITS = Limits(turn_tokens=14, turns=1, total=64)
SUMS = envs.Chain((2, 3))
TRAINED = dict(steps=16, prompts=16, tries=8, lr=1e-3, limits=LIMITS)


def final(episode: Episode) -> str | None:
    """The answer behind the steps."""
    return last_of(episode.said(0))


def right(policy, env, tasks: int = 256) -> float:
    """Share of held-out tasks with the right final answer."""
    return evaluate.success(policy, env, tasks, limits=LIMITS).mean


# --- a belief, and votes ----------------------------------------------------------------------------------


def believes(env: envs.Chain, rng: random.Random) -> str:
    """Of three additions it mostly forgets the last; of two, it works out a half and guesses the rest."""
    chance = rng.random()
    if env.depth == 3 and chance < 0.6:
        return f"{env.expert().removesuffix(f' {env.answer}{END}')} {env.steps[-1]}{END}"
    return env.expert() if chance < (0.9 if env.depth == 3 else 0.5) else env.guess(rng)


@cache
def believer() -> models.TinyLM:
    """A policy that knows its sums, with that belief. Copy it before you train it."""
    policy, rng = models.load("chain-atoms"), random.Random("believer")
    shown = demonstrate(policy, SUMS, range(2000), lambda env: believes(env, rng))
    for _ in imitate(policy, shown, steps=120, rows=64, lr=1e-3):
        pass
    return policy


def tests(n: int = 128) -> tuple[int, ...]:
    """The test set that TTRL trains on, without its answers."""
    return tuple(range(evaluate.HELD_OUT, evaluate.HELD_OUT + n))


@cache
def first_votes(tries: int = 32) -> dict[int, bool]:
    """Task → whether the believer's majority is right."""
    made, found = rollout(believer(), SUMS, tests(), tries, limits=LIMITS), {}
    for k in range(0, len(made), tries):
        tried = made[k : k + tries]
        winner = vote([final(e) for e in tried]).answer
        found[tried[0].seed] = any(e.success for e in tried if final(e) == winner)
    return found


def where(keep: bool) -> tuple[int, ...]:
    """The test tasks whose first majority is right, or wrong."""
    return tuple(s for s, ok in first_votes().items() if ok == keep)


@dataclass(frozen=True)
class OnTests:
    """An arm that trains the believer on test tasks; its records hold what was paid, `paid`, beside the truth, `success`."""

    algorithm: GRPO
    wrong_only: bool = False

    def __call__(self, policy, seed: int, **changes) -> Iterator[dict]:
        policy.load_state_dict(believer().state_dict())
        tasks = where(False) if self.wrong_only else tests()
        settings = TRAINED | dict(steps=14, tries=16, lr=7e-4, tasks=tasks)
        return Watched(ByReward(SUMS, self.algorithm, settings), paid)(policy, seed, **changes)


def paid(batch: Batch) -> dict[str, float]:
    """What the judge paid, on average."""
    return {"paid": float(batch.reward.mean())}


def measure_tests(policy) -> dict[str, float]:
    """Share right among test tasks with a right and with a wrong first majority, all, and others that nobody trained on."""
    found = {}
    for name, tasks in (("vote_right", where(True)), ("vote_wrong", where(False)), ("all", tests())):
        found[name] = float(np.mean([e.success for e in rollout(policy, SUMS, tasks, 8, limits=LIMITS)]))
    others = range(evaluate.HELD_OUT + 10_000, evaluate.HELD_OUT + 10_256)
    return found | {
        "others": float(np.mean([e.success for e in rollout(policy, SUMS, others, limits=LIMITS)]))
    }


@dataclass(frozen=True)
class Start:
    """An arm without training: the believer as it is."""

    def __call__(self, policy, seed: int) -> Iterator[dict]:
        policy.load_state_dict(believer().state_dict())
        return iter(())


# --- forwards and backwards -------------------------------------------------------------------------------


def hidden(episode: Episode) -> tuple[str, str] | None:
    """A sum told backwards: the answer given, one number of the task hidden (which one, its seed says), and that number."""
    result = final(episode)
    if result is None or not re.fullmatch(r" \d", result):
        return None
    task = episode.text.partition("<bot>")[0]
    digits = [int(d) for d in re.findall(r"\d", task)]
    k = episode.seed % len(digits)
    return missing(digits, k, int(result)), f" {digits[k]}"


TWO, CALM = envs.Chain((2, 2)), TRAINED | dict(steps=20, lr=4e-4)


@dataclass(frozen=True)
class Dual:
    """An arm of GRPO in which the start, asked backwards eight times, judges the answer."""

    def __call__(self, policy, seed: int, **changes) -> Iterator:
        judge = dual_reward(policy.copy(), hidden, final, tries=8)
        return train(policy, TWO, Judged(judge=judge), **CALM | {"seed": seed, **changes})


def measure_sums(policy) -> dict[str, float]:
    """Share of held-out sums right, by depth, and of two and three additions together."""
    return {f"depth_{d}": right(policy, envs.Chain((d, d)), 256) for d in (1, 2, 3, 4)} | {
        "sums": right(policy, SUMS)
    }


# --- challenger and solver --------------------------------------------------------------------------------


def true_sum(question: str) -> str | None:
    """The answer to ` 3 + 4 + 8 =`, or None where that is no sum."""
    if not re.fullmatch(r"( \d)( \+ \d){1,6} =", question):
        return None
    total = sum(int(d) for d in re.findall(r"\d", question))
    return f" {total % 10}"


@dataclass(frozen=True)
class Challenge:
    """R-Zero: a challenger, a copy of the start, proposes sums; the solver trains on its own majority.

    learns: whether the challenger is trained on the solver's uncertainty, or goes on as the start does.
    """

    learns: bool = True
    rounds: int = 16

    def __call__(self, policy, seed: int, **changes) -> Iterator[dict]:
        proposer = Proposer(policy, by_majority, answer=final, valid=lambda q: true_sum(q) is not None)
        many, world = dict(limits=LIMITS, steps=1000, seed=seed), Questions([(PROPOSE, "")], read=last_of)
        challenger = train(
            policy.copy().requires_grad_(True),
            world,
            Judged(judge=proposer),
            prompts=1,
            tries=64,
            lr=5e-4 if self.learns else 0.0,
            **many,
        )
        solving = train(policy, world, GRPO(), prompts=16, tries=8, lr=4e-4, **many)
        for row in self_play(challenger, solving, proposer, changes.get("rounds", self.rounds)):
            true = [p.answer == true_sum(p.question) for p in proposer.found]
            yield row | {"labels_right": float(np.mean(true or [0.0]))}


# --- a curriculum -----------------------------------------------------------------------------------------

DEPTHS = tuple(range(1, 8))
LADDER = envs.Chain((DEPTHS[0], DEPTHS[-1]), score="chain")
LONGER = Limits(turn_tokens=24, turns=1, total=80)


def depth_of(seed: int) -> int:
    """Additions in the task of a seed."""
    env = LADDER.clone()
    env.reset(seed)
    return env.depth


def held_out(run, record) -> dict[str, float]:
    """Success on all depths, every fifth update; and the share of tasks drawn by depth."""
    drawn = run.memory["drawn"][-1]
    numbers = {f"drawn_{d}": n / sum(drawn) for d, n in zip(DEPTHS, drawn)}
    if record.step % 5 == 0:
        numbers["held_out"] = evaluate.success(run.policy, LADDER, 384, limits=LONGER).mean
    return numbers


def curriculum(heat: float) -> Noted:
    """An arm that chooses depths with this heat."""
    bandit = CurriculumBandit(arm=depth_of, arms=DEPTHS, heat=heat)
    return Noted(ByReward(LADDER, bandit, TRAINED | dict(steps=30, limits=LONGER)), held_out)


# --- a shared bank ----------------------------------------------------------------------------------------

KINDS = ("parity", "sort", "brackets", "count", "copy", "lookup")
CAMP = envs.Bootcamp(KINDS, (2, 4))
OWN = (KINDS[:2], KINDS[2:4], KINDS[4:])


@cache
def specialist(number: int) -> models.TinyLM:
    """The novice of the bootcamp, taught two kinds well and, of the others, any answer of the right form."""
    policy, rng = models.load("bootcamp-novice"), random.Random(f"specialist {number}")

    def speak(env: envs.Bootcamp) -> str:
        return env.expert() if env.kind in OWN[number] else env.random(rng)

    shown = demonstrate(policy, CAMP, range(2000), speak)
    for _ in imitate(policy, shown, steps=100, rows=64, lr=1.5e-3):
        pass
    return policy


@dataclass(frozen=True)
class Bank:
    """Three specialists try tasks of all kinds and imitate what succeeded: of all three where `shared`, else each its own."""

    shared: bool
    rounds: int = 2

    def __call__(self, policy, seed: int, **changes) -> Iterator[dict]:
        agents = [specialist(k).copy().requires_grad_(True) for k in range(3)]
        banks = [ExperienceBank()] * 3 if self.shared else [ExperienceBank() for _ in agents]
        yield {"step": 0} | camp_success(agents) | {"bank": 0}
        for number in range(1, changes.get("rounds", self.rounds) + 1):
            first = 1_000_000 * (seed + 1) + 1000 * number
            for k, (agent, bank) in enumerate(zip(agents, banks)):
                bank.add(rollout(agent, CAMP, range(first, first + 96), 4, seed=10 * seed + k, limits=LIMITS))
            for agent, bank in zip(agents, banks):
                for _ in imitate(agent, list(bank), steps=25, rows=64, lr=1e-3, seed=seed):
                    pass
            yield {"step": number} | camp_success(agents) | {"bank": float(np.mean([len(b) for b in banks]))}


def camp_success(agents: Sequence) -> dict[str, float]:
    """Success of each agent on 256 held-out tasks of all kinds, their mean, and the mean on kinds that are not its own."""
    found, foreign = {}, []
    for k, agent in enumerate(agents):
        tried = evaluate.episodes(agent, CAMP, limits=LIMITS)
        found[f"agent_{k}"] = float(np.mean([e.success for e in tried]))
        foreign += [e.success for e in tried if e.infos[-1]["puzzle"] not in OWN[k]]
    return found | {"mean": float(np.mean(list(found.values()))), "foreign": float(np.mean(foreign))}


EXPERIMENTS = {
    f"{NAME}/dual": Experiment(
        "Sums without labels: a reward from asking backwards, and the majority.",
        "sums-novice",
        {
            "backwards": Dual(), "majority": ByReward(TWO, Judged(judge=majority_reward(final)), CALM),
        },
        measure_sums, SEEDS,
    ),
    f"{NAME}/challenger": Experiment(
        "A challenger proposes sums, the solver learns from its own majority.",
        "sums-novice", {"challenger learns": Challenge(), "challenger stays": Challenge(learns=False)}, measure_sums, SEEDS,
    ),
    f"{NAME}/curriculum": Experiment(
        "Which depth of sums to train on: a bandit on mean |advantage|, or all alike.",
        "chain-atoms", {"bandit": curriculum(0.08), "uniform": curriculum(float("inf"))}, nothing, SEEDS,
    ),
    f"{NAME}/ttrl": Experiment(
        "Training on a test set without answers, by majority: where the first majority is right, and where it is wrong.",
        "chain-atoms",
        {
            "start": Start(), "majority": OnTests(Judged(judge=majority_reward(final))),
            "majority, wrong ones only": OnTests(Judged(judge=majority_reward(final)), wrong_only=True),
        },
        measure_tests, (13, 14, 15),
    ),
    f"{NAME}/bank": Experiment(
        "Three specialists and the successes of all, or each its own.",
        "bootcamp-novice", {"shared": Bank(True), "alone": Bank(False)}, nothing, SEEDS,
    ),
}  # fmt: skip
