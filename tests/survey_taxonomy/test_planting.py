"""The planted faults: each is named by its rule, and nothing else is said."""

import pytest

from survey_taxonomy import planting, rules
from survey_taxonomy.reading import read
from survey_taxonomy.values import Index


@pytest.fixture(scope="module")
def book():
    return read()


def test_eight_of_eight_and_no_false_alarm(book):
    table = planting.lab(book)
    assert len(table) == table["rule"].nunique() == 8
    assert table["named"].all() and (table["false_alarms"] == 0).all()
    assert table["where"].str.fullmatch(r"[\w./]+\.yml:\d+").all()
    assert rules.run(Index(book)) == []  # the faults stay in their copies


def test_a_fault_that_no_rule_finds_shows(book):
    quiet = planting.Fault("nothing", "url_form", "dapo", lambda copy: None)
    other = planting.Fault("wrong rule", "url_form", "mind2web", planting.FAULTS[0].plant)
    table = planting.lab(book, (quiet, other))
    assert list(table["named"]) == [False, False] and list(table["false_alarms"]) == [0, 1]
