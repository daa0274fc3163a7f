"""The listing and the comparison say what the classes are."""

import re
import runpy
import sys
from dataclasses import dataclass

import pytest

from arl_mini import algorithms
from arl_mini.algorithms import CISPO, DAPO, GRPO, GSPO, RLOO, Algorithm, catalogue, compare


@dataclass(frozen=True)
class Halved(GRPO):
    """Halved: half of GRPO's advantages.

    A_i ← A_i / 2

    Source: nobody 2026, Eq. 1.
    """

    def advantages(self, batch):
        return super().advantages(batch) / 2


def test_every_exported_algorithm_is_listed_once():
    listed = [e.name for e in catalogue.entries()]
    assert listed == [name for name in algorithms.__all__ if name != "Algorithm"]
    assert len(set(listed)) == len(listed)


@pytest.mark.parametrize("entry", catalogue.entries(), ids=lambda e: e.name)
def test_entries_hold(entry):
    """What the table says of a class is what its body has; every class can be made, and has a formula and a source."""
    assert isinstance(entry.cls(), Algorithm) and entry.changes and entry.family and entry.chapter
    assert re.fullmatch(r"\d{4}\.\d{5}|[A-Z][\w ]+ \d{4}", entry.paper), entry.paper
    assert any(mark in catalogue.formula(entry.cls) for mark in "=←")
    own = {name for name in vars(entry.cls) if name in sum(catalogue.KNOBS.values(), ())}
    told = {n for knob in entry.changes for n in catalogue.KNOBS.get(knob.removeprefix("extra "), ())}
    assert own <= told and issubclass(entry.cls, entry.parent)


def test_known_entries():
    found = {e.name: e for e in catalogue.entries()}
    dapo, papo, rloo = found["DAPO"], found["PAPO"], found["RLOO"]
    assert (dapo.parent, dapo.family, dapo.paper) == (GRPO, "GRPO", "2503.14476")
    assert dapo.changes == ("sampler", "reward", "clip", "reduction")
    assert "extra loss" in papo.changes and "KL" in papo.changes
    assert found["ARPO"].changes == ("sampler", "reward", "advantage", "reduction")  # it has no margin of pairs
    assert rloo.changes == ("advantage",) and rloo.chapter == "02_policy_gradients"


def test_an_algorithm_of_ones_own_needs_no_registration():
    mine = catalogue.entry(Halved)
    assert (mine.parent, mine.family, mine.changes, mine.paper) == (
        GRPO,
        "GRPO",
        ("advantage",),
        "nobody 2026",
    )


def test_compare_shows_formulas_fields_and_lines():
    seen = compare(GRPO, DAPO)
    assert seen.settings["clip_high"] == (0.2, 0.28) and "clip_low" not in seen.settings
    assert set(seen.methods) == {"plan", "reward", "reduce"}
    assert "-    return ops.sequence_mean(x, batch.mask)" in seen.methods["reduce"].splitlines()
    assert "+    return ops.token_mean(x, batch.mask)" in seen.methods["reduce"].splitlines()
    text = repr(seen)
    assert catalogue.formula(GRPO).splitlines()[0] in text and "0 < #right < G" in text and "grpo.py:" in text


def test_compare_is_empty_where_nothing_differs_and_names_what_only_one_has():
    same = compare(GRPO, GRPO)
    assert not same.settings and not same.methods
    assert set(compare(GRPO, Halved).methods) == {"advantages"}
    assert "clip_low" in compare(RLOO, GRPO).settings
    assert compare(RLOO, GRPO).methods["surrogate"].startswith("--- none\n+++ grpo.py:")
    assert set(compare(GRPO, GSPO).methods) == {"ratio"}


def test_a_class_without_a_formula_is_an_error():
    class Bare(GRPO):
        """Only a line."""

    with pytest.raises(ValueError, match="Bare has no formula"):
        catalogue.formula(Bare)


def test_the_command_lists_explains_and_compares(monkeypatch, capsys):
    def said(*names):
        monkeypatch.setattr(sys, "argv", ["algorithms", *names])
        runpy.run_module("arl_mini.algorithms", run_name="__main__")
        return capsys.readouterr().out

    listing = said()
    assert all(re.search(rf"^  {e.name} ", listing, re.M) for e in catalogue.entries())
    assert said("GRPO", "DAPO").strip() == repr(compare(GRPO, DAPO)).strip()
    assert said("CISPO").startswith("CISPO(clip_low: float = 1.0") and catalogue.formula(CISPO) in said("CISPO")
    with pytest.raises(SystemExit):
        said("GRPA")
    assert "unknown algorithm 'GRPA'; known: Reinforce" in capsys.readouterr().err
