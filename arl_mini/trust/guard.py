"""The process that starts and watches confined children. Run by `cpython.py`; imports nothing but the standard library.

    guard.py probe            prints the kernel's Landlock version
    guard.py serve            line 1: the seccomp program; then a head line and a program, one after another.
                              Guard, watcher, child: three processes, so that the guard knows no answer
    guard.py once FILE        runs the program on standard input unconfined; its value goes into FILE
"""

import ast
import base64
import bisect  # noqa: F401  programs may use these: a confined child can import nothing from disk
import builtins
import cmath  # noqa: F401
import collections.abc  # noqa: F401
import copy  # noqa: F401
import ctypes
import dataclasses  # noqa: F401
import datetime  # noqa: F401
import decimal  # noqa: F401
import enum  # noqa: F401
import fractions  # noqa: F401
import functools  # noqa: F401
import heapq  # noqa: F401
import itertools  # noqa: F401
import json
import math  # noqa: F401
import operator  # noqa: F401
import os
import random
import re  # noqa: F401
import select
import signal
import statistics  # noqa: F401
import string  # noqa: F401
import sys
import textwrap  # noqa: F401
import time
import types  # noqa: F401
import typing  # noqa: F401
import unicodedata  # noqa: F401

CREATE_RULESET, RESTRICT_SELF = 444, 446  # Landlock's system calls, the same on every machine
DEATH_SIGNAL, NO_NEW_PRIVILEGES, SET_SECCOMP, FILTER = 1, 38, 22, 2
CAPABILITIES = 0x20080522  # the version of the kernel's structure, 64 bits a set
RESULT = 3  # the child's descriptor for its value; 0 is empty, 1 and 2 are its output


# --- the child --------------------------------------------------------------------------------------------


def evaluate(code: str, inputs: dict) -> object:
    """Runs a program; the value of its last statement where that is an expression."""
    tree = ast.parse(code, "<program>")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    place = {"__name__": "program", "__builtins__": builtins, **inputs}
    exec(compile(tree, "<program>", "exec"), place)
    return eval(compile(ast.Expression(last.value), "<program>", "eval"), place) if last else None


def told(request: bytes) -> str:
    """What became of a program, as JSON."""
    try:
        asked = json.loads(request)
        value = evaluate(asked["code"], asked["inputs"])
        return json.dumps({"status": "ok", "value": value}, allow_nan=False)
    except MemoryError:
        return '{"status": "memory", "error": "MemoryError"}'
    except BaseException as error:
        refused = isinstance(error, (PermissionError, SyntaxError))
        line = f"{type(error).__name__}: {error}"[:300]
        return json.dumps({"status": "refused" if refused else "error", "error": line})


