"""Finding, cards, tables, BibTeX and exports."""

import json
import re
import sqlite3

import pandas as pd
import pytest

import survey_taxonomy
from survey_taxonomy.cards import html_table, link
from survey_taxonomy.exports import escape_tex


@pytest.fixture(scope="module")
def tax():
    return survey_taxonomy.load()


def names(frame):
    return set(frame["name"])


def test_who_trains_memory_with_rl(tax):
    hits = names(tax.find(section="3.3", where={"rl_used": "yes"}))
    assert {"Memory-R1", "MemAgent", "Memory-as-Action"} <= hits and "MemGPT" not in hits


def test_which_methods_drop_the_kl_term(tax):
    hits = tax.find(where={"kl": "none"})
    assert {"DAPO", "Dr.GRPO", "GSPO", "LUFFY"} <= names(hits) and "GRPO" not in names(hits)
    assert set(hits["kl"]) == {"none"}


def test_contradicted_kl_cells_are_counted_from_evidence(tax):
    kl = tax.claims[(tax.claims["attribute"] == "kl") & (tax.claims["status"] == "contradicted")]
    said = tax.evidence.set_index("evidence_id")["says"]
    assert all(said[row.evidence] == row.value for row in kl.itertuples())
    assert int(kl["stated"].str.startswith("Yes").sum()) >= 12


def test_find_by_text_facets_and_section(tax):
    assert "KTO" in names(tax.find("prospect"))
    assert names(tax.find(capability="memory")) >= {"Zep", "Mem0"}
    assert names(tax.find(task="gui", kind="model")) >= {"UI-TARS"}
    below = tax.find(section="4.2")
    assert set(tax.find(section="4.2.1")["entry_id"]) < set(below["entry_id"])
    assert len(tax.find()) == len(tax.entries)
    assert set(tax.find(coverage="implemented")["coverage"]) <= {"implemented"}


@pytest.mark.parametrize(
    "arguments",
    [
        {"section": "9.9"},
        {"kind": "thing"},
        {"capability": "flying"},
        {"task": "cooking"},
        {"coverage": "done"},
        {"where": {"colour": "red"}},
        {"where": {"kl": "perhaps"}},
    ],
)
def test_unknown_facets_say_what_is_known(tax, arguments):
    with pytest.raises(ValueError, match="expected|values are|look like"):
        tax.find(**arguments)


def test_entries_are_found_by_name_and_alias(tax):
    assert tax.entry_id("dapo") == tax.entry_id("DAPO") == "dapo"
    assert tax.entry_id("HybridFlow") == "verl"
    assert tax.entry_id("Policy Filtration for RLHF") == "pf-ppo"
    with pytest.raises(KeyError, match="near names.*DAPO"):
        tax.entry_id("DAPOO")


def test_card_shows_stated_and_checked(tax):
    card = tax.card("DAPO")
    assert card.url == "https://arxiv.org/abs/2503.14476"
    row = card.claims.set_index("attribute").loc["kl"]
    assert row["value"] == "none" and "Yes (S-v3 Table 2)" in row["stated"]
    assert "contradicted" in card._repr_html_() and "DAPO" in str(card)
    assert "@misc{dapo" in card.bibtex


def test_html_is_escaped():
    evil = '<img src=x onerror="alert(1)">'
    frame = pd.DataFrame({"method": [evil]})
    assert "<img" not in html_table(frame) and "&lt;img" in html_table(frame)
    assert link("x", "javascript:alert(1)") == "x"
    assert '"' not in link("x", 'https://a.b/"onclick="').removeprefix('<a href="').split('" rel=')[0]


def test_literature_table(tax):
    table = survey_taxonomy.table("3.3")
    assert len(table) == len(tax.find(section="3.3"))
    assert list(table.frame.columns[:3]) == ["method", "year", "idea"] and "rl used" in table.frame.columns
    assert "<table>" in table._repr_html_() and table._repr_markdown_().startswith("| method |")
    assert table.frame["year"].is_monotonic_increasing
    with pytest.raises(ValueError, match="sections look like"):
        survey_taxonomy.table("nowhere")


