"""Credit by playing on from prefixes: VinePPO values each step by fresh tries, PSGPO judges it by them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from .. import ops
from ..batch import Batch, Episode
from ..models.heads import RewardModel
from ..rewards import step_logits
from .base import Sampler
from .ppo import PPO, Estimator, Proximal

Steps = Callable[[Episode], np.ndarray]


# --- where the steps of an episode begin ------------------------------------------------------------------


def turn_starts(episode: Episode) -> np.ndarray:
    """Positions (K,) of the first sampled token of each turn."""
    sampled = np.flatnonzero(episode.mask)
    return sampled[np.unique(episode.turn[sampled], return_index=True)[1]]


def token_starts(episode: Episode) -> np.ndarray:
    """Positions (n,) of all sampled tokens: every token is a step, as with a critic."""
    return np.flatnonzero(episode.mask)


def step_advantages(rewards: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A_k = r_k + V(s_{k+1}) − V(s_k), V = 0 past the last step; rewards, values (K,) of each step."""
    return rewards + np.append(values, 0.0)[1:] - values


def measured(sampler: Sampler, tried: Sequence[Episode], steps: Steps, rolls: int) -> list[Episode]:
    """The same episodes with `values`: at each step's tokens, what fresh tries from its start were paid.

    The mean over `rolls` tries. Equal prefixes of one task share one estimate.
    """
    places = {(e.seed, e.tokens[:at].tobytes()): (e, int(at)) for e in tried for at in _starts(steps, e)}
    ask, at = [e for e, _ in places.values()], [p for _, p in places.values()]
    again = sampler.fork(ask, at, rolls)
    paid = [e.rewards[p:].sum() for e, p in zip(again, np.repeat(at, rolls), strict=True)]
    value = dict(zip(places, np.reshape(paid, (-1, rolls)).mean(1)))
    valued = []
    for episode in tried:
        starts = _starts(steps, episode)
        each = np.array([value[episode.seed, episode.tokens[:p].tobytes()] for p in starts], np.float32)
        step = np.searchsorted(starts, np.arange(len(episode)), side="right") - 1
        valued.append(replace(episode, values=each[step] * episode.mask))
    return valued


def _starts(steps: Steps, episode: Episode) -> np.ndarray:
    """Where steps begin; every sampled token must belong to one."""
    starts, first = np.asarray(steps(episode)), int(np.argmax(episode.mask))
    if len(starts) == 0 or starts[0] != first or np.any(np.diff(starts) <= 0):
        raise ValueError(
            f"steps begin at {starts.tolist()}; expected rising positions from {first}, the first sampled"
        )
    return starts


@dataclass(frozen=True)
class VinePPO(Proximal):
    """VinePPO: no critic; the value of each step's state is the mean return of fresh tries from there.

    V(s_k) = 1/K Σ_j R(try j from s_k),   A_k = r_k + V(s_{k+1}) − V(s_k),   V(end) = 0
    every token of step k has A_k, then whitened; L as in PPO without its value part

    K = rolls; s_k is the prefix before position steps(episode)[k]: `turn_starts` for agents, `token_starts`
    where one turn is a chain of thoughts, or your own. The tries go on from that very prefix in the world,
    count what is paid after it, and are not learned from. batch.values (B, T) is V(s_k) at the tokens of step
    k; r_k sums batch.rewards over the step. Clips and β as in Proximal.
    Source: Kazemnejad et al. 2024 (arXiv 2410.01679), its estimate and advantage of §4; the rest from its
    code.
    Differs from PPO in: plan (re-rolls), advantages, no critic; KL in the loss.
    Departs from the paper: β is off unless set (there 1e-4, k3 held below 10 and summed over a row; here the
    mean over tokens). A step is a turn by default, there a line of reasoning. Equal prefixes of a task share
    an estimate.
    """

    kl_reward: Estimator | None = None
    kl_loss: Estimator | None = ops.kl_k3
    rolls: int = 9
    steps: Steps = turn_starts

    def plan(self, sampler: Sampler) -> list[Episode]:
        return measured(sampler, super().plan(sampler), self.steps, self.rolls)

    def advantages(self, batch: Batch) -> Tensor:
        estimate = torch.zeros_like(batch.rewards)
        for i, episode in enumerate(batch.episodes):
            starts, n = _starts(self.steps, episode), len(episode)
            rewards, values = batch.rewards[i, :n].cpu().numpy(), batch.values[i].cpu().numpy()
            each = step_advantages(np.add.reduceat(rewards, starts), values[starts])
            step = np.searchsorted(starts, np.arange(n), side="right") - 1
            estimate[i, :n] = torch.from_numpy(each[step]).to(estimate)
        return ops.whiten(estimate, batch.mask)


