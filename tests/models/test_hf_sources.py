"""Where an HFPolicy comes from: chat templates, folders and files, and errors that say what to do."""

import pytest
import torch
from transformers import (
    BertConfig,
    BertLMHeadModel,
    BloomConfig,
    BloomForCausalLM,
    GPTNeoConfig,
    GPTNeoForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from arl_mini import Limits, rollout
from arl_mini.models import TINY, HFPolicy, TinyLM
from tests.models.random_models import ENDS, SHAPE, TOKENIZER, Talk, build, disagreement, gap, policy_of, rows


class TestFormat:
    """Formats read off chat templates."""

    ANSWER = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    CHATML = (
        "{% if messages[0].role != 'system' %}<|im_start|>system\nBe kind<|im_end|>\n{% endif %}"
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}" + ANSWER
    )
    BRACKETS = (
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
        "{% else %} {{ m.content }} {{ eos_token }}{% endif %}{% endfor %}"
    )
    LINES = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
    FORGETFUL = "{{ messages[-1].content }}"

    def tokenizer(self, template: str | None):
        """A tokenizer of bytes with the special tokens of many chat models, and not ours."""
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers
        from transformers import PreTrainedTokenizerFast

        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
        core = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(letters)}, merges=[]))
        core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        core.decoder = decoders.ByteLevel()
        made = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>")
        made.add_special_tokens({"extra_special_tokens": ["<|im", "<|im_start|>", "<|im_end|>", "<|eot|>"]})
        made.chat_template = template
        return made

    def policy(self, template: str | None, **ends):
        tokenizer = self.tokenizer(template)
        model = build(vocab_size=len(tokenizer))
        model.generation_config.eos_token_id = ends.get("eos")
        return HFPolicy(model, tokenizer)

    def test_ours_is_tiny(self):
        assert policy_of().format is TINY

    def test_turns_end_at_a_token(self):
        format = self.policy(self.CHATML).format
        assert format.stops == ("<|im_end|>", "</s>") and format.chat
        system = "<|im_start|>system\nBe kind<|im_end|>\n"
        opened = "<|im_end|>\n<|im_start|>assistant\n"
        assert format.prompt(" go", "Rules") == f"{system}<|im_start|>user\nRules\n go{opened}"
        heard = f"\n<|im_start|>user\n<obs> hall</obs>{opened}"
        assert format.observation(" hall") == heard
        assert format.observation(" hall", whole=False) == f"<|im_end|>{heard}", "a turn that was cut is closed first"

    def test_a_template_with_brackets(self):
        format = self.policy(self.BRACKETS).format
        assert format.prompt(" go") == "<s>[INST]  go [/INST]" and format.stops == ("</s>",)
        assert format.observation(" hall") == "[INST] <obs> hall</obs> [/INST]"

    def test_a_template_without_an_end_token(self):
        format = self.policy(self.LINES).format
        assert format.observation(" hall") == "\nuser: <obs> hall</obs>\nassistant:" and format.stops == (
            "</s>",
        )

    def test_every_end_token_of_the_model_counts(self):
        tokenizer = self.tokenizer(None)
        ids = tokenizer.convert_tokens_to_ids(["<|eot|>", "</s>"])
        assert self.policy(self.CHATML, eos=ids).format.stops == ("<|im_end|>", "</s>", "<|eot|>")

    def test_no_template(self):
        format = self.policy(None).format
        assert format.prompt(" go") == " go\n" and format.observation(" hall") == "\n<obs> hall</obs>\n"

    def test_a_template_that_loses_messages(self):
        with pytest.raises(ValueError, match="must write each message once"):
            self.policy(self.FORGETFUL)

    def test_a_chat_model_plays(self):
        policy = self.policy(self.CHATML)
        episodes = rollout(policy, Talk(), range(4), limits=Limits(turn_tokens=8, turns=3, total=900))
        assert disagreement(policy, episodes) < 1e-5
        assert episodes[0].text.startswith("<|im_start|>system\nBe kind<|im_end|>\n<|im_start|>user\nAct by")
        assert "\n<|im_start|>user\n<obs> say" in episodes[0].text


