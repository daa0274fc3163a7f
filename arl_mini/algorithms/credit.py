"""Credit over many turns: which turn of an episode earned what. Everything here works on `batch.turn`."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch
from torch import Tensor

from .. import ops
from ..batch import Batch, Episode
from ..models.score import Scores
from .grpo import GRPO

# --- numbers a turn: (B, K), K the most turns of a row ----------------------------------------------------


def turn_sums(x: Tensor, mask: Tensor, turn: Tensor) -> Tensor:
    """Σ m·x over the tokens of each turn, (B, K); 0 for turns that a row has not."""
    turns = max(int(turn.max()) + 1, 1)
    return x.new_zeros(len(x), turns).scatter_add(1, turn.clamp(min=0), x * mask)


def over_tokens(x: Tensor, mask: Tensor, turn: Tensor) -> Tensor:
    """One number a turn (B, K) to the sampled tokens of that turn, (B, T)."""
    return x.gather(1, turn.clamp(min=0)) * mask


def turn_ends(mask: Tensor, turn: Tensor) -> Tensor:
    """(B, T) 1 at the last sampled token of each turn, else 0."""
    ends = torch.zeros_like(mask)
    for k in range(int(turn.max()) + 1):
        here = mask * (turn == k)
        ends += here * (here.cumsum(1) == here.sum(1, keepdim=True))
    return ends


def returns_to_go(rewards: Tensor, gamma: float) -> Tensor:
    """Σ_{j≥k} γ^{j−k} r_j of each turn's reward, (B, K)."""
    returns = rewards.clone()
    for k in reversed(range(rewards.shape[1] - 1)):
        returns[:, k] += gamma * returns[:, k + 1]
    return returns


def fined(batch: Batch, fine: float) -> Batch:
    """The batch with `fine` taken from the reward of each malformed turn, at its last sampled token."""
    bad = torch.zeros_like(batch.rewards)
    turns = int(batch.turn.max()) + 1
    for row, episode in zip(bad, batch.episodes):
        for k, info in enumerate(episode.infos[:turns]):
            row[k] = float(bool(info.get("malformed")))
    cost = fine * over_tokens(bad, batch.mask, batch.turn) * turn_ends(batch.mask, batch.turn)
    return batch.set(rewards=batch.rewards - cost)


def bilevel_gae(
    rewards: Tensor, values: Tensor, mask: Tensor, turn: Tensor, gamma: float, lam: float, gamma_turn: float
) -> Tensor:
    """GAE over the ends of turns, then inside each turn towards its end, (B, T); 0 at forced tokens.

    Turn level, over the last sampled tokens e_1 … e_K: δ_k = r_{e_k} + γ_h V_{e_{k+1}} − V_{e_k},
    A_{e_k} = δ_k + γ_h λ A_{e_{k+1}}. Token level: r̂_{e_k} = A_{e_k} + V_{e_k}, then GAE with γ, λ that ends
    at e_k. gamma_turn γ_h; rewards, values, mask: (B, T); turn (B, T) long.
    Source: Wang et al. 2025 (arXiv 2504.20073), bi-level GAE. The released code takes every token with a
    reward for the end of a turn, so a turn that earns 0 melts into the next; here `turn` says where turns
    end.
    """
    ends = turn_ends(mask, turn)
    high = ops.gae(rewards * ends, values, ends, gamma_turn, lam)
    paid = torch.where(ends > 0, high + values, rewards)
    parts = [mask * (turn == k) for k in range(int(turn.max()) + 1)]
    return sum((ops.gae(paid * m, values, m, gamma, lam) for m in parts), torch.zeros_like(rewards))


