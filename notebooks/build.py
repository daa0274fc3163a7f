"""Build the notebooks from their sources: `python -m notebooks.build [NAME ...] [--budget cpu] [--check]`.

`src/NN_name.py` (percent format) becomes `NN_name.ipynb` with outputs: run in a fresh kernel, cleaned of what
changes from machine to machine, and written whole or not at all.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

HERE = Path(__file__).resolve().parent
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
FALLBACKS = ("text/html", "image/svg+xml", "image/png", "text/plain")
MOST_BYTES = 400_000
THREADS = 1  # one thread gives the same sums in the same order on any machine of a kind
# Without the version of Python, which differs from machine to machine.
LANGUAGE = {"name": "python", "file_extension": ".py", "mimetype": "text/x-python"}
KEPT_METADATA = ("tags", "slideshow")
ANSI = re.compile(r"\x1b\[[0-9;]*m")
VOLATILE = {
    "a path of this machine": re.compile(r"(?<![\w.:/])/(?:home|Users|root|tmp|private|var)/[\w.]"
                                         r"|\b[A-Z]:\\\\?[\w.]"),
    "a memory address": re.compile(r"\bat 0x[0-9a-fA-F]{6,}"),
    "a date in a picture": re.compile(r"<dc:date>"),
}


class BuildError(Exception):
    """A notebook cannot be built as it stands; the message says which cell and why."""


def sources() -> list[Path]:
    """Every chapter source, in chapter order."""
    return sorted((HERE / "src").glob("[0-9]*.py"))


def read_source(source: Path) -> NotebookNode:
    """The notebook of a percent-format source: no outputs, stable ids, a plain python3 kernel."""
    notebook = jupytext.read(source, fmt="py:percent")
    seen: Counter[str] = Counter()
    for cell in notebook.cells:
        key = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:10]
        seen[key] += 1
        # Content decides the id, so a cell keeps it when others are put in before it.
        cell.id = key if seen[key] == 1 else f"{key}-{seen[key]}"
        cell.metadata = NotebookNode({k: v for k, v in cell.metadata.items() if k in KEPT_METADATA})
    notebook.metadata = NotebookNode(
        kernelspec={"name": "python3", "display_name": "Python 3", "language": "python"},
        language_info=LANGUAGE)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def execute(notebook: NotebookNode, budget: str, folder: Path, timeout: int) -> None:
    """Run every cell in a fresh kernel of this Python, in `folder`. Raises BuildError if one fails."""
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    manager = AsyncKernelManager(kernel_name="python3")
    # The kernel spec that happens to be called python3 here may belong to another Python.
    manager.kernel_spec.argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    with tempfile.TemporaryDirectory() as blank:
        client = NotebookClient(notebook, km=manager, timeout=timeout, record_timing=False,
                                store_widget_state=False, resources={"metadata": {"path": str(folder)}})
        try:
            client.execute(env=_environment(budget, blank))
        except CellExecutionError as error:
            raise BuildError(ANSI.sub("", str(error))) from None
        except (CellTimeoutError, DeadKernelError) as error:
            raise BuildError(f"{type(error).__name__}: {error}") from None


def _environment(budget: str, ipython: str) -> dict[str, str]:
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(THREADS))
    path = os.pathsep.join(filter(None, (str(HERE.parent), os.environ.get("PYTHONPATH"))))
    # A blank IPython folder: nobody's start-up files or settings leak into the outputs.
    return {**os.environ, **threads, "ARL_BUDGET": budget, "ARL_STATIC": "1", "PYTHONPATH": path,
            "PYTHONHASHSEED": "0", "IPYTHONDIR": ipython}


def clean(notebook: NotebookNode, budget: str) -> None:
    """Take out what differs from run to run, and widget views that have a still picture beside them.

    Raises BuildError for what can only be mended in the source.
    """
    notebook.metadata.pop("widgets", None)
    notebook.metadata.language_info = NotebookNode(LANGUAGE)
    notebook.metadata["arl_mini"] = {"budget": budget, "threads": THREADS}
    for number, cell in _code_cells(notebook):
        cell.metadata = NotebookNode({k: v for k, v in cell.metadata.items() if k in KEPT_METADATA})
        cell.outputs = _joined(cell.outputs)
        for output in cell.outputs:
            output.get("metadata", {}).pop(WIDGET_VIEW, None)
            data = output.get("data", {})
            if WIDGET_VIEW in data:
                if not any(kind in data for kind in FALLBACKS):
                    raise BuildError(f"cell {number} shows a widget with no still picture beside it; "
                                     f"give its display one of {', '.join(FALLBACKS)}")
                del data[WIDGET_VIEW]


def _joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Outputs with neighbouring pieces of one stream joined: where a kernel cuts them is chance."""
    joined: list[NotebookNode] = []
    for output in outputs:
        if joined and output.output_type == "stream" and joined[-1].get("name") == output.name:
            joined[-1].text += output.text
        else:
            joined.append(output)
    for output in joined:
        if "\r" in output.get("text", ""):  # a progress line, written over: what was left on the screen
            lines = output.text.replace("\r\n", "\n").split("\n")
            output.text = "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in lines)
    return joined


