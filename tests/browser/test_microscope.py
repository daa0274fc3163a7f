"""The microscope in a real notebook: hover, colours, estimators, edits, two side by side; also by keyboard."""

from __future__ import annotations

import json
import random

import pytest

from arl_mini.lab.colouring import tint, written
from arl_mini.lab.microscope import HERE

PLAIN = """
import types
from arl_mini import lab

def episode(index):
    turns = [("You are in the <hall>. Exits: north.\\n", "<act> go north </act>"),
             ("<obs> A key lies here & shines. </obs>\\n", "I take it. <act> take key </act>"),
             ("<obs> You have the key. </obs>\\n", "<act> open door </act>")]
    pieces, mask, turn = [], [], []
    for at, (world, said) in enumerate(turns):
        for text, sampled in ((world, 0), (said, 1)):
            words = [word + " " for word in text.split(" ")]
            pieces += words; mask += [sampled] * len(words); turn += [at] * len(words)
    n = len(pieces)
    win, logp = index % 2, [-0.1 * m for m in mask]
    return types.SimpleNamespace(pieces=pieces, mask=mask, turn=turn, logp=logp, success=bool(win),
                                 rewards=[0.0] * (n - 1) + [float(win)], terminated=True, truncated=False)

lab.microscope([episode(i) for i in range(5)])
"""
# Four tries of one task, of which the first alone is paid: the advantages are known by heart.
QUEST = """
import torch
torch.set_num_threads(1)
from dataclasses import replace
from arl_mini import GRPO, RLOO, DrGRPO, Limits, Reinforce, envs, lab, models, rollout

policy = models.load("quest-novice")
other = policy.copy()
with torch.no_grad():
    for weight in other.parameters():
        weight += 0.01 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
episodes = rollout(policy, envs.Quest(), [3], 4, seed=0, limits=Limits(turn_tokens=12, turns=4, total=120))
for number, episode in enumerate(episodes):
    episode.rewards[:] = 0
    episode.rewards[episode.mask.nonzero()[0][-1]] = float(number == 0)
scope = lab.microscope(episodes, policy={"before": policy, "after": other}, ref=policy,
                       algorithms=[Reinforce(), RLOO(), GRPO(), DrGRPO()])
scope
"""
LARGE = """
import numpy as np
from arl_mini import GRPO, RLOO, Episode, lab, models
tokenizer = models.load("quest-novice").tokenizer
rng, n = np.random.default_rng(0), 512
mask = (np.arange(n) % 8 < 4) & (np.arange(n) > 15)

def episode(index):
    rewards = np.zeros(n, np.float32)
    rewards[np.flatnonzero(mask)[-1]] = rng.random()
    return Episode(tokens=rng.integers(280, len(tokenizer), n), mask=mask.astype(np.float32),
                   turn=np.maximum(np.arange(n) // 8 - 2, -1),
                   logp=-rng.random(n).astype(np.float32) * mask, rewards=rewards, group=index // 8,
                   terminated=True, tokenizer=tokenizer)

lab.microscope([episode(i) for i in range(64)], algorithms=[GRPO(), RLOO()])
"""
# Milliseconds from the click until the browser has drawn the frame after the one that shows it.
SWITCH = """async name => {
  const chip = [...document.querySelectorAll('.arl-colours button')].find(b => b.dataset.value === name);
  const start = performance.now();
  chip.click();
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  return performance.now() - start;
}"""


class Scope:
    """What a reader does with the microscope of a notebook page."""

    def __init__(self, nb, cell: str, name: str, dark: bool = False):
        self.nb = nb = nb(name, [cell], dark=dark)
        nb.run_all()
        self.rows = nb.page.locator(".arl-rows")
        self.rows.wait_for(timeout=60_000)
        self.texts, self.readouts = nb.page.locator(".arl-text"), nb.page.locator(".arl-readout")

    def heading(self, pane: int = 0) -> str:
        return self.nb.page.locator(".arl-pane > strong").nth(pane).inner_text()

    def number(self, name: str, pane: int = 0) -> str:
        """What the readout says of one column: "advantage +0.75"."""
        part = self.readouts.nth(pane).locator(f".arl-number-{name}")
        return part.inner_text() if part.count() else ""

    def expect(self, name: str, words: str, pane: int = 0) -> None:
        self.nb.until(lambda: self.number(name, pane), lambda text: text == words)

    def chip(self, words: str):
        return self.nb.page.get_by_role("radio", name=words, exact=True)

    def token(self, index: int, pane: int = 0):
        return self.texts.nth(pane).locator(f"[data-t='{index}']")

    def cells(self) -> list[int]:
        """The notebook's active cell and number of cells: a shortcut that took a key changes one of them."""
        content = "window.jupyterapp.shell.currentWidget.content"
        return self.nb.page.evaluate(f"() => [{content}.activeCellIndex, {content}.widgets.length]")


