"""Attempts to get out of both sandboxes: to files, environment, network, processes, memory, and other programs' results.

Every attempt is judged from outside: by a secret that must not come back, files that must not change, a door on which nobody
must knock, processes that must not be left, and the program after it, which must get its own right answer.
"""

import os
import socket
import time
from pathlib import Path

import pytest

from arl_mini.trust import Hardened, Limits, Subset, Unconfined, missing

SECRET = "swordfish-7319"
SMALL = Limits(seconds=0.6, memory=48_000_000, output=4000)
BOXES = [
    Subset,
    pytest.param(Hardened, marks=pytest.mark.skipif(bool(missing()), reason=f"this machine lacks {missing()}")),
]

# Names in capitals are filled in: FOLDER (holds `secret` and `link`), PORT, PARENT (this process).
ATTEMPTS = {
    # files
    "read a file": "open('FOLDER/secret').read()",
    "read through os": "import os\nf = os.open('FOLDER/secret', os.O_RDONLY)\nos.read(f, 100).decode()",
    "read through io": "import io\nio.open('FOLDER/secret').read()",
    "read through pathlib": "import pathlib\npathlib.Path('FOLDER/secret').read_text()",
    "read through codecs": "import codecs\ncodecs.open('FOLDER/secret').read()",
    "read through the loader": "__loader__.get_data('FOLDER/secret').decode()",
    "read through linecache": "import linecache\nlinecache.getlines('FOLDER/secret')",
    "read through a symlink": "open('FOLDER/link').read()",
    "make a symlink out": "import os\nos.symlink('FOLDER/secret', '/tmp/out')\nopen('/tmp/out').read()",
    "make a hard link": "import os\nos.link('FOLDER/secret', 'FOLDER/made')",
    "climb up from here": "open('../../../../../../FOLDER/secret').read()",
    "list a folder": "import os\n[e for e in os.listdir('FOLDER')]",
    "walk the disk": "import os\n[f for f in next(os.walk('FOLDER'))[2]]",
    "look for a file": "import os\nos.stat('FOLDER/secret').st_size == 14 and 'swordfish' + '-7319'",
    "write a file": "open('FOLDER/made', 'w').write('x')",
    "overwrite a file": "open('FOLDER/secret', 'w').write('gone')",
    "delete a file": "import os\nos.remove('FOLDER/secret')",
    "change rights": "import os\nos.chmod('FOLDER/secret', 0o777)\nopen('FOLDER/secret', 'a').write('x')",
    "rename a file": "import os\nos.rename('FOLDER/secret', 'FOLDER/made')",
    "read the parent's memory map": "open('/proc/PARENT/environ').read()",
    "read its own environment": "open('/proc/self/environ').read()",
    "read its descriptors": "import os\n[os.read(n, 1000).decode() for n in range(20) if n not in (0, 1, 2)]",
    "write to every descriptor": "import os\nfor n in range(4, 64):\n  try: os.write(n, b'x')\n  except OSError: pass",
    # environment and process
    "environment": "import os\nstr(dict(os.environ))",
    "environment by name": "import os\nos.getenv('ARL_SECRET')",
    "environment through ctypes": "import ctypes\nctypes.CDLL(None).getenv.restype = ctypes.c_char_p\nctypes.CDLL(None).getenv(b'ARL_SECRET').decode()",
    "leave": "import os\nos._exit(0)",
    "leave politely": "import sys\nsys.exit(0)",
    "kill itself": "import os\nos.kill(os.getpid(), 9)",
    "kill the parent": "import os\nos.kill(PARENT, 9)",
    "kill the guard": "import os\nos.kill(os.getppid(), 9)",
    "kill the group": "import os\nos.killpg(os.getpgid(PARENT), 9)",
    "kill everybody": "import os\nos.kill(-1, 9)",
    "stop the parent": "import os, signal\nos.kill(PARENT, signal.SIGSTOP)",
    "ignore all signals": "import signal\nfor n in range(1, 32):\n  try: signal.signal(n, signal.SIG_IGN)\n  except Exception: pass\nwhile True: pass",
    # processes
    "fork": "import os\npid = os.fork()\nif pid == 0:\n  while True: pass\npid",
    "fork bomb": "import os\nwhile True: os.fork()",
    "fork through ctypes": "import ctypes\nlibc = ctypes.CDLL(None)\npid = libc.fork()\nif pid == 0:\n  while True: pass\npid > 0 and 'swordfish' + '-7319'",
    "a child that stays": "import os\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0:\n    import time\n    time.sleep(60)",
    "shell": "import os\nos.system('touch FOLDER/made')",
    "shell through ctypes": "import ctypes\nctypes.CDLL(None).system(b'touch FOLDER/made')",
    "subprocess": "import subprocess\nsubprocess.run(['touch', 'FOLDER/made'])",
    "exec": "import os\nos.execv('/bin/touch', ['touch', 'FOLDER/made'])",
    "threads": "import _thread\ndef f():\n  while True: pass\nfor i in range(100): _thread.start_new_thread(f, ())\n'swordfish' + '-7319'",
    # network
    "connect": "import socket\nsocket.create_connection(('127.0.0.1', PORT))",
    "connect through _socket": "import _socket\ns = _socket.socket(2, 1)\ns.connect(('127.0.0.1', PORT))",
    "connect through ctypes": "import ctypes\nlibc = ctypes.CDLL(None)\nf = libc.socket(2, 1, 0)\nlibc.connect(f, bytes([2, 0, PORT >> 8, PORT & 255, 127, 0, 0, 1]) + bytes(8), 16)",
    "fetch": "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:PORT/').read()",
    # memory, time, output
    "a large text": "'x' * 10**10",
    "a large list": "[0] * 10**9",
    "a list that grows": "x = []\nwhile True: x.append('y' * 10**6)",
    "a large number": "9 ** 9 ** 9",
    "a loop": "while True: pass",
    "a long sleep": "import time\ntime.sleep(30)",
    "deep recursion": "def f(n): return f(n + 1)\nf(0)",
    "deep recursion allowed": "import sys\nsys.setrecursionlimit(10**8)\ndef f(n): return f(n + 1)\nf(0)",
    "endless output": "while True: print('x' * 1000)",
    "endless errors": "import sys\nwhile True: print('x' * 1000, file=sys.stderr)",
    "a slow pattern": "import re\nre.match('(a+)+$', 'a' * 40 + 'b')",
    "a deep value": "x = []\nfor i in range(100000): x = [x]\nx",
    "a value that unfolds": "x = [0] * 10\nfor i in range(11): x = [x] * 10\nx",
    "a text many times over": "x = 'y' * 100000\n[x] * 100000",
    "a number many times over": "x = 10 ** 4000\n[x] * 100000",
    "a forged value of great depth": "import os\nos.write(3, b'{\"status\": \"ok\", \"value\": ' + b'[' * 90000 + b']' * 90000 + b'}')\nos._exit(0)",
    "a forged value that is no text": "import os\nos.write(3, bytes(range(256)) * 100)\nos._exit(0)",
    "a forged status": "import os\nos.write(3, b'{\"status\": [], \"error\": {}}')\nos._exit(0)",
    "stay after closing all": "import os\nfor n in range(4): os.close(n)\nwhile True: pass",
    "no exit": "import os\nos._exit = lambda *_: None\nraise ValueError",
    "an error that cannot be told": "class E(Exception):\n  def __str__(self): raise self\nraise E()",
    "a crash": "import ctypes\nctypes.string_at(0)",
    "raise the limits": "import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))\nx = 'y' * 10**9\n'swordfish' + '-7319'",
    # object graphs and pickles
    "subclasses": "[c for c in ().__class__.__base__.__subclasses__() if c.__name__ == 'Popen'][0](['touch', 'FOLDER/made'])",
    "os from a function's globals": "(lambda: 0).__globals__['__builtins__'].__import__('os').system('touch FOLDER/made')",
    "modules already there": "import sys\nsys.modules['os'].system('touch FOLDER/made')",
    "builtins of a frame": "import sys\nsys._getframe(1).f_builtins['open']('FOLDER/secret').read()",
    "garbage": "import gc\n[o for o in gc.get_objects() if isinstance(o, str) and o.startswith('swordfish')][0]",
    "a pickle": "import pickle\npickle.loads(b\"cos\\nsystem\\n(S'touch FOLDER/made'\\ntR.\")",
    "compiled code": "import types\nexec(compile(\"open('FOLDER/secret').read()\", '', 'eval'))\neval(\"open('FOLDER/secret').read()\")",
    "undo the filter": "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.prctl(22, 0, 0, 0, 0)\nlibc.prctl(38, 0, 0, 0, 0)\nopen('FOLDER/secret').read()",
    "trace the parent": "import ctypes\nctypes.CDLL(None).ptrace(16, PARENT, 0, 0) == 0 and 'swordfish' + '-7319'",
    "read another's memory": "import ctypes\nctypes.CDLL(None).process_vm_readv(PARENT, 0, 0, 0, 0, 0) == 0 and 'swordfish' + '-7319'",
}  # fmt: skip


