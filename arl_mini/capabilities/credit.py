"""Credit over long episodes: what each turn was worth, as learned, by rules, or from the other tries.

A `Pay` says it in numbers: one for each turn of each episode. Two algorithms take one: `Paid` adds it to the
return, `StepCredit` compares turns by it beside the comparison of whole tries.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .. import ops
from ..algorithms.credit import State, over_tokens, turn_ends, turn_sums
from ..algorithms.grpo import GRPO
from ..algorithms.rerolls import turn_starts
from ..batch import Batch, Episode, collate
from ..envs.base import Env
from ..models.heads import RewardModel
from ..rewards import fit_process_model, step_logits
from ..rollout import Limits, rewind
from .ahead import reroll

Pay = Callable[[Sequence[Episode]], list[np.ndarray]]  # of each episode one number a turn, (K,)
Labelled = tuple[Episode, np.ndarray]  # labels (L,): nan, or the chance of success as known at that token


# --- the learned worth of a prefix ------------------------------------------------------------------------


def looks(episode: Episode) -> np.ndarray:
    """Positions (K,) of the last token before each turn: all that is known when the turn begins is there."""
    return turn_starts(episode) - 1


def outcome_labels(episodes: Sequence[Episode], every: bool = True) -> list[Labelled]:
    """How the try ended, written at every look; or, where `every` is False, at its last token alone.

    With the mean square or cross-entropy as loss, a model of labels at every look comes to predict the chance
    of success from what is known there. At the last token alone only the sum of credit is taught, as by the
    loss of SPA-RL (Wang et al. 2025, arXiv 2505.20732).
    """
    labelled = []
    for episode in episodes:
        labels = np.full(len(episode), np.nan, np.float32)
        labels[np.append(looks(episode), len(episode) - 1) if every else [-1]] = float(episode.success)
        labelled.append((episode, labels))
    return labelled


def reroll_labels(
    policy,
    env: Env,
    episodes: Sequence[Episode],
    tries: int,
    *,
    most: int = 0,
    seed: int = 0,
    limits: Limits = Limits(),
) -> tuple[list[Labelled], int]:
    """The share of `tries` re-rolls from a look that succeed; and how many tokens these re-rolls sampled.

    most: how many looks of a try are asked about, drawn at random; 0: all. Other looks have no label.
    Labels by re-rolls: Math-Shepherd, Wang et al. 2024 (arXiv 2312.08935). They stand in for the Monte-Carlo
    targets of AgentPRM (Choudhury 2025, arXiv 2502.10325), which average the returns of all rollouts that
    passed the same state and action.
    """
    rng = np.random.default_rng(seed)
    asked = [sorted(rng.permutation(e.turns)[: most or e.turns].tolist()) for e in episodes]
    rows = [rewind(env, e, k, policy.format.heard) for e, turns in zip(episodes, asked) for k in turns]
    ends = reroll(policy, rows, tries, seed=seed, limits=limits)
    spent = sum(int(end.mask.sum() - row.episode.mask.sum()) for row, es in zip(rows, ends) for end in es)
    share = iter([float(np.mean([end.success for end in es])) for es in ends])
    labelled = []
    for episode, turns in zip(episodes, asked):
        labels = np.full(len(episode), np.nan, np.float32)
        labels[looks(episode)[turns]] = [next(share) for _ in turns]
        labelled.append((episode, labels))
    return labelled, spent


@dataclass(frozen=True)
class StepRewardModel:
    """A process reward model: the chance of success at each look, and by differences what each turn earned.

    c_k = V(prefix before turn k + 1) − V(prefix before turn k), the last turn's V being the outcome itself.
    """

    model: RewardModel

    @torch.no_grad()
    def worth(self, episodes: Sequence[Episode]) -> list[np.ndarray]:
        """V before each turn, then the outcome: (K + 1,) for each episode, in [0, 1]."""
        chance = (
            step_logits(self.model, collate(episodes, self.model.head.linear.weight.device))
            .sigmoid()
            .cpu()
            .numpy()
        )
        return [np.append(chance[i, looks(e)], float(e.success)) for i, e in enumerate(episodes)]

    def __call__(self, episodes: Sequence[Episode]) -> list[np.ndarray]:
        """As a `Pay`: c (K,) of each episode."""
        return [redistribute(worth) for worth in self.worth(episodes)]


def redistribute(worth: np.ndarray) -> np.ndarray:
    """What each turn added, (K,), from the return as predicted before each turn and true at last, (K + 1,).

    The parts sum to the return less what was expected before the first turn. Return decomposition by
    differences of predictions: Arjona-Medina et al. 2018 (arXiv 1806.07857); for agents SPA-RL, Wang et al.
    2025 (arXiv 2505.20732), whose model gives the parts themselves and is taught their sum.
    """
    return np.diff(worth)


def peer_credit(state: State) -> Pay:
    """Credit from the tries themselves: what those that came through a state were paid from there on.

    c_k = r_k + V̂(s_{k+1}) − V̂(s_k),   V̂(s) = mean of Σ_{j≥k} r_j over all turns k of the task's tries with
    state(episode, k) = s; 0 at the end

    The groups are GiGPO's; what is compared is not the whole later return. Taken from no paper.
    """

    def pay(episodes: Sequence[Episode]) -> list[np.ndarray]:
        later: dict[Hashable, list[float]] = {}
        rows = []
        for e in episodes:
            paid = np.array([e.rewards[e.turn == k].sum() for k in range(e.turns)])
            keys = [(e.group, state(e, k)) for k in range(e.turns)]
            for key, still in zip(keys, paid[::-1].cumsum()[::-1]):
                later.setdefault(key, []).append(float(still))
            rows.append((paid, keys))
        value = {key: float(np.mean(found)) for key, found in later.items()}
        return [paid + np.diff([*(value[key] for key in keys), 0.0]) for paid, keys in rows]

    return pay


def fit(
    policy, labelled: Sequence[Labelled], *, steps: int, rows: int = 48, lr: float = 1e-3, seed: int = 0
) -> StepRewardModel:
    """A step reward model on the policy's own trunk, fitted to labels by cross-entropy."""
    model = RewardModel(policy)
    for _ in fit_process_model(model, labelled, steps=steps, rows=rows, lr=lr, seed=seed):
        pass
    return StepRewardModel(model)


