"""Coverage: every symbol really imports, every notebook and test is there, and the source reader agrees."""

import importlib

import pytest

import survey_taxonomy
from survey_taxonomy.__main__ import main
from survey_taxonomy.progress import missing_coverage, progress, public_names
from survey_taxonomy.reading import read
from survey_taxonomy.rules import realised
from survey_taxonomy.rules.realised import ROOT, resolves
from survey_taxonomy.values import Index


@pytest.fixture(scope="module")
def tax():
    return survey_taxonomy.load()


def test_every_symbol_imports(tax):
    for symbol in filter(None, tax.coverage["symbol"]):
        module, _, name = symbol.rpartition(".")
        assert hasattr(importlib.import_module(module), name), symbol


def write(root, file, text):
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_symbols_are_found_without_import(tmp_path):
    write(tmp_path, "p/__init__.py", "from .a import One, two as Zwei\nfrom .b import *\nTHREE: int = 3\n")
    write(
        tmp_path,
        "p/a.py",
        "class One:\n    def step(self): ...\ndef two(): ...\nraise SystemExit('never run')\n",
    )
    write(tmp_path, "p/b.py", "Four = 4\n")
    for good in ("p.One", "p.Zwei", "p.THREE", "p.Four", "p.a", "p.a.One", "p.a.One.step", "p.b.Four"):
        assert resolves(good, tmp_path), good
    for bad in ("p.two", "p.Five", "p.a.Three", "q.One", "p.a.One.leap", "p.c"):
        assert not resolves(bad, tmp_path), bad


def test_progress_counts_each_entry_once_a_section(tax):
    table = progress(tax)
    for section in ("2.7", "3.3", "4.4", "5.1"):
        assert table.loc[section].sum() == len(tax.find(section=section))


def test_what_is_built_but_not_recorded_is_named(tax, tmp_path):
    write(
        tmp_path, "arl_mini/algorithms/__init__.py", '__all__ = ["Algorithm", "GSPO", "BetaDPO", "PassAtK"]\n'
    )
    covered = set(tax.coverage["entry_id"])
    expected = {"gspo": "GSPO", "beta-dpo": "BetaDPO", "passk-training": "PassAtK"}
    assert missing_coverage(tax, tmp_path) == {
        entry: f"arl_mini.algorithms.{name}" for entry, name in expected.items() if entry not in covered
    }
    assert public_names(tmp_path / "nowhere") == []
    assert "Algorithm" in public_names(ROOT / "arl_mini" / "algorithms")


def test_command(capsys):
    assert main(["coverage"]) == 0
    assert "implemented" in capsys.readouterr().out


def test_an_installed_package_does_not_miss_the_notebooks(tmp_path, monkeypatch):
    record = {"entry": "dapo", "level": "discussed", "chapter": "99_nowhere", "test": "tests/nowhere.py"}
    book = read()
    book.records["coverage"].append(record)
    book.places["coverage"].append(book.places["coverage"][0])
    assert [p.field for p in realised.files_exist(Index(book))] == ["chapter", "test"]
    monkeypatch.setattr(realised, "ROOT", tmp_path)
    assert list(realised.files_exist(Index(book))) == []
    record["level"] = "implemented"  # still needs a symbol
    assert [p.field for p in realised.files_exist(Index(book))] == ["level"]
