"""The episode viewer: escaping, marks, selection, and the page that stands still."""

import types
from html.parser import HTMLParser

import pytest

from arl_mini import lab


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


def test_widget_steps_through_with_a_still_picture_beside_it():
    scope = lab.microscope([episode(i == 1) for i in range(3)], static=False)
    shown = scope._repr_mimebundle_()
    assert {"text/html", "application/vnd.jupyter.widget-view+json"} <= set(shown)
    (back, on, choice), view = scope.widget.children[0].children, scope.widget.children[1]
    assert back.disabled and "episode 1 of 3" in view.value
    on.click()
    assert "episode 2 of 3" in view.value and "✓" in view.value
    choice.value = 2
    assert on.disabled and "episode 3 of 3" in view.value
    back.click()
    assert choice.value == 1


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
