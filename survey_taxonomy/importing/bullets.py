"""A second common format: ``- [2025.03] **Name**: Title [[Paper](url)] [[Code](url)]`` under headings."""

from __future__ import annotations

import re

from .rows import Listing, Row, Section, escape, find_links, unescape

_ITEM = re.compile(
    r"^- (?:\[(\d{4}\.\d{2})\] )?\*\*((?:\\.|[^*\\])+)\*\*(?:: ((?:\\.|[^\[\\])*))?((?:\s*\[\[.*\)\])?)$"
)
COLUMNS = ("Method", "Date", "Title", "Link", "Resource")


def parse_bullets(text: str) -> Listing:
    """Parse a bulleted list; lines that fit nowhere end up in ``strange``."""
    intro: list[str] = []
    sections: list[Section] = []
    strange: list[tuple[int, str]] = []
    heading, rows = None, []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.startswith("## "):
            if heading is not None:
                sections.append(Section(heading, COLUMNS, tuple(rows)))
            heading, rows = line[3:].strip(), []
        elif heading is None:
            intro.append(line)
        elif match := _ITEM.match(line.rstrip()):
            date, name, title, links = match.groups()
            cells = (("Date", date or ""), ("Title", unescape((title or "").strip())))
            rows.append(Row(unescape(name), "", cells, find_links(links), number))
        elif line.strip():
            strange.append((number, line))
    if heading is not None:
        sections.append(Section(heading, COLUMNS, tuple(rows)))
    while intro and not intro[-1].strip():
        intro.pop()
    return Listing(tuple(intro), tuple(sections), tuple(strange))


def render_bullets(listing: Listing) -> str:
    """The list as Markdown; ``parse_bullets(render_bullets(x)) == x`` for what ``parse_bullets`` returns."""
    lines = list(listing.intro)
    for section in listing.sections:
        lines += ["", f"## {section.heading}"]
        for row in section.rows:
            values = dict(row.cells)
            date = f"[{values['Date']}] " if values.get("Date") else ""
            title = f": {escape(values['Title'])}" if values.get("Title") else ""
            links = "".join(f" [[{escape(label)}]({url})]" for label, url in row.links)
            lines.append(f"- {date}**{escape(row.name)}**{title}{links}")
    return "\n".join(lines) + "\n"
