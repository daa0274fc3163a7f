"""Keys for the widgets: JupyterLab's own shortcuts would take the arrows from a slider, and D D from a reader."""

from __future__ import annotations

from typing import Any

# JupyterLab takes no key from an element that has this attribute, nor from what lies in it. The widget is drawn before
# it has a place in the page, so it looks for its surroundings until it finds them.
MODULE = """
export default { render({ model, el }) {
  let tries = 0;
  const find = () => {
    const around = el.closest("." + model.get("around"));
    if (around) around.setAttribute("data-lm-suppress-shortcuts", "true");
    else if (++tries < 100) setTimeout(find, 50);
  };
  find();
} };
"""


def own_keys(around: str) -> Any:
    """An invisible widget: put it into one of class `around`, and keys pressed in there stay in there."""
    import anywidget
    import traitlets

    class OwnKeys(anywidget.AnyWidget):
        _esm = MODULE
        around = traitlets.Unicode().tag(sync=True)

    keys = OwnKeys(around=around)
    keys.layout.display = "none"
    return keys
