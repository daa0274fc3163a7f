"""The mechanism: what a verdict tells, in words and as HTML, and where it stops."""

import signal
import sys
import threading
import time

import pytest

from arl_mini import lab
from arl_mini.exercises import ch00, ch08


def test_a_right_answer_says_what_was_tried():
    verdict = lab.check("00.1", ch00.count)
    assert verdict.right
    assert repr(verdict) == verdict.message == "00.1 ✓ right, tried with 100 random episodes"


def test_a_wrong_answer_says_input_came_expected_and_hint():
    verdict = lab.check("08.2", lambda success, calls, busy: success - 0.25 * calls)
    assert verdict.message.splitlines() == [
        "08.2 ✗ not yet: 58 inputs went well, the next did not",
        "  input:    reward(True, 1, 1): 1 of 1 calls were busy",
        "  came:     0.75",
        "  expected: 1, as without the busy ones: reward(True, 0, 0)",
        "  hint:     The policy cannot help that the tool is busy: retries must neither cost nor pay.",
    ]


def test_the_same_seed_gives_the_same_inputs_and_another_one_others():
    wrong = ch00.EXERCISES[0].wrong[0].answer
    first = lab.check("00.1", wrong, seed=1)
    assert first == lab.check("00.1", wrong, seed=1)
    assert first.input != lab.check("00.1", wrong, seed=2).input


def test_an_exception_shows_the_line_of_the_reader():
    def count(episode):
        sampled = 0
        return sampled / len([])

    verdict = lab.check("00.1", count)
    assert verdict.came == "ZeroDivisionError: division by zero"
    assert verdict.line.endswith("in count: return sampled / len([])")
    assert verdict.input.startswith("an episode of")


limited = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the time limit needs signals")


@limited
def test_an_answer_that_never_ends_is_stopped_with_its_line():
    def until(run, goal):
        while True:
            try:
                next(run)
            except Exception:
                continue

    handler, start = signal.getsignal(signal.SIGALRM), time.monotonic()
    verdict = lab.check("00.2", until, seconds=0.3)
    assert time.monotonic() - start < 3
    assert not verdict.right and verdict.came == "nothing within 0.3 seconds"
    assert ", in until: " in verdict.line
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


@limited
def test_a_long_calculation_in_c_is_stopped_too():
    verdict = lab.check("08.1", lambda text: 9**9**9, seconds=0.3)
    assert verdict.came == "nothing within 0.3 seconds"


def test_another_thread_may_check_too():
    verdicts = []
    thread = threading.Thread(target=lambda: verdicts.append(lab.check("08.3", ch08.mask_of)))
    thread.start()
    thread.join()
    assert verdicts[0].right


def test_an_interrupt_of_the_reader_goes_through():
    def count(episode):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.check("00.1", count)


@pytest.mark.parametrize("id", ["00.9", "99.1", "nonsense", "", 0.1, None, "00.1/../x"])
def test_an_unknown_id_lists_those_there_are(id):
    with pytest.raises(ValueError) as caught:
        lab.check(id, print)
    assert f"no exercise {id!r}; expected one of 00.1, 00.2, 00.3" in str(caught.value)


def test_what_comes_from_the_answer_is_escaped():
    verdict = lab.check("08.1", lambda text: "<script>alert('&')</script>")
    html = verdict._repr_html_()
    assert "<script>" in verdict.message and "<script>" not in html
    assert "&lt;script&gt;alert(&#x27;&amp;&#x27;)" in html
    told = lab.check("08.3", lambda segments: [2])._repr_html_()
    assert "&lt;" in told and not any(mark in told for mark in ch08.MARKS)


def test_right_and_wrong_differ_by_more_than_colour():
    right, wrong = lab.check("00.1", ch00.count)._repr_html_(), lab.check("00.1", len)._repr_html_()
    assert "arl-right" in right.rpartition("</style>")[2] and "✓ right" in right
    assert "arl-right" not in wrong.rpartition("</style>")[2] and "✗ not yet" in wrong


def test_a_check_loads_the_exercises_of_its_chapter_alone(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("arl_mini.exercises")]:
        monkeypatch.delitem(sys.modules, name)
    assert lab.check("00.1", ch00.count).right
    loaded = {n.removeprefix("arl_mini.exercises.") for n in sys.modules if n.startswith("arl_mini.exercises.")}
    assert loaded == {"ch00", "ch00_bug"}
