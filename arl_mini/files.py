"""Files are written whole or not at all."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def write_whole(path: str | Path, write: Callable) -> None:
    """Calls write(binary file) on a temporary file beside `path`, then puts it in place at once."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)  # a temporary file is private; the real one is as open as any other
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
