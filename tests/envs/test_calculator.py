"""Calc's calculator: whole-number arithmetic as Python has it, and nothing else, whatever is written."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl_mini.envs import Calc, act
from arl_mini.envs.calc import LARGEST, evaluate
from tests.core.drawn import CHECKED

HOSTILE = [
    # code
    "__import__('os').system('true')", "open('/etc/passwd')", "exit()", "print(1)", "().__class__", "a", "a=1", "a:=1", "(a:=1)",
    "lambda: 1", "[1]", "{1}", "{}", "1,2", "(1,2)", "[i for i in range(9)]", "f'{1}'", "'1'", "b'1'", "...", "*1", "await 1",
    "yield", "def f(): pass", "import os", "1;2", "1\n2", "1 if 1 else 2", "1 and 2", "not 1", "1<2", "1==1", "x.y", "x[0]",
    # numbers that are none of ours, or would never end
    "1.5", "1e3", "1j", "True", "None", "9**9**9", "2**2", "1<<99", "1>>1", "1|2", "1&2", "1^2", "~1", "1/2", "1//0", "1%0", "0//0",
    "999999999999*9", "9999999999999", "-9999999999999", "1" * 61, "1" * 5000, "9*" * 400 + "9",
    # no expressions at all
    "", " ", "+", "1+", "1 1", "(1", "1)", "()", "1=1", "#", "\0", "1\0", "é", "½", "١", "１", "²", "1²", "π", "😀", "\n", "\\",
    "(" * 60, "(" * 30 + "1" + ")" * 29, "-" * 60, "0777", "1__0", "0x", "<obs> 3</obs>", "\ud800",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=lambda t: ascii(t)[:24])
def test_what_is_not_arithmetic_is_refused(text):
    start = time.perf_counter()
    with pytest.raises(ValueError):
        evaluate(text)
    assert time.perf_counter() - start < 0.5


def test_there_are_enough_of_them():
    assert len(set(HOSTILE)) > 30


@pytest.mark.parametrize("text", HOSTILE, ids=lambda t: ascii(t)[:24])
def test_the_world_answers_them_all(text):
    """As a call of the tool: an error observation that is counted, and the game goes on."""
    env = Calc(kinds=("product",))
    env.reset(1)
    reply = env.step(act(f"py {text}"))
    assert reply.text == " error py" or (reply.text.startswith(" error") and reply.info["malformed"])
    assert reply.info["malformed"] and not reply.done and reply.info["calls"] == 1
    while not (reply := env.step(env.expert())).done:
        pass
    assert reply.info["success"]


@pytest.mark.parametrize("text, value", [
    ("47*83", 3901), (" 47 * 83 ", 3901), ("-5", -5), ("--5", 5), ("+5", 5), ("2-3", -1), ("7//2", 3), ("-7//2", -4), ("-7%3", 2),
    ("2+3*4", 14), ("(2+3)*4", 20), ("((1))", 1), ("0", 0), ("999999999999", 999_999_999_999), ("1000000*1000000", LARGEST),
    ("0x10", 16), ("1_000", 1000),
])  # fmt: skip
def test_arithmetic(text, value):
    assert evaluate(text) == value


leaves = st.integers(0, 99).map(str)
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner).map("".join),
        st.tuples(inner, st.sampled_from([" + ", " * "]), inner).map("".join),
        inner.map("({})".format),
        inner.map("-{}".format),
    ),
    max_leaves=8,
)


@CHECKED
@given(expressions)
def test_what_it_computes_is_what_python_computes(text):
    """Also the parts: Python's own value where every number on the way is in bounds, refused where one is not."""
    import ast

    parts = []
    try:
        for node in ast.walk(ast.parse(text, mode="eval").body):
            if isinstance(node, ast.expr):
                parts.append(eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}}))
        wanted = parts[0] if len(text) <= 60 and all(abs(p) <= LARGEST for p in parts) else None
    except ZeroDivisionError:
        wanted = None
    if wanted is None:
        with pytest.raises(ValueError):
            evaluate(text)
    else:
        got = evaluate(text)
        assert got == wanted and type(got) is int


@CHECKED
@given(st.text(max_size=70))
def test_any_text_gets_a_number_or_a_refusal(text):
    try:
        assert type(evaluate(text)) is int
    except ValueError:
        pass
