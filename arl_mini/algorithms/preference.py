"""Preferences over steps, lengths and whole trajectories, and the ways to find pairs among tries.

Choosers pick two of the tries of one task, (chosen, rejected), or None. The classes here find their pairs
themselves, from the tries of the policy under training, unless `pairs` gives data.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from .. import ops
from ..batch import Batch, Episode, by_group
from ..models.score import Scores
from .base import Sampler
from .dpo import DPO, ORPO, Chooser, Pair


def by_score(score: Callable[[Sequence[Episode]], Sequence[float] | Tensor]) -> Chooser:
    """Highest against lowest score of a task's tries; of equals the first; no pair where all are equal."""

    def choose(tries: Sequence[Episode]) -> Pair | None:
        worth = [float(s) for s in score(tries)]
        best, worst = int(np.argmax(worth)), int(np.argmin(worth))
        return (tries[best], tries[worst]) if worth[best] > worth[worst] else None

    return choose


def annotated(prefers: Callable[[Episode, Episode], bool]) -> Chooser:
    """The first two tries of a task, as an annotator orders them: prefers(a, b), is a taken over b?"""

    def choose(tries: Sequence[Episode]) -> Pair | None:
        if len(tries) < 2:
            return None
        a, b = tries[:2]
        return (a, b) if prefers(a, b) else (b, a)

    return choose


best_and_worst = by_score(lambda tries: [e.reward for e in tries])  # by what the world paid


def shortest_and_longest(tries: Sequence[Episode]) -> Pair | None:
    """Of tries that all succeed: fewest against most tokens; no pair where one fails or lengths are equal."""
    lengths = [e.mask.sum() for e in tries]
    if not all(e.success for e in tries) or min(lengths) == max(lengths):
        return None
    return tries[int(np.argmin(lengths))], tries[int(np.argmax(lengths))]


def excerpt(episode: Episode, start: int, stop: int) -> Episode:
    """The tokens before `stop`, those before `start` forced; the whole reward at the last sampled one."""
    mask = np.where(np.arange(stop) < start, 0, episode.mask[:stop]).astype(np.float32)
    rewards = np.zeros(stop, np.float32)
    rewards[np.flatnonzero(mask)[-1]] = episode.reward
    logp = episode.logp[:stop] * mask
    return replace(
        episode, tokens=episode.tokens[:stop], mask=mask, turn=episode.turn[:stop], logp=logp, rewards=rewards
    )


def step_numbers(episode: Episode, ends: Callable[[str], bool]) -> np.ndarray:
    """The step each sampled token belongs to, (L,), −1 at forced tokens.

    A step ends with a token for which ends(its text); what follows the last end belongs to the last step.
    """
    sampled = episode.mask > 0
    ending = sampled & np.array([ends(piece) for piece in episode.pieces])
    number = np.cumsum(ending) - ending
    return np.where(sampled, np.minimum(number, max(ending.sum() - 1, 0)), -1)


def is_number(piece: str) -> bool:
    """Whether a token's text is a number."""
    return piece.strip().isdigit()


@dataclass(frozen=True)
class StepDPO(DPO):
    """Step-DPO: after the steps that both share, compare the wrong step with the right one.

    L = 1/P Σ_k softplus(−β h_k), where m is 1 only at the tokens of the first step that differs

    ends: whether a token's text ends a step (by default: numbers do, as in Chain). Steps before are part of
    the prompt, steps after are cut off. pairs: by default the best and the worst of a task's tries.
    Source: Lai et al. 2024 (arXiv 2406.18629); β 0.4 for all but its 72B models.
    Differs from DPO in: trim, pairs, beta.
    Departs from the paper: the right step comes from another try that shares the beginning, where the paper
    samples on from that beginning; both are the policy's own words. The wrong step is the first that differs
    from a try that went well, so a task should have one right way (in the paper a judge reads the steps). The
    released scripts have β 0.5 for 7B and 0.4 for 72B, the other way round.
    """

    beta: float = 0.4
    pairs: Sequence[Pair] | Chooser = field(default=best_and_worst, repr=False, compare=False)
    ends: Callable[[str], bool] = field(default=is_number, repr=False)

    def trim(self, chosen: Episode, rejected: Episode) -> Pair | None:
        numbers = [step_numbers(e, self.ends) for e in (chosen, rejected)]
        for step in range(min(number.max() for number in numbers) + 1):
            at = [np.flatnonzero(number == step) for number in numbers]
            if chosen.tokens[at[0]].tolist() != rejected.tokens[at[1]].tolist():
                return tuple(excerpt(e, i[0], i[-1] + 1) for e, i in zip((chosen, rejected), at))
        return None


