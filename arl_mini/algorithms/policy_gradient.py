"""REINFORCE, RLOO, REINFORCE++: the log-probability of what was done, weighted by how well it went."""

from dataclasses import dataclass

from torch import Tensor

from .. import ops
from ..batch import Batch
from ..models.score import Scores
from .base import Algorithm
from .ppo import Proximal


@dataclass(frozen=True)
class Reinforce(Algorithm):
    """REINFORCE: weigh each token's log-probability by the return that followed it.

    L = −1/B Σ_i Σ_t m_it ℓ_it (G_it − b),   G_it = Σ_{k≥t} γ^{k−t} r_ik,   b = baseline

    ℓ = scores.logp (B, T), m = batch.mask, r = batch.rewards, γ = gamma (per sampled token). baseline True: b
    is the mean return of the batch's rows (of each row's first sampled token), else 0.
    Source: Williams 1992, Eq. 4; survey Eq. (12).
    Departs from the paper: the batch mean contains the row itself, which shrinks the gradient by 1 − 1/B.
    """

    gamma: float = 1.0
    baseline: bool = False

    def advantages(self, batch: Batch) -> Tensor:
        returns = ops.discount(batch.rewards, batch.mask, self.gamma)
        if not self.baseline:
            return returns
        first = (batch.mask.cumsum(1) == 1) & (batch.mask > 0)
        return (returns - returns[first].mean()) * batch.mask

    def loss(self, scores: Scores, batch: Batch) -> Tensor:
        return ops.sequence_sum(-scores.logp * batch.advantages, batch.mask)


@dataclass(frozen=True)
class RLOO(Reinforce):
    """RLOO: the baseline of a try is the mean reward of the other tries of the same prompt.

    A_i = R_i − 1/(G−1) Σ_{j≠i} R_j,   L = −1/B Σ_i Σ_t m_it ℓ_it A_i

    R = batch.reward (B,), G = tries of a prompt (batch.group). A group of one has A = 0.
    Source: Ahmadian et al. 2024 (arXiv 2402.14740), Eq. 8.
    Differs from Reinforce in: advantages.
    Departs from the paper: no KL inside the reward (add it with `rewards.kl_penalty`).
    """

    def advantages(self, batch: Batch) -> Tensor:
        return ops.per_token(ops.group_leave_one_out(batch.reward, batch.group), batch.mask)


@dataclass(frozen=True)
class ReinforcePlusPlus(Proximal):
    """REINFORCE++: PPO's tricks without a critic; the advantage is normalised over the whole batch.

    A = whiten(G),   G_it = Σ_{k≥t} γ^{k−t} (r_ik − β k1_ik),   L as in PPO without its value part
    baseline:   R_i ← R_i − mean_g R before that

    r = batch.rewards (B, T), whiten = mean 0, variance 1 over all sampled tokens of the batch, g =
    batch.group, γ = gamma (per sampled token); clips, β and its places as in Proximal.
    Source: Hu 2025 (arXiv 2501.03262), its algorithm and, with baseline, REINFORCE++-baseline.
    Differs from Reinforce in: KL in the reward, whitening, ratio with clip, mean over all tokens.
    Departs from the paper: variance with Bessel's correction (verl has it, OpenRLHF not). verl cuts the
    return at observations, so that what is before a tool's answer earns nothing; here, as in OpenRLHF, it
    earns what follows. The baseline variant of OpenRLHF has its KL as a loss: kl_reward=None,
    kl_loss=ops.kl_k2.
    """

    gamma: float = 1.0
    baseline: bool = False

    def advantages(self, batch: Batch) -> Tensor:
        returns = ops.discount(batch.rewards, batch.mask, self.gamma)
        if self.baseline:
            returns = returns - ops.per_token(ops.group_mean(batch.reward, batch.group), batch.mask)
        return ops.whiten(returns, batch.mask)
