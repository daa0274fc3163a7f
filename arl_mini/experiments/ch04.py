"""Chapter 04: what GRPO and its variants change, each measured on the quantity its paper is about."""

import random
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from .. import envs, evaluate
from ..algorithms import CHORD, DAPO, GMPO, GRPO, GSPO, LUFFY, PAPO, DrGRPO
from ..algorithms.base import Sampler
from ..batch import Batch, Episode, collate
from ..models.score import score
from ..ops import group_signal, group_zscore, per_token, row_mean
from ..rollout import Limits
from ..train import Record, Run
from . import kinds
from .kinds import FRESH_SEEDS, ByReward, Experiment
from .watched import Noted, counted

CHAIN = dict(steps=25, prompts=16, tries=8, lr=3e-4, limits=Limits(turn_tokens=12, turns=1, total=40))
SHORT, LONG = envs.Chain((2, 3)), envs.Chain((4, 4), score="chain")
REUSED = CHAIN | dict(epochs=4)  # every batch is used for four updates, so ratios leave 1
LIMITS = CHAIN["limits"]


# --- DAPO: what is thrown away, and how fast a rare habit can grow ----------------------------------------


@dataclass(frozen=True)
class CountedDAPO(DAPO):
    """DAPO that keeps in the run's memory how many tokens the step sampled, dropped groups included."""

    def plan(self, sampler: Sampler) -> list[Episode]:
        spent = [0]
        kept = super().plan(counted(sampler, spent))
        sampler.memory["sampled"] = spent[0]
        return kept


def watch_groups(run: Run, record: Record) -> dict[str, float]:
    """thinking: share of tries that write steps; spent: sampled tokens for each group that teaches."""
    thinking = np.mean([e.infos[-1]["thinking"] for e in record.episodes])
    useful = record.signal_share * run.settings.prompts
    return {"thinking": float(thinking), "spent": run.memory.get("sampled", record.tokens) / max(useful, 1)}


def measure_short(policy) -> dict[str, float]:
    """Success and thinking on held-out chains of two and three additions."""
    infos = [e.infos[-1] for e in evaluate.episodes(policy, SHORT, limits=LIMITS)]
    return {name: float(np.mean([i[name] for i in infos])) for name in ("success", "thinking")}


# --- GSPO and GMPO: ratios after four updates on one batch ------------------------------------------------


@torch.no_grad()
def ratio_numbers(policy, batch: Batch) -> dict[str, float]:
    """How far the policy moved from the one that sampled a batch, as log-ratios.

    Variances: var_sequence of log s over rows, var_token over tokens, var_worst over rows of the token that
    moved most; extreme: share of tokens beyond ±0.4.
    """
    d = (score(policy, batch).logp - batch.old_logp) * batch.mask
    worst = d.gather(1, d.abs().argmax(1, keepdim=True))[:, 0]
    tokens = d[batch.mask > 0]
    found = {
        "var_sequence": row_mean(d, batch.mask).var(),
        "var_token": tokens.var(),
        "var_worst": worst.var(),
        "extreme": (tokens.abs() > 0.4).float().mean(),
    }
    return {name: float(value) for name, value in found.items()}


def watch_ratios(run: Run, record: Record) -> dict[str, float]:
    """`ratio_numbers` of the step's own batch after its updates."""
    return ratio_numbers(run.policy, collate(record.episodes))


def one_reply(n: int, advantage: float) -> Batch:
    """A batch of one reply of n sampled tokens whose log-probability was 0 when sampled, for sums by hand."""
    zeros, count = torch.zeros(1, n), torch.zeros(1).long()
    return Batch(
        zeros.long(), zeros + 1, zeros, zeros, zeros.long(), count, count + n, count > 0, count > 0,
        advantages=zeros + advantage,
    )  # fmt: skip


# --- Dr.GRPO: how long wrong answers are ------------------------------------------------------------------

PADDED = CHAIN | dict(steps=15, lr=1e-4, limits=Limits(turn_tokens=24, turns=1, total=60))


def measure_length(policy) -> dict[str, float]:
    """Sampled tokens of wrong answers, and of those that hold idle tokens; 512 held-out tasks."""
    tried = evaluate.episodes(policy, SHORT, 512, limits=PADDED["limits"])
    wrong = [(e.mask.sum(), e.said(0).count(" =")) for e in tried if not e.success]
    padded = [idle for _, idle in wrong if idle]
    return {
        "success": 1 - len(wrong) / len(tried),
        "wrong_length": float(np.mean([n for n, _ in wrong])),
        "wrong_idle": float(np.mean(padded)) if padded else 0.0,
        "padding": sum(" =" in e.said(0) for e in tried) / len(tried),
    }