@dataclass(frozen=True)
class LCPO(DPO):
    """LCPO: of right answers prefer the shortest to the longest; ORPO's odds ratio alone.

    L = 1/P Σ_k softplus(−β (odds_w − odds_l)),   odds as in ORPO;   −log σ(odds_i) = −ℓ̄_i

    β = beta, 1 in the paper. Pairs come from tasks whose tries all succeed.
    Source: arXiv 2508.10164 (2025).
    Differs from ORPO in: no likelihood term, λ = 1, pairs by length.
    Departs from the paper: only secondary sources were read, which print the loss without its minus sign. The
    survey's table lists a KL term and a reward; the loss has neither. L1 has another method of this name.
    """

    beta: float = 1.0
    pairs: Sequence[Pair] | Chooser = field(default=shortest_and_longest, repr=False, compare=False)
    needs_ref = False
    worth = ORPO.worth


@dataclass(frozen=True)
class ETO(DPO):
    """ETO: DPO on whole trajectories; the agent's failures against its successes, or an expert's.

    L = 1/P Σ_k softplus(−β h_k),   worth_i = Σ_turns Σ_{t in turn} m_it (ℓ_it − ℓ_ref,it)

    m is 0 at observations. expert True: where no try of a task succeeds, the world's expert shows how. A step
    of the run explores and then trains on what it found.
    Source: Song et al. 2024 (arXiv 2403.02502).
    Differs from DPO in: explore, pairs.
    Departs from the paper: each step explores a few tasks, where the paper explores all and then trains for
    epochs (do that with `pairs`, and a new run for each iteration: its reference is the policy the run starts
    with).
    """

    pairs: Sequence[Pair] | Chooser = field(default=best_and_worst, repr=False, compare=False)
    expert: bool = True

    def explore(self, sampler: Sampler) -> list[Episode]:
        tries = super().explore(sampler)
        lost = [group[0] for group in by_group(tries) if not any(e.success for e in group)]
        if not (self.expert and lost):
            return tries
        shown = sampler.demonstrate([e.seed for e in lost])
        return tries + [replace(e, group=old.group) for e, old in zip(shown, lost)]


@dataclass(frozen=True)
class DMPO(DPO):
    """DMPO: early turns of a trajectory weigh more, and long trajectories no more than short ones.

    worth_i = Σ_t φ(turn_it, T_i) m_it (ℓ_it − ℓ_ref,it),   φ(t, T) = γ^t (1 − γ^{T−t}) / (1 − γ^T)

    φ = (T − t)/T for γ = 1; γ = gamma, turn = batch.turn (B, T), T_i = turns of row i. decays False leaves
    γ^t out.
    Source: Shi et al. 2024 (arXiv 2406.14868), Eq. 16.
    Differs from ETO in: worth; no experts.
    Departs from the paper: Eq. 16 prints φ without γ^t, but its derivation, its limit γ → 0 (DPO on the first
    turn) and its authors' code have it; so has this class.
    """

    pairs: Sequence[Pair] | Chooser = field(default=best_and_worst, repr=False, compare=False)
    gamma: float = 0.7
    decays: bool = True

    def worth(self, scores: Scores, batch: Batch) -> Tensor:
        phi = turn_weights(batch.turn, self.gamma, self.decays).to(scores.logp)
        return ops.row_sum(phi * (scores.logp - batch.ref_logp), batch.mask)


