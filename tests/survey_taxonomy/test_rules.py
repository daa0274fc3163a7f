"""Each rule trips on real bad data of the sources; the known faults are found when the raw data is fed in."""

import pytest

from survey_taxonomy import rules
from survey_taxonomy.columns import check_columns
from survey_taxonomy.frames import compile_tables
from survey_taxonomy.raw import as_stated
from survey_taxonomy.reading import read
from survey_taxonomy.values import Index


@pytest.fixture(scope="module")
def book():
    return read()


@pytest.fixture(scope="module")
def raw_problems(book):
    return rules.run(Index(as_stated(book)))


def entry(book, entry_id):
    return next(e for e in book.records["entries"] if e["id"] == entry_id)


def record(book, kind, record_id):
    return next(r for r in book.records[kind] if r["id"] == record_id)


def found(book, rule):
    return {p.target: p for p in rules.run(Index(book)) if p.rule == rule}


def test_the_data_has_no_problem(book):
    assert rules.run(Index(book)) == []


def test_known_faults_are_found_in_the_raw_data(book, raw_problems):
    """Every correction that names a rule is found by that rule, at its record, once our decisions are
    undone.
    """
    seen = {(p.rule, p.target.partition("-ref-")[0]) for p in raw_problems}
    mechanical = [
        c
        for c in book.records["corrections"]
        if c["rule"] != "reading" and not c["rule"].startswith("import:")
    ]
    missed = []
    for c in mechanical:
        target = c["target"].get("entry") or c["target"].get("work") or c["target"].get("section")
        if (c["rule"], target) not in seen:
            missed.append((c["id"], c["rule"], target))
    assert missed == []
    assert len(mechanical) >= 100


def test_rules_named_by_corrections_exist(book):
    names = {rule.__name__ for rule in rules.RULES}
    named = {c["rule"] for c in book.records["corrections"]}
    assert {n for n in named if n != "reading" and not n.startswith("import:")} <= names


RAW = {  # rule → an entry, work or section whose printed data trips it
    "url_form": "aspo",
    "host_known": "rlot",
    "code_host": "ellm",
    "model_link": "infiguiagent",
    "paper_matches_work": "mind2web",
    "one_paper_link": "pf-ppo",
    "shared_url": "tianshou",
    "value_present": "windowsagentarena",
    "sources_disagree": "sweet-rl",
    "evidence_agrees": "dr-grpo",
    "year_agrees": "dpo",
    "name_spelling": "treepo",
    "base_llm_known": "reveal",
    "codes_sorted": "alfworld",
    "algorithm_known": "lero",
    "arxiv_id": "theagentcompany",
    "duplicate_work": "vtool-r1-ref-241",
    "citation_name": "visual-rft",
    "spelling": "5",
}


@pytest.mark.parametrize("rule", sorted(RAW))
def test_rule_trips_on_what_the_sources_print(rule, raw_problems):
    assert RAW[rule] in {p.target for p in raw_problems if p.rule == rule}


def same_id(book):
    record(book, "entries", "l1-lcpo")["id"] = "lcpo"  # both papers call their method LCPO
    return "lcpo"


def unknown_algorithm(book):
    book.records["relations"][0]["dst"] = "mamrp"  # printed as an algorithm in Table 8, never introduced
    return book.records["relations"][0]["src"]


def same_name(book):
    entry(book, "arpo-gui")["name"] = "ARPO"
    book.records["relations"][:] = [r for r in book.records["relations"] if r["rel"] != "name_collides_with"]
    return "arpo-gui"


def year_of_the_wrong_paper(book):
    record(book, "works", "deepseekmath")["first_public"] = "2025-01"  # GRPO dated by DeepSeek-R1
    return "deepseekmath"


def tex_title(book):
    record(book, "works", "tau2-bench")["title"] = "${\\tau }^{2}$ -bench: Evaluating conversational agents"
    return "tau2-bench"


def doubled_table(book):
    placements = entry(book, "camel")["placements"]  # the list once printed the multi-agent table twice
    placements.append(dict(next(p for p in placements if p["source"] == "S-list")))
    return "S-list"


def empty_leaf(book):
    for e in book.records["entries"]:  # the list says TO BE ADDED for 4.6
        e["placements"] = [p for p in e["placements"] if p["section"] != "4.6/navigation"] or e["placements"][
            :1
        ]
        for p in e["placements"]:
            p["section"] = "4.6/manipulation" if p["section"] == "4.6/navigation" else p["section"]
    return "4.6/navigation"


def other_glyph(book):
    cells = next(
        p["cells"] for p in entry(book, "camel")["placements"] if "mas_dynamic" in p.get("cells", {})
    )
    cells["mas_dynamic"] = "✘"  # the survey's glyph; the list prints ✗
    return "camel"


def bare_claim(book):
    next(c for c in entry(book, "dapo")["claims"] if c["attribute"] == "kl").pop("evidence")
    return "dapo"


def silent_contradiction(book):
    keep = [c for c in book.records["corrections"] if c["target"] != {"entry": "dapo", "field": "kl"}]
    book.records["corrections"][:] = keep
    return "dapo"


def vanished_symbol(book):
    book.records["coverage"].append(
        {"entry": "dapo", "level": "discussed", "symbol": "arl_mini.algos.dapo.dapo_loss"}
    )
    book.places["coverage"].append(book.places["sources"][0])
    return "dapo"


def vanished_test(book):
    book.records["coverage"].append({"entry": "dapo", "level": "discussed", "chapter": "99_nowhere"})
    book.places["coverage"].append(book.places["sources"][0])
    return "dapo"


PLANTED = {
    "unique_ids": same_id,
    "foreign_keys": unknown_algorithm,
    "alias_unique": same_name,
    "arxiv_year": year_of_the_wrong_paper,
    "clean_text": tex_title,
    "row_counts": doubled_table,
    "leaf_entries": empty_leaf,
    "vocabulary": other_glyph,
    "needs_evidence": bare_claim,
    "needs_correction": silent_contradiction,
    "symbol_exists": vanished_symbol,
    "files_exist": vanished_test,
}


@pytest.mark.parametrize("rule", sorted(PLANTED))
def test_rule_trips_on_planted_fault(rule, book):
    bad = book.copy()
    target = PLANTED[rule](bad)
    problems = found(bad, rule)
    assert target in problems
    assert problems[target].line > 0 and problems[target].file


def test_every_rule_is_tested():
    assert {rule.__name__ for rule in rules.RULES} == set(RAW) | set(PLANTED)


def spoil(frame, column, value):
    frame.loc[frame.index[0], column] = value
    return frame


@pytest.mark.parametrize(
    "name,spoiled,word",
    [
        ("entries", lambda f: spoil(f, "coverage", "done"), "isin"),
        ("entries", lambda f: spoil(f, "name", ""), "is not empty"),
        ("claims", lambda f: spoil(f, "value", 3), "is text"),
        ("works", lambda f: f.iloc[[0, 0]].reset_index(drop=True), "unique"),
        ("evidence", lambda f: f.drop(columns="seen"), "column_in_dataframe"),
        ("sections", lambda f: f.assign(is_leaf="yes"), "dtype"),
    ],
)
def test_compiled_tables_are_checked(book, name, spoiled, word):
    tables = compile_tables(book)
    assert check_columns(tables) == []
    problems = check_columns({name: spoiled(tables[name].copy())})
    assert any(word in p.message for p in problems), [str(p) for p in problems]
    assert all(p.file == f"table {name}" for p in problems)
