"""The survey *The Landscape of Agentic Reinforcement Learning for LLMs* as checked data.

``load()`` gives one pandas table for each kind of record; every value carries its source, and where sources
err the correction carries its evidence. Needs pandas and PyYAML only; the checks also need jsonschema and
pandera.

    import survey_taxonomy
    tax = survey_taxonomy.load()
    tax.find(section="3.3", where={"rl_used": "yes"})   # who trains memory with RL?
    tax.find(where={"kl": "none"})                      # which methods drop the KL term?
    tax.card("DAPO")                                    # everything about one entry
    survey_taxonomy.Explorer()                          # all of it, to walk through (in a notebook)
"""

from .cards import Card, LiteratureTable
from .checking import check
from .explorer import Explorer
from .problems import DataError, Problem
from .taxonomy import Taxonomy, load

__all__ = [
    "Card",
    "DataError",
    "Explorer",
    "LiteratureTable",
    "Problem",
    "Taxonomy",
    "check",
    "load",
    "table",
]


def table(section: str) -> LiteratureTable:
    """The literature table that closes a chapter: ``survey_taxonomy.table("3.3")``."""
    return load().table(section)
