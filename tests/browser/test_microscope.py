"""The episode viewer in a real notebook, in both themes."""

from __future__ import annotations

SETUP = """
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


def test_step_through_episodes(open_notebook, screenshots):
    for dark in (False, True):
        nb = open_notebook(f"scope_{dark}.ipynb", [SETUP], dark=dark)
        nb.run_all()
        view = nb.page.locator(".arl-scope-view")
        view.wait_for(timeout=30_000)
        assert "episode 1 of 5 · ✗ no success · reward 0" in view.inner_text()
        assert "<hall>" in view.inner_text()
        nb.page.locator("button.arl-scope-next").press("Enter")  # by keyboard
        nb.until(view.inner_text, lambda text: "episode 2 of 5 · ✓ success · reward 1" in text)
        call = view.locator(".arl-turn b.arl-call").first
        assert "sampled · log p -0.100, p 0.905" in call.get_attribute("title")
        nb.page.locator(".arl-scope-choice select").select_option(label="5 · no success")
        nb.until(view.inner_text, lambda text: "episode 5 of 5" in text)
        assert nb.page.locator("button.arl-scope-next").is_disabled()
        nb.page.locator("button.arl-scope-back").click()
        nb.until(view.inner_text, lambda text: "episode 4 of 5" in text)
        nb.shot(screenshots / f"microscope_{'dark' if dark else 'light'}.png", ".arl-scope")
        assert nb.outside == []
