"""What a sandbox tells of a program: value, output, the limit it met; and of a caller's mistake."""

import threading
import time

import pytest

from arl_mini.trust import Hardened, Limits, Outcome, Subset, Unavailable, Unconfined, cpython, missing, sandbox

HARD = pytest.param(Hardened, marks=pytest.mark.skipif(bool(missing()), reason=f"this machine lacks {missing()}"))


@pytest.fixture(params=[Subset, HARD, Unconfined], ids=lambda box: box.__name__, scope="module")
def box(request):
    if request.param is Unconfined:
        with pytest.warns(UserWarning, match="delete your files"):
            made = Unconfined(Limits(seconds=1.5))
    else:
        made = request.param(Limits(seconds=1.5))
    with made:
        yield made


@pytest.mark.parametrize("code, value", [
    ("1 + 1", 2), ("x = 3\nx * 2", 6), ("x = 3", None), ("", None), ("'é' * 2", "éé"), ("[1, (2, 3)]", [1, [2, 3]]),
    ("{'a': None, 'b': 1.5}", {"a": None, "b": 1.5}), ("def f(n):\n    return n if n < 2 else f(n-1) + f(n-2)\nf(15)", 610),
    ("import math\nmath.comb(10, 3)", 120), ("sorted('banana')", list("aaabnn")), ("2 ** 100", 2**100),
    ("__name__ != '__main__'", True), ("try:\n    1 / 0\nexcept ZeroDivisionError:\n    x = 5\nx", 5),
])  # fmt: skip
def test_values(box, code, value):
    outcome = box.run(code)
    if isinstance(box, Subset) and "__name__" in code:
        return  # the subset has no such name
    assert (outcome.status, outcome.value, outcome.error) == ("ok", value, "")


def test_inputs_and_output(box):
    outcome = box.run("for word in words:\n    print(word)\nlen(words)", {"words": ["red", "blue"]})
    assert (outcome.value, outcome.output) == (2, "red\nblue\n") and outcome.seconds > 0


@pytest.mark.parametrize("code, status, error", [
    ("1 / 0", "error", "ZeroDivisionError"), ("def f(:", "refused", ""), ("nobody", "error", "NameError"),
    ("raise ValueError('a\\nb')", "error", "ValueError: a"), ("assert 1 == 2", "error", "AssertionError"),
    ("while True: pass", "timeout", ""), ("while True: print('x' * 1000)", "output", ""), ("print('x' * 20000)", "output", ""),
    ("{1, 2}", "error", ""), ("float('nan')", "error", ""), ("'x' * 200000", "error", ""), ("b'x'", "error", ""),
    ("raise SystemExit", "error", ""), ("raise KeyboardInterrupt", "error", ""),
])  # fmt: skip
def test_what_goes_wrong_has_its_name(box, code, status, error):
    outcome = box.run(code)
    assert outcome.status == status and error in outcome.error and outcome.error and outcome.value is None
    assert outcome.status in sandbox.STATUSES and "\n" not in outcome.error


@pytest.mark.parametrize("box", [Subset, HARD], indirect=True, ids=["Subset", "Hardened"])
def test_memory_and_permission(box):
    assert box.run("'x' * 10**9").status == "memory"
    assert box.run("open('/etc/hostname').read()").status == "refused"


def test_the_subset_says_what_it_lacks():
    with Subset() as box:
        outcome = box.run("def f():\n    yield 1\nlist(f())")
    assert outcome.status == "refused" and "yield" in outcome.error


@pytest.mark.parametrize("box", [HARD, Unconfined], indirect=True, ids=["Hardened", "Unconfined"])
def test_all_of_python_is_there(box):
    code = """
import collections, dataclasses, heapq, itertools, re
@dataclasses.dataclass
class Point:
    x: int
def squares():
    for n in itertools.count():
        yield n * n
heap = [5, 3, 4]
heapq.heapify(heap)
match heap:
    case [least, *_]:
        found = least
[found, Point(2).x, next(itertools.islice(squares(), 7, None)), re.sub('a', 'b', 'banana'), collections.Counter('aab')['a']]
"""
    assert box.run(code).value == [3, 2, 49, "bbnbnb", 2]


@pytest.mark.parametrize("box", [Subset, HARD], indirect=True, ids=["Subset", "Hardened"])
def test_the_same_program_gives_the_same_outcome(box):
    code = "import random\n[random.random(), random.randint(0, 9), list({'a', 'b', 'c', 'd'})]"
    first = [box.run(code).value for _ in range(3)]
    with type(box)(box.limits) as other:
        assert first[0] == first[1] == first[2] == other.run(code).value


@pytest.mark.parametrize("inputs, message", [
    ({"1x": 1}, "identifiers, got '1x'"), ({"x": {1, 2}}, "plain data"), ({"x": float("nan")}, "plain data"), ({2: 1}, "identifiers, got 2"),
])  # fmt: skip
def test_a_callers_mistake_is_an_error(box, inputs, message):
    with pytest.raises((ValueError, TypeError), match=message):
        box.run("x", inputs)
    with pytest.raises(TypeError, match="code must be text, got bytes"):
        box.run(b"1")


def test_limits_must_be_positive():
    with pytest.raises(ValueError, match="seconds must be positive, got 0"):
        Limits(seconds=0)


@pytest.mark.parametrize("box", [HARD], indirect=True, ids=["Hardened"])
def test_a_lost_guard_costs_one_program(box):
    assert box.run("1").value == 1
    box._guard.kill()
    box._guard.wait()
    assert box.run("2").value == 2
    threading.Timer(0.4, box._guard.kill).start()
    began = time.perf_counter()
    lost = box.run("while True: pass")
    assert lost.status in ("error", "timeout") and time.perf_counter() - began < 4
    assert box.run("3").value == 3


@pytest.mark.parametrize("box", [Subset, HARD], indirect=True, ids=["Subset", "Hardened"])
def test_rows_in_threads_keep_their_own_answers(box):
    answers = {}

    def ask(n):
        for i in range(10):
            answers[n, i] = box.run("n * 10 + i", {"n": n, "i": i}).value

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert all(answers[n, i] == n * 10 + i for n in range(4) for i in range(10))


def test_a_machine_that_cannot_confine_refuses(monkeypatch):
    monkeypatch.setattr(cpython.platform, "system", lambda: "Darwin")
    assert missing() == list(cpython.PROTECTIONS)
    with pytest.raises(Unavailable, match="lacks Landlock .* and seccomp .* hint: Subset"):
        Hardened()


def test_an_outcome_is_plain():
    assert Outcome("ok", 1).seconds == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("make, least", [(Subset, 1000), pytest.param(Hardened, 50, marks=HARD.marks)])
def test_programs_a_second(make, least):
    with make() as box:
        box.run("1")
        began, done = time.perf_counter(), 0
        while time.perf_counter() - began < 3:
            assert box.run("sum(i * i for i in range(10))").value == 285
            done += 1
    assert done / 3 >= least
