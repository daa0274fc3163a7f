"""Rules across tables. Each takes an ``Index`` and yields the problems it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..problems import Problem
from ..values import Index
from . import identity, links, realised, values

Rule = Callable[[Index], Iterator[Problem]]

#: rules that the others lean on: ids are unique and everything named exists
KEYS: tuple[Rule, ...] = (identity.unique_ids, identity.foreign_keys)
RULES: tuple[Rule, ...] = (
    *KEYS,
    identity.alias_unique,
    identity.arxiv_id,
    identity.arxiv_year,
    identity.duplicate_work,
    identity.citation_name,
    identity.clean_text,
    identity.spelling,
    identity.row_counts,
    identity.leaf_entries,
    links.url_form,
    links.host_known,
    links.code_host,
    links.model_link,
    links.paper_matches_work,
    links.one_paper_link,
    links.shared_url,
    values.vocabulary,
    values.value_present,
    values.sources_disagree,
    values.evidence_agrees,
    values.needs_evidence,
    values.needs_correction,
    values.year_agrees,
    values.name_spelling,
    values.base_llm_known,
    values.codes_sorted,
    values.algorithm_known,
    realised.symbol_exists,
    realised.files_exist,
)
#: rules that hold for a few records as well as for all: all but the counts
BY_THEMSELVES = tuple(rule for rule in RULES if rule not in (identity.row_counts, identity.leaf_entries))


def run(index: Index, chosen: tuple[Rule, ...] = RULES) -> list[Problem]:
    """All problems that the rules find; those of the keys alone when there are any."""
    broken = [problem for rule in KEYS for problem in rule(index)]
    return broken or [problem for rule in chosen for problem in rule(index)]
