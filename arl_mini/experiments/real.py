"""The real language model of the `gpu` budget: SmolLM2-135M-Instruct with adapters, or another named by the reader."""

import os

import torch

from .kinds import ByReward

NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"


def policy(source: str | None = None, rank: int = 8):
    """A language model with LoRA adapters of a rank, on the GPU where there is one.

    source: a hub id (fetched where the network is on), a folder or a GGUF file; by default what ARL_REAL_MODEL names, else
    SmolLM2-135M-Instruct. Raises what `models.HFPolicy.load` raises.
    """
    from ..models import HFPolicy

    device = "cuda" if torch.cuda.is_available() else "cpu"
    return HFPolicy.load(source or os.environ.get("ARL_REAL_MODEL") or NAME, lora=rank, device=device)


def chapters() -> dict[str, ByReward]:
    """Chapter → the run its `gpu` budget trains a real model with: the `REAL` of its module."""
    from . import CHAPTERS, chapter_module

    modules = {name: chapter_module(name) for name in CHAPTERS}
    return {name: module.REAL for name, module in modules.items() if hasattr(module, "REAL")}
