"""Write the tables to files, works as BibTeX, corrections as text for upstream. Files appear whole or not at
all.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from .taxonomy import Taxonomy

_ESCAPES = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}"}


def whole(path: Path, write) -> Path:
    """Let ``write`` fill a file beside ``path``, then put it in its place: an old file stays until the new
    one is whole.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    write(part)
    os.replace(part, path)
    return path


def to_csv(tables: dict[str, pd.DataFrame], folder: Path) -> list[Path]:
    return [
        whole(folder / f"{name}.csv", lambda p, f=frame: f.to_csv(p, index=False))
        for name, frame in tables.items()
    ]


def to_parquet(tables: dict[str, pd.DataFrame], folder: Path) -> list[Path]:
    if find_spec("pyarrow") is None:
        raise ImportError("Parquet files need pyarrow (pip install pyarrow); CSV, SQLite and JSON do not")
    return [
        whole(folder / f"{name}.parquet", lambda p, f=frame: f.to_parquet(p, index=False))
        for name, frame in tables.items()
    ]


def to_sqlite(tables: dict[str, pd.DataFrame], path: Path) -> Path:
    def write(part: Path) -> None:
        connection = sqlite3.connect(part)
        try:
            for name, frame in tables.items():
                frame.to_sql(name, connection, index=False)
            connection.commit()
        finally:
            connection.close()

    return whole(path, write)


def as_json(tables: dict[str, pd.DataFrame]) -> str:
    """All tables as JSON text: {table: [row, …]}; missing numbers are null."""
    rows = {
        name: json.loads(frame.to_json(orient="records", force_ascii=False)) for name, frame in tables.items()
    }
    return json.dumps(rows, ensure_ascii=False)


def to_json(tables: dict[str, pd.DataFrame], path: Path) -> Path:
    return whole(path, lambda p: p.write_text(as_json(tables), encoding="utf-8"))


def escape_tex(text: str) -> str:
    """Text with TeX's special characters escaped."""
    return "".join(_ESCAPES.get(c, c) for c in text.replace("\\", "\\textbackslash "))


def bibtex(works: pd.DataFrame) -> str:
    """One record a work; 'et al.' becomes 'and others'. Titles keep their capitals by braces."""
    records = []
    for work in works.itertuples():
        kind = "misc" if work.kind != "paper" or work.venue in ("", "arXiv") else "inproceedings"
        fields = {
            "title": "{" + escape_tex(work.title) + "}",
            "author": escape_tex(work.authors.replace(" et al.", " and others")),
            "year": str(work.year),
        }
        if kind == "inproceedings":
            fields["booktitle"] = escape_tex(work.venue)
        if work.arxiv:
            fields |= {"eprint": work.arxiv, "archivePrefix": "arXiv"}
        if work.doi:
            fields["doi"] = work.doi
        if work.url:
            fields["url"] = work.url
        body = ",\n".join(f"  {key} = {{{value}}}" for key, value in fields.items())
        records.append(f"@{kind}{{{re.sub(r'[^A-Za-z0-9-]', '', work.work_id)},\n{body}\n}}")
    return "\n\n".join(records) + "\n"


def upstream(taxonomy: Taxonomy) -> str:
    """Markdown for the survey's authors: every checked correction with its evidence, grouped by issue."""
    checked = taxonomy.corrections[taxonomy.corrections["status"] == "checked"]
    evidence = taxonomy.evidence.set_index("evidence_id")
    names = taxonomy.entries.set_index("entry_id")["name"]
    lines = [
        "# Corrections to the survey and its list",
        "",
        f"{len(checked)} points, each with evidence. Row numbers are those of the list at commit 3006129.",
        "",
    ]
    for issue, group in checked.groupby("issue", sort=True):
        lines += [f"## {issue.replace('_', ' ')}", ""]
        for row in group.itertuples():
            target = names.get(row.target_id, row.target_id)
            proof = "; ".join(
                f"{evidence.loc[e, 'passage']} ({evidence.loc[e, 'url']})"
                for e in row.evidence.split("; ")
                if e
            )
            lines.append(
                f"- **{row.correction_id}** {target}, {row.field}: stated {row.stated!r}; "
                f"should be {row.corrected!r}. Evidence: {proof}"
            )
        lines.append("")
    return "\n".join(lines)
