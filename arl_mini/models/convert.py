"""TinyLM to and from a `transformers` Llama, with equal logits.

Two layouts differ: Llama keeps q, k, v (and gate, up) apart, and turns the first half of a head against the
second where TinyLM turns neighbours, so the rows of the query and key matrices are reordered.
"""

import torch
from torch import Tensor

from .tiny import TinyConfig, TinyLM


def _reorder(weight: Tensor, dim: int, to_halves: bool) -> Tensor:
    """Rows of each head from pairs (0 1)(2 3)… to halves 0 2 … 1 3 …, or back."""
    shape = (-1, dim // 2, 2, weight.shape[-1]) if to_halves else (-1, 2, dim // 2, weight.shape[-1])
    return weight.view(shape).transpose(1, 2).reshape(weight.shape)


def to_llama(model: TinyLM):
    """See `TinyLM.to_hf`."""
    from transformers import LlamaConfig, LlamaForCausalLM

    if model.eyes is not None:
        raise ValueError("a Llama has no eyes: this TinyLM reads pictures, which would be lost")
    c, dim = model.config, model.config.width // model.config.heads
    ids = {}
    if model.tokenizer is not None:
        ids = dict(pad_token_id=model.tokenizer.pad_token_id, eos_token_id=model.tokenizer.eos_token_id)
    config = LlamaConfig(
        vocab_size=c.vocab, hidden_size=c.width, intermediate_size=c.hidden, num_hidden_layers=c.layers,
        num_attention_heads=c.heads, num_key_value_heads=1, rms_norm_eps=1e-6, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": c.theta}, max_position_embeddings=4096,
        bos_token_id=None, **({"pad_token_id": None, "eos_token_id": None} | ids),
    )  # fmt: skip
    state = {"model.embed_tokens.weight": model.embed, "model.norm.weight": model.norm}
    for i, block in enumerate(model.blocks):
        q, k, v = block.qkv.split([c.width, dim, dim])
        gate, up = block.gate_up.chunk(2)
        parts = {
            "input_layernorm": block.attn_norm, "post_attention_layernorm": block.mlp_norm,
            "self_attn.q_proj": _reorder(q, dim, True), "self_attn.k_proj": _reorder(k, dim, True),
            "self_attn.v_proj": v, "self_attn.o_proj": block.out,
            "mlp.gate_proj": gate, "mlp.up_proj": up, "mlp.down_proj": block.down,
        }  # fmt: skip
        state |= {f"model.layers.{i}.{name}.weight": weight for name, weight in parts.items()}
    llama = LlamaForCausalLM(config)
    llama.load_state_dict({k: v.detach().clone() for k, v in state.items()}, strict=False)
    llama.tie_weights()
    return llama.to(model.device).eval()


def _same(name: str, theirs, ours) -> None:
    """A difference here would give other logits without a word."""
    if theirs != ours:
        raise ValueError(
            f"TinyLM has {name} = {ours!r}, this model has {theirs!r}; "
            "hint: models.HFPolicy runs any causal language model as it is"
        )


def from_llama(llama, tokenizer=None) -> TinyLM:
    """See `TinyLM.from_hf`."""
    c = llama.config
    wanted = {
        "model_type": "llama", "num_key_value_heads": 1, "tie_word_embeddings": True, "attention_bias": False,
        "mlp_bias": False, "rms_norm_eps": 1e-6, "hidden_act": "silu",
    }  # fmt: skip
    for name, value in wanted.items():
        _same(name, getattr(c, name), value)
    _same("head_dim", c.head_dim, c.hidden_size // c.num_attention_heads)
    _same("rope_type", c.rope_parameters["rope_type"], "default")
    theta = c.rope_parameters["rope_theta"]
    config = TinyConfig(
        c.vocab_size, c.hidden_size, c.num_hidden_layers, c.num_attention_heads, c.intermediate_size, theta
    )
    model, dim = TinyLM(config, tokenizer), c.hidden_size // c.num_attention_heads
    state = llama.state_dict()
    with torch.no_grad():
        model.embed.copy_(state["model.embed_tokens.weight"])
        model.norm.copy_(state["model.norm.weight"])
        for i, block in enumerate(model.blocks):
            w = {k.removeprefix(f"model.layers.{i}.").removesuffix(".weight"): v for k, v in state.items()}
            q, k = (_reorder(w[f"self_attn.{p}_proj"], dim, False) for p in "qk")
            block.qkv.copy_(torch.cat((q, k, w["self_attn.v_proj"])))
            block.out.copy_(w["self_attn.o_proj"])
            block.gate_up.copy_(torch.cat((w["mlp.gate_proj"], w["mlp.up_proj"])))
            block.down.copy_(w["mlp.down_proj"])
            block.attn_norm.copy_(w["input_layernorm"])
            block.mlp_norm.copy_(w["post_attention_layernorm"])
    return model.to(llama.device)
