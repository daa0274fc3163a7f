"""``python -m survey_taxonomy check | build | export | coverage | import-list``."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from .checking import check
from .labels import LANGUAGES
from .reading import DATA, read
from .taxonomy import load


def _check(args: argparse.Namespace) -> int:
    started = time.perf_counter()
    problems = check(args.data)
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problem(s), {time.perf_counter() - started:.1f} s")
    return 1 if problems else 0


def _build(args: argparse.Namespace) -> int:
    taxonomy = load(args.data)
    out = Path(args.out)
    try:
        taxonomy.to_parquet(out / "parquet")
    except ImportError as error:
        print(error, file=sys.stderr)
    taxonomy.to_csv(out / "csv")
    taxonomy.to_sqlite(out / "taxonomy.sqlite")
    taxonomy.to_json(out / "taxonomy.json")
    for name, frame in taxonomy.tables.items():
        print(f"{name:12} {len(frame):5}")
    print(f"written to {out}")
    return 0


def _export(args: argparse.Namespace) -> int:
    taxonomy = load(args.data)
    if args.bibtex:
        Path(args.bibtex).write_text(taxonomy.bibtex(taxonomy.entries["entry_id"]), encoding="utf-8")
    if args.upstream:
        Path(args.upstream).write_text(taxonomy.upstream(), encoding="utf-8")
    if args.json:
        taxonomy.to_json(args.json)
    if args.sqlite:
        taxonomy.to_sqlite(args.sqlite)
    if args.html:
        from .explorer import Explorer

        Explorer(taxonomy, args.lang).save(args.html)
    if not any((args.bibtex, args.upstream, args.json, args.sqlite, args.html)):
        print(
            "nothing to do: name at least one of --html --bibtex --upstream --json --sqlite", file=sys.stderr
        )
        return 2
    return 0


def _coverage(args: argparse.Namespace) -> int:
    from .progress import missing_coverage, progress

    taxonomy = load(args.data)
    print(progress(taxonomy).to_string())
    for entry, symbol in missing_coverage(taxonomy).items():
        print(f"not in coverage.yml: {entry}, built as {symbol}")
    return 0


def _import(args: argparse.Namespace) -> int:
    from .importing import parse_bullets, parse_official, propose, read_commit

    try:
        text = read_commit(args.folder, args.commit, args.file)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    parse = {"official": parse_official, "bullets": parse_bullets}[args.format]
    proposal = propose(parse(text), read(args.data), args.source)
    Path(args.out).write_text(proposal.to_yaml(), encoding="utf-8")
    print(
        f"{proposal.matched} entries matched, {len(proposal.new)} new rows, {len(proposal.changed)} changed, "
        f"{len(proposal.vanished)} vanished, {len(proposal.findings)} findings; written to {args.out}"
    )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="survey_taxonomy", description="The survey as checked data.")
    parser.add_argument("--data", default=DATA, help="folder of the YAML files")
    commands = parser.add_subparsers(required=True)
    add = commands.add_parser("check", help="check the YAML; exit status 1 when there are problems")
    add.set_defaults(run=_check)
    add = commands.add_parser("build", help="write Parquet, CSV, SQLite and JSON")
    add.add_argument("--out", default="build/taxonomy")
    add.set_defaults(run=_build)
    add = commands.add_parser("export", help="write single files")
    for name in ("html", "bibtex", "upstream", "json", "sqlite"):
        add.add_argument(f"--{name}", metavar="FILE")
    add.add_argument("--lang", choices=LANGUAGES, default="en", help="language in which --html opens")
    add.set_defaults(run=_export)
    add = commands.add_parser("coverage", help="what is realised, and what is built but not recorded")
    add.set_defaults(run=_coverage)
    add = commands.add_parser("import-list", help="propose changes from a clone of a list; changes nothing")
    add.add_argument("folder", help="git clone of the list")
    add.add_argument("--commit", required=True, help="commit id to read (7 to 40 hex digits)")
    add.add_argument("--file", default="README.md")
    add.add_argument("--format", choices=("official", "bullets"), default="official")
    add.add_argument("--source", default="S-list", help="source id under which the list's cells are recorded")
    add.add_argument("--out", default="proposal.yml")
    add.set_defaults(run=_import)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    args = _parser().parse_args(argv)
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