def problems(notebook: NotebookNode, source: Path) -> list[str]:
    """What is wrong with a built notebook, in words; empty if all is well."""
    fresh, found = read_source(source), []
    mine = [(c.cell_type, c.source, c.get("id"), c.metadata) for c in notebook.cells]
    theirs = [(c.cell_type, c.source, c.id, c.metadata) for c in fresh.cells]
    if len(mine) != len(theirs):
        found.append(f"has {len(mine)} cells, its source {len(theirs)}")
    pairs = enumerate(zip(mine, theirs, strict=False), 1)
    found += [f"cell {i} differs from its source" for i, (a, b) in pairs if a != b]
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        found.append("kernel is not called python3, so not every install can run it")
    if (budget := notebook.metadata.get("arl_mini", {}).get("budget")) != "cpu":
        found.append(f"was built at budget {budget!r}, expected 'cpu'")
    if "widgets" in notebook.metadata or WIDGET_STATE in notebook.metadata:
        found.append("has widget state in its metadata, which breaks its display on code hosts")
    code = list(_code_cells(notebook))
    found += [f"cell {i} was not run" for i, c in code if c.source.strip() and c.execution_count is None]
    if code and not any(cell.outputs for _, cell in code):
        found.append("has no outputs")
    found += [f"cell {i}: {text}" for i, cell in code for text in _output_problems(cell)]
    if (size := len(nbformat.writes(notebook).encode())) > MOST_BYTES:
        worst = max(code, key=lambda pair: len(str(pair[1].outputs)))[0]
        found.append(f"is {size:,} bytes, allowed are {MOST_BYTES:,}; cell {worst} has the largest outputs")
    return found


def _output_problems(cell: NotebookNode) -> list[str]:
    found, here = [], (str(HERE.parent) + os.sep, sys.prefix + os.sep)
    if "nbval-check-output" in cell.metadata.get("tags", []) and not cell.outputs:
        found.append("is tagged nbval-check-output but has no output to compare")
    for output in cell.outputs:
        if output.output_type == "error":
            found.append(f"ended in an error: {output.ename}: {output.evalue}")
            continue
        data = output.get("data", {"text": output.get("text", "")})
        if WIDGET_VIEW in data:
            found.append("has a widget view, dead in a saved file")
        text = "\n".join(str(part) for kind, part in data.items() if kind.startswith("text") or "svg" in kind)
        if "Traceback (most recent call last)" in text:
            found.append("shows a traceback")
        found += [f"shows a path of this machine: {path}" for path in here if path in text]
        found += [f"shows {what}: …{text[max(0, m.start() - 20):m.end() + 20]!r}…"
                  for what, pattern in VOLATILE.items() if (m := pattern.search(text))]
    return found


def _code_cells(notebook: NotebookNode):
    return ((i, cell) for i, cell in enumerate(notebook.cells, 1) if cell.cell_type == "code")


def write(notebook: NotebookNode, target: Path) -> None:
    """Write the whole file or leave the old one as it is."""
    handle, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.stem}.", suffix=".ipynb")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(nbformat.writes(notebook, indent=1) + "\n")
        os.chmod(partial, 0o644)
        os.replace(partial, target)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def build(source: Path, budget: str = "cpu", folder: Path = HERE, timeout: int = 1200) -> Path:
    """Build one notebook into `folder`, return its path. Raises BuildError, leaving an older file alone."""
    notebook = read_source(source)
    execute(notebook, budget, folder, timeout)
    clean(notebook, budget)
    nbformat.validate(notebook)
    found = [text for text in problems(notebook, source) if "built at budget" not in text]
    if found:
        raise BuildError("\n".join(found))
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{source.stem}.ipynb"
    write(notebook, target)
    return target


def check(source: Path, folder: Path = HERE) -> list[str]:
    """What is wrong with the built notebook of `source`, in words; empty if all is well."""
    target = folder / f"{source.stem}.ipynb"
    if not target.exists():
        return [f"is missing; run: python -m notebooks.build {source.stem}"]
    return problems(nbformat.read(target, as_version=4), source)


def _chosen(names: list[str]) -> list[Path]:
    known = {source.stem: source for source in sources()}
    wanted = [Path(name).stem for name in names] or list(known)
    if unknown := [name for name in wanted if name not in known]:
        raise SystemExit(f"no source for {', '.join(unknown)}; there are: {', '.join(known) or 'none'}")
    return [known[name] for name in wanted]


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns 0 if every notebook is well."""
    parser = argparse.ArgumentParser(prog="python -m notebooks.build", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="such as 00_start_here; default: all")
    parser.add_argument("--budget", choices=("smoke", "cpu", "gpu"), default="cpu")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for the notebooks, default: this one")
    parser.add_argument("--check", action="store_true", help="only compare notebooks with their sources")
    options = parser.parse_args(arguments)
    failed = 0
    for source in _chosen(options.names):
        started = time.perf_counter()
        try:
            found = check(source, options.out) if options.check else []
            target = options.out / f"{source.stem}.ipynb" if options.check else \
                build(source, options.budget, options.out)
        except BuildError as error:
            found = [str(error)]
        if found:
            failed += 1
            print(f"{source.stem}: not well", *found, sep="\n  ", file=sys.stderr)
        else:
            print(f"{source.stem}: {target.stat().st_size:,} bytes, {time.perf_counter() - started:.1f} s")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
