"""Random batches for property tests: ragged, with gaps, with rows that have no sampled token at all."""

from dataclasses import dataclass

import torch
from hypothesis import settings
from hypothesis import strategies as st

CHECKED = settings(max_examples=30, deadline=None, derandomize=True)
numbers = st.integers(-300, 300).map(lambda v: v / 100)
rewards = st.one_of(st.sampled_from([0.0, 1.0]), numbers)


@dataclass
class Drawn:
    """B rows of T positions, as lists and (by name) as float64 tensors."""

    x: list  # (B, T) any numbers
    y: list  # (B, T) other numbers
    mask: list  # (B, T) 0 or 1
    reward: list  # (B,)
    group: list  # (B,) any integers, in any order

    def __getattr__(self, name):
        if name.startswith("t_"):
            kind = torch.long if name == "t_group" else torch.float64
            return torch.tensor(getattr(self, name[2:]), dtype=kind)
        raise AttributeError(name)


def table(rows: int, columns: int, cell):
    return st.lists(st.lists(cell, min_size=columns, max_size=columns), min_size=rows, max_size=rows)


@st.composite
def batches(draw, filled: bool = False) -> Drawn:
    """filled: at least one sampled token in the batch."""
    B, T = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    mask = draw(table(B, T, st.integers(0, 1)))
    if filled and not any(map(any, mask)):
        mask[0][0] = 1
    return Drawn(
        x=draw(table(B, T, numbers)), y=draw(table(B, T, numbers)), mask=mask,
        reward=draw(st.lists(rewards, min_size=B, max_size=B)),
        group=draw(st.lists(st.sampled_from([-3, 0, 7, 10**12]), min_size=B, max_size=B)),
    )  # fmt: skip


def close(got, wanted, tolerance: float = 1e-9) -> bool:
    """Whether two arrays of numbers agree, as float64."""
    got = torch.as_tensor(got, dtype=torch.float64)
    wanted = torch.as_tensor(wanted, dtype=torch.float64)
    return got.shape == wanted.shape and bool(((got - wanted).abs() <= tolerance * (1 + wanted.abs())).all())
