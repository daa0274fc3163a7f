"""Chapter 02, first half: estimates of a policy that stays as it is. The second half is in ch02.py.

Gradients by baseline, advantages by λ, values by re-rolls and by a critic: arms that yield rows of numbers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .. import envs, models, ops
from ..algorithms import RLOO
from ..batch import Batch, Episode, collate
from ..envs.base import Env
from ..models.heads import ValueHead
from ..models.score import score
from ..rollout import Limits, branch, rollout
from ..train import train
from .kinds import FRESH_SEEDS, Experiment
from .watched import nothing

LIMITS = Limits(turn_tokens=12, turns=1, total=48)
CHAIN = dict(steps=25, prompts=16, tries=8, lr=1e-3, limits=LIMITS)
HARD = envs.Chain((2, 3))


def tasks(seed: int, n: int) -> list[int]:
    """Seeds of n training tasks."""
    return np.random.default_rng([seed, 2]).integers(2**30, size=n).tolist()


def tries(policy, env: Env, seed: int, n: int, each: int) -> list[Episode]:
    """`each` tries of n training tasks."""
    return rollout(policy, env, tasks(seed, n), each, seed=seed, limits=LIMITS)


def halfway(policy) -> None:
    """Five updates of RLOO, in place: half of the tries are right, and nearly all write their steps."""
    for _ in train(policy, HARD, RLOO(), **CHAIN | {"steps": 5, "seed": 0}):
        pass


@dataclass(frozen=True)
class Critic:
    """A value network of its own: a copy of the policy's trunk, and a head."""

    trunk: models.TinyLM
    head: ValueHead

    def values(self, batch: Batch) -> Tensor:
        """V of the state before each sampled token, (B, T)."""
        return score(self.trunk, batch, self.head).values


def fitted_critic(policy, episodes: Sequence[Episode], steps: int = 100) -> Critic:
    """A critic that learned the returns of these episodes of the policy by squares, 64 of them at a time."""
    critic, rng = Critic(policy.copy(), ValueHead(policy.width)), np.random.default_rng(0)
    weights = [*critic.trunk.parameters(), *critic.head.parameters()]
    optimizer = torch.optim.AdamW(weights, lr=1e-3, weight_decay=0.01)
    for _ in range(steps):
        batch = collate([episodes[i] for i in rng.integers(len(episodes), size=64)])
        off = critic.values(batch) - ops.per_token(batch.reward, batch.mask)
        loss = ops.token_mean(off**2, batch.mask)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return critic


# --- the variance of a gradient, by baseline ---------------------------------------------------------------


def baselines(batch: Batch, critic: Critic) -> dict[str, Tensor]:
    """Weights of each token, (B, T), by what is taken off the reward; "reward + 1": nothing off R + 1."""
    R, mask = batch.reward, batch.mask
    return {
        "none": ops.per_token(R, mask),
        "none, reward + 1": ops.per_token(R + 1, mask),
        "batch mean": ops.per_token(R - R.mean(), mask),
        "leave one out": ops.per_token(ops.group_leave_one_out(R, batch.group), mask),
        "critic": ops.per_token(R, mask) - critic.values(batch).detach() * mask,
    }


def gradient(policy, row: Batch, weights: Tensor) -> Tensor:
    """∇ Σ_t m w ℓ of one row, (P,)."""
    policy.zero_grad(set_to_none=True)
    (score(policy, row).logp * weights * row.mask).sum().backward()
    return torch.cat([p.grad.flatten() for p in policy.parameters()])


