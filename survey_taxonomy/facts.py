"""What the explorer knows: one plain record an entry, ready for JSON, with the values of every facet."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from . import exports
from .labels import FACETS, LANGUAGES, TEXTS, VALUES
from .quoting import Library, Quote
from .rules.identity import key_of

if TYPE_CHECKING:
    from .taxonomy import Taxonomy

#: facets that are attributes of entries, taken as they are shown
ATTRIBUTES = (
    "kl",
    "clip",
    "reward_type",
    "reward_source",
    "rl_used",
    "memory_type",
    "knowledge",
    "interactivity",
    "paradigm",
    "mas_dynamic",
    "trains_llm",
    "rl_algorithm",
    "domain",
    "modality",
    "framework_type",
)
#: claims of these states were looked at
CHECKED = ("contradicted", "confirmed", "refined", "variant", "unverified")
MONTHS_FROM = 2023  # single months from here on, years before


def edition_of(taxonomy: Taxonomy) -> dict[str, str]:
    """entry_id → 'both', 'v3_only', 'list_only' for entries with table rows."""
    rows = taxonomy.editions().groupby("entry_id")[["in_v3", "in_list"]].any()
    return {
        r.Index: "both" if r.in_v3 and r.in_list else "v3_only" if r.in_v3 else "list_only"
        for r in rows.itertuples()
    }


def when(first_public: str, year: int) -> str:
    """The place of an entry on the timeline: its month from 2023 on, where it is known, else its year."""
    return first_public if first_public and year >= MONTHS_FROM else str(year)


def paths(taxonomy: Taxonomy) -> dict[str, list[str]]:
    """section_id → itself and all above it, top first."""
    parent = dict(zip(taxonomy.sections["section_id"], taxonomy.sections["parent"], strict=True))
    chains = {}
    for section in parent:
        chain, at = [], section
        while at:
            chain.append(at)
            at = parent[at]
        chains[section] = chain[::-1]
    return chains


def records(taxonomy: Taxonomy) -> dict[str, dict]:
    """entry_id → record; the order is that of ``taxonomy.entries``."""
    works = taxonomy.works.set_index("work_id")
    about = works[["title", "authors", "venue", "url"]].to_dict("index")
    above, edition = paths(taxonomy), edition_of(taxonomy)
    attributes = {name: taxonomy.attribute(name).to_dict() for name in ATTRIBUTES}
    status = (
        taxonomy.claims[taxonomy.claims["status"].isin(CHECKED)]
        .groupby("entry_id")["status"]
        .agg(lambda s: sorted(set(s), key=CHECKED.index))
    )
    bib = dict(zip(works.index, exports.bibtex(taxonomy.works).strip().split("\n\n"), strict=True))
    found = {}
    for e in taxonomy.entries.itertuples():
        sections = e.sections.split("; ")
        facets = {
            "kind": [e.kind],
            "capability": _split(e.capabilities),
            "task": _split(e.tasks),
            "section": list(dict.fromkeys(s for own in sections for s in above[own])),
            "coverage": [e.coverage],
            "when": [when(e.first_public, int(e.year))],
            "edition": [edition.get(e.entry_id, "no_table")],
            "status": list(status.get(e.entry_id, [])),
        }
        facets |= {name: _split(values.get(e.entry_id, "")) for name, values in attributes.items()}
        found[e.entry_id] = {
            "id": e.entry_id,
            "name": e.name,
            "kind": e.kind,
            "note": e.note,
            "aliases": _split(e.aliases),
            **about[e.work_id],
            "year": int(e.year),
            "coverage": e.coverage,
            "in": sections,
            "bibtex": bib[e.work_id],
            "facets": {name: values for name, values in facets.items() if values},
        }
    _add_tables(taxonomy, found)
    _add_sources(taxonomy, found)
    return found


def _split(text: str) -> list[str]:
    return [part for part in text.split("; ") if part]


def _add_tables(taxonomy: Taxonomy, found: dict[str, dict]) -> None:
    """Claims, links, relations and corrections, each as short lists in the record."""
    many = defaultdict(lambda: defaultdict(list))
    for c in taxonomy.claims.itertuples():
        if c.attribute not in ("capability", "group", "rl_group", "name"):
            many[c.entry_id]["claims"].append([c.attribute, c.value, c.status, c.stated, c.note])
    for k in taxonomy.links.itertuples():
        many[k.entry_id]["links"].append([k.rel, k.url, k.status])
    for r in taxonomy.relations.itertuples():
        for here, there, forward in ((r.src, r.dst, True), (r.dst, r.src, False)):
            many[here]["relations"].append([r.rel, there, r.knob, forward])
    fixes = taxonomy.corrections[taxonomy.corrections["target_kind"] == "entry"]
    for c in fixes.itertuples():
        many[c.target_id]["corrections"].append(
            [c.correction_id, c.field, c.stated, c.corrected, c.confidence]
        )
    for entry_id, tables in many.items():
        found[entry_id] |= {name: rows for name, rows in tables.items()}


def _add_sources(taxonomy: Taxonomy, found: dict[str, dict]) -> None:
    """What of the entry is built here, with its source text; facets read from that source."""
    library = Library()
    for c in taxonomy.coverage.itertuples():
        record = found[c.entry_id]
        record.setdefault("realised", []).append([c.level, c.symbol, c.chapter, c.test, c.note])
        quote = library.quote(c.symbol) if c.symbol.startswith("arl_mini.algorithms.") else None
        if quote is None:
            continue
        record.setdefault("sources", []).append(
            {
                "symbol": quote.symbol,
                "file": quote.file,
                "line": quote.line,
                "text": quote.text,
                "loss": list(quote.loss) if quote.loss else None,
            }
        )
        if key_of(quote.symbol.rpartition(".")[2]) in map(key_of, [record["name"], *record["aliases"]]):
            record["facets"] |= _of_source(quote)


def _of_source(quote: Quote) -> dict[str, list[str]]:
    classes = {quote.symbol.rpartition(".")[2], *quote.parents}
    learns = "pairs" if "DPO" in classes else "labels" if "KTO" in classes else "own_tries"
    return {"critic": [quote.critic], "learns_from": [learns]} | (
        {"changes": list(quote.changes)} if quote.changes else {}
    )


def labels() -> dict[str, dict[str, dict[str, str]]]:
    """Words by language, as the page reads them: {'en': {'values': …, 'facets': …, 'texts': …}, 'ja': …}."""
    return {
        lang: {
            "values": {k: v[i] for k, v in VALUES.items()},
            "facets": {k: v[i] for k, v in FACETS.items()},
            "texts": {k: v[i] for k, v in TEXTS.items()},
        }
        for i, lang in enumerate(LANGUAGES)
    }


def facts(taxonomy: Taxonomy) -> dict:
    """Everything the page needs: entries, sections, facets in order, and words."""
    sections = {s.section_id: [s.title_en, s.title_ja, s.chapter] for s in taxonomy.sections.itertuples()}
    return {
        "entries": list(records(taxonomy).values()),
        "sections": sections,
        "facets": [name for name in FACETS if name not in ("section", "when")],
        "words": labels(),
    }
