"""Two algorithms side by side: formulas with what differs marked, code lines, how each pushes a token."""

from __future__ import annotations

import difflib
import importlib
import io
import math
import re
import textwrap
from collections.abc import Sequence
from html import escape
from typing import Any

from . import style
from .microscope import DISSECT

WORD = re.compile(r"\w+|\s+|[^\w\s]")
CSS = """<style>
.arl-lens { color: var(--jp-content-font-color1, inherit); max-width: 900px; }
.arl-lens .arl-two { display: grid; grid-template-columns: 1fr 1fr; gap: 12px; }
div.arl-lens pre { white-space: pre-wrap; word-break: normal; overflow-wrap: anywhere; font-size: 12px;
  line-height: 1.5; margin: 2px 0; padding: 4px 8px; color: inherit; background: transparent;
  border-left: 3px solid #797979; }
.arl-lens mark { color: inherit; background: rgba(213, 94, 0, .3); font-weight: 700;
  text-decoration: underline; }
.arl-lens .arl-two > :first-child mark { background: rgba(58, 149, 204, .3); }
.arl-lens del, .arl-lens ins { text-decoration: none; display: block; }
.arl-lens del { background: rgba(58, 149, 204, .3); } .arl-lens ins { background: rgba(213, 94, 0, .3); }
.arl-lens table { border-collapse: collapse; font-size: 12px; }
.arl-lens td, .arl-lens th { padding: 1px 10px 1px 0; text-align: left; }
</style>"""


class Lens:
    """Two algorithms under the lens; made by `lens()`. `contrast` is what is known of them, as plain data."""

    def __init__(self, contrast: Any):
        self.contrast = contrast

    def html(self) -> str:
        """Formulas, fields and source lines that differ."""
        left, right = self.contrast.left, self.contrast.right
        formulas = zip((left, right), marked(left.formula, right.formula))
        heads = "".join(f"<div><strong>{escape(side.name)}</strong><pre>{text}</pre></div>"
                        for side, text in formulas)
        rows = "".join(f"<tr><td>{escape(name)}</td><td>{_written(a)}</td><td>{_written(b)}</td></tr>"
                       for name, (a, b) in self.contrast.settings.items())
        names = f"<tr><th>field</th><th>{escape(left.name)}</th><th>{escape(right.name)}</th></tr>"
        table = f"<table>{names}{rows}</table>" if rows else ""
        methods = self.contrast.methods
        opened = " open" if len(methods) <= 3 else ""  # distant relatives differ everywhere: the reader picks
        code = "".join(f"<details{opened}><summary><code>{escape(name)}</code></summary>"
                       f"<pre>{_diff(text)}</pre></details>" for name, text in methods.items())
        same = "" if rows or code else "<p>The two are the same.</p>"
        note = f"<p><small>{escape(self.contrast.note)}</small></p>" if self.contrast.note else ""
        return f'<div class="arl-lens">{CSS}<div class="arl-two">{heads}</div>{note}{table}{code}{same}</div>'

    def svg(self) -> str:
        """How hard each algorithm pushes a token, by ratio, advantage, row length and success."""
        from matplotlib.figure import Figure

        sides, picture = (self.contrast.left, self.contrast.right), io.StringIO()
        with style.context():
            figure = Figure(figsize=(8.8, 5.4), layout="constrained")
            (left, right, ratio), (length, success, words) = figure.subplots(2, 3)
            weight_map(left, sides[0])
            weight_map(right, sides[1])
            ratio_lines(ratio, sides)
            length_lines(length, sides)
            success_lines(success, sides)
            _why(words, sides)
            figure.savefig(picture, format="svg", metadata={"Date": None, "Creator": None})
        return picture.getvalue()

    def __repr__(self) -> str:
        left, right = self.contrast.left, self.contrast.right
        parts = [f"{side.name}\n{side.formula}" for side in (left, right)]
        parts += [f"{name}: {a} → {b}" for name, (a, b) in self.contrast.settings.items()]
        return "\n\n".join([*parts, *self.contrast.methods.values()])

    def _ipython_display_(self) -> None:
        from IPython.display import display

        # Two outputs: pages that strip styles from HTML still show the picture.
        display({"text/html": self.html(), "text/plain": repr(self)}, raw=True)
        names = f"{self.contrast.left.name}, {self.contrast.right.name}"
        display({"image/svg+xml": self.svg(), "text/plain": names}, raw=True)


def marked(left: str, right: str) -> tuple[str, str]:
    """Both formulas as escaped HTML, with <mark> around what the other has not."""
    words = [WORD.findall(text) for text in (left, right)]
    blocks = difflib.SequenceMatcher(None, *words, autojunk=False).get_opcodes()
    out = ["", ""]
    for number, (kind, *ends) in enumerate(blocks):
        for k, (start, end) in enumerate((ends[:2], ends[2:])):
            text = "".join(words[k][start:end])
            # A lone sign between two differences is equal by chance.
            chance = 0 < number < len(blocks) - 1 and len("".join(text.split())) < 3
            same = kind == "equal" and not chance
            out[k] += escape(text) if same else "\n".join(map(_mark, text.split("\n")))
    one, two = (re.sub("</mark>( *)<mark>", r"\1", text) for text in out)
    return one, two


def _mark(text: str) -> str:
    """A line as a mark; spaces and commas at its ends are layout, not formula."""
    core = text.strip(" ,")
    before, _, after = text.partition(core) if core else (text, "", "")
    return escape(before) + (f"<mark>{escape(core)}</mark>" if core else "") + escape(after)


