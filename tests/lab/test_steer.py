"""Rewinding, forking and changing a live run: with a small run made up here, then with a real one."""

import asyncio
import gc
import time
import tracemalloc
from dataclasses import dataclass

import numpy as np
import pytest

from arl_mini import lab
from arl_mini.lab.history import History, size_of
from tests.lab.test_live import until


@dataclass
class Record:
    step: int
    success: float
    lr: float
    tries: int


class Walk:
    """A run whose records depend on all that came before, and on the settings of each step; `heavy` numbers of state."""

    def __init__(self, steps=30, heavy=1, sleep=0.0):
        self.step, self.lr, self.tries, self.steps, self.sleep = 0, 0.1, 4, steps, sleep
        self.weights = np.zeros(heavy)

    def __iter__(self):
        return self

    def __length_hint__(self):
        return self.steps - self.step

    def __next__(self):
        if self.step >= self.steps:
            raise StopIteration
        time.sleep(self.sleep)
        self.step += 1
        self.weights += self.lr * np.sin(self.step + 10 * self.weights)
        return Record(self.step, float(np.tanh(self.weights[0]) ** 2), self.lr, self.tries)

    def changeable(self):
        return {"tries": self.tries, "lr": self.lr}

    def change(self, **numbers):
        for name, number in numbers.items():
            if name not in self.changeable() or number < 0:
                raise ValueError(f"no {name} of {number}")
            setattr(self, name, number)

    def snapshot(self):
        return (self.step, self.lr, self.tries, self.weights.copy())

    def restore(self, state):
        self.step, self.lr, self.tries, self.weights = *state[:3], state[3].copy()


@pytest.fixture(params=[True, False], ids=["static", "thread"])
def static(request):
    return request.param


def finished(static, steps=20, **options):
    live = lab.live(Walk(steps), static=static, show=("success",), **options)
    live.wait()
    return live


def test_a_fork_with_unchanged_settings_is_its_parent(static):
    live = finished(static)
    parent = list(live.records)
    for at in (0, 7, 20, None):
        live.fork(at)
        live.wait()
        assert live.records == parent == list(Walk(20))
        assert live.state == "finished"
    assert list(live.branches) == ["A", "B", "C", "D", "E"]


def test_a_fork_with_other_settings_leaves_its_parent_alone(static):
    live = finished(static)
    parent = list(live.records)
    live.fork(8, lr=0.3)
    live.wait()
    assert live.records[:8] == parent[:8] and live.records[8:] != parent[8:]
    assert [record.lr for record in live.records] == [0.1] * 8 + [0.3] * 12
    assert live.branches == {"A": parent, "B": live.records}
    assert [str(change) for change in live.changes] == ["lr 0.1 → 0.3"] and live.changes[0].at == 8
    picture = live.svg()
    assert "update 9: lr 0.1 → 0.3" in picture and "B · forked at 8" in picture
    assert picture.count('class="arl-mark"') == 1 and picture.count('class="arl-other"') == 1


def test_rewind_gives_the_same_records_again_unless_something_changes(static):
    live = finished(static)
    first = live.records
    live.rewind(5)
    assert live.state == "paused" and len(live.records) == 5 and len(first) == 20
    assert live._history._run.step == 5
    asyncio.run(live.done())  # it goes on: nobody paused it
    assert live.records == first
    live.rewind(5)
    live.change(tries=9)
    assert live.wait()[5].tries == 9 and live.records[4].tries == 4


def test_rewind_takes_the_settings_back_too(static):
    live = finished(static, steps=10)
    live.rewind(6)
    live.change(lr=0.5)
    live.wait()
    live.rewind(6)  # the state after update 6 is from before the change that was made there
    assert live._history.settings()["lr"] == 0.1 and live.changes == []
    if not static:
        assert live._panel.knobs.sliders["lr"].value == 0.1
    assert live.wait() == list(Walk(10))


def test_switch_goes_on_where_a_branch_was_left(static):
    live = lab.live(Walk(20), steps=12, static=static, show=("success",))
    live.wait()
    live.fork(4, lr=0.4)
    live.wait()
    live.switch("A")
    assert live.state == "paused" and live.records == list(Walk(20))[:12]
    live._limit = None
    assert live.wait() == list(Walk(20))
    live.switch("B")
    assert [record.lr for record in live.wait()] == [0.1] * 4 + [0.4] * 16


