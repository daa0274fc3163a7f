"""Chapter 05, second half: which tasks, how many tries, from which beginning, towards which anchor."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from .. import envs, evaluate, ops
from ..algorithms import ARPO, DAPO, DARS, GHPO, GRESO, GRPO, SRPO, DrGRPO, ProRL, SkyworkR1V2, TreePO
from ..algorithms.base import Sampler
from ..batch import Batch, Episode, by_group, collate
from ..models.score import score
from ..models.tokenizer import encode
from ..rollout import Limits, branch, rollout
from .ch05 import CALC, CHAIN, NAME, THREE, measure_three
from .kinds import FRESH_SEEDS, ByReward, Experiment
from .watched import Watched, planned

LONG = Limits(turn_tokens=16, turns=1, total=48)
FAR = Limits(turn_tokens=8, turns=9, total=174)

# --- arms with an end of their own ------------------------------------------------------------------------


@dataclass(frozen=True)
class Until:
    """An arm that ends with the update in which `tokens` were generated, kept or not."""

    arm: Watched
    tokens: int

    def __call__(self, policy, seed: int, **changes) -> Iterator[dict]:
        """Yields the arm's records."""
        spent = 0
        for record in self.arm(policy, seed, **{"steps": 1000, **changes}):
            spent += record["generated"]
            yield record | {"spent": spent}
            if spent >= self.tokens:
                return


@dataclass(frozen=True)
class InBlocks:
    """An arm whose every `length`-th record also holds success on held-out tasks."""

    arm: Watched
    length: int

    def __call__(self, policy, seed: int, **changes) -> Iterator[dict]:
        """Yields the arm's records."""
        for record in self.arm(policy, seed, **changes):
            held_out = {} if record["step"] % self.length else {"held_out": measure_chains(policy)["success"]}
            yield record | held_out


# --- what is measured -------------------------------------------------------------------------------------


def measure_chains(policy) -> dict[str, float]:
    """Success on 256 held-out chains of two or three sums that must write every step."""
    env = envs.Chain((2, 3), "chain")
    return {"success": evaluate.success(policy, env, limits=CHAIN["limits"]).mean}


def measure_depths(policy) -> dict[str, float]:
    """Success on 128 held-out chains of each depth from one to three, every step written."""
    depths = {d: envs.Chain((d, d), "chain") for d in (1, 2, 3)}
    return {f"depth_{d}": evaluate.success(policy, env, 128, limits=LONG).mean for d, env in depths.items()}


def measure_hardest(policy) -> dict[str, float]:
    """pass@1 and pass@8 on 128 held-out chains of three sums, success on one to three; steps asked for."""
    tried = evaluate.episodes(policy, envs.Chain((3, 3), "chain"), 128, 8, limits=CHAIN["limits"])
    right = np.array([e.success for e in tried]).reshape(-1, 8).sum(1).tolist()
    found = {f"pass@{k}": float(np.mean([evaluate.pass_at_k(c, 8, k) for c in right])) for k in (1, 8)}
    mixed = evaluate.success(policy, envs.Chain((1, 3), "chain"), limits=CHAIN["limits"]).mean
    return found | {"success": mixed}


def measure_chain(policy) -> dict[str, float]:
    """Success on 256 held-out chains of one to three sums."""
    return {"success": evaluate.success(policy, envs.Chain(), limits=CHAIN["limits"]).mean}


def measure_far(policy) -> dict[str, float]:
    """Success without hints on 256 held-out quests with nine rooms and no turn to waste."""
    return {"success": evaluate.success(policy, envs.Quest(9, 9), limits=FAR).mean}


def measure_four(policy) -> dict[str, float]:
    """Success without hints on 256 held-out chains of four sums, every step written."""
    return {"success": evaluate.success(policy, envs.Chain((4, 4), "chain"), limits=LONG).mean}


def look_weight(batch: Batch) -> dict[str, float]:
    """Rows with A ≠ 0, and the sum of all rows' |A|."""
    adv = ops.row_mean(batch.advantages, batch.mask).abs()
    return {"informative": int((adv > 0).sum()), "weight": float(adv.sum())}


# --- GRESO, SRPO ------------------------------------------------------------------------------------------

MIXED = envs.Chain((1, 6), "chain")
TASKS = tuple(range(96))


