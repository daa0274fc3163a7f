"""What tokens can be coloured by, and the colour of a number: five steps, in the widget as on a page.

Sky means up, vermillion means down, purple means much. Colour-blind eyes tell the three apart, and text on
their strongest step keeps a contrast of 4.5:1 or more on white and on near-black. Underlines and strokes say
in a second way what was sampled, forced, called or clipped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

LEVELS = 5


@dataclass(frozen=True)
class Colouring:
    """A column that tokens can be coloured by.

    kind: "signed" (sky above 0, vermillion below), "amount" (purple by size), "around one" (signed by its
    logarithm) or "flag" (1 is marked).
    """

    name: str
    label: str
    kind: str
    about: str


COLOURINGS = tuple(Colouring(*row) for row in (
    ("mask", "sampled or forced", "flag", "Which tokens the policy chose, and which the world wrote."),
    ("reward", "reward", "signed", "What is paid at this token, as the estimator counts it."),
    ("logp", "log p", "amount", "log π(token): 0 is certain; the stronger, the more surprising."),
    ("entropy", "entropy", "amount", "How undecided the policy was here, in nats."),
    ("ratio", "ratio", "around one", "π(token) over its probability when it was sampled."),
    ("clipped", "clipped", "flag", "Tokens whose gradient the clip cut off."),
    ("kl", "KL to reference", "amount", "k3 estimate of the divergence from the reference, in nats."),
    ("value", "value", "signed", "What the critic expects from here on, before this token."),
    ("advantage", "advantage", "signed", "The weight that the estimator gives this token."),
    ("share", "gradient share", "signed", "Share of −∂loss/∂log π among all tokens, in %, up or down."),
    ("moved", "moved by edits", "signed", "Gradient share now, less the share before your edits, in %."),
))  # fmt: skip
BY_NAME = {colouring.name: colouring for colouring in COLOURINGS}


def strength(kind: str, x: float) -> float:
    """The number whose size decides the colour; nan and −inf have none (0)."""
    if kind == "around one":
        x = math.log(x) if x > 0 else math.nan
    return x if math.isfinite(x) else 0.0


def full(kind: str, column: Any) -> float:
    """The size that gets the strongest colour: 2 % of what is not 0 is beyond it. 0 if all is 0.

    column: numbers (B, T), nan for none.
    """
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.asarray(column, dtype=np.float32)
        sizes = np.abs(np.log(values) if kind == "around one" else values)
    sizes = np.sort(sizes[np.isfinite(sizes) & (sizes > 0)])
    return float(sizes[min(len(sizes) - 1, int(0.98 * len(sizes)))]) if len(sizes) else 0.0


def tint(kind: str, x: float, top: float) -> str:
    """The style class of a number: "p1" to "p5" up, "n1" to "n5" down, "a1" to "a5" amounts, "" none."""
    size = strength(kind, x)
    # What rounds away to nothing beside `top` is nothing: noise of the last digit must not look like a sign.
    if kind == "flag" or not top or abs(size) < 1e-6 * top:
        return ""
    step = min(LEVELS, max(1, math.ceil(LEVELS * abs(size) / top - 1e-9)))
    return f"{'a' if kind == 'amount' else 'p' if size > 0 else 'n'}{step}"


def written(x: float, signed: bool = True) -> str:
    """A number in three digits; "–" for none."""
    if not math.isfinite(x):
        return "–"
    text = f"{abs(x):.0f}" if abs(x) >= 999.5 else f"{abs(x):.3g}".replace("e-0", "e-").replace("-", "−")
    return ("−" if x < 0 else "+" if signed and x > 0 else "") + text
