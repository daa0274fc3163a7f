"""Chapter 05, first half: who gets the credit. The second half is in ch05_sampling.py."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .. import envs, evaluate, ops
from ..algorithms import ASPO, GRPO, EdgeGRPO, GiGPO, PassAtK, PosteriorGRPO, StarPO, StarPOS, StepGRPO
from ..algorithms.shaping import early_bias, key_tokens, steps_right
from ..batch import Batch, Episode, collate
from ..models.score import score
from ..models.tokenizer import ACT, encode
from ..rewards import at_end, judged
from ..rollout import Limits, branch, rollout
from . import kinds
from .kinds import FRESH_SEEDS, ByReward, Experiment
from .watched import Watched, planned

NAME = "05_credit_and_sampling"
CHAIN = dict(steps=25, prompts=16, tries=8, lr=7e-4, limits=Limits(turn_tokens=10, turns=1, total=32))
CALC = dict(steps=8, prompts=16, tries=8, lr=5e-4, limits=Limits(turn_tokens=16, turns=4, total=96))
QUEST = dict(steps=40, prompts=6, tries=12, lr=1e-3, limits=Limits(turn_tokens=12, turns=12, total=256))
THREE = dict(steps=30, prompts=16, tries=8, lr=2e-3, limits=Limits(turn_tokens=8, turns=8, total=112))
REPLY = Limits(turn_tokens=20, turns=1, total=40)

# --- Posterior-GRPO, Step-GRPO ----------------------------------------------------------------------------


@dataclass(frozen=True)
class AlwaysPaid(PosteriorGRPO):
    """Posterior-GRPO without its gate: R = R^f + R^o + R^t, so good steps are paid whatever the answer is."""

    def reward(self, batch: Batch) -> Batch:
        right = batch.success.to(batch.rewards)
        form, thinking = (judged(batch.episodes, j).to(right) for j in (self.form, self.thinking))
        return batch.set(rewards=at_end(form + right + thinking, batch.mask))


def fine_but_wrong(episode: Episode) -> bool:
    """Every step right, and the answer wrong."""
    return episode.infos[-1]["steps_right"] and not episode.infos[-1]["right"]


def look_fine(batch: Batch) -> dict[str, float]:
    """Share of tries with right steps and a wrong answer; their mean advantage, 0 where there is none."""
    fine = torch.tensor([fine_but_wrong(e) for e in batch.episodes])
    adv = ops.row_mean(batch.advantages, batch.mask)[fine]
    mean = float(adv.sum() / max(len(adv), 1))
    return {"fine_but_wrong": float(fine.float().mean()), "fine_advantage": mean}


def measure_steps(policy) -> dict[str, float]:
    """On 256 held-out chains of two or three sums: success, right steps, right steps with a wrong answer."""
    tried = evaluate.episodes(policy, envs.Chain((2, 3)), limits=CHAIN["limits"])
    return {
        "success": float(np.mean([e.success for e in tried])),
        "steps_right": float(np.mean([steps_right(e) for e in tried])),
        "fine_but_wrong": float(np.mean([fine_but_wrong(e) for e in tried])),
    }


# --- EDGE-GRPO --------------------------------------------------------------------------------------------


def edge_batches(policy, seed: int, prompts: int = 64) -> dict[str, dict[str, float]]:
    """GRPO and EDGE-GRPO on mixed chains: share of rows with A = 0, mean A of sure and unsure wrong rows.

    Sure and unsure: the third of the wrong rows with the least and with the most entropy.
    """
    settings = CHAIN | {"prompts": prompts}
    found = {}
    for name, algorithm in (("GRPO", GRPO()), ("EDGE-GRPO", EdgeGRPO())):
        batch, _ = planned(algorithm, policy, envs.Chain((1, 3)), seed=seed, **settings)
        found[name] = {"A = 0": float((ops.row_mean(batch.advantages, batch.mask) == 0).float().mean())}
    # One batch, both advantages: EDGE's without correction on the rows GRPO had.
    batch, _ = planned(EdgeGRPO(correct=False), policy, envs.Chain((1, 3)), seed=seed, **settings)
    wrong = ~batch.success & ops.group_signal(batch.reward, batch.group)
    order = ops.row_mean(batch.entropy, batch.mask)[wrong].argsort()
    third = len(order) // 3
    for name, adv in (("GRPO", GRPO().advantages(batch)), ("EDGE-GRPO", batch.advantages)):
        rows = adv.amin(1)[wrong][order]
        sure, unsure = float(rows[:third].mean()), float(rows[-third:].mean())
        found[name] |= {"A, wrong and sure": sure, "A, wrong and unsure": unsure}
    return found


# --- ASPO -------------------------------------------------------------------------------------------------


def first_call(batch: Batch) -> tuple[Tensor, Tensor]:
    """Sampled tokens before a row's first call, (B,); whether it calls at all, (B,)."""
    token = encode(batch.episodes[0].tokenizer, ACT)[0]
    called = (batch.tokens == token) & (batch.mask > 0)
    return ((called.cumsum(1) == 0) * batch.mask).sum(1), called.any(1)


