"""From printed values to ours: the vocabulary, and which value of an attribute is shown."""

from __future__ import annotations

from collections.abc import Iterator

from .reading import Book

#: how a printed cell with several values is split
SEPARATORS = {"framework_type": " / "}
Value = str | int | list[str]


def normalise(attribute: dict, raw: str | int) -> Value:
    """The value of a printed cell in the vocabulary of ``attribute``.

    Free attributes come back as they are, closed ones mapped ('Yes' → 'yes'), lists split and mapped. What
    the vocabulary does not know is returned unchanged, for the checks to find.
    """
    mapping = attribute.get("map", {})
    if attribute["form"] == "free":
        return raw
    if attribute["form"] == "one":
        return mapping.get(raw, raw)
    parts = [part.strip() for part in str(raw).split(SEPARATORS.get(attribute["id"], ","))]
    mapped = [mapping.get(part, part) for part in parts if part not in ("", "-")]
    return [part for part in mapped if part]


class Index:
    """Records of a book by id, with the shown values; built once for all rules and tables."""

    def __init__(self, book: Book):
        self.book = book
        self.attributes = {a["id"]: a for a in book.records["attributes"]}
        self.entries = {e["id"]: e for e in book.records["entries"]}
        self.works = {w["id"]: w for w in book.records["works"]}
        self.sections = {s["id"]: s for s in book.records["sections"]}
        self.sources = {s["id"]: s for s in book.records["sources"]}
        self.evidence = {e["id"]: e for e in book.records["evidence"]}
        self.corrected = {
            (c["target"].get("entry"), c["target"]["field"]) for c in book.records["corrections"]
        }
        parents = {s.get("parent") for s in book.records["sections"]}
        self.leaves = [s["id"] for s in book.records["sections"] if s["id"] not in parents]

    def statements(self, entry: dict) -> Iterator[tuple[dict, str, str | int, Value]]:
        """(placement, attribute, printed value, value in our vocabulary) of every cell of the entry."""
        for placement in entry["placements"]:
            for name, raw in placement.get("cells", {}).items():
                known = self.attributes.get(name)
                yield placement, name, raw, normalise(known, raw) if known else raw

    def claims(self, entry: dict) -> dict[str, dict]:
        """Decided claims of the entry by attribute."""
        return {claim["attribute"]: claim for claim in entry.get("claims", ())}

    def shown(self, entry: dict) -> dict[str, Value]:
        """The value this project shows for each attribute: the decision, else the first printed value."""
        values: dict[str, Value] = {}
        for _, name, _, value in self.statements(entry):
            values.setdefault(name, value)
        for name, claim in self.claims(entry).items():
            if "resolved" in claim:
                values[name] = claim["resolved"]
        return values

    def ancestors(self, section: str) -> list[str]:
        """The section and everything above it, nearest first."""
        chain = []
        while section:
            chain.append(section)
            section = self.sections.get(section, {}).get("parent", "")
        return chain


def as_list(value: Value | None) -> list[str]:
    """One value or several as a list of strings; nothing as an empty list."""
    if value is None:
        return []
    return [str(v) for v in value] if isinstance(value, list) else [str(value)]
