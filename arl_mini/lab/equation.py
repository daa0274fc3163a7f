"""A formula beside the code that computes it, as a card in a notebook.

The formulas live in the package beside this one, by id: `formal/equations.py` knows them all. They are found by
name when asked for, so the lab knows nothing of decision processes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

REGISTRY = __package__.rpartition(".")[0] + ".formal.equations"


@dataclass(frozen=True)
class EquationCard:
    """One formula, shown in a cell as Markdown: title, LaTeX, how it is read here, code and test."""

    id: str
    markdown: str

    def __repr__(self) -> str:
        return self.markdown

    def _repr_markdown_(self) -> str:
        return self.markdown


def equation(id: str, *, card: Callable[[str], str] | None = None) -> EquationCard:
    """The card of the equation with this id, such as "survey-16" or "bellman"; show the result in a cell.

    card: where the Markdown of an id comes from; by default the registry of `arl_mini.formal`.
    Raises KeyError for an unknown id, naming those there are.
    """
    write = importlib.import_module(REGISTRY).card if card is None else card
    return EquationCard(id, write(id))
