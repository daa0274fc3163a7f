"""HFPolicy on random models: engine and scoring agree, training changes what it should and nothing else."""

import numpy as np
import pytest
import torch
from transformers import CohereConfig, CohereForCausalLM, GraniteConfig, GraniteForCausalLM

from arl_mini import GRPO, Limits, collate, rollout, train
from arl_mini.models import HFPolicy, TinyLM
from tests.models.random_models import (
    FAMILIES,
    LIMITS,
    SHAPE,
    TOKENIZER,
    Talk,
    build,
    disagreement,
    gap,
    policy_of,
    rows,
)  # fmt: skip

families = pytest.mark.parametrize("name", FAMILIES)


@families
def test_the_engine_agrees_with_scoring(name):
    policy = policy_of(name)
    episodes = rollout(policy, Talk(), range(7), 2, seed=1, limits=LIMITS)
    lengths = [len(e) for e in episodes]
    assert len(set(lengths)) > 5 and max(lengths) > 30 and {e.turns for e in episodes} == {2, 3, 4}
    batch = collate(episodes)
    assert batch.old_logp[batch.mask > 0].std() > 0.5  # the model is not indifferent
    assert disagreement(policy, episodes) < 1e-5


def test_a_position_off_by_one_would_be_seen(monkeypatch):
    policy = policy_of("gpt2 with learned positions")
    step = policy.model.transformer.wpe.forward
    monkeypatch.setattr(policy.model.transformer.wpe, "forward", lambda at: step(at + (at.shape[1] == 1)))
    assert disagreement(policy, rollout(policy, Talk(), range(3), limits=LIMITS)) > 0.01


@families
def test_padding_changes_nothing(name):
    policy = policy_of(name)
    tokens, lengths = rows(policy)
    together = policy(tokens, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = policy(tokens[row : row + 1, :length])
        assert gap(together[row, :length], alone[0]) < 1e-5
        tokens[row, length:] = 0
    again = policy(tokens, lengths)
    assert all(gap(again[r, :n], together[r, :n]) < 1e-5 for r, n in enumerate(lengths.tolist()))


@families
def test_rows_keep_their_own_length_in_one_cache(name):
    policy = policy_of(name)
    tokens, lengths = rows(policy, (12, 12, 12))
    logits = policy(tokens)
    cache = policy.cache(3)
    first = policy.advance(tokens[:, :5], torch.tensor([5, 2, 3]), cache, None)
    assert gap(first, logits[torch.arange(3), [4, 1, 2]]) < 1e-5
    some = policy.advance(tokens[[2, 1], 2:7], torch.tensor([0, 5]), cache, torch.tensor([2, 1]))
    assert cache.lengths.tolist() == [5, 7, 3]  # a row of count 0 stays as it was
    assert gap(some[1], logits[1, 6]) < 1e-5
    cache.select(torch.tensor([2, 1, 2]))
    assert cache.lengths.tolist() == [3, 7, 3]
    next_one = torch.stack((tokens[2, 3:4], tokens[1, 7:8], tokens[2, 3:4]))
    assert gap(policy.advance(next_one, None, cache, None), logits[[2, 1, 2], [3, 7, 3]]) < 1e-5
    last = policy.advance(tokens[2:, 4:9], None, cache, torch.tensor([2]))  # the copy goes on by itself
    assert gap(last[0], logits[2, 8]) < 1e-5
    assert cache.lengths.tolist() == [4, 8, 9]


def test_neighbours_do_not_change_a_row():
    policy = policy_of("qwen3")
    together = rollout(policy, Talk(), range(6), 2, seed=3, limits=LIMITS)
    alone = [rollout(policy, Talk(), [s], 2, seed=3, limits=LIMITS) for s in range(6)]
    for episode, twin in zip(together, [e for pair in alone for e in pair]):
        assert episode.tokens.tolist() == twin.tokens.tolist()


def test_dropout_stays_off():
    off = dict(resid_pdrop=0.5, embd_pdrop=0.5, attn_pdrop=0.5)
    policy = policy_of("gpt2 with learned positions", **off)
    episodes = rollout(policy.train(), Talk(), range(3), limits=LIMITS)
    assert not policy.training and disagreement(policy.train(), episodes) < 1e-5
    policy.model.train()  # what the rule protects from
    assert disagreement(policy, episodes) > 0.1


def test_learned_positions_end():
    policy = policy_of("gpt2 with learned positions", n_positions=24)
    full = rollout(policy, Talk(), range(6), limits=Limits(turn_tokens=6, turns=9, total=24))
    assert max(len(e) for e in full) == 24 and disagreement(policy, full) < 1e-5
    with pytest.raises(ValueError, match=r"has 24 positions; hint: Limits\(total=24\)"):
        rollout(policy, Talk(), range(6), limits=Limits(turn_tokens=6, turns=9, total=60))
    with pytest.raises(ValueError, match="a row of 25 tokens"):
        policy(torch.zeros(1, 25, dtype=torch.long))
    cache = policy.cache(1)
    policy.advance(torch.zeros(1, 20, dtype=torch.long), None, cache, None)
    policy.advance(
        torch.zeros(1, 9, dtype=torch.long), torch.tensor([4]), cache, None
    )  # only padding is too far
    assert cache.lengths.tolist() == [24]


def test_a_tiny_model_and_its_llama_play_alike():
    tiny = TinyLM.new("nano", TOKENIZER, seed=5)
    ours = rollout(tiny, Talk(), range(5), 2, seed=7, limits=LIMITS)
    theirs = rollout(HFPolicy(tiny.to_hf(), TOKENIZER), Talk(), range(5), 2, seed=7, limits=LIMITS)
    for a, b in zip(ours, theirs):
        assert a.tokens.tolist() == b.tokens.tolist() and a.rewards.tolist() == b.rewards.tolist()
        assert np.abs(a.logp - b.logp).max() < 1e-5


@pytest.mark.parametrize(
    "model, config, change",
    [
        (CohereForCausalLM, CohereConfig, {"logit_scale": 0.3}),
        (GraniteForCausalLM, GraniteConfig, {"logits_scaling": 3.0}),
    ],
)
def test_scaled_logits_are_the_models_own(model, config, change):
    policy = HFPolicy(model(config(**SHAPE | change)), TOKENIZER)
    tokens, _ = rows(policy)
    assert gap(policy(tokens), policy.model(input_ids=tokens).logits) < 1e-6
    plain = policy.model.get_output_embeddings()(policy.hidden(tokens))
    assert gap(policy(tokens), plain) > 0.1


def weights(policy) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in policy.named_parameters()}


