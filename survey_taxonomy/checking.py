"""All checks of a data folder, in order: YAML, JSON Schema, rules across tables, compiled tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from . import rules
from .columns import check_columns
from .frames import compile_tables
from .problems import DataError, Problem
from .reading import DATA, Book, Place, read
from .shapes import check_shapes
from .values import Index


def check(folder: Path | str = DATA) -> list[Problem]:
    """Every problem in the data under ``folder``; an empty list when all is well.

    Later checks lean on earlier ones, so a folder with a fault in the YAML or in a record's shape is reported
    without going on to the rules. Needs ``jsonschema`` and ``pandera``.
    """
    try:
        book = read(folder)
    except DataError as error:
        return error.problems
    problems = check_shapes(book)
    if problems:
        return problems
    problems = rules.run(Index(book))
    if problems:
        return problems
    return check_columns(compile_tables(book))


def check_new(book: Book, **new: Sequence[dict]) -> list[Problem]:
    """What is wrong with records that someone wants to add, before they stand in a file.

    ``new`` maps a kind ('works', 'entries', 'evidence', 'corrections', …) to records; file and line in a
    problem are those of the records written as YAML. They are judged by themselves, with the sections,
    sources and vocabulary of ``book``: whether they fit the rest is for ``check`` to say. Needs
    ``jsonschema``. Raises ``ValueError`` for an unknown kind.
    """
    if unknown := sorted(set(new) - set(book.records)):
        raise ValueError(f"got kind {unknown[0]!r}, expected some of {', '.join(book.records)}")
    records = {kind: list(new.get(kind, ())) for kind in book.records}
    texts = {
        kind: yaml.safe_dump({kind: rows}, allow_unicode=True, sort_keys=False)
        for kind, rows in records.items()
    }
    places = {kind: [Place(kind, kind, i) for i in range(len(rows))] for kind, rows in records.items()}
    problems = check_shapes(Book(records, places, book.settings, texts))
    if problems:
        return problems
    for kind in ("sections", "sources", "attributes"):
        records[kind] = records[kind] + book.records[kind]
        places[kind] = places[kind] + book.places[kind]
    return rules.run(Index(Book(records, places, book.settings, texts | book.texts)), rules.BY_THEMSELVES)
