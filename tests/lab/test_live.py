"""The live trainer without a browser: the same widget, its buttons pressed from the test."""

import asyncio
import dataclasses
import gc
import subprocess
import sys
import threading
import time
import weakref

import pytest

from arl_mini import lab

pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")


@dataclasses.dataclass(frozen=True)
class Episode:
    text: str


@dataclasses.dataclass(frozen=True)
class Record:
    step: int
    success: float
    reward: float
    entropy: float = 1.0
    seconds: dict = dataclasses.field(default_factory=dict)
    episodes: tuple = ()


def train(steps, sleep=0.0):
    for i in range(1, steps + 1):
        time.sleep(sleep)
        seconds = {"rollout": time.perf_counter()}
        yield Record(i, i / steps, i / steps - 0.5, 1.0, seconds, (Episode(f"<obs> {i}"),))


def until(condition, seconds=5.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("arl live")]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    until(lambda: not threads())


def plain(records):
    return [(r.step, r.success, r.reward, r.entropy, r.episodes) for r in records]


@pytest.mark.parametrize("static", [True, False])
def test_same_records_with_and_without_the_widget(static):
    live = lab.live(train(30), static=static)
    assert plain(asyncio.run(live.done())) == plain(train(30))
    assert live.state == "finished"


def test_static_page_is_one_picture_without_times():
    pictures = []
    for _ in range(2):
        live = lab.live(train(20), steps=12, title="A & B", static=True)
        live.wait()
        shown = live._bundle()
        assert sorted(shown) == ["image/svg+xml", "text/plain"]
        pictures.append(shown)
    assert pictures[0] == pictures[1]  # though the seconds differ
    assert "A &amp; B" in pictures[0]["image/svg+xml"]
    assert pictures[0]["text/plain"] == "A & B · update 12 · success 0.6 · reward 0.1 · entropy 1"
    assert threads() == []


def test_pause_step_go_on_stop():
    live = lab.live(train(10_000, 0.005), static=False, every=0.0)
    panel = live._panel
    live.start()
    until(lambda: len(live.records) > 3)
    panel.toggle.click()
    until(lambda: live.state == "paused")
    stood = len(live.records)
    time.sleep(0.1)
    assert len(live.records) == stood
    assert panel.toggle.description == "Start" and not panel.one.disabled
    panel.one.click()
    until(lambda: len(live.records) == stood + 1 and live.state == "paused")
    time.sleep(0.05)
    assert len(live.records) == stood + 1
    panel.toggle.click()
    until(lambda: len(live.records) > stood + 5)
    panel.end.click()
    until(lambda: live.state == "stopped")
    assert panel.toggle.disabled and panel.one.disabled and panel.end.disabled
    assert f'arl-count">{len(live.records)}<' in panel.figures.value
    assert "&lt;obs&gt;" in panel.sample.value


def test_stopped_iterator_can_go_on():
    run = train(50)
    first = lab.live(run, steps=5, static=False).wait()
    assert [r.step for r in first] == [1, 2, 3, 4, 5]
    assert next(run).step == 6


@pytest.mark.parametrize("static", [True, False])
def test_paused_before_the_start(static):
    live = lab.live(train(5), static=static)
    live.pause()
    live.step()
    until(lambda: live.state == "paused" and len(live.records) == 1)
    live.start()
    assert len(live.wait()) == 5


def test_same_title_stops_the_earlier_run_and_waits_for_it():
    inside, most = [], []

    def careful():
        for record in train(10_000):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.02)
            inside.pop()
            yield record

    first, second = (lab.live(careful(), title="mine", static=False) for _ in range(2))
    other = lab.live(train(10_000, 0.01), title="another", static=False)
    first.start()
    other.start()
    until(lambda: len(first.records) > 1)
    second.start()
    until(lambda: len(second.records) > 1)
    assert (first.state, other.state, second.state) == ("stopped", "running", "running")
    assert max(most) == 1  # never two updates at once: they may train the same policy
    second.stop()
    other.stop()


@pytest.mark.parametrize("static", [True, False])
def test_errors_are_shown_and_raised_each_time(static):
    def broken():
        yield Record(1, 0.0, 0.0)
        raise ValueError("no <door>")

    live = lab.live(broken(), static=static)
    for _ in range(2):
        with pytest.raises(ValueError, match="no <door>"):
            asyncio.run(live.done())
    assert live.state == "failed" and len(live.records) == 1
    if not static:
        assert "ValueError: no &lt;door&gt;" in live._panel.trouble.value


def test_missing_number_says_which_there_are():
    live = lab.live(train(3), show=("reward", "sucess"), static=False)
    with pytest.raises(KeyError, match="no 'sucess'; their numbers are: step, success, reward, entropy"):
        live.wait()
    assert "no &#x27;sucess&#x27;" in live._panel.trouble.value


def test_interrupting_the_wait_stops_the_run(monkeypatch):
    live = lab.live(train(10_000, 0.005), static=False)

    async def cancelled():
        task = asyncio.ensure_future(live.done())
        await asyncio.sleep(0.1)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    until(lambda: live.state == "stopped")


def test_drawing_costs_less_than_its_share():
    live = lab.live(train(400, 0.003), static=False, every=0.0)
    started = time.perf_counter()
    live.wait()
    assert live.drawing < 0.06 * (time.perf_counter() - started)  # 5 %, and the first and last picture


def test_memory_and_picture_do_not_grow_with_the_run():
    live = lab.live(train(2000), static=False, keep=10)
    live.wait()
    kept = [bool(record.episodes) for record in live.records]
    assert kept == [False] * 1990 + [True] * 10
    assert [record.step for record in live.records] == list(range(1, 2001))
    assert len(live._panel.picture.value) < 16_000
    ended = weakref.ref(live)
    del live
    gc.collect()
    assert ended() is None  # the widgets, which live as long as the kernel, do not hold it


def test_alarm_and_bar():
    flat = ({"step": i, "success": 0.0, "reward": 0.0, "signal_share": 0.1} for i in range(8))
    live = lab.live(flat, steps=8, static=False)
    live.wait()
    assert "90% of groups have no signal" in live._panel.notes.value
    assert (live._panel.bar.value, live._panel.bar.max, live._panel.bar.bar_style) == (8, 8, "success")


def test_length_hint_sets_the_bar_and_unknown_hides_it():
    assert lab.live(list(train(7)), static=False).total == 7
    unknown = lab.live(train(7), static=False)
    assert unknown.total is None and unknown._panel.bar.layout.display == "none"


@pytest.mark.parametrize(("arguments", "error", "words"), [
    ((5,), TypeError, "run is a int, expected an iterator"),
    ((train(1), 0), ValueError, "steps is 0"),
    ((train(1), 1, "t", "success"), ValueError, r"show is 'success', expected names such as \('success'"),
    ((train(1), 1, "t", ("success",), 0.3, 0), ValueError, "keep is 0"),
])
def test_bad_arguments(arguments, error, words):
    with pytest.raises(error, match=words):
        lab.live(*arguments)


def test_importing_the_lab_loads_no_heavy_thing():
    code = ("import sys; import arl_mini; own = set(sys.modules); import arl_mini.lab; "
            "new = {name.split('.')[0] for name in set(sys.modules) - own}; "
            "print(sorted(new & {'torch', 'matplotlib', 'ipywidgets', 'IPython', 'numpy', 'transformers'}))")
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
