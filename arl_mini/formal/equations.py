"""From equation to code and back: each formula has an id, and names its function, test and notebook cell.

    print(card("survey-16"))          # Markdown: formula, how it is read here, code
    orphans(Path("."))                # what misses its other end; empty if all is well

A code cell shows an equation by calling `equation("survey-16")`. Tests of equations are the functions of the
files named tests/…/test_…equations.py. The function of a survey equation has its number in the docstring.
"""

import ast
import importlib
import inspect
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

TESTS = "test_*equations.py"
SHOWN = re.compile(r"""^(?!\s*#).*\bequation\(\s*["']([\w-]+)["']""", re.MULTILINE)  # not in a markdown cell
CITED = re.compile(r"[Ss]urvey,? Eqs?\.\s*((?:\(\d+\)(?:,\s*|\s+and\s+)?)+)")


@dataclass(frozen=True)
class Equation:
    """A formula and where it lives.

    function: dotted path of what computes it; used_by: algorithms built on it. test: pytest's id of a test.
    chapter: the notebook whose source has the cell that shows it. reading: how the library takes a loose
    statement.
    """

    id: str
    title: str
    latex: str
    locator: str
    function: str
    test: str
    chapter: str
    reading: str = ""
    used_by: tuple[str, ...] = ()

    @property
    def cell(self) -> str:
        """'01_mdp_pomdp#survey-3': the chapter, and the id that its cell calls `equation` with."""
        return f"{self.chapter}#{self.id}"


def registry() -> dict[str, Equation]:
    """Every equation by id: the survey's (1) to (17), then the chapters' own."""
    from .chapter_equations import CHAPTERS
    from .survey_equations import SURVEY

    found = {}
    for entry in (*SURVEY, *CHAPTERS):
        if entry.id in found:
            raise ValueError(f"two equations have the id {entry.id!r}")
        found[entry.id] = entry
    return found


def equation(id: str) -> Equation:
    """The equation of an id such as 'survey-16'."""
    found = registry()
    if id not in found:
        raise KeyError(f"no equation {id!r}; there are: {', '.join(found)}")
    return found[id]


def resolve(path: str) -> object:
    """The object of a dotted path: a module, then attributes. Raises LookupError saying where it ends."""
    parts = path.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for name in parts[n:]:
            if not hasattr(found, name):
                raise LookupError(f"{path}: {'.'.join(parts[:n])} is there, {name!r} is not")
            found = getattr(found, name)
        return found
    raise LookupError(f"{path}: no module {parts[0]!r}")


def source(path: str) -> str:
    """The source text of a function, class or property."""
    found = resolve(path)
    return inspect.getsource(found.fget if isinstance(found, property) else found)


def card(id: str) -> str:
    """Markdown for a notebook: title, formula, how it is read, where it is checked, and the code."""
    entry = equation(id)
    lines = [f"**{entry.title}** ({entry.locator})", f"$${entry.latex}$$"]
    if entry.reading:
        lines.append(f"*Read here as:* {entry.reading}")
    links = [f"`{entry.function}`", f"checked by `{entry.test}`", f"shown in `{entry.chapter}`"]
    links += [f"used by `{name}`" for name in entry.used_by]
    lines += [" · ".join(links), f"```python\n{textwrap.dedent(source(entry.function))}\n```"]
    return "\n\n".join(lines)


def orphans(root: Path, entries: dict[str, Equation] | None = None, all_chapters: bool = False) -> list[str]:
    """What misses its other end, in words.

    root: the project. Chapters that are not written yet are passed over unless all_chapters. Checked:
    functions and algorithms exist; the function's docstring cites the number; tests exist, and each test of
    an equation belongs to one; written chapters show their equations, and show none that is unknown;
    docstrings cite known numbers only.
    """
    entries = registry() if entries is None else entries
    return [
        *_code_faults(entries),
        *_test_faults(root, entries),
        *_cell_faults(root, entries, all_chapters),
        *_citation_faults(root, entries),
    ]


def _code_faults(entries: dict[str, Equation]) -> list[str]:
    faults = []
    for entry in entries.values():
        for path in (entry.function, *entry.used_by):
            try:
                found = resolve(path)
            except LookupError as error:
                faults.append(f"{entry.id}: {error}")
                continue
            number = entry.id.removeprefix("survey-")
            if path == entry.function and number.isdigit() and f"Eq. ({number})" not in (found.__doc__ or ""):
                faults.append(f"{entry.id}: the docstring of {path} does not say 'Eq. ({number})'")
    return faults


def _cited(text: str) -> set[int]:
    return {int(n) for match in CITED.findall(text) for n in re.findall(r"\d+", match)}


def _test_faults(root: Path, entries: dict[str, Equation]) -> list[str]:
    there = set()
    for path in sorted((root / "tests").rglob(TESTS)):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        there |= {f"{path.relative_to(root).as_posix()}::{n}" for n in names if n.startswith("test_")}
    faults = [f"{e.id}: there is no {e.test}" for e in entries.values() if e.test not in there]
    wanted = {entry.test for entry in entries.values()}
    return faults + [f"{test} checks no registered equation" for test in sorted(there - wanted)]


def _cell_faults(root: Path, entries: dict[str, Equation], all_chapters: bool) -> list[str]:
    folder, faults = root / "notebooks" / "src", []
    shown = {
        p.stem: set(SHOWN.findall(p.read_text(encoding="utf-8"))) for p in sorted(folder.glob("[0-9]*.py"))
    }
    for entry in entries.values():
        if entry.chapter in shown and entry.id not in shown[entry.chapter]:
            faults.append(f"{entry.id}: no cell of {entry.chapter} calls equation({entry.id!r})")
        elif entry.chapter not in shown and all_chapters:
            faults.append(f"{entry.id}: chapter {entry.chapter} is not written")
    return faults + [f"{chapter} shows equation({id!r}), which is not registered"
                     for chapter, ids in shown.items() for id in sorted(ids - entries.keys())]  # fmt: skip


def _citation_faults(root: Path, entries: dict[str, Equation]) -> list[str]:
    faults, said = [], "{} cites survey Eq. ({}), which is not registered"
    for path in sorted((root / "arl_mini").rglob("*.py")):
        for number in sorted(_cited(path.read_text(encoding="utf-8"))):
            if f"survey-{number}" not in entries:
                faults.append(said.format(path.relative_to(root).as_posix(), number))
    return faults