@pytest.fixture(params=BOXES, ids=lambda box: box.__name__, scope="module")
def box(request):
    os.environ["ARL_SECRET"] = SECRET
    with request.param(SMALL) as made:
        del os.environ["ARL_SECRET"]
        yield made


@pytest.fixture
def outside(tmp_path):
    """A folder with a secret, a link to it and a listening port."""
    (tmp_path / "home").mkdir()
    secret = tmp_path / "home" / "secret"
    secret.write_text(SECRET)
    (tmp_path / "home" / "link").symlink_to(secret)
    with socket.create_server(("127.0.0.1", 0)) as door:
        door.settimeout(0)
        yield tmp_path / "home", door


def children() -> set[str]:
    """Processes of the guards' sessions: everything that a program could have left."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rsplit(")", 1)[1].split()
            command = (entry.parent / "cmdline").read_text()
        except OSError:
            continue
        if "guard.py" in command and fields[0] != "Z":
            found.add(entry.parent.name)
    return found


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_no_way_out(box, outside, attempt):
    folder, door = outside
    code = ATTEMPTS[attempt].replace("FOLDER", str(folder)).replace("PORT", str(door.getsockname()[1]))
    box.run("0")
    before = children()
    outcome = box.run(code.replace("PARENT", str(os.getpid())))
    seen = f"{outcome.value} {outcome.output} {outcome.error}"
    assert SECRET not in seen and len(outcome.output) <= SMALL.output and outcome.seconds < SMALL.seconds + 3
    assert {p.name for p in folder.iterdir()} == {"secret", "link"} and (folder / "secret").read_text() == SECRET
    with pytest.raises(BlockingIOError):
        door.accept()
    after = box.run("[word[::-1] for word in words]", {"words": ["ab", "cd"]})
    assert (after.status, after.value) == ("ok", ["ba", "dc"]), "the next program gets its own answer"
    until = time.monotonic() + 1  # a watcher that has told its answer still has to end
    while before and len(children()) > len(before):
        assert time.monotonic() < until, "nothing is left running"


def test_there_are_enough_attempts():
    assert len(ATTEMPTS) >= 40


HARMLESS = ("read a file", "read through os", "read through a symlink", "look for a file", "environment", "environment by name")


@pytest.mark.parametrize("attempt", HARMLESS)
def test_without_a_sandbox_the_attempts_succeed(outside, attempt, monkeypatch):
    """So the suite would notice a way out."""
    monkeypatch.setenv("ARL_SECRET", SECRET)
    with pytest.warns(UserWarning), Unconfined() as box:
        assert SECRET in str(box.run(ATTEMPTS[attempt].replace("FOLDER", str(outside[0]))).value)


def test_without_a_sandbox_files_are_written_and_doors_knocked_on(outside):
    folder, door = outside
    with pytest.warns(UserWarning), Unconfined() as box:
        for attempt in ("write a file", "shell", "connect"):
            (folder / "made").unlink(missing_ok=True)
            box.run(ATTEMPTS[attempt].replace("FOLDER", str(folder)).replace("PORT", str(door.getsockname()[1])))
            assert attempt == "connect" or (folder / "made").exists()
    door.accept()[0].close()


def test_a_forged_result_is_only_ones_own(box):
    """A program may say what it likes of itself; the rows before and after it keep their own."""
    forged = "import os\nos.write(3, b'{\"status\": \"ok\", \"value\": 42}')\nos._exit(0)"
    outcomes = [box.run(code, {"n": n}) for n, code in enumerate(("n + 1", forged, "n + 1", "print('{\"value\": 7}')\nn"))]
    assert [outcomes[i].value for i in (0, 2, 3)] == [1, 3, 3] and outcomes[1].value in (42, None)


def test_programs_cannot_leave_word_for_each_other(box):
    box.run("import builtins, math\nbuiltins.left = 'swordfish'\nmath.pi = 3\nleft = 1\nprint(left)")
    assert box.run("left").status == "error"
    assert box.run("import math\nmath.pi > 3.1").value is True
