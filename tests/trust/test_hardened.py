"""What is kept apart: rows from rows, programs from the kernel, answers from interruptions and forks."""

import json
import os
import platform
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from arl_mini.trust import Hardened, Limits, Subset, cpython, guard, missing

NEEDED = pytest.mark.skipif(bool(missing()), reason=f"this machine lacks {missing()}")
BOTH = pytest.mark.parametrize("make", [Subset, pytest.param(Hardened, marks=NEEDED)])


@pytest.fixture
def box():
    with Hardened(Limits(seconds=1.0)) as made:
        yield made


def below(number: int) -> list[int]:
    """The processes under a process, nearest first."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rsplit(")", 1)[1].split()[1]) == number:
                found.append(int(stat.parent.name))
        except OSError:
            continue
    return found + [under for process in found for under in below(process)]


def while_it_sleeps(box, look):
    """What `look` finds in the processes below the guard while a program sleeps, and the outcome."""
    box.run("1")
    outcomes, the_guard = [], box._guard
    thread = threading.Thread(target=lambda: outcomes.append(box.run("import time\ntime.sleep(600)")))
    thread.start()
    time.sleep(0.5)
    seen = look(the_guard, below(the_guard.pid))
    thread.join()
    return seen, outcomes[0]


@NEEDED
def test_no_row_finds_anothers_answer(box):
    box.run("print('sword' + 'fish-output')\n'sword' + 'fish-value'")
    search = """
import gc, sys
frame, seen = sys._getframe(), []
while frame:
    seen += [repr(v) for k, v in frame.f_locals.items() if k not in ('code', 'asked', 'request', 'tree')]
    frame = frame.f_back
