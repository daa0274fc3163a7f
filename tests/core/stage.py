"""Worlds and policies for the tests of engine and training: a talkative world, a random policy, a scripted one."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from arl_mini.envs import Env, Reply, act, malformed, parse_act
from arl_mini.models import TINY, TinyConfig, TinyLM
from arl_mini.models.tokenizer import ACT_END, END, build, decode, encode
from arl_mini.rollout import Limits, Sampling

WORDS = " red green blue one two key door take open"


class Talk(Env):
    """Answers with 0 to `longest` words (some unknown to the tokenizer); ends after 1 to `turns` turns.

    Texts depend on seed and turn number, rewards on the length of what was said too; they are multiples of 1/4,
    exact in float32.
    """

    words = WORDS + " error say act"

    def __init__(self, turns: int = 4, longest: int = 12):
        self.turns, self.longest = turns, longest

    def reset(self, seed: int) -> str:
        self.rng = random.Random(f"talk {seed}")
        self.left, self.heard = self.rng.randint(1, self.turns), []
        return self._words(1)

    def _words(self, least: int) -> str:
        count = self.rng.choice([least, self.rng.randint(least, self.longest)])
        return "".join(self.rng.choice([" red", " key", " 7", " zebra", "é", "\n"]) for _ in range(count))

    def step(self, said: str) -> Reply:
        self.heard.append(said)
        self.left -= 1
        text, reward = self._words(0), (self.rng.randint(-4, 2) + len(said) % 3) / 4
        info = {"malformed": parse_act(said) is None}
        if self.left == 0:
            return Reply(text, reward, done=True, info=info | {"success": reward > 0})
        return Reply(text, reward, truncated=self.rng.random() < 0.05, info=info)

    def expert(self) -> str:
        return act("take key")


class Echo(Env):
    """Says ` red` after each turn and keeps what it heard; done after `turns` turns, or cut by itself after `cut`."""

    words = WORDS + " error say act"

    def __init__(self, turns: int = 3, cut: int = 0, heard: list | None = None):
        self.turns, self.cut, self.heard = turns, cut, [] if heard is None else heard

    def __deepcopy__(self, memo):
        return Echo(self.turns, self.cut, self.heard)  # all copies write to one list, for the test to read

    def reset(self, seed: int) -> str:
        self.now = 0
        return f" {seed % 10} door"

    def step(self, said: str) -> Reply:
        self.heard.append(said)
        self.now += 1
        done = self.now >= self.turns
        info = {"success": done}
        if parse_act(said) is None and not said.endswith(END):
            return malformed("say act") if not done else Reply(done=True, info=info | {"malformed": True})
        return Reply(" red", float(self.now), done, self.now == self.cut and not done, info)

    def expert(self) -> str:
        return act("take key")


class Bandit(Env):
    """One turn; the reward is 1 for `red` before the end."""

    words = WORDS

    def reset(self, seed: int) -> str:
        return " one"

    def step(self, said: str) -> Reply:
        right = said.startswith(" red")
        return Reply(reward=float(right), done=True, info={"success": right})

    def expert(self) -> str:
        return f" red{END}"


TOKENIZER = build(Talk.words)


def token(text: str) -> int:
    """The one id of a text."""
    (one,) = encode(TOKENIZER, text)
    return one


def chatty(seed: int = 0, stops: float = 2.0, sharp: float = 3.0, size: dict | None = None) -> TinyLM:
    """A random policy that ends a turn now and then: `sharp` scales its logits, `stops` lifts those of the end tokens.

    All tokens share one large coordinate of their embedding; end tokens have more of it.
    """
    shape = size or dict(width=32, layers=2, heads=2, hidden=48)
    policy = TinyLM(TinyConfig(len(TOKENIZER), **shape), TOKENIZER, seed)
    with torch.no_grad():
        policy.embed.mul_(sharp)
        policy.embed[:, 0] = 1.0
        policy.embed[[token(ACT_END), token(END)], 0] = 1.0 + stops
    return policy


@dataclass
class History:
    """The cache of a scripted policy: each row's tokens."""

    rows: list[list[int]]

    def select(self, index) -> None:
        self.rows = [list(self.rows[i]) for i in index.tolist()]


