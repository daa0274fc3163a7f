"""Rules on links. ``link_faults`` judges one link by itself and also serves the importer."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from urllib.parse import urlsplit

from ..problems import Problem
from ..values import Index

ARXIV = re.compile(
    r"arxiv\.org/(?:abs|pdf)/(\d{4}\.\d{4,5})|10\.48550/arXiv\.(\d{4}\.\d{4,5})", re.IGNORECASE
)
OPENREVIEW = re.compile(r"openreview\.net/forum\?id=([\w-]+)")


def paper_id(url: str) -> tuple[str, str] | None:
    """('arxiv', id) or ('openreview', id) of a paper URL, else None."""
    if match := ARXIV.search(url):
        return "arxiv", match[1] or match[2]
    if match := OPENREVIEW.search(url):
        return "openreview", match[1]
    return None


def host_of(url: str) -> str:
    return urlsplit(url).netloc.lower()


def link_faults(rel: str, url: str, allow: dict[str, list]) -> Iterator[tuple[str, str]]:
    """(rule, message) for each fault one link has by itself; ``allow`` holds the host lists of allow.yml."""
    if not url:
        yield "url_form", f"{rel} link without address"
        return
    if not url.startswith("https://") or "arxiv.org/pdf/" in url or " " in url:
        yield "url_form", f"got {url!r}, expected https://… (arXiv: /abs/)"
    host = host_of(url)
    if "://" in url and host not in allow["hosts"]:
        yield "host_known", f"host {host!r} is not on the list of known hosts"
    if host in allow["expiring_hosts"]:
        yield "host_known", f"host {host!r} keeps pages for a limited time"
    if rel == "code" and (host in allow["paper_hosts"] or host not in allow["code_hosts"]):
        yield "code_host", f"code link points at {host!r}, which holds no code"
    if rel == "model" and host == "huggingface.co":
        parts = [p for p in urlsplit(url).path.split("/") if p]
        if parts[:1] == ["datasets"]:
            yield "model_link", "model link is a data set"
        elif len(parts) < 2:
            yield "model_link", f"model link is the page of {parts[0] if parts else host!r}, not of a model"


def _each_link(index: Index) -> Iterator[tuple[int, dict, int, dict]]:
    for i, entry in index.book.each("entries"):
        for j, link in enumerate(entry.get("links", ())):
            if link["url"] is not None:
                yield i, entry, j, link


def _single(index: Index, rule: str, excused: tuple[str, ...] = ()) -> Iterator[Problem]:
    for i, _, j, link in _each_link(index):
        if link.get("status") in excused:
            continue
        for name, message in link_faults(link["rel"], link["url"], index.book.settings):
            if name == rule:
                yield index.book.problem(rule, "entries", i, message, "links", j, "url")


def url_form(index: Index) -> Iterator[Problem]:
    """Links are https, arXiv links go to the abstract page, none is empty."""
    yield from _single(index, "url_form")


def host_known(index: Index) -> Iterator[Problem]:
    """Links go to hosts on the list; hosts that forget are marked anonymous."""
    yield from _single(index, "host_known", excused=("anonymous",))


def code_host(index: Index) -> Iterator[Problem]:
    """A code link points at a host of code, never at a paper."""
    yield from _single(index, "code_host")


def model_link(index: Index) -> Iterator[Problem]:
    """A model link names organisation and model (or a collection), not a data set."""
    yield from _single(index, "model_link")


def paper_matches_work(index: Index) -> Iterator[Problem]:
    """The paper link of an entry is the entry's own work."""
    owner = {
        (field, w[field]): w["id"]
        for w in index.book.records["works"]
        for field in ("arxiv", "openreview")
        if w.get(field)
    }
    for i, entry, j, link in _each_link(index):
        found = paper_id(link["url"]) if link["rel"] == "paper" else None
        if found is None:
            continue
        work = index.works[entry["work"]]
        own, other = work.get(found[0]), owner.get(found)
        if own is not None and own != found[1] or other not in (None, work["id"]):
            yield index.book.problem(
                "paper_matches_work",
                "entries",
                i,
                f"paper link is {found[1]}"
                f" ({other or 'unknown work'}), but {entry['name']} is {work['id']!r}",
                "links",
                j,
            )


def one_paper_link(index: Index) -> Iterator[Problem]:
    """An entry has one paper link; further versions are marked as such."""
    for i, entry in index.book.each("entries"):
        papers = [k["url"] for k in entry.get("links", ()) if k["rel"] == "paper" and k["url"] is not None]
        if len(set(papers)) > 1:
            yield index.book.problem(
                "one_paper_link",
                "entries",
                i,
                f"{len(papers)} paper links, which says that two rows were one work",
                "links",
            )


def shared_url(index: Index) -> Iterator[Problem]:
    """No URL stands on two entries of different works, unless the allow list says why."""
    allowed = {a["url"]: set(a["entries"]) for a in index.book.records["shared_urls"]}
    users = defaultdict(list)
    for i, entry, j, link in _each_link(index):
        if link["url"]:
            users[link["url"].rstrip("/")].append((i, entry, j))
    for url, found in users.items():
        works = {entry["work"] for _, entry, _ in found}
        names = {entry["id"] for _, entry, _ in found}
        if len(works) > 1 and not names <= allowed.get(url, set()):
            for i, entry, j in found:
                yield index.book.problem(
                    "shared_url",
                    "entries",
                    i,
                    f"{url} also stands on {', '.join(sorted(names - {entry['id']}))}",
                    "links",
                    j,
                    "url",
                )
