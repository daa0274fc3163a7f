"""How far the project realises the survey, and what is built but not yet in coverage.yml."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from .frames import LEVELS
from .rules.identity import key_of
from .rules.realised import ROOT

if TYPE_CHECKING:
    from .taxonomy import Taxonomy


def public_names(package: Path) -> list[str]:
    """The names in ``__all__`` of a package, read from its source; [] when there is none."""
    file = package / "__init__.py"
    if not file.exists():
        return []
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "__all__" for t in node.targets):
            return list(ast.literal_eval(node.value))
    return []


def progress(taxonomy: Taxonomy) -> pd.DataFrame:
    """Entries by numbered section and level of coverage: rows '2.7', '3.1', …, columns the levels."""
    level = taxonomy.entries.set_index("entry_id")["coverage"]
    pairs = {
        (".".join(p.section_id.split("/")[0].split(".")[:2]), p.entry_id)
        for p in taxonomy.placements.itertuples()
    }
    counts = Counter((section, level[entry]) for section, entry in pairs)
    sections = sorted({section for section, _ in pairs})
    return pd.DataFrame(
        [[counts[s, k] for k in LEVELS] for s in sections], index=sections, columns=list(LEVELS)
    )


def missing_coverage(taxonomy: Taxonomy, root: Path = ROOT) -> dict[str, str]:
    """entry_id → symbol of algorithms that exist in the library under the entry's name but are not
    covered.
    """
    done = taxonomy.coverage.loc[taxonomy.coverage["level"].isin(LEVELS[:2]), "entry_id"]
    found = {}
    for name in public_names(root / "arl_mini" / "algorithms"):
        for entry in taxonomy.entries[taxonomy.entries["kind"] == "algorithm"].itertuples():
            names = [entry.name, *filter(None, entry.aliases.split("; "))]
            if key_of(name) in map(key_of, names) and entry.entry_id not in set(done):
                found[entry.entry_id] = f"arl_mini.algorithms.{name}"
    return found
