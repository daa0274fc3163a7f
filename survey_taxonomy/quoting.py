"""The source text of a class of arl_mini, its loss and its parents: read by ``ast``, so that nothing imports
torch.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path

from .rules.realised import ROOT

#: hooks of an algorithm, in time order: what a class body may change
HOOKS = (
    "plan",
    "pairs",
    "reward",
    "keep",
    "advantages",
    "ratio",
    "surrogate",
    "margin",
    "penalty",
    "worth",
    "reduce",
    "loss",
)


@dataclass(frozen=True)
class Quote:
    """A class or function as it stands in the sources.

    ``file`` is relative to the project, ``line`` 1-based; ``loss`` is the text of the loss where a parent
    holds it (owner, text), else ``None``; ``parents`` are the classes above it, nearest first; ``changes``
    the hooks its own body defines; ``critic`` 'yes', 'no' or 'optional'.
    """

    symbol: str
    file: str
    line: int
    text: str
    loss: tuple[str, str] | None = None
    parents: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    critic: str = "no"


@dataclass(frozen=True)
class Library:
    """The sources under ``root``; each file is read once."""

    root: Path = ROOT
    _files: dict[Path, tuple[str, ast.Module]] = field(default_factory=dict, repr=False)

    def quote(self, symbol: str) -> Quote | None:
        """The definition of ``symbol`` ('arl_mini.algorithms.DAPO'), or ``None`` where the sources lack
        it.
        """
        found = self._find(symbol)
        if found is None:
            return None
        file, node = found
        chain = self._chain(file, node)
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        own = tuple(name for name in HOOKS if _member(node, name) is not None)
        loss = next(
            ((c.name, self._text(f, m)) for f, c in chain if (m := _member(c, "loss")) is not None), None
        )
        return Quote(
            symbol,
            file.relative_to(self.root).as_posix(),
            first,
            self._text(file, node),
            loss if loss and loss[0] != node.name else None,
            tuple(c.name for _, c in chain[1:]),
            own,
            _critic([c for _, c in chain]),
        )

    def _read(self, file: Path) -> tuple[str, ast.Module]:
        if file not in self._files:
            text = file.read_text(encoding="utf-8")
            self._files[file] = (text, ast.parse(text))
        return self._files[file]

    def _text(self, file: Path, node: ast.stmt) -> str:
        lines = self._read(file)[0].splitlines()
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        return "\n".join(lines[first - 1 : node.end_lineno])

    def _find(self, symbol: str, depth: int = 0) -> tuple[Path, ast.ClassDef | ast.FunctionDef] | None:
        *modules, name = symbol.split(".")
        folder = self.root.joinpath(*modules)
        file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        if depth > 8 or not file.exists():
            return None
        package = modules if folder.is_dir() else modules[:-1]
        for node in self._read(file)[1].body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
                return file, node
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        base = package[: len(package) - node.level + 1] if node.level else []
                        where = [*base, *(node.module.split(".") if node.module else []), alias.name]
                        return self._find(".".join(where), depth + 1)
        return None

    def _chain(self, file: Path, node: ast.stmt) -> list[tuple[Path, ast.ClassDef]]:
        """The class and its first parents within the sources, nearest first."""
        chain = [(file, node)]
        while isinstance(node, ast.ClassDef) and node.bases and isinstance(node.bases[0], ast.Name):
            module = file.relative_to(self.root).with_suffix("").parts
            found = self._find(".".join([*module, node.bases[0].id]))
            if found is None:
                break
            file, node = found
            chain.append(found)
        return chain


def _member(node: ast.stmt, name: str) -> ast.stmt | None:
    for part in getattr(node, "body", ()):
        if getattr(part, "name", None) == name:
            return part
        targets = part.targets if isinstance(part, ast.Assign) else []
        if any(isinstance(t, ast.Name) and t.id == name for t in targets):
            return part
    return None


def _critic(chain: list[ast.stmt]) -> str:
    """Whether the run trains a value head: a constant of the nearest class says yes or no, a property
    optional.
    """
    for node in chain:
        part = _member(node, "needs_critic")
        if isinstance(part, ast.Assign):
            return "yes" if ast.literal_eval(part.value) else "no"
        if part is not None:
            return "optional"
    return "no"
