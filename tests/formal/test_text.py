"""Turns are read as text and actions, nested ones too, and written back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl_mini.envs.base import parse_act
from arl_mini.formal import ActionError, AgentAction
from arl_mini.formal.text import ACT, ACT_END
from arl_mini.models import tokenizer

word = st.text("abcxyz01", min_size=1, max_size=4)
words = st.lists(word, max_size=3).map(tuple)
leaf = st.builds(lambda verb, args: AgentAction("", verb, args), word, words)
nested = st.recursive(
    leaf,
    lambda inner: st.builds(
        lambda verb, args, parts: AgentAction("", verb, args if verb else (), tuple(parts)),
        st.just("") | word,
        words,
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=6,
)
text = words.map(" ".join)
turn = st.builds(lambda t, a: AgentAction(t, a.verb, a.args, a.parts), text, nested) | text.map(AgentAction)


@given(turn)
def test_what_is_written_is_read_back(action):
    assert AgentAction.parse(str(action)) == action


@given(turn)
def test_primitives_have_no_parts_and_count_the_verbs(action):
    leaves = action.primitives()
    assert all(leaf.verb and not leaf.parts for leaf in leaves)
    assert len(leaves) == sum(
        chunk.strip() != "" for chunk in str(action).split(ACT)[1:] if chunk.split()[:1] != []
    )


@given(leaf, text)
def test_one_action_is_read_as_the_worlds_read_it(action, before):
    """The contract of the worlds has one level; there both readings agree."""
    said = f"{before} {action}"
    assert parse_act(said) == [action.verb, *action.args] == AgentAction.parse(said).command.split()


def test_a_turn_in_words():
    turn = AgentAction.parse("I look first <act> open <act> find key </act> <act> turn key </act> </act>")
    assert turn.text == "I look first" and turn.command == "open" and not turn.is_text
    assert [leaf.command for leaf in turn.primitives()] == ["find key", "turn key", "open"]
    assert AgentAction.parse("just a thought").is_text
    assert AgentAction.parse("").is_text and AgentAction.parse("").primitives() == ()
    sequence = AgentAction.parse("<act> <act> go north </act> <act> take lamp </act> </act>")
    assert not sequence.is_text and sequence.command == ""
    assert [leaf.command for leaf in sequence.primitives()] == ["go north", "take lamp"]


@pytest.mark.parametrize(
    "said, hint",
    [
        ("<act> go north", "<act> is not closed"),
        ("<act> go <act> north </act>", "<act> is not closed"),
        ("<act></act>", "holds no verb"),
        ("<act> go <act> </act> </act>", "holds no verb"),
        ("go </act>", "</act> closes nothing"),
        ("<act> go </act> north", "'north' stands after the action"),
        ("<act> go </act> <act> go </act>", "stands after the action"),
        ("<act> <act> go </act> north </act>", "'north' follows a part"),
    ],
)
def test_badly_written_actions_say_why(said, hint):
    with pytest.raises(ActionError) as error:
        AgentAction.parse(said)
    assert hint in str(error.value) and repr(said) in str(error.value)


@given(st.lists(st.sampled_from([ACT, ACT_END, "go", "north", " "]), max_size=8).map(" ".join))
def test_anything_is_read_or_refused(said):
    try:
        again = AgentAction.parse(said)
    except ActionError:
        return
    assert AgentAction.parse(str(again)) == again
    assert said.count(ACT) == said.count(ACT_END)


def test_delimiters_are_those_of_the_tokenizer():
    assert (ACT, ACT_END) == (tokenizer.ACT, tokenizer.ACT_END)
