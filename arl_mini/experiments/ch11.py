"""Chapter 11: when to think, for how long, and on which tokens; GRPO from starts that answer in two modes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .. import envs, evaluate, models
from ..algorithms import GRPO
from ..algorithms.base import Algorithm
from ..batch import Episode
from ..capabilities.reasoning import fast, mode_chance, slow, thought
from ..capabilities.reasoning_rl import Forks, Priced, ThinkPrune
from ..rollout import Limits, rollout
from ..train import Record, Run
from .kinds import FRESH_SEEDS, ByReward, Experiment
from .watched import Noted

NAME = "11_reasoning"
LIMITS = Limits(turn_tokens=12, turns=1, total=40)
CHAIN = dict(steps=25, prompts=16, tries=8, lr=5e-4, limits=LIMITS)
DEPTHS = (1, 2, 3, 4)
MIXED, SHORT = envs.Chain((2, 4)), envs.Chain((2, 3))


def live(name: str, arm: str, seed: int = 0) -> tuple[list[dict], dict, dict]:
    """Trains one arm of an experiment of this chapter now: its records, and what was measured before and
    after. Raises ValueError for an experiment or an arm that is not there."""
    from . import EXPERIMENTS as every

    arms = {key.partition("/")[2]: list(e.arms) for key, e in every.items() if key.startswith(f"{NAME}/")}
    if arm not in arms.get(name, ()):
        raise ValueError(f"no arm {arm!r} of {name!r}; hint: an experiment and one of its arms of {arms}")
    experiment = every[f"{NAME}/{name}"]
    policy = models.load(experiment.start)
    before = experiment.measure(policy)
    rows = [r if isinstance(r, dict) else r.numbers() for r in experiment.arms[arm](policy, seed)]
    return rows, before, experiment.measure(policy)


# --- what is measured -------------------------------------------------------------------------------------


def tokens_of(episodes: Sequence[Episode]) -> float:
    """Mean sampled tokens a reply."""
    return float(np.mean([e.mask.sum() for e in episodes]))


def measures(env: envs.Chain) -> Callable[[object], dict[str, float]]:
    """What tells success, thinking and tokens of a policy on 512 held-out tasks of this world."""

    def measure(policy) -> dict[str, float]:
        tried = evaluate.episodes(policy, env, 512, limits=LIMITS)
        return {
            "success": float(np.mean([e.success for e in tried])),
            "thinking": float(np.mean([thought(e) for e in tried])),
            "tokens": tokens_of(tried),
        }

    return measure


measure_chains = measures(MIXED)


def note_thinking(run: Run, record: Record) -> dict[str, float]:
    """Share of the step's replies with a thought, and tokens a reply."""
    return {
        "thinking": float(np.mean([thought(e) for e in record.episodes])),
        "length": tokens_of(record.episodes),
    }


def modes_by_depth(policy, seed: int = 0, tasks: int = 128) -> list[dict]:
    """Accuracy and tokens of both modes at each depth, on tasks of this seed."""
    rows, first = [], evaluate.HELD_OUT + seed * 10_000
    for depth in DEPTHS:
        world = envs.Chain((depth, depth))
        for name, view in (("fast", fast(policy)), ("slow", slow(policy))):
            tried = rollout(view, world, range(first, first + tasks), 2, seed=seed, limits=LIMITS)
            opened = 1 if name == "slow" else 0  # `<think>` was forced, and is part of the reply all the same
            right = float(np.mean([e.success for e in tried]))
            rows.append({"depth": depth, "mode": name, "right": right, "tokens": tokens_of(tried) + opened})
    return rows


# --- a price on tokens ------------------------------------------------------------------------------------

PRICE = 0.08


@dataclass(frozen=True)
class InMode:
    """An arm whose policy can only be in one mode."""

    arm: ByReward
    mode: Callable

    def __call__(self, policy, seed: int, **changes) -> Run:
        """The run of the view; it trains the policy's own weights."""
        return self.arm(self.mode(policy), seed, **changes)


def paid(policy, env, price: float, opened: int = 0) -> float:
    """Mean of right − price·tokens on 512 held-out tasks; opened: tokens that were forced and cost too."""
    tried = evaluate.episodes(policy, env, 512, limits=LIMITS)
    return float(np.mean([e.success for e in tried])) - price * (tokens_of(tried) + opened)


def measure_priced(policy) -> dict[str, float]:
    """What the policy earns in free choice and in either mode, and how often it thinks at each depth."""
    world = envs.Chain((1, 4))
    found = {"free": paid(policy, world, PRICE)}
    found |= {"fast": paid(fast(policy), world, PRICE), "slow": paid(slow(policy), world, PRICE, 1)}
    seeds = range(evaluate.HELD_OUT, evaluate.HELD_OUT + 128)
    for depth in DEPTHS:
        found[f"thinking_{depth}"] = float(mode_chance(policy, envs.Chain((depth, depth)), seeds).mean())
    return found


