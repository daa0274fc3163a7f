"""Our engine against `transformers` generate() on the same weights.

    python -m tests.benchmarks.generation [--json] [--runs 7] [--threads N]

Both sample at temperature 1 with a cache and return tokens; ours also returns log-probabilities.
"""

import time
from dataclasses import replace

import torch

from arl_mini.envs.base import Env, Reply
from arl_mini.models import TINY, TinyLM, tokenizer
from arl_mini.rollout import Limits, rollout

from .paired import options, pair, profile, show

WORDS = " " + " ".join(f"{a}{b}" for a in "bdfgklmnpr" for b in "aeiou")


class Say(Env):
    """A prompt of `length` tokens, then `turns` turns, each answered by `reply` tokens."""

    words = WORDS

    def __init__(self, length: int, turns: int = 1, reply: int = 8):
        self.length, self.turns, self.reply = length, turns, reply

    def reset(self, seed: int) -> str:
        self.left = self.turns
        words = WORDS.split()
        return "".join(f" {words[(seed + i * i) % len(words)]}" for i in range(self.length - 2))

    def step(self, said: str) -> Reply:
        self.left -= 1
        return Reply(" ba" * (self.reply - 2), done=self.left == 0)


def policy_with_stops(size: str, share: float) -> TinyLM:
    """A policy with drawn weights in which about `share` of the vocabulary ends a turn (0: nothing does)."""
    policy = TinyLM.new(size, tokenizer.build(WORDS), seed=0)
    ids = range(20, len(policy.tokenizer), round(1 / share)) if share else ()
    policy.format = replace(TINY, stops=tuple(policy.tokenizer.convert_ids_to_tokens(list(ids))))
    return policy


def stop_ids(policy) -> list[int]:
    return policy.tokenizer.convert_tokens_to_ids(list(policy.format.stops))


@torch.no_grad()
def generate(llama, prompts: list[list[int]], new: int, stops: list[int]) -> list[list[int]]:
    """transformers' generate() on left-padded prompts; the sampled part of each row, cut at its stop."""
    width = max(map(len, prompts))
    tokens = torch.tensor([[0] * (width - len(p)) + p for p in prompts], device=llama.device)
    out = llama.generate(
        tokens, attention_mask=(tokens != 0).long(), do_sample=True, top_k=0, top_p=1.0, max_new_tokens=new,
        pad_token_id=0, eos_token_id=stops or None,
    )[:, width:].tolist()  # fmt: skip
    ends = [next((i + 1 for i, t in enumerate(row) if t in stops), new) for row in out]
    return [row[:end] for row, end in zip(out, ends)]


def prompt_ids(policy, env: Env, seeds) -> list[list[int]]:
    encode = policy.tokenizer.encode
    return [encode(policy.format.prompt(env.reset(s)), add_special_tokens=False) for s in seeds]


def details(policy, ours) -> dict:
    """Where our time goes, and how fast the model's matrix products alone would have to be, GFLOP/s."""
    start = time.perf_counter()
    made = ours()
    seconds = time.perf_counter() - start
    weights = sum(p.numel() for p in policy.parameters())
    return {"profile": profile(ours), "model_gflops": round(2 * weights * made / seconds / 1e9, 1)}


def single_turn(name, runs, *, prompt: int, new: int, groups: int, tries: int, stop_share: float) -> dict:
    policy = policy_with_stops("micro", stop_share)
    llama, env, limits = policy.to_hf(), Say(prompt), Limits(new, 1, prompt + new + 1)
    stops, prompts = stop_ids(policy), [p for p in prompt_ids(policy, env, range(groups)) for _ in range(tries)]

    def ours():
        return sum(int(e.mask.sum()) for e in rollout(policy, env, range(groups), tries, limits=limits))

    def theirs():
        return sum(map(len, generate(llama, prompts, new, stops)))

    return pair(name, ours, theirs, runs, batch=groups * tries, prompt=prompt, new=new) | details(policy, ours)


def multi_turn(name, runs, *, prompt: int, new: int, groups: int, tries: int, turns: int, stop_share: float) -> dict:
    """Theirs: one generate() a turn on the whole history, the way tool loops over it work."""
    policy = policy_with_stops("micro", stop_share)
    env = Say(prompt, turns)
    llama, limits = policy.to_hf(), Limits(new, turns, prompt + turns * (new + 8) + 1)
    stops, firsts = stop_ids(policy), [p for p in prompt_ids(policy, env, range(groups)) for _ in range(tries)]
    reply = policy.tokenizer.encode(policy.format.observation(" ba" * (env.reply - 2)), add_special_tokens=False)

    def ours():
        return sum(int(e.mask.sum()) for e in rollout(policy, env, range(groups), tries, limits=limits))

    def theirs():
        rows, made = [list(p) for p in firsts], 0
        for _ in range(turns):
            for row, said in zip(rows, generate(llama, rows, new, stops)):
                row += said + reply
                made += len(said)
        return made

    facts = dict(batch=groups * tries, prompt=prompt, new=new, turns=turns)
    return pair(name, ours, theirs, runs, **facts) | details(policy, ours)


def main() -> None:
    chosen = options(__doc__)
    rows = []
    cases = {
        "fixed length, B = 32": (single_turn, dict(prompt=32, new=64, groups=32, tries=1, stop_share=0)),
        "fixed length, B = 128": (single_turn, dict(prompt=32, new=64, groups=128, tries=1, stop_share=0)),
        "groups of 8, shared prefix, ragged stops": (
            single_turn, dict(prompt=96, new=96, groups=16, tries=8, stop_share=1 / 24),
        ),
        "4 turns, ragged": (
            multi_turn, dict(prompt=48, new=24, groups=8, tries=8, turns=4, stop_share=1 / 10),
        ),
    }  # fmt: skip
    for name, (case, facts) in cases.items():
        if chosen.only in name:
            rows.append(case(name, chosen.runs, **facts))
    show(rows, chosen.json)


if __name__ == "__main__":
    main()
