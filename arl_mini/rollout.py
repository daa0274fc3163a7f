"""The rollout engine: many episodes at once, each token either sampled or forced, one cache for all.

Every row has a length (tokens known) and a number fed (tokens in the cache). A step feeds each row its next token;
a row that has caught up samples one more. An observation is just tokens appended with mask 0: rows that wait for
theirs go through the same steps while the others sample, or catch up together in one chunk where most wait.
Training sees exactly these ids: nothing is tokenized twice, no mask is rebuilt from text.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from .batch import Episode
from .envs.base import Env, check_reply
from .models.tokenizer import decode, encode


@dataclass(frozen=True)
class Limits:
    """Where a row is cut: sampled tokens of one turn, turns, and tokens in all (prompt included)."""

    turn_tokens: int = 32
    turns: int = 16
    total: int = 512


@dataclass(frozen=True)
class Sampling:
    """The distribution sampled from: softmax(logits / temperature), cut to the top_k likeliest tokens (0: all)
    and to the smallest set with probability top_p. temperature 0 takes the likeliest token."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self):
        if self.temperature < 0 or self.top_k < 0 or not 0 < self.top_p <= 1:
            raise ValueError(f"expected temperature ≥ 0, top_k ≥ 0, 0 < top_p ≤ 1; got {self}")

    def cut(self, logits: Tensor) -> Tensor:
        """Logits (n, vocab) whose softmax is the distribution sampled from; −inf where it is cut."""
        logits = logits.float()
        if self.temperature == 0:
            best = torch.full_like(logits, -torch.inf)
            return best.scatter(1, logits.argmax(1, keepdim=True), 0.0)
        logits = logits / self.temperature if self.temperature != 1 else logits
        if self.top_k:
            kth = logits.topk(min(self.top_k, logits.shape[1]), 1).values[:, -1:]
            logits = logits.masked_fill(logits < kth, -torch.inf)
        if self.top_p < 1:
            order = logits.sort(1, descending=True)
            before = order.values.softmax(1).cumsum(1) - order.values.softmax(1)
            cut = torch.zeros_like(before, dtype=torch.bool).scatter(1, order.indices, before >= self.top_p)
            logits = logits.masked_fill(cut, -torch.inf)
        return logits

    def draw(self, logits: Tensor, uniform: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Tokens (n,) and their log-probabilities (n,), by inverse CDF at one number in (0, 1] a row."""
        probability = self.cut(logits).softmax(1)
        cdf = probability.cumsum(1)
        at = torch.from_numpy(uniform).to(cdf)[:, None] * cdf[:, -1:]
        token = torch.searchsorted(cdf, at).clamp(max=logits.shape[1] - 1)
        return token[:, 0].cpu().numpy(), probability.gather(1, token).log()[:, 0].cpu().numpy()


def rollout(
    policy,
    env: Env,
    seeds: Sequence[int],
    tries: int = 1,
    *,
    seed: int = 0,
    sampling: Sampling = Sampling(),
    limits: Limits = Limits(),
) -> list[Episode]:
    """`tries` episodes of each world seed, all in one ragged batch; the tries of one seed share a group.

    A row's random numbers depend on (seed, world seed, try) alone, so neighbours do not change it.
    """
    rows = [start(policy, env, s, group) for group, s in enumerate(seeds) for _ in range(tries)]
    asked = list(seeds)
    again = [asked[:i].count(s) for i, s in enumerate(asked)]  # a task given twice is tried anew, not repeated
    streams = [(seed, s, n * tries + k) for s, n in zip(asked, again) for k in range(tries)]
    return run(policy, rows, streams, sampling=sampling, limits=limits)


@dataclass
class Row:
    """An episode under way: its world, and the episode so far (prompt, or a prefix to branch from)."""

    env: Env
    episode: Episode

    @property
    def begun(self) -> int:
        """Where the turn under way began: after the last forced token."""
        return int(np.flatnonzero(self.episode.mask == 0)[-1]) + 1


def start(policy, env: Env, seed: int, group: int = 0) -> Row:
    """A row at its prompt."""
    env = env.clone()
    task = env.reset(seed)
    if not isinstance(task, str):
        raise TypeError(f"{type(env).__name__}.reset({seed}) returned {task!r:.80}; expected the task as str")
    ids = np.array(encode(policy.tokenizer, policy.format.prompt(task, env.render_chat())))
    zeros = np.zeros(len(ids), np.float32)
    episode = Episode(
        ids, zeros, np.full(len(ids), -1), zeros, zeros, seed=seed, group=group, tokenizer=policy.tokenizer
    )
    return Row(env, episode)


def fork(env: Env, episode: Episode, position: int, heard: Callable[[str], str] = str) -> Row:
    """A row back just before a sampled token of an episode, in mid-turn too; that token will be sampled anew.

    The world is brought there by repeating what was said in the turns before; the prefix keeps its log-probabilities.
    heard: what the world hears of a turn, `policy.format.heard` for a chat model.
    """
    if not 0 <= position < len(episode) or episode.mask[position] == 0:
        raise ValueError(
            f"position {position} of {len(episode)} is no sampled token; hint: an episode goes on where mask is 1, "
            "after an observation that is the first token of the next turn"
        )
    turn = int(episode.turn[position])
    env = env.clone()
    env.reset(episode.seed)
    for earlier in range(turn):
        env.step(heard(episode.said(earlier)))
    kept = {k: getattr(episode, k)[:position] for k in ("tokens", "mask", "turn", "logp", "rewards")}
    return Row(env, replace(episode, **kept, infos=episode.infos[:turn], terminated=False, truncated=False))


def rewind(env: Env, episode: Episode, turn: int, heard: Callable[[str], str] = str) -> Row:
    """A row back where a turn of an episode began."""
    if not 0 <= turn < episode.turns:
        raise ValueError(f"expected a turn from 0 to {episode.turns - 1}, got {turn}")
    return fork(env, episode, int(np.argmax(episode.turn == turn)), heard)


def branch(
    policy,
    env: Env,
    episodes: Sequence[Episode],
    positions: Sequence[int],
    tries: int = 1,
    *,
    seed: int = 0,
    sampling: Sampling = Sampling(),
    limits: Limits = Limits(),
) -> list[Episode]:
    """`tries` episodes that go on from each prefix `episodes[i].tokens[:positions[i]]`, in one ragged batch.

    All tries of prefix i come together, prefix by prefix, and have group i. Random numbers depend on (seed, i, try).
    Tokens of the prefix stay as they are, sampled ones with the log-probabilities they were sampled with.
    """
    if len(episodes) == 0:
        return []
    rows = []
    for i, (episode, position) in enumerate(zip(episodes, positions, strict=True)):
        back = fork(env, replace(episode, group=i), position, policy.format.heard)
        rows += [Row(back.env.clone(), back.episode) for _ in range(tries)]
    streams = [(seed, i, k) for i in range(len(episodes)) for k in range(tries)]
    return run(policy, rows, streams, sampling=sampling, limits=limits)


@torch.inference_mode()
def run(
    policy, rows: Sequence[Row], streams: Sequence[tuple[int, ...]], *, sampling: Sampling, limits: Limits
) -> list[Episode]:
    """Runs rows to their ends. streams: one tuple of integers a row, the seed of its random numbers."""
    if not rows:
        raise ValueError("no rows to run; hint: is the list of seeds empty?")
    table = _Table(policy, rows, streams, sampling, limits)
    cache, logits = _prefill(policy, rows)
    slots = np.arange(len(rows))  # cache row → table row
    ready = slots
    while True:
        table.sample(ready, logits)
        live = ~table.over[slots]
        if not live.any():
            return table.episodes()
        if live.mean() <= 0.875:  # finished rows leave the batch
            cache.select(_to(policy, live.nonzero()[0]))
            slots = slots[live]
            live = live[live]
        gap = np.where(live, table.length[slots] - table.fed[slots], 0)  # tokens known but not fed
        chunk = (gap > 1).sum() >= max(1, live.sum() // 2)
        at = (gap > 1).nonzero()[0] if chunk else np.arange(len(slots))
        count = gap[at] if chunk else np.minimum(gap, 1)
        where = table.fed[slots[at], None] + np.arange(count.max())
        tokens = table.tokens[slots[at, None], np.minimum(where, table.tokens.shape[1] - 1)]
        full = bool((count == count.max()).all())
        logits = policy.advance(
            _to(policy, tokens),
            None if full else _to(policy, count),
            cache,
            None if len(at) == len(slots) else _to(policy, at),
        )
        table.fed[slots[at]] += count
        caught = (table.fed[slots[at]] == table.length[slots[at]]) & (count > 0)
        ready, logits = slots[at[caught]], logits if caught.all() else logits[_to(policy, caught)]


def _to(policy, array: np.ndarray) -> Tensor:
    return torch.from_numpy(array).to(policy.device)


def _prefill(policy, rows: Sequence[Row]):
    """A cache that holds every row's prefix, and the logits after it; equal prefixes are computed once."""
    place: dict[bytes, int] = {}
    index = [place.setdefault(row.episode.tokens.tobytes(), len(place)) for row in rows]
    prefixes = [np.frombuffer(key, np.int64) for key in place]
    counts = np.array([len(p) for p in prefixes])
    tokens = np.zeros((len(prefixes), counts.max()), np.int64)
    for row, prefix in zip(tokens, prefixes):
        row[: len(prefix)] = prefix
    cache = policy.cache(len(prefixes))
    logits = policy.advance(_to(policy, tokens), _to(policy, counts), cache, None)
    if len(prefixes) < len(rows) or index != list(range(len(rows))):
        cache.select(_to(policy, np.array(index)))
        logits = logits[_to(policy, np.array(index))]
    return cache, logits


class _Table:
    """The state of all rows as arrays (rows, room), so that a step costs no Python loop over rows."""

    def __init__(self, policy, rows, streams, sampling: Sampling, limits: Limits):
        self.policy, self.rows, self.sampling, self.limits = policy, rows, sampling, limits
        self.stops = np.array([encode(policy.tokenizer, s)[0] for s in policy.format.stops], np.int64)
        n, room = len(rows), max(limits.total, max(len(r.episode) for r in rows)) + 1
        self.tokens = np.zeros((n, room), np.int64)
        self.mask, self.logp, self.rewards = (np.zeros((n, room), np.float32) for _ in range(3))
        self.turn = np.full((n, room), -1)
        self.length = np.array([len(r.episode) for r in rows])
        self.fed = self.length.copy()
        self.begun = np.array([r.begun for r in rows])  # where the turn being sampled began
        self.now = np.array([r.episode.turns for r in rows]) - (self.begun < self.length)  # its number
        for i, row in enumerate(rows):
            for name in ("tokens", "mask", "logp", "rewards", "turn"):
                getattr(self, name)[i, : self.length[i]] = getattr(row.episode, name)
        self.over = np.zeros(n, bool)
        self.terminated, self.truncated = np.zeros(n, bool), np.zeros(n, bool)
        self.infos: list[list[dict]] = [list(r.episode.infos) for r in rows]
        self.uniform = np.stack(
            [1 - np.random.default_rng([x % 2**63 for x in s]).random(room, np.float32) for s in streams]
        )

    def sample(self, ready: np.ndarray, logits: Tensor) -> None:
        """One more token for each row of `ready` (n,), whose next-token logits are given (n, vocab)."""
        if len(ready) == 0:
            return
        at = self.length[ready]
        token, logp = self.sampling.draw(logits, self.uniform[ready, at])
        self.tokens[ready, at], self.logp[ready, at] = token, logp
        self.mask[ready, at], self.turn[ready, at] = 1, self.now[ready]
        self.length[ready] = at + 1
        stopped = (token[:, None] == self.stops).any(1)
        stopped |= self.length[ready] - self.begun[ready] >= self.limits.turn_tokens
        full = self.length[ready] >= self.limits.total
        for i in ready[stopped]:
            self._answer(i)
        cut = ready[full & ~stopped]
        self.over[cut] = self.truncated[cut] = True

    def _answer(self, i: int) -> None:
        """The world answers the turn that row i just ended; its reply is forced, or the row ends."""
        env, length = self.rows[i].env, self.length[i]
        said = decode(self.policy.tokenizer, self.tokens[i, self.begun[i] : length].tolist())
        said = self.policy.format.heard(said)
        reply = check_reply(env.step(said), env, said)
        self.rewards[i, length - 1] = reply.reward
        self.infos[i].append(reply.info)
        whole = bool((self.tokens[i, length - 1] == self.stops).any())  # not cut at turn_tokens
        forced = encode(self.policy.tokenizer, self.policy.format.observation(reply.text, whole))
        end = length + len(forced)
        cut = self.now[i] + 1 >= self.limits.turns or end >= self.limits.total
        self.terminated[i] = reply.done and whole
        self.truncated[i] = not self.terminated[i] and (reply.done or reply.truncated or cut)
        self.over[i] = self.terminated[i] or self.truncated[i]
        if not self.over[i]:
            self.tokens[i, length:end] = forced
            self.turn[i, length:end] = self.now[i]
            self.length[i] = self.begun[i] = end
            self.now[i] += 1

    def episodes(self) -> list[Episode]:
        """What happened, as plain episodes."""
        done = []
        for i, row in enumerate(self.rows):
            cut = {
                k: getattr(self, k)[i, : self.length[i]].copy()
                for k in ("tokens", "mask", "turn", "logp", "rewards")
            }
            infos = self.infos[i]
            success = bool(infos and infos[-1].get("success", cut["rewards"].sum() > 0))
            done.append(
                Episode(
                    **cut, seed=row.episode.seed, group=row.episode.group, infos=infos, success=success,
                    terminated=bool(self.terminated[i]), truncated=bool(self.truncated[i]),
                    temperature=self.sampling.temperature, tokenizer=self.policy.tokenizer,
                    full_support=self.sampling.top_k == 0 and self.sampling.top_p == 1,
                )
            )  # fmt: skip
        return done


def demonstrate(policy, env: Env, seeds: Sequence[int], speak, turns: int = 16) -> list[Episode]:
    """Episodes in which `speak(env) → said` acts instead of the policy, with the tokens the engine would have used.

    mask is 1 on what was said, logp 0 (nobody sampled). For imitation, expert rows and tests.
    """
    episodes = []
    for group, seed in enumerate(seeds):
        row = start(policy, env, seed, group)
        parts = [(row.episode.tokens.tolist(), 0, -1, 0.0)]
        infos, reply = [], None
        for turn in range(turns):
            said = speak(row.env)
            reply = check_reply(row.env.step(said), row.env, said)
            parts.append((encode(policy.tokenizer, said), 1, turn, reply.reward))
            infos.append(reply.info)
            if reply.done or reply.truncated:
                break
            parts.append((encode(policy.tokenizer, policy.format.observation(reply.text)), 0, turn, 0.0))
        tokens = np.concatenate([np.array(ids, np.int64) for ids, *_ in parts])
        sizes = [len(ids) for ids, *_ in parts]
        mask, turn, reward = (np.repeat([p[k] for p in parts], sizes) for k in (1, 2, 3))
        last = np.isin(np.arange(len(tokens)), np.cumsum(sizes) - 1)
        episodes.append(
            Episode(
                tokens, mask.astype(np.float32), turn, np.zeros(len(tokens), np.float32),
                (reward * last).astype(np.float32), seed=seed, group=group, infos=infos,
                terminated=reply.done, truncated=not reply.done, tokenizer=policy.tokenizer,
                success=bool(infos[-1].get("success", reward.sum() > 0)),
            )
        )  # fmt: skip
    return episodes
