"""Every equation has its function, its test and its cell, and nothing has lost its equation."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from arl_mini.formal import card, equation, orphans, registry

ROOT = Path(__file__).parents[2]
TESTS = "tests/formal/test_equations.py", "tests/formal/test_chapter_equations.py"


def faults(root: Path = ROOT, entries=None, **options) -> list[str]:
    """Orphans of a project, this one or a copy."""
    return orphans(root, entries, **options)


def copy_tests(target: Path) -> None:
    (target / "tests/formal").mkdir(parents=True)
    for path in TESTS:
        shutil.copy(ROOT / path, target / path)


def test_all_17_survey_equations_are_there():
    assert [id for id in registry() if id.startswith("survey-")] == [f"survey-{n}" for n in range(1, 18)]


def test_nothing_is_orphaned():
    assert faults(all_chapters=True) == []


def test_an_equation_that_loses_its_function_is_found():
    entries = registry()
    entries["survey-9"] = replace(entries["survey-9"], function="arl_mini.formal.Rewards")
    assert faults(entries=entries) == [
        "survey-9: arl_mini.formal.Rewards: arl_mini.formal is there, 'Rewards' is not"
    ]
    entries["survey-9"] = replace(entries["survey-9"], function="arl_mini.formal.expected")
    assert faults(entries=entries) == [
        "survey-9: the docstring of arl_mini.formal.expected does not say 'Eq. (9)'"
    ]


def test_an_algorithm_that_goes_away_is_found():
    entries = registry()
    entries["survey-17"] = replace(entries["survey-17"], used_by=("arl_mini.algorithms.GRPOO",))
    assert faults(entries=entries) == [
        "survey-17: arl_mini.algorithms.GRPOO: arl_mini.algorithms is there, 'GRPOO' is not"
    ]


@pytest.fixture
def copy(tmp_path):
    """A project of which tests and chapters can be broken."""
    copy_tests(tmp_path)
    chapters = tmp_path / "notebooks/src"
    chapters.mkdir(parents=True)
    for entry in registry().values():
        with open(chapters / f"{entry.chapter}.py", "a", encoding="utf-8") as file:
            file.write(f'# %%\nlab.equation("{entry.id}")\n\n')
    return tmp_path


def test_a_complete_project_has_no_orphans(copy):
    assert faults(copy, all_chapters=True) == []


@pytest.mark.parametrize("id", registry())
def test_deleting_a_test_is_found(copy, id):
    file, name = equation(id).test.split("::")
    path = copy / file
    path.write_text(
        path.read_text(encoding="utf-8").replace(f"def {name}(", "def checked("), encoding="utf-8"
    )
    assert f"{id}: there is no {file}::{name}" in faults(copy)


def test_a_mention_in_a_markdown_cell_shows_nothing(copy):
    path = copy / "notebooks/src/03_preferences.py"
    path.write_text('# %% [markdown]\n# see `equation("survey-15")`\n', encoding="utf-8")
    assert faults(copy) == ["survey-15: no cell of 03_preferences calls equation('survey-15')"]


@pytest.mark.parametrize("id", registry())
def test_deleting_a_cell_is_found(copy, id):
    path = copy / f"notebooks/src/{equation(id).chapter}.py"
    path.write_text(path.read_text(encoding="utf-8").replace(f'"{id}"', '"survey-1"'), encoding="utf-8")
    missing = f"{id}: no cell of {equation(id).chapter} calls equation('{id}')"
    assert faults(copy) == ([] if id == "survey-1" else [missing])


def test_other_ends_without_an_equation_are_found(copy):
    entries = registry()
    del entries["survey-13"]
    found = faults(copy, entries)
    assert f"{TESTS[0]}::test_survey_13 checks no registered equation" in found
    assert "02_policy_gradients shows equation('survey-13'), which is not registered" in found
    in_code = [fault for fault in faults(ROOT, entries) if "cites survey Eq. (13)" in fault]
    assert "arl_mini/formal/estimators.py cites survey Eq. (13), which is not registered" in in_code


def test_chapters_that_are_not_written_can_be_asked_for(tmp_path):
    copy_tests(tmp_path)
    assert faults(tmp_path) == []
    assert "survey-16: chapter 04_grpo is not written" in faults(tmp_path, all_chapters=True)


@pytest.mark.parametrize("id", registry())
def test_a_card_shows_formula_code_and_links(id):
    entry, text = equation(id), card(id)
    assert entry.latex in text and entry.function in text and entry.test in text and entry.chapter in text
    assert "```python\n" in text and text.count("{") == text.count("}")
    assert entry.cell == f"{entry.chapter}#{id}"


def test_unknown_ids_name_the_known_ones():
    with pytest.raises(KeyError, match="no equation 'survey-18'; there are: survey-1, survey-2"):
        equation("survey-18")
