"""TinyLM: a small Llama-shaped decoder that a student can read and a laptop can train.

RMSNorm, rotary positions, SwiGLU, tied embeddings, and one key-value head shared by all query heads
(multi-query attention: Shazeer 2019), which keeps the cache small and generation fast on a CPU.
`to_hf()` / `from_hf()` convert to and from a `transformers` Llama with equal logits.
"""

import copy
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..pictures import MARK
from .cache import Cache
from .format import TINY, Format
from .patches import PatchEncoder, read


@dataclass(frozen=True)
class TinyConfig:
    """Shape of a TinyLM. `width` must be divisible by 2·`heads` (rotary pairs)."""

    vocab: int
    width: int = 64
    layers: int = 2
    heads: int = 2
    hidden: int = 192
    theta: float = 10_000.0
    eyes: int = 0  # hidden size of the encoder of pictures, 0: none

    def __post_init__(self):
        if self.width % (2 * self.heads):
            raise ValueError(f"width {self.width} must be a multiple of 2·heads = {2 * self.heads}")


SIZES = {  # parameters without the embedding: 0.10M, 0.70M, 4.8M
    "nano": dict(width=64, layers=2, heads=2, hidden=192),
    "micro": dict(width=128, layers=4, heads=4, hidden=352),
    "mini": dict(width=256, layers=7, heads=8, hidden=704),
}