def test_a_change_is_marked_once_and_not_if_taken_back(static):
    live = finished(static, steps=6)
    live.rewind(3)
    live.change(lr=0.2)
    live.change(lr=0.3)
    live.change(tries=8)
    live.change(tries=4)
    live.wait()
    assert [(c.at, c.name, c.old, c.new) for c in live.changes] == [(3, "lr", 0.1, 0.3)]


def test_a_fork_from_now_keeps_what_was_just_changed(static):
    live = finished(static, steps=6)
    live.rewind(3)
    live.change(lr=0.2)
    live.fork()
    assert [c.name for c in live.changes] == ["lr"]
    assert [record.lr for record in live.wait()] == [0.1] * 3 + [0.2] * 3


def test_a_failed_run_can_be_rewound(static):
    class Fragile(Walk):
        def __next__(self):
            if self.step == 6 and self.lr > 0.05:
                raise FloatingPointError("loss is nan")
            return super().__next__()

    live = lab.live(Fragile(10), static=static, show=("success",))
    with pytest.raises(FloatingPointError):
        live.wait()
    assert live.state == "failed" and max(live.kept) == 6
    live.rewind(4)
    assert live.error is None
    live.change(lr=0.01)
    assert len(live.wait()) == 10 and live.state == "finished"
    if not static:
        assert live._panel.trouble.value == ""


def test_a_branch_that_failed_half_way_is_left_where_its_last_update_ended(static):
    class Torn(Walk):
        def __next__(self):
            if self.step == 6 and self.lr > 0.05:
                self.weights += 5  # half an update
                raise FloatingPointError("loss is nan")
            return super().__next__()

    live = lab.live(Torn(10), static=static, show=("success",))
    with pytest.raises(FloatingPointError):
        live.wait()
    live.fork(2, lr=0.01)
    live.wait()
    live.switch("A")
    live.change(lr=0.02)
    wanted = Walk(10)
    assert live.records == [next(wanted) for _ in range(6)]
    wanted.change(lr=0.02)
    assert live.wait()[6:] == list(wanted)


def test_stepping_by_hand_does_not_thin_out_the_past(static):
    live = lab.live(Walk(400), static=static, show=("success",))
    live.pause()
    for count in range(1, 201):
        live.step()
        until(lambda count=count: len(live.records) == count and live.state == "paused")
        assert live.kept[-1] == count  # each pause can be gone back to at once
    assert live._history.stride <= 16 and len(live.kept) >= 12
    live.stop()


def test_what_was_not_kept_is_done_again_with_its_changes(static):
    live = finished(static, steps=12)
    live.rewind(3)
    live.change(lr=0.4)
    live.wait()
    live.rewind(7)
    live.change(lr=0.05, tries=2)
    records = list(live.wait())
    live._history.now.states = {at: state for at, state in live._history.now.states.items() if at == 0}
    live.rewind(9)
    assert live._history._run.step == 9 and live.kept == [0, 9]
    assert live.wait() == records
    live._history.now.states = {at: state for at, state in live._history.now.states.items() if at == 0}
    live.fork(8)
    assert live.wait() == records


@pytest.mark.parametrize(("act", "error", "words"), [
    (lambda live: live.rewind(5), ValueError, "there is no update 5 to go back to; this branch has 0 to 4"),
    (lambda live: live.fork(-1), ValueError, "there is no update -1 to go back to"),
    (lambda live: live.fork(2, lr=-1), ValueError, "no lr of -1"),
    (lambda live: live.change(rate=1), ValueError, "no rate of 1"),
    (lambda live: live.switch("Z"), KeyError, "no branch 'Z'; there are A"),
])
def test_what_cannot_be_done_is_said_and_changes_nothing(act, error, words, static):
    live = finished(static, steps=4)
    for _ in range(2):
        with pytest.raises(error, match=words):
            act(live)
        assert live.records == list(Walk(4)) and list(live.branches) == ["A"] and live._history._run.step == 4


