"""Chapter 31: a date rule, gaps with evidence, a new entry, a round trip, and a link filter with a bug."""

import functools
import random
import re
import string
from collections.abc import Iterable
from urllib.parse import urlsplit

from survey_taxonomy.checking import check_new
from survey_taxonomy.reading import DATA, read

from ..lab.check import Trial, show
from . import Exercise, Wrong, changed

# --- 31.1 -------------------------------------------------------------------------------------------------


def _work(rng: random.Random, name: str) -> dict:
    """A row without fault: an arXiv id, the month it says, and the year of the printed edition."""
    year, month = rng.randint(7, 26), rng.randint(1, 12)
    number = "".join(rng.choices(string.digits, k=4 if year < 15 else 5))
    first, edition = f"20{year:02d}-{month:02d}", 2000 + year + rng.choice((0, 0, 1, 2))
    return dict(id=name, arxiv=f"{year:02d}{month:02d}.{number}", first_public=first, year=edition)


def _month_13(row: dict) -> None:
    row["arxiv"] = row["arxiv"][:2] + "13" + row["arxiv"][4:]
    row["first_public"] = row["first_public"][:5] + "13"


def _cut(row: dict) -> None:
    row["arxiv"] = row["arxiv"][:-1]


def _moved(row: dict) -> None:
    year, month = row["first_public"].split("-")
    row["first_public"] = f"{year}-{int(month) % 12 + 1:02d}"


def _too_early(row: dict) -> None:
    row["year"] = int(row["first_public"][:4]) - 1


PLANTS = {
    "There is no month 13 and none 00.": _month_13,
    "Four digits after the point up to 2014, five since 2015; none has three.": _cut,
    "The first four digits are year and month: first_public must say the same.": _moved,
    "An edition cannot be older than the arXiv id; it may be younger.": _too_early,
}


def check_suspicious(trial: Trial) -> str:
    for index in range(120):
        works = [_work(trial.rng, f"w{k}") for k in range(trial.rng.randint(1, 6))]
        hint, plant = (
            trial.rng.choice(list(PLANTS.items())) if index >= 40 else ("These rows have no fault.", None)
        )
        bad = []
        if plant:
            row = trial.rng.choice(works)
            plant(row)
            bad = [row["id"]]
        trial.begin(f"suspicious({show(works)})", str(bad), hint)
        came = trial.answer([dict(work) for work in works])
        if not isinstance(came, Iterable) or list(came) != bad:
            trial.fail(show(came))
    return "120 random lists, 40 of them without a fault"


def suspicious(works):
    """Ids of works whose arXiv id, first_public and year cannot all be right."""
    found = []
    for work in works:
        match = re.fullmatch(r"(\d\d)(\d\d)\.(\d{4,5})", work["arxiv"])
        good = (match and 1 <= int(match[2]) <= 12 and (len(match[3]) == 5) == (int(match[1]) >= 15)
                and work["first_public"] == f"20{match[1]}-{match[2]}"
                and work["year"] >= 2000 + int(match[1]))  # fmt: skip
        if not good:
            found.append(work["id"])
    return found


# --- 31.2 -------------------------------------------------------------------------------------------------

CAPABILITIES, TASKS = ("planning", "tool use", "memory", "reasoning"), ("search", "code", "GUI", "robots")


def _placed(rng: random.Random) -> list[dict]:
    entries = []
    for k in range(rng.randint(2, 7)):
        entries.append({"id": f"e{k}", "capabilities": rng.sample(CAPABILITIES, rng.randint(0, 2)),
                        "tasks": rng.sample(TASKS, rng.randint(0, 2))})  # fmt: skip
    return entries


def _empty_cells(entries: list[dict]) -> set[tuple[str, str]]:
    rows = {c for e in entries for c in e["capabilities"]}
    columns = {t for e in entries for t in e["tasks"]}
    filled = {(c, t) for e in entries for c in e["capabilities"] for t in e["tasks"]}
    return {(c, t) for c in rows for t in columns} - filled


