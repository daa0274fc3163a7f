"""The live trainer in a real notebook: start, pause, step, stop, interrupt, error, re-run."""

from __future__ import annotations

import nbformat
import pytest

SETUP = """
import dataclasses, threading, time
from arl_mini import lab

@dataclasses.dataclass(frozen=True)
class Episode:
    text: str

@dataclasses.dataclass(frozen=True)
class Record:
    step: int
    success: float
    reward: float
    loss: float
    entropy: float
    signal_share: float
    tokens: int
    seconds: dict
    episodes: tuple = ()

def train(sleep=0.05):
    for i in range(10_000):
        time.sleep(sleep)
        success = min(1.0, i / 100)
        yield Record(i, success, success - 0.1, -0.01 * i, 2.0 - success, 0.5, 3000 + i, {"rollout": 0.03},
                     (Episode(f"<obs> room {i} </obs><act> go north </act>"),))

def threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("arl live")]
"""
AFTER = "print(len(records), live.state, threads())"


def count(nb) -> int:
    shown = nb.page.locator(".arl-count")
    return int(shown.first.inner_text()) if shown.count() else 0


def curve(nb) -> str:
    lines = nb.page.locator(".arl-live-picture .arl-curve")
    return lines.first.get_attribute("points") if lines.count() else ""


def state(nb) -> str:
    shown = nb.page.locator(".arl-state")
    return shown.first.get_attribute("data-state") if shown.count() else ""


def click(nb, name: str) -> None:
    nb.page.locator(f"button.arl-{name}").click()


def test_watch_pause_step_stop(open_notebook, screenshots, lab_server):
    watch = "live = lab.live(train(), steps=100, title='A run to watch')\nrecords = await live.done()"
    nb = open_notebook("live.ipynb", [SETUP, watch, AFTER])
    nb.run_all()
    first = nb.until(lambda: curve(nb), bool, 30)
    nb.until(lambda: curve(nb), lambda now: now.count(",") > first.count(",") + 3)
    nb.shot(screenshots / "live_running_light.png", ".arl-live")

    click(nb, "pause")
    nb.until(lambda: state(nb), lambda now: now == "paused")
    stood = count(nb)
    nb.page.wait_for_timeout(600)  # twelve updates' worth of time
    assert count(nb) == stood
    nb.shot(screenshots / "live_paused_light.png", ".arl-live")

    click(nb, "step")
    nb.until(lambda: (count(nb), state(nb)), lambda now: now == (stood + 1, "paused"))
    nb.page.wait_for_timeout(300)
    assert count(nb) == stood + 1

    click(nb, "pause")
    nb.until(lambda: count(nb), lambda now: now > stood + 5)
    click(nb, "stop")
    nb.until(lambda: state(nb), lambda now: now == "stopped")
    nb.wait_until_done(10)
    told = nb.cell_text(2).split(maxsplit=1)
    assert told[1].strip() == "stopped []"
    assert int(told[0]) == count(nb) < 100

    nb.save()
    saved = nbformat.read(lab_server[1] / "live.ipynb", as_version=4)
    assert "widgets" not in saved.metadata or not saved.metadata.widgets
    shown = saved.cells[1].outputs[0].data
    # The still picture beside the widget is the last one, not the empty first one.
    assert f"update {told[0]}" in shown["image/svg+xml"]
    assert nb.outside == []


def test_dark_theme_rerun_and_end(open_notebook, screenshots):
    cells = [SETUP, "live = lab.live(train(0.02), steps=60, title='One name')\nlive", "first = live",
             "records = await live.done()\nprint(len(records), first.state, live.state, threads())"]
    nb = open_notebook("rerun.ipynb", cells, dark=True)
    nb.run_cell(0)
    nb.run_cell(1)
    nb.run_cell(2)
    nb.until(lambda: count(nb), lambda now: now >= 5, 30)
    nb.run_cell(1)  # again, while the first still trains
    nb.until(lambda: count(nb), lambda now: now > 10)
    nb.shot(screenshots / "live_running_dark.png", ".arl-live")
    nb.run_cell(3)
    nb.wait_until_done(20)
    assert nb.cell_text(3).strip() == "60 stopped finished []"
    nb.shot(screenshots / "live_finished_dark.png", ".arl-live")


def test_interrupt_leaves_no_thread(open_notebook):
    waiting = ("await live.done()", "live.wait()")
    for index, wait in enumerate(waiting):
        nb = open_notebook(f"interrupt_{index}.ipynb",
                           [SETUP, f"live = lab.live(train(), steps=1000)\n{wait}",
                            "print(live.state, 0 < len(live.records) < 1000, threads())"])
        nb.run_cell(0)
        nb.run_cell(1)
        nb.until(lambda nb=nb: count(nb), lambda now: now >= 5, 30)
        nb.interrupt()
        nb.wait_until_done(10)
        nb.run_cell(2)
        nb.until(lambda nb=nb: nb.cell_text(2).strip(), lambda text: text == "stopped True []")


def test_error_is_shown_and_raised(open_notebook, screenshots):
    broken = """
def broken():
    yield Record(0, 0, 0, 0, 2, 1, 9, {})
    raise ValueError('room <b>7</b> has no door')
await lab.live(broken(), title='Broken').done()"""
    nb = open_notebook("error.ipynb", [SETUP, broken])
    nb.run_all()
    nb.until(lambda: state(nb), lambda now: now == "failed", 30)
    nb.wait_until_done(10)
    assert "room <b>7</b> has no door" in nb.page.locator(".arl-error").inner_text()
    assert "ValueError: room <b>7</b> has no door" in nb.cell_text(1).rsplit("Traceback", 1)[1]
    nb.shot(screenshots / "live_error_light.png", ".arl-live")


def test_chapter_00_learns_in_front_of_the_reader(open_notebook, screenshots, lab_server):
    if not (lab_server[1] / "00_start_here.ipynb").exists():
        pytest.skip("notebooks/00_start_here.ipynb is not built yet")
    nb = open_notebook("00_start_here.ipynb")
    nb.run_all()
    first = nb.until(lambda: curve(nb), bool, 90)
    nb.until(lambda: curve(nb), lambda now: now != first, 30)
    nb.shot(screenshots / "chapter_00_running.png", ".arl-live")
    click(nb, "stop")
    nb.until(lambda: state(nb), lambda now: now in ("stopped", "finished"), 30)
    assert count(nb) >= 1
