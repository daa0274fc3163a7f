"""Running Python that a policy wrote. `Subset` is the default: an interpreter of a part of Python, on every machine.

    with Subset() as box:
        box.run("sorted(words)[0]", {"words": ["b", "a"]})     # Outcome(status='ok', value='a', …)

A program gets inputs by name and hands back the value of its last expression; both are plain data (what JSON can hold). A
verdict on the value belongs to the caller: whatever runs beside a program, that program may have changed.
`Subset` has no `yield`, no `match`, few modules, no files, no network: see pydantic-monty. Where a task needs all of
Python, `Hardened` runs CPython in a child process that Linux confines.

Not promised: that a faulty interpreter or kernel keeps its word; that time, load and sizes tell nothing of a
program; that the value is right or the status honest (a program may raise a PermissionError of its own); that
the texts are harmless where they are shown (they may hold markup or terminal codes: escape them).
"""

import json
import os
import time
from dataclasses import dataclass

STATUSES = ("ok", "error", "timeout", "memory", "output", "refused")


@dataclass(frozen=True)
class Limits:
    """What a program may use."""

    seconds: float = 1.0
    memory: int = 64_000_000  # bytes, beyond what the interpreter itself takes
    output: int = 10_000  # bytes printed
    value: int = 100_000  # bytes of the value, written as JSON

    def __post_init__(self):
        for name, amount in vars(self).items():
            if not amount > 0:
                raise ValueError(f"{name} must be positive, got {amount}")


@dataclass(frozen=True)
class Outcome:
    """What came of a program.

    status: 'ok'; 'error' (it raised, or died); 'timeout', 'memory', 'output' (it met that limit); 'refused' (it asked for
    what the sandbox does not give, or was no program to begin with).
    """

    status: str
    value: object = None  # plain data: the value of the last expression
    output: str = ""  # what it printed, as far as the limit
    error: str = ""  # one line
    seconds: float = 0.0


def packed(code: str, inputs: dict | None) -> str:
    """A program and its inputs as JSON; a caller's mistake is an error that names it."""
    if not isinstance(code, str):
        raise TypeError(f"code must be text, got {type(code).__name__}")
    for name in inputs or {}:
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"inputs must be named by identifiers, got {name!r}")
    try:
        return json.dumps({"code": code, "inputs": inputs or {}}, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"inputs must be plain data (what JSON can hold): {error}") from error


def _fits(value: object, largest: int) -> bool:
    """Whether so many bytes can hold it: ten lists of ten lists of … share memory until written."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, (list, tuple, dict, str)):
            largest -= len(item)
        largest -= 1 + (item.bit_length() // 4 if isinstance(item, int) else 0)
        if largest < 0:
            return False
        if isinstance(item, (list, tuple, dict)):
            pending.extend(item)
        if isinstance(item, dict):
            pending.extend(item.values())
    return True


def plain(value: object, largest: int) -> tuple[object, str]:
    """(the value as plain data, ""), or (None, what is wrong with it)."""
    if not _fits(value, 2 * largest):
        return None, f"the value is too large: {largest:,} bytes as JSON are allowed"
    try:
        text = json.dumps(value, allow_nan=False)
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair cannot be saved
    except (TypeError, ValueError, RecursionError) as error:
        return None, f"the value is no plain data: {error}"
    if len(text) > largest:
        return None, f"the value has {len(text):,} bytes as JSON, {largest:,} are allowed"
    return json.loads(text), ""


class Subset:
    """Runs programs in pydantic-monty, an interpreter of a Python subset written in Rust, in a process of its own.

    Nothing of the machine can be reached from it: no files, environment, network, processes or C code exist there; memory,
    time, recursion and output are counted. Clock and chance are fixed, so a program gives the same outcome each time.
    It does not outlive a fork: start processes that run rows by "spawn", or make the first `Subset` in them.
    """

    def __init__(self, limits: Limits = Limits()):
        import datetime

        from pydantic_monty import Monty, RandomSeed, ResourceLimits

        self.limits, self._process = limits, os.getpid()
        self._clock = dict(
            datetime=datetime.datetime(2026, 1, 1), sleep="zero", process_time="zero", random_start=RandomSeed(seed=0)
        )
        self._rules = ResourceLimits(
            max_feed_duration_secs=limits.seconds, max_memory=limits.memory, max_recursion_depth=500
        )
        self._pool = Monty(max_processes=1, request_timeout=limits.seconds + 5)
        self._pool.__enter__()

    def __enter__(self) -> "Subset":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Ends the interpreter's process."""
        if self._process == os.getpid():
            self._pool.__exit__(None, None, None)

    def run(self, code: str, inputs: dict | None = None) -> Outcome:
        """Runs a program; never raises for what a program does."""
        from pydantic_monty import CollectString, MontyError

        packed(code, inputs)
        if self._process != os.getpid():
            raise RuntimeError(
                f"this Subset belongs to process {self._process}, and this is its fork {os.getpid()}; hint: "
                "start processes by 'spawn', or make the first Subset in the process that uses it"
            )
        heard, began = CollectString(max_bytes=self.limits.output), time.perf_counter()
        status, value, error = "ok", None, ""
        try:
            with self._pool.checkout(limits=self._rules, os_policy=self._clock) as session:
                found = session.feed_run(code, inputs=inputs or {}, print_callback=heard)
            value, error = plain(found, self.limits.value)
            status = "error" if error else "ok"
        except (MontyError, ValueError, RuntimeError, TypeError) as fault:
            error = " ".join(str(fault).split())[:300] or type(fault).__name__
            status = _verdict(type(fault).__name__, error, self.limits)
        return Outcome(status, value, heard.output[: self.limits.output], error, time.perf_counter() - began)


def _verdict(kind: str, error: str, limits: Limits) -> str:
    """The status that an error of the interpreter stands for."""
    if kind in ("MontySyntaxError", "MontyTypingError") or error.startswith(("PermissionError", "NotImplementedError")):
        return "refused"
    late = kind == "MontyCrashedError" and "request timeout" in error  # ended from outside
    if late or error.startswith("TimeoutError: feed time limit"):
        return "timeout"
    if error.startswith(("MemoryError: memory limit", "MemoryError: the worker exceeded its memory limit")):
        return "output" if error.endswith(f"> {limits.output} bytes") else "memory"
    return "error"
