"""The world editor in a real notebook: by keyboard, in both themes, with a solver in the kernel."""

from __future__ import annotations

SETUP = """
import torch
from arl_mini import formal, lab

def solve(world, theta):
    mdp = formal.FiniteMDP(world.P, world.R, world.start, world.gamma, world.horizon, world.states, world.actions)
    rows, theta = torch.tensor(world.rows), torch.tensor(theta, dtype=torch.float64)
    policy = formal.softmax_policy(theta, rows)
    best = {"fixed by look": formal.best_by_enumeration(mdp, rows)[0]}
    best["seeing all"] = float(mdp.start @ formal.value_iteration(mdp).values)
    gradient = formal.exact_gradient(mdp, theta, rows).tolist()
    values = formal.exact_value(mdp, policy).tolist()
    return lab.Solved(float(formal.objective(mdp, policy)), formal.softmax_policy(theta).tolist(), gradient, values, best)

lab.world_editor(solve)
"""


def test_edit_by_keyboard(open_notebook, screenshots):
    for dark in (False, True):
        nb = open_notebook(f"world_{dark}.ipynb", [SETUP], dark=dark)
        nb.run_all()
        view = nb.page.locator(".arl-world-view")
        view.locator("svg").wait_for(timeout=60_000)

        def told(view=view) -> str:
            """What the picture says of itself: looks and J."""
            return view.locator("svg").get_attribute("aria-label")

        assert told() == "world ● ■ ■ ◆, objective 0.100"
        assert "seeing all" in view.inner_text() and "1.000" in view.inner_text()
        reward = nb.page.locator(".arl-world-reward-1 input")  # A right
        reward.focus()
        nb.page.keyboard.press("Control+A")
        nb.page.keyboard.type("2")
        nb.page.keyboard.press("Tab")
        nb.until(told, lambda text: text == "world ● ■ ■ ◆, objective 1.000")
        nb.page.locator("button.arl-world-look-2").press("Enter")  # from ■ to ▲
        nb.until(told, lambda text: text.startswith("world ● ■ ▲ ◆"))
        nb.page.locator("button.arl-world-climb-50").press("Enter")
        nb.until(told, lambda text: float(text.split()[-1]) > 1.9, 20)
        nb.page.locator("button.arl-world-to-1").press("Space")  # from D to A: right stays in A and is paid again
        nb.until(told, lambda text: float(text.split()[-1]) > 5)
        horizon = nb.page.locator(".arl-world-horizon input")
        horizon.focus()
        nb.page.keyboard.press("ArrowDown")  # from 4 to 3
        nb.page.keyboard.press("Tab")
        nb.until(told, lambda text: 5 < float(text.split()[-1]) < 6)
        assert nb.page.locator("button.arl-world-to-0").get_attribute("title") == "A left: to"
        nb.shot(screenshots / f"world_{'dark' if dark else 'light'}.png", ".arl-world")
        assert nb.outside == []
