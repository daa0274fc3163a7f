"""Chapter 07: planning that is trained into the policy. Searches are in ch07_search.py, libraries and logs in
ch07_offline.py.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch

from .. import envs, evaluate, models, ops
from ..algorithms import ETO, GRPO, DrGRPO
from ..algorithms.dpo import Pair
from ..batch import Episode, collate
from ..capabilities.pairs import won_and_lost
from ..capabilities.planning import Milestones, PlanFirst, PlanGate
from ..imitate import imitate
from ..models.score import score
from ..models.tiny import TinyConfig, TinyLM
from ..rollout import Limits, rollout
from ..train import train
from .ch07_search import CRAFT, LIMITS, NAME, logs
from .kinds import FRESH_SEEDS, ByReward, Experiment
from .watched import nothing

TURNS = Limits(turn_tokens=36, turns=13, total=360)  # of Craft with a written plan
GRIDDED = Limits(turn_tokens=6, turns=15, total=340)
ONLINE = dict(steps=8, prompts=16, tries=8, lr=1e-3, limits=LIMITS)
THREE = FRESH_SEEDS[:3]


# --- when to plan -----------------------------------------------------------------------------------------

GATE = dict(steps=24, prompts=12, tries=8, lr=4e-4, limits=GRIDDED)


def measure_gate(policy, tasks: int = 64) -> dict[str, float]:
    """Net return on so many mazes under each rule; success and share of tasks with a plan where it decides itself,
    on half as many open and as many walled ones.
    """
    found = {}
    for when in ("free", "always", "never"):
        tried = evaluate.episodes(policy, PlanGate(when), tasks, limits=GRIDDED)
        found[f"return_{when}"] = float(np.mean([e.reward for e in tried]))
    for name, walled in (("open", 0.0), ("walled", 1.0)):
        tried = evaluate.episodes(policy, PlanGate(walled=walled), tasks // 2, limits=GRIDDED)
        found[f"{name}_success"] = float(np.mean([e.success for e in tried]))
        found[f"{name}_plans"] = float(np.mean([e.infos[-1]["plans"] > 0 for e in tried]))
    return found


# --- ETO, imitation of wins, online RL --------------------------------------------------------------------

TASKS, TRIES = 128, 8  # what is sampled once, and what eight updates of online RL sample


@cache
def tried(seed: int) -> tuple[Episode, ...]:
    """1,024 episodes of the novice, eight of each of 128 training tasks."""
    first = 1_000_000 * (seed + 1)
    tasks = range(first, first + TASKS)
    return tuple(rollout(models.load("craft-novice"), CRAFT, tasks, TRIES, seed=seed, limits=LIMITS))


def trajectory_pairs(seed: int, most: int = 2) -> list[Pair]:
    """Won and lost episodes of the same task."""
    return won_and_lost(tried(seed), most)


@dataclass(frozen=True)
class OnPairs:
    """ETO on logged pairs: `wins` updates of imitation, then `updates` on won against lost, 32 rows each.

    The last record holds by how much the mean log-probability of a token of won and of lost episodes moved, nats.
    """

    wins: int = 20
    updates: int = 20
    lr: float = 5e-5

    def __call__(self, policy, seed: int, **changes) -> Iterator[dict]:
        yield from OnWins(self.wins)(policy, seed)
        pairs = trajectory_pairs(seed)
        before = [chance(policy, side[:64]) for side in zip(*pairs)]
        settings = dict(steps=self.updates, prompts=16, lr=self.lr, limits=LIMITS, seed=seed) | changes
        for record in train(policy, CRAFT, ETO(pairs=pairs, expert=False, beta=0.5), **settings):
            yield {"step": self.wins + record.step, "loss": record.loss}
        won, lost = (chance(policy, side[:64]) - b for side, b in zip(zip(*pairs), before))
        yield {"step": self.wins + self.updates + 1, "won": won, "lost": lost}


@torch.no_grad()
def chance(policy, episodes) -> float:
    """Mean log-probability of a sampled token of these episodes."""
    batch = collate(episodes)
    return float(ops.token_mean(score(policy, batch).logp, batch.mask))


@dataclass(frozen=True)
class OnWins:
    """Imitation of the won episodes alone, as many rows an update as OnPairs."""

    updates: int = 40
    lr: float = 1e-3

    def __call__(self, policy, seed: int, **changes) -> Iterator[dict]:
        wins = [e for e in tried(seed) if e.success]
        settings = dict(steps=self.updates, rows=32, lr=self.lr, seed=seed) | changes
        for step, loss in enumerate(imitate(policy, wins, **settings), 1):
            yield {"step": step, "loss": loss}


def measure_craft(policy) -> dict[str, float]:
    """Success on 128 held-out tasks, and the share of turns that the world refused."""
    found = evaluate.episodes(policy, CRAFT, 128, limits=LIMITS)
    refused = [bool(i.get("illegal")) for e in found for i in e.infos]
    return {"success": float(np.mean([e.success for e in found])), "refused": float(np.mean(refused))}


# --- RLTR, PilotRL ----------------------------------------------------------------------------------------

PLANS = dict(steps=20, prompts=12, tries=8, lr=7e-4, limits=Limits(turn_tokens=36, turns=1, total=80))
PILOT = dict(steps=60, prompts=16, tries=8, lr=7e-4, limits=TURNS)
TOKENS = 120_000


def measure_plans(policy) -> dict[str, float]:
    """Of 128 written plans: share of commands before the first slip, length, reach the goal; success when
    acted out.
    """
    found = evaluate.episodes(policy, PlanFirst((2, 3), pays="complete"), 128, limits=PLANS["limits"])
    last = [e.infos[-1] for e in found]
    share = [i["done"] / max(len(i["plan"]), 1) for i in last]
    acted = evaluate.episodes(policy, PlanFirst((2, 3)), 128, limits=TURNS)
    return {
        "executable": float(np.mean(share)),
        "complete": float(np.mean([e.reward for e in found])),
        "commands": float(np.mean([len(i["plan"]) for i in last])),
        "reaches": float(np.mean([i["success"] for i in last])),
        "success": float(np.mean([e.success for e in acted])),
    }


@dataclass(frozen=True)
class UpTo:
    """Train by reinforcement until so many tokens were sampled."""

    arm: ByReward
    tokens: int = TOKENS

    def __call__(self, policy, seed: int, **changes) -> Iterator[dict]:
        spent = 0
        for record in self.arm(policy, seed, **changes):
            spent += record.tokens
            yield {"step": record.step, "success": record.success, "spent": spent}
            if spent >= self.tokens:
                return


def measure_depth_3(policy) -> dict[str, float]:
    """Success on 128 held-out tasks of depth 3, with a plan and without."""
    worlds = {"planned": PlanFirst((3, 3)), "unplanned": PlanFirst((3, 3), asked=0.0)}
    return {k: evaluate.success(policy, w, 128, limits=TURNS).mean for k, w in worlds.items()}


# --- Planner-R1: shaping by size --------------------------------------------------------------------------

SIZED = dict(steps=10, prompts=8, tries=8, lr=1e-3, limits=LIMITS)
SMALL = dict(width=32, layers=1, heads=1, hidden=96)  # 0.02M parameters, a fifth of nano


@cache
def small(updates: int = 250) -> TinyLM:
    """A policy of a fifth of the size that imitates 600 episodes of the novice. Copy it before you train it."""
    novice = models.load("craft-novice")
    shown = [replace(e, success=True) for e in logs(novice, 9, 600)]
    policy = TinyLM(TinyConfig(vocab=len(novice.tokenizer), **SMALL), novice.tokenizer)
    for _ in imitate(policy, shown, steps=updates, rows=64, lr=5e-3):
        pass
    return policy


@dataclass(frozen=True)
class Sized:
    """Reinforcement of a policy of this size; its last record holds success on held-out tasks."""

    size: str
    env: envs.Craft

    def __call__(self, policy, seed: int, **changes) -> Iterator[dict]:
        policy = policy if self.size == "nano" else small().copy()
        start = measure_craft(policy)["success"]
        for record in train(policy, self.env, GRPO(), **SIZED | {"seed": seed} | changes):
            yield {"step": record.step, "success": record.success, "signal_share": record.signal_share}
        yield {"step": record.step + 1, "start": start, "held_out": measure_craft(policy)["success"]}


SHAPED = Milestones((1, 3), slack=4)
REAL = ByReward(
    CRAFT,
    ETO(),
    dict(steps=64, prompts=8, tries=4, lr=1e-4, limits=Limits(turn_tokens=24, turns=12, total=1200)),
)

EXPERIMENTS = {
    f"{NAME}/when": Experiment(
        "Mazes, half of them walled, and a hint that costs 0.05: the policy decides, or always, or never.",
        "grid-novice",
        {when: ByReward(PlanGate(when), DrGRPO(), GATE) for when in ("free", "always", "never")},
        measure_gate,
        seeds=THREE,
    ),
    f"{NAME}/internal": Experiment(
        "The same 1,024 episodes: wins imitated and then pairs (ETO), either alone; and as many for online RL.",
        "craft-novice",
        {
            "ETO": OnPairs(),
            "imitation of wins": OnWins(),
            "pairs alone": OnPairs(0, 40, 1e-4),
            "online GRPO": ByReward(CRAFT, GRPO(), ONLINE),
        },
        measure_craft,
        seeds=THREE,
    ),
    f"{NAME}/plan_reward": Experiment(
        "Plans paid for being executable, or for holding what the goal takes; never for reaching it.",
        "craft-novice",
        {pays: ByReward(PlanFirst((2, 3), pays=pays), GRPO(), PLANS) for pays in ("executable", "complete")},
        measure_plans,
        seeds=THREE,
    ),
    f"{NAME}/pilot": Experiment(
        "Depths 1 to 3 by outcome reward up to 120,000 sampled tokens, with a plan first and without.",
        "craft-novice",
        {
            "plan first": UpTo(ByReward(PlanFirst((1, 3)), GRPO(), PILOT)),
            "no plan": UpTo(ByReward(PlanFirst((1, 3), asked=0.0), GRPO(), PILOT)),
        },
        measure_depth_3,
        seeds=THREE,
    ),
    f"{NAME}/shaping": Experiment(
        "Outcome reward or milestones, for a nano policy and for one of a fifth of its size.",
        "craft-novice",
        {f"{size}, {name}": Sized(size, env) for size in ("nano", "small")
         for name, env in (("outcome", CRAFT), ("milestones", SHAPED))},
        nothing,
        seeds=THREE,
    ),
}  # fmt: skip
