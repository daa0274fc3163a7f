"""The sources as they print: the stated layer alone, to show that the checks find the known faults."""

from __future__ import annotations

from .reading import Book


def as_stated(book: Book) -> Book:
    """A copy of ``book`` with every decision of this project undone.

    Claims and corrections are dropped, links and arXiv ids return to what the sources print, works that the
    bibliography lists twice are two again, and nothing is on an allow list.
    """
    raw = book.copy()
    for entry in raw.records["entries"]:
        entry.pop("claims", None)
        for link in entry.get("links", ()):
            link.pop("status", None)
            link.update(link.pop("stated", {}))
    for section in raw.records["sections"]:
        section["title_en"] = section.pop("title_stated", section["title_en"])
    _split_works(raw)
    raw.records["corrections"], raw.places["corrections"] = [], []
    raw.records["shared_urls"], raw.places["shared_urls"] = [], []
    return raw


def _split_works(raw: Book) -> None:
    for i, work in list(raw.each("works")):
        work.update(work.pop("stated", {}))
        for cited in work.get("cited", ()):
            cited.pop("meant", None)
        for extra in work.get("cited", [])[1:]:
            twin = {**work, "id": f"{work['id']}-ref-{extra['ref']}", "cited": [extra]}
            raw.records["works"].append(twin)
            raw.places["works"].append(raw.places["works"][i])
        if "cited" in work:
            work["cited"] = work["cited"][:1]
