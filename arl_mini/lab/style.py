"""One look for every picture: it reads on white and on near-black, and for colour-blind eyes.

The colours are Okabe and Ito's, darkened where needed so that each keeps a contrast of 3:1 or more on both
#ffffff and #111111. Lines differ by dash too, so colour never carries a meaning alone.
Source: M. Okabe, K. Ito, "Color Universal Design", 2008 (palette).
"""

from __future__ import annotations

from contextlib import AbstractContextManager

BLUE, VERMILLION, GREEN, PURPLE, SKY = "#0072B2", "#D55E00", "#009E73", "#C4699B", "#3A95CC"
COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, SKY)
DASHES = ("solid", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (3, 1, 1, 1, 1, 1)))
# The grey whose contrast on #ffffff and on #111111 is the same (4.3:1): no other grey does better on both.
GREY = "#797979"

# What is measured in what; curves() and live() label their axes with it.
UNITS = {
    "step": "updates",
    "success": "share of episodes",
    "reward": "mean per episode",
    "returns": "mean per episode",
    "signal_share": "share of groups",
    "clip_share": "share of tokens",
    "entropy": "nats per token",
    "kl": "nats per token",
    "tokens": "sampled tokens",
    "seconds": "s",
}


def line(index: int) -> dict:
    """Colour and dash of the `index`-th line, as keywords of matplotlib's `plot`."""
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": DASHES[index % len(DASHES)]}


def label(name: str) -> str:
    """`name` in words, with its unit where it has a known one: "success (share of episodes)"."""
    words = name.replace("_", " ")
    return f"{words} ({UNITS[name]})" if name in UNITS else words


def settings() -> dict:
    """The matplotlib settings of the look, as a new dict."""
    from cycler import cycler

    clear = (0.0, 0.0, 0.0, 0.0)
    return {
        "figure.figsize": (6.4, 3.4), "figure.dpi": 96, "figure.facecolor": clear, "axes.facecolor": clear,
        "savefig.facecolor": clear, "savefig.transparent": True, "savefig.bbox": "tight",
        "axes.prop_cycle": cycler(color=list(COLOURS)) + cycler(linestyle=list(DASHES)),
        "text.color": GREY, "axes.labelcolor": GREY, "axes.titlecolor": GREY, "axes.edgecolor": GREY,
        "xtick.color": GREY, "ytick.color": GREY, "grid.color": GREY, "grid.alpha": 0.25, "axes.grid": True,
        "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 11, "font.size": 10,
        "legend.frameon": False, "legend.labelcolor": GREY, "lines.linewidth": 1.8,
        "patch.edgecolor": GREY, "hatch.color": GREY, "boxplot.boxprops.color": GREY,
        # Text stays text: small files, readable by search and screen readers.
        "svg.fonttype": "none",
        # Ids inside the SVG come from this salt, so that a rebuilt picture is the same file.
        "svg.hashsalt": "arl_mini",
    }


def context() -> AbstractContextManager:
    """The look for one `with` block, leaving matplotlib's settings as they were."""
    import matplotlib

    return matplotlib.rc_context(settings())


def use() -> None:
    """Turn the look on for this process; in a notebook, pictures become SVG without dates in them."""
    import matplotlib

    matplotlib.rcParams.update(settings())
    try:
        from IPython import get_ipython
        from matplotlib_inline.backend_inline import set_matplotlib_formats
    except ImportError:
        return
    if get_ipython() is not None:
        set_matplotlib_formats("svg", metadata={"Date": None, "Creator": None})
