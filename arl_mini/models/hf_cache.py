"""Rows of different lengths in one key-value cache, for `transformers` models: full or windowed attention.

`transformers` keeps one length for a whole batch. Here each row's keys and values stand at that row's own
positions (our `Cache`); a model sees them through a `transformers` Cache made for one call, and a 4-D mask
tells it who may look where.
"""

import functools

import torch
from torch import Tensor

from .cache import Cache

FULL, SLIDING = "full_attention", "sliding_attention"  # the names of `transformers` for two kinds of layers


class RaggedCache(Cache):
    """Our cache for models whose key and value sizes show only when a layer first writes."""

    def __init__(self, layers: int, rows: int, device, dtype: torch.dtype):
        super().__init__(layers, rows, 0, device, dtype)

    def write(self, layer: int, keys: Tensor, values: Tensor, places: Tensor, rows, longest: int) -> tuple:
        """Keeps keys (n, heads, q, d) and values (n, heads, q, e) of the call that `begin` opened; returns
        all that these rows hold, (n, heads, longest, d) and (n, heads, longest, e)."""
        new = torch.cat((keys, values), -1).transpose(1, 2)  # (n, q, heads, d + e)
        if self.layers[layer].shape[2] == 0:
            self.layers[layer] = new.new_zeros(len(self.index), self.room, new.shape[2:].numel())
        past = self.append(layer, new.flatten(2), places, rows, longest)
        past = past.unflatten(2, new.shape[2:]).transpose(1, 2)
        return past.split((keys.shape[-1], values.shape[-1]), -1)


def view(cache: RaggedCache, places: Tensor, rows: Tensor | None, longest: int, new: int):
    """The cache as a `transformers` model sees it in one call of `new` tokens that `Cache.begin` opened."""
    return _view_class()(cache, places, rows, longest, new)


@functools.cache
def _view_class():
    from transformers.cache_utils import Cache as TransformersCache

    class View(TransformersCache):
        def __init__(self, cache, places, rows, longest, new):
            super().__init__(layers=[])
            self.cache, self.place, self.past = cache, (places, rows, longest), longest - new

        def update(self, key_states, value_states, layer_idx, *_, **__):
            return self.cache.write(layer_idx, key_states, value_states, *self.place)

        def get_seq_length(self, layer_idx=0):
            return self.past

    return View


def attention_kinds(config) -> tuple[str, ...]:
    """The kinds of layers a model has; ValueError where one keeps anything but keys and values."""
    kinds = getattr(config, "layer_types", None) or getattr(config, "attention_layers", None)
    if not kinds:
        kinds = [SLIDING if getattr(config, "sliding_window", None) else FULL]
    odd = sorted(set(kinds) - {FULL, SLIDING})
    if odd:
        raise ValueError(
            f"{config.model_type} has layers of kind {', '.join(odd)}; the engine knows {FULL}, {SLIDING}; "
            "hint: take a model such as Llama, Qwen2, Qwen3, Mistral, Gemma or GPT-2"
        )
    return tuple(dict.fromkeys(kinds))


def masks(positions: Tensor, longest: int, kinds: tuple[str, ...], window: int | None, dtype: torch.dtype):
    """What to add to attention scores, (n, 1, q, longest): 0 where the token at `positions` (n, q) may look.

    One tensor, or {kind: tensor} where the model has layers of both kinds. A sliding layer sees the last
    `window` tokens, its own among them.
    """
    # how far a key stands behind the token that looks
    back = positions[..., None] - torch.arange(longest, device=positions.device)
    blocked = {FULL: back < 0}
    if SLIDING in kinds:
        blocked[SLIDING] = blocked[FULL] | (back >= window)
    least = torch.finfo(dtype).min
    made = {k: torch.zeros_like(back, dtype=dtype).masked_fill(blocked[k], least)[:, None] for k in kinds}
    return made if len(kinds) > 1 else made[kinds[0]]
