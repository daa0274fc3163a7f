"""Rules on attribute values: vocabulary, agreement of sources, evidence."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from ..problems import Problem
from ..values import Index, as_list


def _claim_at(entry: dict, attribute: str) -> tuple:
    for j, claim in enumerate(entry.get("claims", ())):
        if claim["attribute"] == attribute:
            return "claims", j, "resolved"
    for j, placement in enumerate(entry["placements"]):
        if attribute in placement.get("cells", {}):
            return "placements", j, "cells", attribute
    return ("claims",)


def vocabulary(index: Index) -> Iterator[Problem]:
    """Attributes are declared, and closed ones hold declared values only."""
    for i, attribute in index.book.each("attributes"):
        for raw, value in attribute.get("map", {}).items():
            if value not in attribute.get("values", {}) and attribute["id"] != "rl_algorithm" and value:
                yield index.book.problem(
                    "vocabulary",
                    "attributes",
                    i,
                    f"{raw!r} maps to {value!r}, which is not a declared value",
                    "map",
                )
    for i, entry in index.book.each("entries"):
        for name, value in index.shown(entry).items():
            attribute = index.attributes.get(name)
            at = _claim_at(entry, name)
            if attribute is None:
                yield index.book.problem(
                    "vocabulary", "entries", i, f"attribute {name!r} is not declared in vocab.yml", *at[:-1]
                )
                continue
            allowed = attribute.get("values")
            if allowed is None or name == "rl_algorithm":
                continue
            for item in as_list(value):
                if item not in allowed and item != "":
                    yield index.book.problem(
                        "vocabulary",
                        "entries",
                        i,
                        f"{name} is {item!r}, expected one of {', '.join(allowed)}",
                        *at,
                    )


def value_present(index: Index) -> Iterator[Problem]:
    """A printed cell is not empty, or a claim fills it."""
    for i, entry in index.book.each("entries"):
        decided = index.claims(entry)
        for j, placement in enumerate(entry["placements"]):
            for name, raw in placement.get("cells", {}).items():
                if raw == "" and name not in decided:
                    yield index.book.problem(
                        "value_present",
                        "entries",
                        i,
                        f"{name} is empty in {placement['at']}",
                        "placements",
                        j,
                        "cells",
                        name,
                    )


def sources_disagree(index: Index) -> Iterator[Problem]:
    """Where two places print different values of a closed attribute, someone has decided."""
    for i, entry in index.book.each("entries"):
        printed = defaultdict(dict)
        for placement, name, _, value in index.statements(entry):
            if index.attributes.get(name, {}).get("values"):
                printed[name][tuple(sorted(as_list(value)))] = f"{placement['source']} {placement['at']}"
        for name, found in printed.items():
            if len(found) > 1 and name not in index.claims(entry):
                said = "; ".join(f"{', '.join(v) or 'nothing'} ({at})" for v, at in found.items())
                yield index.book.problem(
                    "sources_disagree", "entries", i, f"{name}: {said}; add a claim", *_claim_at(entry, name)
                )


def evidence_agrees(index: Index) -> Iterator[Problem]:
    """What is shown is what the evidence says."""
    for record in index.book.records["evidence"]:
        if "says" not in record or "entry" not in record or record["entry"] not in index.entries:
            continue
        entry = index.entries[record["entry"]]
        shown = index.shown(entry).get(record["attribute"])
        if sorted(as_list(shown)) != sorted(as_list(record["says"])):
            i = index.book.records["entries"].index(entry)
            yield index.book.problem(
                "evidence_agrees",
                "entries",
                i,
                f"{record['attribute']} is shown as {shown!r}, "
                f"evidence {record['id']!r} says {record['says']!r}",
                *_claim_at(entry, record["attribute"]),
            )


def needs_evidence(index: Index) -> Iterator[Problem]:
    """A claim that confirms, refines or contradicts has evidence; every claim has a basis."""
    for i, entry in index.book.each("entries"):
        printed = {name for _, name, _, _ in index.statements(entry)}
        for j, claim in enumerate(entry.get("claims", ())):
            judged = claim["status"] in ("confirmed", "contradicted", "refined")
            if judged and not claim.get("evidence"):
                yield index.book.problem(
                    "needs_evidence",
                    "entries",
                    i,
                    f"{claim['attribute']} is {claim['status']} without evidence",
                    "claims",
                    j,
                    "status",
                )
            if not (
                claim["attribute"] in printed or claim.get("evidence") or claim["status"] == "own_reading"
            ):
                yield index.book.problem(
                    "needs_evidence",
                    "entries",
                    i,
                    f"{claim['attribute']} has no source: no printed cell, no evidence",
                    "claims",
                    j,
                    "attribute",
                )


def needs_correction(index: Index) -> Iterator[Problem]:
    """A contradicted claim has its correction record."""
    for i, entry in index.book.each("entries"):
        for j, claim in enumerate(entry.get("claims", ())):
            if claim["status"] == "contradicted" and (entry["id"], claim["attribute"]) not in index.corrected:
                yield index.book.problem(
                    "needs_correction",
                    "entries",
                    i,
                    f"{claim['attribute']} is contradicted, but corrections/ has no record of it",
                    "claims",
                    j,
                    "status",
                )


def year_agrees(index: Index) -> Iterator[Problem]:
    """The year of a method is the year its work was first public."""
    for i, entry in index.book.each("entries"):
        year = index.shown(entry).get("year")
        first = index.works.get(entry["work"], {}).get("first_public")
        if year is not None and first is not None and int(year) != int(first[:4]):
            yield index.book.problem(
                "year_agrees",
                "entries",
                i,
                f"year is {year}, the work was public in {first}",
                *_claim_at(entry, "year"),
            )


def name_spelling(index: Index) -> Iterator[Problem]:
    """A name that a source prints otherwise is decided."""
    for i, entry in index.book.each("entries"):
        name = index.shown(entry).get("name", entry["name"])
        if name != entry["name"]:
            yield index.book.problem(
                "name_spelling",
                "entries",
                i,
                f"printed as {name!r}, the authors write {entry['name']!r}",
                *_claim_at(entry, "name"),
            )


def base_llm_known(index: Index) -> Iterator[Problem]:
    """Base models are spelled as their publishers do."""
    patterns = [re.compile(p) for p in index.attributes["base_llm"]["patterns"]]
    for i, entry in index.book.each("entries"):
        decided = "resolved" in index.claims(entry).get("base_llm", {})
        printed = [] if decided else [v for _, name, _, v in index.statements(entry) if name == "base_llm"]
        for model in [m for v in printed for m in v] or as_list(index.shown(entry).get("base_llm")):
            if not any(p.fullmatch(model) for p in patterns):
                yield index.book.problem(
                    "base_llm_known",
                    "entries",
                    i,
                    f"unknown base model {model!r}; correct it or add a pattern to vocab.yml",
                    *_claim_at(entry, "base_llm"),
                )


def codes_sorted(index: Index) -> Iterator[Problem]:
    """Capabilities stand in the order of the vocabulary."""
    order = {name: k for k, name in enumerate(index.attributes["capability"]["values"])}
    for i, entry in index.book.each("entries"):
        codes = [order.get(c, 99) for c in as_list(index.shown(entry).get("capability"))]
        if codes != sorted(codes):
            yield index.book.problem(
                "codes_sorted",
                "entries",
                i,
                "capability codes are out of order",
                *_claim_at(entry, "capability"),
            )


def algorithm_known(index: Index) -> Iterator[Problem]:
    """An RL algorithm is an algorithm entry or a declared value, not a kind of reward or the method
    itself.
    """
    declared = index.attributes["rl_algorithm"]["values"]
    for i, entry in index.book.each("entries"):
        for name in as_list(index.shown(entry).get("rl_algorithm")):
            known = name in declared or index.entries.get(name, {}).get("kind") == "algorithm"
            if not known:
                yield index.book.problem(
                    "algorithm_known",
                    "entries",
                    i,
                    f"{name!r} names no algorithm entry",
                    *_claim_at(entry, "rl_algorithm"),
                )
