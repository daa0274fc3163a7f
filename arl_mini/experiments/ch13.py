"""Chapter 13: credit over long horizons. What is measured without training is in ch13_credit.py."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from .. import envs, evaluate, models
from ..algorithms import DPO, GRPO, SDPO, GiGPO, Reinforce
from ..algorithms.base import Algorithm
from ..algorithms.dpo import Pair
from ..algorithms.rerolls import turn_starts
from ..batch import Batch, Episode
from ..capabilities.ahead import propose
from ..capabilities.credit import StepCredit, peer_credit
from ..capabilities.credit_advice import Advised, StrategyGRPO, advice_only, hinted
from ..capabilities.credit_pairs import branched, middle
from ..capabilities.credit_rules import refused, repeats, rule_tags, tag_of
from ..envs.errand import TAGS, Errand
from ..formal import tmaze
from ..models.tokenizer import encode
from ..rollout import Limits, Row, rollout, start
from . import kinds
from .ch05 import room_and_key
from .ch13_arms import (
    ByPairs,
    FromRerolls,
    Learned,
    OnAdvice,
    Refitted,
    Spending,
    Until,
    first_tasks,
    look_at,
)
from .ch13_credit import compared, limits, maze_credit
from .kinds import FRESH_SEEDS, ByReward, Experiment

NAME = "13_long_horizon_credit"
LONG = Limits(turn_tokens=12, turns=14, total=320)
QUEST = dict(steps=16, prompts=8, tries=8, lr=1e-3, limits=LONG)
MAZE = dict(steps=45, prompts=8, tries=8, lr=1e-3)
FIT = dict(steps=60, rows=32, lr=1e-3)
PAIRS = dict(steps=20, prompts=24, tries=1, lr=2e-4, limits=LONG)
ERRAND = QUEST | dict(lr=5e-4)
HOUSE = envs.Quest(8, 14)

# --- the problem ------------------------------------------------------------------------------------------


def corridor(cells: int) -> Until:
    """REINFORCE on a T-maze with so many cells, until mean success over five updates is 0.9."""
    return Until(ByReward(envs.Finite(tmaze(cells)), Reinforce(), MAZE | {"limits": limits(cells)}))


def measure_nothing(policy) -> dict[str, float]:
    """The curves say it all."""
    return {}


def measure_quest(policy) -> dict[str, float]:
    """Success on 128 held-out quests with eight rooms."""
    return {"success": evaluate.success(policy, HOUSE, 128, limits=LONG).mean}


def credit_measured(policy, seed: int):
    """One record: of each method the correlation with the exact credit and, where it has one, the error."""
    _, found = maze_credit(policy, seed)
    yield {"step": 1} | {
        f"{m} {n}": x for m, row in compared(found).items() for n, x in row.items() if not np.isnan(x)
    }


# --- rules ------------------------------------------------------------------------------------------------


def habits(episodes: Sequence[Episode]) -> dict[str, float]:
    """Shares of turns: repeated, refused, and of each tag."""
    turns = sum(e.turns for e in episodes)
    found = {
        "repeated": sum(repeats(e).sum() for e in episodes),
        "refused": sum(refused(e).sum() for e in episodes),
    }
    tags = [tag_of(e, k) for e in episodes for k in range(e.turns)]
    found |= {tag: tags.count(tag) for tag in TAGS}
    return {name: float(n) / turns for name, n in found.items()}


def measure_errand(policy) -> dict[str, float]:
    """Success on 128 held-out errands, and the habits there."""
    tried = evaluate.episodes(policy, Errand(), 128, limits=LONG)
    return {"success": float(np.mean([e.success for e in tried]))} | habits(tried)


# --- advice -----------------------------------------------------------------------------------------------


def measure_advice(policy) -> dict[str, float]:
    """Success on 128 held-out errands: the policy alone, and the start on its advice; its words there."""
    team = Advised(policy, models.load("errand-novice"))
    led = evaluate.episodes(team, Errand(), 128, limits=LONG)
    alone = evaluate.success(policy, Errand(), 128, limits=LONG).mean
    words = {f"says {word}": share for word, share in hinted(map_advice(led)).items() if word in TAGS}
    return {"alone": alone, "on its advice": float(np.mean([e.success for e in led]))} | words


def place(episode: Episode, turn: int) -> tuple[str, bool]:
    """The state of an errand before a turn, as the world tells it: the room, and whether the key is held."""
    info = episode.infos[turn]
    return info["room"], info["holding"]


def by_word(batch: Batch, kinds: dict[str, Algorithm]) -> dict[str, dict[str, float]]:
    """The mean advantage of turns by the tag they name, a column an algorithm."""
    table = {}
    for name, kind in kinds.items():
        adv = kind.advantages(batch)
        turns = [
            (tag_of(e, k), float(adv[i, at]))
            for i, e in enumerate(batch.episodes)
            for k, at in enumerate(turn_starts(e))
        ]
        table[name] = {tag: float(np.mean([a for t, a in turns if t == tag])) for tag in TAGS}
    return table


def careful_word(env: Errand) -> str:
    """explore until what is wanted next, key or door, was seen; then plan. Sees the world's own state."""
    return "plan" if (env.door if env.holding else env.key) in env.seen else "explore"


