"""Chapter 02, second half: how far a batch carries, a critic warmed up, verdicts, filters, reductions.

The first half, estimates of a policy that stays as it is, is in ch02_estimates.py.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
import torch

from .. import envs, evaluate, ops
from ..algorithms import GRPO, PFPPO, PPO, PSGPO, VAPO, LitePPO, ReinforcePlusPlus
from ..algorithms.base import Algorithm
from ..algorithms.ppo import power
from ..algorithms.rerolls import token_starts
from ..batch import Batch, Episode, collate
from ..envs.base import Env, Reply
from ..imitate import imitate
from ..models.score import score
from ..models.tokenizer import END, THINK_END, encode
from ..rollout import Limits, demonstrate, rollout
from ..train import Record, backward, train
from . import kinds
from .ch02_estimates import CHAIN, HARD, LIMITS, tasks, tries
from .kinds import FRESH_SEEDS, ByReward, Experiment
from .watched import Noted, nothing

WORLD, LONG = envs.Chain((1, 3)), envs.Chain((1, 6))
SPARSE = envs.Chain((2, 3), "chain")  # pays only where every step is written, and right

# --- many passes over one batch ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Passes:
    """Passes over one batch of 32 tasks × 8 tries, four updates each; clip inf: none. After each: how far."""

    clip: float
    passes: int = 12
    lr: float = 5e-4

    def __call__(self, policy, seed: int) -> Iterator[dict]:
        algorithm = ReinforcePlusPlus(baseline=True, clip_low=self.clip, clip_high=self.clip)
        batch = collate(tries(policy, WORLD, seed, 32, 8))
        batch = batch.set(advantages=algorithm.advantages(batch))
        others = collate(tries(policy, WORLD, seed + 500, 32, 8))  # of the same old policy, not trained on
        rng = np.random.default_rng(seed)
        optimizer = torch.optim.AdamW(policy.parameters(), lr=self.lr, weight_decay=0.0)
        for number in range(1, self.passes + 1):
            for part in np.array_split(rng.permutation(len(batch)), 4):
                optimizer.zero_grad(set_to_none=True)
                backward(policy, algorithm, batch.rows(torch.from_numpy(part)))
                torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
                optimizer.step()
            success = evaluate.success(policy, WORLD, limits=LIMITS).mean
            yield {"step": number, **astray(policy, batch, others), "success": success}


@torch.no_grad()
def astray(policy, batch: Batch, others: Batch) -> dict[str, float]:
    """The largest ratio on the batch trained on, and KL(old‖new) a token on other tries of the old policy."""
    ratio = ops.ratio(score(policy, batch).logp, batch.old_logp)[batch.mask > 0]
    kl = ops.kl_k3(others.old_logp, score(policy, others).logp)  # drawn from old: the roles are changed
    return {"max_ratio": float(ratio.max()), "kl": float(ops.token_mean(kl, others.mask))}


# --- a critic that is warmed up ----------------------------------------------------------------------------


@dataclass(frozen=True)
class WarmedUp:
    """VAPO on chains of up to 6 additions: `warm` steps for the critic alone, then 10 updates of the policy.

    error: root of the mean of (V − V*)² before the first token of 32 held-out tasks, V* by 64 tries of the
    policy as it is.
    """

    warm: int

    def __call__(self, policy, seed: int) -> Iterator[dict]:
        settings = CHAIN | {"steps": self.warm + 10, "epochs": 4, "seed": seed}
        run = train(policy, LONG, VAPO(alpha=1.0, critic_steps=self.warm), **settings)
        for _ in range(self.warm):
            next(run)
        for number in range(11):
            yield {"step": number, "error": first_error(policy, run.critic, seed)}
            next(run, None)


@torch.no_grad()
def first_error(policy, critic, seed: int) -> float:
    """See `WarmedUp`."""
    tried = evaluate.episodes(policy, LONG, 32, 64, seed=seed, limits=LIMITS)
    truth = torch.tensor([e.reward for e in tried]).view(32, 64).mean(1)
    first = tried[::64]
    values = score(policy, collate(first), critic).values
    values = values[torch.arange(32), [int(e.mask.argmax()) for e in first]]
    return float((values - truth).square().mean().sqrt())


# --- runs whose records say more ----------------------------------------------------------------------------


def steps_right(record: Record) -> dict[str, float]:
    """Share of the tries that wrote every step and wrote it right, and of PSGPO's verdicts that are right.

    The latter on the tokens of tries that failed; the truth is whether the tokens so far are the expert's.
    """
    told = [e for e in record.episodes if e.verdicts is not None and not e.success]
    agree = [v == u for e in told for v, u in zip(e.verdicts[~np.isnan(e.verdicts)], truth(e), strict=True)]
    right = float(np.mean([e.infos[-1]["steps_right"] for e in record.episodes]))
    return {"steps_right": right} | ({"verdicts_right": float(np.mean(agree))} if agree else {})


def truth(episode: Episode) -> list[int]:
    """1 for each sampled token as long as all are those of the expert, then −1."""
    env = SPARSE.clone()
    env.reset(episode.seed)
    said, best = episode.tokens[episode.mask > 0], encode(episode.tokenizer, env.expert())
    same = np.array([a == b for a, b in zip_longest(said.tolist(), best)][: len(said)])
    return np.where(same.cumprod() > 0, 1, -1).tolist()


class NoisyRewardModel(envs.Chain):
    """A chain judged by a reward model: a score ±c, c in (0, 1), its sign wrong with probability (1 − c)/2.

    c and the mistake depend on task and reply alone. Far from 0 the model can be trusted, near 0 it guesses;
    in all it is wrong in one reply of four. info["success"] tells the truth.
    """

    def reset(self, seed: int) -> str:
        self.seed = seed
        return super().reset(seed)

    def step(self, said: str) -> Reply:
        reply = super().step(said)
        rng = random.Random(f"reward model {self.seed} {said}")
        c, wrong = rng.random(), rng.random()
        sign = 1 if reply.info["success"] else -1
        return Reply(reward=c * (-sign if wrong < (1 - c) / 2 else sign), done=True, info=reply.info)


def labels_right(record: Record) -> dict[str, float]:
    """Share of the rows trained on whose score has the right sign."""
    return {"labels_right": float(np.mean([(e.reward > 0) == e.success for e in record.episodes]))}


class Rambling(envs.Chain):
    """A chain in which the first word behind the steps is the answer, and what follows it is idle talk."""

    def step(self, said: str) -> Reply:
        thought, mark, tail = said.rpartition(THINK_END)
        words = tail.removesuffix(END).split()
        end = END if said.endswith(END) else ""
        reply = super().step(f"{thought}{mark} {words[0] if words else ''}{end}")
        reply.info["talk"] = max(0, len(words) - 1)
        return reply


RAMBLING, TALK = Rambling((2, 3)), Limits(turn_tokens=24, turns=1, total=72)


def ramble(policy) -> None:
    """Teaches a habit, in place: behind the answer ` =`, each with probability 0.6, up to 6 times."""
    rng = random.Random(0)

    def speak(env: envs.Chain) -> str:
        said = env.expert() if env.depth == 1 or rng.random() < 0.3 else env.guess(rng)
        idle = 0
        while idle < 6 and rng.random() < 0.6:
            idle += 1
        return said.removesuffix(END) + " =" * idle + END

    for _ in imitate(policy, demonstrate(policy, Rambling((1, 3)), range(2000), speak), steps=60, lr=1e-3):
        pass


@dataclass(frozen=True)
class Push:
    """What one update on 128 tasks × 8 tries does to idle talk, by algorithm, from a policy that rambles.

    A step of length 0.1 down the loss's gradient; on 4,096 other tries, the change of the mean number of idle
    words to first order, Cov(words, Σ Δ log π) over what stands behind it, in right and in wrong replies.
    """

    def __call__(self, policy, seed: int) -> Iterator[dict]:
        ramble(policy)
        start = [p.detach().clone() for p in policy.parameters()]
        batch = collate(rollout(policy, RAMBLING, tasks(seed, 128), 8, seed=seed, limits=TALK))
        others = collate(rollout(policy, RAMBLING, tasks(seed + 500, 512), 8, seed=seed, limits=TALK))
        words = torch.tensor([float(e.infos[-1]["talk"]) for e in others.episodes])
        behind = others.mask.flip(1).cumsum(1).flip(1) <= words[:, None] + 1  # the idle words and the end
        for algorithm in (GRPO(), LitePPO()):
            policy.zero_grad(set_to_none=True)
            backward(policy, algorithm, batch.set(advantages=algorithm.advantages(batch)))
            norm = torch.stack([p.grad.norm() for p in policy.parameters()]).norm()
            with torch.no_grad():
                for p, at in zip(policy.parameters(), start):
                    p.copy_(at - 0.1 * p.grad / norm)
                moved = ((score(policy, others).logp - others.old_logp) * others.mask * behind).sum(1)
                for p, at in zip(policy.parameters(), start):
                    p.copy_(at)
            found = {f"{name}_grows": float(torch.cov(torch.stack([words, moved])[:, kind])[0, 1])
                     for name, kind in (("right", others.success), ("wrong", ~others.success))}  # fmt: skip
            yield {"by": type(algorithm).__name__, **found, "right": float(others.success.float().mean())}


def measure(policy) -> dict[str, float]:
    """Success on 256 held-out chains, and the share that writes all steps, right, where there are any."""
    hard = evaluate.episodes(policy, HARD, limits=LIMITS)
    return {
        "success": evaluate.success(policy, WORLD, limits=LIMITS).mean,
        "steps_right": float(np.mean([e.infos[-1]["steps_right"] for e in hard])),
    }


def _watched(env: Env, algorithm: Algorithm, watch, **changes) -> Noted:
    return Noted(ByReward(env, algorithm, CHAIN | changes), lambda _, record: watch(record))


NOISY, THREE = NoisyRewardModel((1, 3)), FRESH_SEEDS[:3]
REAL = ByReward(envs.Chain((1, 2)), LitePPO(), kinds.REAL)

EXPERIMENTS = {
    f"02_policy_gradients/{name}": Experiment(about, "chain-atoms", arms, measured, THREE)
    for name, about, arms, measured in (
        ("passes", "Twelve passes over one batch, with PPO's clip and without.",
         {"clip 0.2": Passes(0.2), "no clip": Passes(float("inf"))}, nothing),
        ("warm-up", "VAPO on long chains, with twenty steps for the critic alone and with none.",
         {"warmed up": WarmedUp(20), "not warmed up": WarmedUp(0)}, nothing),
        ("steps", "PPO and PSGPO: how soon all steps are written and right.",
         {"PPO": _watched(SPARSE, PPO(), steps_right),
          "PSGPO": _watched(SPARSE, PSGPO(steps=token_starts, rolls=8), steps_right)}, measure),
        ("filter", "PPO and PF-PPO under a reward model that is wrong in one reply of four.",
         {"PPO": _watched(NOISY, PPO(), labels_right, steps=30, tries=4),
          "best and worst": _watched(NOISY, PFPPO(draws=4), labels_right, steps=30, tries=16),
          "power": _watched(NOISY, PFPPO(draws=4, weigh=power), labels_right, steps=30, tries=16)}, measure),
        ("talk", "What one update of GRPO and of LitePPO does to idle talk behind right and wrong answers.",
         {"measured": Push()}, nothing),
    )
}  # fmt: skip