def changed(policy, before) -> set[str]:
    return {name for name, p in policy.named_parameters() if not torch.equal(p, before[name])}


TRAINING = dict(steps=1, prompts=4, tries=4, lr=1e-2, limits=LIMITS)


@families
def test_a_step_of_grpo(name):
    policy = policy_of(name)
    before = weights(policy)
    run = train(policy, Talk(), GRPO(beta=0.1), **TRAINING)
    untouched = weights(run.ref)
    record = next(run)
    assert record.signal_share > 0 and record.grad_norm > 0 and record.kl == pytest.approx(0, abs=1e-6)
    assert changed(policy, before) == set(before) and not changed(run.ref, untouched)
    assert policy.tokenizer is run.ref.tokenizer


def adapters(policy) -> set[str]:
    return {name for name, p in policy.named_parameters() if p.requires_grad}


@pytest.mark.parametrize("name", ["llama with grouped heads", "gpt2 with learned positions"])
@pytest.mark.filterwarnings("ignore:fan_in_fan_out")
def test_a_step_of_grpo_with_lora_changes_adapters_only(name):
    policy = policy_of(name, lora=4)
    names, before = adapters(policy), weights(policy)
    assert names and all("lora_" in n for n in names)
    run = train(policy, Talk(), GRPO(beta=0.1), **TRAINING)
    next(run)
    assert changed(policy, before) == {n for n in names if "lora_B" in n}  # A's gradient is 0 while B is 0
    assert not changed(run.ref, before)


def test_a_copy_shares_what_is_not_trained():
    whole, light = policy_of(), policy_of(lora=2)
    places = {p.data_ptr() for p in whole.parameters()}
    assert not places & {p.data_ptr() for p in whole.copy().parameters()}
    for (name, p), (_, q) in zip(light.named_parameters(), light.copy().named_parameters(), strict=True):
        assert (p.data_ptr() == q.data_ptr()) == (not p.requires_grad), name


def test_a_copy_keeps_adapters_that_were_trained():
    policy = policy_of(lora=2)
    start = policy.copy()
    next(train(policy, Talk(), GRPO(), **TRAINING))
    later = policy.copy()
    tokens, _ = rows(policy)
    assert gap(later(tokens), policy(tokens)) == 0.0
    assert gap(start(tokens), policy(tokens)) > 1e-3
    assert gap(start(tokens), policy_of()(tokens)) == 0.0  # fresh adapters change nothing


def test_dropout_of_adapters_and_a_peft_model():
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=2, lora_dropout=0.5, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    wrapped = get_peft_model(build(), config)
    policy = HFPolicy(wrapped, TOKENIZER)
    assert disagreement(policy.train(), rollout(policy, Talk(), range(3), limits=LIMITS)) < 1e-5
    assert len(adapters(policy)) == 2 * 2 * SHAPE["num_hidden_layers"]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        assert len(adapters(policy_of(lora=config))) == len(adapters(policy))


def test_adapters_on_a_bfloat16_model_are_float32():
    policy = HFPolicy(build().bfloat16(), TOKENIZER, lora=2)
    kinds = {name: p.dtype for name, p in policy.named_parameters()}
    assert all(kind == (torch.float32 if "lora_" in n else torch.bfloat16) for n, kind in kinds.items())
    before = weights(policy)
    run = train(policy, Talk(), GRPO(), **TRAINING | {"lr": 1e-5})
    record = next(run)
    assert changed(policy, before) == {n for n in adapters(policy) if "lora_B" in n}
    assert 0 < disagreement(policy, record.episodes) < 0.3  # rounding: why whole models train in float32


def test_a_run_goes_on_after_a_save(tmp_path):
    settings = TRAINING | {"steps": 3}
    run = train(policy_of(lora=2), Talk(), GRPO(beta=0.1), **settings)
    next(run)
    run.save(tmp_path / "run.pt")
    rest = [(r.loss, r.reward, r.kl) for r in run]
    again = train(policy_of(lora=2, seed=9), Talk(), GRPO(beta=0.1), **settings).load(tmp_path / "run.pt")
    assert [(r.loss, r.reward, r.kl) for r in again] == rest and len(rest) == 2