def on_words(actor, words: Callable[[Errand], str], tasks: int) -> float:
    """Success of the actor on held-out errands when words(env) names the tag of each of its turns."""
    rows, won = [start(actor, Errand(), evaluate.HELD_OUT + n, n) for n in range(tasks)], 0
    for turn in range(LONG.turns):
        rows = [_named(actor, row, words(row.env)) for row in rows]
        taken = [candidates[0] for candidates in propose(actor, rows, seed=turn, limits=LONG)]
        won += sum(bool(c.reply.info.get("success")) for c in taken)
        rows = [c.row for c in taken if not (c.over or c.reply.done)]
        if not rows:
            break
    return won / tasks


def _named(actor, row: Row, tag: str) -> Row:
    """The row with a tag forced, as the beginning of the turn to come."""
    e, ids = row.episode, encode(actor.tokenizer, f" {tag}")
    zeros = np.zeros(len(ids), np.float32)
    more = {
        "mask": zeros,
        "logp": zeros,
        "rewards": zeros,
        "turn": np.full(len(ids), e.turns - 1),
        "tokens": ids,
    }
    return Row(row.env, replace(e, **{k: np.concatenate([getattr(e, k), x]) for k, x in more.items()}))


def map_advice(episodes: Sequence[Episode]) -> list[Episode]:
    """The strategist's view of each."""
    return [advice_only(e) for e in episodes]


# --- pairs ------------------------------------------------------------------------------------------------


@cache
def mended(seed: int, tasks: int = 600, tries: int = 4) -> list[Pair]:
    """Failures of the start, each with a way to mend it from its middle turn on; both share the rest."""
    policy = models.load("quest-novice")
    tried = rollout(policy, HOUSE, first_tasks(seed, tasks), seed=seed, limits=LONG)
    return branched(policy, HOUSE, tried, middle, tries, seed=seed, limits=LONG)


def by_pairs(algorithm) -> ByPairs:
    """An arm on the same pairs."""
    return ByPairs(HOUSE, mended, algorithm, PAIRS)


# --- what breaks ------------------------------------------------------------------------------------------


def for_taking(episodes: Sequence[Episode]) -> list[np.ndarray]:
    """0.5 for each turn that picks the key up, every time: a process reward that can be farmed."""
    return [np.array([0.5 * info["took"] for info in e.infos[: e.turns]]) for e in episodes]


def for_holding(episodes: Sequence[Episode]) -> list[np.ndarray]:
    """Φ(after) − Φ(before) with Φ = 0.5 while the key is held, 0 at the end of the episode."""
    paid = []
    for e in episodes:
        held = [0.5 * info["holding"] for info in e.infos[: e.turns]]
        paid.append(np.diff([*held, 0.0]))
    return paid


def takes(episodes: Sequence[Episode]) -> dict[str, float]:
    """How often the key was picked up, a try."""
    return {"takes": float(np.mean([sum(info["took"] for info in e.infos) for e in episodes]))}


def on_errand(algorithm: GRPO, **changes):
    """An arm on errands, with habits in its records."""
    return look_at(habits, ByReward(Errand(), algorithm, ERRAND | changes))


REAL = ByReward(HOUSE, GiGPO(), kinds.REAL | {"limits": Limits(turn_tokens=24, turns=14, total=1200)})