def check_gaps(trial: Trial) -> str:
    for _ in range(150):
        entries = _placed(trial.rng)
        by_id = {e["id"]: e for e in entries}
        cells = _empty_cells(entries)
        trial.begin(f"gaps({show(entries)})", f"one tuple for each of {sorted(cells)}",
                    "A gap is a cell without an entry whose row and whose column have some.")  # fmt: skip
        came = trial.answer(
            [{**e, "capabilities": list(e["capabilities"]), "tasks": list(e["tasks"])} for e in entries]
        )
        found = list(came) if isinstance(came, (list, tuple, set)) else trial.fail(show(came))
        if not all(isinstance(gap, tuple) and len(gap) == 4 for gap in found):
            trial.fail(show(came), "A gap is (capability, task, id, id).")
        if sorted(gap[:2] for gap in found) != sorted(cells):
            trial.fail(show(came))
        for capability, task, row, column in found:
            if row not in by_id or capability not in by_id[row]["capabilities"]:
                trial.fail(
                    show(came), f"The first id must have the capability {capability!r}; {row!r} has not."
                )
            if column not in by_id or task not in by_id[column]["tasks"]:
                trial.fail(show(came), f"The second id must have the task {task!r}; {column!r} has not.")
    return "150 random sets of entries"


def gaps(entries):
    """(capability, task, id with the capability, id with the task) for each empty cell with neighbours."""
    rows = {c: e["id"] for e in entries for c in e["capabilities"]}
    columns = {t: e["id"] for e in entries for t in e["tasks"]}
    filled = {(c, t) for e in entries for c in e["capabilities"] for t in e["tasks"]}
    return [(c, t, rows[c], columns[t]) for c in rows for t in columns if (c, t) not in filled]


# --- 31.3 -------------------------------------------------------------------------------------------------


@functools.cache
def _book():
    return read(DATA)


def _case(rng: random.Random) -> tuple[dict, dict, dict]:
    """(what a list prints, its paper, what was found): the printed KL penalty is wrong."""
    name = "".join(rng.choices(string.ascii_uppercase, k=3)) + "PO"
    year, month = rng.choice((23, 24, 25)), rng.randint(1, 12)
    place = {"section": "2.7/grpo", "source": "S-list", "at": f"README L{rng.randint(30, 90)}"}
    printed = {"name": name, **place, "cells": {"year": 2000 + year, "kl": "Yes"}}
    arxiv = f"{year}{month:02d}.{rng.randint(0, 99999):05d}"
    paper = {"title": f"{name}: a made-up method", "authors": "A. Person et al.", "arxiv": arxiv}
    passage = rng.choice(("beta: 0.0", "kl_coef=0.0", "use_kl_loss=False"))
    url = f"https://github.com/example/{name.lower()}"
    return printed, paper, {"kl": "none", "kind": "config_file", "url": url, "passage": passage}


def check_add(trial: Trial) -> str:
    for _ in range(4):
        printed, paper, found = _case(trial.rng)
        trial.begin(f"add({show(printed)}, {show(paper)}, {show(found)})", "records that all checks pass",
                    "Read the check's message: it names the record and the field.")  # fmt: skip
        came = trial.answer({**printed, "cells": dict(printed["cells"])}, dict(paper), dict(found))
        kinds = ("works", "entries", "evidence", "corrections")
        if not isinstance(came, dict) or set(came) != set(kinds):
            trial.fail(show(came), f"A dict with {', '.join(kinds)}, each a list of records.")
        if not all(isinstance(r, list) and r and all(isinstance(x, dict) for x in r) for r in came.values()):
            trial.fail(show(came), "Each kind is a list of at least one record.")
        problems = check_new(_book(), **came)
        if problems:
            trial.fail(str(problems[0]))
        entry, claims = came["entries"][0], came["entries"][0].get("claims", [])
        kl = next((c for c in claims if c["attribute"] == "kl"), None)
        if entry["placements"][0].get("cells") != printed["cells"]:
            trial.fail(
                show(entry["placements"]), "What is printed is kept as it is: cells are never changed."
            )
        if kl is None or kl.get("resolved") != found["kl"] or kl["status"] != "contradicted":
            trial.fail(
                show(claims), "A claim on kl says what is shown instead: resolved none, status contradicted."
            )
    return "4 made-up rows, each by all checks"