@dataclass(frozen=True)
class EarlyBonus(GRPO):
    """ASPO's bonus for early calls of right rows, put into the reward instead of the advantage."""

    delta: float = -2.0

    def reward(self, batch: Batch) -> Batch:
        before, called = first_call(batch)
        bias = early_bias(before, batch.mask.sum(1), batch.group, called & batch.success, self.delta)
        return batch.set(rewards=batch.rewards + at_end(bias, batch.mask))


def right_but_pushed_down(algorithm: GRPO, policy, seed: int) -> float:
    """Share of right tries whose advantage is negative, in 64 groups of products."""
    settings = CALC | {"prompts": 64}
    batch, _ = planned(algorithm, policy, envs.Calc(("product",)), seed=seed, **settings)
    adv = ops.row_mean(batch.advantages, batch.mask)
    return float((adv[batch.success] < 0).float().mean())


def measure_calls(policy) -> dict[str, float]:
    """On 256 held-out products: success, and tokens before the first call of those that call."""
    tried = evaluate.episodes(policy, envs.Calc(("product",)), limits=CALC["limits"])
    before, called = first_call(collate(tried))
    success = float(np.mean([e.success for e in tried]))
    return {"success": success, "before_call": float(before[called].mean())}


# --- StarPO, Pass@k ---------------------------------------------------------------------------------------


def measure_three(policy) -> dict[str, float]:
    """Success on 256 held-out quests with three rooms."""
    return {"success": evaluate.success(policy, envs.Quest(3, 8), limits=THREE["limits"]).mean}


def measure_best_of(policy) -> dict[str, float]:
    """pass@1 and pass@8 on 128 held-out chains of three sums, and entropy in nats a token."""
    env, tries = envs.Chain((3, 3)), 8
    tried = evaluate.episodes(policy, env, 128, tries, limits=CHAIN["limits"])
    right = np.array([e.success for e in tried]).reshape(-1, tries).sum(1).tolist()
    batch = collate(tried)
    with torch.no_grad():
        entropy = ops.token_mean(score(policy, batch).entropy, batch.mask)
    found = {f"pass@{k}": float(np.mean([evaluate.pass_at_k(c, tries, k) for c in right])) for k in (1, 8)}
    return found | {"entropy": float(entropy)}


# --- KTAE -------------------------------------------------------------------------------------------------


def planted(
    policy, word: str, tries: int, seed: int, noise: float = 0.0, groups: int = 64
) -> dict[str, float]:
    """How often KTAE puts the word that decides success among a group's three heaviest; ties count in part.

    Success is planted: a reply is right if it holds the word; with probability `noise` the verdict is turned.
    Full weight: how many words weigh at least 0.99.
    """
    tried = evaluate.episodes(policy, envs.Taste(), groups, tries, seed=seed, limits=REPLY)
    token, rng = encode(policy.tokenizer, word)[0], np.random.default_rng(seed)
    top, uniform, full = [], [], []
    for first in range(0, len(tried), tries):
        said = [e.tokens[e.mask > 0].tolist() for e in tried[first : first + tries]]
        right = [(token in s) != (rng.random() < noise) for s in said]
        weights = key_tokens(said, right, 1.0, 1.0)
        if token in weights:
            above = sum(w > weights[token] for w in weights.values())
            ties = sum(w == weights[token] for w in weights.values())
            top.append(min(max((3 - above) / ties, 0.0), 1.0))
            uniform.append(3 / len(weights))
            full.append(sum(w >= 0.99 for w in weights.values()))
    found = {"in the top 3": top, "by chance": uniform, "full weight": full}
    return {name: float(np.mean(x)) for name, x in found.items()}


# --- GiGPO ------------------------------------------------------------------------------------------------


def room_and_key(episode: Episode, turn: int) -> tuple[str, bool]:
    """The state of a quest before a turn, as far as it was shown: the room, and whether the key was taken."""
    tokens = episode.tokens[(episode.turn < turn) & (episode.mask == 0)].tolist()
    rooms = [word for word in episode.tokenizer.decode(tokens).split() if word in envs.quest.ROOMS]
    legal = (k for k in range(turn) if not episode.infos[k].get("illegal"))
    return rooms[-1], any(episode.said(k) == envs.act("take key") for k in legal)


def true_credit(policy, env, episode: Episode, rerolls: int, limits: Limits, seed: int) -> np.ndarray:
    """Q − V of each turn, (K,): chance of success after it less that before it, each from `rerolls` tries."""
    starts = [int(np.argmax(episode.turn == k)) for k in range(episode.turns)]
    again = branch(policy, env, [episode] * len(starts), starts, rerolls, seed=seed, limits=limits)
    values = np.array([e.success for e in again], float).reshape(len(starts), rerolls).mean(1)
    return np.diff(np.append(values, float(episode.success)))


