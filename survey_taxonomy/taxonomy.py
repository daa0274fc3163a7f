"""The survey as an object: one DataFrame a table, and the questions people ask of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from . import exports
from .cards import Card, LiteratureTable, make_card, make_table
from .frames import CAPABILITY, LEVELS, TASK, compile_tables
from .reading import DATA, read
from .rules.identity import key_of


@dataclass(frozen=True)
class Taxonomy:
    """All tables of the survey. Columns are listed in ``survey_taxonomy.frames.COLUMNS``."""

    sources: pd.DataFrame
    sections: pd.DataFrame
    works: pd.DataFrame
    citations: pd.DataFrame
    entries: pd.DataFrame
    placements: pd.DataFrame
    statements: pd.DataFrame
    claims: pd.DataFrame
    links: pd.DataFrame
    evidence: pd.DataFrame
    corrections: pd.DataFrame
    relations: pd.DataFrame
    coverage: pd.DataFrame
    glossary: pd.DataFrame
    attributes: pd.DataFrame

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Name → table, in the order of the fields."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def find(
        self,
        text: str | None = None,
        *,
        kind: str | None = None,
        section: str | None = None,
        capability: str | None = None,
        task: str | None = None,
        coverage: str | None = None,
        where: Mapping[str, str] | None = None,
    ) -> pd.DataFrame:
        """Entries that match everything given, with the attributes of ``where`` as further columns.

        ``text`` is looked for in name, aliases, note and the title of the work; ``section`` includes
        everything below it ('3.3' finds '3.3/rag-style'); ``coverage`` is the level or a better one;
        ``where`` maps an attribute to a value ({'kl': 'none'}). Raises ``ValueError`` for an unknown
        section, attribute or value.
        """
        found = self.entries
        if text is not None:
            hay = (
                found["name"]
                + " "
                + found["aliases"]
                + " "
                + found["note"]
                + " "
                + found["work_id"].map(self.works.set_index("work_id")["title"])
            )
            found = found[hay.str.contains(text, case=False, regex=False)]
        if section is not None:
            found = found[found["entry_id"].isin(self._in_section(section))]
        for column, value in (("kind", kind), ("capabilities", capability), ("tasks", task)):
            if value is not None:
                self._known(column, value)
                found = found[found[column].map(lambda cell, v=value: v in cell.split("; "))]
        if coverage is not None:
            self._known("coverage", coverage)
            found = found[found["coverage"].isin(LEVELS[: LEVELS.index(coverage) + 1])]
        for attribute, value in (where or {}).items():
            found = self._where(found, attribute, value)
        return found.reset_index(drop=True)

    def _where(self, found: pd.DataFrame, attribute: str, value: str) -> pd.DataFrame:
        if attribute not in set(self.attributes["attribute"]):
            raise ValueError(
                f"got attribute {attribute!r}, expected one of {', '.join(self.attributes['attribute'])}"
            )
        values = self.attribute(attribute)
        allowed = set("; ".join(values).split("; "))
        if value not in allowed:
            raise ValueError(
                f"no entry has {attribute} = {value!r}; values are {', '.join(sorted(allowed - {''}))}"
            )
        hits = values[values.map(lambda cell: value in cell.split("; "))]
        found = found[found["entry_id"].isin(hits.index)]
        return found.assign(**{attribute: found["entry_id"].map(values)})

    def _known(self, column: str, value: str) -> None:
        known = {
            "capabilities": list(dict.fromkeys([*CAPABILITY.values(), "collaboration"])),
            "tasks": list(TASK.values()),
            "coverage": list(LEVELS),
            "kind": sorted(set(self.entries["kind"])),
        }[column]
        if value not in known:
            raise ValueError(f"got {column} {value!r}, expected one of {', '.join(known)}")

    def _in_section(self, section: str) -> set[str]:
        below = set(self.below(section))
        return set(self.placements.loc[self.placements["section_id"].isin(below), "entry_id"])

    def below(self, section: str) -> list[str]:
        """``section`` and every section under it. Raises ``ValueError`` when there is no such section."""
        ids = list(self.sections["section_id"])
        if section not in ids:
            raise ValueError(
                f"got section {section!r}; sections look like '3.1', '4.2.1' or '3.1/external-guide'"
            )
        return [s for s in ids if s == section or s.startswith((section + ".", section + "/"))]

    def attribute(self, name: str) -> pd.Series:
        """Shown value of attribute ``name`` by entry_id (several values joined by '; ')."""
        rows = self.claims[self.claims["attribute"] == name]
        return rows.set_index("entry_id")["value"]

    def entry_id(self, name: str) -> str:
        """The id of an entry from its id, name or alias. Raises ``KeyError`` with near names."""
        if name in set(self.entries["entry_id"]):
            return name
        wanted = key_of(name)
        for row in self.entries.itertuples():
            if wanted in (key_of(n) for n in (row.name, *row.aliases.split("; "))):
                return row.entry_id
        near = [n for n in self.entries["name"] if wanted and wanted[:4] in key_of(n)][:5]
        raise KeyError(f"there is no entry {name!r}" + (f"; near names: {', '.join(near)}" if near else ""))

    def card(self, entry: str) -> Card:
        """Everything known about one entry (id, name or alias); shows itself in a notebook."""
        return make_card(self, self.entry_id(entry))

    def table(self, section: str) -> LiteratureTable:
        """The literature of a section and what of it this project realises; shows itself in a notebook."""
        return make_table(self, section)

    def bibtex(self, entries: Iterable[str]) -> str:
        """BibTeX records of the works behind ``entries`` (ids, names or aliases), each work once."""
        ids = [self.entry_id(name) for name in ([entries] if isinstance(entries, str) else entries)]
        works = self.entries.set_index("entry_id").loc[ids, "work_id"].drop_duplicates()
        return exports.bibtex(self.works.set_index("work_id").loc[works].reset_index())

    def matrix(self) -> pd.DataFrame:
        """Capability × task: how many entries stand at each crossing (rows 8, columns 8)."""
        rows = list(dict.fromkeys([*CAPABILITY.values(), "collaboration"]))
        counts = pd.DataFrame(0, index=rows, columns=list(TASK.values()))
        for entry in self.entries.itertuples():
            for row in filter(None, entry.capabilities.split("; ")):
                for column in filter(None, entry.tasks.split("; ")):
                    counts.loc[row, column] += 1
        return counts

    def model_sizes(self) -> pd.DataFrame:
        """Smallest and largest base model by entry, in billions of parameters, where the data says a size."""
        sizes = self.attribute("base_llm").str.findall(r"(?i)(\d+(?:\.\d+)?)B\b")
        sizes = sizes[sizes.str.len() > 0].map(lambda found: [float(n) for n in found])
        return (
            pd.DataFrame({"smallest": sizes.map(min), "largest": sizes.map(max)})
            .rename_axis("entry_id")
            .reset_index()
        )

    def stated_against_checked(self) -> pd.DataFrame:
        """Claims whose value was checked, with what the sources print: entry, attribute, stated, value,
        status.
        """
        done = ("confirmed", "contradicted", "refined", "variant", "unverified")
        rows = self.claims[self.claims["status"].isin(done)]
        return rows.merge(self.entries[["entry_id", "name"]], on="entry_id").reset_index(drop=True)

    def lineage(self) -> pd.DataFrame:
        """Edges of the algorithm family tree: src, dst, knob (what the variant changes)."""
        return self.relations[self.relations["rel"] == "variant_of"][["src", "dst", "knob"]].reset_index(
            drop=True
        )

    def editions(self) -> pd.DataFrame:
        """Table rows by edition: entry_id, table (numbered section), in_v3, in_list."""
        rows = self.placements[self.placements["role"] == "table_row"].copy()
        rows["table"] = rows["section_id"].str.extract(r"^(\d\.\d)")[0]
        seen = rows.groupby(["entry_id", "table"])["source_id"].agg(set).reset_index()
        seen["in_v3"] = seen["source_id"].map(lambda s: "S-v3" in s)
        seen["in_list"] = seen["source_id"].map(lambda s: "S-list" in s)
        return seen.drop(columns="source_id")

    def differences(self) -> pd.DataFrame:
        """Cells in which version 3 and the official list mean different things: entry_id, attribute, v3,
        list.
        """
        sides = [
            self.statements[self.statements["source_id"] == s].drop_duplicates(["entry_id", "attribute"])
            for s in ("S-v3", "S-list")
        ]
        rows = sides[0].merge(sides[1], on=["entry_id", "attribute"], suffixes=("_v3", "_list"))
        rows = rows[(rows["value_v3"] != rows["value_list"]) & (rows["attribute"] != "name")]
        rows = rows.rename(columns={"stated_v3": "v3", "stated_list": "list"})
        return rows[["entry_id", "attribute", "v3", "list"]].reset_index(drop=True)

    def upstream(self) -> str:
        """Ready-to-send text (Markdown) of all checked corrections, for the survey's authors."""
        return exports.upstream(self)

    def to_csv(self, folder: Path | str) -> list[Path]:
        """One CSV file a table in ``folder``; returns the paths."""
        return exports.to_csv(self.tables, Path(folder))

    def to_parquet(self, folder: Path | str) -> list[Path]:
        """One Parquet file a table in ``folder`` (needs pyarrow); returns the paths."""
        return exports.to_parquet(self.tables, Path(folder))

    def to_sqlite(self, path: Path | str) -> Path:
        """All tables in one SQLite file, written whole or not at all."""
        return exports.to_sqlite(self.tables, Path(path))

    def to_json(self, path: Path | str) -> Path:
        """All tables in one JSON file: {table: [row, …]}."""
        return exports.to_json(self.tables, Path(path))


def load(folder: Path | str = DATA) -> Taxonomy:
    """Read and compile the taxonomy (about a second). Raises ``DataError`` when the YAML cannot be read.

    The shipped data is checked by the tests; run ``python -m survey_taxonomy check`` after editing.
    """
    return Taxonomy(**compile_tables(read(folder)))