seen += [repr(o) for o in gc.get_objects() if type(o) in (list, dict, tuple) and len(o) < 1000]
found = ' '.join(seen)
['sword' + 'fish' in found, 'c3dvc' + 'mRma' in found, 'control' in found and len(found) > 10000]
"""
    outcome = box.run(search)
    assert outcome.value == [False, False, True], outcome


@NEEDED
def test_the_kernel_holds_the_child(box):
    def status(_, processes):
        lines = Path(f"/proc/{processes[-1]}/status").read_text().splitlines()
        return dict(line.split(":\t") for line in lines)

    held, outcome = while_it_sleeps(box, status)
    assert outcome.status == "timeout"
    assert (held["Seccomp"], held["NoNewPrivs"]) == ("2", "1")
    assert int(held["CapEff"], 16) == int(held["CapPrm"], 16) == 0


@NEEDED
def test_everything_dies_with_the_guard(box):
    def kill(the_guard, processes):
        the_guard.kill()
        time.sleep(0.3)
        return processes, [n for n in processes if Path(f"/proc/{n}/cmdline").exists() and guard_runs(n)]

    (before, after), outcome = while_it_sleeps(box, kill)
    assert len(before) == 2 and after == [] and outcome.status == "error" and outcome.seconds < 3
    assert box.run("7").value == 7


def guard_runs(number: int) -> bool:
    try:
        return b"guard.py" in Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        return False


CALLS = (
    "io_uring_setup userfaultfd memfd_create bpf ptrace process_vm_readv process_vm_writev pidfd_open "
    "prctl seccomp keyctl clone clone3 unshare setns mount ioctl fcntl dup openat openat2 "
    "open_by_handle_at kill tgkill madvise perf_event_open socket pipe2 execve prlimit64 capset statx "
    "landlock_create_ruleset mlock shmget sched_setscheduler"
).split()


@NEEDED
def test_other_system_calls_are_refused(box):
    import pyseccomp

    assert not set(CALLS) & set(cpython.ALLOWED)
    numbers = [pyseccomp.resolve_syscall(pyseccomp.system_arch(), name) for name in CALLS]
    code = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nbad = [ctypes.c_long(-1)] * 6\n"
    code += "[(libc.syscall(n, *bad), ctypes.get_errno()) for n in numbers]"
    outcome = box.run(code, {"numbers": numbers})
    assert outcome.value == [[-1, 1]] * len(numbers)


@NEEDED
@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64 alone has two more sets")
def test_the_other_sets_of_system_calls_are_deadly(box):
    x32 = "import ctypes\nctypes.CDLL(None).syscall(0x40000000 + 39)"
    machine = (
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.mmap.restype = ctypes.c_void_p\n"
        "place = libc.mmap(None, ctypes.c_size_t(4096), 7, 0x22, -1, ctypes.c_long(0))\n"
        "ctypes.memmove(place, bytes.fromhex(code), len(code) // 2)\nctypes.CFUNCTYPE(ctypes.c_long)(place)()"
    )
    assert box.run(machine, {"code": "b827000000" + "0f05" + "c3"}).value > 0, "getpid, as everybody calls it"
    for code, inputs in ((x32, {}), (machine, {"code": "b814000000" + "cd80" + "c3"})):
        assert f"exit status -{signal.SIGSYS}" in box.run(code, inputs).error


@NEEDED
def test_a_program_stopped_before_it_was_read_leaves_nothing_in_the_pipe():
    with Hardened(Limits(seconds=0.02)) as box:
        box.run("1")
        before = box._guard.pid
        large = box.run("1", {"x": "y" * 10_000_000})
        assert large.status in ("ok", "timeout") and large.seconds < 3
        assert box._guard.pid == before, "the guard could read on where the next program begins"


@NEEDED
def test_a_request_that_the_guard_did_not_live_to_read_costs_one_program(box):
    box.run("1")
    box._guard.kill()
    box._guard.wait()
    box._guard.poll = lambda: None  # it died after it was asked how it was
    assert box.run("2").status == "error"
    assert box.run("3").value == 3


@BOTH
def test_an_interrupted_row_does_not_answer_for_the_next(make):
    def interrupt(*_):
        raise KeyboardInterrupt

    with make(Limits(seconds=0.8)) as box:
        box.run("1")
        before = signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            with pytest.raises(KeyboardInterrupt):
                box.run("i = 0\nwhile i >= 0: i += 1\n'first'")
        finally:
            signal.signal(signal.SIGALRM, before)
        assert box.run("'second'").value == "second"


@BOTH
def test_texts_can_be_saved(make):
    with make() as box:
        for code in ("HALF", "raise ValueError(HALF)", "print(HALF)", "{HALF: 1}"):
            outcome = box.run(code.replace("HALF", "chr(0xd800)"))
            json.dumps([outcome.value, outcome.output, outcome.error], ensure_ascii=False).encode()


def test_a_trickle_does_not_stop_the_clock(monkeypatch):
    sleeper = subprocess.Popen(["sleep", "60"])
    monkeypatch.setattr(guard.select, "select", lambda pipes, *_: (pipes, [], []))
    monkeypatch.setattr(guard.os, "read", lambda *_: b"x")
    began = time.perf_counter()
    head = {"output": 10**9, "value": 10**9, "seconds": 0.1}
    assert guard.watch(sleeper.pid, 100, 101, head)["stopped"] == "timeout"
    assert time.perf_counter() - began < 3
    sleeper.returncode = -signal.SIGKILL  # the guard has waited for it


def test_the_subset_names_what_its_worker_died_of():
    with Subset(Limits(seconds=0.3)) as box:
        assert box.run("x = 3 ** 100000\nfor i in range(100): x = x * x\n1").status == "timeout"
        assert box.run("1").value == 1
    with Subset(Limits(seconds=8, memory=8_000_000)) as box:
        assert box.run("x = [0] * 10\nfor i in range(8): x = [x] * 10\nlen(str(x))").status == "memory"
        assert box.run("1").value == 1


@BOTH
def test_a_fork_neither_hangs_nor_takes_answers(make):
    """The fork happens while a row runs, so that the lock is held."""
    with make(Limits(seconds=1.0)) as box:
        box.run("1")
        rows = []
        counting = "i = 0\nwhile i < 10 ** 6: i += 1\n'mine'"
        thread = threading.Thread(target=lambda: rows.append(box.run(counting)))
        thread.start()
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            try:
                good = [box.run("n", {"n": n}).value for n in range(3)] == [0, 1, 2]
            except RuntimeError as error:
                good = make is Subset and "hint: start processes by 'spawn'" in str(error)
            box.close()
            os._exit(0 if good else 1)
        thread.join()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert rows[0].value == "mine" and box.run("5").value == 5


@NEEDED
def test_many_programs_leave_nothing(box):
    box.run("1")
    the_guard = box._guard.pid

    def held():
        return [threading.active_count(), *(len(os.listdir(f"/proc/{n}/fd")) for n in (os.getpid(), the_guard))]

    before = held()
    for n in range(200):
        assert box.run("n", {"n": n}).value == n
    time.sleep(0.2)  # the last row's alarm and watcher still have to end
    assert all(now <= then for now, then in zip(held(), before, strict=True)), (held(), before)
    assert box._guard.pid == the_guard and below(the_guard) == []
