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


REAL = """
import torch
from arl_mini import envs, lab, models
from arl_mini.algorithms import GRPO
from arl_mini.rollout import Limits
from arl_mini.train import train
torch.set_num_threads(1)

def begin(**settings):
    return train(models.load("quest-novice"), envs.Quest(), GRPO(), prompts=2, tries=4, steps=300, seed=1,
                 limits=Limits(8, 3, 120), **settings)
"""


def kept(nb) -> str:
    chosen = nb.page.locator(".arl-kept select").evaluate("select => select.selectedOptions[0].text")
    return chosen.replace("\N{NO-BREAK SPACE}", " ")


def choose(nb, most: int) -> int:
    """Choose the last kept state that is after at most so many updates; return after how many it is."""
    select = nb.page.locator(".arl-kept select")
    ends = [name.split()[-1] for name in select.locator("option").all_inner_texts()]
    kept = [0 if end == "start" else int(end) for end in ends]
    index = max(i for i, at in enumerate(kept) if at <= most)
    select.select_option(index=index)
    return kept[index]


def write(nb, knob: str, number: str) -> None:
    """Type a number beside a slider."""
    readout = nb.page.locator(f".arl-knob-{knob} .widget-readout")
    readout.click()
    nb.page.keyboard.press("Control+A")
    nb.page.keyboard.type(number)
    nb.page.keyboard.press("Enter")


def readout(nb, knob: str) -> str:
    return nb.page.locator(f".arl-knob-{knob} .widget-readout").inner_text()


def curves(nb) -> tuple[int, int]:
    """How many lines grow, and how many lie beside them."""
    picture = nb.page.locator(".arl-live-picture")
    return picture.locator(".arl-curve").count(), picture.locator(".arl-other").count()


def started_and_paused(nb) -> int:
    """Run the first two cells, see the curve move, pause; return the count."""
    nb.run_cell(0)
    nb.run_cell(1)
    first = nb.until(lambda: curve(nb), bool, 60)
    nb.until(lambda: curve(nb), lambda now: now != first, 20)
    nb.until(lambda: count(nb), lambda now: now >= 6, 30)
    click(nb, "pause")
    nb.until(lambda: state(nb), lambda now: now == "paused", 20)
    assert kept(nb) == f"update {count(nb)}"
    assert "time" in nb.page.locator(".arl-phases").inner_text()
    assert "groups with signal" in nb.page.locator(".arl-signal").inner_text()
    assert nb.page.locator(".arl-card").count() == 6
    return count(nb)


def changed(nb, stood: int) -> None:
    """Tries a task from 4 to 6, by keyboard: it is seen in the next record, and marked in the curve."""
    nb.page.locator(".arl-knobs .jupyter-widget-Collapse-header").click()
    handle = nb.page.locator(".arl-knob-tries .noUi-handle")
    handle.focus()
    for _ in range(2):
        handle.press("ArrowRight")
    nb.until(lambda: readout(nb, "tries"), lambda text: text == "6")
    click(nb, "step")
    nb.until(lambda: (count(nb), state(nb)), lambda now: now == (stood + 1, "paused"), 20)
    nb.until(lambda: nb.page.locator(".arl-live-picture .arl-mark").count(), lambda marks: marks == 2)
    assert f"update {stood + 1}: tries 4 → 6" in nb.page.locator(".arl-live-picture").inner_text()
    nb.run_cell(2)
    nb.until(lambda: nb.cell_text(2).strip(), lambda text: text == f"[('tries', 4, 6, {stood})]")
    nb.run_cell(3)
    nb.until(lambda: nb.cell_text(3).strip(), lambda text: text == f"{stood + 1} [8, 8, 12] paused")


def rewound(nb, most: int) -> int:
    """Back to a state after at most so many updates: counter, setting and curve are those of then."""
    back = choose(nb, most)
    click(nb, "rewind")
    nb.until(lambda: count(nb), lambda now: now == back, 20)
    assert state(nb) == "paused" and readout(nb, "tries") == "4"
    assert nb.page.locator(".arl-live-picture .arl-mark").count() == 0
    return back


def forked(nb, most: int, length: int) -> None:
    """A fork with another learning rate, run until it is longer than the branch it came from: two curves."""
    at = choose(nb, most)
    click(nb, "fork")
    nb.until(lambda: count(nb), lambda now: now == at, 20)
    assert nb.page.locator(".arl-branches select").is_visible()
    write(nb, "lr", "0.01")
    nb.until(lambda: readout(nb, "lr"), lambda text: text == "0.010")
    click(nb, "pause")
    nb.until(lambda: count(nb), lambda now: now > length + 3, 40)
    assert curves(nb) == (2, 2)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_real_run_is_changed_rewound_and_forked(open_notebook, screenshots, theme):
    cells = [REAL, "live = lab.live(begin(), title='Quest', show=('success', 'signal_share'))\nlive",
             "print([(c.name, c.old, c.new, c.at) for c in live.changes])",
             "print(len(live.records), [len(r.episodes) for r in live.records][-3:], live.state)",
             "plain = lambda r: {k: v for k, v in r.numbers().items() if not k.startswith('seconds')}\n"
             "again = begin()\nfirst = live.branches['A']\n"
             "print([plain(r) for r in first] == [plain(next(again)) for _ in first])"]
    nb = open_notebook(f"steer_{theme}.ipynb", cells, dark=theme == "dark")
    stood = started_and_paused(nb)
    nb.shot(screenshots / f"steer_paused_{theme}.png", ".arl-live")
    changed(nb, stood)
    nb.shot(screenshots / f"steer_changed_{theme}.png", ".arl-live")
    back = rewound(nb, stood - 2)
    click(nb, "pause")  # go on, to have something to fork from
    nb.until(lambda: count(nb), lambda now: now > stood, 30)
    click(nb, "pause")
    nb.until(lambda: state(nb), lambda now: now == "paused", 20)
    forked(nb, back, count(nb))
    click(nb, "stop")
    nb.until(lambda: state(nb), lambda now: now == "stopped", 20)
    nb.run_cell(4)  # the first branch is what an undisturbed run gives, bit for bit
    nb.until(lambda: nb.cell_text(4).strip(), lambda text: text == "True", 40)
    nb.shot(screenshots / f"steer_forked_{theme}.png", ".arl-live")
    assert nb.outside == []


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