@dataclass(frozen=True)
class Scatter:
    """Gradients of `n` tasks × 8 tries of a policy that is not trained: how far they scatter, by baseline.

    trained: the half-trained policy, or the start. trace: E‖g‖² − ‖E g‖². apart: N‖E g − E g₀‖²
    over the trace of g − g₀, g₀ without baseline; about 1 where only chance tells the two means apart. The
    last row has the constant b = E[R‖s‖²] / E[‖s‖²], s = ∇ log π of a try: the best constant there is.
    """

    trained: bool
    n: int = 96

    def __call__(self, policy, seed: int) -> Iterator[dict]:
        if self.trained:
            halfway(policy)
        critic = fitted_critic(policy, tries(policy, HARD, seed + 1000, 1024, 1))
        batch = collate(tries(policy, HARD, seed, self.n, 8))
        weights = baselines(batch, critic)
        best = best_constant(policy, batch)
        weights["best constant"] = ops.per_token(batch.reward - best, batch.mask)
        for name, total in self._sums(policy, batch, weights).items():
            mean, square, apart, apart_square = (x / len(batch) for x in total)
            trace, other = (float(s - m.dot(m)) for m, s in ((mean, square), (apart, apart_square)))
            chance = len(batch) * float(apart.dot(apart)) / other if other > 0 else 0.0
            told = {"success": float(batch.reward.mean()), "best": best}
            yield {"baseline": name, "trace": trace, "apart": chance, **told}

    @staticmethod
    def _sums(policy, batch: Batch, weights: dict[str, Tensor]) -> dict[str, list]:
        """Σ g, Σ‖g‖², Σ (g − g₀), Σ‖g − g₀‖² over the rows, by baseline."""
        sums = {name: [0.0, 0.0, 0.0, 0.0] for name in weights}
        for i in range(len(batch)):
            row = batch.rows(torch.tensor([i]))
            at, plain = int(row.mask.argmax()), gradient(policy, row, row.mask)
            for name, w in weights.items():  # one weight a row, but for the critic's
                g = gradient(policy, row, w[i : i + 1]) if name == "critic" else plain * float(w[i, at])
                base = plain * float(batch.reward[i])
                new = (g, g.dot(g), g - base, (g - base).dot(g - base))
                sums[name] = [a + b for a, b in zip(sums[name], new)]
        return sums


def best_constant(policy, batch: Batch) -> float:
    """E[R‖s‖²] / E[‖s‖²] on the rows of the batch, see `Scatter`."""
    rows = (batch.rows(torch.tensor([i])) for i in range(len(batch)))
    square = torch.stack([gradient(policy, row, row.mask).square().sum() for row in rows])
    return float(batch.reward @ square / square.sum())


# --- GAE against the truth by re-rolls ---------------------------------------------------------------------


@dataclass(frozen=True)
class Advantages:
    """Bias and variance of GAE at `states` states, each with 256 ways on, for a critic at 0 and a fitted one.

    The states: of as many tries, where the policy was least sure what to write: there is a choice to judge.

    Of each action that at least 8 ways begin with: the mean estimate less the mean return after it, less what
    all actions of the state have in common (which a policy gradient does not see): its bias. And the variance
    of its estimates. Both averaged over actions by frequency, then over states.
    """

    states: int = 24
    ways: int = 256

    def __call__(self, policy, seed: int) -> Iterator[dict]:
        halfway(policy)
        fitted = fitted_critic(policy, tries(policy, HARD, seed + 1000, 1024, 1))
        critics = {"at 0": Critic(policy, ValueHead(policy.width)), "fitted": fitted}
        tried = [e for e in tries(policy, HARD, seed, 4 * self.states, 1) if e.mask.sum() > 3][: self.states]
        places = least_sure(policy, tried)
        went = branch(policy, HARD, tried, places, self.ways, seed=seed, limits=LIMITS)
        batch, at = collate(went), torch.tensor(np.repeat(places, self.ways))
        rows = torch.arange(len(batch))
        state, action = batch.group, batch.tokens[rows, at]
        for name, critic in critics.items():
            values = critic.values(batch).detach()
            for lam in (0.0, 0.95, 1.0):
                adv = ops.gae(batch.rewards, values, batch.mask, 1.0, lam)[rows, at]
                yield {"critic": name, "lam": lam, **bias_and_variance(adv, batch.reward, state, action)}


@torch.no_grad()
def least_sure(policy, episodes: Sequence[Episode]) -> list[int]:
    """The position of each episode where its next token was most open, the last two tokens left out."""
    entropy = score(policy, collate(episodes)).entropy
    return [int(np.flatnonzero(e.mask)[:-2][h[e.mask > 0][:-2].argmax()])
            for e, h in zip(episodes, (h[: len(e)].numpy() for e, h in zip(episodes, entropy)))]  # fmt: skip


