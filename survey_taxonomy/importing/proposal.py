"""Match the rows of a list with our entries, and write down what would change and what looks wrong.

The text of a list is untrusted: it is HTML-escaped in the output, its links are kept only on known hosts, and
nothing of it is merged. A person reads the proposal and edits the YAML.
"""

from __future__ import annotations

import html
import re
from collections import defaultdict
from dataclasses import dataclass

import yaml

from ..reading import Book
from ..rules.identity import key_of
from ..rules.links import host_of, link_faults, paper_id
from ..values import Index, normalise
from .rows import Listing, Row

#: columns of the official list → our attributes; wording columns (mechanism, features) are not kept
COLUMNS = {
    "Year": "year",
    "Objective Type": "objective_type",
    "Clip": "clip",
    "KL Penalty": "kl",
    "Signal": "signal",
    "Category": "knowledge",
    "Base LLM": "base_llm",
    "Reward": "reward_type",
    "RL Reward Type": "reward_type",
    "Paradigm": "paradigm",
    "Environment": "interactivity",
    "Dynamic": "mas_dynamic",
    "Train": "trains_llm",
    "RL Algorithm": "rl_algorithm",
    "Agent Capability": "capability",
    "Task Domain": "domain",
    "Modality": "modality",
    "Type": "framework_type",
}
_NUMBER = re.compile(r"Sec\s*(\d(?:\.\d)*)")
_MARKUP = re.compile(r"<[a-zA-Z/!][^>]*>|javascript:", re.IGNORECASE)


@dataclass(frozen=True)
class Finding:
    """Something wrong with one line of the list."""

    rule: str
    entry: str
    line: int
    message: str


@dataclass(frozen=True)
class Proposal:
    """What a list would change here. Texts are HTML-escaped; links on unknown hosts are left out."""

    new: tuple[dict, ...]
    changed: tuple[dict, ...]
    vanished: tuple[str, ...]
    findings: tuple[Finding, ...]
    matched: int

    def to_yaml(self) -> str:
        """The proposal as a file for a person to read; no check and no load ever reads it."""
        head = "# Proposal, not data. Read each point, then edit survey_taxonomy/data by hand.\n"
        body = {
            "matched": self.matched,
            "new": list(self.new),
            "changed": list(self.changed),
            "vanished": list(self.vanished),
            "findings": [vars(f) for f in self.findings],
        }
        return head + yaml.safe_dump(body, allow_unicode=True, sort_keys=False, width=110)


class _Matcher:
    """Finds the entry a row means: by arXiv id, then OpenReview id, then name or alias."""

    def __init__(self, index: Index):
        self.index = index
        self.by_paper: dict[tuple[str, str], list[str]] = defaultdict(list)
        self.by_name: dict[str, list[str]] = defaultdict(list)
        for entry in index.entries.values():
            work = index.works[entry["work"]]
            found = {(k, work[k]) for k in ("arxiv", "openreview") if work.get(k)}
            for link in entry.get("links", ()):
                for url in (link["url"], link.get("stated", {}).get("url")):
                    found |= {paper_id(url)} if url and paper_id(url) else set()
            for key in found:
                self.by_paper[key].append(entry["id"])
            printed = [raw for _, name, raw, _ in index.statements(entry) if name == "name"]
            for name in {key_of(n) for n in (entry["name"], *entry.get("aliases", ()), *printed)}:
                self.by_name[name].append(entry["id"])

    def match(self, row: Row) -> str | None:
        named = self.by_name.get(key_of(row.name), [])
        ids = [key for _, url in row.links if (key := paper_id(url))]
        for kind in ("arxiv", "openreview"):
            for candidates in (self.by_paper.get(key, []) for key in ids if key[0] == kind):
                if both := [c for c in candidates if c in named]:
                    return both[0]
                if candidates and not named:
                    return candidates[0]
        return named[0] if named else None


def propose(listing: Listing, book: Book, source: str = "S-list") -> Proposal:
    """Compare ``listing`` with ``book``; ``source`` is the id under which its cells are recorded here."""
    index = Index(book)
    matcher = _Matcher(index)
    new, changed, findings, seen = [], [], [], set()
    findings += [Finding("strange_line", "", n, html.escape(text)[:200]) for n, text in listing.strange]
    rows = []
    for section in listing.sections:
        number = (_NUMBER.match(section.heading) or ["", ""])[1]
        for row in section.rows:
            entry_id = matcher.match(row)
            rows.append((row, entry_id))
            findings += _judge(row, entry_id, index)
            if entry_id is None:
                new.append(_skeleton(row, number, book))
                continue
            seen.add(entry_id)
            if difference := _difference(row, index.entries[entry_id], number, index, source):
                changed.append(difference)
    findings += _shared(rows, index)
    vanished = [
        e["id"]
        for e in index.entries.values()
        if e["id"] not in seen
        and any(p["source"] == source and p["role"] == "table_row" for p in e["placements"])
    ]
    return Proposal(tuple(new), tuple(changed), tuple(vanished), tuple(findings), len(seen))


