"""Policies: the tiny model, any Hugging Face model behind the same interface, tokenizer, heads, checkpoints."""

from . import tokenizer
from .checkpoints import load, save
from .format import TINY, Format
from .heads import RewardModel, ValueHead
from .patches import PatchEncoder
from .score import Scores, score
from .tiny import SIZES, TinyConfig, TinyLM

__all__ = [
    "Format", "HFPolicy", "PatchEncoder", "RewardModel", "SIZES", "Scores", "TINY", "TinyConfig", "TinyLM", "ValueHead",
    "load", "save", "score", "tokenizer",
]  # fmt: skip


def __getattr__(name: str):
    if name == "HFPolicy":  # imports transformers, so only when asked for
        from .hf import HFPolicy

        return HFPolicy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