def checked(result: int, name: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{name} failed")
    return result


def confine(libc, seccomp: bytes, memory: int, seconds: float) -> None:
    """Gives up files, network, signals to others, root's powers, and all system calls not allowed."""
    import resource

    here = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    limits = {
        resource.RLIMIT_AS: here + memory, resource.RLIMIT_CPU: int(seconds) + 2, resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0, resource.RLIMIT_NOFILE: 8, resource.RLIMIT_NPROC: 0,
    }  # fmt: skip
    for kind, amount in limits.items():
        resource.setrlimit(kind, (amount, amount))
    checked(libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no_new_privs")
    nothing = (ctypes.c_uint32 * 6)()
    checked(libc.capset((ctypes.c_uint32 * 2)(CAPABILITIES, 0), nothing), "giving up capabilities")
    version = checked(libc.syscall(CREATE_RULESET, None, 0, 1), "Landlock")
    files = (1 << {1: 13, 2: 14}.get(version, 15)) - 1 | (1 << 15 if version >= 5 else 0)
    rules = (ctypes.c_uint64 * 3)(files, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 8 * (1 + (version >= 4) + (version >= 6))
    ruleset = checked(libc.syscall(CREATE_RULESET, rules, ctypes.c_size_t(size), 0), "Landlock's rules")
    checked(libc.syscall(RESTRICT_SELF, ruleset, 0), "Landlock")
    os.close(ruleset)

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]

    program = Program(len(seccomp) // 8, seccomp)
    checked(libc.prctl(SET_SECCOMP, FILTER, ctypes.byref(program), 0, 0), "seccomp")


def child(libc, seccomp: bytes, head: dict, request: bytes, output: int, result: int) -> None:
    """Gives up all power, runs the program; does not return."""
    empty = os.open(os.devnull, os.O_RDONLY)
    for here, there in ((empty, 0), (output, 1), (output, 2), (result, RESULT)):
        os.dup2(here, there)
    os.closerange(RESULT + 1, 4096)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", errors="backslashreplace", closefd=False)
        for number, mode in ((0, "r"), (1, "w"), (2, "w"))
    )
    os.environ.clear()
    random.seed(0)
    sys.argv[:] = [""]
    confine(libc, seccomp, head["memory"], head["seconds"])
    text = told(request)
    try:
        sys.stdout.flush()
    finally:
        rest = text.encode()
        while rest:
            rest = rest[os.write(RESULT, rest) :]
        os._exit(0)


# --- the watcher and the guard ----------------------------------------------------------------------------


def watch(number: int, output: int, result: int, head: dict) -> dict:
    """Reads a child's two pipes to their end, or until it meets a limit, and ends it."""
    heard, stopped = {output: bytearray(), result: bytearray()}, ""
    most = {output: head["output"], result: 2 * head["value"] + 1000}
    end, open_pipes = time.monotonic() + head["seconds"], {output, result}
    while open_pipes and not stopped:
        ready, _, _ = select.select(list(open_pipes), [], [], max(0.0, end - time.monotonic()))
        if not ready or time.monotonic() > end:  # a trickle must not keep the clock from being looked at
            stopped = "timeout"
        for pipe in ready:
            part = os.read(pipe, 65536)
            heard[pipe] += part
            if not part:
                open_pipes.discard(pipe)
            elif len(heard[pipe]) > most[pipe]:
                stopped = "output" if pipe == output else "value"
    exit_status = finish(number, kill=bool(open_pipes), end=end)
    if exit_status is None:
        stopped = stopped or "timeout"
    done = {"stopped": stopped, "exit": exit_status if exit_status is not None else -signal.SIGKILL}
    return done | {"output": packed(heard[output], most[output]), "result": packed(heard[result], most[result])}


def finish(number: int, kill: bool, end: float) -> int | None:
    """Waits for a child, at most until `end`; its exit status, or None if it had to be killed for its time."""
    while not kill:
        pid, status = os.waitpid(number, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        kill = time.monotonic() > end
        time.sleep(0.0005)
    os.kill(number, signal.SIGKILL)
    os.waitpid(number, 0)
    return None


def packed(part: bytearray, most: int) -> str:
    return base64.b64encode(part[:most]).decode()


def tie(libc, parent: int) -> None:
    """From here on this process dies when its parent does."""
    checked(libc.prctl(DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0), "the death signal")
    if os.getppid() != parent:
        os._exit(70)


def row(control, libc, seccomp: bytes, head: dict) -> None:
    """The watcher: reads a program, lets a child run it, writes the answer; does not return."""
    request, me = bytearray(), os.getpid()
    while len(request) < head["size"]:
        if not (part := control.read(head["size"] - len(request))):
            os._exit(70)
        request += part
    output, result = os.pipe(), os.pipe()
    number = os.fork()
    if number == 0:
        tie(libc, me)
        child(libc, seccomp, head, bytes(request), output[1], result[1])
    for pipe in (output[1], result[1]):
        os.close(pipe)
    answer = watch(number, output[0], result[0], head)
    os.write(1, json.dumps(answer).encode() + b"\n")
    os._exit(0)


def serve() -> None:
    """Program after program, until the input ends or a watcher fails: half a program may lie there."""
    import gc
    import resource  # noqa: F401  here, so that no child has to read it from disk

    gc.freeze()  # a collection in a child would copy all of the guard's memory
    control, libc = os.fdopen(os.dup(0), "rb", buffering=0), ctypes.CDLL(None, use_errno=True)
    seccomp, me, status = base64.b64decode(control.readline()), os.getpid(), 0
    while not status and (line := control.readline()):
        number = os.fork()
        if number == 0:
            try:
                tie(libc, me)
                row(control, libc, seccomp, json.loads(line))
            finally:
                os._exit(70)
        _, status = os.waitpid(number, 0)


def once(path: str) -> None:
    text = told(sys.stdin.buffer.read())
    with open(path, "w") as file:
        file.write(text)


if __name__ == "__main__":
    if sys.argv[1] == "probe":
        sys.stdout.write(f"{ctypes.CDLL(None, use_errno=True).syscall(CREATE_RULESET, None, 0, 1)}\n")
    elif sys.argv[1] == "serve":
        serve()
    else:
        once(sys.argv[2])
