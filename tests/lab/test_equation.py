"""A formula's card: shown as Markdown, found by id, an unknown id named."""

import pytest

from arl_mini import formal, lab


@pytest.mark.parametrize("id", ["survey-1", "survey-9", "bellman"])
def test_a_card_is_the_registrys_markdown(id):
    shown = lab.equation(id)
    assert shown._repr_markdown_() == repr(shown) == formal.card(id)
    assert f"$${formal.equation(id).latex}$$" in shown.markdown


def test_an_unknown_id_is_an_error_that_names_the_others():
    with pytest.raises(KeyError, match="no equation 'survey-99'; there are: survey-1"):
        lab.equation("survey-99")


def test_any_other_registry_can_be_used():
    assert lab.equation("x", card=lambda id: f"**{id}**").markdown == "**x**"
