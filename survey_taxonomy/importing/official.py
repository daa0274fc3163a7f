"""The format of the survey's official list: one Markdown table a section, bold rows as groups."""

from __future__ import annotations

import re

from .rows import Listing, Row, Section, escape, find_links, unescape

_HEADING = re.compile(r"^## (Sec\S.*)$")
_GROUP = re.compile(r"^\*\*_(.*)_\*\*$")
_RULE = re.compile(r"^:?-+:?$")


def split_cells(line: str) -> list[str]:
    """The cells of a table line; escaped pipes stay in their cell."""
    body = line.strip()
    body = body[1:] if body.startswith("|") else body
    parts = re.split(r"(?<!\\)((?:\\\\)*)\|", body)
    cells = [parts[i] + (parts[i + 1] if i + 1 < len(parts) else "") for i in range(0, len(parts), 2)]
    if cells and not cells[-1].strip():
        cells.pop()
    return [cell.strip() for cell in cells]


def parse_official(text: str) -> Listing:
    """Parse the list. Lines that fit nowhere end up in ``strange``, they are never read as rows."""
    intro: list[str] = []
    sections: list[Section] = []
    strange: list[tuple[int, str]] = []
    heading = None
    body: list[tuple[int, str]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        match = _HEADING.match(line)
        if match or (heading is not None and line.startswith(("# ", "## "))):
            if heading is not None:
                sections.append(_section(heading, body, strange))
            heading, body = (match[1].strip() if match else None), []
            if match is None:
                strange.append((number, line))
        elif heading is None:
            (intro if not sections else []).append(line)
            if sections and line.strip():
                strange.append((number, line))
        else:
            body.append((number, line))
    if heading is not None:
        sections.append(_section(heading, body, strange))
    while intro and not intro[-1].strip():
        intro.pop()
    return Listing(tuple(intro), tuple(sections), tuple(strange))


def _section(heading: str, body: list[tuple[int, str]], strange: list[tuple[int, str]]) -> Section:
    columns: tuple[str, ...] = ()
    prose, rows, group = [], [], ""
    for number, line in body:
        if not line.strip() or line.strip() == "---":
            continue
        if not line.startswith("|"):
            (prose if not columns else []).append(line.rstrip())
            if columns:
                strange.append((number, line))
            continue
        cells = split_cells(line)
        if not columns:
            columns = tuple(unescape(c) for c in cells)
        elif cells and all(_RULE.match(c) for c in cells):
            continue
        elif cells and (match := _GROUP.match(cells[0])) and not any(cells[1:]):
            group = unescape(match[1])
        else:
            rows.append(_row(columns, cells, group, number))
    return Section(heading, columns, tuple(rows), tuple(prose))


def _row(columns: tuple[str, ...], cells: list[str], group: str, number: int) -> Row:
    cells = cells + [""] * (len(columns) - len(cells))
    plain, links = [], []
    for column, cell in list(zip(columns, cells, strict=False))[1:]:
        if column in ("Link", "Resource"):
            links += find_links(cell)
            if column == "Link" and cell and not find_links(cell) and cell != "-":
                links.append(("Paper", cell))
        else:
            plain.append((column, unescape(cell)))
    return Row(unescape(cells[0]), group, tuple(plain), tuple(links), number)


def render_official(listing: Listing) -> str:
    """The list as Markdown; ``parse_official(render_official(x)) == x``."""
    lines = list(listing.intro)
    for section in listing.sections:
        lines += ["", f"## {section.heading}", *section.prose]
        if not section.columns:
            continue
        lines += ["", _line([escape(c) for c in section.columns]), "|" + "---|" * len(section.columns)]
        group = ""
        for row in section.rows:
            if row.group != group:
                group = row.group
                lines.append(f"| **_{escape(group)}_** " + "|" * len(section.columns))
            lines.append(_line(_cells(section.columns, row)))
    return "\n".join(lines) + "\n"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cells(columns: tuple[str, ...], row: Row) -> list[str]:
    values, cells = dict(row.cells), [escape(row.name)]
    papers = [k for k in row.links if k[0].startswith(("Paper", "Blog"))]
    others = [k for k in row.links if k not in papers]
    for column in columns[1:]:
        if column in ("Link", "Resource"):
            links = papers if column == "Link" else others
            cells.append(" ".join(f"[{escape(label)}]({url})" for label, url in links) or "-")
        else:
            cells.append(escape(values.get(column, "")))
    return cells