# --- the wrong axis ---------------------------------------------------------------------------------------

MIXED = envs.Chain((1, 3))


@dataclass(frozen=True)
class WrongAxis(GRPO):
    """GRPO with a bug: rewards are read as (tries, tasks) where they lie as (tasks, tries)."""

    tries: int = 8

    def advantages(self, batch: Batch) -> Tensor:
        wrong = torch.arange(len(batch)) % (len(batch) // self.tries)
        return per_token(group_zscore(batch.reward, wrong), batch.mask)


@dataclass(frozen=True)
class LivingWrongAxis(WrongAxis):
    """The bug, but rows of groups without contrast teach nothing, as in GRPO."""

    def advantages(self, batch: Batch) -> Tensor:
        return super().advantages(batch) * group_signal(batch.reward, batch.group)[:, None]


def measure_mixed(policy) -> dict[str, float]:
    """Success on held-out chains of one to three additions."""
    return {"success": evaluate.success(policy, MIXED, 512, limits=LIMITS).mean}


# --- LUFFY and CHORD: an expert beside the policy's own tries ---------------------------------------------


HARD = CHAIN | dict(lr=5e-4, limits=Limits(turn_tokens=14, turns=1, total=48))


class NoisyChain(envs.Chain):
    """Chain whose expert errs in a share `noise` of its steps, and goes on from what it wrote."""

    noise = 0.1

    def reset(self, seed: int) -> str:
        task = super().reset(seed)
        self.digits = [int(word) for word in task.split() if word.isdigit()]
        self.slips = random.Random(f"slips {seed}")
        return task

    def expert(self) -> str:
        sums = [self.digits[0]]
        for digit in self.digits[1:]:
            slip = self.slips.randint(1, 9) if self.slips.random() < self.noise else 0
            sums.append((sums[-1] + digit + slip) % 10)
        return self._write(sums[1:-1], sums[-1])


NOISY = NoisyChain((4, 4), score="chain")


def measure_long(policy) -> dict[str, float]:
    """Whole chains right, and thinking, on held-out chains of four additions."""
    infos = [e.infos[-1] for e in evaluate.episodes(policy, LONG, 512, limits=HARD["limits"])]
    return {name: float(np.mean([i[name] for i in infos])) for name in ("success", "thinking")}


# --- PAPO: a hint in front of the task, and copies in which the task itself is blank ----------------------

HINTED, NEVER_WRONG = envs.Chain((1, 1), hint=0.7), envs.Chain((1, 1), hint=1.0)


@dataclass(frozen=True)
class HintPAPO(PAPO):
    """PAPO whose copies keep the hint: the evidence behind it is blanked, as the paper masks the picture."""

    def plan(self, sampler: Sampler) -> list[Episode]:
        episodes = super().plan(sampler)
        row = {e.pair: e for e in episodes if not e.blanked}
        return [replace(e, tokens=_with_hint(e, row[e.pair])) if e.blanked else e for e in episodes]


def _with_hint(copy: Episode, row: Episode) -> np.ndarray:
    """The copy's tokens, but the first two words of the task, the hint and its `=`, as in the row."""
    place = np.arange(len(copy))
    return np.where((place == 1) | (place == 2), row.tokens, copy.tokens)


def measure_hinted(policy) -> dict[str, float]:
    """Success where the hint is right and where it is wrong; 1,024 held-out tasks."""
    last = [e.infos[-1] for e in evaluate.episodes(policy, HINTED, 1024, limits=LIMITS)]
    agree, disagree = ([i["success"] for i in last if i["hint_right"] is kind] for kind in (True, False))
    return {"agree": float(np.mean(agree)), "disagree": float(np.mean(disagree))}


REAL = ByReward(envs.Chain((1, 2)), GRPO(beta=0.01), kinds.REAL)

EXPERIMENTS = {
    "04_grpo/grpo": Experiment(
        "GRPO on chains of two and three additions, from a start that mostly guesses.",
        "chain-atoms",
        {"GRPO": ByReward(SHORT, GRPO(), CHAIN)},
        measure_short,
    ),
    "04_grpo/dapo": Experiment(
        "What DAPO's refilled groups cost and what a wider upper clip lets grow; batches used four times.",
        "chain-atoms",
        {
            "GRPO": Noted(ByReward(SHORT, GRPO(), REUSED), watch_groups),
            **{
                f"DAPO, upper clip {clip}": Noted(ByReward(SHORT, CountedDAPO(clip_high=clip), REUSED), watch_groups)
                for clip in (0.2, 0.28, 0.6)
            },
        },
        measure_short,
    ),
    "04_grpo/ratios": Experiment(
        "Ratios of tokens and of whole replies after four updates on each batch, at two learning rates.",
        "chain-atoms",
        {
            f"{type(a).__name__}, lr {name}": Noted(ByReward(SHORT, a, REUSED | dict(lr=lr)), watch_ratios)
            for name, lr in (("3e-4", 3e-4), ("1e-3", 1e-3))
            for a in (GRPO(), GSPO(), GMPO())
        },
        measure_short,
        seeds=FRESH_SEEDS[:3],
    ),
    "04_grpo/length": Experiment(
        "GRPO and Dr.GRPO from a start that pads its wrong answers with idle tokens.",
        "chain-padded",
        {"GRPO": ByReward(SHORT, GRPO(), PADDED), "Dr.GRPO": ByReward(SHORT, DrGRPO(), PADDED)},
        measure_length,
    ),
    "04_grpo/axis": Experiment(
        "A bug: advantages over tries of different tasks, against GRPO's over tries of the same task.",
        "chain-atoms",
        {"GRPO": ByReward(MIXED, GRPO(), CHAIN), "wrong axis": ByReward(MIXED, WrongAxis(), CHAIN)},
        measure_mixed,
    ),
    "04_grpo/living": Experiment(
        "The same bug with the advantages of dead groups set to 0.",
        "chain-atoms",
        {"wrong axis, dead groups at 0": ByReward(MIXED, LivingWrongAxis(), CHAIN)},
        measure_mixed,
    ),
    "04_grpo/luffy": Experiment(
        "Chains that the start never solves: GRPO alone, and with one expert's try in each group of eight.",
        "chain-shy",
        {"GRPO": ByReward(LONG, GRPO(), HARD), "LUFFY": ByReward(LONG, LUFFY(), HARD)},
        measure_long,
        seeds=FRESH_SEEDS[:3],
    ),
    "04_grpo/chord": Experiment(
        "An expert that errs in one step of ten: imitation alone, GRPO alone, and both.",
        "chain-shy",
        {
            "imitation": ByReward(NOISY, CHORD(peak=1.0, valley=1.0, phi=False), HARD),
            "GRPO": ByReward(NOISY, GRPO(), HARD),
            "CHORD-μ": ByReward(NOISY, CHORD(phi=False, peak=0.9, valley=0.05, decay=20), HARD),
            "CHORD-φ": ByReward(NOISY, CHORD(), HARD),
        },
        measure_long,
        seeds=FRESH_SEEDS[:3],
    ),
    "04_grpo/clean": Experiment(
        "Imitation alone, of an expert that does not err: rows, updates and learning rate as in `chord`.",
        "chain-shy",
        {"imitation, no slips": ByReward(LONG, CHORD(peak=1.0, valley=1.0, phi=False), HARD)},
        measure_long,
        seeds=FRESH_SEEDS[:3],
    ),
    "04_grpo/papo": Experiment(
        "A hint before the task, right in 70 % of tasks or in all: what makes a policy look at the digits?",
        "chain-hinted",
        {
            "GRPO": ByReward(HINTED, GRPO(), CHAIN),
            "PAPO": ByReward(HINTED, HintPAPO(), CHAIN),
            "GRPO, hint never wrong": ByReward(NEVER_WRONG, GRPO(), CHAIN),
            "PAPO, hint never wrong": ByReward(NEVER_WRONG, HintPAPO(), CHAIN),
            "γ = 0.1 and no entropy terms, hint never wrong": ByReward(
                NEVER_WRONG, HintPAPO(gamma=0.1, eta_copy=0.0, eta_row=0.0), CHAIN
            ),
        },
        measure_hinted,
        seeds=FRESH_SEEDS[:3],
    ),
    "04_grpo/terms": Experiment(
        "PAPO with one of its two entropy terms at a time, where the hint is never wrong.",
        "chain-hinted",
        {
            "row's term only": ByReward(NEVER_WRONG, HintPAPO(eta_copy=0.0), CHAIN),
            "copy's term only": ByReward(NEVER_WRONG, HintPAPO(eta_row=0.0), CHAIN),
        },
        measure_hinted,
        seeds=FRESH_SEEDS[:3],
    ),
}
