"""Rules on coverage: what is said to be built is there. Read from the source text, without importing
torch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from ..problems import Problem
from ..values import Index

ROOT = Path(__file__).resolve().parents[2]


def resolves(symbol: str, root: Path = ROOT, depth: int = 0) -> bool:
    """Whether ``package.module.name`` is defined (or imported under that name) in the sources under
    ``root``.
    """
    *modules, name = symbol.split(".")
    folder = root.joinpath(*modules)
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    if folder.is_dir() and ((folder / f"{name}.py").exists() or (folder / name / "__init__.py").exists()):
        return True
    if depth > 8:
        return False
    if not file.exists():
        return len(modules) > 1 and _member(".".join(modules), name, root, depth)
    tree = ast.parse(file.read_text(encoding="utf-8"))
    package = modules if folder.is_dir() else modules[:-1]
    return any(_defines(node, name, package, root, depth) for node in tree.body)


def _defines(node: ast.stmt, name: str, package: list[str], root: Path, depth: int) -> bool:
    if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return node.name == name
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(isinstance(t, ast.Name) and t.id == name for t in targets)
    if isinstance(node, ast.ImportFrom):
        for alias in node.names:
            if (alias.asname or alias.name) in (name, "*"):
                base = package[: len(package) - node.level + 1] if node.level else []
                module = [*base, *(node.module.split(".") if node.module else [])]
                return resolves(
                    ".".join([*module, name if alias.name == "*" else alias.name]), root, depth + 1
                )
    return False


def _member(owner: str, name: str, root: Path, depth: int) -> bool:
    *modules, cls = owner.split(".")
    folder = root.joinpath(*modules)
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    if not file.exists():
        return False
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return any(
        isinstance(n, ast.ClassDef)
        and n.name == cls
        and any(getattr(m, "name", None) == name for m in n.body)
        for n in tree.body
    )


def symbol_exists(index: Index) -> Iterator[Problem]:
    """Every class or function that coverage names is defined."""
    for i, item in index.book.each("coverage"):
        if "symbol" in item and not resolves(item["symbol"]):
            yield index.book.problem(
                "symbol_exists", "coverage", i, f"{item['symbol']} is not defined in the sources", "symbol"
            )


def files_exist(index: Index) -> Iterator[Problem]:
    """Every chapter and test that coverage names exists; what is implemented names its symbol and test."""
    for i, item in index.book.each("coverage"):
        if item["level"] == "implemented" and not {"symbol", "test"} <= item.keys():
            yield index.book.problem(
                "files_exist", "coverage", i, "implemented needs a symbol and a test", "level"
            )
        if item["level"] == "toy_analogue" and not ("symbol" in item and item.keys() & {"test", "chapter"}):
            yield index.book.problem(
                "files_exist", "coverage", i, "toy_analogue needs a symbol and a test or chapter", "level"
            )
        if not (ROOT / "pyproject.toml").exists():
            continue  # installed without the checkout: notebooks and tests are not there to be looked at
        if "chapter" in item:
            source = ROOT / "notebooks" / "src" / f"{item['chapter']}.py"
            if not source.exists() and not (ROOT / "notebooks" / f"{item['chapter']}.ipynb").exists():
                yield index.book.problem(
                    "files_exist", "coverage", i, f"there is no notebook {item['chapter']}", "chapter"
                )
        if "test" in item:
            file, _, function = item["test"].partition("::")
            text = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).exists() else None
            if text is None or (function and f"def {function}(" not in text):
                yield index.book.problem(
                    "files_exist", "coverage", i, f"there is no test {item['test']}", "test"
                )
