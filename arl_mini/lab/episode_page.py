"""Episodes as HTML that stands still: tokens in turns, coloured by a column, and credit by turn."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from .colouring import BY_NAME, COLOURINGS, tint, written

Columns = Mapping[str, Sequence[Sequence[float]]]  # name → rows of numbers, nan for none
CSS = Path(__file__).with_name("microscope.css")
# A tool call, up to its end mark, the next forced token (written as NUL) or the end of the episode.
CALL = re.compile(r"<act>[^\0]*?(?:</act>|(?=\0)|$)")
KEY = ("<div><small>key: <span>sampled by the policy</span> · "
       "<b class='arl-call'>sampled tool call</b> · <u>forced by the world</u> · "
       "<sup>+1</sup> reward at this token</small></div>")


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


def call_tokens(pieces: Sequence[str], sampled: Sequence[bool]) -> set[int]:
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


def legend(name: str, top: float) -> str:
    """The key of a colouring whose strongest colour means `top`."""
    colouring = BY_NAME[name]
    if colouring.kind == "flag":
        swatches = "<i class='cut'>clipped</i>" if name == "clipped" else ""
    else:
        steps = range(1, 6) if colouring.kind == "amount" else (-5, -3, -1, 1, 3, 5)
        one = -1 if name == "logp" else 1
        sizes = [top * k / 5 for k in steps]
        shown = [math.exp(x) if colouring.kind == "around one" else one * x for x in sizes]
        marks = [written(x, colouring.kind == "signed") for x in shown]
        kind = "amount" if colouring.kind == "amount" else "signed"
        swatches = "".join(f"<i class='{tint(kind, x, top)}'>{mark}</i>" for x, mark in zip(sizes, marks))
    words = f"colour: <b>{escape(colouring.label)}</b>. {escape(colouring.about)}"
    return f"<div class='arl-legend'><small>{words} {swatches}</small></div>"


def episode_html(episode: Any, name: str, row: Mapping[str, Sequence[float]], colour: str, top: float) -> str:
    """One episode as HTML: a heading, then a block a turn. Everything from the episode is escaped.

    row: name → the numbers of this episode's tokens. colour: the column to colour by.
    """
    pieces = list(episode.pieces)  # once: an episode may decode them on every access
    sampled = [bool(mark) for mark in episode.mask]
    calls = call_tokens(pieces, sampled)
    blocks: list[tuple[int, list[str]]] = []
    for index, turn in enumerate(int(turn) for turn in episode.turn):
        if not blocks or blocks[-1][0] != turn:
            blocks.append((turn, []))
        kind = "call" if index in calls else "sampled" if sampled[index] else "forced"
        numbers = {k: float(column[index]) for k, column in row.items() if math.isfinite(column[index])}
        blocks[-1][1].append(_token(index, pieces[index], kind, numbers, colour, top))
    body = "".join(f'<div class="arl-turn"><small>{f"turn {turn + 1}" if turn >= 0 else "prompt"}</small>'
                   f'<div class="arl-tokens">{"".join(tokens)}</div></div>' for turn, tokens in blocks)
    plain = ' class="arl-plain"' if colour == "mask" else ""
    return f"<div{plain}><strong>{escape(heading(episode, name))}</strong>{body}</div>"


def _token(index: int, piece: str, kind: str, numbers: Mapping[str, float], colour: str, top: float) -> str:
    about = [f"token {index}", "forced" if kind == "forced" else "sampled"]
    for column in COLOURINGS:
        if column.name not in numbers or column.name in ("mask", "reward") or kind == "forced":
            continue
        x = numbers[column.name]
        about.append(f"log p {x:.3f}, p {math.exp(x):.3f}" if column.name == "logp" else
                     f"{column.label} {written(x, column.kind == 'signed')}{' %' * (column.name == 'share')}")
    look = "arl-call" if kind == "call" else ""
    if colour == "clipped" and numbers.get("clipped"):
        look += " cut"
    elif colour in numbers:
        look += " " + tint(BY_NAME[colour].kind, numbers[colour], top)
    tag = {"call": "b", "sampled": "span", "forced": "u"}[kind]
    text = escape(piece).replace("\n", "⏎\n")
    style = f' class="{look.strip()}"' if look.strip() else ""
    reward = numbers.get("reward", 0.0)
    mark = f"<sup>{reward:+.3g}</sup>" if reward else ""
    return f'<{tag}{style} title="{" · ".join(about)}">{text}</{tag}>{mark}'


def credit_table(episode: Any, rows: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """Mean advantage of each turn of an episode under each estimator; rows: estimator → its numbers here."""
    turns = sorted({int(turn) for turn, mask in zip(episode.turn, episode.mask) if mask and turn >= 0})
    means = {name: [_mean(row["advantage"], episode, turn) for turn in turns] for name, row in rows.items()}
    tables = []
    for name, line in means.items():
        top = max((abs(x) for x in line if math.isfinite(x)), default=0.0)
        cells = "".join(f"<td class='{tint('signed', x, top)}'>{written(x)}</td>" for x in line)
        tables.append(f"<tr><th>{escape(name)}</th>{cells}</tr>")
    head = "".join(f"<th>turn {turn + 1}</th>" for turn in turns)
    return f"<table><tr><th>mean advantage</th>{head}</tr>{''.join(tables)}</table>"


def _mean(column: Sequence[float], episode: Any, turn: int) -> float:
    mine = [float(x) for x, t, m in zip(column, episode.turn, episode.mask) if m and t == turn]
    mine = [x for x in mine if math.isfinite(x)]
    return sum(mine) / len(mine) if mine else math.nan
