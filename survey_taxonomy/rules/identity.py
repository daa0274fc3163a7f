"""Rules on ids, works and sections."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator

from ..problems import Problem
from ..values import Index

_MARKUP = re.compile(r"\$[^$]*\$|\\[a-zA-Z]+|<[a-zA-Z/][^>]*>|&[a-z]+;|\u00ad|\ufb01|\ufb02")
_KEYS = {
    **dict.fromkeys(
        ("sources", "attributes", "sections", "works", "entries", "evidence", "corrections"), ("id",)
    ),
    "relations": ("src", "rel", "dst"),
    "glossary": ("term_en",),
    "coverage": ("entry", "symbol", "chapter"),
    "shared_urls": ("url",),
}


def key_of(text: str) -> str:
    """Letters and digits only, lower case, no accents: how names are compared."""
    plain = unicodedata.normalize("NFKD", text).casefold()
    return "".join(c for c in plain if c.isalnum() or c == "+")


def unique_ids(index: Index) -> Iterator[Problem]:
    """An id, or what stands for one, names one record."""
    for kind, keys in _KEYS.items():
        first: dict[tuple, str] = {}
        for i, record in index.book.each(kind):
            key = tuple(record.get(k) for k in keys)
            if key in first:
                yield index.book.problem(
                    "unique_ids",
                    kind,
                    i,
                    f"{', '.join(map(repr, filter(None, key)))} is already "
                    f"taken in {first[key]}; choose another or merge",
                    keys[0],
                )
            first.setdefault(key, index.book.places[kind][i].file)


def foreign_keys(index: Index) -> Iterator[Problem]:
    """Every id that is named exists."""
    known = {
        "entry": index.entries,
        "work": index.works,
        "section": index.sections,
        "source": index.sources,
        "evidence": index.evidence,
    }
    for kind, i, what, value, path in _references(index):
        if value is not None and value not in known[what]:
            yield index.book.problem("foreign_keys", kind, i, f"there is no {what} {value!r}", *path)


def _references(index: Index) -> Iterator[tuple]:
    book = index.book
    for i, s in book.each("sections"):
        yield "sections", i, "section", s.get("parent"), ("parent",)
    for i, w in book.each("works"):
        for j, c in enumerate(w.get("cited", ())):
            yield "works", i, "source", c["source"], ("cited", j, "source")
            for k, s in enumerate(c["sections"]):
                yield "works", i, "section", s, ("cited", j, "sections", k)
    for i, e in book.each("entries"):
        yield "entries", i, "work", e["work"], ("work",)
        for j, p in enumerate(e["placements"]):
            yield "entries", i, "section", p["section"], ("placements", j, "section")
            yield "entries", i, "source", p["source"], ("placements", j, "source")
        for j, c in enumerate(e.get("claims", ())):
            for k, v in enumerate(c.get("evidence", ())):
                yield "entries", i, "evidence", v, ("claims", j, "evidence", k)
        for j, link in enumerate(e.get("links", ())):
            yield "entries", i, "source", link["source"], ("links", j, "source")
    for i, v in book.each("evidence"):
        yield "evidence", i, "entry", v.get("entry"), ("entry",)
    for i, c in book.each("corrections"):
        for what in ("entry", "work", "section"):
            yield "corrections", i, what, c["target"].get(what), ("target", what)
        for k, v in enumerate(c["evidence"]):
            yield "corrections", i, "evidence", v, ("evidence", k)
    for i, r in book.each("relations"):
        yield "relations", i, "entry", r["src"], ("src",)
        yield "relations", i, "entry", r["dst"], ("dst",)
        yield "relations", i, "source", r["source"], ("source",)
    for i, c in book.each("coverage"):
        yield "coverage", i, "entry", c["entry"], ("entry",)
    for i, g in book.each("glossary"):
        yield "glossary", i, "section", g["section"], ("section",)


def alias_unique(index: Index) -> Iterator[Problem]:
    """A name or alias belongs to one entry, unless a relation says that names collide."""
    collide = {
        frozenset((r["src"], r["dst"]))
        for r in index.book.records["relations"]
        if r["rel"] == "name_collides_with"
    }
    owner: dict[str, str] = {}
    for i, entry in index.book.each("entries"):
        for name in (entry["name"], *entry.get("aliases", ())):
            other = owner.setdefault(name.casefold(), entry["id"])
            if other != entry["id"] and frozenset((other, entry["id"])) not in collide:
                yield index.book.problem(
                    "alias_unique",
                    "entries",
                    i,
                    f"name {name!r} also belongs to {other!r}; "
                    "add a name_collides_with relation or another alias",
                    "name",
                )


def arxiv_id(index: Index) -> Iterator[Problem]:
    """YYMM.NNNNN with a month that exists; five digits since 2015."""
    for i, work in index.book.each("works"):
        value = work.get("arxiv")
        if value is None:
            continue
        match = re.fullmatch(r"(\d\d)(\d\d)\.(\d{4,5})", value)
        if not match or not 1 <= int(match[2]) <= 12 or (int(match[1]) >= 15 and len(match[3]) != 5):
            yield index.book.problem(
                "arxiv_id", "works", i, f"got arXiv id {value!r}, expected YYMM.NNNNN", "arxiv"
            )


def arxiv_year(index: Index) -> Iterator[Problem]:
    """First publication is the month of the arXiv id, and no edition is older."""
    for i, work in index.book.each("works"):
        value = work.get("arxiv")
        if value is None:
            continue
        month = f"20{value[:2]}-{value[2:4]}"
        if work.get("first_public") != month:
            yield index.book.problem(
                "arxiv_year",
                "works",
                i,
                f"got first_public {work.get('first_public')!r}, the arXiv id {value} says {month}",
                "first_public",
            )
        if work["year"] < 2000 + int(value[:2]):
            yield index.book.problem(
                "arxiv_year", "works", i, f"year {work['year']} is before the arXiv id {value}", "year"
            )


def duplicate_work(index: Index) -> Iterator[Problem]:
    """A work is listed once: one arXiv id, one OpenReview id, one title."""
    for field in ("arxiv", "openreview", "doi", "title"):
        first: dict[str, str] = {}
        for i, work in index.book.each("works"):
            value = key_of(work["title"]) if field == "title" else work.get(field)
            if value is None:
                continue
            if value in first:
                yield index.book.problem(
                    "duplicate_work",
                    "works",
                    i,
                    f"same {field} as work {first[value]!r}; merge them and keep both citations",
                    field,
                )
            first.setdefault(value, work["id"])


def citation_name(index: Index) -> Iterator[Problem]:
    """Where the text names a method and cites a number, the number is that method's work."""
    names = defaultdict(list)
    for entry in index.book.records["entries"]:
        names[entry["work"]] += [entry["name"], *entry.get("aliases", ())]
    for i, work in index.book.each("works"):
        for j, cited in enumerate(work.get("cited", ())):
            named = cited.get("named")
            if named is None or "meant" in cited:
                continue
            if key_of(named) not in key_of(work["title"]) and key_of(named) not in map(
                key_of, names[work["id"]]
            ):
                yield index.book.problem(
                    "citation_name",
                    "works",
                    i,
                    f"[{cited['ref']}] is cited for {named!r} but is {work['title']!r}",
                    "cited",
                    j,
                    "named",
                )


