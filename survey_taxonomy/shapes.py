"""JSON Schema checks of the YAML: shape, types and patterns of every record."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from .problems import Problem
from .reading import Book

SCHEMAS = Path(__file__).parent / "schema"
#: kind of record → schema file (the two vocabularies share their files with single values)
FILES = {"attributes": "vocab", "shared_urls": "allow"}


def schema_of(kind: str) -> dict:
    """The JSON Schema of one record of ``kind``."""
    path = SCHEMAS / f"{FILES.get(kind, kind)}.schema.json"
    return json.loads(path.read_text(encoding="utf-8"))["properties"][kind]["items"]


def check_shapes(book: Book) -> list[Problem]:
    """Every record against its schema; returns one problem for each fault."""
    from jsonschema import Draft202012Validator

    problems = []
    for kind, records in book.records.items():
        validator = Draft202012Validator(schema_of(kind))
        for i, record in enumerate(records):
            if validator.is_valid(record):
                continue
            at = partial(book.problem, "schema", kind, i)
            problems += [at(_message(error), *error.absolute_path) for error in validator.iter_errors(record)]
    return problems


def _message(error) -> str:
    if error.validator == "additionalProperties":
        return error.message + "; check the spelling of the key"
    if error.validator == "required":
        return error.message.replace("is a required property", "is missing")
    if error.validator == "pattern":
        hint = error.schema.get("description", "")
        return f"got {error.instance!r}, expected {error.validator_value}" + (f" ({hint})" if hint else "")
    if error.validator == "enum":
        return f"got {error.instance!r}, expected one of {', '.join(map(str, error.validator_value))}"
    if error.validator == "type":
        return f"got {error.instance!r} ({type(error.instance).__name__}), expected {error.validator_value}"
    return error.message
