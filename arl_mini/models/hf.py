"""Any causal language model of `transformers` behind the interface of `TinyLM`: from the hub, a folder, a
GGUF file or memory; whole or with LoRA adapters.

    policy = HFPolicy.load("folder/model.gguf", lora=8)
    for record in train(policy, Quest(), GRPO(beta=0.02), steps=2, lr=1e-4): …

In float32 the engine's log-probabilities equal those of scoring to about 1e-5. In bfloat16 products of other
shapes round differently: 0.05 nats a token for SmolLM2-135M. So whole models are best trained in float32;
adapters, kept in float32, may sit on a bfloat16 model.
"""

import copy
import inspect
from pathlib import Path

import torch
from torch import Tensor, nn

from .format import TINY, Format
from .hf_cache import RaggedCache, attention_kinds, masks, view
from .tokenizer import OBS, OBS_END, SPECIALS, encode

LOGIT_CHANGES = {  # what a model does after its last matrix product, by the field of its config that says so
    "logit_scale": lambda logits, scale: logits * scale,  # Cohere
    "logits_scaling": lambda logits, scale: logits / scale,  # Granite
    "final_logit_softcapping": lambda logits, cap: cap * torch.tanh(logits / cap),  # Gemma
}


class HFPolicy(nn.Module):
    """A `transformers` causal language model as a policy; the interface is described at `TinyLM`.

    model: a `PreTrainedModel` with a language-model head, or a peft model around one; its weights are used,
    not copied. tokenizer: the one it was trained with. lora: None, the rank of adapters on all linear layers,
    or a peft config; adapters are put into `model`, are float32, and are then all that is trained.
    Raises TypeError or ValueError for what the engine cannot run, after a trial on a few tokens (`check`).
    """

    def __init__(self, model, tokenizer, lora=None):
        super().__init__()
        model = model.get_base_model() if hasattr(model, "get_base_model") else model
        for thing, method, expected in (
            (model, "get_output_embeddings", "a causal language model of transformers"),
            (tokenizer, "get_vocab", "a tokenizer of transformers"),
        ):
            if not hasattr(thing, method):
                raise TypeError(
                    f"expected {expected}, got {type(thing).__name__}; hint: HFPolicy(model, tokenizer)"
                )
        self.model, self.tokenizer = model, tokenizer
        self.config = model.config.get_text_config(decoder=True)
        self.kinds = attention_kinds(self.config)
        # `transformers` renamed the argument of every model that takes a cache
        known = inspect.signature(model.base_model.forward).parameters
        self.cache_name = "cache" if "cache" in known else "past_key_values"
        # learned positions end somewhere, rotary ones do not
        rotary = getattr(self.config, "rope_parameters", None)
        self.positions = None if rotary else getattr(self.config, "max_position_embeddings", None)
        self.format = chat_format(tokenizer, model)
        check(self.eval())
        if lora is not None:
            _add_adapters(model, lora)
            self.eval()

    @classmethod
    def load(
        cls, source, gguf_file: str | None = None, *, lora=None, dtype=torch.float32, device="cpu"
    ) -> "HFPolicy":
        """A policy from a hub id, a local folder, or a GGUF file (its path, or a folder and `gguf_file`).

        Raises FileNotFoundError for a missing file, OSError where a hub id cannot be fetched, ValueError for
        what is no causal language model.
        """
        from safetensors import SafetensorError
        from transformers import AutoModelForCausalLM, AutoTokenizer

        folder, file = _find(source, gguf_file)
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder, **file)
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **file, **_unpacked(file))
        except OSError as error:
            raise OSError(
                f"cannot load {source}: {_brief(error)} Hint: a folder must hold config.json, weights "
                "and tokenizer; a hub id must be fetched once with the network on (`hf download ID`)"
            ) from error
        except (ValueError, SafetensorError) as error:
            raise ValueError(f"{source} does not load as a causal language model: {_brief(error)}") from error
        return cls(model.to(device), tokenizer, lora)

    @property
    def width(self) -> int:
        """Size of a hidden state."""
        return self.model.get_output_embeddings().weight.shape[1]

    @property
    def device(self) -> torch.device:
        return self._embed.device

    @property
    def _embed(self) -> Tensor:
        return self.model.get_input_embeddings().weight

    def train(self, mode: bool = True) -> "HFPolicy":
        """Changes nothing: with dropout on, the policy that is scored would not be the one that sampled."""
        return super().train(False)

    def copy(self) -> "HFPolicy":
        """A copy that training of this one does not change (reference or old policy).

        Weights that are not trained are shared: with LoRA a copy costs its adapters, without a whole model.
        """
        shared = [self.tokenizer, *(p for p in self.parameters() if not p.requires_grad)]
        return copy.deepcopy(self, {id(thing): thing for thing in shared})

    def head(self, hidden: Tensor) -> Tensor:
        """Logits over the vocabulary, scaled and capped as the model's config says."""
        logits = self.model.get_output_embeddings()(hidden)
        for name, change in LOGIT_CHANGES.items():
            if value := getattr(self.config, name, None):
                logits = change(logits, value)
        return logits

    def hidden(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Last hidden states (B, T, width) of right-padded rows; what stands at padding means nothing.

        Positions count from 0 in every row and padding comes last, so causal attention keeps it from being
        seen. A mask of its own would only keep the batch from the fast causal kernels.
        """
        self._fits(tokens.shape[1])
        positions = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        return self.model.base_model(
            input_ids=tokens, position_ids=positions, use_cache=False
        ).last_hidden_state

    def forward(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Logits (B, T, vocab) of right-padded rows."""
        return self.head(self.hidden(tokens, lengths))

    def cache(self, rows: int) -> RaggedCache:
        """An empty cache for `rows` rows."""
        return RaggedCache(self.config.num_hidden_layers, rows, self.device, self._embed.dtype)

    @torch.no_grad()
    def advance(
        self, tokens: Tensor, counts: Tensor | None, cache: RaggedCache, rows: Tensor | None
    ) -> Tensor:
        """Appends tokens to a cache, as `TinyLM.advance`; logits (n, vocab) after each row's last token."""
        new = tokens.shape[1]
        positions, places, longest = cache.begin(new, rows)
        if self.positions is not None and longest > self.positions:  # perhaps only padding is too far out
            self._fits(int((positions[:, 0] + (new if counts is None else counts)).max()))
        window = getattr(self.config, "sliding_window", None)
        hidden = self.model.base_model(
            input_ids=tokens,
            attention_mask=masks(positions, longest, self.kinds, window, self._embed.dtype),
            position_ids=positions if self.positions is None else positions.clamp(max=self.positions - 1),
            use_cache=True,
            **{self.cache_name: view(cache, places, rows, longest, new)},
        ).last_hidden_state
        cache.commit(new if counts is None else counts, rows)
        last = new - 1 if counts is None else (counts - 1).clamp(min=0)
        return self.head(hidden[torch.arange(len(hidden), device=hidden.device), last])

    def _fits(self, length: int) -> None:
        if self.positions is not None and length > self.positions:
            raise ValueError(
                f"a row of {length} tokens, but {self.config.model_type} has {self.positions} positions; "
                f"hint: Limits(total={self.positions})"
            )


@torch.no_grad()
def check(policy: HFPolicy) -> None:
    """Raises ValueError where a model does not do, on a few tokens, what every policy must.

    A token does not see later ones; logits are those of the model itself; rows of different lengths in one
    cache get the logits they get alone. In float32 to 1e-4 of the largest logit, else to 0.1 of it.
    """
    model, name = policy.model, policy.config.model_type
    attention = model.config._attn_implementation
    if attention not in ("eager", "sdpa"):
        raise ValueError(
            f"attention is {attention!r}, but ragged rows need a mask, which only 'sdpa' and 'eager' take; "
            "hint: model.set_attn_implementation('sdpa')"
        )
    size = len(policy._embed)
    if len(policy.tokenizer) > size:
        raise ValueError(
            f"the tokenizer has {len(policy.tokenizer)} tokens, the model {size}; "
            "hint: take both from one source"
        )
    tokens = (torch.arange(8, device=policy.device).view(2, 4) * 7 + 1) % size
    try:
        own = model(input_ids=tokens, use_cache=False).logits
        logits, start = policy(tokens), policy(tokens[:, :2])
        cache = policy.cache(2)
        first = policy.advance(tokens, torch.tensor([4, 2], device=policy.device), cache, None)
        second = policy.advance(tokens[1:, 2:], None, cache, torch.tensor([1], device=policy.device))
    except (AttributeError, IndexError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"the engine cannot run {name}: {type(error).__name__}: {_brief(error)}") from error
    for got, expected, fault in (
        (start, logits[:, :2], "lets a token see later ones: an encoder, no causal language model"),
        (logits, own, "changes its logits at the end in a way that this adapter does not know"),
        (torch.stack((first[0], second[0])), logits[:, 3], "gives other logits from a cache of ragged rows"),
    ):
        gap, scale = float((got - expected).abs().max()), float(expected.abs().max())
        if not gap <= scale * (1e-4 if logits.dtype == torch.float32 else 0.1):
            raise ValueError(f"{name} {fault}: off by {gap:.2g}, the largest logit is {scale:.2g}")


def _add_adapters(model, lora) -> None:
    from peft import LoraConfig, inject_adapter_in_model

    if isinstance(lora, int):
        lora = LoraConfig(r=lora, lora_alpha=2 * lora, target_modules="all-linear", task_type="CAUSAL_LM")
    inject_adapter_in_model(lora, model)
    for weight in model.parameters():
        if weight.requires_grad:  # a small step on a bfloat16 weight would round to no step
            weight.data = weight.data.float()


def _find(source, gguf_file: str | None) -> tuple[str, dict[str, str]]:
    """What `from_pretrained` wants: a folder or hub id, and the GGUF file in it."""
    if not isinstance(source, (str, Path)):
        raise TypeError(
            f"expected a hub id, folder or file, got {type(source).__name__}; "
            "hint: HFPolicy(model, tokenizer) wraps a model in memory"
        )
    path, hub = Path(source), not Path(source).is_absolute()
    if path.suffix == ".gguf":
        path, gguf_file, hub = path.parent, path.name, False
    wanted, file = gguf_file or "config.json", {"gguf_file": gguf_file} if gguf_file else {}
    if not path.is_dir():
        if hub:
            return str(source), file
        raise FileNotFoundError(f"there is no folder {path}; expected one that holds {wanted}")
    if not (path / wanted).exists():
        there = ", ".join(sorted(p.name for p in path.iterdir())[:8]) or "nothing"
        raise FileNotFoundError(f"no {wanted} in {path}, but {there}; hint: for GGUF give gguf_file=…")
    return str(path), file


def _unpacked(file: dict[str, str]) -> dict:
    """Asks for the plain weights of a GGUF file: some set-ups keep them packed, which cannot be trained."""
    try:
        from transformers import GgufConfig
    except ImportError:  # older versions always unpack
        return {}
    return {"quantization_config": GgufConfig(**file, dequantize=True)} if file else {}


def _brief(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def chat_format(tokenizer, model=None) -> Format:
    """How prompts and observations are written for a tokenizer, read off its chat template by rendering it.

    An observation is the next user turn, between the worlds' tags. A turn ends at the template's end-of-turn
    token and at every end token of tokenizer and model. Our own tokenizer has `TINY`; one without a template
    plain lines.
    """
    vocab = tokenizer.get_vocab()
    if all(token in vocab for token in SPECIALS):
        return TINY
    end = ""
    if tokenizer.chat_template:
        before, after, gap, again = _render(tokenizer)
        added = (t.content for t in tokenizer.added_tokens_decoder.values())
        end = max((t for t in added if gap.lstrip().startswith(t)), key=len, default="")
        gap = gap.lstrip().removeprefix(end) if end else gap
    else:
        opens = tokenizer("x").input_ids[0] == tokenizer.bos_token_id
        before, after, gap, again = tokenizer.bos_token if opens else "", "\n", "\n", "\n"
    ids = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    ids = ids if isinstance(ids, list) else [] if ids is None else [ids]
    ends = [end, tokenizer.eos_token, *tokenizer.convert_ids_to_tokens(ids)]
    stops = tuple(dict.fromkeys(t for t in ends if t and len(encode(tokenizer, t)) == 1))
    return Format(before, after, gap + OBS, OBS_END + again, stops, end, chat=True)


def _render(tokenizer) -> tuple[str, str, str, str]:
    """What a template writes before and after a first user message, then after an answer and a second one."""
    texts = ("FIRST", "ANSWER", "SECOND")
    chat = [{"role": r, "content": t} for r, t in zip(("user", "assistant", "user"), texts)]

    def render(messages) -> str:
        return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)

    short, long = render(chat[:1]), render(chat)
    if [short.count("FIRST"), *map(long.count, texts)] != [1, 1, 1, 1]:
        raise ValueError(f"the chat template must write each message once; {chat} became {long!r}")
    before, after = short.split("FIRST")
    gap, again = long.split("ANSWER")[1].split("SECOND")
    return before, after, gap, again