def test_bibtex(tax):
    text = tax.bibtex(["DAPO", "KTO", "Verl", "dapo"])
    assert len(re.findall(r"^@", text, re.MULTILINE)) == 3
    assert "eprint = {2503.14476}" in text and "Qiying Yu and others" in text
    everything = tax.bibtex(tax.entries["entry_id"])
    keys = re.findall(r"^@\w+\{([^,]+),", everything, re.MULTILINE)
    assert len(keys) == len(set(keys)) == tax.entries["work_id"].nunique()
    assert everything.count("{") == everything.count("}")
    assert escape_tex("50% & a_b") == r"50\% \& a\_b"


def test_matrix_counts_crossings(tax):
    matrix = tax.matrix()
    hits = tax.find(capability="tool_use", task="search")
    assert matrix.loc["tool_use", "search"] == len(hits) > 10
    assert matrix.shape == (8, 8)


def test_smallest_models(tax):
    sizes = tax.model_sizes().set_index("entry_id")
    assert tuple(sizes.loc["ssrl"]) == (0.6, 72.0)
    assert sizes.loc["search-r1", "smallest"] == 3.0
    assert sizes.loc["ui-r1", "smallest"] == 3.0
    assert "camel" not in sizes.index


def test_lineage_reaches_from_reinforce(tax):
    edges = tax.lineage()
    assert (edges["knob"] != "").all()
    reached, grown = {"reinforce"}, True
    while grown:
        more = set(edges.loc[edges["dst"].isin(reached), "src"]) - reached
        grown, reached = bool(more), reached | more
    table2 = set(tax.find(section="2.7", kind="algorithm")["entry_id"]) - {"ipo-implicit"}
    assert table2 <= reached


def test_upstream_text_has_checked_points_only(tax):
    text = tax.upstream()
    checked = tax.corrections[tax.corrections["status"] == "checked"]
    assert text.count("\n- **") == len(checked) >= 60
    assert "**E05b**" not in text  # from memory, not checked


def test_exports_hold_the_same_rows(tax, tmp_path):
    tax.to_csv(tmp_path / "csv")
    tax.to_parquet(tmp_path / "parquet")
    tax.to_sqlite(tmp_path / "tax.sqlite")
    tax.to_sqlite(tmp_path / "tax.sqlite")  # a second time over the first
    data = json.loads(tax.to_json(tmp_path / "tax.json").read_text(encoding="utf-8"))
    connection = sqlite3.connect(tmp_path / "tax.sqlite")
    for name, frame in tax.tables.items():
        csv = pd.read_csv(tmp_path / "csv" / f"{name}.csv", keep_default_na=False, dtype=str)
        parquet = pd.read_parquet(tmp_path / "parquet" / f"{name}.parquet")
        assert len(csv) == len(parquet) == len(data[name]) == len(frame)
        assert connection.execute(f"select count(*) from {name}").fetchone() == (len(frame),)
        assert list(parquet.columns) == list(frame.columns) == list(csv.columns)
        for column in frame.columns:
            if frame[column].dtype == object:
                assert list(parquet[column]) == list(frame[column]) == list(csv[column])
    kl = connection.execute("select value from claims where entry_id='dapo' and attribute='kl'").fetchone()
    assert kl == ("none",)
    connection.close()
    assert not list(tmp_path.rglob("*.part"))


def test_command_line(tmp_path, capsys):
    from survey_taxonomy.__main__ import main

    assert main(["build", "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "taxonomy.sqlite").exists() and "entries" in capsys.readouterr().out
    assert main(["export", "--bibtex", str(tmp_path / "a.bib"), "--upstream", str(tmp_path / "a.md")]) == 0
    assert (tmp_path / "a.bib").read_text(encoding="utf-8").startswith("@")
    assert main(["export"]) == 2
