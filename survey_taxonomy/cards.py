"""Paper cards and literature tables: plain data that shows itself as text, Markdown or HTML.

Everything that comes from a source is escaped; links go to http(s) addresses only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

import pandas as pd

from . import exports

if TYPE_CHECKING:
    from .taxonomy import Taxonomy

LEVEL_WORDS = {
    "implemented": "implemented",
    "toy_analogue": "toy analogue",
    "exercise": "exercise",
    "discussed": "discussed",
    "listed": "",
}


def link(text: str, url: str) -> str:
    """An HTML link with both parts escaped; the bare text when the address is not http(s)."""
    if not url.startswith(("https://", "http://")):
        return escape(text)
    return f'<a href="{escape(url, quote=True)}" rel="noopener noreferrer">{escape(text)}</a>'


def html_table(frame: pd.DataFrame, links: dict[str, list[str]] | None = None) -> str:
    """``frame`` as an HTML table; ``links`` maps a column to one URL a row."""
    head = "".join(f'<th scope="col" style="text-align:left">{escape(str(c))}</th>' for c in frame.columns)
    body = []
    for i, row in enumerate(frame.itertuples(index=False)):
        cells = [
            link(str(v), links[c][i]) if links and c in links else escape(str(v))
            for c, v in zip(frame.columns, row, strict=True)
        ]
        body.append("<tr>" + "".join(f'<td style="text-align:left">{c}</td>' for c in cells) + "</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


@dataclass(frozen=True)
class LiteratureTable:
    """Rows of one section: ``frame`` has method, year, idea, attributes of the section, and coverage here."""

    section: str
    title: str
    frame: pd.DataFrame
    urls: list[str] = field(repr=False)

    def _repr_html_(self) -> str:
        title = f"<p><b>{escape(self.section)} {escape(self.title)}</b></p>"
        return title + html_table(self.frame, {"method": self.urls})

    def _repr_markdown_(self) -> str:
        return self.to_markdown()

    def to_markdown(self) -> str:
        """A Markdown table with links; pipes in cells are escaped."""
        columns = list(self.frame.columns)
        lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
        for url, row in zip(self.urls, self.frame.itertuples(index=False), strict=True):
            cells = [escape(str(v)).replace("|", "\\|") for v in row]
            cells[0] = f"[{cells[0]}]({url})" if url else cells[0]
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines)

    def __str__(self) -> str:
        return f"{self.section} {self.title}\n{self.frame.to_string(index=False)}"

    def __len__(self) -> int:
        return len(self.frame)


def make_table(taxonomy: Taxonomy, section: str) -> LiteratureTable:
    """See ``Taxonomy.table``."""
    entries = taxonomy.find(section=section)
    claims = taxonomy.claims[taxonomy.claims["entry_id"].isin(entries["entry_id"])]
    printed = taxonomy.statements[taxonomy.statements["section_id"].isin(taxonomy.below(section))]
    shown = [
        a
        for a in printed["attribute"].drop_duplicates()
        if a not in ("name", "mechanism", "group", "rl_group", "year", "objective_type")
    ]
    wide = claims.pivot(index="entry_id", columns="attribute", values="value")
    frame = pd.DataFrame({"method": entries["name"], "year": entries["year"], "idea": entries["note"]})
    for attribute in shown:
        frame[attribute.replace("_", " ")] = entries["entry_id"].map(wide[attribute]).fillna("")
    frame["here"] = entries["coverage"].map(LEVEL_WORDS)
    works = taxonomy.works.set_index("work_id")["url"]
    order = frame.sort_values(["year", "method"], kind="stable").index
    title = taxonomy.sections.set_index("section_id").loc[section, "title_en"]
    return LiteratureTable(
        section,
        title,
        frame.loc[order].reset_index(drop=True),
        list(entries["work_id"].map(works).loc[order]),
    )


@dataclass(frozen=True)
class Card:
    """One entry: what it is, its work, where the survey puts it, what was stated and checked, links,
    relations.
    """

    entry_id: str
    name: str
    kind: str
    note: str
    title: str
    authors: str
    year: int
    url: str
    coverage: str
    placements: pd.DataFrame = field(repr=False)
    claims: pd.DataFrame = field(repr=False)
    links: pd.DataFrame = field(repr=False)
    relations: pd.DataFrame = field(repr=False)
    corrections: pd.DataFrame = field(repr=False)
    realised: pd.DataFrame = field(repr=False)
    bibtex: str = field(repr=False)

    def _repr_html_(self) -> str:
        parts = [
            f"<h4>{escape(self.name)} <small>({escape(self.kind.replace('_', ' '))})</small></h4>",
            f"<p>{escape(self.note)}</p>",
            f"<p>{link(self.title, self.url)}, {escape(self.authors)}, {self.year}. "
            f"Here: {escape(LEVEL_WORDS[self.coverage] or 'listed only')}.</p>",
        ]
        for title, frame in self._parts():
            parts.append(f"<p><b>{title}</b></p>" + html_table(frame))
        if len(self.links):
            items = [link(f"{k.rel}: {k.url}", k.url) for k in self.links.itertuples() if k.url]
            parts.append("<p>" + " · ".join(items) + "</p>")
        return (
            "".join(parts) + f"<details><summary>BibTeX</summary><pre>{escape(self.bibtex)}</pre></details>"
        )

    def _parts(self) -> list[tuple[str, pd.DataFrame]]:
        parts = [
            ("In the survey", self.placements),
            ("Stated and checked", self.claims),
            ("Relations", self.relations),
            ("Corrections", self.corrections),
            ("In this project", self.realised),
        ]
        return [(title, frame) for title, frame in parts if len(frame)]

    def __str__(self) -> str:
        head = (
            f"{self.name} ({self.kind})\n{self.note}\n{self.title}, {self.authors}, {self.year}. {self.url}"
        )
        return "\n\n".join([head, *(f"{t}\n{f.to_string(index=False)}" for t, f in self._parts())])


def make_card(taxonomy: Taxonomy, entry_id: str) -> Card:
    """See ``Taxonomy.card``."""
    entry = taxonomy.entries.set_index("entry_id").loc[entry_id]
    work = taxonomy.works.set_index("work_id").loc[entry["work_id"]]

    def rows(table: pd.DataFrame, columns: str) -> pd.DataFrame:
        return table.loc[table["entry_id"] == entry_id, columns.split()].reset_index(drop=True)

    relations = taxonomy.relations
    touching = relations[(relations["src"] == entry_id) | (relations["dst"] == entry_id)]
    fixes = taxonomy.corrections[
        (taxonomy.corrections["target_kind"] == "entry") & (taxonomy.corrections["target_id"] == entry_id)
    ]
    return Card(
        entry_id,
        entry["name"],
        entry["kind"],
        entry["note"],
        work["title"],
        work["authors"],
        int(entry["year"]),
        work["url"],
        entry["coverage"],
        rows(taxonomy.placements, "section_id role source_id locator"),
        rows(taxonomy.claims, "attribute value status stated"),
        rows(taxonomy.links, "rel url status"),
        touching[["src", "rel", "dst", "knob"]].reset_index(drop=True),
        fixes[["correction_id", "field", "stated", "corrected", "confidence"]].reset_index(drop=True),
        rows(taxonomy.coverage, "level symbol chapter test"),
        exports.bibtex(work.to_frame().T.assign(work_id=entry["work_id"])),
    )
