"""The algorithm that CONTRIBUTING.md adds as an example, and its tests, run from the text as it stands."""

import functools
import importlib.util
import re
import sys
import tempfile
import types
from pathlib import Path

FOLDER = tempfile.TemporaryDirectory()  # a file, so that the source can be shown


@functools.cache
def module() -> types.ModuleType:
    """CONTRIBUTING.md's Python blocks, as one module."""
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    file = Path(FOLDER.name) / "contributing.py"
    file.write_text("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)))
    spec = importlib.util.spec_from_file_location("contributing", file)
    made = sys.modules["contributing"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made
