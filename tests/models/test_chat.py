"""The chat template: tools rendered, every longer conversation starts with the shorter one, accepted by TRL."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl_mini.envs import Calc, Quest
from arl_mini.models import TINY
from arl_mini.models.tokenizer import build, encode
from arl_mini.rollout import Limits, rollout
from tests.core.drawn import CHECKED
from tests.core.stage import Parrot

TOKENIZER = build(Quest.words + Calc.words)
TOOLS = [
    {"type": "function", "function": {
        "name": "py", "description": "", "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}},
    }},
    {"type": "function", "function": {"name": "go", "description": "", "parameters": {"type": "object", "properties": {
        "way": {"type": "string"}, "far": {"type": "integer"},
    }}}},
]  # fmt: skip


def call(name, **arguments):
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def render(messages, **how) -> str:
    return TOKENIZER.apply_chat_template(messages, tokenize=False, **how)


def test_a_conversation_with_tools():
    messages = [
        {"role": "system", "content": " be brief"},
        {"role": "user", "content": " 47 boxes of 83 pens how many ?"},
        {"role": "assistant", "content": "", "tool_calls": [call("py", expression="47*83")]},
        {"role": "tool", "content": " 3901"},
        {"role": "assistant", "content": " 3901"},
    ]
    assert render(messages, tools=TOOLS) == (
        "<system> tools py ( expression ) . go ( way far ) .<system> be brief"
        "<user> 47 boxes of 83 pens how many ?<bot><act> py expression = 47*83</act><obs> 3901</obs> 3901<end>"
    )


def test_it_is_the_format_of_the_worlds():
    """What the template writes around an action and its answer is what the engine writes."""
    messages = [
        {"role": "user", "content": " find key open door . cave exits east"},
        {"role": "assistant", "content": "<act> go east</act>", "tool_calls": []},
        {"role": "tool", "content": " hall exits west key"},
    ]
    (episode,) = rollout(Parrot(lambda history: 0, TOKENIZER), Quest(), [0], limits=Limits(turn_tokens=1, turns=1))
    assert episode.text.startswith("<user> find key open door . ") and "<bot>" in episode.text
    assert render(messages[:1], add_generation_prompt=True) == TINY.prompt(messages[0]["content"])
    assert render(messages[2:]) == TINY.observation(messages[2]["content"])


contents = st.sampled_from([" red", " key door", "", " 12"])
calls = st.lists(st.builds(lambda w: call("go", way=w), st.sampled_from(["north", "east"])), min_size=1, max_size=2)


@st.composite
def conversations(draw):
    """system?, then rounds of: user, (assistant calls, as many tool messages)*, assistant."""
    messages = [{"role": "system", "content": " be brief"}] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(1, 3))):
        messages.append({"role": "user", "content": draw(contents)})
        for _ in range(draw(st.integers(0, 2))):
            asked = draw(calls)
            messages.append({"role": "assistant", "content": draw(contents), "tool_calls": asked})
            messages += [{"role": "tool", "content": draw(contents)} for _ in asked]
        messages.append({"role": "assistant", "content": draw(contents)})
    return messages


@CHECKED
@given(conversations(), st.booleans())
def test_every_longer_conversation_starts_with_the_shorter_one(messages, tools):
    """As text and as tokens, also with the prompt for the next answer: nothing that was generated is written anew."""
    how = {"tools": TOOLS} if tools else {}
    whole = render(messages, **how)
    for n in range(1, len(messages)):
        part = render(messages[:n], **how)
        assert whole.startswith(part)
        assert TOKENIZER.encode(whole)[: len(TOKENIZER.encode(part))] == TOKENIZER.encode(part)
        if messages[n]["role"] == "assistant":
            assert whole.startswith(render(messages[:n], add_generation_prompt=True, **how))


@CHECKED
@given(conversations())
def test_the_assistants_tokens_are_marked(messages):
    """`return_assistant_tokens_mask` marks what the assistant said, end token included, and nothing else."""
    got = TOKENIZER.apply_chat_template(messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
    marked = TOKENIZER.decode([t for t, m in zip(got["input_ids"], got["assistant_masks"]) if m])
    said = ""
    for message in messages:
        if message["role"] == "assistant":
            asked = "".join(f"<act> go way = {c['function']['arguments']['way']}</act>" for c in message.get("tool_calls", []))
            said += message["content"] + (asked or "<end>")
    assert marked == said


CALLS = [
    ([call("py", expression="47*83")], ""),
    ([call("go", way="north", far="2"), call("py", expression="1 + 2")], " first"),
    ([call("look")], ""),
]


@pytest.mark.parametrize("asked, content", CALLS)
@pytest.mark.parametrize("before", [[], [{"role": "tool", "content": " key"}]], ids=["first turn", "after a result"])
def test_a_call_that_was_written_is_read_back(asked, content, before):
    """Names and arguments survive; earlier calls of the conversation are not read again."""
    earlier = [{"role": "assistant", "content": "", "tool_calls": [call("py", expression="9*9")]}] if before else []
    prompt = [{"role": "user", "content": " one"}, *earlier, *before]
    start = render(prompt, add_generation_prompt=True)
    whole = render([*prompt, {"role": "assistant", "content": content, "tool_calls": asked}])
    said = TOKENIZER.encode(whole)[len(TOKENIZER.encode(start)) :]
    read = TOKENIZER.parse_response(said, prefix=TOKENIZER.encode(start))
    assert read["tool_calls"] == asked and read.get("content", "").strip() == content.strip()


def test_trl_takes_the_template_for_tools():
    """The questions TRL 1.16 asks before it lets tools into its loop, and how it reads what a policy said."""
    from trl.chat_template_utils import (
        is_chat_template_prefix_preserving, is_chat_template_stop_token_trained, parse_response, supports_tool_calling,
    )  # fmt: skip

    assert supports_tool_calling(TOKENIZER) and TOKENIZER.response_template
    assert is_chat_template_prefix_preserving(TOKENIZER) and is_chat_template_stop_token_trained(TOKENIZER)
    prefix = TOKENIZER.encode("<user> one<bot>")
    read = parse_response(TOKENIZER, TOKENIZER.encode("<act> py expression = 4*2</act>"), prefix)
    assert read["tool_calls"] == [call("py", expression="4*2")]
    answer = parse_response(TOKENIZER, TOKENIZER.encode(" 8<end>"), prefix)
    assert answer["content"].strip() == "8" and not answer.get("tool_calls")


@pytest.mark.parametrize("text", [" go north", "<act> go north</act>"])
def test_rendering_adds_no_tokens_of_its_own(text):
    assert TOKENIZER.encode(text) == list(encode(TOKENIZER, text))
