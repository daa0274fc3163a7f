"""Algorithms that change what is sampled: tasks skipped, tries added, hints given, anchors moved.

`plan` gets the run's means as a `Sampler`; what it must remember stands in `sampler.memory`, as plain data.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from .. import ops
from ..batch import Batch, Episode, by_group
from .base import Sampler
from .grpo import DAPO, GRPO, DrGRPO


def mean_reward(episodes: Sequence[Episode]) -> float:
    """What the world paid these tries, on average."""
    return float(np.mean([e.reward for e in episodes]))


# --- which tasks ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GRESO(GRPO):
    """GRESO: tasks that gave no contrast when last met are skipped before anything is sampled for them.

    P(skip) = 1 − max(p^z, floor),   z = latest visits in a row with mean reward ≥ easy (p = p_easy) or
    ≤ hard (p = p_hard); new tasks and those with contrast are never skipped
    after a step, each kind: p ← max(p − Δ, low) if its share of the tried ≥ its target, else min(p + Δ, high)
    tasks asked for next: min(B₀, ⌊1.25 · missing/(1 − share without contrast)⌋), at least `least`

    Of what is tried, groups with contrast are kept until there are `prompts`. p starts at `start`; Δ = delta;
    B₀ = 1.5 prompts, least = prompts/4. Needs a run with fixed `tasks`, each met again and again.
    Source: Zheng et al. 2025 (arXiv 2506.02177), released code; survey Table 2.
    Differs from GRPO in: plan, reduce (token mean).
    Departs from the paper: only secondary sources and the code were read. p moves from the first step on
    which a known task comes back, the code's waits for its second epoch. `hard` = 0.11 holds 1 right try of 8
    to be contrast.
    """

    start: float = 0.5
    delta: float = 0.01
    target_easy: float = 0.25 / 3
    target_hard: float = 0.5 / 3
    low: float = 0.05
    high: float = 0.95
    easy: float = 0.98
    hard: float = 0.11
    floor: float = 0.01
    rounds: int = 10

    def streak(self, before: int, mean: float) -> int:
        """z after a visit with this mean reward: up for easy, down for hard tasks, 0 after contrast."""
        kind = 1 if mean >= self.easy else -1 if mean <= self.hard else 0
        return before + kind if before * kind > 0 else kind

    def skip(self, streak: int, p_easy: float, p_hard: float) -> float:
        """Probability that a task with this streak is not tried."""
        return 1 - max((p_easy if streak > 0 else p_hard) ** abs(streak), self.floor) if streak else 0.0

    def adapt(self, p: float, share: float, target: float) -> float:
        """p for the next step."""
        return max(p - self.delta, self.low) if share >= target else min(p + self.delta, self.high)

    def plan(self, sampler: Sampler) -> list[Episode]:
        m = sampler.memory
        m.setdefault("p_easy", self.start)
        m.setdefault("p_hard", self.start)
        streaks = m.setdefault("streak", {})
        most, least = math.ceil(1.5 * sampler.prompts), max(1, sampler.prompts // 4)
        kept, tried, ask, known = [], [], most, False
        for _ in range(self.rounds):
            seeds = list(dict.fromkeys(sampler.fresh(ask)))
            skip = [self.skip(streaks.get(s, 0), m["p_easy"], m["p_hard"]) for s in seeds]
            seeds = [s for s, p in zip(seeds, skip) if sampler.rng.random() >= p]
            known |= any(s in streaks for s in seeds)
            groups = by_group(sampler.rollout(seeds, sampler.tries)) if seeds else []
            for group in groups:
                streaks[group[0].seed] = self.streak(streaks.get(group[0].seed, 0), mean_reward(group))
            tried += groups
            kept += [g for g in groups if len({e.reward for e in g}) > 1]
            if len(kept) >= sampler.prompts:
                break
            share = min(1 - len(kept) / max(len(tried), 1), 0.99)
            ask = max(least, min(most, int(1.25 * (sampler.prompts - len(kept)) / (1 - share))))
        if known:
            self._adapt(m, [mean_reward(group) for group in tried])
        chosen = kept[: sampler.prompts] or tried[: sampler.prompts]
        return [e for g in chosen for e in g] or super().plan(sampler)

    def _adapt(self, m: dict, means: list[float]) -> None:
        m["p_easy"] = self.adapt(m["p_easy"], np.mean([x >= self.easy for x in means]), self.target_easy)
        m["p_hard"] = self.adapt(m["p_hard"], np.mean([x <= self.hard for x in means]), self.target_hard)

    def reduce(self, x: Tensor, batch: Batch) -> Tensor:
        return ops.token_mean(x, batch.mask)


@dataclass(frozen=True)
class SRPO(GRPO):
    """SRPO: epochs over fixed tasks; after each, tasks solved in every try are left out; two stages.

    next epoch = tasks of this one with a failed try (all-wrong tasks stay);   A_i ← 0 where a limit cut row i

    Needs a run with fixed `tasks`. later(seed): whether a task belongs to the second stage (in the paper,
    code after mathematics), which begins after `epochs` epochs of the first with the tasks of both; None: one
    stage. A step takes what is left of its epoch, so the last one may be short. When no task is left, all
    come back.
    Source: Zhang et al. 2025 (arXiv 2504.14286), history resampling; survey Table 2.
    Differs from GRPO in: plan, advantages, reduce (token mean).
    Departs from the paper: secondary sources only; its clip was not found (GRPO's is kept), and its reward
    for format and language is the world's affair here. The survey's table prints a KL term; the paper drops
    it.
    """

    later: Callable[[int], bool] | None = None
    epochs: int = 1

    def plan(self, sampler: Sampler) -> list[Episode]:
        if not sampler.tasks:
            raise ValueError(
                "SRPO goes over fixed tasks again and again; hint: train(…, tasks=tuple(range(256)))"
            )
        m = sampler.memory
        if not m.get("queue"):
            self._begin_epoch(sampler)
        seeds, m["queue"] = m["queue"][: sampler.prompts], m["queue"][sampler.prompts :]
        tried = sampler.rollout(seeds, sampler.tries)
        m["solved"] += [group[0].seed for group in by_group(tried) if all(e.success for e in group)]
        return tried

    def _begin_epoch(self, sampler: Sampler) -> None:
        m = sampler.memory
        m["epoch"] = m.get("epoch", -1) + 1
        first = self.later is not None and m["epoch"] < self.epochs
        stage = [t for t in sampler.tasks if not (first and self.later(t))] or list(sampler.tasks)
        left = [t for t in stage if t not in set(m.setdefault("solved", []))]
        if not left:
            m["solved"], left = [], stage
        m["queue"] = sampler.rng.permutation(left).tolist()

    def advantages(self, batch: Batch) -> Tensor:
        return super().advantages(batch) * ~batch.truncated[:, None]

    def reduce(self, x: Tensor, batch: Batch) -> Tensor:
        return ops.token_mean(x, batch.mask)


# --- how many tries ---------------------------------------------------------------------------------------


def extra_tries(accuracy: float, n: int, most: int, weighted: bool, std: bool) -> int:
    """Tries that DARS adds to n first ones of a task with this accuracy, so that n + extra ≤ most.

    S = 2a(1 − a), the mean |A| of a try (std: 2√(a(1−a))), with a = 0.5/n for 0; peak A* = n/2 (std: n).
    ⌈(c A* − n S)/S⌉ with c = 1, or where weighted (HW) 2(1 − a); 0 where a ≥ ½.
    """
    if accuracy >= 0.5:
        return 0
    a = accuracy or 0.5 / n
    mass, peak = (2 * math.sqrt(a * (1 - a)), n) if std else (2 * a * (1 - a), n / 2)
    wanted = (2 * (1 - a) if weighted else 1.0) * peak
    return max(0, min(math.ceil((wanted - n * mass) / mass), most - n))


@dataclass(frozen=True)
class DARS(DrGRPO):
    """DARS: hard tasks get second-stage tries until they push as much as medium ones.

    first N tries give accuracy a; then Δn = extra_tries(a): S = 2a(1 − a), A* = N/2,
    Δn_ET = ⌈(A* − N S)/S⌉,   Δn_HW = ⌈(2(1 − a)A* − N S)/S⌉ (weighted),   N + Δn ≤ most;   0 where a ≥ ½
    all tries of a task are one group: A_i = R_i − mean_g R; groups without contrast leave

    N = tries, a = share of tries with success. std: z-scores, with S = 2√(a(1−a)), A* = N.
    Source: Yang et al. 2025 (arXiv 2508.13755), released code; survey Table 2.
    Differs from Dr.GRPO in: plan, keep.
    Departs from the paper: only the code was read. It divides the token sum by the padded width and not by
    the number of rows; here Dr.GRPO's constant stands (the same but for a factor a batch). Its breadth, the
    whole batch in one update and 2 epochs, is the run's setting (minibatches=1, epochs=2).
    """

    most: int = 32
    weighted: bool = False
    std: bool = False

    def plan(self, sampler: Sampler) -> list[Episode]:
        tried = super().plan(sampler)
        wanted: dict[int, list[list[Episode]]] = {}
        for group in by_group(tried):
            accuracy = float(np.mean([e.success for e in group]))
            n = extra_tries(accuracy, len(group), self.most, self.weighted, self.std)
            wanted.setdefault(n, []).append(group)
        for n, groups in sorted(wanted.items()):
            if n > 0:
                more = sampler.rollout([g[0].seed for g in groups], n)
                home = {new[0].group: old[0].group for new, old in zip(by_group(more), groups, strict=True)}
                tried += [replace(e, group=home[e.group]) for e in more]
        return tried

    def keep(self, batch: Batch) -> Tensor:
        contrast = ops.group_signal(batch.reward, batch.group)
        return contrast if bool(contrast.any()) else super().keep(batch)

    def advantages(self, batch: Batch) -> Tensor:
        normal = ops.group_zscore if self.std else ops.group_center
        return ops.per_token(normal(batch.reward, batch.group), batch.mask)


# --- which anchor -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProRL(DAPO):
    """ProRL: DAPO with a KL anchor that moves: where progress stalls, the reference becomes the policy.

    L = DAPO's + β k3, a token mean;   at a reset π_ref ← π_θ and the optimizer forgets its state

    A reset comes when mean success over the last `window` steps is not above that over the window before; the
    count starts anew after it. β = beta, ε_high = clip_high.
    Source: Liu et al. 2025 (arXiv 2505.24864), reference policy reset; survey Table 2.
    Differs from DAPO in: plan (resets), beta, clip_high.
    Departs from the paper: it watches a validation set, this class the tries of training before the dynamic
    filter. β is not stated in what was read. "ProRL v2" in some libraries is another recipe.
    """

    clip_high: float = 0.4
    beta: float = 0.001
    window: int = 20

    def plan(self, sampler: Sampler) -> list[Episode]:
        seen: list[Episode] = []

        def noted(seeds: Sequence[int], tries: int) -> list[Episode]:
            tried = sampler.rollout(seeds, tries)
            seen.extend(tried)
            return tried

        kept = super().plan(replace(sampler, rollout=noted))
        history = sampler.memory.setdefault("success", [])
        history.append(float(np.mean([e.success for e in seen])))
        if self.stalled(history):
            sampler.memory["success"] = []
            sampler.memory["resets"] = sampler.memory.get("resets", 0) + 1
            sampler.reset()
        return kept

    def stalled(self, history: Sequence[float]) -> bool:
        """Whether the last window of this history is no better than the one before."""
        w = self.window
        return len(history) >= 2 * w and sum(history[-w:]) <= sum(history[-2 * w : -w])


# --- which beginning --------------------------------------------------------------------------------------


def begun(shown: Episode, share: float) -> int:
    """The position in a demonstration after this share of its sampled tokens (rounded down)."""
    at = np.flatnonzero(shown.mask > 0)
    return int(at[int(share * len(at))])


def forced_before(episode: Episode, position: int) -> Episode:
    """The same episode with all before a position forced: a hint, not trained on, that earns nothing."""
    hint = np.arange(len(episode)) < position
    parts = {
        k: np.where(hint, 0, getattr(episode, k)).astype(np.float32) for k in ("mask", "logp", "rewards")
    }
    return replace(episode, **parts)


@dataclass(frozen=True)
class GHPO(GRPO):
    """GHPO: where all tries of a task fail, they are made again behind a growing part of a solution.

    ω = ω_1, ω_2, … while no try of the task succeeds: hint = the first ⌊ω n⌋ of the n tokens the expert says
    the tries of the last round take the place of those before; A is GRPO's

    hints = (ω_1, …). The hint is forced (mask 0), at the head of the answer, and the world has heard it.
    Source: Liu et al. 2025 (arXiv 2507.10628), released code; survey Table 2.
    Differs from GRPO in: plan, reduce (token mean).
    Departs from the paper: its hint is text in the prompt, cut by characters; a policy this small would not
    read it there. Success alone decides, as in its code. No cold start with a fixed hint.
    """

    hints: tuple[float, ...] = (0.25, 0.5, 0.75)

    def plan(self, sampler: Sampler) -> list[Episode]:
        groups = by_group(super().plan(sampler))
        for share in self.hints:
            failed = [i for i, group in enumerate(groups) if not any(e.success for e in group)]
            if not failed:
                break
            shown = sampler.demonstrate([groups[i][0].seed for i in failed])
            cuts = [begun(e, share) for e in shown]
            again = by_group(sampler.fork(shown, cuts, sampler.tries))
            for i, cut, tries in zip(failed, cuts, again, strict=True):
                groups[i] = [replace(forced_before(e, cut), group=groups[i][0].group) for e in tries]
        return [e for group in groups for e in group]

    def reduce(self, x: Tensor, batch: Batch) -> Tensor:
        return ops.token_mean(x, batch.mask)
