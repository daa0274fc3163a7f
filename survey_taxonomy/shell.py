"""The explorer as HTML that stands by itself: pictures and tables. The page's module makes it live.

A row of an entry carries ``data-entry``; names to open carry ``data-open``. Everything from a source is
escaped.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from . import pictures
from .facts import CHECKED
from .frames import LEVELS
from .labels import LANGUAGES, MARKS, facet, text, word

if TYPE_CHECKING:
    from .taxonomy import Taxonomy

#: what the chooser offers: kinds of entries, and the columns that help to choose
CHOICES = {
    "environment": (("environment", "benchmark"), ("domain", "modality", "capability")),
    "framework": (("framework",), ("framework_type", "mechanism")),
    "algorithm": (("algorithm",), ("critic", "kl", "clip", "learns_from", "changes", "signal")),
    "memory_system": (("memory_system",), ("memory_type", "rl_used")),
}
TABS = ("entries", "sections", "lineage", "stated", "chooser", "editions")


def both(words: Iterable[str], lang: str, tag: str = "span", more: str = "") -> str:
    """A text in both languages, shown in ``lang``; the page switches."""
    pair = dict(zip(LANGUAGES, words, strict=True))
    data = "".join(f' data-{k}="{escape(v, True)}"' for k, v in pair.items())
    return f"<{tag}{data}{more}>{escape(pair[lang])}</{tag}>"


def said(name: str, lang: str, tag: str = "span", more: str = "") -> str:
    """A text of the page, by its name in ``labels.TEXTS``."""
    return both([text(name, k) for k in LANGUAGES], lang, tag, more)


def named(value: str, lang: str) -> str:
    """Facet values joined by '; ', each in words."""
    values = [v for v in value.split("; ") if v]
    return both([", ".join(word(v, k) for v in values) for k in LANGUAGES], lang) if values else ""


def open_button(entry_id: str, name: str) -> str:
    return f'<button type="button" data-open="{entry_id}">{escape(name)}</button>'


def table(heads: Iterable[str], rows: Iterable[tuple[str, list[str]]]) -> str:
    """A table of HTML cells; each row belongs to an entry (or to none: '')."""
    lines = []
    for entry, cells in rows:
        start = f'<tr data-entry="{entry}">' if entry else "<tr>"
        lines.append(
            f"{start}<th scope='row'>{cells[0]}</th>{''.join(f'<td>{c}</td>' for c in cells[1:])}</tr>"
        )
    head = "".join(f'<th scope="col">{h}</th>' for h in heads)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def entries(taxonomy: Taxonomy, lang: str) -> str:
    """All entries, newest first."""
    order = taxonomy.entries.sort_values(
        ["year", "first_public", "name"], ascending=[False, False, True], kind="stable"
    )
    rows = [
        (
            e.entry_id,
            [
                open_button(e.entry_id, e.name),
                str(e.year),
                escape(e.note),
                named(e.kind, lang),
                f"{MARKS[e.coverage]} {named(e.coverage, lang)}",
            ],
        )
        for e in order.itertuples()
    ]
    heads = [
        said("name", lang),
        said("year", lang),
        said("idea", lang),
        *(_facet(n, lang) for n in ("kind", "coverage")),
    ]
    return table(heads, rows)


def _facet(name: str, lang: str) -> str:
    return both([facet(name, k) for k in LANGUAGES], lang)


def stated(taxonomy: Taxonomy, lang: str) -> str:
    """Claims that were checked: what sources print, what is shown here, and on what it rests."""
    passages = taxonomy.evidence.set_index("evidence_id")
    rows = []
    claims = taxonomy.stated_against_checked()
    for c in claims.sort_values("status", key=lambda s: s.map(CHECKED.index), kind="stable").itertuples():
        proof = "; ".join(str(passages.loc[e, "passage"]) for e in c.evidence.split("; ") if e) or c.note
        rows.append(
            (
                c.entry_id,
                [
                    open_button(c.entry_id, c.name),
                    _facet(c.attribute, lang),
                    escape(c.stated),
                    escape(c.value),
                    named(c.status, lang),
                    escape(proof),
                ],
            )
        )
    heads = [said(n, lang) for n in ("name", "attribute", "printed", "value", "verdict", "why")]
    return table(heads, rows)


def chooser(taxonomy: Taxonomy, records: dict[str, dict], lang: str) -> str:
    """One table a choice; the page puts the questions above it."""
    parts = []
    free = {name: taxonomy.attribute(name) for name in ("mechanism", "signal")}
    for choice, (kinds, columns) in CHOICES.items():
        rows = []
        for e in records.values():
            if e["kind"] in kinds:
                cells = [
                    escape(str(free[c].get(e["id"], "")))
                    if c in free
                    else named("; ".join(e["facets"].get(c, [])), lang)
                    for c in columns
                ]
                rows.append(
                    (
                        e["id"],
                        [
                            open_button(e["id"], e["name"]),
                            escape(e["note"]),
                            *cells,
                            f"{MARKS[e['coverage']]} {named(e['coverage'], lang)}",
                        ],
                    )
                )
        heads = [
            said("name", lang),
            said("idea", lang),
            *(_facet(c, lang) for c in columns),
            _facet("coverage", lang),
        ]
        asked = " ".join(c for c in columns if c not in free)
        parts.append(
            f'<div data-choice="{choice}" data-kinds="{" ".join(kinds)}" data-asks="{asked} coverage">'
            f"<h4>{named(choice, lang)}</h4>{table(heads, rows)}</div>"
        )
    return "".join(parts)


def editions(taxonomy: Taxonomy, lang: str) -> str:
    """Rows by table and edition, sections new in v5, and cells in which v3 and the list differ."""
    names = taxonomy.entries.set_index("entry_id")["name"]
    new = taxonomy.sections[taxonomy.sections["since"] == "v5"]
    items = "".join(
        f'<li><button type="button" data-facet="section" data-value="{s.section_id}">'
        f"{escape(s.section_id)} {both([s.title_en, s.title_ja], lang)}</button></li>"
        for s in new.itertuples()
    )
    heads = [said(n, lang) for n in ("name", "attribute", "v3", "list")]
    rows = []
    for d in taxonomy.differences().itertuples():
        cells = [open_button(d.entry_id, names[d.entry_id]), _facet(d.attribute, lang)]
        rows.append((d.entry_id, [*cells, escape(d.v3), escape(d.list)]))
    new_title, differ_title = (said(n, lang, "h4") for n in ("new_v5", "differs"))
    return f"{_edition_counts(taxonomy, lang)}{new_title}<ul>{items}</ul>{differ_title}{table(heads, rows)}"


def _edition_counts(taxonomy: Taxonomy, lang: str) -> str:
    seen = taxonomy.editions()
    kinds = {
        "both": seen["in_v3"] & seen["in_list"],
        "v3_only": seen["in_v3"] & ~seen["in_list"],
        "list_only": ~seen["in_v3"] & seen["in_list"],
    }
    heads = [said("table", lang)]
    for kind in kinds:
        press = f'<button type="button" data-facet="edition" data-value="{kind}">'
        heads.append(f"{press}{named(kind, lang)}</button>")
    rows = []
    for number in sorted(seen["table"].unique()):
        here = seen["table"] == number
        rows.append(("", [f"§{number}", *(str(int((hits & here).sum())) for hits in kinds.values())]))
    rows.append(("", ["Σ", *(str(int(hits.sum())) for hits in kinds.values())]))
    return table(heads, rows)


def shell(taxonomy: Taxonomy, records: dict[str, dict], lang: str = "en") -> str:
    """The whole explorer as one HTML element; its module finds its parts by class and data attributes."""
    views = {
        "entries": entries(taxonomy, lang),
        "sections": pictures.icicle(taxonomy, lang).svg,
        "lineage": pictures.lineage(taxonomy, lang).svg,
        "stated": stated(taxonomy, lang),
        "chooser": chooser(taxonomy, records, lang),
        "editions": editions(taxonomy, lang),
    }
    hints = {"sections": "colour", "lineage": "knob"}
    tabs = "".join(
        f'<section data-tab="{name}">{said(name, lang, "h3")}'
        f"{said(hints[name], lang, 'p') if name in hints else ''}{views[name]}</section>"
        for name in TABS
    )
    top = "".join(
        f'<section data-view="{name}">{said(name, lang, "h3")}{picture.svg}</section>'
        for name, picture in (
            ("matrix", pictures.matrix(taxonomy, lang)),
            ("timeline", pictures.timeline(taxonomy, lang)),
        )
    )
    counts = " · ".join(
        f"{n} {word(k, lang)}" for k in LEVELS if (n := int((taxonomy.entries["coverage"] == k).sum()))
    )
    return (
        f'<div class="arl-atlas" lang="{lang}">'
        f"<header>{said('title', lang, 'h2')}"
        f'<p class="arl-still">{len(records)} · {escape(counts)}</p></header><div class="arl-main">'
        f'<div class="arl-top">{top}</div><div class="arl-tabs">{tabs}</div></div></div>'
    )