def paid_token(scope: Scope) -> int:
    """Where the cursor is at first: the last sampled token."""
    return int(scope.readouts.first.inner_text().split()[1])


def test_widget_and_page_agree_on_colours_and_numbers(browser):
    """The module and `lab.colouring` compute both for themselves; 4,000 numbers of all sizes."""
    draw = random.Random(0)
    cases = [(kind, draw.choice((-1, 0, 1)) * 10 ** draw.uniform(-9, 4), 10 ** draw.uniform(-3, 3))
             for kind in ("signed", "amount", "around one", "flag") for _ in range(1000)]
    module = HERE.with_name("microscope.js").read_text("utf-8").replace("export default", "const unused =")
    page = browser.new_page()
    found = page.evaluate(f"cases => {{ {module}; return cases.map(([kind, x, top]) => "
                          "[tint(kind, x, top), written(x, kind === 'signed')]); }", cases)  # fmt: skip
    page.close()
    expected = [[tint(kind, x, top), written(x, kind == "signed")] for kind, x, top in cases]
    assert [(c, f, e) for c, f, e in zip(cases, found, expected) if f != e] == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_look_through_episodes_by_keyboard(open_notebook, screenshots, dark):
    scope = Scope(open_notebook, PLAIN, f"scope_{dark}.ipynb", dark)
    assert "episode 1 of 5 · ✗ no success · reward 0" in scope.heading()
    assert "<hall>" in scope.texts.first.inner_text()
    scope.rows.focus()
    scope.nb.page.keyboard.press("ArrowDown")
    scope.nb.until(scope.heading, lambda text: "episode 2 of 5 · ✓ success · reward 1" in text)
    scope.nb.page.keyboard.press("End")
    scope.nb.until(scope.heading, lambda text: "episode 5 of 5" in text)
    scope.rows.locator(".arl-row").nth(3).click()
    scope.nb.until(scope.heading, lambda text: "episode 4 of 5" in text)
    scope.texts.first.focus()
    scope.nb.page.keyboard.press("Home")
    scope.nb.until(scope.readouts.first.inner_text, lambda text: "token 0 “You ” · forced · turn 1" in text)
    for key in ("ArrowDown", "ArrowRight"):  # to the second turn, and one token on
        scope.nb.page.keyboard.press(key)
    scope.nb.until(scope.readouts.first.inner_text, lambda text: "“A ” · forced · turn 2" in text)
    assert scope.cells() == [0, 1]
    scope.nb.shot(screenshots / f"microscope_plain_{'dark' if dark else 'light'}.png", ".arl-scope")
    assert scope.nb.outside == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_switch_colour_and_estimator_then_edit_a_reward(open_notebook, screenshots, dark):
    scope, name = Scope(open_notebook, QUEST, f"quest_{dark}.ipynb", dark), "dark" if dark else "light"
    place = paid_token(scope)
    scope.expect("advantage", "advantage +1")  # REINFORCE: the return itself
    scope.token(place).hover()
    assert f"token {place} “</act>” · sampled" in scope.readouts.first.inner_text()
    assert tint("signed", 1, 1) in scope.token(place).get_attribute("class").split()
    scope.nb.shot(screenshots / f"microscope_reinforce_{name}.png", ".arl-scope")

    scope.chip("Reinforce").focus()  # by keyboard from here on
    scope.nb.page.keyboard.press("ArrowRight")
    scope.expect("advantage", "advantage +1")  # leave one out: 1 − 0
    scope.nb.page.keyboard.press("ArrowRight")
    scope.expect("advantage", "advantage +1.5")  # GRPO: 0.75 / 0.5
    scope.chip("advantage").focus()
    scope.nb.page.keyboard.press("ArrowRight")
    assert scope.chip("gradient share").get_attribute("aria-checked") == "true"
    before = scope.number("share")
    assert float(before.split()[2].rstrip("%")) > 0

    scope.texts.first.focus()
    scope.nb.page.keyboard.press("Enter")  # into the reward
    scope.nb.page.keyboard.press("Control+A")
    scope.nb.page.keyboard.type("0")
    scope.nb.page.keyboard.press("Tab")
    scope.expect("advantage", "advantage 0 (was +1.5)")  # four equal rewards teach nothing
    assert scope.number("share") == f"gradient share 0 % (was {before.removeprefix('gradient share ')})"
    scope.nb.shot(screenshots / f"microscope_edited_{name}.png", ".arl-scope")
    scope.nb.page.locator("button.arl-undo").press("Enter")
    scope.expect("advantage", "advantage +1.5")
    assert scope.cells() == [0, 1] and scope.nb.outside == []


