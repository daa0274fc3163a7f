"""What the world hears of a chat model's turn."""

from dataclasses import replace

import pytest

from arl_mini import envs
from arl_mini.models import TINY, Format
from arl_mini.models.tokenizer import END, encode
from arl_mini.rollout import Limits, rollout
from tests.core.stage import Echo, chatty

CHAT = Format("<|user|>", "<|bot|>", "<|user|><obs>", "</obs><|bot|>", ("<|im_end|>", "</s>"), chat=True)


@pytest.mark.parametrize(
    "said, heard",
    [
        ("<act> go north</act><|im_end|>", "<act> go north</act>"),  # the stop is no part of the action
        ("<act> go north </act>\n<|im_end|>", "<act> go north </act>"),
        (" 3901<|im_end|>", " 3901<end>"),  # an answer that was ended
        (" 3901</s>", " 3901<end>"),
        (" 39", " 39"),  # cut in the middle: not ended
    ],
)
def test_chat_turns(said, heard):
    assert CHAT.heard(said) == heard


def test_tiny_turns_are_heard_as_they_are():
    for said in ("<act> go north</act>", " 5<end>", " 5"):
        assert TINY.heard(said) == said


def test_a_chat_action_moves_the_world_and_a_chat_answer_is_right():
    world = envs.Quest()
    world.reset(3)
    command = world.expert().removesuffix("</act>") + " </act><|im_end|>"
    assert not world.step(CHAT.heard(command)).info.get("malformed")
    calc = envs.Calc(("sum",))
    calc.reset(1)
    answer = envs.calc.evaluate(calc.expression)
    assert calc.step(CHAT.heard(f" {answer}<|im_end|>")).reward == 1


def test_a_chat_turn_that_was_cut_is_closed_before_the_world_speaks():
    """Turns of one token: those that are no end token get the template's own behind them, as forced text."""
    policy = chatty(0)
    policy.format = replace(TINY, chat=True, end=END, stops=(END,))
    (end,) = encode(policy.tokenizer, END)
    rows = rollout(policy, Echo(turns=4), range(8), 1, limits=Limits(turn_tokens=1, turns=4, total=200))
    checked = 0
    for row in rows:
        for at in row.mask.nonzero()[0][:-1]:
            assert end in (row.tokens[at], row.tokens[at + 1]) and row.mask[at + 1] == 0
            checked += row.tokens[at] != end
    assert checked > 5