# --- algorithms -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StarPO(GRPO):
    """StarPO: the whole multi-turn trajectory, thoughts and actions, is the unit that GRPO compares.

    R_i = Σ_k r_ik − φ #malformed,   A_i = (R_i − mean_g R) / (std_g R + 1e-6)
    L = 1/B Σ_i 1/n_i Σ_t m_it [ max(−A_it r_it, −A_it clip(r_it, 1−ε, 1+ε)) + β k1_it ],  k1 = ℓ − ℓ_ref

    r_ik = what turn k was paid, φ = fine, m = 0 at observations, β = beta. bilevel True: A = whitened
    bi-level GAE with γ = gamma, λ = lam, γ_h = gamma_turn, and a critic that learns ½ (V − A − V_old)², a
    token mean.
    Source: Wang et al. 2025 (arXiv 2504.20073), StarPO and bi-level GAE; survey Table 2.
    Differs from GRPO in: reward (fine), loss (k1), advantages and critic where bilevel.
    Departs from the paper: no entropy bonus (0.001 there; entropies carry no gradient here). On-policy the
    expected gradient of k1 is 0, so β shifts the value and adds noise, as in the release.
    """

    beta: float = 0.001
    fine: float = 0.1
    bilevel: bool = False
    gamma: float = 1.0
    lam: float = 1.0
    gamma_turn: float = 0.95

    @property
    def needs_critic(self) -> bool:
        return self.bilevel

    def reward(self, batch: Batch) -> Batch:
        return fined(batch, self.fine)

    def gae(self, batch: Batch) -> Tensor:
        """(B, T) bi-level advantages before whitening, from the critic as it was when the step began."""
        known = batch.rewards, batch.values, batch.mask, batch.turn
        return bilevel_gae(*known, self.gamma, self.lam, self.gamma_turn)

    def advantages(self, batch: Batch) -> Tensor:
        return ops.whiten(self.gae(batch), batch.mask) if self.bilevel else super().advantages(batch)

    def loss(self, scores: Scores, batch: Batch) -> Tensor:
        x = self.surrogate(scores, batch)
        if self.beta:
            x = x + self.beta * ops.kl_k1(scores.logp, batch.ref_logp)
        loss = self.reduce(x, batch)
        if self.bilevel:
            target = self.gae(batch) + batch.values
            loss = loss + ops.token_mean(0.5 * (scores.values - target) ** 2, batch.mask)
        return loss


@dataclass(frozen=True)
class StarPOS(StarPO):
    """StarPO-S: of all tasks, train on the share whose tries differ most in reward; no KL, higher clip.

    U_g = std_g R;   keep the ⌊p P⌋ groups with the largest U (at least one), P = groups of the batch

    p = share. All else as in StarPO.
    Source: Wang et al. 2025 (arXiv 2504.20073), StarPO-S; p = 0.25 in its scripts.
    Differs from StarPO in: keep, beta, clip_high.
    Departs from the paper: without a critic unless bilevel is set (its best runs have one).
    """

    beta: float = 0.0
    clip_high: float = 0.28
    share: float = 0.25

    def keep(self, batch: Batch) -> Tensor:
        groups = batch.group.unique()
        spread = ops.group_std(batch.reward, batch.group)
        each = torch.stack([spread[batch.group == g][0] for g in groups])
        best = each.argsort(descending=True, stable=True)[: max(1, int(self.share * len(groups)))]
        return torch.isin(batch.group, groups[best])


State = Callable[[Episode, int], Hashable]


def observation(episode: Episode, turn: int) -> Hashable:
    """What was shown last before a turn: its tokens, the prompt's for the first turn."""
    shown = (episode.turn == turn - 1) & (episode.mask == 0)
    return tuple(episode.tokens[shown].tolist())


@dataclass(frozen=True)
class GiGPO(GRPO):
    """GiGPO: beside whole tries, compare all turns that the tries of a task took from the same state.

    A_it = A^E_i + ω A^S_ik for the tokens t of turn k,   A^E = (R_i − mean_g R)/F
    G_ik = Σ_{j≥k} γ^{j−k} r_ij,   A^S_ik = (G_ik − mean_S G)/F over the turns S of the group with state s_ik

    F = std + 1e-6, or 1 where std is False; ω = omega, γ = gamma a turn; s_ik = state(episode, k), hashable:
    by default what was shown last. A malformed turn is paid `fine` less. β = beta.
    Source: Feng et al. 2025 (arXiv 2505.10978), Eq. 3 to 8; survey, agent papers.
    Differs from GRPO in: advantages, reward (fine), reduce (token mean), beta.
    Departs from the paper: nothing in the advantages. The released code takes A^E's mean and std over turns,
    so that long tries count more, unless told otherwise; and its group of one keeps its raw score in A^E.
    """

    beta: float = 0.01
    omega: float = 1.0
    gamma: float = 0.95
    std: bool = True
    fine: float = 0.1
    state: State = observation

    def reward(self, batch: Batch) -> Batch:
        return fined(batch, self.fine)

    def advantages(self, batch: Batch) -> Tensor:
        normal = ops.group_zscore if self.std else ops.group_center
        whole = ops.per_token(normal(batch.reward, batch.group), batch.mask)
        paid = returns_to_go(turn_sums(batch.rewards, batch.mask, batch.turn), self.gamma)
        taken = turn_sums(batch.mask, batch.mask, batch.turn) > 0
        ids: dict[Hashable, int] = {}
        places = taken.nonzero().tolist()
        keys = [(int(batch.group[i]), self.state(batch.episodes[i], k)) for i, k in places]
        anchor = torch.tensor([ids.setdefault(key, len(ids)) for key in keys], device=paid.device)
        step = torch.zeros_like(paid)
        step[taken] = normal(paid[taken], anchor)
        return whole + self.omega * over_tokens(step, batch.mask, batch.turn)

    def reduce(self, x: Tensor, batch: Batch) -> Tensor:
        return ops.token_mean(x, batch.mask)


