"""All checks of a data folder, in order: YAML, JSON Schema, rules across tables, compiled tables."""
from __future__ import annotations

from pathlib import Path

from . import rules
from .columns import check_columns
from .frames import compile_tables
from .problems import DataError, Problem
from .reading import DATA, read
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
