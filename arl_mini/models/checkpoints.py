"""Checkpoints: one safetensors file with weights, shape, vocabulary and a card that says how it was made."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import torch

from ..files import write_whole
from .tiny import TinyConfig, TinyLM
from .tokenizer import SPECIALS, build, fingerprint

KIND = "arl_mini TinyLM 1"


def folder() -> Path:
    """Where shipped checkpoints lie: `data/checkpoints` of the checkout, or $ARL_DATA/checkpoints."""
    data = os.environ.get("ARL_DATA") or Path(__file__).resolve().parents[2] / "data"
    return Path(data) / "checkpoints"


def save(policy: TinyLM, path: str | Path, card: dict) -> None:
    """Writes a TinyLM, whole or not at all. card: plain data, such as command, accuracy, signal share."""
    from safetensors.torch import save as to_bytes

    from .tokenizer import decode

    tokenizer = policy.tokenizer
    words = [decode(tokenizer, [i]) for i in range(len(SPECIALS) + 256 + 10, len(tokenizer))]
    about = {
        "kind": KIND,
        "config": json.dumps(asdict(policy.config)),
        "words": json.dumps(words),
        "tokenizer": fingerprint(tokenizer),
        "card": json.dumps(card, sort_keys=True),
    }
    weights = {name: value.detach().cpu().contiguous() for name, value in policy.state_dict().items()}
    write_whole(path, lambda file: file.write(_sorted(to_bytes(weights, about))))


def _sorted(content: bytes) -> bytes:
    """The same file with its header in alphabetical order: safetensors writes it in any, and equal policies make equal files."""
    size = int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8 : 8 + size]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[8 + size :]


def load(name: str | Path, tokenizer=None) -> TinyLM:
    """A shipped checkpoint by name ('quest-novice') or any file that `save` wrote; `.card` holds its card.

    tokenizer: one the policy must fit (the checkpoint's own vocabulary otherwise); another vocabulary is an error.
    """
    path = Path(name)
    if path.suffix != ".safetensors":
        path = folder() / f"{name}.safetensors"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in folder().glob("*.safetensors"))) or f"none in {folder()}"
        raise FileNotFoundError(f"no checkpoint {name!s}; shipped ones: {known}")
    about, weights = _read(path)
    own = build(json.loads(about["words"]))
    if fingerprint(own) != about["tokenizer"]:
        raise ValueError(f"{path.name}: its vocabulary is not the one it was saved with; the file is damaged")
    if tokenizer is not None and fingerprint(tokenizer) != about["tokenizer"]:
        raise ValueError(
            f"{path.name} was trained with tokenizer {about['tokenizer']} ({len(own)} tokens); got "
            f"{fingerprint(tokenizer)} ({len(tokenizer)} tokens); hint: use the tokenizer of the loaded policy"
        )
    policy = TinyLM(TinyConfig(**json.loads(about["config"])), tokenizer or own)
    try:
        policy.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(f"{path.name}: weights do not fit the shape it names: {error}") from error
    policy.card = json.loads(about["card"])
    return policy


def _read(path: Path) -> tuple[dict, dict[str, torch.Tensor]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            about = file.metadata() or {}
            weights = {key: file.get_tensor(key) for key in file.keys()}
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is no safetensors file, or a damaged one: {error}") from error
    if about.get("kind") != KIND:
        raise ValueError(
            f"{path} holds {about.get('kind', 'foreign weights')!r}, expected {KIND!r}; "
            "hint: models.HFPolicy loads a folder or hub id of `transformers`"
        )
    return about, weights