@dataclass
class Parrot:
    """A policy that says what a script says: next(tokens so far) → the next token, with probability 1."""

    next: Callable[[list[int]], int]
    tokenizer: object = TOKENIZER
    format: object = TINY
    device: torch.device = torch.device("cpu")
    fed: list[int] = field(default_factory=list)  # tokens fed by each call

    def cache(self, rows: int) -> History:
        return History([[] for _ in range(rows)])

    def advance(self, tokens, counts, cache, rows):
        index = range(len(tokens)) if rows is None else rows.tolist()
        counts = [tokens.shape[1]] * len(tokens) if counts is None else counts.tolist()
        logits = torch.full((len(tokens), len(self.tokenizer)), -torch.inf)
        self.fed.append(sum(counts))
        for line, (i, n) in enumerate(zip(index, counts)):
            cache.rows[i] += tokens[line, :n].tolist()
            logits[line, self.next(cache.rows[i])] = 0.0
        return logits


def script(*turns: str | list[int], prompt: int = 4, observation: int = 3) -> Callable[[list[int]], int]:
    """`next` of a Parrot that says these turns (texts, or ids) in a world whose observations have a fixed length."""
    said = [list(encode(TOKENIZER, t)) if isinstance(t, str) else t for t in turns]

    def following(history: list[int]) -> int:
        at = len(history) - prompt
        for turn in said:
            if at < len(turn):
                return turn[max(at, 0)]
            at -= len(turn) + observation
            if at < 0:
                return 0  # inside an observation: nobody looks
        return 0

    return following


@torch.no_grad()
def play(policy, env, seed: int, stream, sampling: Sampling, limits: Limits) -> dict:
    """One episode, written from the engine's promises: one row, one token at a time, no cache, everything again."""
    env = env.clone()
    tok, fmt = policy.tokenizer, policy.format
    ids = list(encode(tok, f"{fmt.prompt_before}{env.reset(seed)}{fmt.prompt_after}"))
    stops = {encode(tok, s)[0] for s in fmt.stops}
    n = len(ids)
    mask, turn, logp, rewards = [0] * n, [-1] * n, [0.0] * n, [0.0] * n
    uniform = 1 - np.random.default_rng(list(stream)).random(1 + max(limits.total, n), np.float32)
    out = dict(terminated=False, truncated=False, infos=[])
    for now in range(10**6):
        begun = len(ids)
        while True:
            p = sampling.cut(policy(torch.tensor([ids]))[:, -1]).softmax(1)[0]
            cdf = p.cumsum(0)
            ids.append(int((cdf < float(uniform[len(ids)]) * cdf[-1]).sum()))
            mask, turn, rewards = mask + [1], turn + [now], rewards + [0.0]
            logp.append(float(p[ids[-1]].log()))
            if ids[-1] in stops or len(ids) - begun >= limits.turn_tokens or len(ids) >= limits.total:
                break
        ended = ids[-1] in stops or len(ids) - begun >= limits.turn_tokens
        if ended:
            reply = env.step(decode(tok, ids[begun:]))
            rewards[-1] = reply.reward
            out["infos"].append(reply.info)
            seen = list(encode(tok, f"{fmt.obs_before}{reply.text}{fmt.obs_after}"))
            out["terminated"] = reply.done and ids[-1] in stops  # a turn cut short is never an end
            over = reply.truncated or now + 1 >= limits.turns or len(ids) + len(seen) >= limits.total
        if not ended or reply.done or over:
            out["truncated"] = not out["terminated"]
            return out | dict(tokens=ids, mask=mask, turn=turn, logp=logp, rewards=rewards)
        ids, logp, rewards = ids + seen, logp + [0.0] * len(seen), rewards + [0.0] * len(seen)
        mask, turn = mask + [0] * len(seen), turn + [now] * len(seen)
