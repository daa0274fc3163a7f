"""A small tokenizer that can write any string: words of a world as one token each, all else as bytes.

`build(text)` makes a `PreTrainedTokenizerFast` from the words of a text sample. Each word carries the
space before it, each digit is one token, and bytes catch the rest, so decode(encode(s)) == s for every s.
There are no merges: nothing is trained, a vocabulary is just a list.
"""

import functools
from collections.abc import Iterable

from .. import pictures

PAD, END, SYSTEM, USER, BOT = "<pad>", "<end>", "<system>", "<user>", "<bot>"
ACT, ACT_END, OBS, OBS_END, THINK, THINK_END = "<act>", "</act>", "<obs>", "</obs>", "<think>", "</think>"
SPECIALS = (PAD, END, SYSTEM, USER, BOT, ACT, ACT_END, OBS, OBS_END, THINK, THINK_END)

# one digit, one word, one other character, each with at most one space before it; white space alone
PIECE = r" ?\p{N}| ?\p{L}+| ?[^\s\p{L}\p{N}]|\s"

# Tools render as one `name ( arguments )` line each; a tool call is an action whose arguments have names,
# `<act> go way = north</act>`, because a caller must find them again (`RESPONSE`); its result is an observation. Each
# message only appends, so a longer conversation starts with the shorter one's text.
CHAT_TEMPLATE = """\
{%- if tools %}{{ '<system> tools' }}{% for tool in tools %}{% set f = tool.function or tool %}\
{{ ' ' + f.name + ' (' }}{% for name in f.parameters.properties %}{{ ' ' + name }}{% endfor %}{{ ' ) .' }}\
{% endfor %}{% endif -%}
{%- for message in messages -%}
{%- if message.role == 'tool' %}{{ '<obs>' + message.content + '</obs>' }}
{%- elif message.role == 'assistant' %}\
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<bot>' }}{% endif %}\
{% generation %}{{ message.content or '' }}\
{%- for call in message.tool_calls or [] %}{% set f = call.function or call %}\
{{ '<act> ' + f.name }}{% for name, value in f.arguments.items() %}{{ ' ' + name + ' = ' + value | string }}{% endfor %}\
{{ '</act>' }}{% endfor %}{% if not message.tool_calls %}{{ '<end>' }}{% endif %}{% endgeneration %}
{%- else %}{{ '<' + message.role + '>' + message.content }}{% endif -%}
{%- endfor -%}
{%- if add_generation_prompt and messages[-1].role != 'tool' %}{{ '<bot>' }}{% endif -%}"""

# How `transformers` (5.13 and later) reads tool calls back out of what an assistant said.
RESPONSE = {
    "defaults": {"role": "assistant"},
    "start_anchor": [BOT, OBS_END],
    "fields": {
        "tool_calls": {
            "open_pattern": rf"{ACT} *(?P<name>[^\s<]+)",
            "close": ACT_END,
            "repeats": True,
            "content": "xml-inline",
            "content_args": {"tag_pattern": r" (?P<key>\w+) = (?P<value>.*?)(?= \w+ = |$)"},
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
        },
        "content": {"close": END, "content": "text"},
    },
}


def pieces(text: str) -> list[str]:
    """The words of a text as the tokenizer cuts them, special tokens and patches of pictures left out."""
    import regex

    text = pictures.PATCH.sub("\n", text)
    for token in SPECIALS:
        text = text.replace(token, "\n")
    return regex.findall(PIECE, text)


def build(words: str | Iterable[str] = ""):
    """A tokenizer whose vocabulary is the special tokens, all bytes, spaced digits and the words given.

    `words`: a text sample (its words are cut as `pieces` does) or the words themselves, space included.
    Returns a `transformers.PreTrainedTokenizerFast`, ready for TRL: pad and end tokens, a chat template that
    renders tools and is prefix-preserving.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = pieces(words) if isinstance(words, str) else list(words)
    letters = _byte_letters()
    spelled = ["".join(letters[b] for b in w.encode()) for w in [f" {d}" for d in range(10)] + words]
    vocab: dict[str, int] = {}
    for token in (*SPECIALS, *letters, *spelled):
        vocab.setdefault(token, len(vocab))
    core = Tokenizer(models.BPE(vocab=vocab, merges=[], ignore_merges=True))
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(PIECE), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIALS])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token=PAD, eos_token=END, clean_up_tokenization_spaces=False
    )
    tokenizer.chat_template, tokenizer.response_template = CHAT_TEMPLATE, RESPONSE
    tokenizer.pictures = True  # `encode` makes one id of a patch
    return tokenizer


def _byte_letters() -> list[str]:
    """The visible letter that byte-level BPE writes for each byte, in byte order."""
    from tokenizers import pre_tokenizers

    keep = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    spare = iter(range(256, 512))
    letters = [chr(b) if b in keep else chr(next(spare)) for b in range(256)]
    assert set(letters) == set(pre_tokenizers.ByteLevel.alphabet())
    return letters


@functools.lru_cache(maxsize=65536)
def encode(tokenizer, text: str) -> tuple[int, ...]:
    """Token ids of a text, special tokens recognised, none added. Cached: worlds repeat themselves.

    Patches of a picture (`arl_mini.pictures`) are one id each for the tokenizers of `build`, plain text for all others.
    """
    plain = functools.partial(tokenizer.encode, add_special_tokens=False)
    return pictures.encode(text, plain) if getattr(tokenizer, "pictures", False) else tuple(plain(text))


def decode(tokenizer, ids) -> str:
    """The exact text of token ids, special tokens kept."""
    plain = functools.partial(tokenizer.decode, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return pictures.decode(ids, plain)


def fingerprint(tokenizer) -> str:
    """A short hash of the vocabulary in id order: two tokenizers with the same one are interchangeable."""
    import hashlib

    vocab = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    return hashlib.sha256("\0".join(token for token, _ in vocab).encode()).hexdigest()[:16]