def test_more_branches_than_colours_are_refused(static):
    live = finished(static, steps=3)
    for _ in range(5):
        live.fork(1)
    with pytest.raises(ValueError, match="6 branches are the most; hint: rewind one"):
        live.fork(1)


def test_runs_that_offer_less(static):
    live = lab.live((vars(record) for record in Walk(3)), static=static, show=("success",))
    live.wait()
    with pytest.raises(TypeError, match=r"a generator without snapshot\(\) and restore\(\).*hint: pass train"):
        live.rewind(0)
    with pytest.raises(TypeError, match=r"a generator without change\(\)"):
        live.change(lr=1)
    if not static:
        assert live._panel.knobs is None and live._panel.way.layout.display == "none"


def test_earlier_seeds_lie_behind():
    seeds = [list(Walk(20)), list(Walk(15))]
    live = lab.live(Walk(20), show=("success", "lr"), static=True, beside={"two <seeds>": seeds})
    live.wait()
    assert live.svg().count('class="arl-behind"') == 2 and "two &lt;seeds&gt;: range and mean" in live.svg()
    with pytest.raises(ValueError, match="its 2 runs share no step"):
        lab.live(Walk(3), beside={"x": [list(Walk(3)), []]})


def test_states_are_bounded_in_number_and_bytes():
    live = lab.live(Walk(2000), static=True, show=("success",))
    live.wait()
    assert 12 <= len(live.kept) <= 25 and live.kept[0] == 0
    heavy = lab.live(Walk(200, heavy=10_000), static=True, show=("success",), memory=0.5)  # 80 kB each: 6 fit
    heavy.wait()
    assert 3 <= len(heavy.kept) <= 7
    assert sum(size_of(state) for state in heavy._history.now.states.values()) <= 0.6e6
    big = lab.live(Walk(20, heavy=10_000), static=False, show=("success",), memory=0.05)
    big.wait()
    assert big.kept == [] and big._panel.state.options == (("none: one takes 0 MB", -1),)
    with pytest.raises(ValueError, match=r"no state is kept: one takes 0.08 MB; hint: live\(…, memory=MB\)"):
        big.rewind(0)


def test_costly_states_are_kept_less_often():
    class Slow(Walk):
        def snapshot(self):
            time.sleep(0.004)
            return super().snapshot()

    run = Slow(200, sleep=0.002)
    live = lab.live(run, static=True, show=("success",))
    started = time.perf_counter()
    live.wait()
    assert live._history.stride >= 64 and live._history.seconds < 0.15 * (time.perf_counter() - started)


def test_two_thousand_steps_grow_no_memory_but_the_numbers():
    live = lab.live(Walk(4000, heavy=2000), static=False, show=("success", "lr"))

    def go_to(count):
        live._limit = count
        live.wait()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        first = go_to(1000)
        live._worker.revive()
        second = go_to(3000)
    finally:
        tracemalloc.stop()
    assert (second - first) / 2000 < 700  # bytes an update: the record itself and its few floats
    assert len(live._bundle()["image/svg+xml"]) < 20_000


def test_sizes():
    shared = np.zeros(10)
    assert size_of({"a": shared, "b": [shared, (np.zeros(5, np.float32),)], "c": "text", "d": 3}) == 100
    assert History(iter([]), ("x",), 1, 1.0).kept == []


# --- a real run ----------------------------------------------------------------------------------------------


def test_a_real_run_forks_and_rewinds_bit_for_bit(static):
    from tests.core.killed import STEPS, begin
    from tests.core.test_runs import plain

    unbroken = [plain(record) for record in begin()]
    live = lab.live(begin(), static=static)
    live.wait()
    assert [plain(record) for record in live.records] == unbroken
    live.fork(4)
    live.wait()
    assert [plain(record) for record in live.records] == unbroken
    live.fork(2, lr=0.3, clip_high=0.05)
    live.wait()
    assert len(live.records) == STEPS and [plain(record) for record in live.records] != unbroken
    live.switch("A")
    live.rewind(3)
    live.wait()
    assert [plain(record) for record in live.records] == unbroken