def ranks(values: Sequence[float]) -> np.ndarray:
    """Rank of each value, equal ones sharing theirs."""
    values = np.asarray(values, float)
    return np.array([(np.sum(values < v) + (np.sum(values == v) + 1) / 2) for v in values])


def spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """Correlation of ranks, in [−1, 1]; 0 where one of them does not vary."""
    a, b = ranks(x) - ranks(x).mean(), ranks(y) - ranks(y).mean()
    scale = float(np.sqrt((a**2).sum() * (b**2).sum()))
    return float((a * b).sum()) / scale if scale else 0.0


# --- the failure: a price on wrong answers too ------------------------------------------------------------

STEEP = 0.08


# --- overthinking -----------------------------------------------------------------------------------------

LONG = Limits(turn_tokens=24, turns=1, total=56)
PRUNING = dict(steps=30, prompts=16, tries=8, lr=3e-4, limits=LONG)


def measure_rechecks(policy) -> dict[str, float]:
    """Success and tokens on 512 held-out chains of two and three sums, with room to think long."""
    tried = evaluate.episodes(policy, SHORT, 512, limits=LONG)
    rechecks = [e.said(0).count(" =") for e in tried]
    return {
        "success": float(np.mean([e.success for e in tried])),
        "tokens": tokens_of(tried),
        "rechecks": float(np.mean(rechecks)),
    }


# --- the real model ---------------------------------------------------------------------------------------


class Told(envs.Chain):
    """Chain for a language model that may reason in words: the last number of its reply is the answer."""

    def reset(self, seed: int) -> str:
        return super().reset(seed).strip()

    def step(self, said: str) -> envs.Reply:
        head, ended, _ = said.partition(models.tokenizer.END)
        words = "".join(c if c.isdigit() else " " for c in head).split()
        return super().step(f" {words[-1]}{models.tokenizer.END}" if words and ended else "")

    def render_chat(self) -> str:
        return (
            "Add from left to right and keep only the last digit of each sum. "
            "Write the steps first, shortly, and end with the answer, one digit."
        )


REAL = ByReward(
    Told((2, 3)), Priced(price=0.002, only_right=True),
    dict(steps=64, prompts=8, tries=8, lr=1e-4, limits=Limits(turn_tokens=64, turns=1, total=256)),
)  # fmt: skip


def arm(algorithm: Algorithm, env=MIXED, **changes) -> Noted:
    """An arm that notes thinking and length."""
    return Noted(ByReward(env, algorithm, CHAIN | changes), note_thinking)


PRICED = ByReward(envs.Chain((1, 4)), Priced(price=PRICE), CHAIN | dict(steps=60))

EXPERIMENTS = {
    f"{NAME}/rl": Experiment(
        "GRPO on the outcome alone, from a start that thinks in 3 of 10 tasks.",
        "chain-modes",
        {"GRPO": arm(GRPO())},
        measure_chains,
    ),
    f"{NAME}/forks": Experiment(
        "GRPO on all sampled tokens, on the fifth with the highest entropy, on the other four fifths.",
        "chain-modes",
        {
            "all tokens": arm(Forks(share=1.0)),
            "top 20 %": arm(Forks()),
            "bottom 80 %": arm(Forks(rest=True)),
        },
        measure_chains,
    ),
    f"{NAME}/adaptive": Experiment(
        "A price of 0.08 a token, chains of one to four sums: the mode chosen freely, and each mode fixed.",
        "chain-modes",
        {"free": PRICED, "always fast": InMode(PRICED, fast), "always slow": InMode(PRICED, slow)},
        measure_priced,
        seeds=FRESH_SEEDS[:3],
    ),
    f"{NAME}/penalty": Experiment(
        "A price of 0.08 a token on chains of two and three sums: on every answer, on right ones, on none.",
        "chain-atoms",
        {
            "on every answer": arm(Priced(price=STEEP), SHORT),
            "on right answers": arm(Priced(price=STEEP, only_right=True), SHORT),
            "on none": arm(GRPO(), SHORT),
        },
        measures(SHORT),
    ),
    f"{NAME}/overthinking": Experiment(
        "A start that re-checks up to four times: GRPO, a limit that shrinks, a price on right answers.",
        "chain-doubting",
        {
            "no limit": Noted(ByReward(SHORT, GRPO(), PRUNING), note_thinking),
            "shrinking limit": Noted(ByReward(SHORT, ThinkPrune(), PRUNING), note_thinking),
            "price on right answers": Noted(
                ByReward(SHORT, Priced(price=0.02, only_right=True), PRUNING), note_thinking
            ),
        },
        measure_rechecks,
        seeds=FRESH_SEEDS[:3],
    ),
}
