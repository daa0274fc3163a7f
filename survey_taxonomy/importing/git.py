"""Read one file of a clone at a pinned commit, without touching the working tree."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path


def read_commit(clone: Path | str, commit: str, file: str = "README.md", limit: int = 2_000_000) -> str:
    """The text of ``file`` in the git clone at ``clone`` as of ``commit`` (7 to 40 hex digits).

    Raises ``ValueError`` for anything that is not a commit id (a branch can move), a missing clone, commit
    or file, or more than ``limit`` bytes.
    """
    if not re.fullmatch(r"[0-9a-f]{7,40}", commit):
        raise ValueError(f"got commit {commit!r}, expected 7 to 40 hex digits; branches and tags can move")
    if not Path(clone).is_dir():
        raise ValueError(f"there is no folder {str(clone)!r}; clone the list first")
    command = ["git", "-C", str(clone), "show", f"{commit}:{file}"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        reason = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ValueError(
            f"git could not show {file} at {commit}: {reason[-1] if reason else 'no reason given'}"
        )
    if len(done.stdout) > limit:
        raise ValueError(f"{file} has {len(done.stdout)} bytes, expected at most {limit}")
    return done.stdout.decode("utf-8")
