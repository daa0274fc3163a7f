"""A corrupted file gives an error that names file, line and field."""

import re
import shutil
from dataclasses import replace

import pytest

from survey_taxonomy import DataError, check, load, rules
from survey_taxonomy.checking import check_new
from survey_taxonomy.reading import DATA, KINDS, read
from survey_taxonomy.shapes import check_shapes
from survey_taxonomy.values import Index

DAPO = "entries/2.7_algorithms.yml"


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(DATA, tmp_path / "data")
    return tmp_path / "data"


def corrupt(folder, file, old, new):
    """Replace the first ``old`` by ``new`` and give back the line on which it stood."""
    path = folder / file
    text = path.read_text(encoding="utf-8")
    assert old in text, old
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return text[: text.index(old)].count("\n") + 1


CASES = [  # what, file, old, new, lines below the first line of old, field, word in the message
    ("bad id", DAPO, "- id: dapo\n", "- id: DA PO\n", 0, "id", "expected"),
    ("dangling work", DAPO, "  work: dapo\n", "  work: dapoo\n", 0, "work", "no work 'dapoo'"),
    ("dangling section", DAPO, "section: '2.7/grpo'", "section: '2.7/grrpo'", 0, "section", "no section"),
    ("wrong type", "works/2.7_algorithms.yml", "  year: 2025\n", "  year: soon\n", 0, "year", "integer"),
    ("unknown key", DAPO, "  kind: algorithm\n", "  kind: algorithm\n  colour: red\n", 0, "", "colour"),
    ("unknown kind", DAPO, "  kind: algorithm\n", "  kind: algorythm\n", 0, "kind", "algorythm"),
    ("duplicate id", DAPO, "- id: dapo\n", "- id: grpo\n", 0, "id", "already taken"),
    ("duplicate key", DAPO, "  name: DAPO\n", "  name: DAPO\n  name: DAPO\n", 1, "name", "twice"),
    ("missing source", DAPO, "    source: S-v3\n", "", 0, "placements", "'source' is missing"),
    (
        "malformed arXiv id",
        "works/2.7_algorithms.yml",
        "arxiv: '2507.18071'",
        "arxiv: '2513.18071'",
        0,
        "arxiv",
        "YYMM",
    ),
    (
        "dangling evidence",
        DAPO,
        "evidence: [trl-dapo-kl]",
        "evidence: [trl-nothing]",
        0,
        "claims",
        "no evidence",
    ),
    ("unknown value", DAPO, "resolved: clip_higher", "resolved: clip_hire", 0, "claims", "clip_hire"),
    ("dangling relation", "relations.yml", "dst: reinforce", "dst: reinforcement", 0, "dst", "no entry"),
    ("dangling glossary", "glossary.yml", "section: '2.3'", "section: '2.9'", 0, "section", "no section"),
    (
        "bad correction",
        "corrections/links.yml",
        "  confidence: high\n",
        "  confidence: sure\n",
        0,
        "confidence",
        "sure",
    ),
    ("bad source", "sources.yml", "- id: S-v5\n", "- id: S-v6\n", 0, "id", "S-v6"),
    ("bad slide", "sections.yml", "  slides: [4]\n", "  slides: [41]\n", 0, "slides", "41"),
    ("no section", "evidence.yml", "  seen: true\n", "  seen: perhaps\n", 0, "seen", "boolean"),
]


@pytest.mark.parametrize("what,file,old,new,shift,field,word", CASES, ids=[c[0] for c in CASES])
def test_corruption_is_located(folder, what, file, old, new, shift, field, word):
    line = corrupt(folder, file, old, new) + shift
    problems = [p for p in check(folder) if p.file == file and word in p.message]
    assert problems, [str(p) for p in check(folder)][:5]
    near = min(problems, key=lambda p: abs(p.line - line))
    slack = 0 if old.startswith(("- id", "  year", "  work", "section")) else 6
    assert abs(near.line - line) <= slack, str(near)
    assert field in near.field
    assert f"{file}:{near.line}" in str(near)


