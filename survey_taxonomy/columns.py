"""pandera schemas of the compiled tables: types, keys and closed values of every column."""

from __future__ import annotations

import pandas as pd

from .frames import COLUMNS, LEVELS
from .problems import Problem

KEYS = {
    "sources": ["source_id"],
    "sections": ["section_id"],
    "works": ["work_id"],
    "entries": ["entry_id"],
    "claims": ["entry_id", "attribute"],
    "evidence": ["evidence_id"],
    "corrections": ["correction_id"],
    "glossary": ["term_en"],
    "attributes": ["attribute"],
    "relations": ["src", "rel", "dst"],
}
#: columns that may be empty; every other text column must say something
OPTIONAL = set(
    "url version commit parent since chapter few venue first_public arxiv openreview acl doi section_id "
    "named meant note aliases value stated evidence status stated_url entry_id attribute says corrected "
    "knob symbol test values capabilities tasks".split()
)
CLOSED = {
    ("entries", "coverage"): LEVELS,
    ("coverage", "level"): LEVELS,
    ("placements", "role"): ("table_row", "text", "assigned", "history"),
    ("corrections", "confidence"): ("high", "medium", "low"),
    ("attributes", "form"): ("free", "one", "many"),
}


def schema_of(name: str):
    """The pandera ``DataFrameSchema`` of table ``name``."""
    import pandera.pandas as pa

    keys = KEYS.get(name, [])
    columns = {}
    for column in COLUMNS[name].split():
        kind = (
            bool
            if column in ("is_leaf", "seen")
            else "Int64"
            if column in ("rows", "order", "year", "ref")
            else object
        )
        checks = []
        if kind is object:
            checks.append(pa.Check(lambda s: s.map(type) == str, name="is text"))
            if column not in OPTIONAL or column in keys:
                checks.append(pa.Check(lambda s: s.str.len() > 0, name="is not empty"))
        if (name, column) in CLOSED:
            checks.append(pa.Check.isin(CLOSED[name, column]))
        columns[column] = pa.Column(kind, checks=checks, nullable=kind == "Int64")
    return pa.DataFrameSchema(columns, strict=True, ordered=True, unique=keys or None)


def check_columns(tables: dict[str, pd.DataFrame]) -> list[Problem]:
    """Every table against its schema."""
    from pandera.errors import SchemaErrors

    problems = []
    for name, frame in tables.items():
        try:
            schema_of(name).validate(frame, lazy=True)
        except SchemaErrors as errors:
            for case in errors.failure_cases.to_dict("records"):
                problems.append(
                    Problem(
                        "columns",
                        name,
                        f"column {case['column']}: got {case['failure_case']!r} in row "
                        f"{case['index']}, expected {case['check']}",
                        f"table {name}",
                        0,
                        str(case["column"]),
                    )
                )
    return problems