def _rel(label: str) -> str:
    word = label.split(" ")[0].lower()
    return word if word in ("paper", "blog", "code", "model", "website") else "website"


def _skeleton(row: Row, number: str, book: Book) -> dict:
    allowed, refused = [], []
    for label, url in row.links:
        good = url.startswith("https://") and host_of(url) in book.settings["hosts"]
        (allowed if good else refused).append({"rel": _rel(label), "url": html.escape(url)})
    cells = {COLUMNS[c]: html.escape(v) for c, v in row.cells if c in COLUMNS and v}
    return {
        "name": html.escape(row.name),
        "section": number,
        "group": html.escape(row.group),
        "line": row.line,
        "cells": cells,
        "links": allowed,
        "refused_links": len(refused),
    }


def _difference(row: Row, entry: dict, number: str, index: Index, source: str) -> dict | None:
    ours = [
        p
        for p in entry["placements"]
        if p["source"] == source
        and p["role"] == "table_row"
        and (p["section"] == number or p["section"].startswith((number + ".", number + "/")))
    ]
    if number and not ours:
        return {"entry": entry["id"], "line": row.line, "placement": f"new row in section {number}"}
    values = []
    printed = [{k: str(v) for k, v in p.get("cells", {}).items()} for p in ours]
    for column, text in row.cells:
        attribute = COLUMNS.get(column)
        recorded = [cells[attribute] for cells in printed if attribute in cells]
        if recorded and text not in recorded and not _same(attribute, text, recorded, index):
            values.append({"attribute": attribute, "was": recorded[0], "now": html.escape(text)})
    known = {url for k in entry.get("links", ()) for url in (k["url"], k.get("stated", {}).get("url"))}
    added = [html.escape(url) for _, url in row.links if url not in known]
    if not values and not added:
        return None
    return {"entry": entry["id"], "line": row.line, "values": values, "new_links": added}


def _same(attribute: str, text: str, recorded: list[str], index: Index) -> bool:
    known = index.attributes[attribute]
    return any(normalise(known, text) == normalise(known, r) for r in recorded)


def _judge(row: Row, entry_id: str | None, index: Index) -> list[Finding]:
    def finding(rule: str, message: str) -> Finding:
        return Finding(rule, entry_id or "", row.line, html.escape(message))

    found = []
    papers = [(label, url) for label, url in row.links if _rel(label) in ("paper", "blog")]
    for label, url in row.links:
        found += [
            finding(rule, message) for rule, message in link_faults(_rel(label), url, index.book.settings)
        ]
    if not papers:
        found.append(finding("missing_link", f"{row.name} has no paper link"))
    if any(_MARKUP.search(v) for v in (row.name, *(v for _, v in row.cells))):
        found.append(finding("markup", f"HTML or script in the row of {row.name}"))
    if entry_id is None:
        return found
    entry = index.entries[entry_id]
    work = index.works[entry["work"]]
    for _, url in papers:
        key = paper_id(url)
        if key and work.get(key[0]) not in (None, key[1]) or key and _other_owner(key, entry, index):
            found.append(finding("paper_matches_work", f"{row.name}: {url} is not {work['title']!r}"))
    year = dict(row.cells).get("Year")
    if year and work.get("first_public") and year != work["first_public"][:4]:
        found.append(finding("year_agrees", f"{row.name}: year {year}, first public {work['first_public']}"))
    return found


def _other_owner(key: tuple[str, str], entry: dict, index: Index) -> bool:
    return any(w.get(key[0]) == key[1] for w in index.works.values() if w["id"] != entry["work"])


def _shared(rows: list[tuple[Row, str | None]], index: Index) -> list[Finding]:
    users, papers = defaultdict(set), defaultdict(dict)
    for row, entry_id in rows:
        for _, url in row.links:
            if url:
                users[url.rstrip("/")].add((entry_id or row.name, row.line))
            if entry_id and (key := paper_id(url)):
                papers[entry_id][key] = row.line
    allowed = {a["url"] for a in index.book.records["shared_urls"]}
    found = []
    for url, owners in users.items():
        works = {index.entries[e]["work"] if e in index.entries else e for e, _ in owners}
        if len(works) > 1 and url not in allowed:
            found += [
                Finding("shared_url", e, line, f"{html.escape(url)} stands on several rows")
                for e, line in sorted(owners)
            ]
    for entry_id, keys in papers.items():
        if len(keys) > 1 and len({k[0] for k in keys}) > 1:
            found += [
                Finding("one_paper_link", entry_id, line, "two rows with two ids are one work")
                for line in keys.values()
            ]
    return found
