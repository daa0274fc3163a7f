"""Read other lists of the field and propose changes. Nothing here changes the data."""

from .bullets import parse_bullets, render_bullets
from .git import read_commit
from .official import parse_official, render_official
from .proposal import Proposal, propose
from .rows import Listing, Row, Section

__all__ = [
    "Listing",
    "Proposal",
    "Row",
    "Section",
    "parse_bullets",
    "parse_official",
    "propose",
    "read_commit",
    "render_bullets",
    "render_official",
]