def _written(value: Any) -> str:
    """The value of a field: a function by its name, – for a field that a class has not."""
    return "–" if value is None else escape(getattr(value, "__name__", None) or repr(value))


def _diff(text: str) -> str:
    lines = []
    for line in text.splitlines():
        tag = {"-": "del", "+": "ins"}.get(line[:1], "")
        shown = escape(line) or " "
        marked_line = tag and not line.startswith(("---", "+++"))
        lines.append(f"<{tag}>{shown}</{tag}>" if marked_line else f"{shown}\n")
    return "".join(lines)


# --- the picture; every function takes a probe or two and draws into axes ---------------------------------


def weight_map(axes: Any, side: Any) -> None:
    """Gradient weight over ratio and advantage: sky where a token is pushed up, vermillion where down."""
    axes.set(title=side.name, xlabel="ratio π/π_old", ylabel="advantage")
    if not side.weight:
        axes.set_axis_off()
        return
    top = 2.0
    rgba = [[_colour(weight / top) for weight in row] for row in side.weight]
    edges = (math.log(side.ratios[0]), math.log(side.ratios[-1]), side.advantages[0], side.advantages[-1])
    axes.imshow(rgba, extent=edges, origin="lower", aspect="auto", interpolation="nearest")
    _ratio_axis(axes)


def _colour(size: float) -> tuple[float, float, float, float]:
    rgb = (58, 149, 204) if size > 0 else (213, 94, 0)
    # Half the strength at a quarter of the size: weak pushes are seen, and no colour means no gradient.
    return (*(c / 255 for c in rgb), min(1.0, abs(size)) ** 0.5 if abs(size) > 1e-6 else 0.0)


def _ratio_axis(axes: Any) -> None:
    ticks = (0.5, 0.8, 1.0, 1.25, 2.0)
    axes.set_xticks([math.log(x) for x in ticks], [f"{x:g}" for x in ticks])
    axes.grid(False)


def ratio_lines(axes: Any, sides: Sequence[Any]) -> None:
    """Gradient weight over the ratio at advantage 1 and −1."""
    axes.set(title="weight at advantage +1 and −1", xlabel="ratio π/π_old", ylabel="−∂L/∂log π, relative")
    for k, side in enumerate(sides):
        for sign in (1.0, -1.0) if side.weight else ():
            row = side.weight[min(range(len(side.advantages)), key=lambda i: abs(side.advantages[i] - sign))]
            name = side.name if sign > 0 else None
            axes.plot([math.log(r) for r in side.ratios], row, **style.line(k), label=name)
    axes.axhline(0, color=style.GREY, linewidth=0.8)
    _ratio_axis(axes)
    _legend(axes)


def length_lines(axes: Any, sides: Sequence[Any]) -> None:
    """Gradient weight of one token over the number of tokens in its row."""
    axes.set(title="a token of a longer row", xlabel="sampled tokens in its row", ylabel="weight, mean = 1")
    for k, side in enumerate(sides):
        if side.by_length:
            axes.plot(side.lengths, side.by_length, **style.line(k), label=side.name)
    axes.set(xscale="log", yscale="log")
    _plain_ticks(axes, (1, 4, 16, 64), (0.25, 1, 4, 16))
    _legend(axes)


def success_lines(axes: Any, sides: Sequence[Any]) -> None:
    """Advantage of a success over the number of successes in its group."""
    axes.set(title="a success among easy or hard tasks", ylabel="its advantage")
    for k, side in enumerate(sides):
        if side.by_success:
            axes.plot(range(1, len(side.by_success) + 1), side.by_success, **style.line(k), label=side.name)
            axes.set_xlabel(f"successes among {len(side.by_success) + 1} tries")
    if not axes.lines:
        axes.set_axis_off()
    _legend(axes)


def _plain_ticks(axes: Any, xs: Sequence[float], ys: Sequence[float]) -> None:
    axes.set_xticks(xs, [f"{x:g}" for x in xs])
    axes.set_yticks(ys, [f"{y:g}" for y in ys])
    axes.minorticks_off()


def _legend(axes: Any) -> None:
    if axes.lines and any(not line.get_label().startswith("_") for line in axes.lines):
        axes.legend(fontsize=9)


def _why(axes: Any, sides: Sequence[Any]) -> None:
    """How to read the picture, and what is missing in it."""
    axes.set_axis_off()
    lines = ["Maps: sky pushes a token's probability up,", "vermillion down, blank leaves it alone.",
             "Weights are gradients of the algorithm's", "own loss, by autograd; the advantage is",
             "what its own estimator says."]
    for side in sides:
        parts = (("weights", side.weight), ("advantages", side.by_success))
        missing = [name for name, part in parts if not part]
        if missing:
            why = side.why or "only the sign counts: + the chosen row of a pair, − the rejected one"
            lines += ["", f"{side.name}: no {' or '.join(missing)}:", *textwrap.wrap(why, 42)[:4]]
    axes.text(0, 1, "\n".join(lines), va="top", fontsize=9, transform=axes.transAxes)


def lens(left: Any, right: Any, *, contrast: Any = None) -> Lens:
    """What differs between two algorithms in formula, code and gradient; show the result in a cell.

    `lab.lens(GRPO, DAPO)`, or made ones: `lab.lens(GRPO(), GRPO(clip_high=0.5))`.

    contrast: contrast(left, right) → plain data (see `arl_mini.dissect.Contrast`), which is the default.
    Raises what that raises, such as ValueError for a class without a formula.
    """
    compute = importlib.import_module(DISSECT).contrast if contrast is None else contrast
    return Lens(compute(left, right))