def credit_found(
    algorithms: dict[str, GRPO], policy, seed: int, tasks: int = 12, rerolls: int = 16
) -> dict[str, float]:
    """Correlation over turns of each algorithm's advantages with the true ones, two tries of each task."""
    env, limits = envs.Quest(), QUEST["limits"]
    seeds = range(10_000 * (seed + 1), 10_000 * (seed + 1) + tasks)
    batch = collate(rollout(policy, env, seeds, QUEST["tries"], seed=seed, limits=limits))
    mixed = ops.group_signal(batch.reward, batch.group)
    rows = [i for i in range(len(batch)) if mixed[i] and i % QUEST["tries"] < 2]
    truth = [true_credit(policy, env, batch.episodes[i], rerolls, limits, seed) for i in rows]
    found = {}
    for name, algorithm in algorithms.items():
        adv = algorithm.advantages(algorithm.reward(batch))
        told = [[float(adv[i, int(torch.argmax((batch.turn[i] == k).float()))]) for k in range(len(t))]
                for i, t in zip(rows, truth)]  # fmt: skip
        found[name] = float(np.corrcoef(np.concatenate(truth), np.concatenate(told))[0, 1])
    return found


def measure_quest(policy) -> dict[str, float]:
    """Success on 256 held-out quests with six rooms."""
    return {"success": evaluate.success(policy, envs.Quest(), limits=QUEST["limits"]).mean}


def quests(algorithms: dict[str, GRPO], rooms: int, turns: int, settings: dict) -> dict[str, Watched]:
    """Arms on quests of so many rooms and turns."""
    settings = settings | {"limits": Limits(12, turns, 24 * turns)}
    return {name: Watched(ByReward(envs.Quest(rooms, turns), a, settings)) for name, a in algorithms.items()}


def on_chain(algorithm: GRPO, depths: tuple[int, int], look=None, **changes) -> Watched:
    """An arm on chains of these depths."""
    arm = ByReward(envs.Chain(depths), algorithm, CHAIN | changes)
    return Watched(arm, look) if look else Watched(arm)


def on_three(algorithm: GRPO, lr: float) -> Watched:
    """An arm on quests with three rooms."""
    return Watched(ByReward(envs.Quest(3, 8), algorithm, THREE | {"lr": lr}))


REAL = ByReward(envs.Quest(), GiGPO(), kinds.REAL)

EXPERIMENTS = {
    f"{NAME}/posterior": Experiment(
        "Right steps paid always, or only where the answer is right.",
        "chain-slips",
        {
            "always paid": on_chain(AlwaysPaid(), (2, 3), look_fine, steps=30),
            "Posterior-GRPO": on_chain(PosteriorGRPO(), (2, 3), look_fine, steps=30),
        },
        measure_steps,
    ),
    f"{NAME}/steps": Experiment(
        "Rules over written steps beside the outcome, for ten updates.",
        "chain-atoms",
        {"GRPO": on_chain(GRPO(), (1, 3), steps=10), "Step-GRPO": on_chain(StepGRPO(), (1, 3), steps=10)},
        measure_steps,
    ),
    f"{NAME}/early_calls": Experiment(
        "Earlier tool calls: nothing, a bonus in the reward, a bounded bonus in the advantage.",
        "calc-idle",
        {
            name: Watched(ByReward(envs.Calc(("product",)), algorithm, CALC))
            for name, algorithm in (("GRPO", GRPO()), ("bonus in the reward", EarlyBonus()), ("ASPO", ASPO()))
        },
        measure_calls,
    ),
    f"{NAME}/starpo": Experiment(
        "StarPO and StarPO-S at a learning rate that works and at twice that.",
        "quest-novice",
        {
            "StarPO": on_three(StarPO(), 2e-3),
            "StarPO-S": on_three(StarPOS(), 2e-3),
            "StarPO, twice": on_three(StarPO(), 4e-3),
            "StarPO-S, twice": on_three(StarPOS(), 4e-3),
        },
        measure_three,
        seeds=FRESH_SEEDS[:3],
    ),
    f"{NAME}/pass_at_k": Experiment(
        "The best of four as the reward, against each try for itself.",
        "chain-atoms",
        {"GRPO": on_chain(GRPO(), (3, 3)), "Pass@k": on_chain(PassAtK(k=4), (3, 3))},
        measure_best_of,
    ),
    f"{NAME}/quest_6": Experiment(
        "A second group of turns from the same state: six rooms, 40 updates of 6 x 12 tries.",
        "quest-novice",
        quests(
            {"GRPO": GRPO(), "GiGPO": GiGPO(), "GiGPO, room and key": GiGPO(state=room_and_key)}, 6, 12, QUEST
        ),
        measure_quest,
    ),
    f"{NAME}/quest_9": Experiment(
        "The same with nine rooms, 16 turns, 30 updates of 6 x 10 tries.",
        "quest-novice",
        quests({"GRPO": GRPO(), "GiGPO": GiGPO()}, 9, 16, QUEST | {"steps": 30, "tries": 10}),
        measure_quest,
        seeds=FRESH_SEEDS[:3],
    ),
}