def sound(episode: Episode, turn: int) -> float:
    """1.0 for a turn that the world could carry out, 0.0 for a malformed or an illegal one."""
    info = episode.infos[turn]
    return 0.0 if info.get("malformed") or info.get("illegal") else 1.0


@dataclass(frozen=True)
class TurnGRPO(GRPO):
    """MT-GRPO: a turn before the last is credited with its own result beside the outcome.

    A_it = A^O_i + λ A^T_ik for tokens of turn k before row i's last,   A^O_i for those of its last turn
    A^C_i for all tokens of a row with one turn

    A^T, A^O, A^C: z-scores over the group of the reward of turn k (0 where k is the last or missing), of the
    last turn, and of their sum; λ = coef. judge(episode, k) is paid at the end of each turn before the last,
    on top of the world's reward.
    Source: Zeng et al. 2025 (arXiv 2505.11821), MT-GRPO; not a row of the survey's table.
    Differs from GRPO in: reward (judge), advantages, reduce (token mean).
    Departs from the paper: it has one tool turn and an answer; with more turns each is compared with the
    turns of the same number. Its ε in the z-score is 1e-4.
    """

    coef: float = 1.0
    judge: Callable[[Episode, int], float] = sound

    def reward(self, batch: Batch) -> Batch:
        paid = torch.zeros_like(turn_sums(batch.rewards, batch.mask, batch.turn))
        for row, episode in zip(paid, batch.episodes):
            for k in range(episode.turns - 1):
                row[k] = self.judge(episode, k)
        extra = over_tokens(paid, batch.mask, batch.turn) * turn_ends(batch.mask, batch.turn)
        return batch.set(rewards=batch.rewards + extra)

    def advantages(self, batch: Batch) -> Tensor:
        paid = turn_sums(batch.rewards, batch.mask, batch.turn)
        final = last_turn(batch.mask, batch.turn)
        early = paid * (torch.arange(paid.shape[1], device=paid.device) < final[:, None])
        outcome = ops.group_zscore(paid.gather(1, final[:, None])[:, 0], batch.group)
        turns = torch.stack([ops.group_zscore(x, batch.group) for x in early.T], 1)
        whole = ops.group_zscore(batch.reward, batch.group)
        return turn_split(turns, outcome, whole, batch.mask, batch.turn, self.coef)

    def reduce(self, x: Tensor, batch: Batch) -> Tensor:
        return ops.token_mean(x, batch.mask)


def last_turn(mask: Tensor, turn: Tensor) -> Tensor:
    """The number of each row's last turn with sampled tokens, (B,) long."""
    return torch.where(mask > 0, turn, 0).amax(1)


def turn_split(
    turns: Tensor, outcome: Tensor, whole: Tensor, mask: Tensor, turn: Tensor, coef: float
) -> Tensor:
    """outcome + coef · turns before a row's last turn, outcome in it; whole in a row of one turn. (B, T).

    turns: (B, K); outcome, whole: (B,).
    """
    final = last_turn(mask, turn)[:, None]
    split = outcome[:, None] + coef * over_tokens(turns, mask, turn) * (turn < final)
    return torch.where(final > 0, split, whole[:, None]) * mask
