"""Chapter 11: votes, a verifier of steps, the best of n, and chains that a search writes for imitation."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .. import envs, evaluate
from ..algorithms import GRPO
from ..batch import Episode, by_group
from ..capabilities.reasoning import (
    StepVerifier,
    best_of_n,
    confidence,
    fast,
    first_mistake,
    reroll_labels,
    search_chains,
    self_consistency,
    slow,
    step_verifier,
    true_labels,
    verified,
)
from ..imitate import imitate
from ..rollout import demonstrate, rollout
from .ch11 import CHAIN, LIMITS, NAME, measure_chains
from .kinds import FRESH_SEEDS, ByReward, Experiment
from .watched import Watched, sampled

LONG = envs.Chain((3, 4))  # where the careless start slips often


def right_answer(episode: Episode, env: envs.Chain = LONG) -> str:
    """The answer of the episode's task."""
    env = env.clone()
    env.reset(episode.seed)
    return str(env.answer)


# --- votes ------------------------------------------------------------------------------------------------


def votes(policy, seed: int, tasks: int = 128, tries: int = 8) -> dict[str, float]:
    """Accuracy of one try and of the vote of `tries`, on chains of three and four sums of this seed."""
    first = evaluate.HELD_OUT + seed * 10_000
    groups = by_group(rollout(policy, LONG, range(first, first + tasks), tries, seed=seed, limits=LIMITS))
    won = [self_consistency(group).answer == right_answer(group[0]) for group in groups]
    return {"one": float(np.mean([e.success for g in groups for e in g])), "vote": float(np.mean(won))}


def agreement(policy, seed: int = 0, tasks: int = 256, tries: int = 8) -> tuple[list[float], list[bool]]:
    """The share of the votes that the winner got, as a confidence, and whether it was right; invalid votes
    lose."""
    first = evaluate.HELD_OUT + seed * 10_000
    groups = by_group(rollout(policy, LONG, range(first, first + tasks), tries, seed=seed, limits=LIMITS))
    found = [(self_consistency(group), right_answer(group[0])) for group in groups]
    return [v.share for v, _ in found], [v.answer == truth for v, truth in found]


# --- a verifier, and what it chooses ----------------------------------------------------------------------

LABELLED, REROLLS, ABOVE, FITTED = 256, 8, 0.2, 100  # replies with labels, continuations a step, …, updates


def labelled(policy, seed: int, by_rule: bool) -> tuple[list[tuple[Episode, np.ndarray]], int]:
    """Slow replies to training tasks with labels up to the first mistake, and the tokens they cost.

    by_rule: the labels are the truth; else a step is right where more than ABOVE of its re-rolls succeed.
    """
    first = 1_000_000 * (seed + 1)
    made = rollout(slow(policy), LONG, range(first, first + LABELLED), seed=seed, limits=LIMITS)
    if by_rule:
        labels, spent = [true_labels(e) for e in made], 0
    else:
        labels, spent = reroll_labels(slow(policy), LONG, made, REROLLS, seed=seed, limits=LIMITS)
    return [(e, first_mistake(row, ABOVE)) for e, row in zip(made, labels)], spent + sampled(made)


def make_verifier(policy, seed: int, by_rule: bool, steps: int = FITTED) -> tuple[StepVerifier, int]:
    """A step verifier of the policy's own slow replies, and the tokens that its labels cost."""
    shown, spent = labelled(policy, seed, by_rule)
    return step_verifier(policy, shown, steps=steps, seed=seed), spent


def choices(policy, verifier, seed: int, tasks: int = 128, tries: int = 8) -> dict[str, float]:
    """Accuracy of what each way chooses among the same `tries` slow replies to each held-out task of this
    seed."""
    first = evaluate.HELD_OUT + seed * 10_000
    made = rollout(slow(policy), LONG, range(first, first + tasks), tries, seed=seed, limits=LIMITS)
    score = dict(zip(map(id, made), verified(verifier, made)))
    found: dict[str, list[bool]] = {}
    for group in by_group(made):
        right, truth = [e.success for e in group], right_answer(group[0])
        verdicts = [score[id(e)] for e in group]
        vote = self_consistency(group, lambda e: float(np.exp(score[id(e)])))
        for name, won in {
            "random": float(np.mean(right)),
            "log-prob": best_of_n(group, [confidence(e) for e in group]).success,
            "vote": self_consistency(group).answer == truth,
            "verifier": best_of_n(group, verdicts).success,
            "vote, weighed by the verifier": vote.answer == truth,
            "any right": any(right),
        }.items():
            found.setdefault(name, []).append(won)
    return {name: float(np.mean(won)) for name, won in found.items()}