def bias_and_variance(adv: Tensor, returns: Tensor, state: Tensor, action: Tensor) -> dict[str, float]:
    """Of advantage estimates, see `Advantages`; all (N,). The bias is a root mean square, in rewards."""
    bias, variance = [], []
    for s in state.unique():
        here = state == s
        kept = [a for a in action[here].unique() if int((here & (action == a)).sum()) >= 8]
        ways = [here & (action == a) for a in kept]
        share = torch.tensor([float(w.sum()) for w in ways])
        share /= share.sum()
        off = torch.stack([(adv[w] - returns[w]).mean() for w in ways])
        bias.append(float(share @ (off - share @ off) ** 2))
        variance.append(float(share @ torch.stack([adv[w].var() for w in ways])))
    return {"bias": float(np.mean(bias)) ** 0.5, "variance": float(np.mean(variance))}


# --- values by re-rolls and by a critic -------------------------------------------------------------------


@dataclass(frozen=True)
class Vines:
    """The value of states by 8 re-rolls, and by a critic fitted on as many tokens; V* by 256 re-rolls.

    States: before every sampled token of `episodes` tries of a half-trained policy. error: root of the mean
    of (V̂ − V*)². order: share of neighbouring states of one try whose V* differ by 0.2 or more that V̂ puts
    in the right order. tokens: sampled by the eight re-rolls.
    """

    episodes: int = 32

    def __call__(self, policy, seed: int) -> Iterator[dict]:
        halfway(policy)
        tried = tries(policy, HARD, seed, self.episodes, 1)
        places = [(e, int(p)) for e in tried for p in np.flatnonzero(e.mask)]
        whose, at = [e for e, _ in places], [p for _, p in places]
        truth, _ = rerolled(policy, whose, at, 256, seed)
        rolled, spent = rerolled(policy, whose, at, 8, seed + 1)
        each = np.mean([e.mask.sum() for e in tried])
        critic = fitted_critic(policy, tries(policy, HARD, seed + 1000, round(spent / each), 1))
        values = critic.values(collate(tried)).detach()
        row = torch.tensor(np.repeat(np.arange(len(tried)), [int(e.mask.sum()) for e in tried]))
        guess = torch.full_like(truth, float(truth.mean()))
        judged = {"8 re-rolls": rolled, "critic": values[row, torch.tensor(at)], "one number": guess}
        same = row[1:] == row[:-1]
        for name, V in judged.items():
            step, real = (V[1:] - V[:-1])[same], (truth[1:] - truth[:-1])[same]
            clear = real.abs() >= 0.2
            order = float((step.sign() == real.sign())[clear].float().mean())
            error = float((V - truth).square().mean().sqrt())
            yield {"by": name, "error": error, "order": order, "states": len(at), "tokens": spent}


def rerolled(policy, episodes, at: Sequence[int], n: int, seed: int) -> tuple[Tensor, int]:
    """(mean return of n re-rolls from each place, tokens sampled anew)."""
    again = branch(policy, HARD, episodes, at, n, seed=seed, limits=LIMITS)
    spent = sum(int(e.mask[p:].sum()) for e, p in zip(again, np.repeat(at, n), strict=True))
    return torch.tensor([e.reward for e in again]).view(-1, n).mean(1), spent


EXPERIMENTS = {
    f"02_policy_gradients/{name}": Experiment(about, "chain-atoms", arms, nothing, seeds)
    for name, about, arms, seeds in (
        ("variance", "How far gradients scatter by baseline, before training and half-way through it.",
         {"start": Scatter(False), "half-trained": Scatter(True)}, FRESH_SEEDS[:3]),
        ("gae", "Bias and variance of GAE against 256 re-rolls of each state.", {"measured": Advantages()},
         (13, 14, 15)),  # on 10 to 12 it was found that states picked at random may offer no choice
        ("re-rolls", "States valued by eight re-rolls and by a critic, at equal sampled tokens.",
         {"measured": Vines()}, FRESH_SEEDS[:3]),
    )
}  # fmt: skip
