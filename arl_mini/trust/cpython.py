"""All of Python for a program that a policy wrote: CPython in a child process that the kernel confines (Linux).

    with Hardened() as box:
        box.run("import collections\\ncollections.Counter(text).most_common(1)", {"text": "abba"})

A guard process (`guard.py`), started with an empty environment, has imported the usual modules once. For each
program it forks a watcher, which reads the program, forks a child and reads what the child says; the guard
itself never holds a program or an answer, so no row can find another's in its memory. The child gives up
files and network (Landlock), root's capabilities, every system call but some forty (seccomp), and memory,
processor time and descriptors (resource limits), and only then runs the program. Nothing it starts can
outlive it, for it can start nothing; child and watcher die with the guard. Where the kernel lacks these,
`Hardened` refuses; `Unconfined`, by name, runs without them.

Not promised: protection from faults of the kernel or the processor (a program may run machine code through
ctypes); that time and process numbers tell nothing of other rows; the same outcome where a program asks for
the time, for addresses (`id`, sets of objects) or for the system's chance (`os.urandom`); that the place of
Python and of this file on the disk stays hidden (their names are in `sys`, their contents out of reach). The
memory limit counts addresses: reserving much and using little meets it too. `Unconfined` lets everything
through: files, network, the environment, processes that stay, memory without limit (also the caller's, which
gathers the output); a program in it may write another's result, or stop the caller.
"""

import base64
import contextlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

from .sandbox import Limits, Outcome, packed, plain

GUARD = Path(__file__).with_name("guard.py")
PROTECTIONS = ("Landlock (files, network)", "seccomp (system calls)")
# What a program needs that only computes and writes to the two pipes it was given. All else answers EPERM.
ALLOWED = (
    "read write writev close lseek fstat mmap munmap mremap mprotect brk futex getrandom getpid gettid "
    "rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack clock_gettime clock_getres clock_nanosleep nanosleep "
    "gettimeofday time times getrusage sched_yield select pselect6 poll ppoll restart_syscall exit exit_group"
).split()


class Unavailable(RuntimeError):
    """This machine cannot confine a process."""


def missing() -> list[str]:
    """The protections that this machine lacks; [] where `Hardened` works."""
    if platform.system() != "Linux":
        return list(PROTECTIONS)
    lacking = []
    asked = subprocess.run([sys.executable, "-S", "-P", str(GUARD), "probe"], capture_output=True, text=True)
    if asked.stdout.strip() not in map(str, range(1, 100)):
        lacking.append(PROTECTIONS[0])
    try:
        _filter()
    except (ImportError, OSError, RuntimeError):
        lacking.append(PROTECTIONS[1])
    return lacking


def _filter() -> bytes:
    """The seccomp program that allows `ALLOWED` and answers EPERM to all else."""
    import errno

    import pyseccomp

    rules = pyseccomp.SyscallFilter(pyseccomp.ERRNO(errno.EPERM))
    for name in ALLOWED:
        with contextlib.suppress(ValueError, OSError):  # not every machine has every call
            rules.add_rule(pyseccomp.ALLOW, name)
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()


