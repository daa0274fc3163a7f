"""Episodes of several contexts: each is a row of its own, and all of them share the reward of their episode.

A world says where a context ends: a reply with `info["fresh"]`, a text, is the last of its context, and the
next context shows that text alone. What the policy should still know then must stand in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from ... import ops
from ...algorithms.base import Sampler
from ...algorithms.grpo import GRPO
from ...batch import Batch, Episode
from ...envs.base import Env, Reply, check_reply
from ...models.tokenizer import encode
from ...rollout import Limits, Row, Sampling, run, start

CONTEXT = Limits(turn_tokens=16, turns=16, total=64)  # of one context


class _OneContext(Env):
    """A world whose row ends where its context does."""

    def __init__(self, env: Env):
        self.env = env

    def reset(self, seed: int) -> str:
        return self.env.reset(seed)

    def render_chat(self) -> str:
        return self.env.render_chat()

    def step(self, said: str) -> Reply:
        reply = check_reply(self.env.step(said), self.env, said)
        return replace(reply, truncated=reply.truncated or "fresh" in reply.info)


def contexts(
    policy, env: Env, seeds: Sequence[int], tries: int = 1, *,
    seed: int = 0, sampling: Sampling = Sampling(), limits: Limits = CONTEXT,
) -> list[list[Episode]]:  # fmt: skip
    """`tries` episodes of each world seed, each as the list of its contexts; a round of contexts is one
    batch.

    limits hold for each context. A context keeps the rewards paid in it, and has the group of its task.
    Random numbers depend on (seed, world seed, try, number of the context). Where `limits` end a context
    before the world does, the episode ends.
    """
    rows = [start(policy, _OneContext(env), s, group) for group, s in enumerate(seeds) for _ in range(tries)]
    streams = [(seed, s, k) for s in seeds for k in range(tries)]
    parts: list[list[Episode]] = [[] for _ in rows]
    live = list(range(len(rows)))
    while live:
        numbered = [(*streams[i], len(parts[i])) for i in live]
        made = run(policy, [rows[i] for i in live], numbered, sampling=sampling, limits=limits)
        for i, episode in zip(live, made):
            text = episode.infos[-1].get("fresh") if episode.infos else None
            parts[i].append(episode if text is None else replace(episode, truncated=False))
            rows[i] = None if text is None else Row(rows[i].env, _shows(policy, env, episode, text))
        live = [i for i in live if rows[i] is not None]
    return parts


def _shows(policy, env: Env, before: Episode, text: str) -> Episode:
    """The prompt of the next context."""
    ids = np.array(encode(policy.tokenizer, policy.format.prompt(text, env.render_chat())))
    zeros = np.zeros(len(ids), np.float32)
    known = {"seed": before.seed, "group": before.group, "tokenizer": policy.tokenizer}
    return Episode(ids, zeros, np.full(len(ids), -1), zeros, zeros, **known)


def shared(parts: Sequence[Sequence[Episode]]) -> list[Episode]:
    """All contexts as rows: each gets the whole reward of its episode, at its last sampled token, and its
    outcome.

    A row's weight is 1/(contexts of its episode), so the weights of an episode sum to one. path: (number of
    the episode,).
    """
    rows = []
    for number, episode in enumerate(parts):
        reward, last = sum(part.reward for part in episode), episode[-1]
        for part in episode:
            paid = np.zeros_like(part.rewards)
            paid[np.flatnonzero(part.mask)[-1]] = reward
            whole = {"success": last.success, "weight": 1 / len(episode), "path": (number,)}
            rows.append(replace(part, rewards=paid, **whole))
    return rows


@dataclass(frozen=True)
class SharedGRPO(GRPO):
    """GRPO for episodes of several contexts: every token of all contexts gets the episode's advantage.

    A_i = (R_i − mean_g R) / (std_g R + 1e-6) over the *episodes* i of a group,   A_ic = A_i · B/(N K_i)
    L = 1/B Σ_i Σ_c 1/n_ic Σ_t m_ict max(−A_ic r_ict, −A_ic clip(r_ict, 1−ε, 1+ε))

    K_i contexts c of episode i (batch.weight = 1/K_i), B = Σ_i K_i rows, N episodes. So an episode weighs the
    same however many contexts it took. policy, env: what is run; they must be those of the run. limits: of
    one context.
    Source: Yu et al. 2025 (MemAgent, arXiv 2507.02259), Multi-Conv DAPO: every conversation of a sample gets
    the advantage of its last one.
    Differs from GRPO in: plan, advantages.
    Departs from the paper: it takes the mean over all tokens of a group; here contexts of an episode share
    one weight.
    """

    policy: object = None
    env: Env | None = None
    limits: Limits = CONTEXT

    def plan(self, sampler: Sampler) -> list[Episode]:
        seeds, seed = sampler.fresh(sampler.prompts), int(sampler.rng.integers(2**62))
        return shared(contexts(self.policy, self.env, seeds, sampler.tries, seed=seed, limits=self.limits))

    def advantages(self, batch: Batch) -> Tensor:
        weight, share = batch.weight, ops.group_mean(batch.weight, batch.group)
        n = share * ops.group_size(batch.group)  # episodes of the group
        off = batch.reward - ops.group_mean(weight * batch.reward, batch.group) / share
        variance = ops.group_mean(weight * off**2, batch.group) / share * n / (n - 1).clamp(min=1e-6)
        same = ~ops.group_signal(batch.reward, batch.group)
        adv = (off / (variance.sqrt() + ops.EPS)).masked_fill(same, 0.0)
        return ops.per_token(adv * weight / weight.mean(), batch.mask)