class TestErrors:
    """What came, what was expected, a hint."""

    def test_an_encoder_sees_what_comes_later(self):
        config = BertConfig(
            vocab_size=len(TOKENIZER),
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=48,
        )
        with pytest.raises(ValueError, match="bert lets a token see later ones"):
            HFPolicy(BertLMHeadModel(config), TOKENIZER)

    def test_states_that_are_no_keys_and_values(self):
        mamba = MambaConfig(
            vocab_size=len(TOKENIZER), hidden_size=32, num_hidden_layers=2, state_size=4, **ENDS
        )
        with pytest.raises(
            ValueError, match="linear_attention; the engine knows full_attention, sliding_attention; hint"
        ):
            HFPolicy(MambaForCausalLM(mamba), TOKENIZER)
        local = GPTNeoConfig(
            vocab_size=len(TOKENIZER), hidden_size=32, num_layers=2, num_heads=4,
            attention_types=[[["global", "local"], 1]], **ENDS,
        )  # fmt: skip
        with pytest.raises(ValueError, match="layers of kind global, local"):
            HFPolicy(GPTNeoForCausalLM(local), TOKENIZER)

    def test_a_model_without_positions(self):
        config = BloomConfig(vocab_size=len(TOKENIZER), hidden_size=32, n_layer=2, n_head=4, **ENDS)
        with pytest.raises(ValueError, match="the engine cannot run bloom"):
            HFPolicy(BloomForCausalLM(config), TOKENIZER)

    def test_logits_changed_in_an_unknown_way(self):
        class Loud(LlamaForCausalLM):
            def forward(self, **inputs):
                output = super().forward(**inputs)
                output.logits = 2 * output.logits
                return output

        with pytest.raises(ValueError, match="changes its logits at the end"):
            HFPolicy(Loud(LlamaConfig(**SHAPE)), TOKENIZER)

    def test_attention_without_masks(self):
        model = build()
        model.config._attn_implementation = "flash_attention_2"
        with pytest.raises(ValueError, match="attention is 'flash_attention_2'.*hint: model.set_attn"):
            HFPolicy(model, TOKENIZER)

    def test_a_tokenizer_that_is_too_large(self):
        with pytest.raises(ValueError, match=f"the tokenizer has {len(TOKENIZER)} tokens, the model 100"):
            HFPolicy(build(vocab_size=100), TOKENIZER)

    def test_no_model_of_transformers(self):
        with pytest.raises(TypeError, match="got TinyLM; hint"):
            HFPolicy(TinyLM.new("nano", TOKENIZER), TOKENIZER)
        with pytest.raises(TypeError, match="expected a tokenizer of transformers, got str"):
            HFPolicy(build(), "gpt2")
        with pytest.raises(TypeError, match="got LlamaForCausalLM; hint"):
            HFPolicy.load(build())


class TestLoad:
    """Folders and files."""

    def folder(self, path, model=None):
        (build() if model is None else model).save_pretrained(path)
        TOKENIZER.save_pretrained(path)
        return path

    def test_a_folder(self, tmp_path):
        policy = HFPolicy.load(self.folder(tmp_path))
        tokens, _ = rows(policy)
        assert gap(policy(tokens), policy_of()(tokens)) == 0.0
        assert policy.format.prompt(" go") == "<user> go<bot>" and policy.width == 32
        half = HFPolicy.load(str(tmp_path), lora=2, dtype=torch.bfloat16)
        assert {p.dtype for p in half.parameters() if not p.requires_grad} == {torch.bfloat16}

    def test_what_is_missing_is_named(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="there is no folder"):
            HFPolicy.load(tmp_path / "nowhere")
        with pytest.raises(
            FileNotFoundError, match="there is no folder nowhere; expected one that holds model.gguf"
        ):
            HFPolicy.load("nowhere/model.gguf")
        (tmp_path / "model.gguf").write_bytes(b"nothing")
        with pytest.raises(
            FileNotFoundError, match="no config.json in .*, but model.gguf; hint: for GGUF give"
        ):
            HFPolicy.load(tmp_path)
        with pytest.raises(FileNotFoundError, match="no other.gguf in"):
            HFPolicy.load(tmp_path, gguf_file="other.gguf")
        with pytest.raises(ValueError, match="does not load as a causal language model"):
            HFPolicy.load(tmp_path / "model.gguf")

    @pytest.mark.parametrize("gguf_file", [None, "model.gguf"])
    def test_a_hub_id_without_network(self, gguf_file):
        with pytest.raises(
            OSError, match="cannot load nobody/nothing: .* must be fetched once with the network on"
        ):
            HFPolicy.load("nobody/nothing", gguf_file)

    def test_a_damaged_file(self, tmp_path):
        self.folder(tmp_path)
        (tmp_path / "model.safetensors").write_bytes(b"damaged")
        with pytest.raises(ValueError, match="does not load as a causal language model"):
            HFPolicy.load(tmp_path)

    def test_a_model_that_translates(self, tmp_path):
        config = T5Config(vocab_size=len(TOKENIZER), d_model=32, d_ff=32, num_layers=1, num_heads=2, d_kv=16)
        self.folder(tmp_path, T5ForConditionalGeneration(config))
        with pytest.raises(ValueError, match="does not load as a causal language model"):
            HFPolicy.load(tmp_path)