class Block(nn.Module):
    """x + attention(norm(x)), then x + SwiGLU(norm(x))."""

    def __init__(self, config: TinyConfig):
        super().__init__()
        self.heads, self.dim = config.heads, config.width // config.heads
        self.attn_norm = nn.Parameter(torch.ones(config.width))
        self.qkv = nn.Parameter(torch.empty(config.width + 2 * self.dim, config.width))
        self.out = nn.Parameter(torch.empty(config.width, config.width))
        self.mlp_norm = nn.Parameter(torch.ones(config.width))
        self.gate_up = nn.Parameter(torch.empty(2 * config.hidden, config.width))
        self.down = nn.Parameter(torch.empty(config.width, config.hidden))

    def project(self, x: Tensor, turn: Tensor) -> tuple[Tensor, Tensor]:
        """Queries (..., width) and key-value pairs (..., 2·dim); queries and keys turned by their position.

        turn (..., heads + 2, dim/2): one factor for each head, the key, and the value (whose factor is 1).
        """
        qkv = F.linear(F.rms_norm(x, self.attn_norm.shape, self.attn_norm, 1e-6), self.qkv)
        pairs = qkv.view(*x.shape[:-1], self.heads + 2, self.dim // 2, 2)
        turned = torch.view_as_real(torch.view_as_complex(pairs) * turn).view(qkv.shape)
        return turned[..., : x.shape[-1]], turned[..., x.shape[-1] :]

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Residual of the attention output (..., width), then the feed-forward part."""
        x = x + F.linear(attended, self.out)
        normed = F.rms_norm(x, self.mlp_norm.shape, self.mlp_norm, 1e-6)
        gate, up = F.linear(normed, self.gate_up).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, self.down)


class TinyLM(nn.Module):
    """A causal language model with the interface of every policy here:

    `hidden(tokens, lengths)`  (B, T) → (B, T, width)   training and scoring, right padding
    `head(hidden)`             (..., width) → (..., vocab)
    `cache(rows)`, `advance(tokens, counts, cache, rows)`   generation, see `advance`
    `copy()`, `.tokenizer`, `.format`, `.width`, `.device`
    """

    format: Format = TINY

    def __init__(self, config: TinyConfig, tokenizer=None, seed: int = 0):
        super().__init__()
        self.config, self.tokenizer = config, tokenizer
        self.embed = nn.Parameter(torch.empty(config.vocab, config.width))
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.Parameter(torch.ones(config.width))
        generator = torch.Generator().manual_seed(seed)
        std = 0.64 / config.width**0.5  # 0.08 at width 64: small models learn twice as fast as from 0.02
        for weight in self.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=std, generator=generator)
        self.eyes = PatchEncoder(config.width, config.eyes, seed) if config.eyes else None
        self.register_buffer("turns", torch.empty(0, dtype=torch.complex64), persistent=False)

    @classmethod
    def new(cls, size: str, tokenizer, seed: int = 0, eyes: int = 0) -> "TinyLM":
        """A fresh model of a named size ('nano', 'micro', 'mini') for a tokenizer; eyes: as in `TinyConfig`."""
        if size not in SIZES:
            raise ValueError(f"unknown size {size!r}; expected one of {', '.join(SIZES)}")
        return cls(TinyConfig(vocab=len(tokenizer), eyes=eyes, **SIZES[size]), tokenizer, seed)

    @property
    def width(self) -> int:
        """Size of a hidden state."""
        return self.config.width

    @property
    def device(self) -> torch.device:
        return self.embed.device

    def copy(self) -> "TinyLM":
        """An independent copy (reference or old policy); the tokenizer is shared."""
        tokenizer, self.tokenizer = self.tokenizer, None
        twin = copy.deepcopy(self)
        self.tokenizer = twin.tokenizer = tokenizer
        return twin

    def head(self, hidden: Tensor) -> Tensor:
        """Logits over the vocabulary."""
        return F.linear(F.rms_norm(hidden, self.norm.shape, self.norm, 1e-6), self.embed)

    def _turn(self, positions: Tensor, longest: int) -> Tensor:
        """e^{i·position·frequency} for rotary embeddings, (..., heads + 2, dim/2), from a growing table."""
        if len(self.turns) < longest:
            heads, dim = self.config.heads, self.config.width // self.config.heads
            freq = self.config.theta ** (-torch.arange(0, dim, 2, device=self.device).double() / dim)
            angle = torch.arange(max(256, 2 * longest), device=self.device)[:, None, None] * freq
            angle = angle.repeat(1, heads + 2, 1)
            angle[:, -1] = 0  # values are not turned
            with torch.inference_mode(False):  # kept for training too
                self.turns = torch.polar(torch.ones_like(angle), angle).to(torch.complex64)
        return self.turns[positions]

    def hidden(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Last hidden states (B, T, width) of right-padded rows; what stands at padding means nothing.

        Norms and matrix products run once for each distinct beginning (see `shared_beginnings`), so neither padding nor
        what the tries of one prompt have in common costs anything there.
        """
        B, T = tokens.shape
        if lengths is None:
            lengths = torch.full((B,), T, device=tokens.device)
        place, owner = shared_beginnings(tokens, lengths)  # (N,), (B·T,)
        turn = self._turn(place % T, T)
        x = read(tokens.flatten()[place], self.embed, self.eyes)  # (N, width)
        for block in self.blocks:
            q, kv = block.project(x, turn)
            q, kv = (part.index_select(0, owner).view(B, T, -1) for part in (q, kv))
            x = block.finish(x, _causal(q, kv, block).index_select(0, place))
        return x.index_select(0, owner).view(B, T, -1)

    def forward(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Logits (B, T, vocab) of right-padded rows."""
        return self.head(self.hidden(tokens, lengths))

    def cache(self, rows: int) -> Cache:
        """An empty cache for `rows` rows."""
        dim = self.config.width // self.config.heads
        return Cache(self.config.layers, rows, 2 * dim, self.device, self.embed.dtype)

    def advance(self, tokens: Tensor, counts: Tensor | None, cache: Cache, rows: Tensor | None) -> Tensor:
        """Appends tokens to a cache; logits (n, vocab) for the token after each row's last one.

        tokens (n, q): row i brings its first counts[i] tokens (all q where counts is None), the rest is
        padding. rows (n,): the cache rows they belong to, all where None. Rows have lengths of their own.
        """
        positions, places, longest = cache.begin(tokens.shape[1], rows)
        turn = self._turn(positions, longest)
        blocked = torch.arange(longest, device=tokens.device) > positions[..., None]  # (n, q, longest)
        bias = torch.where(blocked, -torch.inf, 0.0).to(self.embed.dtype)
        if tokens.shape[1] > 1:  # all heads of a position share its bias
            bias = bias.repeat_interleave(self.config.heads, 1)
        x = read(tokens, self.embed, self.eyes)
        for layer, block in enumerate(self.blocks):
            q, kv = block.project(x, turn)
            past = cache.append(layer, kv, places, rows, longest)  # (n, longest, 2·dim)
            keys, values = past[..., : block.dim], past[..., block.dim :]
            q = q.reshape(len(x), -1, block.dim)  # heads of a position side by side
            scores = torch.baddbmm(bias, q, keys.transpose(1, 2), alpha=block.dim**-0.5)
            x = block.finish(x, torch.bmm(scores.softmax(-1), values).view(x.shape))
        cache.commit(tokens.shape[1] if counts is None else counts, rows)
        return self.head(x[:, -1] if counts is None else x[torch.arange(len(x)), (counts - 1).clamp(min=0)])

    def to_hf(self):
        """The same model as a `transformers.LlamaForCausalLM` (equal logits in float32)."""
        from .convert import to_llama

        return to_llama(self)

    @classmethod
    def from_hf(cls, llama, tokenizer=None) -> "TinyLM":
        """A TinyLM from a Llama with one key-value head, tied embeddings and no biases."""
        from .convert import from_llama

        return from_llama(llama, tokenizer)


def shared_beginnings(tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Finds rows that begin alike: a token's state depends on what stands before it, so equal beginnings share it.

    Returns place (N,): where in the flat (B·T,) each of the N distinct beginnings first ends; and owner (B·T,): which of
    the N each position has (padding: 0). With no two rows alike, N is the number of real tokens.
    """
    ids, ends = tokens.cpu().numpy(), lengths.cpu().numpy()
    B, T = ids.shape
    if ids.max() >= MARK:  # ids of patches are too large to multiply
        ids = np.unique(ids, return_inverse=True)[1].reshape(B, T)
    owner = np.zeros((B, T), np.int64)
    place, node = [], np.zeros(B, np.int64)  # node: the beginning that each row has reached
    for t in range(T):
        live = (ends > t).nonzero()[0]
        key = node[live] * (int(ids.max()) + 1) + ids[live, t]
        _, first, index = np.unique(key, return_index=True, return_inverse=True)
        node[live] = owner[live, t] = len(place) + index
        place.extend((live[first] * T + t).tolist())
    return (torch.from_numpy(x).to(tokens.device) for x in (np.array(place), owner.reshape(-1)))


def _causal(q: Tensor, kv: Tensor, block: Block) -> Tensor:
    """Causal attention of right-padded rows, (B·T, width). Padding comes last, so no row sees it."""
    keys, values = (h[:, None].expand(-1, block.heads, -1, -1) for h in kv.chunk(2, -1))
    q = q.unflatten(-1, (block.heads, block.dim)).transpose(1, 2)
    return F.scaled_dot_product_attention(q, keys, values, is_causal=True).transpose(1, 2).flatten(2).flatten(0, 1)