class Hardened:
    """Runs programs in CPython, each in a confined child of its own. See the module.

    The value and the output come through two pipes; a program can write to both what it likes, but only for itself. Sets
    have a fixed order and chance a fixed seed, so a program gives the same outcome each time.
    """

    def __init__(self, limits: Limits = Limits()):
        if lacking := missing():
            raise Unavailable(
                f"this machine lacks {' and '.join(lacking)}, so it cannot confine CPython; hint: Subset() works "
                "everywhere; Unconfined() runs without protection"
            )
        self.limits, self._seccomp = limits, base64.b64encode(_filter()).decode()
        self._lock, self._guard, self._process = threading.Lock(), None, os.getpid()

    def __enter__(self) -> "Hardened":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Ends the guard, and with it everything."""
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.kill()
            guard.wait()
            with contextlib.suppress(OSError):  # a request that the guard did not live to read
                guard.stdin.close()
            guard.stdout.close()

    def _start(self) -> subprocess.Popen:
        if self._guard is None or self._guard.poll() is not None:
            self.close()
            self._guard = subprocess.Popen(
                [sys.executable, "-S", "-s", "-P", "-B", str(GUARD), "serve"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/",
                env={"PYTHONHASHSEED": "0", "PYTHONIOENCODING": "utf-8:backslashreplace"}, start_new_session=True,
            )  # fmt: skip
            self._guard.stdin.write(self._seccomp.encode() + b"\n")
        return self._guard

    def run(self, code: str, inputs: dict | None = None) -> Outcome:
        """Runs a program; never raises, and never hangs, for what a program does."""
        request, began = packed(code, inputs).encode(), time.perf_counter()
        if self._process != os.getpid():  # a fork: guard and (perhaps held) lock are the other's
            self._lock, self._guard, self._process = threading.Lock(), None, os.getpid()
        with self._lock:
            guard = self._start()
            # The guard itself is told by the clock when to stop a child; this is for a guard that is gone.
            alarm = threading.Timer(self.limits.seconds + 5, guard.kill)
            alarm.start()
            answer = {}
            try:
                head = {"size": len(request), **vars(self.limits)}
                guard.stdin.write(json.dumps(head).encode() + b"\n" + request)
                guard.stdin.flush()
                answer = json.loads(guard.stdout.readline() or b"{}")
            except (OSError, ValueError):
                pass
            finally:  # also when the caller was interrupted: the next row must not read this one's answer
                alarm.cancel()
                if not answer:
                    self.close()
        return _outcome(answer, self.limits, time.perf_counter() - began)


def _outcome(answer: dict, limits: Limits, seconds: float) -> Outcome:
    """What the guard tells of a child: why it was stopped, its exit, and the bytes of its two pipes."""
    said, result = (base64.b64decode(answer.get(k, "")) for k in ("output", "result"))
    output = said[: limits.output].decode(errors="replace")

    def ended(status: str, error: str, value: object = None) -> Outcome:
        line = " ".join(error.split())[:300].encode(errors="replace").decode()
        return Outcome(status, value, output, line, seconds)

    if answer.get("stopped") == "value":
        return ended("error", f"the value is too large: {limits.value:,} bytes as JSON are allowed")
    if answer.get("stopped"):
        return ended(answer["stopped"], f"stopped: {answer['stopped']}")
    try:
        told = json.loads(result)
        status, value, error = told["status"], told.get("value"), str(told.get("error", ""))
    except (ValueError, KeyError, TypeError, RecursionError):
        how = f"exit status {answer['exit']}" if "exit" in answer else "the guard was lost"
        return ended("error", f"the program ended without a value: {how}")
    if status == "ok":
        value, error = plain(value, limits.value)
        return ended("error" if error else "ok", error, value)
    return ended(status if status in ("memory", "refused") else "error", error)


class Unconfined:
    """CPython with nothing but a clock, for machines that cannot confine it. Only for programs you would run yourself."""

    def __init__(self, limits: Limits = Limits()):
        self.limits = limits
        warnings.warn(
            "Unconfined: a program can read and delete your files, use the network and start processes; only its time is "
            "limited",
            stacklevel=2,
        )

    def __enter__(self) -> "Unconfined":
        return self

    def __exit__(self, *_) -> None:
        pass

    def run(self, code: str, inputs: dict | None = None) -> Outcome:
        """Runs a program in a process of its own; never raises for what a program does."""
        request, began = packed(code, inputs), time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder) / "result"
            asked = [sys.executable, "-S", "-s", "-P", "-B", str(GUARD), "once", str(result)]
            try:
                done = subprocess.run(asked, input=request.encode(), capture_output=True, timeout=self.limits.seconds + 0.3)
                answer = {"exit": done.returncode, "output": done.stdout + done.stderr}
            except subprocess.TimeoutExpired as late:
                answer = {"stopped": "timeout", "output": (late.stdout or b"") + (late.stderr or b"")}
            if len(answer["output"]) > self.limits.output:
                answer["stopped"] = "output"
            answer["result"] = result.read_bytes() if result.exists() else b""
        packed_answer = answer | {k: base64.b64encode(answer[k]).decode() for k in ("output", "result")}
        return _outcome(packed_answer, self.limits, time.perf_counter() - began)