def add(printed, paper, found):
    """The records of a new entry whose printed KL penalty the evidence contradicts."""
    key = printed["name"].lower()
    month = f"20{paper['arxiv'][:2]}-{paper['arxiv'][2:4]}"
    place = dict(source=printed["source"], at=printed["at"])
    work = dict(id=key, kind="paper", **paper, year=int(month[:4]), first_public=month, venue="arXiv")
    work |= dict(found=place)
    proof = dict(id=f"{key}-kl", entry=key, attribute="kl", says="none", seen=True)
    proof |= dict(kind=found["kind"], url=found["url"], passage=found["passage"])
    claim = dict(attribute="kl", resolved="none", status="contradicted", evidence=[proof["id"]])
    row = dict(section=printed["section"], role="table_row", **place, cells=printed["cells"])
    entry = dict(id=key, name=printed["name"], kind="algorithm", work=key, note="Made up.")
    entry |= dict(placements=[row], claims=[claim])
    fix = dict(id="X01", target=dict(entry=key, field="kl"), issue="wrong_value", stated="Yes")
    fix |= dict(corrected="none", evidence=[proof["id"]], confidence="high", status="checked")
    fix |= dict(rule="evidence_agrees", upstream="none")
    return {"works": [work], "entries": [entry], "evidence": [proof], "corrections": [fix]}


# --- 31.4 -------------------------------------------------------------------------------------------------


def render(cells: list[str]) -> str:
    """A table row; a bar or a backslash inside a cell gets a backslash before it."""
    return "|" + "|".join(re.sub(r"([\\|])", r"\\\1", cell) for cell in cells) + "|"


