"""The shipped data: complete, sourced, checked in time, usable in a plain Python."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import survey_taxonomy
from survey_taxonomy.frames import COLUMNS
from survey_taxonomy.reading import read

ROOT = Path(survey_taxonomy.__file__).parents[1]


@pytest.fixture(scope="module")
def tax():
    return survey_taxonomy.load()


def test_check_passes_in_ten_seconds():
    """Processor time, so that a busy machine does not decide."""
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-m", "survey_taxonomy", "check"], cwd=ROOT, capture_output=True, text=True
    )
    after = os.times()
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    used = after.children_user + after.children_system - before.children_user - before.children_system
    assert used < 10, f"{used:.1f} s"


def test_rows_and_works_are_all_there(tax):
    editions = tax.editions()
    assert len(editions) == 260
    assert (
        int((editions.in_v3 & editions.in_list).sum()),
        int((editions.in_v3 & ~editions.in_list).sum()),
        int((~editions.in_v3 & editions.in_list).sum()),
    ) == (192, 52, 16)
    assert len(tax.works) >= 500
    assert len(tax.entries) >= 500
    cited = set(tax.citations["ref"].dropna().astype(int))
    assert cited == set(range(1, 569)), "every reference of the November text is a work"


def test_every_leaf_has_entries_or_a_reason(tax):
    leaves = tax.sections[tax.sections["is_leaf"]]
    assert len(leaves) >= 62
    for leaf in leaves.itertuples():
        assert leaf.few or len(tax.find(section=leaf.section_id)) >= 3, leaf.section_id


def test_every_value_has_a_source(tax):
    sources = set(tax.sources["source_id"])
    for name in ("works", "placements", "statements", "links", "relations"):
        frame = getattr(tax, name)
        assert set(frame["source_id"]) <= sources, name
        assert (frame["locator"] != "").all(), name
    bare = tax.claims[
        (tax.claims["stated"] == "")
        & (tax.claims["evidence"] == "")
        & (tax.claims["status"] != "own_reading")
    ]
    assert bare.empty
    judged = tax.claims[tax.claims["status"].isin(["confirmed", "contradicted", "refined"])]
    assert (judged["evidence"] != "").all()


def test_table_entries_say_what_they_are(tax):
    rows = tax.placements.loc[tax.placements["role"] == "table_row", "entry_id"]
    notes = tax.entries.set_index("entry_id").loc[rows.unique(), "note"]
    assert (notes.str.len() >= 20).all(), list(notes[notes.str.len() < 20].index)


def test_titles_are_in_both_languages(tax):
    assert (tax.sections["title_ja"] != "").all()
    assert len(tax.glossary) >= 50
    assert set(tax.glossary["section_id"]) <= set(tax.sections["section_id"])


def test_known_faults_are_records(tax):
    ids = set(tax.corrections["correction_id"])
    assert len(ids) >= 60
    assert {f"L{n:02d}" for n in range(1, 26)} <= ids
    assert all(any(i.startswith(f"E{n:02d}") for i in ids) for n in range(1, 11))
    checked = tax.corrections[tax.corrections["status"] == "checked"]
    assert (checked["evidence"] != "").all()
    seen = tax.evidence.set_index("evidence_id")["seen"]
    assert all(seen[e] for cell in checked["evidence"] for e in cell.split("; "))


def test_quotations_are_short(tax):
    assert tax.evidence["passage"].str.split().str.len().max() <= 25


def test_columns_are_as_documented(tax):
    assert {name: list(frame.columns) for name, frame in tax.tables.items()} == {
        name: columns.split() for name, columns in COLUMNS.items()
    }


def test_files_are_marked_for_editors():
    for path in (ROOT / "survey_taxonomy" / "data").rglob("*.yml"):
        first = path.read_text(encoding="utf-8").splitlines()[0]
        schema = first.removeprefix("# yaml-language-server: $schema=")
        assert first != schema and (path.parent / schema).exists(), path


def test_needs_neither_torch_nor_jupyter_nor_the_checkers():
    code = (
        "import sys\n"
        "for name in ('torch', 'transformers', 'ipywidgets', 'anywidget', 'IPython', 'jsonschema', 'pandera',"
        " 'matplotlib'): sys.modules[name] = None\n"
        "import survey_taxonomy\n"
        "tax = survey_taxonomy.load()\n"
        "tax.card('DAPO'), survey_taxonomy.table('3.3'), tax.bibtex(['KTO']), tax.upstream()\n"
        "print(len(tax.entries))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 500


def test_reading_keeps_every_record_apart():
    book = read()
    assert all(len(book.records[k]) == len(book.places[k]) for k in book.records)