def chances(policy, tries: int = 32) -> np.ndarray:
    """Share of right tries of each of the TASKS, (96,)."""
    groups = by_group(rollout(policy, MIXED, TASKS, tries, seed=5, limits=LONG))
    return np.array([np.mean([e.success for e in group]) for group in groups])


def skips(policy, seed: int, steps: int = 12) -> np.ndarray:
    """Probability that GRESO skips each of the TASKS after so many steps with a policy that stays, (96,)."""
    greso = GRESO()
    settings = CHAIN | {"steps": steps, "lr": 0.0, "limits": LONG, "tasks": TASKS}
    run = ByReward(MIXED, greso, settings)(policy.copy().requires_grad_(True), seed)
    for _ in run:
        pass
    return skip_chances(greso, run.memory)


def skip_chances(greso: GRESO, memory: dict) -> np.ndarray:
    """Probability that each of the TASKS is skipped next, (96,)."""
    streak, p_easy, p_hard = memory["streak"], memory["p_easy"], memory["p_hard"]
    return np.array([greso.skip(streak.get(task, 0), p_easy, p_hard) for task in TASKS])


@dataclass(frozen=True)
class NeverMindSolved(SRPO):
    """SRPO that goes over all its tasks in every pass."""

    def plan(self, sampler: Sampler) -> list[Episode]:
        tried = super().plan(sampler)
        sampler.memory["solved"] = []
        return tried


@dataclass(frozen=True)
class OnceSkipped(GRESO):
    """GRESO whose tasks without contrast never come back: no chance is left to those that were skipped."""

    start: float = 0.0
    low: float = 0.0
    high: float = 0.0
    floor: float = 0.0


# --- TreePO, ARPO -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grown(TreePO):
    """TreePO's trees as they grow, without dynamic sampling."""

    def plan(self, sampler: Sampler) -> list[Episode]:
        return self.grow(sampler, sampler.fresh(sampler.prompts), sampler.tries)


def distinct(algorithm: GRPO, policy, seed: int) -> dict[str, float]:
    """Different finished tries, and the tokens generated for them, of 16 quests with 8 tries each."""
    batch, spent = planned(algorithm, policy, envs.Quest(3, 8), seed=seed, **THREE)
    different = {(e.group, e.tokens.tobytes()) for e in batch.episodes}
    rate = 1000 * len(different) / spent
    return {"different tries": len(different), "tokens": spent, "per 1,000 tokens": rate}


def unsure_turns(policy, seed: int, tasks: int = 64, rerolls: int = 8) -> tuple[np.ndarray, ...]:
    """Turns after an answer: ΔH as in ARPO, variance of success in `rerolls` branches, was it ` down`?"""
    env, limits = envs.Calc(("product",), failing=0.3), CALC["limits"]
    first = 10_000 * (seed + 1)
    tried = rollout(policy, env, range(first, first + tasks), 2, seed=seed, limits=limits)
    tried = [e for e in tried if e.turns > 1]
    with torch.no_grad():
        entropy = score(policy, collate(tried)).entropy.numpy()
    (word,) = encode(policy.tokenizer, " down")
    rise, places, down = [], [], []
    for i, e in enumerate(tried):
        mean = [entropy[i, : len(e)][(e.turn == k) & (e.mask > 0)][:20].mean() for k in range(e.turns)]
        rise += [(mean[k] - mean[0]) / np.log(len(e.tokenizer)) for k in range(1, e.turns)]
        places += [(e, int(np.argmax(e.turn == k))) for k in range(1, e.turns)]
        heard = [e.tokens[(e.turn == k - 1) & (e.mask == 0)] for k in range(1, e.turns)]
        down += [bool((tokens == word).any()) for tokens in heard]
    again = branch(policy, env, *zip(*places), rerolls, seed=seed, limits=limits)
    won = np.array([e.success for e in again], float).reshape(len(places), rerolls)
    return np.array(rise), won.var(1, ddof=1), np.array(down)


def branched(rise: np.ndarray, variance: np.ndarray, arpo: ARPO) -> float:
    """Mean variance among branches where turns branch with ARPO's chances."""
    return float(np.average(variance, weights=[arpo.chance(r) for r in rise]))


# --- the recorded experiments -----------------------------------------------------------------------------