def accuracy_vs_tokens(policy, verifier, seed: int, tasks: int = 128) -> list[dict]:
    """What 1, 2, 4, … tries buy in either mode: way, tries, tokens a task, share right; on tasks of this
    seed."""
    first, rows = evaluate.HELD_OUT + seed * 10_000, []
    for view, most, opened in ((fast(policy), 32, 0), (slow(policy), 8, 1)):
        made = rollout(view, LONG, range(first, first + tasks), most, seed=seed, limits=LIMITS)
        groups = by_group(made)
        truth = [right_answer(group[0]) for group in groups]
        score = dict(zip(map(id, made), verified(verifier, made)))
        for n in (2**k for k in range(most.bit_length())):
            some = [group[:n] for group in groups]
            spent = sampled([e for group in some for e in group]) / tasks + opened * n
            vote = np.mean([self_consistency(g).answer == t for g, t in zip(some, truth)])
            rows.append(
                {"way": f"{'slow' if opened else 'fast'}, vote", "tries": n, "tokens": spent, "right": vote}
            )
            if opened:
                won = np.mean([best_of_n(g, [score[id(e)] for e in g]).success for g in some])
                rows.append({"way": "slow, verifier", "tries": n, "tokens": spent, "right": won})
    return rows


@dataclass(frozen=True)
class Chosen:
    """An arm that trains a verifier, not the policy: one record with what each way chooses."""

    by_rule: bool

    def __call__(self, policy, seed: int) -> Iterator[dict]:
        """Yields the record; `tokens` is what the labels cost."""
        verifier, spent = make_verifier(policy, seed, self.by_rule)
        yield {"step": 1, "tokens": spent, **choices(policy, verifier, seed)}


# --- chains for imitation ---------------------------------------------------------------------------------

TAUGHT = dict(steps=60, rows=64, lr=1e-3)


@dataclass(frozen=True)
class Searched:
    """An arm: a beam under a verifier writes a chain for each of `tasks` tasks; those that end right are
    imitated."""

    tasks: int = 128
    width: int = 2
    expand: int = 4

    def __call__(self, policy, seed: int) -> Iterator[dict]:
        """Yields the loss of each update; `generated` counts all tokens sampled, those for the labels too."""
        verifier, spent = make_verifier(policy, seed, by_rule=True)
        first = 1_000_000 * (seed + 1) + LABELLED
        found = search_chains(
            slow(policy), envs.Chain((2, 4)), range(first, first + self.tasks),
            lambda beginnings: verified(verifier, beginnings),
            width=self.width, expand=self.expand, seed=seed, limits=LIMITS,
        )  # fmt: skip
        yield from taught(policy, [e for e in found.best if e.success], seed, spent + found.tokens)


@dataclass(frozen=True)
class Rejected:
    """An arm: sample until `tokens` are spent, imitate the replies that end right."""

    tokens: int

    def __call__(self, policy, seed: int) -> Iterator[dict]:
        """Yields the loss of each update."""
        kept, spent, first = [], 0, 1_000_000 * (seed + 1)
        while spent < self.tokens:
            made = rollout(policy, envs.Chain((2, 4)), range(first, first + 64), 4, seed=seed, limits=LIMITS)
            kept += [e for e in made if e.success]
            spent, first = spent + sampled(made), first + 64
        yield from taught(policy, kept, seed, spent)


def taught(policy, shown: Sequence[Episode], seed: int, spent: int) -> Iterator[dict]:
    """Imitates replies; records tell the tokens that were sampled to get them."""
    closed = [spoken(policy, e) for e in shown]
    for step, loss in enumerate(imitate(policy, closed, **TAUGHT, seed=seed), 1):
        yield {"step": step, "loss": loss, "generated": spent if step == 1 else 0, "shown": len(closed)}


def spoken(policy, episode: Episode) -> Episode:
    """The reply as if the policy had said all of it, `<think>` too where it was forced."""
    said = episode.text.partition(policy.format.prompt_after)[2]
    return demonstrate(policy, envs.Chain((2, 4)), [episode.seed], lambda env: said)[0]


EXPERIMENTS = {
    f"{NAME}/verifier": Experiment(
        "What is chosen of eight slow replies: at random, by log-probability, by vote, by a step verifier.",
        "chain-careless",
        {"labels by rule": Chosen(True), "labels by re-rolls": Chosen(False)},
        lambda policy: {},
        seeds=FRESH_SEEDS[:3],
    ),
    f"{NAME}/search": Experiment(
        "Imitation of chains that a search wrote, against GRPO and imitation of the policy's right replies.",
        "chain-careless",
        {
            "GRPO": Watched(ByReward(envs.Chain((2, 4)), GRPO(), CHAIN)),
            "search": Searched(),
            "right replies": Rejected(8_000),
        },
        measure_chains,
        seeds=FRESH_SEEDS[:3],
    ),
}
