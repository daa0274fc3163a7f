"""Where a picture is shown: a notebook with live widgets, or a page that stands still."""

from __future__ import annotations

import os
from typing import Any

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def is_static() -> bool:
    """True where widgets cannot live: ARL_STATIC=1 (built notebooks, tests), or no Jupyter kernel."""
    return os.environ.get("ARL_STATIC") == "1" or not has_kernel()


def has_kernel() -> bool:
    """True inside a Jupyter kernel."""
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    return getattr(get_ipython(), "kernel", None) is not None


def bundle(widget: Any, fallback: dict[str, str]) -> dict[str, Any]:
    """What a cell shows: the widget where one can live, with `fallback` (MIME type → text) beside it."""
    if widget is None:
        return dict(fallback)
    return {**fallback, WIDGET_VIEW: widget._repr_mimebundle_()[WIDGET_VIEW]}
