"""Small random models of several families, and a world for odd talkers.

The weights are drawn wide (0.2 instead of 0.02), so that attention and logits are far from flat.
"""

import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from arl_mini import Limits, collate
from arl_mini.envs.base import Env, Reply
from arl_mini.models import HFPolicy, score
from arl_mini.models import tokenizer as tok

WORDS = " one two three four five six seven eight task say more"


class Talk(Env):
    """A world for odd talkers: tasks, replies and episodes of many lengths, a reward for every turn."""

    words = WORDS

    def reset(self, seed: int) -> str:
        self.turn, self.ends = 0, 2 + seed % 3
        return " task" + " one two three"[: 4 * (seed % 4)]

    def step(self, said: str) -> Reply:
        self.turn += 1
        sound = sum(said.encode())
        text = " say" + " more" * (sound % 7)
        return Reply(
            text, reward=sound % 5 / 4, done=self.turn == self.ends, info={"success": sound % 2 == 0}
        )


TOKENIZER = tok.build(WORDS)
ENDS = dict(bos_token_id=None, pad_token_id=0, eos_token_id=1)
SHAPE = dict(
    vocab_size=len(TOKENIZER), hidden_size=32, intermediate_size=48, num_hidden_layers=3,
    num_attention_heads=4, num_key_value_heads=2, initializer_range=0.2, **ENDS,
)  # fmt: skip
GPT2 = dict(
    vocab_size=len(TOKENIZER), n_embd=32, n_layer=3, n_head=4, n_positions=96, initializer_range=0.2, **ENDS
)
GEMMA = dict(
    head_dim=8,
    query_pre_attn_scalar=8,
    sliding_window=6,
    attn_logit_softcapping=2.0,
    final_logit_softcapping=3.0,
)
FAMILIES = {
    "llama with grouped heads": (LlamaForCausalLM, LlamaConfig, SHAPE),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config, SHAPE | {"head_dim": 8}),
    "gpt2 with learned positions": (GPT2LMHeadModel, GPT2Config, GPT2),
    "mistral with a window of 6": (MistralForCausalLM, MistralConfig, SHAPE | {"sliding_window": 6}),
    "gemma2 with both kinds of layers and capped logits": (Gemma2ForCausalLM, Gemma2Config, SHAPE | GEMMA),
}
LIMITS = Limits(turn_tokens=6, turns=4, total=90)


def build(name: str = "llama with grouped heads", seed: int = 0, **changes):
    """A random model of a family."""
    model, config, shape = FAMILIES[name]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return model(config(**shape | changes))


def policy_of(name: str = "llama with grouped heads", lora=None, **changes) -> HFPolicy:
    return HFPolicy(build(name, **changes), TOKENIZER, lora)


def rows(policy, counts=(9, 4, 7), seed=0):
    """Right-padded random tokens and their lengths."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(len(TOKENIZER), (len(counts), max(counts)), generator=generator)
    return tokens, torch.tensor(counts)


def gap(a, b) -> float:
    return float((a - b).detach().abs().max())


def disagreement(policy, episodes) -> float:
    """Largest difference of a log-probability between engine and scoring, nats."""
    batch = collate(episodes, policy.device)
    return gap(score(policy, batch).logp, batch.old_logp)