# --- verdicts on steps ------------------------------------------------------------------------------------


def judge_steps(sampler: Sampler, tried: Sequence[Episode], steps: Steps, rolls: int) -> list[Episode]:
    """The same episodes with `verdicts`: at the end of each step 1 where it can still end well, else −1.

    A prefix can still end well where one of `rolls` tries from it succeeds. Binary search for the last such
    step, all episodes at once: what cannot end well is taken to stay so. A success is right throughout, no
    try needed.
    """
    starts = [_starts(steps, e) for e in tried]
    low = np.array([len(s) if e.success else 0 for e, s in zip(tried, starts)])  # steps known to be good
    high = np.array([len(s) - 1 + e.success for e, s in zip(tried, starts)])  # steps that may be
    while len(open_ := np.flatnonzero(low < high)):
        middle = (low[open_] + high[open_] + 1) // 2
        again = sampler.fork(
            [tried[i] for i in open_], [int(starts[i][m]) for i, m in zip(open_, middle)], rolls
        )
        good = np.array([e.success for e in again]).reshape(-1, rolls).any(1)
        low[open_] = np.where(good, middle, low[open_])
        high[open_] = np.where(good, high[open_], middle - 1)
    judged = []
    for episode, begin, good in zip(tried, starts, low):
        verdicts = np.full(len(episode), np.nan, np.float32)
        verdicts[step_ends(episode, begin)] = np.where(np.arange(len(begin)) < good, 1.0, -1.0)
        judged.append(replace(episode, verdicts=verdicts))
    return judged


def step_ends(episode: Episode, starts: np.ndarray) -> np.ndarray:
    """Positions (K,) of the last sampled token of each step, from where steps begin (K,)."""
    sampled = np.flatnonzero(episode.mask)
    return sampled[np.append(np.searchsorted(sampled, starts)[1:], len(sampled)) - 1]


@dataclass(frozen=True)
class ProcessModel:
    """Verdicts of a fitted process reward model: 2σ(step_logits) − 1, in (−1, 1), at the end of each step."""

    model: RewardModel
    steps: Steps = turn_starts

    def __call__(self, batch: Batch) -> Tensor:
        """(B, T), nan where no step ends."""
        score = 2 * step_logits(self.model, batch).sigmoid() - 1
        verdicts = torch.full_like(score, torch.nan)
        for i, episode in enumerate(batch.episodes):
            ends = step_ends(episode, _starts(self.steps, episode))
            verdicts[i, ends] = score[i, ends]
        return verdicts


@dataclass(frozen=True)
class PSGPO(PPO):
    """PSGPO: a verdict on every step beside the outcome, too small and too divided to be worth farming.

    r_it ← r_it + λ_i v_it / K_i at the end of each step,   λ_i = λ⁺ where the outcome is a success, else λ⁻
    v = 1 where the steps so far can still end well, −1 where not, 0 for a step that does nothing; then PPO

    v = batch.verdicts (B, T), nan where no step ends; K_i = steps of row i, so that the sum is within ±λ
    however many steps are written. λ⁺ = weight_pass, λ⁻ = weight_fail, success = batch.success. process None:
    `judge_steps` with `rolls` tries finds v by binary search, anew for every try; or process(batch) → (B, T),
    a model fitted to such labels (`ProcessModel`).
    Source: Dai et al. 2024 (arXiv 2410.17621), known here from accounts of it, not from its text.
    Differs from PPO in: plan (verdicts), reward.
    Departs from the paper: a step is a turn (or what `steps` says), there a line of a program; the critic
    starts at 0, there from the process model's weights; `rewards.fit_process_model` fits by cross-entropy,
    there by squares.
    """

    weight_fail: float = 0.25
    weight_pass: float = 0.025
    rolls: int = 20
    steps: Steps = turn_starts
    process: Callable[[Batch], Tensor] | None = None

    def plan(self, sampler: Sampler) -> list[Episode]:
        tried = super().plan(sampler)
        return judge_steps(sampler, tried, self.steps, self.rolls) if self.process is None else tried

    def reward(self, batch: Batch) -> Batch:
        verdicts = batch.verdicts if self.process is None else self.process(batch)
        count = (~verdicts.isnan()).sum(1).clamp(min=1)
        weight = torch.where(batch.success, self.weight_pass, self.weight_fail) / count
        return super().reward(batch.set(rewards=batch.rewards + weight[:, None] * verdicts.nan_to_num(0.0)))
