"""TinyLM against `transformers` Llama: equal logits both ways, and a word where a model is another one."""

import pytest
import torch

from arl_mini.models import TinyConfig, TinyLM
from arl_mini.rollout import Limits, Sampling, rollout
from tests.core.stage import TOKENIZER, Bandit, chatty

SHAPES = [
    dict(width=64, layers=2, heads=2, hidden=192), dict(width=8, layers=1, heads=1, hidden=4),
    dict(width=48, layers=3, heads=4, hidden=20), dict(width=32, layers=2, heads=8, hidden=16, theta=500.0),
]  # fmt: skip
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)


def trained(shape) -> TinyLM:
    """Every parameter moved away from where it starts (norms are all ones then)."""
    policy, made = TinyLM(TinyConfig(60, **shape), seed=1), torch.Generator().manual_seed(2)
    with torch.no_grad():
        for p in policy.parameters():
            p.add_(torch.randn(p.shape, generator=made) * 0.1)
    return policy


@shapes
@torch.no_grad()
def test_to_hf_has_equal_logits(shape):
    policy, made = trained(shape), torch.Generator().manual_seed(3)
    tokens = torch.randint(0, 60, (3, 40), generator=made)
    llama = policy.to_hf()
    theirs = llama(tokens).logits
    assert theirs.dtype == torch.float32 and theirs.std() > 0.1
    assert (policy(tokens) - theirs).abs().max() < 1e-5
    assert sum(p.numel() for p in llama.parameters()) == sum(p.numel() for p in policy.parameters())


@shapes
def test_there_and_back_is_the_same_model(shape):
    policy = trained(shape)
    back = TinyLM.from_hf(policy.to_hf())
    assert back.config == policy.config
    ours, theirs = policy.state_dict(), back.state_dict()
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)


def llama(**more):
    from transformers import LlamaConfig, LlamaForCausalLM

    shape = dict(vocab_size=40, hidden_size=32, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4)
    plain = dict(num_key_value_heads=1, tie_word_embeddings=True, max_position_embeddings=64, bos_token_id=None)
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**(shape | plain | dict(eos_token_id=None) | more))).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape) * 0.05)
    return model


@torch.no_grad()
def test_from_hf_has_equal_logits():
    """A Llama that `transformers` made."""
    model, tokens = llama(), torch.arange(20)[None]
    policy = TinyLM.from_hf(model, TOKENIZER)
    assert (policy(tokens) - model(tokens).logits).abs().max() < 1e-5 and policy.tokenizer is TOKENIZER


STRANGE = [
    (dict(num_key_value_heads=2), "num_key_value_heads = 1, this model has 2"),
    (dict(tie_word_embeddings=False), "tie_word_embeddings = True, this model has False"),
    (dict(attention_bias=True), "attention_bias = False, this model has True"),
    (dict(mlp_bias=True), "mlp_bias = False, this model has True"),
    (dict(rms_norm_eps=1e-5), "rms_norm_eps = 1e-06, this model has 1e-05"),
    (dict(hidden_act="gelu"), "hidden_act = 'silu', this model has 'gelu'"),
    (dict(head_dim=16), "head_dim = 8, this model has 16"),
    (dict(rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}), "'default', this model has 'linear'"),
]


@pytest.mark.parametrize("how, message", STRANGE, ids=lambda p: str(p)[:40])
def test_from_hf_names_what_differs(how, message):
    """A model whose logits would silently be others is refused, with the way out."""
    with pytest.raises(ValueError, match=f"TinyLM has .*{message}; hint: models.HFPolicy runs any"):
        TinyLM.from_hf(llama(**how))


def test_from_hf_of_another_family():
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(vocab_size=20, n_positions=8, n_embd=8, n_layer=1, n_head=1))
    with pytest.raises(ValueError, match="TinyLM has model_type = 'llama', this model has 'gpt2'"):
        TinyLM.from_hf(model)


def test_greedy_generation_is_the_same_in_both():
    """The engine at temperature 0 and `generate()` of the exported model write the same tokens."""
    policy = chatty(5)
    (row,) = rollout(policy, Bandit(), [0], sampling=Sampling(0), limits=Limits(turn_tokens=20))
    prompt = torch.tensor([row.tokens[row.turn < 0].tolist()])
    stops = [TOKENIZER.convert_tokens_to_ids(s) for s in policy.format.stops]
    written = policy.to_hf().generate(
        prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=20, eos_token_id=stops
    )
    assert written[0].tolist() == row.tokens.tolist()
