"""DPO and its family: learn from which of two replies was preferred, without a reward model.

A pair is two rows of the batch: `batch.pair` names it, `batch.chosen` marks its preferred row. Where pairs
come from is one field, `pairs`: either a fixed list of (chosen, rejected) episodes, of which every step of
`train` draws `prompts` (each once a pass), or a function that picks two of the tries a task was just given.
So the same loop fits offline data and learns on-policy:

    tries = rollout(policy, env, range(256), 2)                     # episodes of anyone
    data = choose_pairs(tries, annotated(lambda a, b: …))           # an annotator takes a over b, or not
    for record in train(policy, env, DPO(pairs=data), steps=60):    # the world is not asked: an offline fit
    for record in train(policy, env, DPO(pairs=best_and_worst)):    # pairs of fresh tries, by reward

Offline, a record's reward, success and lengths are those of the data; evaluate to see the policy's. The
reference is the policy as it was when the run began; a new run on fresh pairs is the next iteration of
iterated DPO.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from .. import ops
from ..batch import Batch, Episode, by_group
from ..batch import pairs as mark
from ..models.score import Scores
from .base import Algorithm, Sampler

Pair = tuple[Episode, Episode]  # (chosen, rejected)
Chooser = Callable[[Sequence[Episode]], Pair | None]  # two of the tries of one task, or None: no preference


def choose_pairs(episodes: Sequence[Episode], choose: Chooser) -> list[Pair]:
    """The pair of each group where there is one."""
    return [pair for tries in by_group(episodes) if (pair := choose(tries)) is not None]


def draw(data: Sequence, n: int, sampler: Sampler) -> list:
    """n items of a data set (all, if fewer): every item once a pass, each pass in an order of its own."""
    if not data:
        raise ValueError("no data to learn from; hint: pairs=choose_pairs(tries, best_and_worst)")
    n, left = min(n, len(data)), list(sampler.memory.get("left", ()))
    if len(left) < n:
        order = sampler.rng.permutation(len(data)).tolist()
        left += sorted(order, key=lambda i: i in left)  # owed by the old pass: last in the new
    sampler.memory["left"] = left[n:]
    return [data[i] for i in left[:n]]


@dataclass(frozen=True)
class DPO(Algorithm):
    """DPO: the policy's own log-ratio to a reference is the reward that a preference model is fitted to.

    h_k = worth_w − worth_l,   worth_i = Σ_t m_it (ℓ_it − ℓ_ref,it)
    L = 1/P Σ_k [ (1−ε) softplus(−β h_k) + ε softplus(β h_k) ]

    ℓ = scores.logp (B, T), ℓ_ref = batch.ref_logp, m = batch.mask; w, l = the chosen and the rejected row of
    pair k of P (batch.pair, batch.chosen, both (B,)); β = beta, ε = smoothing (the share of labels taken to
    be flipped). Subclasses change worth (B,), margin h (P,), penalty (P,), or trim, which cuts a pair to what
    is compared.
    Source: Rafailov et al. 2023 (arXiv 2305.18290), Eq. 7; smoothing: its authors' code; survey Eq. (15).
    Departs from the paper: nothing. A batch without pairs has L = 0 and no gradient.
    """

    beta: float = 0.1
    smoothing: float = 0.0
    pairs: Sequence[Pair] | Chooser = field(default=(), repr=False, compare=False)

    def plan(self, sampler: Sampler) -> list[Episode]:
        if callable(self.pairs):
            tries = self.explore(sampler)
            found = choose_pairs(tries, self.pairs)
        else:
            tries, found = [], draw(self.pairs, sampler.prompts, sampler)
        cut = [pair for whole in found if (pair := self.trim(*whole)) is not None]
        used = {id(episode) for whole in found for episode in whole}
        return mark(cut) + [e for e in tries if id(e) not in used]

    def explore(self, sampler: Sampler) -> list[Episode]:
        """Tries to choose pairs from, where `pairs` is a function."""
        return super().plan(sampler)

    def trim(self, chosen: Episode, rejected: Episode) -> Pair | None:
        """What of a pair is compared; None drops it."""
        return chosen, rejected

    def keep(self, batch: Batch) -> Tensor:
        paired = batch.pair >= 0
        return paired if bool(paired.any()) else torch.ones_like(paired)

    def worth(self, scores: Scores, batch: Batch) -> Tensor:
        """(B,) what the policy makes of each row."""
        return ops.row_sum(scores.logp - batch.ref_logp, batch.mask)

    def margin(self, scores: Scores, batch: Batch) -> Tensor:
        """(P,) by how much the chosen row is ahead of the rejected one."""
        chosen, rejected = ops.pair_rows(batch.pair, batch.chosen)
        worth = self.worth(scores, batch)
        return worth[chosen] - worth[rejected]

    def penalty(self, margin: Tensor) -> Tensor:
        """(P,) to (P,)."""
        return -logsigmoid(self.beta * margin)

    def loss(self, scores: Scores, batch: Batch) -> Tensor:
        h = self.margin(scores, batch)
        x = (1 - self.smoothing) * self.penalty(h) + self.smoothing * self.penalty(-h)
        return x.sum() / max(len(x), 1)


@dataclass(frozen=True)
class BetaDPO(DPO):
    """β-DPO: the batch's mean gap sets β, and pairs whose gap is an outlier tend to be left out.

    M_k = h_k of the policy as it is at the step, no gradient
    keep ⌊P(1−ρ)⌋ pairs, drawn without replacement with weights exp(−(M_k − M₀)²/2σ₀²)
    β = max(β₀ [1 + a (mean of the kept M − M₀)], 1e-3),   L = mean of softplus(−β h_k) over the kept

    β₀ = beta, a = a, ρ = drop; M₀, σ₀ = running mean and std of M (momentum), updated with the batch before
    their use. β/β₀ travels in batch.weight (B,).
    Source: Wu et al. 2024 (arXiv 2407.08639), as its authors' code has it (M without β, std
    with Bessel).
    Differs from DPO in: plan (measures, drops), margin (times β/β₀).
    Departs from the paper: M₀ and σ₀ start at the first batch's values; the authors' code starts both at 0,
    which lets nearly only pairs with M = M₀ through at first.
    """

    a: float = 0.6
    drop: float = 0.2
    momentum: float = 0.9

    def plan(self, sampler: Sampler) -> list[Episode]:
        rows = super().plan(sampler)
        n = 2 * sum(e.chosen for e in rows)
        if not n:
            return rows
        ratio = sampler.logratio(rows[:n]).double().cpu()
        gap = ratio[0::2] - ratio[1::2]
        mean, std = self.track(gap, sampler.memory)
        weights = self.weights(gap, mean, std).numpy()
        keep = max(int(len(gap) * (1 - self.drop)), 1)
        kept = sampler.rng.choice(len(gap), keep, replace=False, p=weights / weights.sum())
        weight = self.strength(gap[torch.from_numpy(kept)], mean) / self.beta
        out = dict(pair=-1, chosen=False)
        return [replace(e, **(dict(weight=weight) if e.pair in kept else out)) for e in rows[:n]] + rows[n:]

    def track(self, gap: Tensor, memory: dict) -> tuple[float, float]:
        """Running mean and std of the gaps (P,), with this batch counted."""
        now = float(gap.mean()), float(gap.std()) if len(gap) > 1 else 0.0
        old = memory.get("gap", now)
        memory["gap"] = tuple(self.momentum * o + (1 - self.momentum) * n for o, n in zip(old, now))
        return memory["gap"]

    def weights(self, gap: Tensor, mean: float, std: float) -> Tensor:
        """(P,) how readily a pair is drawn; never quite 0, so that enough can be."""
        return (-0.5 * ((gap - mean) / max(std, ops.EPS)) ** 2).exp().clamp(min=1e-12)

    def strength(self, kept: Tensor, mean: float) -> float:
        """β of a batch whose kept gaps are given."""
        return max(self.beta * (1 + self.a * (float(kept.mean()) - mean)), 1e-3)

    def margin(self, scores: Scores, batch: Batch) -> Tensor:
        chosen, _ = ops.pair_rows(batch.pair, batch.chosen)
        return super().margin(scores, batch) * batch.weight[chosen]


@dataclass(frozen=True)
class SimPO(DPO):
    """SimPO: the mean log-probability of a token is the reward; no reference, and a margin to reach.

    L = 1/P Σ_k softplus(−β (ℓ̄_w − ℓ̄_l) + γ),   ℓ̄_i = 1/n_i Σ_t m_it ℓ_it

    γ = gamma, n_i = Σ_t m_it. In code h = ℓ̄_w − ℓ̄_l − γ/β, so that smoothing acts as in the authors' code.
    Source: Meng et al. 2024 (arXiv 2405.14734), Eq. 6; defaults of its configuration class.
    Differs from DPO in: worth (a mean, no reference), margin (γ), beta.
    Departs from the paper: nothing. The authors' code takes the ratio γ/β, TRL takes γ. The survey's table
    says that the KL is scaled; there is no reference policy, hence no KL.
    """

    beta: float = 2.0
    gamma: float = 0.5
    needs_ref = False

    def worth(self, scores: Scores, batch: Batch) -> Tensor:
        return ops.row_mean(scores.logp, batch.mask)

    def margin(self, scores: Scores, batch: Batch) -> Tensor:
        return super().margin(scores, batch) - self.gamma / self.beta


@dataclass(frozen=True)
class IPO(DPO):
    """IPO: bring the gap to a finite target instead of pushing it to infinity.

    L = 1/P Σ_k (h_k − 1/2τ)²,   worth_i = 1/n_i Σ_t m_it (ℓ_it − ℓ_ref,it)

    τ = beta (TRL's name for it as well). mean True: worth is divided by the row's length, so the target is a
    gap a token; mean False: worth is the row's sum, as π(y|x) reads literally, and the target is a gap in
    all.
    Source: Azar et al. 2023 (arXiv 2310.12036), Eq. 17.
    Differs from DPO in: penalty, worth.
    Departs from the paper: the paper leaves the reading of h open. TRL and HALOs take the mean (TRL reports
    that the authors confirmed it), the DPO authors' code and OpenRLHF the sum. The survey's table describes
    another method of this name (a language model as preference classifier).
    """

    mean: bool = True

    def worth(self, scores: Scores, batch: Batch) -> Tensor:
        row = ops.row_mean if self.mean else ops.row_sum
        return row(scores.logp - batch.ref_logp, batch.mask)

    def penalty(self, margin: Tensor) -> Tensor:
        return (margin - 1 / (2 * self.beta)) ** 2


@dataclass(frozen=True)
class ORPO(DPO):
    """ORPO: fine-tune on the chosen reply and raise its odds over the rejected one's, in one stage.

    L = −1/Σ_w n_w Σ_w Σ_t m_wt ℓ_wt + λ/P Σ_k softplus(−(odds_w − odds_l))
    odds_i = log p_i/(1 − p_i),   p_i = exp(1/n_i Σ_t m_it ℓ_it)

    λ = lam. beta scales the difference of the odds and is 1 in the paper (TRL calls λ beta).
    Source: Hong et al. 2024 (arXiv 2403.07691), Eq. 6 and 7.
    Differs from DPO in: worth (log odds, no reference), loss (adds the likelihood of the chosen), beta.
    Departs from the paper: the likelihood is over the reply's tokens; the authors' code and TRL count the
    prompt's too. LLaMA-Factory takes the mean of each row first. The authors' code averages one position too
    many in padded rows. The survey's table calls it online; its pairs are fixed.
    """

    beta: float = 1.0
    lam: float = 0.1
    needs_ref = False

    def worth(self, scores: Scores, batch: Batch) -> Tensor:
        return ops.log_odds(ops.row_mean(scores.logp, batch.mask))

    def nll(self, logp: Tensor, mask: Tensor) -> Tensor:
        """The chosen rows' loss, a scalar."""
        return ops.token_mean(-logp, mask)

    def loss(self, scores: Scores, batch: Batch) -> Tensor:
        chosen, _ = ops.pair_rows(batch.pair, batch.chosen)
        return self.nll(scores.logp[chosen], batch.mask[chosen]) + self.lam * super().loss(scores, batch)


@dataclass(frozen=True)
class KTO(Algorithm):
    """KTO: no pairs; each reply is good or bad, valued as people value gains and losses.

    r_i = Σ_t m_it (ℓ_it − ℓ_ref,it),   z₀ = max(0, mean of r over mismatched rows), no gradient
    L = mean over labelled rows of λ_D (1 − σ(β(r_i − z₀))) if good, λ_U (1 − σ(β(z₀ − r_i))) if bad

    β = beta, λ_D = desirable, λ_U = undesirable. Labelled rows have batch.pair ≥ 0 and batch.chosen = good; a
    mismatched row, the prompt of one reply with the reply to another prompt, has batch.pair = −1. labelled:
    (episode, good) tuples, of which a step draws 2·prompts, or a function that says of a fresh try whether it
    is good.
    Source: Ethayarajh et al. 2024 (arXiv 2402.01306), §4.
    Differs from DPO in: plan (single labels, mismatched rows), loss.
    Departs from the paper: nothing. The mismatched reply is the next one of the step with another prompt;
    where all prompts are equal it is a matched one. HALOs counts only rows with r ≠ 0 in z₀. The survey's
    table has a teacher and distillation here; there is neither.
    """

    beta: float = 0.1
    desirable: float = 1.0
    undesirable: float = 1.0
    labelled: Sequence[tuple[Episode, bool]] | Callable[[Episode], bool] = field(
        default=(), repr=False, compare=False
    )

    def plan(self, sampler: Sampler) -> list[Episode]:
        if callable(self.labelled):
            found = [(e, self.labelled(e)) for e in super().plan(sampler)]
        else:
            found = draw(self.labelled, 2 * sampler.prompts, sampler)
        rows = [replace(e, pair=i, chosen=bool(good)) for i, (e, good) in enumerate(found)]
        return rows + mismatched(rows)

    def loss(self, scores: Scores, batch: Batch) -> Tensor:
        r = ops.row_sum(scores.logp - batch.ref_logp, batch.mask)
        label = batch.pair >= 0
        z0 = (r[~label].sum() / (~label).sum().clamp(min=1)).clamp(min=0).detach()
        gain = torch.where(batch.chosen, r - z0, z0 - r)
        lam = torch.where(batch.chosen, r.new_tensor(self.desirable), r.new_tensor(self.undesirable))
        return (lam * torch.sigmoid(-self.beta * gain))[label].mean()


def mismatched(rows: Sequence[Episode]) -> list[Episode]:
    """Each row's prompt with the reply of the next row that has another prompt, in no pair."""
    prompts = [e.tokens[e.turn < 0].tobytes() for e in rows]
    around = [[(i + k) % len(rows) for k in range(1, len(rows) + 1)] for i in range(len(rows))]
    other = [next((j for j in near if prompts[j] != prompts[i]), near[0]) for i, near in enumerate(around)]
    names = ("tokens", "mask", "turn", "logp", "rewards")
    made = []
    for row, reply in zip(rows, (rows[j] for j in other)):
        at, start = (row.turn < 0).sum(), (reply.turn < 0).sum()
        joined = {k: np.concatenate([getattr(row, k)[:at], getattr(reply, k)[start:]]) for k in names}
        mark = dict(pair=-1, chosen=False, blanked=True)
        made.append(replace(reply, **joined, seed=row.seed, group=row.group, **mark))
    return made
