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
        self.index = torch.arange(rows, device=device)
        self.longest = 0  # an upper bound of lengths.max(), known without asking the device

    @property
    def room(self) -> int:
        """Positions a row that memory is held for."""
        return self.layers[0].shape[1]

    def begin(self, new: int, rows: Tensor | None) -> tuple[Tensor, Tensor, int]:
        """Makes room for `new` tokens a row. Returns their positions (n, new), their places in a layer seen as one
        list of rows·room vectors (n·new,), and how many positions of a row are to be read."""
        longest = self.longest + new
        if self.room < longest:
            more = max(64, longest // 2) + longest - self.room
            self.layers = [torch.cat((x, x.new_zeros(len(x), more, x.shape[2])), 1) for x in self.layers]
        start, index = self.lengths[:, None], self.index[:, None]
        if rows is not None:
            start, index = start[rows], rows[:, None]
        positions = start if new == 1 else start + torch.arange(new, device=start.device)
        return positions, (index * self.room + positions).flatten(), longest

    def append(self, layer: int, kv: Tensor, places: Tensor, rows: Tensor | None, longest: int) -> Tensor:
        """Writes kv (n, q, width) at the places of `begin`; returns what those rows hold, (n, longest, width).

        Padding beyond a row's count is written too: it lies past the row's length, where nobody looks, and
        the row's next token overwrites it.
        """
        store = self.layers[layer]
        store.view(-1, store.shape[2]).index_copy_(0, places, kv.flatten(0, 1))
        return store[:, :longest] if rows is None else store[:, :longest].index_select(0, rows)

    def commit(self, counts: Tensor | int, rows: Tensor | None) -> None:
        """The first counts[i] of the new tokens are real (one number: the same for all)."""
        if rows is None:
            self.lengths = self.lengths + counts
        else:
            self.lengths = self.lengths.index_add(0, rows, torch.as_tensor(counts, device=rows.device).expand(len(rows)))
        self.longest = int(self.lengths.max())

    def select(self, rows: Tensor) -> None:
        """Keeps the rows given, in that order; a row named twice is copied (one prefix, many tries)."""
        self.layers = [x.index_select(0, rows) for x in self.layers]
        self.lengths, self.index = self.lengths[rows], torch.arange(len(rows), device=rows.device)
        self.longest = int(self.lengths.max()) if len(rows) else 0
