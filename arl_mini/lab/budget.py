"""How much a chapter may spend: seconds for tests, minutes for readers, more where there is a GPU."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
NAMES = ("smoke", "cpu", "gpu")


@dataclass(frozen=True)
class Budget:
    """One of `smoke` (seconds, for tests), `cpu` (minutes on two cores) and `gpu` (a real small model).

    >>> Budget("smoke").pick(smoke=2, cpu=15, gpu=40)
    2
    """

    name: str

    def __post_init__(self):
        if self.name not in NAMES:
            raise ValueError(f"budget is {self.name!r}, expected one of {', '.join(NAMES)}; "
                             "set the environment variable ARL_BUDGET or call lab.budget('cpu')")

    def pick(self, *, smoke: T, cpu: T, gpu: T) -> T:
        """The value for this budget. All three are asked for, so that no chapter forgets one."""
        return {"smoke": smoke, "cpu": cpu, "gpu": gpu}[self.name]

    @property
    def device(self) -> str:
        """Where a chapter puts its model: "cuda" for the gpu budget, else "cpu"."""
        return self.pick(smoke="cpu", cpu="cpu", gpu="cuda")


def budget(name: str | None = None) -> Budget:
    """The budget called `name`, else the one in ARL_BUDGET, else `cpu`.

    Raises ValueError for an unknown name and RuntimeError for `gpu` where PyTorch sees no CUDA device.
    """
    chosen = Budget(name if name is not None else os.environ.get("ARL_BUDGET") or "cpu")
    if chosen.name == "gpu":
        import torch

        if not torch.cuda.is_available():
            raise RuntimeError("budget is 'gpu', but PyTorch sees no CUDA device; "
                               "use ARL_BUDGET=cpu, or install a CUDA build of PyTorch")
    return chosen
