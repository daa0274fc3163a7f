"""GRPO with another reward or another advantage: which try deserves how much, and which of its tokens."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .. import ops
from ..batch import Batch, Episode, joined
from ..models.score import Scores
from ..models.tokenizer import ACT, BOT, END, THINK, THINK_END, encode
from ..rewards import at_end, judged
from .base import Sampler
from .grpo import GRPO

Judge = Callable[[Episode], float]


# --- judges of written steps, read from the text of an episode of Chain -----------------------------------


def chain_steps(episode: Episode) -> tuple[list[str], list[str]]:
    """The steps that an answer to a Chain task wrote between <think> tags, and those it should have."""
    task, _, said = episode.text.partition(BOT)
    digits = [int(word) for word in task.split() if word.isdigit()]
    if len(digits) < 2 or not task.endswith("="):
        raise ValueError(
            f"this is no Chain task: {task!r:.60}; hint: give the algorithm judges for your world"
        )
    sums = [sum(digits[: i + 1]) % 10 for i in range(1, len(digits) - 1)]
    return said.partition(THINK)[2].partition(THINK_END)[0].split(), [str(s) for s in sums]


def steps_right(episode: Episode) -> float:
    """Share of the wanted steps written at their place, in [0, 1]; 1 where none is wanted."""
    written, wanted = chain_steps(episode)
    return sum(a == b for a, b in zip(written, wanted)) / len(wanted) if wanted else 1.0


def steps_ordered(episode: Episode) -> float:
    """1.0 where as many steps as wanted stand before one closed answer, else 0.0."""
    written, wanted = chain_steps(episode)
    said = episode.text.partition(BOT)[2]
    tags = said.count(THINK), said.count(THINK_END)
    return float(len(written) == len(wanted) and tags in ((0, 0), (1, 1)) and said.endswith(END))


def well_formed(episode: Episode) -> float:
    """1.0 where the episode was finished without a malformed turn, else 0.0."""
    return float(episode.terminated and not any(info.get("malformed") for info in episode.infos))


def match_share(text: str, key_steps: Sequence[str | Sequence[str]]) -> float:
    """Share of key steps found in a text; a key step given as several synonyms counts once (R1-VL)."""
    found = [any(way in text for way in ([step] if isinstance(step, str) else step)) for step in key_steps]
    return sum(found) / len(found) if found else 0.0


# --- other rewards ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PosteriorGRPO(GRPO):
    """Posterior-GRPO: good reasoning is paid only after the answer proved right, so style cannot be farmed.

    R_i = R^f_i + R^o_i + R^o_i · R^t_i,   then GRPO

    R^o = batch.success; R^f = form(episode) and R^t = thinking(episode), both in [0, 1]. The reward (B,)
    stands at the row's last sampled token and takes the place of the world's.
    Source: Fan et al. 2025 (arXiv 2508.05170), reward of §3; survey Table 2.
    Differs from GRPO in: reward.
    Departs from the paper: R^t is a verifier of written steps where the paper trains a model to judge
    thoughts; the default fits Chain. The paper's group size, ε and β were not found: GRPO's are kept.
    """

    form: Judge = well_formed
    thinking: Judge = steps_right

    def reward(self, batch: Batch) -> Batch:
        right = batch.success.to(batch.rewards)
        form, thinking = (judged(batch.episodes, j).to(right) for j in (self.form, self.thinking))
        return batch.set(rewards=at_end(form + right + right * thinking, batch.mask))


@dataclass(frozen=True)
class StepGRPO(GRPO):
    """Step-GRPO: two rules over the written steps make the reward dense: key steps found, good order.

    R_i = 1[right] + α k_i + v_i,   L = 1/B Σ_i 1/n_i Σ_t m_it [ −A_i e^{ℓ_it − sg(ℓ_it)} + β k3_it ]

    k = steps(episode), the share of key steps found; v = order(episode), 1 where the steps are well formed
    and in order; α = alpha, β = beta. The ratio is 1 in value, so there is nothing to clip: one update a
    rollout.
    Source: Zhang et al. 2025 (arXiv 2503.12937), StepRAR and StepRVR; survey Table 2 (clip: yes; its code has
    none).
    Differs from GRPO in: reward, surrogate, clipped, beta.
    Departs from the paper: the default judges fit Chain (`match_share` is the paper's matching of synonyms).
    As in the released code, and unlike the paper as it is retold, a wrong answer is paid α k too. beta = 0.04
    is the default of the library that the release built on.
    """

    beta: float = 0.04
    alpha: float = 0.1
    steps: Judge = steps_right
    order: Judge = steps_ordered

    def reward(self, batch: Batch) -> Batch:
        right = batch.success.to(batch.rewards)
        k, v = (judged(batch.episodes, judge).to(right) for judge in (self.steps, self.order))
        return batch.set(rewards=at_end(right + self.alpha * k + v, batch.mask))

    def surrogate(self, scores: Scores, batch: Batch) -> Tensor:
        return -batch.advantages * (scores.logp - scores.logp.detach()).exp()

    def clipped(self, scores: Scores, batch: Batch) -> Tensor:
        return torch.zeros_like(batch.mask, dtype=torch.bool)


# --- other advantages -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EdgeGRPO(GRPO):
    """EDGE-GRPO: failed tries are corrected so that groups differ, and sure answers weigh more.

    Â_i = A_i / P̂_i,   P̂_i = P_i / mean_g P,   P_i = 1/n_i Σ_t m_it H_it
    A failed try becomes, with probability 1/2, itself and a second try behind it; 1/4, itself and the
    expert's answer; 1/4, the expert's answer alone.

    H = batch.entropy (B, T), of the policy before the step's updates; correct False: tries stay as they are.
    Source: Zhang et al. 2025 (arXiv 2507.21848), entropy-driven advantage, guided error correction; survey
    Table 2.
    Differs from GRPO in: plan, advantages, reduce (token mean).
    Departs from the paper: the released code means H over padding too, over all rows on its machines, and
    lets the gradient pass through it; here the mean is masked, per group, and a constant. "Itself and a
    second try" puts the task again behind the failed answer where the release puts a sentence of doubt, and
    does not train the forced words. Records count a corrected try as it ended; a try with the expert's words
    is left out of them.
    """

    correct: bool = True
    needs_entropy = True

    def plan(self, sampler: Sampler) -> list[Episode]:
        tried = super().plan(sampler)
        failed = [i for i, e in enumerate(tried) if self.correct and not e.success]
        fate = sampler.rng.random(len(failed))
        again = [i for i, u in zip(failed, fate) if u < 0.5]
        told = [i for i, u in zip(failed, fate) if u >= 0.5]
        fixed = dict(zip(again, sampler.retry([tried[i] for i in again])))
        for i, e in zip(told, sampler.demonstrate([tried[i].seed for i in told]) if told else []):
            behind = fate[failed.index(i)] < 0.75
            fixed[i] = joined(tried[i], e) if behind else replace(e, group=tried[i].group)
        return [fixed.get(i, e) for i, e in enumerate(tried)]

    def advantages(self, batch: Batch) -> Tensor:
        entropy = ops.row_mean(batch.entropy, batch.mask).clamp(min=ops.EPS)
        return super().advantages(batch) * (ops.group_mean(entropy, batch.group) / entropy)[:, None]

    def reduce(self, x: Tensor, batch: Batch) -> Tensor:
        return ops.token_mean(x, batch.mask)


@dataclass(frozen=True)
class ASPO(GRPO):
    """ASPO: right answers that call a tool early get a bounded bonus in the advantage, not in the reward.

    A′_i = A_i + clip(δ (p_i − mean_E p) / mean_E L, −k|A_i|, k|A_i|) for i in E;   A′_i = A_i otherwise

    E: the rows of the group that are right (batch.success) and call a tool. p_i: sampled tokens before the
    first `call` token, L_i = n_i: sampled tokens of the row. δ = delta < 0 pays for early calls; k = k < 1
    keeps the sign of A.
    Source: Lin & Xu 2025 (arXiv 2508.19201), Eq. 2; survey Table 2.
    Differs from GRPO in: advantages.
    Departs from the paper: nothing known; there is no official code. Not the "ASPO" of arXiv 2510.06062.
    """

    delta: float = -2.0
    k: float = 0.7
    call: str = ACT

    def advantages(self, batch: Batch) -> Tensor:
        token = encode(batch.episodes[0].tokenizer, self.call)[0]
        called = (batch.tokens == token) & (batch.mask > 0)
        before = ((called.cumsum(1) == 0) * batch.mask).sum(1)
        eligible = called.any(1) & batch.success
        adv = ops.group_zscore(batch.reward, batch.group)
        bias = early_bias(before, batch.mask.sum(1), batch.group, eligible, self.delta)
        return ops.per_token(adv + bias.clamp(-self.k * adv.abs(), self.k * adv.abs()), batch.mask)


def early_bias(p: Tensor, length: Tensor, group: Tensor, eligible: Tensor, delta: float) -> Tensor:
    """δ (p − mean_E p) / mean_E L for the eligible rows E of each group, 0 for the others. All (B,)."""
    bias, own = torch.zeros_like(p), group[eligible]
    centred = p[eligible] - ops.group_mean(p[eligible], own)
    bias[eligible] = delta * centred / ops.group_mean(length[eligible], own)
    return bias


@dataclass(frozen=True)
class PassAtK(GRPO):
    """Pass@k training: every k of a prompt's N tries count as one group try that is right if any of them is.

    R̄ = 1 − C(w, k)/C(N, k),   σ = √(R̄ (1 − R̄)),   w = wrong tries
    A = (1 − R̄)/(σ + 1e-6) for a right try,   (1 − R̄ − C(w−1, k−1)/C(N−1, k−1))/(σ + 1e-6) for a wrong one

    k = k; N = tries of the group (a group of N < k takes k = N); right = batch.success. The advantage of a
    try is the mean over all C(N−1, k−1) group tries it is in, in closed form; the advantages of a group sum
    to 0.
    Source: Chen et al. 2025 (arXiv 2508.10751), closed form of the analytical derivation; survey Table 2.
    Differs from GRPO in: advantages. k = 1 is GRPO on success with the population's std (no Bessel).
    Departs from the paper: nothing. verl's `grpo_passk` is another method (arXiv 2503.19595).
    """

    k: int = 4

    def advantages(self, batch: Batch) -> Tensor:
        right = batch.success.to(batch.rewards)
        n = ops.group_size(batch.group).to(right)
        wrong = n * ops.group_mean(1 - right, batch.group)
        none, alone = _all_of(wrong, n, self.k), _all_of(wrong - 1, n - 1, self.k - 1)
        sigma = ((1 - none) * none).sqrt()
        return ops.per_token((none - (1 - right) * alone) / (sigma + ops.EPS), batch.mask)


def _all_of(wrong: Tensor, n: Tensor, k: int) -> Tensor:
    """C(wrong, k)/C(n, k): chance that k tries of n, drawn without return, are all wrong; k is held to n."""
    share = torch.ones_like(n)
    for j in range(k):
        share = torch.where(n > j, share * (wrong.round() - j).clamp(min=0) / (n - j).clamp(min=1), share)
    return share


@dataclass(frozen=True)
class KTAE(GRPO):
    """KTAE: a token's advantage is GRPO's plus how well its presence tells right answers from wrong ones.

    A_it = A_i + w_v,  v = y_it
    w_v = tanh(½ · (h₁F + h₂IG)/(h₁ + h₂) · (h + f₊/(f₋ + 1e-5) − f₋/(f₊ + 1e-5)))

    Of a group, a right and b wrong answers contain token v, c right and d wrong ones do not.
    F = e^{−2p}, p: Fisher's exact test, two-sided (0 where p = 1); IG: information gain in bits;
    h = arcsin√(a/(a+c)) − arcsin√(b/(b+d));   f± = 3q/(q + κ±), q: share of v in the side's tokens,
    κ± = 1 + n±/n̄, n±: tokens of the side, n̄: mean of the two sides. right = batch.success, h₁ = fisher, h₂
    = gain. w = 0 in a group that is all right or all wrong, and for the token that ends an answer.
    Source: Sun et al. 2025 (arXiv 2505.16826), key-token advantage; survey, public list of algorithms.
    Differs from GRPO in: advantages.
    Departs from the paper: Fisher's p is exact. The released code sums it in float32, gets 0.9999999 for 1,
    and so takes F = e^−2 for 0 in many small tables. A token absent on one side saturates (|w| → 1), here as
    there.
    """

    fisher: float = 1.0
    gain: float = 1.0

    def advantages(self, batch: Batch) -> Tensor:
        end = batch.episodes[0].tokenizer.eos_token_id if batch.episodes else None
        extra = torch.zeros_like(batch.rewards)
        for g in batch.group.unique():
            rows = (batch.group == g).nonzero()[:, 0].tolist()
            sampled = [(batch.mask[i] > 0).nonzero()[:, 0] for i in rows]
            said = [batch.tokens[i, at].tolist() for i, at in zip(rows, sampled)]
            weight = key_tokens(said, batch.success[rows].tolist(), self.fisher, self.gain) | {end: 0.0}
            for i, at, tokens in zip(rows, sampled, said):
                extra[i, at] = torch.tensor([weight.get(v, 0.0) for v in tokens]).to(extra)
        return super().advantages(batch) + extra


def key_tokens(
    said: Sequence[Sequence[int]], right: Sequence[bool], fisher: float, gain: float
) -> dict[int, float]:
    """w_v of every token in the answers `said` of one group; empty where all are right or all wrong."""
    sides = [[s for s, r in zip(said, right) if r], [s for s, r in zip(said, right) if not r]]
    if not all(sides) or not any(said):
        return {}
    has = [Counter(v for answer in side for v in set(answer)) for side in sides]
    count = [Counter(v for answer in side for v in answer) for side in sides]
    tokens = [max(1, c.total()) for c in count]
    kappa = [1 + 2 * n / sum(tokens) for n in tokens]
    weights = {}
    for v in set(count[0]) | set(count[1]):
        (a, b), (r, w) = [h[v] for h in has], map(len, sides)
        q = [c[v] / n for c, n in zip(count, tokens)]
        f, g = (3 * x / (x + y) for x, y in zip(q, kappa))
        side = math.asin(math.sqrt(a / r)) - math.asin(math.sqrt(b / w)) + f / (g + 1e-5) - g / (f + 1e-5)
        p = fisher_p(a, b, r, w)
        tells = fisher * (math.exp(-2 * p) if p < 1 else 0.0) + gain * information_gain(a, b, r, w)
        weights[v] = math.tanh(0.5 * tells * side / (fisher + gain))
    return weights


def fisher_p(a: int, b: int, right: int, wrong: int) -> float:
    """Two-sided p of Fisher's exact test for "a of `right` and b of `wrong` have it", in whole numbers."""
    n = a + b
    ways = [
        math.comb(right, x) * math.comb(wrong, n - x) for x in range(max(0, n - wrong), min(n, right) + 1)
    ]
    seen = math.comb(right, a) * math.comb(wrong, b)
    return sum(x for x in ways if x <= seen) / sum(ways)


def information_gain(a: int, b: int, right: int, wrong: int) -> float:
    """Bits that knowing whether an answer has the token saves about whether it is right."""

    def bits(x: int, y: int) -> float:
        return -sum(z / (x + y) * math.log2(z / (x + y)) for z in (x, y) if z)

    n = right + wrong
    return bits(right, wrong) - (a + b) / n * bits(a, b) - (n - a - b) / n * bits(right - a, wrong - b)
