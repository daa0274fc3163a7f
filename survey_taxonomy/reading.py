"""Read the YAML and remember where each record stands, so that an error can name file, line and field."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from .problems import DataError, Problem

DATA = Path(__file__).parent / "data"
#: kind of record → file or folder under data/
KINDS = {
    "sources": "sources.yml",
    "attributes": "vocab.yml",
    "sections": "sections.yml",
    "works": "works",
    "entries": "entries",
    "evidence": "evidence.yml",
    "corrections": "corrections",
    "relations": "relations.yml",
    "coverage": "coverage.yml",
    "glossary": "glossary.yml",
    "shared_urls": "allow.yml",
}
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Place:
    """Where a record stands: file name under data/, key of its list, and index in it."""

    file: str
    key: str
    index: int


@dataclass(frozen=True)
class Book:
    """All records of a data folder.

    ``records[kind]`` is a list of plain dicts and ``places[kind]`` its parallel list of places;
    ``settings`` holds the single values of vocab.yml and allow.yml; ``texts`` the files as read.
    """

    records: dict[str, list[dict]]
    places: dict[str, list[Place]]
    settings: dict[str, list]
    texts: dict[str, str]
    _nodes: dict[str, yaml.Node] = field(default_factory=dict, repr=False, compare=False)

    def each(self, kind: str) -> Iterator[tuple[int, dict]]:
        return enumerate(self.records[kind])

    def problem(self, rule: str, kind: str, index: int, message: str, *path) -> Problem:
        """A fault at ``path`` (keys and indices) inside record ``index`` of ``kind``."""
        place, record = self.places[kind][index], self.records[kind][index]
        target = str(
            record.get("id") or record.get("entry") or record.get("src") or record.get("term_en") or index
        )
        if place.file not in self._nodes:
            self._nodes[place.file] = yaml.compose(self.texts[place.file], Loader=_Loader)
        line = line_of(self._nodes[place.file], (place.key, place.index, *path))
        return Problem(rule, target, message, place.file, line, ".".join(map(str, path)))

    def copy(self) -> Book:
        """An independent copy of the records (the texts are shared)."""
        return Book(
            copy.deepcopy(self.records),
            {k: list(v) for k, v in self.places.items()},
            copy.deepcopy(self.settings),
            self.texts,
            self._nodes,
        )


def line_of(node: yaml.Node, path: tuple) -> int:
    """1-based line of the value at ``path`` below ``node``; of the nearest parent when the path ends
    early.
    """
    line = node.start_mark.line
    for step in path:
        found = None
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == str(step):
                    line, found = key.start_mark.line, value
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            found = node.value[step]
            line = found.start_mark.line
        if found is None:
            break
        node = found
    return line + 1


def _duplicate_keys(node, file: str) -> Iterator[Problem]:
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _duplicate_keys(item, file)
    elif isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            if key.value in seen:
                yield Problem(
                    "yaml",
                    file,
                    f"key {key.value!r} stands twice in one mapping; keep one",
                    file,
                    key.start_mark.line + 1,
                    key.value,
                )
            seen.add(key.value)
            yield from _duplicate_keys(value, file)


def _parse(text: str, file: str) -> dict:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        problems = list(_duplicate_keys(node, file))
        if problems:
            raise DataError(problems)
        data = loader.construct_document(node) if node is not None else None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise DataError([Problem("yaml", file, f"not valid YAML: {error.problem}", file, line)]) from error
    finally:
        loader.dispose()
    if not isinstance(data, dict):
        raise DataError(
            [Problem("yaml", file, f"expected a mapping at the top, got {type(data).__name__}", file, 1)]
        )
    return data


def _files(folder: Path, name: str) -> list[Path]:
    path = folder / name
    if path.is_dir():
        return sorted(path.glob("*.yml"))
    if not path.exists():
        raise DataError(
            [Problem("yaml", name, "file is missing; every kind of record has its file", name, 0)]
        )
    return [path]


def read(folder: Path | str = DATA) -> Book:
    """Read every YAML file under ``folder``.

    Raises ``DataError`` (file, line) for text that is no YAML, repeats a key or lacks its list. Values are
    not checked here: see ``survey_taxonomy.check``.
    """
    folder = Path(folder)
    records: dict[str, list[dict]] = {}
    places: dict[str, list[Place]] = {}
    settings: dict[str, list] = {}
    texts: dict[str, str] = {}
    for kind, name in KINDS.items():
        records[kind], places[kind] = [], []
        for path in _files(folder, name):
            file = path.relative_to(folder).as_posix()
            texts[file] = path.read_text(encoding="utf-8")
            data = _parse(texts[file], file)
            rows = data.get(kind)
            if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
                raise DataError(
                    [Problem("yaml", file, f"expected a list of mappings under '{kind}'", file, 1, kind)]
                )
            records[kind] += rows
            places[kind] += [Place(file, kind, i) for i in range(len(rows))]
            settings.update({k: v for k, v in data.items() if k not in KINDS})
    return Book(records, places, settings, texts)