FIRST = {  # kind → its first file
    kind: next(iter(sorted((DATA / name).glob("*.yml")))) if (DATA / name).is_dir() else DATA / name
    for kind, name in KINDS.items()
}


def first_record(text):
    """(start, end) of the text of the first record of a file; None when it has none."""
    match = re.search(r"^- .*\n(?: .*\n)*", text, re.MULTILINE)
    return match.span() if match else None


def faults(folder, kind):
    """Problems of one kind of record, without the shapes of all others (which would take a second each)."""
    book = read(folder)
    return check_shapes(replace(book, records={kind: book.records[kind]})) or rules.run(Index(book))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_any_file_can_be_corrupted(folder, kind):
    """Duplicate, unknown key and wrong type, in the first record of every kind of file."""
    file = folder / FIRST[kind].relative_to(DATA)
    name, text = file.relative_to(folder).as_posix(), file.read_text(encoding="utf-8")
    span = first_record(text)
    if span is None:
        pytest.skip(f"{name} has no record yet")
    record, line = text[slice(*span)], text[: span[0]].count("\n") + 1
    for change, where in (
        ("duplicate", record + record),
        ("key", _first_key(record, "surprise: 1")),
        ("type", _first_value(record)),
    ):
        file.write_text(text[: span[0]] + where + text[span[1] :], encoding="utf-8")
        found = [p for p in faults(folder, kind) if p.file == name]
        assert found, change
        assert any(line <= p.line <= line + 2 * record.count("\n") and p.field is not None for p in found), (
            change
        )


def _first_key(record, extra):
    return (
        re.sub(r"\A- \{", "- {" + extra + ", ", record)
        if record.startswith("- {")
        else record.replace("\n", "\n  " + extra + "\n", 1)
    )


def _first_value(record):
    return re.sub(r"\A(- \{?\w+: )[^,\n]+", r"\1[1, 2]", record)


def test_broken_yaml_names_the_line(folder):
    line = corrupt(folder, "glossary.yml", "- {term_en: policy,", "- {term_en: policy: :,")
    with pytest.raises(DataError) as error:
        load(folder)
    assert error.value.problems[0].file == "glossary.yml" and error.value.problems[0].line == line
    assert check(folder)[0].line == line


def test_missing_file_and_wrong_top(folder):
    (folder / "relations.yml").unlink()
    assert "missing" in check(folder)[0].message
    (folder / "relations.yml").write_text("- just\n- a list\n", encoding="utf-8")
    assert "expected a mapping" in check(folder)[0].message


def test_many_problems_are_cut_short_in_the_message():
    from survey_taxonomy import Problem

    error = DataError([Problem("r", str(i), "wrong") for i in range(25)])
    assert "25 problem(s)" in str(error) and "5 more" in str(error)


def test_records_that_stand_in_no_file_yet_are_judged_alike():
    book = read()
    work = {"id": "made-up", "kind": "paper", "title": "Made up", "authors": "A. Person", "year": 2025}
    work |= {
        "arxiv": "2501.00001",
        "first_public": "2025-01",
        "found": {"source": "S-list", "at": "README L1"},
    }
    assert check_new(book, works=[work]) == []
    late = check_new(book, works=[work, {**work, "id": "other", "arxiv": "2502.00002", "title": "Other"}])
    assert [(p.rule, p.target, p.file, p.field) for p in late] == [
        ("arxiv_year", "other", "works", "first_public")
    ]
    # the line is that of the field in the records written as YAML, after 'works:' and the first work
    assert late[0].line == 1 + 10 + 7
    wrong = check_new(book, works=[{**work, "year": "soon"}])
    assert [(p.rule, p.field) for p in wrong] == [("schema", "year")]
    entry = {"id": "made-up", "name": "Made up", "kind": "algorithm", "work": "nowhere", "note": "None."}
    entry |= {"placements": [{"section": "2.7/grpo", "role": "text", "source": "S-v3", "at": "§2.7"}]}
    assert {p.rule for p in check_new(book, entries=[entry])} == {"foreign_keys"}
    with pytest.raises(ValueError, match="got kind 'paper', expected some of sources, "):
        check_new(book, paper=[work])
