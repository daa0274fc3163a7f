"""Compile the records to flat tables, one pandas DataFrame each.

Several values in one cell are joined by '; ', so that a table looks the same in memory, CSV, Parquet and
SQLite.
"""

from __future__ import annotations

from collections import defaultdict

import pandas as pd

from .reading import Book
from .values import Index, Value, as_list

CAPABILITY = {
    "3.1": "planning",
    "3.2": "tool_use",
    "3.3": "memory",
    "3.4": "self_improvement",
    "3.5": "reasoning",
    "3.6": "perception",
    "3.7": "credit_assignment",
}
TASK = {
    "4.1": "search",
    "4.2": "code",
    "4.3": "mathematics",
    "4.4": "gui",
    "4.5": "vision",
    "4.6": "embodied",
    "4.7": "multi_agent",
    "4.8": "other",
}
#: best first
LEVELS = ("implemented", "toy_analogue", "exercise", "discussed", "listed")
COLUMNS = {
    "sources": "source_id kind title url version commit license rows",
    "sections": "section_id parent level axis title_en title_ja title_ja_source slides since "
    "chapter few is_leaf order",
    "works": "work_id kind title authors year first_public venue arxiv openreview acl doi url "
    "source_id locator",
    "citations": "work_id source_id ref section_id named meant",
    "entries": "entry_id name kind aliases work_id note year first_public sections capabilities "
    "tasks coverage",
    "placements": "entry_id section_id role source_id locator ref",
    "statements": "entry_id attribute source_id locator section_id stated value",
    "claims": "entry_id attribute value status stated evidence note",
    "links": "entry_id rel url status source_id locator stated_rel stated_url",
    "evidence": "evidence_id entry_id attribute says kind url commit passage seen",
    "corrections": "correction_id target_kind target_id field issue stated corrected evidence confidence "
    "status rule upstream",
    "relations": "src rel dst knob source_id locator",
    "coverage": "entry_id level symbol chapter test note",
    "glossary": "term_en term_ja section_id definition",
    "attributes": "attribute form meaning values",
}


def join(value: Value | None) -> str:
    """A value as text: lists joined by '; ', nothing as ''."""
    return "; ".join(as_list(value))


def _frame(name: str, rows: list[dict]) -> pd.DataFrame:
    columns = COLUMNS[name].split()
    frame = pd.DataFrame([[row.get(c) for c in columns] for row in rows], columns=columns)
    whole = {"rows", "order", "year", "ref"}
    for column in columns:
        if column in ("is_leaf", "seen"):
            frame[column] = frame[column].astype(bool)
        elif column in whole:
            frame[column] = pd.to_numeric(frame[column]).astype("Int64")
        else:
            frame[column] = frame[column].map(lambda v: "" if v is None or v != v else str(v)).astype(object)
    return frame


def compile_tables(book: Book) -> dict[str, pd.DataFrame]:
    """All tables of ``book``, by name; see ``COLUMNS`` for their columns."""
    index = Index(book)
    rows = {
        "sections": _sections(index),
        "works": _works(index),
        "citations": _citations(index),
        "entries": _entries(index),
        "placements": _placements(index),
        "statements": _statements(index),
        "claims": _claims(index),
        "links": _links(index),
        "corrections": _corrections(index),
    }
    rec = book.records
    rows["sources"] = [{**s, "source_id": s["id"]} for s in rec["sources"]]
    rows["evidence"] = [
        {**e, "evidence_id": e["id"], "entry_id": e.get("entry"), "says": join(e.get("says"))}
        for e in rec["evidence"]
    ]
    rows["relations"] = [{**r, "source_id": r["source"], "locator": r["at"]} for r in rec["relations"]]
    rows["coverage"] = [{**c, "entry_id": c["entry"]} for c in rec["coverage"]]
    rows["glossary"] = [{**g, "section_id": g["section"]} for g in rec["glossary"]]
    rows["attributes"] = [
        {**a, "attribute": a["id"], "values": join(list(a.get("values", {})))} for a in rec["attributes"]
    ]
    return {name: _frame(name, rows[name]) for name in COLUMNS}


def _sections(index: Index) -> list[dict]:
    leaves = set(index.leaves)
    return [
        {
            **s,
            "section_id": s["id"],
            "slides": join([str(n) for n in s["slides"]]),
            "is_leaf": s["id"] in leaves,
            "order": k,
        }
        for k, s in enumerate(index.sections.values())
    ]


def _works(index: Index) -> list[dict]:
    rows = []
    for work in index.works.values():
        cited = work.get("cited", [{}])[0]
        found = work.get("found") or {"source": cited["source"], "at": f"[{cited['ref']}]"}
        rows.append(
            {
                **work,
                "work_id": work["id"],
                "source_id": found["source"],
                "locator": found["at"],
                "url": work.get("url") or url_of(work),
            }
        )
    return rows


