"""What a check reports: one fault at one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """A fault in the data.

    ``file``, ``line`` (1-based) and ``field`` say where; ``rule`` names the check; ``target`` is the id of
    the record at fault.
    """

    rule: str
    target: str
    message: str
    file: str = ""
    line: int = 0
    field: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.file else "data"
        return f"{where}: {self.field or '-'}: {self.message} [{self.rule}: {self.target}]"


class DataError(ValueError):
    """The data could not be used; ``problems`` lists every fault found."""

    def __init__(self, problems: list[Problem]):
        self.problems = problems
        shown = "\n".join(str(p) for p in problems[:20])
        more = f"\n… and {len(problems) - 20} more" if len(problems) > 20 else ""
        super().__init__(f"{len(problems)} problem(s) in the taxonomy data:\n{shown}{more}")
