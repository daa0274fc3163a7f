"""Reads the oracle cases: numbers that public code computed, one JSON file a family, each case with its own tolerance."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch


@dataclass(frozen=True)
class Case:
    """One run of a peer: what went in, what came out, and how closely it must be met."""

    id: str
    peer: dict  # repository, commit, path, function
    inputs: dict
    hyper: dict
    outputs: dict
    grads: dict
    rtol: float
    atol: float
    note: str

    def tensor(self, name: str) -> torch.Tensor:
        """An input as float64."""
        return torch.tensor(self.inputs[name], dtype=torch.float64)

    @property
    def group(self) -> torch.Tensor:
        """The input `group`, (B,) long."""
        return torch.tensor(self.inputs["group"])

    def meets(self, got, wanted) -> None:
        """Asserts |got − wanted| ≤ atol + rtol·|wanted| everywhere."""
        got = torch.as_tensor(got, dtype=torch.float64).detach()
        wanted = torch.as_tensor(wanted, dtype=torch.float64)
        torch.testing.assert_close(got, wanted, rtol=self.rtol, atol=self.atol, msg=lambda m: f"{self.id}: {m}")


def cases(family: str, start: str = "") -> list:
    """The cases of a file whose id starts with `start`, as pytest parameters."""
    text = (Path(__file__).parent / f"{family}.json").read_text(encoding="utf-8")
    empty = {"grads": {}, "note": ""}
    found = [Case(**(empty | c)) for c in json.loads(text)["cases"] if c["id"].startswith(start)]
    assert found, f"no case of {family} starts with {start!r}"
    return [pytest.param(case, id=case.id) for case in found]