def chains(algorithm: GRPO, depths: tuple[int, int], score: str = "chain", look=None, **changes) -> Watched:
    """An arm on chains."""
    arm = ByReward(envs.Chain(depths, score), algorithm, CHAIN | changes)
    return Watched(arm, look) if look else Watched(arm)


def filtered(algorithm: GRPO, tasks: int = len(TASKS)) -> Until:
    """An arm on so many tasks, of which most give no contrast, for 20,000 tokens."""
    settings = CHAIN | {"limits": LONG, "tasks": tuple(range(tasks))}
    return Until(Watched(ByReward(MIXED, algorithm, settings)), 20_000)


def far(algorithm: GRPO) -> Watched:
    """An arm on long quests with hardly a turn to waste."""
    settings = dict(steps=40, prompts=12, tries=6, lr=1e-3, limits=FAR)
    return Watched(ByReward(envs.Quest(9, 9), algorithm, settings))


EXPERIMENTS = {
    f"{NAME}/prorl": Experiment(
        "A strong KL anchor that stays, or moves where progress stalls: three blocks of 20 updates.",
        "chain-atoms",
        {
            name: InBlocks(chains(ProRL(beta=0.5, window=window, rounds=2), (2, 3), steps=60), 20)
            for name, window in (("anchor stays", 1000), ("anchor moves", 8))
        },
        measure_chains,
    ),
    f"{NAME}/srpo": Experiment(
        "Passes over 64 fixed tasks; those solved in every try leave, or stay.",
        "chain-atoms",
        {
            name: chains(algorithm, (1, 3), steps=16, tasks=tuple(range(64)))
            for name, algorithm in (("all stay", NeverMindSolved()), ("SRPO", SRPO()))
        },
        measure_depths,
    ),
    f"{NAME}/greso": Experiment(
        "Most tasks give no contrast: resample until there is some, or skip before sampling. Equal tokens.",
        "chain-atoms",
        {"DAPO": filtered(DAPO()), "GRESO": filtered(GRESO()), "once skipped": filtered(OnceSkipped())},
        measure_depths,
    ),
    f"{NAME}/greso_480": Experiment(
        "The same with 480 tasks.",
        "chain-atoms",
        {"DAPO": filtered(DAPO(), 480), "GRESO": filtered(GRESO(), 480)},
        measure_depths,
        seeds=FRESH_SEEDS[:3],
    ),
    f"{NAME}/ghpo": Experiment(
        "Quests that the start solves in 2 of 100 tries, with hints for groups that fail and without.",
        "quest-novice",
        {"GRPO": far(GRPO()), "GHPO": far(GHPO())},
        measure_far,
        seeds=FRESH_SEEDS[:3],
    ),
    f"{NAME}/ghpo_beyond": Experiment(
        "The same with chains of four sums, of which the start has never seen one.",
        "chain-atoms",
        {
            name: chains(algorithm, (4, 4), steps=40, limits=LONG)
            for name, algorithm in (("GRPO", GRPO()), ("GHPO", GHPO()))
        },
        measure_four,
        seeds=FRESH_SEEDS[:3],
    ),
    f"{NAME}/skywork": Experiment(
        "Rows without advantage replaced by earlier ones from a buffer.",
        "chain-atoms",
        {
            name: chains(algorithm, (1, 3), "final", look_weight, steps=24)
            for name, algorithm in (("GRPO", GRPO()), ("Skywork R1V2", SkyworkR1V2()))
        },
        measure_chain,
    ),
    f"{NAME}/treepo": Experiment(
        "Tries that share beginnings against independent ones, for 60,000 tokens.",
        "quest-novice",
        {
            name: Until(Watched(ByReward(envs.Quest(3, 8), algorithm, THREE | {"lr": 1e-3})), 60_000)
            for name, algorithm in (("DAPO", DAPO(rounds=1)), ("TreePO", TreePO(rounds=1)))
        },
        measure_three,
    ),
    f"{NAME}/dars": Experiment(
        "More tries for hard tasks against the same for all, for 10,000 tokens.",
        "chain-atoms",
        {
            "same for all": Until(chains(DrGRPO(), (1, 3)), 10_000),
            "DARS": Until(chains(DARS(most=24), (1, 3), tries=4), 10_000),
        },
        measure_hardest,
    ),
}
