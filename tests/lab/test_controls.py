"""The sliders and buttons of a live run do what its methods do, without waiting, and let go of it."""

import gc
import threading
import time
import weakref

from arl_mini import lab
from tests.lab.test_live import until
from tests.lab.test_steer import Walk, finished


def press(live):
    """A live run that is paused after a few updates, by its own buttons."""
    live.start()
    until(lambda: len(live.records) > 4)
    live._panel.toggle.click()
    until(lambda: live.state == "paused")
    return live._panel


def test_the_controls_do_what_the_methods_do():
    live = lab.live(Walk(10_000, sleep=0.002), static=False, show=("success",), every=0.0)
    panel = press(live)
    stood = len(live.records)
    assert panel.state.value == stood  # where it was paused is kept, whatever the stride
    panel.knobs.sliders["lr"].value = 0.02
    panel.one.click()
    until(lambda: len(live.records) == stood + 1 and live.state == "paused")
    assert (live.records[-1].lr, live.records[-2].lr) == (0.02, 0.1)
    assert f"update {stood + 1}: lr 0.1 → 0.02" in panel.picture.value
    panel.state.value = 2
    panel.rewind.click()
    until(lambda: len(live.records) == 2)
    assert live.state == "paused" and panel.knobs.sliders["lr"].value == 0.1
    assert panel.figures.value.count('arl-count">2<') == 1
    panel.fork.click()
    until(lambda: "B" in live.branches)
    assert panel.branch.layout.display is None and panel.branch.value == "B"
    panel.knobs.sliders["tries"].value = 7
    panel.one.click()
    until(lambda: len(live.records) == 3 and live.state == "paused")
    assert live.records[-1].tries == 7 and len(live.branches["A"]) == 2
    panel.branch.value = "A"
    until(lambda: live._history.now.name == "A")
    assert panel.knobs.sliders["tries"].value == 4
    panel.end.click()
    until(lambda: live.state == "stopped")


def test_buttons_pressed_while_it_runs_wait_for_the_update():
    live = lab.live(Walk(10_000, sleep=0.05), static=False, show=("success",), every=0.0)
    press(live)
    live.start()
    until(lambda: live.state == "running")
    live._panel.state.value = 1
    started = time.perf_counter()
    live._panel.rewind.click()
    assert time.perf_counter() - started < 0.04  # the click itself does not wait
    until(lambda: len(live.records) == 1 and live.state == "paused")
    live.start()
    until(lambda: len(live.records) > 2)
    live._panel.knobs.sliders["lr"].value = 0.07
    until(lambda: live.records[-1].lr == 0.07)
    assert live.state == "running"
    live.stop()


def test_what_a_slider_may_not_do_is_shown_and_the_run_goes_on():
    class Proud(Walk):
        def change(self, **numbers):
            raise ValueError("not <now>")

    live = lab.live(Proud(1000, sleep=0.002), static=False, show=("success",))
    panel = press(live)
    panel.knobs.sliders["lr"].value = 0.07
    until(lambda: "not done: not &lt;now&gt;" in panel.trouble.value)
    assert live.state == "paused" and panel.knobs.sliders["lr"].value == 0.1
    live.stop()


def test_smoothing_redraws_at_once():
    live = finished(False)
    smooth = live._panel.picture.value
    live._panel.smooth.value = 1
    assert live._panel.picture.value != smooth and 'class="arl-curve"' in live._panel.picture.value


def test_a_run_that_nobody_holds_is_let_go():
    live = finished(False)
    panel, gone = live._panel, weakref.ref(live)
    assert not panel.rewind.disabled  # as long as somebody holds it, an ended run can be rewound
    del live
    gc.collect()
    assert gone() is None and panel.rewind.disabled and panel.knobs.sliders["lr"].disabled
    panel.fork.click()  # and what a late click asks for is nothing
    assert not [t for t in threading.enumerate() if t.name.startswith("arl live")]
