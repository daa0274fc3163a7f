"""The cache against lists of lists, under any sequence of calls."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from arl_mini.models.cache import Cache
from tests.core.drawn import CHECKED

WIDTH, LAYERS = 2, 2


@CHECKED
@given(st.data())
def test_any_sequence_of_calls(data):
    """Appending chunks with padding to some rows or all, then choosing and doubling rows: each row holds its tokens."""
    rows = data.draw(st.integers(1, 4))
    cache = Cache(LAYERS, rows, WIDTH)
    held: list[list[list[int]]] = [[[] for _ in range(rows)] for _ in range(LAYERS)]
    stamp = 0
    for _ in range(data.draw(st.integers(1, 6))):
        n = len(held[0])
        if data.draw(st.booleans()):
            chosen = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=5))
            cache.select(torch.tensor(chosen))
            held = [[list(layer[i]) for i in chosen] for layer in held]
            continue
        some = data.draw(st.none() | st.lists(st.integers(0, n - 1), min_size=1, max_size=n, unique=True))
        index = list(range(n)) if some is None else some
        new = data.draw(st.sampled_from([1, 2, 5, 70]))
        counts = data.draw(st.lists(st.integers(0, new), min_size=len(index), max_size=len(index)))
        ids = torch.tensor(some) if some is not None else None
        before = [len(held[0][i]) for i in index]
        positions, places, longest = cache.begin(new, ids)
        assert positions.tolist() == [[b + k for k in range(new)] for b in before]
        for layer in range(LAYERS):
            stamp += 1
            kv = (stamp * 10_000 + torch.arange(len(index) * new).float()).view(len(index), new, 1).expand(-1, -1, WIDTH)
            got = cache.append(layer, kv.contiguous(), places, ids, longest)
            assert got.shape == (len(index), longest, WIDTH)
            for line, (i, count) in enumerate(zip(index, counts)):
                held[layer][i] += kv[line, :count, 0].tolist()
                assert got[line, : len(held[layer][i]), 0].tolist() == held[layer][i]
        cache.commit(torch.tensor(counts), ids)
        assert cache.lengths.tolist() == [len(row) for row in held[0]]
        assert cache.longest >= max(map(len, held[0])) and cache.room >= cache.longest
    for layer in range(LAYERS):
        for i, row in enumerate(held[layer]):
            assert cache.layers[layer][i, : len(row), 1].tolist() == row


def test_one_number_commits_all_rows():
    cache = Cache(1, 3, WIDTH)
    cache.begin(4, None)
    cache.commit(4, None)
    cache.begin(2, torch.tensor([2, 0]))
    cache.commit(2, torch.tensor([2, 0]))
    assert cache.lengths.tolist() == [6, 4, 6] and cache.longest == 6


def test_room_grows_by_half_not_by_one():
    """Generation of n tokens copies the memory O(log n) times."""
    cache, grown = Cache(1, 2, WIDTH), 0
    for _ in range(2000):
        before = cache.room
        cache.begin(1, None)
        cache.commit(1, None)
        grown += cache.room != before
    assert grown < 15 and cache.room < 2 * 2000


def test_no_rows_left():
    cache = Cache(1, 2, WIDTH)
    cache.begin(3, None)
    cache.commit(3, None)
    cache.select(torch.tensor([], dtype=torch.long))
    assert cache.longest == 0 and len(cache.lengths) == 0
