"""A key-value cache whose rows have lengths of their own: no left padding, no shared position."""

import torch
from torch import Tensor


class Cache:
    """Keys and values side by side, one (rows, room, width) tensor a layer; `lengths` (rows,) are filled.

    Row i's token t always stands at place t. A call of the model is `begin`, one `append` a layer, `commit`.
    """

    def __init__(self, layers: int, rows: int, width: int, device=None, dtype=torch.float32):
        self.layers = [torch.empty(rows, 0, width, device=device, dtype=dtype) for _ in range(layers)]
        self.lengths = torch.zeros(rows, dtype=torch.long, device=device)
        self.longest = 0  # an upper bound of lengths.max(), known without asking the device

    def begin(self, new: int, rows: Tensor | None) -> tuple[Tensor, int]:
        """Makes room for `new` tokens a row. Returns the rows' lengths (n,) and how many places to read."""
        start = self.lengths if rows is None else self.lengths[rows]
        longest = self.longest + new
        if self.layers[0].shape[1] < longest:
            more = max(64, longest // 2) + longest - self.layers[0].shape[1]
            self.layers = [torch.cat((x, x.new_zeros(len(x), more, x.shape[2])), 1) for x in self.layers]
        return start, longest

    def append(self, layer: int, kv: Tensor, positions: Tensor, rows: Tensor | None, longest: int) -> Tensor:
        """Writes kv (n, q, width) at positions (n, q); returns what those rows hold, (n, longest, width).

        Padding beyond a row's count is written too: it lies past the row's length, where nobody looks, and
        the row's next token overwrites it.
        """
        store = self.layers[layer]
        index = torch.arange(len(store), device=store.device) if rows is None else rows
        store.index_put_((index[:, None], positions), kv)
        return store[:, :longest] if rows is None else store[:, :longest].index_select(0, rows)

    def commit(self, counts: Tensor, rows: Tensor | None) -> None:
        """The first counts[i] of the new tokens are real."""
        if rows is None:
            self.lengths = self.lengths + counts
        else:
            self.lengths = self.lengths.index_add(0, rows, counts)
        self.longest = int(self.lengths.max())

    def select(self, rows: Tensor) -> None:
        """Keeps the rows given, in that order; a row named twice is copied (one prefix, many tries)."""
        self.layers = [x.index_select(0, rows) for x in self.layers]
        self.lengths = self.lengths[rows]
        self.longest = int(self.lengths.max()) if len(rows) else 0