def clean_text(index: Index) -> Iterator[Problem]:
    """Titles and names hold no TeX, HTML or ligatures, and are NFKC-normalised."""
    for kind, fields in (
        ("works", ("title", "authors")),
        ("entries", ("name", "note")),
        ("sections", ("title_en", "title_ja")),
        ("glossary", ("term_en", "term_ja")),
    ):
        for i, record in index.book.each(kind):
            for field in fields:
                text = record.get(field, "")
                folded = unicodedata.normalize("NFKC", text)
                if _MARKUP.search(text) or (kind in ("sections", "glossary") and folded != text):
                    yield index.book.problem(
                        "clean_text",
                        kind,
                        i,
                        f"markup or look-alike characters in {text!r}; write plain text",
                        field,
                    )


def spelling(index: Index) -> Iterator[Problem]:
    """Known misprints do not stand in what is shown."""
    bad = re.compile("|".join(map(re.escape, index.book.settings["misspelt"])), re.IGNORECASE)
    for i, section in index.book.each("sections"):
        if found := bad.search(section["title_en"]):
            yield index.book.problem("spelling", "sections", i, f"misprint {found[0]!r}", "title_en")
    for i, entry in index.book.each("entries"):
        text = str(index.shown(entry).get("mechanism", ""))
        if found := bad.search(text):
            yield index.book.problem(
                "spelling", "entries", i, f"misprint {found[0]!r} in mechanism", "placements"
            )


def row_counts(index: Index) -> Iterator[Problem]:
    """As many table rows as the source has: a row that is lost or doubled shows here."""
    counts: dict[str, int] = defaultdict(int)
    for entry in index.book.records["entries"]:
        for placement in entry["placements"]:
            counts[placement["source"]] += placement["role"] == "table_row"
    for i, source in index.book.each("sources"):
        if "rows" in source and counts[source["id"]] != source["rows"]:
            yield index.book.problem(
                "row_counts",
                "sources",
                i,
                f"{counts[source['id']]} table rows are placed, {source['rows']} were counted in the source",
                "rows",
            )


def leaf_entries(index: Index) -> Iterator[Problem]:
    """Every leaf section holds at least three entries or says why not."""
    held = defaultdict(set)
    for entry in index.book.records["entries"]:
        for placement in entry["placements"]:
            held[placement["section"]].add(entry["id"])
    for i, section in index.book.each("sections"):
        if section["id"] in index.leaves and len(held[section["id"]]) < 3 and "few" not in section:
            yield index.book.problem(
                "leaf_entries",
                "sections",
                i,
                f"leaf {section['id']} has "
                f"{len(held[section['id']])} entries; add entries or say why under 'few'",
                "id",
            )