def turn_weights(turn: Tensor, gamma: float, decays: bool = True) -> Tensor:
    """φ(t, T) of DMPO for each token, (B, T) float64, from the turn each belongs to; 1 outside turns."""
    if not 0 < gamma <= 1:
        raise ValueError(f"gamma must be in (0, 1], got {gamma}")
    t = turn.clamp(min=0).double()
    turns = t.amax(1, keepdim=True) + 1
    if gamma == 1:
        phi = (turns - t) / turns
    else:
        phi = (1 - gamma ** (turns - t)) / (1 - gamma**turns) * (gamma**t if decays else 1.0)
    return torch.where(turn >= 0, phi, torch.ones_like(phi))


def first_bad_turn(episode: Episode) -> int:
    """The first turn that the world called malformed or illegal; where there is none, the middle one."""
    bad = (k for k, info in enumerate(episode.infos) if info.get("malformed") or info.get("illegal"))
    return next(bad, episode.turns // 2)


@dataclass(frozen=True)
class SDPO(DPO):
    """SDPO: go back to just before the turn that went wrong, try again, and compare as many turns of both.

    L = 1/P Σ_k softplus(−β h_k), where m is 1 only at turns e to e + n − 1, n the same for both rows

    e = the first turn that differs; n = the turns both have from there, at most `turns` (0: no such limit).
    Of tasks whose first try fails, `error` names the turn to go back to, and tries − 1 episodes really go on
    from there.
    Source: Kong et al. 2025 (arXiv 2501.01821).
    Differs from ETO in: explore (branches), trim (equal numbers of turns; equal counts cancel the
    normalisers).
    Departs from the paper: there a large model names the bad turn, judges the new tries and sets n; here the
    world's verdicts, its reward and a field do.
    """

    pairs: Sequence[Pair] | Chooser = field(default=best_and_worst, repr=False, compare=False)
    turns: int = 3
    error: Callable[[Episode], int] = field(default=first_bad_turn, repr=False)

    def explore(self, sampler: Sampler) -> list[Episode]:
        first = sampler.rollout(sampler.fresh(sampler.prompts), 1)
        lost = [e for e in first if not e.success]
        if not lost or sampler.tries < 2:
            return first
        again = sampler.branch(lost, [self.error(e) for e in lost], sampler.tries - 1)
        return first + [replace(e, group=old.group) for group, old in zip(by_group(again), lost) for e in group]

    def trim(self, chosen: Episode, rejected: Episode) -> Pair | None:
        common = min(chosen.turns, rejected.turns)
        start = next((k for k in range(common) if chosen.said(k) != rejected.said(k)), common)
        stop = min(common, start + self.turns) if self.turns else common
        if start == stop:
            return None

        def cut(e: Episode) -> Episode:
            at = np.flatnonzero((e.turn >= start) & (e.turn < stop) & (e.mask > 0))
            return excerpt(e, at[0], at[-1] + 1)

        return cut(chosen), cut(rejected)


@dataclass(frozen=True)
class OnlineDPO(DPO):
    """Online DPO: sample from the policy under training, let a judge order the tries, learn from the pair.

    L as in DPO; (w, l) = best and worst of a task's tries by the judge; no pair where all are equal

    pairs: the judge; `best_and_worst` asks the world's reward, `by_score(reward_model)` a model,
    `annotated(prefers)` an annotator, who sees two tries.
    Source: Guo et al. 2024 (arXiv 2402.04792), §3; best against worst of K: Dong et al. 2024 (arXiv
    2405.07863).
    Differs from DPO in: pairs, which are made at every step.
    Departs from the paper: equal tries give no pair; TRL takes the first for the chosen one.
    """

    pairs: Chooser = field(default=best_and_worst, repr=False, compare=False)
