"""Eyes for the tiny model: an encoder that makes a vector of its width of each patch of a picture or
spectrogram.

A picture enters as tokens whose ids hold their pixels (`arl_mini.pictures`). `read` looks words up in the
embedding and sends patches through the encoder, so a picture is a prefix of vectors in the prompt, and
another look in mid-episode is an observation like any other. The encoder is trained with the rest and saved
in the checkpoint.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..pictures import COLUMN, LEVELS, MARK, PLACES, ROW, SIDE


class PatchEncoder(nn.Module):
    """Patches to vectors: a two-layer perceptron on the pixels, plus a vector for the row and one for the
    column.

    As in ViT (Dosovitskiy et al. 2021) a patch becomes one token; there its map is linear.
    """

    def __init__(self, width: int, hidden: int, seed: int = 0):
        super().__init__()
        self.first = nn.Parameter(torch.empty(hidden, SIDE * SIDE))
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.second = nn.Parameter(torch.empty(width, hidden))
        self.row = nn.Parameter(torch.empty(PLACES, width))
        self.column = nn.Parameter(torch.empty(PLACES, width))
        generator = torch.Generator().manual_seed(seed)
        for weight, std in (
            (self.first, 0.5),
            (self.second, hidden**-0.5),
            (self.row, 0.1),
            (self.column, 0.1),
        ):
            nn.init.normal_(weight, std=std, generator=generator)

    def forward(self, pixels: Tensor, places: Tensor) -> Tensor:
        """pixels (n, h, w) from 0 to 1 with h·w = 16, places (n, 2) long: row and column → vectors (n, width)."""
        seen = F.silu(F.linear(pixels.flatten(1), self.first, self.bias))
        return F.linear(seen, self.second) + self.row[places[:, 0]] + self.column[places[:, 1]]


def unpack(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Ids of patches (n,) to pixels (n, 4, 4) from 0 to 1 and places (n, 2)."""
    bits = 3 * torch.arange(SIDE * SIDE, device=ids.device)
    pixels = (ids[:, None] >> bits & LEVELS - 1).float() / (LEVELS - 1)
    places = torch.stack([ids >> shift & PLACES - 1 for shift in (ROW, COLUMN)], 1)
    return pixels.unflatten(1, (SIDE, SIDE)), places


def read(ids: Tensor, words: Tensor, eyes: PatchEncoder | None) -> Tensor:
    """Vectors (..., width) of token ids (...): rows of `words` (vocab, width), patches as `eyes` sees them."""
    patch = ids >= MARK
    if not bool(patch.any()):
        return words.index_select(0, ids.flatten()).view(*ids.shape, -1)
    if eyes is None:
        raise ValueError("a picture came to a model without eyes; hint: TinyLM.new(size, tokenizer, eyes=64)")
    vectors = read(ids.masked_fill(patch, 0), words, None)
    return vectors.masked_scatter(patch[..., None], eyes(*unpack(ids[patch])))
