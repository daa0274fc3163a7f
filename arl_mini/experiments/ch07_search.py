"""Chapter 07: a frozen proposer that looks ahead. Search with a value, a critic without search, overestimated
leaves.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np

from .. import envs, evaluate, models
from ..batch import Episode
from ..capabilities.ahead import follow, propose, reroll, worth
from ..capabilities.planning import (
    GoalCritic,
    ValueGuide,
    beam,
    choice,
    fit_to_truth,
    guided,
    mcts,
    play,
    random_playouts,
)
from ..capabilities.planning.search import Choose, Evaluate
from ..rollout import Limits, Row, Sampling, rollout, start
from .kinds import FRESH_SEEDS, Experiment
from .watched import nothing

NAME = "07_planning"
CRAFT = envs.Craft((1, 3), slack=4)
LIMITS = Limits(turn_tokens=8, turns=15, total=380)
LOGS, FIT, TASKS = 400, 40, 24


def logs(policy, seed: int, tasks: int = LOGS, env=CRAFT) -> list[Episode]:
    """One try of each of so many training tasks of this seed."""
    first = 1_000_000 * (seed + 1)
    return rollout(policy, env, range(first, first + tasks), seed=seed, limits=LIMITS)


@cache
def guide(seed: int, steps: int = FIT) -> ValueGuide:
    """V of the novice, fitted to how 400 of its own episodes ended."""
    policy = models.load("craft-novice")
    fitted = ValueGuide.of(policy)
    for _ in fitted.fit(logs(policy, seed), steps=steps, seed=seed):
        pass
    return fitted


@cache
def critic(seed: int, steps: int = 60) -> GoalCritic:
    """The goal critic, fitted to the same 400 episodes told again."""
    policy = models.load("craft-novice")
    fitted = GoalCritic.of(policy)
    for _ in fitted.fit(logs(policy, seed), steps=steps, lr=2e-3, seed=seed):
        pass
    return fitted


# --- ways to choose a turn --------------------------------------------------------------------------------


def by_policy(policy, seed: int, temperature: float = 1.0) -> Choose:
    """What the policy says."""
    how = dict(sampling=Sampling(temperature), limits=LIMITS)
    return lambda rows, turn: [c for (c,) in propose(policy, rows, 1, seed=seed * 100 + turn, **how)]


def by_mcts(policy, evaluate: Evaluate, steps: int, seed: int) -> Choose:
    """The first turn of a tree search of so many simulator steps."""
    how = dict(steps=steps, limits=LIMITS)
    return lambda rows, turn: [
        choice(root) for root in mcts(policy, rows, evaluate, seed=seed * 100 + turn, **how)
    ]


def by_rerolls(policy, steps: int, seed: int) -> Choose:
    """The first turn of the best of whole continuations, as many as so many simulator steps allow."""

    def choose(rows: Sequence[Row], turn: int):
        longest = max(row.env.limit - row.env.turns for row in rows)
        tried = reroll(policy, rows, max(1, steps // longest), seed=seed * 100 + turn, limits=LIMITS)
        best = [max(tries, key=lambda e: e.reward) for tries in tried]
        return [follow(policy, row, e.said(turn)) for row, e in zip(rows, best)]

    return choose


def by_critic(policy, judge: GoalCritic, seed: int, width: int = 4) -> Choose:
    """Of four proposals the one that the critic likes best."""
    return lambda rows, turn: judge.rerank(
        propose(policy, rows, width, seed=seed * 100 + turn, limits=LIMITS)
    )


def by_likelihood(policy, seed: int, width: int = 4) -> Choose:
    """Of four proposals the likeliest."""

    def choose(rows: Sequence[Row], turn: int):
        return [
            max(c, key=lambda c: c.logp)
            for c in propose(policy, rows, width, seed=seed * 100 + turn, limits=LIMITS)
        ]

    return choose


def ends(policy, choose: Choose, seed: int, tasks: int = TASKS, env=CRAFT) -> list[Row]:
    """How held-out tasks of this seed end when every turn is chosen so."""
    first = evaluate.HELD_OUT + 1000 * seed
    return play(policy, env, range(first, first + tasks), choose, LIMITS)


def played(policy, choose: Choose, seed: int, tasks: int = TASKS) -> dict[str, float]:
    """Success on held-out tasks of this seed when every turn is chosen so."""
    return {"success": float(np.mean([row.episode.reward > 0 for row in ends(policy, choose, seed, tasks)]))}


def chosen(make: Callable[[object, int], Choose], **how) -> Callable:
    """An arm that trains nothing: one record of what a way to choose reaches."""

    def arm(policy, seed: int) -> Iterator[dict]:
        yield played(policy, make(policy, seed), seed, **how)

    return arm


# --- failure lab: leaves that look better than they are ---------------------------------------------------


def leaves(policy, judge: ValueGuide, seed: int, tasks: int = 12, rerolls: int = 8) -> dict[str, list]:
    """A beam search by V on training tasks: depth, told value and true worth of every state it went on with."""
    first = 3_000_000 * (seed + 1)
    rows = [start(policy, CRAFT, task) for task in range(first, first + tasks)]
    found = beam(policy, rows, judge.values, keep=2, width=4, seed=seed, limits=LIMITS)
    kept = [
        (depth, c.row) for b in found for depth, level in enumerate(b.kept, 1) for c in level if not c.over
    ]
    states = [row for _, row in kept]
    truth = worth(policy, states, rerolls, seed=seed, limits=LIMITS)
    return {"depth": [d for d, _ in kept], "told": judge.values(states), "true": truth, "rows": states}


def refitted(seed: int, policy=None, steps: int = FIT) -> tuple[dict, dict]:
    """Leaves before and after V is fitted anew to what the searched states of other tasks are truly worth."""
    policy = policy or models.load("craft-novice")
    before = leaves(policy, guide(seed), seed)
    judge = ValueGuide.of(policy)
    judge.model.load_state_dict(guide(seed).model.state_dict())
    for _ in fit_to_truth(
        judge, before["rows"], before["true"], logs(policy, seed, 100), steps=steps, seed=seed
    ):
        pass
    return leaves(policy, guide(seed), seed + 500), leaves(policy, judge, seed + 500)


def overestimates(policy, seed: int) -> Iterator[dict]:
    """One record for each depth and judge: mean told value, mean true worth, states."""
    for name, found in zip(("first fit", "refit"), refitted(seed, policy)):
        depth, told, true = (np.array(found[k]) for k in ("depth", "told", "true"))
        for d in sorted(set(depth)):
            at = depth == d
            yield {
                "judge": name,
                "step": int(d),
                "told": float(told[at].mean()),
                "true": float(true[at].mean()),
                "n": int(at.sum()),
            }


def searches(budgets: Sequence[int]) -> dict[str, Callable]:
    """Arms at equal simulator steps a decision."""
    arms = {}
    for steps in budgets:
        arms |= {
            f"MCTS, V, {steps}": chosen(lambda p, s, n=steps: by_mcts(p, guided(guide(s)), n, s)),
            f"MCTS, random playouts, {steps}": chosen(
                lambda p, s, n=steps: by_mcts(p, random_playouts(s), n, s)
            ),
            f"best of re-rolls, {steps}": chosen(lambda p, s, n=steps: by_rerolls(p, n, s)),
        }
    return arms


EXPERIMENTS = {
    f"{NAME}/search": Experiment(
        "A frozen proposer on crafting tasks: alone, and with a search of 16 or 64 simulator steps a decision.",
        "craft-novice",
        {
            "proposer": chosen(lambda p, s: by_policy(p, s), tasks=128),
            "greedy proposer": chosen(lambda p, s: by_policy(p, s, 0.0), tasks=128),
            **searches((16, 64)),
        },
        nothing,
        seeds=FRESH_SEEDS[:3],
    ),
    f"{NAME}/critic": Experiment(
        "Four proposals, one taken, no simulator step: at random, the likeliest, or the likeliest given the goal.",
        "craft-novice",
        {
            "proposer": chosen(lambda p, s: by_policy(p, s), tasks=128),
            "likeliest of 4": chosen(lambda p, s: by_likelihood(p, s), tasks=128),
            "goal critic": chosen(lambda p, s: by_critic(p, critic(s), s), tasks=128),
        },
        nothing,
        seeds=FRESH_SEEDS[:3],
    ),
    f"{NAME}/leaves": Experiment(
        "What V says of the states that a beam search goes on with, and what they are worth by re-rolls.",
        "craft-novice",
        {"beam by V": overestimates},
        nothing,
        seeds=FRESH_SEEDS[:3],
    ),
}