def test_two_policies_and_two_tries_side_by_side(open_notebook, screenshots):
    scope = Scope(open_notebook, QUEST, "sides.ipynb")
    compare = scope.nb.page.locator("button.arl-compare")
    compare.press("Enter")
    scope.nb.until(lambda: scope.texts.count(), lambda n: n == 2)
    names = ["“before”", "“after”"]
    scope.nb.until(lambda: [scope.heading(k).split("under ")[1] for k in (0, 1)], lambda w: w == names)
    scope.texts.nth(1).focus()
    for key in ("Home", "ArrowDown", "ArrowRight", "ArrowRight"):  # <act> go WHERE, in both panes
        scope.nb.page.keyboard.press(key)
    scope.expect("ratio", "ratio 1", 0)
    assert scope.nb.until(lambda: scope.number("ratio", 1), bool) != "ratio 1"
    assert float(scope.number("kl", 1).split()[3]) > 0 == float(scope.number("kl", 0).split()[3])
    scope.chip("KL to reference").click()
    scope.nb.shot(screenshots / "microscope_policies.png", ".arl-scope")
    scope.rows.focus()  # the right pane is the active one: another try of the task there
    scope.nb.page.keyboard.press("ArrowDown")
    scope.nb.until(lambda: [scope.heading(k)[:9] for k in (0, 1)], lambda w: w == ["episode 1", "episode 2"])
    scope.chip("RLOO").click()
    scope.chip("advantage").click()
    scope.expect("advantage", "advantage +1", 0)
    scope.expect("advantage", "advantage −0.333", 1)
    scope.nb.shot(screenshots / "microscope_tries.png", ".arl-scope")
    compare.click()
    assert scope.texts.count() == 1


def test_another_token_is_scored_anew(open_notebook):
    scope = Scope(open_notebook, QUEST, "token.ipynb")
    scope.texts.first.focus()
    scope.nb.page.keyboard.press("Home")
    scope.nb.page.keyboard.press("ArrowDown")
    scope.nb.page.keyboard.press("ArrowRight")
    scope.nb.page.keyboard.press("ArrowRight")  # <act> go NORTH
    was = scope.number("logp")
    field = scope.nb.page.locator("input.arl-token")
    field.fill("␣key")
    field.press("Tab")
    after = scope.nb.until(lambda: scope.number("logp"), lambda text: "(was" in text)
    assert was.split("(")[0].split()[-1] in after
    assert "“ key”" in scope.readouts.first.inner_text() and scope.number("ratio").startswith("ratio 1")
    field.fill("two␣words")
    field.press("Tab")
    trouble = scope.nb.page.locator(".arl-trouble")
    scope.nb.until(trouble.inner_text, lambda text: "tokens, expected 1" in text)


def test_sixty_four_long_episodes_change_colour_at_once(open_notebook, screenshots, record_property):
    scope = Scope(open_notebook, LARGE, "large.ipynb")
    assert scope.rows.locator(".arl-row").count() == 64 and scope.texts.locator("[data-t]").count() == 512
    scope.nb.wait_until_done(30)
    names = ("share", "logp", "reward", "mask", "advantage") * 4
    times = sorted(scope.nb.page.evaluate(SWITCH, name) for name in names)
    record_property("milliseconds", [round(t, 1) for t in times])
    (screenshots / "microscope_times.json").write_text(json.dumps(times))
    scope.nb.shot(screenshots / "microscope_large.png", ".arl-scope")
    assert times[len(times) // 2] < 100, times


def test_the_saved_notebook_keeps_a_page_and_no_widget_state(open_notebook, lab_server):
    scope = Scope(open_notebook, QUEST, "saved.ipynb")
    scope.nb.wait_until_done(60)
    scope.nb.save()
    notebook = json.loads((lab_server[1] / "saved.ipynb").read_text("utf-8"))
    assert "widgets" not in notebook["metadata"]
    (output,) = notebook["cells"][0]["outputs"]
    page = "".join(output["data"]["text/html"])
    assert "estimator: <b>Reinforce</b>" in page and "<th>DrGRPO</th>" in page and "episode 3 of 4" in page


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_two_algorithms_under_the_lens(open_notebook, screenshots, dark):
    cell = "from arl_mini import DAPO, GRPO, lab\nlab.lens(GRPO, DAPO)"
    nb, name = open_notebook(f"lens_{dark}.ipynb", [cell], dark=dark), "dark" if dark else "light"
    nb.run_all()
    nb.page.locator(".arl-lens").wait_for(timeout=60_000)
    marks = nb.page.locator(".arl-lens mark").all_inner_texts()
    assert any("std_g" in mark for mark in marks) and any("Σn_i" in mark for mark in marks), marks
    assert "token_mean" in nb.page.locator(".arl-lens ins").all_inner_texts()[-1]
    nb.page.locator(".jp-RenderedSVG").wait_for(timeout=15_000)
    nb.shot(screenshots / f"lens_{name}.png", ".arl-lens")
    nb.shot(screenshots / f"lens_curves_{name}.png", ".jp-RenderedSVG")
    assert nb.outside == []
