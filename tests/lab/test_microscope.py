"""The episode viewer: escaping, marks, selection, and the page that stands still."""

import json
import math
import re
import types
from html.parser import HTMLParser

import numpy as np
import pytest

from arl_mini import lab
from arl_mini.lab import colouring
from arl_mini.lab.episode_page import CSS


def episode(success=True, **changes):
    columns = {
        "pieces": ["Go <b>", "&\n", "<act>", " go", "</act>", "<obs>", " <act> wall", "</obs>", "ok"],
        "mask": [0, 0, 1, 1, 1, 0, 0, 0, 1],
        "turn": [-1, -1, 0, 0, 0, 0, 0, 0, 1],
        "logp": [0, 0, -0.1, -0.2, -0.3, 0, 0, 0, -0.5],
        "rewards": [0, 0, 0, 0, 0.25, 0, 0, 0, 1.0],
    }
    end = {"success": success, "terminated": success, "truncated": not success}
    return types.SimpleNamespace(**{**columns, **end, **changes})


class Tokens(HTMLParser):
    """What a browser would see: (tag, class, title, text) of each token."""

    def __init__(self, html):
        super().__init__()
        self.found, self.text = [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if "title" in attrs:
            self.found.append([tag, attrs.get("class"), attrs["title"], ""])

    def handle_data(self, data):
        self.text += data
        if self.found and not self.found[-1][3]:
            self.found[-1][3] = data


def test_tokens_are_escaped_and_marked():
    seen = Tokens(lab.microscope([episode()], static=True).html(0))
    tags = [tag for tag, *_ in seen.found]
    # The <act> that the world quotes is no call.
    assert tags == ["u", "u", "b", "b", "b", "u", "u", "u", "span"]
    assert [text for *_, text in seen.found][:3] == ["Go <b>", "&⏎\n", "<act>"]
    assert seen.found[3][2] == "token 3 · sampled · log p -0.200, p 0.819"
    assert seen.found[6][2] == "token 6 · forced"
    assert "✓ success · reward 1.25 · 2 turns · 4 sampled and 5 forced tokens" in seen.text
    assert "+0.25" in seen.text and "+1" in seen.text
    assert all(name in seen.text for name in ("prompt", "turn 1", "turn 2")) and "turn 3" not in seen.text


def test_call_cut_across_tokens_and_never_closed():
    pieces = ["so <a", "ct> x", " y", "<obs>", "z"]
    cut = episode(pieces=pieces, mask=[1, 1, 1, 0, 1], turn=[0] * 5, logp=[-1] * 5, rewards=[0] * 5)
    tags = [tag for tag, *_ in Tokens(lab.microscope([cut], static=True).html(0)).found]
    assert tags == ["b", "b", "b", "u", "span"]


def test_static_page_shows_the_first_few():
    scope = lab.microscope([episode(i % 2 == 0) for i in range(5)], first=2, static=True)
    shown = scope._repr_mimebundle_()
    assert sorted(shown) == ["text/html", "text/plain"]
    assert "episode 2 of 5 · ✗ no success, cut off" in shown["text/html"]
    assert "episode 3" not in shown["text/html"]
    assert shown["text/plain"].count("episode") == 2


def test_a_widget_has_a_still_picture_beside_it():
    scope = lab.microscope([episode(i == 1) for i in range(3)], static=False)
    shown = scope._repr_mimebundle_()
    assert {"text/html", "application/vnd.jupyter.widget-view+json"} <= set(shown)
    rows = scope.view.page["rows"]
    assert [row["label"] for row in rows] == ["1 · ✗ reward 1.25", "2 · ✓ reward 1.25", "3 · ✗ reward 1.25"]
    assert rows[0]["calls"] == [2, 3, 4] and rows[0]["mask"] == [0, 0, 1, 1, 1, 0, 0, 0, 1]
    assert scope.view.view["names"] == ["mask", "logp", "reward"] and not scope.view.page["editable"]
    json.dumps(scope.view.page)  # plain data: no arrays, no nan


def test_pieces_are_read_once():
    reads = []

    class Slow(types.SimpleNamespace):
        @property
        def pieces(self):
            reads.append(1)
            return ["a"] * 400

    slow = Slow(mask=[1] * 400, turn=[0] * 400, logp=[-1.0] * 400, rewards=[0.0] * 400, success=True,
                terminated=True, truncated=False)
    scope = lab.microscope([slow], static=True)
    reads.clear()
    scope.html(0)
    assert len(reads) == 1


@pytest.mark.parametrize(("episodes", "error", "words"), [
    ([], ValueError, "no episodes"),
    ([episode(), "text"], TypeError, "episode 1 is a str without pieces, mask"),
    ([episode(logp=[0.0])], ValueError, "episode 0: expected one entry a token, got .*'logp': 1"),
])
def test_errors_say_what_came(episodes, error, words):
    with pytest.raises(error, match=words):
        lab.microscope(episodes)


# --- columns, estimators, edits: with a study that needs no model ---


class Study:
    """Advantages known by heart: the reward of the row, times 1 for "one", times −2 for "<two>"."""

    policies, algorithms = ("old", "new"), ("one", "<two>")

    def columns(self, episodes, policy="", algorithm=""):
        if algorithm == "<two>" and policy == "new":
            raise ZeroDivisionError("no way")
        mask = np.array([e.mask for e in episodes], float)
        reward = np.array([e.rewards for e in episodes], float)
        sign = {"one": 1, "<two>": -2, "": 0}[algorithm]
        push = np.where(mask > 0, sign * reward.sum(1, keepdims=True), np.nan)
        share = 100 * push / max(np.nansum(np.abs(push)), 1e-9)
        ratio = np.where(mask > 0, 1.5 if policy == "new" else 1.0, np.nan)
        return {"mask": mask, "reward": np.where(mask > 0, reward, np.nan), "ratio": ratio, "advantage": push,
                "share": share, "clipped": (ratio > 1.2).astype(float)}

    def edited(self, one, place, text=None, reward=None):
        if text is not None:
            raise ValueError("words stay")
        rewards = list(one.rewards)
        rewards[place] = reward
        return types.SimpleNamespace(**{**vars(one), "rewards": rewards})


def with_study(**options):
    return lab.microscope([episode(), episode(rewards=[0] * 9), episode()], study=Study(), **options)


def recorded(scope):
    """What the widget is sent."""
    sent = []
    scope.view.send = lambda content, buffers=(): sent.append((content, buffers))
    return sent


def column(view, name, data="data"):
    """One column of a packed view, (3, 9)."""
    numbers = np.frombuffer(view[data], np.float32).reshape(-1, 3, 9)
    return numbers[[n for n in view["names"] if data == "data" or n != "moved"].index(name)]


def test_page_is_coloured_by_the_first_estimator():
    page = with_study(static=True, first=2).page()
    assert "estimator: <b>one</b>" in page and "colour: <b>advantage</b>" in page
    words = r"token 8 · sampled · ratio 1 · clipped 0 · advantage \+1.25 "
    (token,) = re.findall(rf'class="([^"]*)" title="{words}', page)
    assert token == "p5"
    lines = re.findall(r"<tr><th>(.*?)</th>(.*?)</tr>", page)
    assert [name for name, _ in lines[:3]] == ["mean advantage", "one", "&lt;two&gt;"]
    assert re.findall(r"<td class='(.*?)'>(.*?)</td>", lines[2][1]) == [("n5", "−2.5"), ("n5", "−2.5")]


def test_colour_can_be_chosen_and_is_checked():
    assert "colour: <b>ratio</b>" in with_study(static=True, colour="ratio").page()
    with pytest.raises(ValueError, match="no column 'beauty' to colour by; there are mask, reward, ratio"):
        with_study(static=True, colour="beauty")


def test_another_estimator_is_sent_when_asked_for():
    scope = with_study(static=False)
    sent = recorded(scope)
    scope.answer({"ask": "view", "policy": "old", "algorithm": "<two>"})
    ((content, (data, was)),) = sent
    view = content["view"] | {"data": data}
    assert column(view, "advantage")[0, 8] == -2.5 and was == b""
    assert math.isnan(column(view, "advantage")[0, 0]) and view["tops"]["advantage"] == 2.5


def test_an_edited_reward_moves_numbers_and_can_be_undone():
    scope = with_study(static=False)
    scope.answer({"ask": "edit", "row": 1, "at": 8, "reward": 2.5, "policy": "old", "algorithm": "one"})
    view, page = scope.view.view, scope.view.page
    assert page["edits"] == view["edits"] == 1 and page["rows"][1]["label"] == "2 · ✓ reward 2.5"
    assert column(view, "advantage")[1, 8] == 2.5 and column(view, "advantage", "was")[1, 8] == 0
    assert column(view, "share")[0, 8] == 6.25 and column(view, "share", "was")[0, 8] == 12.5
    assert column(view, "moved")[0, 8] == -6.25 and column(view, "moved")[1, 8] == 12.5
    assert scope.episodes[1].rewards[8] == 2.5 and "reward 2.5" in scope.page()
    scope.answer({"ask": "undo", "policy": "old", "algorithm": "one"})
    assert scope.view.page["edits"] == 0 and scope.view.view["was"] == b""
    assert column(scope.view.view, "advantage")[1, 8] == 0 and "moved" not in scope.view.view["names"]


def test_what_goes_wrong_is_told_to_the_reader():
    scope = with_study(static=False)
    sent = recorded(scope)
    scope.answer({"ask": "edit", "row": 0, "at": 8, "text": " a b", "policy": "old", "algorithm": "one"})
    scope.answer({"ask": "view", "policy": "new", "algorithm": "<two>"})
    told = [content["trouble"] for content, _ in sent]
    assert told == ["ValueError: words stay", "ZeroDivisionError: no way"]
    assert scope.edits == 0


def test_a_plain_viewer_has_nothing_to_edit():
    with pytest.raises(ValueError, match="nothing to see change"):
        lab.microscope([episode()], static=True).study.edited(episode(), 8, reward=1.0)


def test_tasks_and_tries_are_numbered():
    rows = [episode(group=g) for g in (7, 7, 3)]
    labels = [row["label"] for row in lab.microscope(rows, static=False).view.page["rows"]]
    told = [label.split(" · ")[1][:13] for label in labels]
    assert told == ["task 1, try 1", "task 1, try 2", "task 2, try 1"]


# --- the default study, and batches ---


@pytest.fixture(scope="module")
def sampled():
    from arl_mini.rollout import Limits, rollout
    from tests.core.stage import Talk, chatty

    policy = chatty()
    return policy, rollout(policy, Talk(), range(3), 4, seed=1, limits=Limits(6, 3, 60))


def test_estimators_are_the_algorithms_given(sampled):
    from arl_mini import algorithms as known

    policy, episodes = sampled
    names = ("Reinforce", "RLOO", "GRPO", "DrGRPO", "PPO", "TurnGRPO", "GiGPO")
    made = [getattr(known, name)() for name in names]
    scope = lab.microscope(episodes, policy=policy, ref=policy, algorithms=made, static=False)
    assert tuple(scope.view.page["algorithms"]) == names and scope.view.page["editable"]
    page = scope.page()
    assert all(f"<tr><th>{name}</th>" in page for name in names)
    assert set(scope.view.view["names"]) == {c.name for c in colouring.COLOURINGS} - {"value", "moved"}


def test_an_algorithm_that_does_not_fit_is_an_error_at_once(sampled):
    from arl_mini.algorithms import GRPO, PSGPO

    with pytest.raises(ValueError, match="PSGPO cannot be applied .* hint: it may need what its own plan"):
        lab.microscope(sampled[1], algorithms=[GRPO(), PSGPO()], static=True)


def test_two_policies_have_names(sampled):
    policy, episodes = sampled
    scope = lab.microscope(episodes, policy={"before": policy, "after": policy.copy()}, static=False)
    assert scope.view.page["policies"] == ["before", "after"] and scope.colour == "mask"


def test_a_batch_shows_the_columns_it_has(sampled):
    import torch

    from arl_mini.batch import collate

    _, episodes = sampled
    batch = collate(episodes)
    batch = batch.set(advantages=2 * batch.mask, ref_logp=batch.old_logp - 0.5 * batch.mask)
    columns = lab.microscope(batch, static=True).study.columns(batch.episodes)
    last = int(np.flatnonzero(episodes[0].mask)[-1])
    assert columns["advantage"][0][last] == 2
    assert columns["kl"][0][last] == pytest.approx(math.exp(-0.5) + 0.5 - 1, abs=1e-6)
    assert all(math.isnan(x) for x in columns["kl"][0][:2])
    with pytest.raises(ValueError, match=r"no episodes: the text .* hint: collate"):
        lab.microscope(batch.set(episodes=()), static=True)
    assert torch.equal(batch.mask, collate(episodes).mask)


# --- colours ---


def test_steps_of_colour():
    tint = colouring.tint
    found = [tint("signed", x, 1.0) for x in (-9, -1, -0.4, 0, 0.01, 0.2, 1)]
    assert found == ["n5", "n5", "n2", "", "p1", "p1", "p5"]
    assert tint("signed", math.nan, 1.0) == "" == tint("signed", 1.0, 0.0) == tint("signed", 1e-9, 1.0)
    assert [tint("around one", x, math.log(2)) for x in (0.5, 1, 2)] == ["n5", "", "p5"]
    assert [tint("amount", x, 3) for x in (-3, 3)] == ["a5", "a5"] and tint("flag", 1, 1) == ""


def test_the_strongest_colour_leaves_outliers_out():
    assert colouring.full("signed", [[1.0] * 99 + [1000.0, 0.0, math.nan]]) == 1
    assert colouring.full("around one", [[0.5, 2.0, 1.0]]) == pytest.approx(math.log(2))
    assert colouring.full("signed", [[0.0, math.nan]]) == 0


def test_numbers_are_written_short():
    found = [colouring.written(x) for x in (0.12345, -2, 1234.5, math.nan, 0)]
    assert found == ["+0.123", "−2", "+1234", "–", "0"]


def luminance(rgb):
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in (x / 255 for x in rgb)]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear))


THEMES = [((255,) * 3, (33,) * 3), ((17,) * 3, (255,) * 3)]


@pytest.mark.parametrize(("ground", "ink"), THEMES, ids=["light", "dark"])
def test_text_reads_on_every_colour(ground, ink):
    """Contrast by the formula of WCAG 2, on the grounds and inks of JupyterLab's two themes."""
    rule = r"\.([pna]\d|cut) \{[^}]*rgba\((\d+), (\d+), (\d+), ([.\d]+)\)"
    styles = re.findall(rule, CSS.read_text("utf-8"))
    assert len(styles) == 16
    for name, *numbers in styles:
        *rgb, alpha = map(float, numbers)
        mixed = [alpha * c + (1 - alpha) * g for c, g in zip(rgb, ground)]
        low, high = sorted((luminance(mixed), luminance(ink)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, name
