"""Faults of the kinds really found in the sources, to be planted in a copy of the data: do the rules name
each?

Every fault here stood in the survey or its list; the comment of each function says where.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from . import rules
from .reading import Book
from .values import Index


@dataclass(frozen=True)
class Fault:
    """One fault: what it is, the rule that must name it, at which record, and how it gets into a copy of the
    data.

    ``also``: (rule, record) of what is wrong in consequence and named too.
    """

    what: str
    rule: str
    target: str
    plant: Callable[[Book], None]
    also: tuple[tuple[str, str], ...] = ()


def _record(book: Book, kind: str, record_id: str) -> dict:
    return next(r for r in book.records[kind] if r["id"] == record_id)


def _link(book: Book, entry: str, rel: str) -> dict:
    return next(k for k in _record(book, "entries", entry)["links"] if k["rel"] == rel)


def _other_paper(book: Book) -> None:
    # The list links Mind2Web to the paper of Mind2Web 2.
    _link(book, "mind2web", "paper")["url"] = "https://arxiv.org/abs/2506.21506"


def _copied_website(book: Book) -> None:
    # The list's row of Satori has the website of RENT, one row up.
    _record(book, "entries", "satori")["links"].append(
        {
            "rel": "website",
            "url": _link(book, "rent", "website")["url"],
            "source": "S-list",
            "at": "README L154",
        }
    )


def _code_is_paper(book: Book) -> None:
    # The list's code link of ELLM is the page of the paper.
    _link(book, "ellm", "code")["url"] = "https://proceedings.mlr.press/v202/du23f.html"


def _no_scheme(book: Book) -> None:
    # A paper link of the list starts with 'doi.org/…', which no browser follows.
    _link(book, "dapo", "paper")["url"] = "arxiv.org/abs/2503.14476"


def _kl_against_evidence(book: Book) -> None:
    # Both sources print a KL penalty for DAPO; its released settings have none.
    next(c for c in _record(book, "entries", "dapo")["claims"] if c["attribute"] == "kl")["resolved"] = "yes"


def _later_year(book: Book) -> None:
    # Both sources date GRPO by DeepSeek-R1 (2025) instead of DeepSeekMath (February 2024).
    _record(book, "works", "deepseekmath")["first_public"] = "2025-01"


def _table_twice(book: Book) -> None:
    # For a week the list printed its multi-agent table twice.
    placements = _record(book, "entries", "camel")["placements"]
    placements.append(dict(next(p for p in placements if p["source"] == "S-list")))


def _shared_name(book: Book) -> None:
    # Two papers call their method ARPO.
    _record(book, "entries", "arpo-gui")["name"] = "ARPO"
    book.records["relations"][:] = [
        r for r in book.records["relations"] if {r["src"], r["dst"]} != {"arpo", "arpo-gui"}
    ]


FAULTS: tuple[Fault, ...] = (
    Fault("paper link of another work", "paper_matches_work", "mind2web", _other_paper),
    Fault(
        "website copied from a neighbour", "shared_url", "satori", _copied_website, (("shared_url", "rent"),)
    ),
    Fault("code link at a paper host", "code_host", "ellm", _code_is_paper),
    Fault("link without scheme", "url_form", "dapo", _no_scheme),
    Fault("value against its evidence", "evidence_agrees", "dapo", _kl_against_evidence),
    Fault("dated by a later paper", "arxiv_year", "deepseekmath", _later_year, (("year_agrees", "grpo"),)),
    Fault("table row twice", "row_counts", "S-list", _table_twice),
    Fault("one name, two methods", "alias_unique", "arpo-gui", _shared_name),
)


def lab(book: Book, faults: tuple[Fault, ...] = FAULTS) -> pd.DataFrame:
    """Plant each fault alone in a copy of ``book`` and run all rules.

    A row a fault: rule, target, named (whether that rule names that record, with file and line), where
    (file:line), and false_alarms: problems that have nothing to do with the fault.
    """
    rows = []
    for fault in faults:
        copy = book.copy()
        fault.plant(copy)
        problems = rules.run(Index(copy))
        hits = [p for p in problems if (p.rule, p.target) == (fault.rule, fault.target) and p.line > 0]
        expected = {(fault.rule, fault.target), *fault.also}
        others = [p for p in problems if (p.rule, p.target) not in expected]
        rows.append(
            {
                "fault": fault.what,
                "rule": fault.rule,
                "target": fault.target,
                "named": bool(hits),
                "where": f"{hits[0].file}:{hits[0].line}" if hits else "",
                "false_alarms": len(others),
            }
        )
    return pd.DataFrame(rows)