def url_of(work: dict) -> str:
    """The best address of a work: arXiv, then OpenReview, ACL Anthology, DOI, its own URL, or ''."""
    for key, form in (
        ("arxiv", "https://arxiv.org/abs/{}"),
        ("openreview", "https://openreview.net/forum?id={}"),
        ("acl", "https://aclanthology.org/{}/"),
        ("doi", "https://doi.org/{}"),
        ("url", "{}"),
    ):
        if work.get(key):
            return form.format(work[key])
    return ""


def _citations(index: Index) -> list[dict]:
    return [
        {
            "work_id": work["id"],
            "source_id": c["source"],
            "ref": c["ref"],
            "section_id": section,
            "named": c.get("named"),
            "meant": c.get("meant"),
        }
        for work in index.works.values()
        for c in work.get("cited", ())
        for section in c["sections"] or [""]
    ]


def facets(index: Index, entry: dict) -> tuple[list[str], list[str]]:
    """(capabilities, tasks) of an entry: from the sections it stands in and from its capability value."""
    tops = [top for p in entry["placements"] for top in index.ancestors(p["section"])]
    found = {CAPABILITY[t] for t in tops if t in CAPABILITY} | set(
        as_list(index.shown(entry).get("capability"))
    )
    order = list(index.attributes["capability"]["values"])
    tasks = [TASK[t] for t in TASK if t in tops]
    return sorted(found, key=order.index), tasks


def _entries(index: Index) -> list[dict]:
    best: dict[str, str] = {}
    for item in index.book.records["coverage"]:
        best[item["entry"]] = min(item["level"], best.get(item["entry"], "listed"), key=LEVELS.index)
    rows = []
    for entry in index.entries.values():
        work = index.works[entry["work"]]
        capabilities, tasks = facets(index, entry)
        rows.append(
            {
                **entry,
                "entry_id": entry["id"],
                "aliases": join(entry.get("aliases")),
                "work_id": entry["work"],
                "year": int(work["first_public"][:4]) if "first_public" in work else work["year"],
                "first_public": work.get("first_public"),
                "sections": join(list(dict.fromkeys(p["section"] for p in entry["placements"]))),
                "capabilities": join(capabilities),
                "tasks": join(tasks),
                "coverage": best.get(entry["id"], "listed"),
            }
        )
    return rows


def _placements(index: Index) -> list[dict]:
    return [
        {
            "entry_id": e["id"],
            "section_id": p["section"],
            "role": p["role"],
            "source_id": p["source"],
            "locator": p["at"],
            "ref": p.get("ref"),
        }
        for e in index.entries.values()
        for p in e["placements"]
    ]


def _statements(index: Index) -> list[dict]:
    return [
        {
            "entry_id": e["id"],
            "attribute": name,
            "source_id": p["source"],
            "locator": p["at"],
            "section_id": p["section"],
            "stated": raw,
            "value": join(value),
        }
        for e in index.entries.values()
        for p, name, raw, value in index.statements(e)
    ]


def _claims(index: Index) -> list[dict]:
    rows = []
    for entry in index.entries.values():
        printed = defaultdict(list)
        for placement, name, raw, _ in index.statements(entry):
            printed[name].append(f"{raw} ({placement['source']} {placement['at']})")
        decided = index.claims(entry)
        for name, value in index.shown(entry).items():
            claim = decided.get(name, {})
            rows.append(
                {
                    "entry_id": entry["id"],
                    "attribute": name,
                    "value": join(value),
                    "status": claim.get("status", "as_stated"),
                    "stated": " | ".join(printed[name]),
                    "evidence": join(claim.get("evidence")),
                    "note": claim.get("note"),
                }
            )
    return rows


def _links(index: Index) -> list[dict]:
    return [
        {
            "entry_id": e["id"],
            "rel": k["rel"],
            "url": k["url"],
            "status": k.get("status", "unchecked"),
            "source_id": k["source"],
            "locator": k["at"],
            "stated_rel": k.get("stated", k)["rel"],
            "stated_url": k.get("stated", k)["url"],
        }
        for e in index.entries.values()
        for k in e.get("links", ())
    ]


def _corrections(index: Index) -> list[dict]:
    rows = []
    for c in index.book.records["corrections"]:
        kind = next((k for k in ("entry", "work", "section") if k in c["target"]), "text")
        rows.append(
            {
                **c,
                "correction_id": c["id"],
                "target_kind": kind,
                "target_id": c["target"].get(kind),
                "field": c["target"]["field"],
                "evidence": join(c["evidence"]),
            }
        )
    return rows
