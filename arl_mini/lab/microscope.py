"""Looking at episodes token by token: what the policy sampled, and what the world forced in."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape
from typing import Any

from .stage import bundle, is_static

# A tool call, up to its end mark, the next forced token (written as NUL) or the end of the episode.
CALL = re.compile(r"<act>[^\0]*?(?:</act>|(?=\0)|$)")
COLUMNS = ("mask", "turn", "logp", "rewards")
CSS = """<style>
.arl-scope { color: var(--jp-content-font-color1, inherit); line-height: 1.9; max-width: 820px; }
.arl-scope .arl-tokens { font-family: var(--jp-code-font-family, monospace); font-size: 13px;
  white-space: pre-wrap; overflow-wrap: anywhere; }
.arl-scope .arl-turn { border-left: 3px solid #797979; margin: 6px 0; padding: 0 8px; }
.arl-scope .arl-turn > small { color: #797979; display: block; line-height: 1.5; }
.arl-scope u { text-decoration: underline dotted 2px #3A95CC; text-underline-offset: 4px;
  background: rgba(86, 180, 233, .18); }
.arl-scope b.arl-call { font-weight: 600; background: rgba(213, 94, 0, .18);
  text-decoration: underline solid 2px #D55E00; text-underline-offset: 4px; }
.arl-scope .arl-tokens > :hover { outline: 1px solid #797979; }
.arl-scope sup { color: #D55E00; font-weight: 600; line-height: 1; }
</style>"""
KEY = ("<div><small>key: <span>sampled by the policy</span> · <b class='arl-call'>sampled tool call</b> · "
       "<u>forced by the world</u> · <sup>+1</sup> reward at this token</small></div>")


class Microscope:
    """Episodes to step through, one at a time; on a page that stands still, the first few in a row.

    Made by `microscope()`. `widget` is None where the page stands still.
    """

    def __init__(self, episodes: Sequence[Any], first: int, static: bool):
        self.episodes, self.first = list(episodes), first
        self.widget = None if static else self._controls()

    def html(self, index: int) -> str:
        """Episode `index` as HTML, without the style sheet."""
        return episode_html(self.episodes[index], f"episode {index + 1} of {len(self.episodes)}")

    def page(self) -> str:
        """The first episodes as one piece of HTML with its style sheet and key."""
        shown = "".join(self.html(index) for index in range(min(self.first, len(self.episodes))))
        return f'<div class="arl-scope">{CSS}{KEY}{shown}</div>'

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        plain = "\n".join(heading(e, f"episode {i + 1}") + "\n" + "".join(e.pieces)
                          for i, e in enumerate(self.episodes[:self.first]))
        return bundle(self.widget, {"text/html": self.page(), "text/plain": plain})

    def _controls(self) -> Any:
        import ipywidgets as w

        names = [f"{index + 1} · {outcome(episode)}" for index, episode in enumerate(self.episodes)]
        choice = w.Dropdown(options=[(name, index) for index, name in enumerate(names)], value=0,
                            description="episode", layout=w.Layout(width="280px"))
        back = w.Button(description="Previous", icon="arrow-left", layout=w.Layout(width="100px"))
        on = w.Button(description="Next", icon="arrow-right", layout=w.Layout(width="100px"))
        view = w.HTML()

        def show(_: Any = None) -> None:
            back.disabled, on.disabled = choice.value == 0, choice.value == len(names) - 1
            view.value = f'<div class="arl-scope">{CSS}{KEY}{self.html(choice.value)}</div>'

        def move(by: int) -> None:
            choice.value = min(max(choice.value + by, 0), len(names) - 1)

        back.on_click(lambda _: move(-1))
        on.on_click(lambda _: move(1))
        choice.observe(show, "value")
        show()
        for widget, name in ((choice, "choice"), (back, "back"), (on, "next"), (view, "view")):
            widget.add_class(f"arl-scope-{name}")
        return w.VBox([w.HBox([back, on, choice]), view])


def outcome(episode: Any) -> str:
    """How an episode ended, in words: "success", "no success", "cut off"."""
    success = getattr(episode, "success", None)
    if success is None:
        return "ended" if episode.terminated else "cut off"
    words = "success" if success else "no success"
    return words + (", cut off" if episode.truncated and not episode.terminated else "")


def heading(episode: Any, name: str) -> str:
    """One line about an episode: outcome, reward, turns, tokens."""
    sampled, turns = int(sum(episode.mask)), len({int(turn) for turn in episode.turn if turn >= 0})
    forced = len(episode.mask) - sampled
    mark = "✓" if getattr(episode, "success", None) else "✗"
    return (f"{name} · {mark} {outcome(episode)} · reward {sum(map(float, episode.rewards)):.3g} · "
            f"{turns} turn{'s' * (turns != 1)} · {sampled} sampled and {forced} forced tokens")


def episode_html(episode: Any, name: str) -> str:
    """One episode as HTML: a heading, then a block a turn. Everything from the episode is escaped."""
    pieces = list(episode.pieces)  # once: an episode may decode them on every access
    sampled = [bool(mark) for mark in episode.mask]
    calls = _call_tokens(pieces, sampled)
    blocks: list[tuple[int, list[str]]] = []
    for index, turn in enumerate(int(turn) for turn in episode.turn):
        if not blocks or blocks[-1][0] != turn:
            blocks.append((turn, []))
        kind = "call" if index in calls else "sampled" if sampled[index] else "forced"
        logp, reward = episode.logp[index], float(episode.rewards[index])
        blocks[-1][1].append(_token(index, pieces[index], kind, logp, reward))
    body = "".join(f'<div class="arl-turn"><small>{f"turn {turn + 1}" if turn >= 0 else "prompt"}</small>'
                   f'<div class="arl-tokens">{"".join(tokens)}</div></div>' for turn, tokens in blocks)
    return f"<div><strong>{escape(heading(episode, name))}</strong>{body}</div>"


def _token(index: int, piece: str, kind: str, logp: Any, reward: float) -> str:
    about = [f"token {index}", "forced" if kind == "forced" else "sampled"]
    if kind != "forced" and logp is not None and math.isfinite(float(logp)):
        about.append(f"log p {float(logp):.3f}, p {math.exp(float(logp)):.3f}")
    tag, look = {"call": ("b", ' class="arl-call"'), "sampled": ("span", ""), "forced": ("u", "")}[kind]
    text = escape(piece).replace("\n", "⏎\n")
    mark = f"<sup>{reward:+.3g}</sup>" if reward else ""
    return f'<{tag}{look} title="{" · ".join(about)}">{text}</{tag}>{mark}'


def _call_tokens(pieces: Sequence[str], sampled: Sequence[bool]) -> set[int]:
    """Places of the sampled tokens that lie inside <act> … </act>, however the tokenizer cuts the marks."""
    # A forced stretch ends a call: what the world says is never the policy's call, even if it quotes one.
    parts = [piece if own else "\0" * len(piece) for piece, own in zip(pieces, sampled, strict=True)]
    spans = [match.span() for match in CALL.finditer("".join(parts))]
    found, start = set(), 0
    for index, part in enumerate(parts):
        end = start + len(part)
        if sampled[index] and any(low < end and start < high for low, high in spans):
            found.add(index)
        start = end
    return found


def _check(episodes: Sequence[Any]) -> None:
    if not len(episodes):
        raise ValueError("microscope() got no episodes")
    for place, episode in enumerate(episodes):
        needed = ("pieces", *COLUMNS, "terminated", "truncated")
        missing = [name for name in needed if not hasattr(episode, name)]
        if missing:
            raise TypeError(f"episode {place} is a {type(episode).__name__} without {', '.join(missing)}")
        lengths = {name: len(getattr(episode, name)) for name in ("pieces", *COLUMNS)}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"episode {place}: expected one entry a token, got {lengths}")


def microscope(episodes: Sequence[Any], first: int = 3, static: bool | None = None) -> Microscope:
    """Look at `episodes` token by token; show the result in a cell.

    Args:
        episodes: plain objects with, per token, `pieces` (text), `mask` (1 sampled, 0 forced), `turn` (−1 in
            the prompt), `logp` and `rewards`; further `terminated`, `truncated` and, if known, `success`.
        first: how many a page that stands still shows.
        static: no widget; by default where ARL_STATIC=1 or there is no Jupyter kernel.

    Raises ValueError for no episodes or columns of unequal length, TypeError for what is no episode.
    """
    _check(episodes)
    return Microscope(episodes, first, is_static() if static is None else static)
