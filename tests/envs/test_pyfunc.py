"""PyFunc: what is run, what is judged, and what a program cannot do to its judge."""

import random

import pytest

from arl_mini.envs import PyFunc, act
from arl_mini.envs.pyfunc import KINDS, _value
from arl_mini.trust import Hardened, missing


def at(expression: str, inputs: list, tries: int = 3) -> PyFunc:
    env = PyFunc(tries=tries)
    env.reset(0)
    env.inputs, env.expected = inputs, [_value(expression, x) for x in inputs]
    return env


EIGHT = [3, 0, 5, 1, 2, 4, 6, 7]


def test_the_examples_are_the_functions():
    for kind in KINDS:
        for seed in range(30):
            env = PyFunc((kind,))
            task = env.reset(seed)
            shown = [part.split("=") for part in task.split(" ;")]
            assert len(shown) == 3 and env.expected == [_value(env.expression, x) for x in env.inputs]
            for (call, value), x, y in zip(shown, env.inputs, env.expected):
                assert eval(call.replace("f (", "(")) == x and int(value) == y
            assert len(set(env.expected[:3])) == 3, "a constant cannot pass"


@pytest.mark.parametrize("body, reply", [
    ("return x * 2", " f ( 3 ) = 6 not 7"), ("return x", " f ( 3 ) = 3 not 7"), ("return 7", " f ( 0 ) = 7 not 1"),
    ("x + 1", " f ( 3 ) = nothing not 7"), ("return [ x ]", " f ( 3 ) = nothing not 7"), ("return 7.0", " f ( 3 ) = nothing not 7"),
    ("return True", " f ( 3 ) = nothing not 7"), ("return - x", " f ( 3 ) = - 3 not 7"), ("return y", " error name"),
    ("return x +", " error syntax"), ("return 1 // 0", " error zero"), ("return x [ 0 ]", " error type"),
    ("return f ( x )", " error deep"), ("while x : y = 1", " error time"), ("return int ( 'x' )", " error value"),
    ("return [ 7 , 1 , 11 ] [ x ]", " error index"), ("return {3:7,0:1,5:11}.get(x)", " hidden"),
])  # fmt: skip
def test_what_a_try_is_told(body, reply):
    came = at("x * 2 + 1", EIGHT).step(act(body))
    assert came.text == reply and came.reward == 0 and not came.done


@pytest.mark.parametrize("body", ["return x * 2 + 1", "y = x + x ; return y + 1", "y = 2 * x ; y = y + 1 ; return y", "return(1+x*2)"])
def test_any_program_that_does_it_is_right(body):
    came = at("x * 2 + 1", EIGHT).step(act(body))
    assert came.done and came.reward == 1.0 and came.info["success"]


def test_there_are_three_tries_and_any_may_succeed():
    env = at("x * 2 + 1", EIGHT)
    assert [env.step(act("return x")).truncated, env.step("what ?<end>").info["malformed"]] == [False, True]
    assert env.step(act("return x * 2 + 1")).reward == 1.0
    env = at("x * 2 + 1", EIGHT, tries=2)
    env.step(act("return x"))
    assert env.step(act("return x")).truncated


@pytest.mark.parametrize("body", [
    "inputs [ : ] = [ ] ; return 0", "global inputs ; inputs = [ ] ; return 0", "global f ; f = None ; return 0",
    "return expected [ 0 ]", "import os ; os._exit ( 0 )", "raise SystemExit", "print ( 7 ) ; return 0",
    "return 0 ; [ 7 , 1 , 11 ]", "open ( '/tmp/x' , 'w' ) ; return 0",
])  # fmt: skip
def test_a_program_cannot_talk_to_its_judge(body):
    env = at("x * 2 + 1", EIGHT)
    reply = env.step(act(body))
    assert not reply.done and reply.reward == 0.0
    assert env.step(act("return x * 2 + 1")).reward == 1.0, "nor spoil the next try"


def test_a_copy_goes_its_own_way():
    env = at("x * 2 + 1", EIGHT)
    twin = env.clone()
    env.step(act("return 1"))
    assert (env.tried, twin.tried) == (1, 0)


@pytest.mark.skipif(bool(missing()), reason=f"this machine lacks {missing()}")
def test_all_of_python_can_run_it():
    with Hardened() as box:
        env = PyFunc(run=box.run)
        for seed in range(5):
            env.reset(seed)
            assert env.clone().step(env.expert()).reward == 1.0
            assert not env.step(env.random(random.Random(0))).info.get("malformed")