# --- learning from it -------------------------------------------------------------------------------------


def paid_turns(pay: Pay, batch: Batch) -> Tensor:
    """A pay as (B, K), 0 for turns that a row has not."""
    paid = torch.zeros_like(turn_sums(batch.rewards, batch.mask, batch.turn))
    for row, numbers in zip(paid, pay(batch.episodes), strict=True):
        row[: len(numbers)] = torch.as_tensor(numbers, dtype=row.dtype)
    return paid


def nothing(episodes: Sequence[Episode]) -> list[np.ndarray]:
    """Pays nothing."""
    return [np.zeros(e.turns) for e in episodes]


@dataclass(frozen=True)
class Paid(GRPO):
    """GRPO on the outcome and a process reward together, as one return.

    R_i = Σ_k (r_ik + p_ik),   p_ik = pay(episodes)[i][k], paid at the last sampled token of turn k

    What pays most in sum is learned, whatever the outcome. Differs from GRPO in: reward.
    """

    pay: Pay = nothing

    def reward(self, batch: Batch) -> Batch:
        paid = over_tokens(paid_turns(self.pay, batch), batch.mask, batch.turn)
        return batch.set(rewards=batch.rewards + paid * turn_ends(batch.mask, batch.turn))


def _alike(episode: Episode, turn: int) -> Hashable:
    """All turns are of one kind."""
    return None


@dataclass(frozen=True)
class StepCredit(GRPO):
    """GRPO with a second comparison, of turns by a process reward.

    A_it = A_i + λ (p_ik − mean_S p) / (std_S p + 1e-6) for the tokens t of turn k

    std False leaves the second division out: a z-score makes noise as large as news where nothing happened.
    p_ik = pay(episodes)[i][k]; S = the turns of the task's tries of the same kind(episode, k), by default
    all; λ = coef. The differences of a `StepRewardModel` are an estimate of the turn's advantage.
    Source: the two-level advantage of RLVMR (Zhang et al. 2025, arXiv 2507.22844), where a kind is a tag.
    Differs from GRPO in: advantages.
    Departs from the paper: it mixes the two parts with weights that sum to one.
    """

    pay: Pay = nothing
    coef: float = 1.0
    std: bool = True
    kind: Callable[[Episode, int], Hashable] = _alike

    def advantages(self, batch: Batch) -> Tensor:
        paid, taken = paid_turns(self.pay, batch), turn_sums(batch.mask, batch.mask, batch.turn) > 0
        places, numbers = taken.nonzero().tolist(), {}
        keys = [(int(batch.group[i]), self.kind(batch.episodes[i], k)) for i, k in places]
        group = torch.tensor([numbers.setdefault(key, len(numbers)) for key in keys], device=paid.device)
        step = torch.zeros_like(paid)
        step[taken] = (ops.group_zscore if self.std else ops.group_center)(paid[taken], group)
        return super().advantages(batch) + self.coef * over_tokens(step, batch.mask, batch.turn)