def check_parse(trial: Trial) -> str:
    for size in range(300):
        letters = ("ab ", "ab |", "ab |\\")[size // 100]  # what is hard comes last
        lengths = [trial.rng.randint(0, 3) for _ in range(trial.rng.randint(1, 4))]
        cells = ["".join(trial.rng.choices(letters, k=length)) for length in lengths]
        trial.begin(
            f"parse({render(cells)!r})",
            repr(cells),
            "parse(render(cells)) must give back the cells, all of them.",
        )
        came = trial.answer(render(cells))
        if came != cells:
            trial.fail(show(came), _parse_hint(cells))
    return "300 random rows: plain, with bars, with bars and backslashes"


def _parse_hint(cells: list[str]) -> str:
    if any("\\" in cell for cell in cells):
        return "Two backslashes are one; whether a bar is escaped depends on all backslashes before it."
    if any("|" in cell for cell in cells):
        return "A bar with a backslash before it belongs to its cell."
    return "An empty cell is a cell too: parse(render(cells)) must give back all of them."


def parse(line):
    """The cells of a row that `render` wrote."""
    cells, escaped = [""], False
    for letter in line[1:-1]:
        if escaped or letter not in "\\|":
            cells[-1] += letter
            escaped = False
        elif letter == "\\":
            escaped = True
        else:
            cells.append("")
    return cells


def parse_split(line):
    return line[1:-1].split("|")


def parse_lookbehind(line):
    return [re.sub(r"\\([\\|])", r"\1", cell) for cell in re.split(r"(?<!\\)\|", line[1:-1])]


# --- 31.5 -------------------------------------------------------------------------------------------------

HOSTS = ("github.com", "arxiv.org", "huggingface.co", "openreview.net")
TRICKS = {
    "The host is what the browser goes to; a known name may stand anywhere else in the address.": (
        "https://{h}.evil.example/x", "https://evil.example/{h}/x", "https://evil.example/?next=https://{h}/x",
        "https://not{h}/x", "https://evil.example#{h}",
    ),
    "What stands before @ is a user's name, not a host.": ("https://{h}@evil.example/x", "https://{h}:x@evil.example/"),
    "Only https: other schemes run code or can be read on the way.": (
        "javascript:alert('{h}')", "http://{h}/x", "data:text/html,{h}", "{h}/x", "//{h}/x",
    ),
}  # fmt: skip
GOOD = ("https://{h}/x", "https://{h}/a/b?c=d#e", "https://{h}", "https://{H}/x", "https://{h}:443/x")


def accepted_with_bug(links, hosts):
    """Links an importer may keep."""
    return [url for url in links if any(host in url for host in hosts)]


def accepted(links, hosts):
    """Links an importer may keep: https, and the host itself is known."""
    kept = []
    for url in links:
        parts = urlsplit(url)
        if parts.scheme == "https" and parts.hostname in hosts and "@" not in parts.netloc:
            kept.append(url)
    return kept


def check_accepted(trial: Trial) -> str:
    for index in range(150):
        host = trial.rng.choice(HOSTS)
        good = [
            form.format(h=host, H=host.upper())
            for form in trial.rng.sample(GOOD[: 3 if index < 110 else 5], 2)
        ]
        hint, forms = list(TRICKS.items())[min(max(index - 20, 0) // 30, 2)]
        bad = [trial.rng.choice(forms).format(h=host)] if 20 <= index < 110 else []
        links = good + bad
        trial.rng.shuffle(links)
        expected = [url for url in links if url in good]
        trial.begin(f"accepted({links}, {HOSTS})", str(expected),
                    hint if bad else "The same in capitals; a port or a path changes nothing.")  # fmt: skip
        came = trial.answer(list(links), HOSTS)
        if not isinstance(came, list) or came != expected:
            trial.fail(show(came))
    return "150 random lists, 90 of them with a link that only looks known"


# fmt: off
EXERCISES = (
    Exercise(
        "31.1",
        "suspicious(works): ids of works whose arXiv id, first month and year cannot all be right.",
        check_suspicious, suspicious,
        (
            Wrong(changed(suspicious, "1 <= int(match[2]) <= 12 and ", ""), "lets month 13 pass", "month 13"),
            Wrong(changed(suspicious, 'work["year"] >= 2000', 'work["year"] == 2000'),
                  "takes a later edition for a fault", "no fault"),
            Wrong(changed(suspicious, "(len(match[3]) == 5) == (int(match[1]) >= 15)", "len(match[3]) == 5"),
                  "wants five digits of 2014 too", "no fault"),
            Wrong(changed(suspicious, 'work["first_public"] == f"20{match[1]}-{match[2]}"',
                          'work["first_public"][:4] == f"20{match[1]}"'),
                  "looks at the year alone", "year and month"),
        ),
    ),
    Exercise(
        "31.2",
        "gaps(entries): the empty cells of capability × task with neighbours, each with two entries.",
        check_gaps, gaps,
        (
            Wrong(changed(gaps, "for c in rows for t in columns if",
                          "for c in CAPABILITIES if c in rows for t in list(columns)[:1] if"),
                  "looks at one column", "A gap is a cell"),
            Wrong(changed(gaps, " if (c, t) not in filled", ""), "lists full cells too", "without an entry"),
            Wrong(changed(gaps, "(c, t, rows[c], columns[t])", "(c, t, columns[t], rows[c])"),
                  "cites the two the wrong way round", "must have the"),
            Wrong(changed(gaps, "(c, t, rows[c], columns[t])", "(c, t)"), "cites nothing",
                  "(capability, task, id, id)"),
        ),
    ),
    Exercise(
        "31.3",
        "add(printed, paper, found): the records of a row that prints a wrong KL penalty.",
        check_add, add,
        (
            Wrong(changed(add, 'status="contradicted", evidence=[proof["id"]])', 'status="contradicted")'),
                  "contradicts without evidence", "needs_evidence"),
            Wrong(changed(add, 'target=dict(entry=key, field="kl")', 'target=dict(entry=key, field="clip")'),
                  "corrects another field", "needs_correction"),
            Wrong(changed(add, "-{paper['arxiv'][2:4]}", "-00"), "does not read the month", "first_public"),
            Wrong(changed(add, 'cells=printed["cells"]', 'cells={**printed["cells"], "kl": "No"}'),
                  "changes what was printed", "never changed"),
            Wrong(changed(add, 'kind="algorithm"', 'kind="algorythm"'), "misspells a kind", "algorythm"),
        ),
    ),
    Exercise(
        "31.4",
        "parse(line): the cells of a table row, so that parse(render(cells)) == cells.",
        check_parse, parse,
        (
            Wrong(parse_split, "splits at every bar", "belongs to its cell"),
            Wrong(parse_lookbehind, "looks at one backslash only", "all backslashes before it"),
            Wrong(changed(parse, "return cells", "return [cell for cell in cells if cell]"),
                  "drops empty cells", "An empty cell"),
            Wrong(changed(parse, "in line[1:-1]", 'in line.replace(chr(92), "")[1:-1]'),
                  "throws backslashes away", "|"),
        ),
    ),
    Exercise(
        "31.5",
        "accepted(links, hosts): the links that an importer may keep, without its bug.",
        check_accepted, accepted,
        (
            Wrong(accepted_with_bug, "looks for the name anywhere", "what the browser goes to"),
            Wrong(changed(accepted, "parts.hostname in hosts", "parts.netloc.lower().endswith(hosts)"),
                  "takes every host that ends alike", "what the browser goes to"),
            Wrong(changed(accepted, "parts.hostname in hosts", "parts.netloc in hosts"),
                  "stumbles over ports and capitals", "capitals"),
            Wrong(changed(accepted, 'parts.scheme == "https" and ', ""), "keeps http", "Only https"),
        ),
    ),
)
# fmt: on