CORRIDORS = {f"{cells} cells": corridor(cells) for cells in (3, 6, 12)}
BY_MODEL = ByReward(HOUSE, StepCredit(std=False, coef=3.0), QUEST)


def by_model(updates: int, tasks: int = 128, steps: int = 60) -> Refitted:
    """AgentPRM on quests, undivided: the model takes `steps`, then `updates` after each of the policy's."""
    return Refitted(BY_MODEL, FromRerolls(tasks, 3, 2), FIT | {"steps": steps}, updates=updates)


EXPERIMENTS = {
    f"{NAME}/credit": Experiment(
        "Credit by method against exact credit, for tries of the start in a T-maze of 6 cells, untrained.",
        "maze-novice",
        {"measured": credit_measured},
        measure_nothing,
        seeds=FRESH_SEEDS[:3],
    ),
    f"{NAME}/quest": Experiment(
        "A quest of 8 rooms: the outcome alone, step groups, differences of peers, a learned process reward.",
        "quest-novice",
        {
            "GRPO": Spending(ByReward(HOUSE, GRPO(), QUEST)),
            "GiGPO": Spending(ByReward(HOUSE, GiGPO(state=room_and_key), QUEST)),
            "peers' differences": Spending(ByReward(HOUSE, StepCredit(pay=peer_credit(room_and_key)), QUEST)),
            "AgentPRM": Learned(ByReward(HOUSE, StepCredit(), QUEST), FromRerolls(128, 3, 2), FIT),
        },
        measure_nothing,
        seeds=FRESH_SEEDS[:3],
    ),
    f"{NAME}/quest_undivided": Experiment(
        "The same learned process reward, its differences not divided by their standard deviation.",
        "quest-novice",
        {
            "AgentPRM, undivided": Learned(BY_MODEL, FromRerolls(128, 3, 2), FIT),
        },
        measure_nothing,
        seeds=FRESH_SEEDS[:3],
    ),
    f"{NAME}/quest_refitted": Experiment(
        "The same, the model fitted anew to the tries of each update.",
        "quest-novice",
        {"AgentPRM, refitted": by_model(3)},
        measure_nothing,
        seeds=(11, 12, 13),  # seed 10 was the trial
    ),
    f"{NAME}/rules": Experiment(
        "Turns that name their purpose: the outcome alone, and rules that pay for what the purpose achieved.",
        "errand-novice",
        {"GRPO": on_errand(GRPO()), "RLVMR": on_errand(StepCredit(pay=rule_tags, kind=tag_of, coef=0.5))},
        measure_errand,
        seeds=FRESH_SEEDS[:3],
    ),
    f"{NAME}/segments": Experiment(
        "Pairs that share their first half, compared to the end, over three turns, over one turn.",
        "quest-novice",
        {
            "to the end (DPO)": by_pairs(lambda data: DPO(pairs=data)),
            "three turns (SDPO)": by_pairs(lambda data: SDPO(pairs=data, turns=3)),
            "one turn": by_pairs(lambda data: SDPO(pairs=data, turns=1)),
        },
        measure_quest,
        seeds=FRESH_SEEDS[:3],
    ),
    f"{NAME}/advice": Experiment(
        "One word of advice a turn, learned over a frozen actor.",
        "errand-novice",
        {
            "strategist": OnAdvice(ByReward(Errand(), StrategyGRPO(), QUEST)),
        },
        measure_advice,
        seeds=FRESH_SEEDS[:3],
    ),
    f"{NAME}/advice_by_rules": Experiment(
        "The same with a second comparison, of turns of advice of one tag by what rules pay for them.",
        "errand-novice",
        {
            "strategist": OnAdvice(ByReward(Errand(), StrategyGRPO(pay=rule_tags, kind=tag_of), QUEST)),
        },
        measure_advice,
        seeds=FRESH_SEEDS[:3],
    ),
    f"{NAME}/advice_by_turns": Experiment(
        "The same with a second comparison, of turns of advice by their peers' differences.",
        "errand-novice",
        {
            "strategist": OnAdvice(ByReward(Errand(), StrategyGRPO(pay=peer_credit(place)), QUEST)),
        },
        measure_advice,
        seeds=FRESH_SEEDS[:3],
    ),
}
