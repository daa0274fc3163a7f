"""What every list format is parsed into."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_LINK = re.compile(r"(?<!!)\[((?:\\.|[^\[\]\\])*)\]\(([^()\s]*)\)")


@dataclass(frozen=True)
class Row:
    """One method: ``cells`` are (column, text) pairs, ``links`` (label, url) pairs, ``line`` its line
    (1-based).
    """

    name: str
    group: str = ""
    cells: tuple[tuple[str, str], ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Section:
    """A heading with its table. ``prose`` are the lines between heading and table."""

    heading: str
    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    prose: tuple[str, ...] = ()


@dataclass(frozen=True)
class Listing:
    """A parsed list. ``intro`` are the lines before the first section; ``strange`` the lines (number, text)
    inside a section that belong to no table: where injected text shows."""

    intro: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    strange: tuple[tuple[int, str], ...] = field(default=(), compare=False)


def find_links(text: str) -> tuple[tuple[str, str], ...]:
    """(label, url) of every Markdown link in ``text``, in order; images are not links."""
    return tuple((unescape(label), url) for label, url in _LINK.findall(text))


def escape(text: str) -> str:
    """Plain text as it stands in a Markdown table cell or link label."""
    return re.sub(r"([\\|\[\]*_])", r"\\\1", text)


def unescape(text: str) -> str:
    """Undo ``escape``."""
    return re.sub(r"\\([\\|\[\]*_])", r"\1", text)
