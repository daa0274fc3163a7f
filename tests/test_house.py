"""The rules of the house, held by reading the source. Each rule is also shown a text that breaks it."""

import ast
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILE_LINES, FUNCTION_LINES = 400, 40

# Room → the rooms it stands on. It may import those, and whatever they stand on in turn.
ROOMS = {
    "ops": "",
    "batch": "pictures",
    "pictures": "",
    "files": "",
    "lab": "",
    "models": "batch files",
    "formal": "ops",
    "envs": "pictures",
    "rewards": "ops models",
    "rollout": "batch models",
    "algorithms": "rewards",
    "imitate": "ops batch models",
    "capabilities": "rollout envs algorithms imitate formal",
    "trust": "rollout envs",
    "train": "ops batch models files envs rewards rollout algorithms imitate capabilities trust",
    "evaluate": "train",
    "dissect": "algorithms",
    "warmstarts": "train evaluate formal",
    "experiments": "train evaluate formal",
    "bridges": "train evaluate formal",
    "exercises": "train evaluate formal lab survey_taxonomy",
    "arl_mini": "train evaluate formal",
    "survey_taxonomy": "lab",
}
# Single modules that a room may use beyond that: the worlds' contract, and the tags of the one action format.
CONTRACTS = {
    ("rollout", "arl_mini.envs.base"),
    ("rewards", "arl_mini.envs.base"),
    ("envs", "arl_mini.models.tokenizer"),
    ("envs", "arl_mini.trust.sandbox"),
}
# Libraries that are slow to import or may be absent: imported where they are used, never on import of ours.
PEERS = frozenset(
    "transformers tokenizers trl peft gguf regex accelerate datasets "
    "ray gymnasium minigrid sklearn pydantic_monty pyseccomp stable_baselines3 verifiers openenv".split()
)
LATE = {"lab": {"torch"}}  # nor this, in these rooms
TORCH = frozenset({"torch", "numpy"})
SCREEN = frozenset({"numpy", "pandas", "matplotlib", "matplotlib_inline", "cycler"}) | frozenset(
    {"IPython", "ipywidgets", "anywidget", "traitlets"}
)
LIBRARIES = dict.fromkeys(ROOMS, TORCH) | {
    "files": frozenset(),
    "envs": frozenset({"minigrid", "numpy", "sklearn"}),  # a world's own library is added here by name
    "lab": SCREEN | {"torch"},  # asked only whether there is a GPU
    "trust": TORCH | {"pydantic_monty", "pyseccomp"},
    "models": TORCH | {"safetensors", "transformers", "tokenizers", "peft", "gguf", "regex"},
    "bridges": TORCH | PEERS,
    "survey_taxonomy": SCREEN | {"yaml", "jsonschema", "pandera"},
}


@dataclass(frozen=True)
class Import:
    """One imported name. lazy: inside a function."""

    name: str  # dotted and absolute
    lazy: bool
    line: int


def module_name(path: str) -> str:
    """'arl_mini/models/tiny.py' → 'arl_mini.models.tiny'; a package is named by its folder."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imports(path: str, source: str) -> list[Import]:
    """Everything a file imports; what only a type checker sees (`if TYPE_CHECKING:`) is left out."""
    package = module_name(path).split(".")
    if not path.endswith("/__init__.py"):
        package = package[:-1]
    found = []

    def visit(node: ast.AST, lazy: bool) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.Import):
            found.extend(Import(alias.name, lazy, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            found.extend(Import(f"{stem}.{alias.name}", lazy, node.lineno) for alias in node.names)
        for child in ast.iter_child_nodes(node):
            visit(child, lazy or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))

    visit(ast.parse(source), False)
    return found


def room_of(module: str) -> str:
    """The room a dotted name of ours belongs to."""
    top, _, rest = module.partition(".")
    return top if top == "survey_taxonomy" or not rest else rest.split(".")[0]


def stands_on(room: str) -> set[str]:
    """The room and all it may import of ours."""
    return {room}.union(*(stands_on(below) for below in ROOMS[room].split()))


def import_faults(path: str, source: str) -> list[str]:
    """Imports against the table above, and peers imported before they are needed."""
    room = room_of(module_name(path))
    if room not in ROOMS:
        return [f"{path}: the room {room!r} is not in the table of tests/test_house.py"]
    faults = []
    for found in imports(path, source):
        top = found.name.split(".")[0]
        where = f"{path}:{found.line}"
        if top in ("arl_mini", "survey_taxonomy"):
            contract = any(room == r and f"{found.name}.".startswith(f"{m}.") for r, m in CONTRACTS)
            if room_of(found.name) not in stands_on(room) and not contract:
                faults.append(f"{where}: {room} may not import {found.name}")
        elif top not in sys.stdlib_module_names:
            if top not in LIBRARIES[room]:
                faults.append(f"{where}: {room} may not import {top}")
            elif top in PEERS | LATE.get(room, set()) and not found.lazy:
                faults.append(f"{where}: import {top} in the function that uses it")
    return faults


def length_faults(path: str, source: str) -> list[str]:
    """Files and function bodies (docstring left out) that are too long."""
    lines = len(source.splitlines())
    faults = [f"{path}: {lines} lines, at most {FILE_LINES}"] if lines > FILE_LINES else []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            long = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            if long > FUNCTION_LINES:
                faults.append(f"{path}:{node.lineno}: {node.name} has {long} lines, at most {FUNCTION_LINES}")
    return faults


def name_faults(path: str, source: str) -> list[str]:
    """Drawers for everything."""
    return [f"{path}: name it after what it does"] if Path(path).stem in ("utils", "helpers") else []


def _is_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


def print_faults(path: str, source: str) -> list[str]:
    """`print` in the library: only `__main__.py`, a `__main__` guard and the `main()` it calls may speak."""
    if path.endswith("__main__.py"):
        return []
    tree = ast.parse(source)
    if any(map(_is_guard, tree.body)):
        tree.body = [n for n in tree.body if not _is_guard(n) and getattr(n, "name", "") != "main"]
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    return [f"{path}:{n.lineno}: print" for n in calls if ast.unparse(n.func) == "print"]


OWN_GENERATORS = {"Random", "SystemRandom", "default_rng", "Generator", "SeedSequence", "PCG64", "Philox"}
SETTINGS = {
    "torch.manual_seed",
    "torch.random.manual_seed",
    "torch.seed",
    "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all",
    "torch.set_default_dtype",
    "torch.set_default_device",
    "torch.set_num_threads",
    "transformers.set_seed",
    "transformers.enable_full_determinism",
    "logging.basicConfig",
}


def global_state_faults(path: str, source: str) -> list[str]:
    """Seeds and settings of the whole process; draws from the generators that random and numpy share."""
    if path == "arl_mini/trust/guard.py":
        return []  # a process of its own, which fixes chance for the program that it is about to run
    names = {}
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {a.asname or a.name.split(".")[0]: a.name if a.asname else a.name.split(".")[0]
                      for a in node.names}  # fmt: skip
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    faults = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        first, dot, rest = ast.unparse(node.func).partition(".")
        called = names.get(first, f"?{first}") + dot + rest
        home, _, last = called.rpartition(".")
        if called in SETTINGS or (home in ("random", "numpy.random") and last not in OWN_GENERATORS):
            faults.append(f"{path}:{node.lineno}: {called} changes or draws from global state")
    return faults


def shift_faults(path: str, source: str) -> list[str]:
    """`[:, 1:]` and `[:, :-1]`: only models/score.py shifts tokens against what scores them."""
    if path == "arl_mini/models/score.py":
        return []
    shifts = {":, 1:", ":, :-1"}
    found = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Subscript)]
    return [f"{path}:{n.lineno}: shifts by one" for n in found if ast.unparse(n.slice).strip("()") in shifts]


def files(*folders: str) -> list[str]:
    """The Python files below folders of the checkout, by path from its root."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


LIBRARY = files("arl_mini", "survey_taxonomy")
# the chapters' sources are mostly prose, as long as their chapter
WRITTEN = [p for p in files("arl_mini", "survey_taxonomy", "notebooks", "tests") if "notebooks/src/" not in p]
RULES = [
    (import_faults, LIBRARY),
    (length_faults, WRITTEN),
    (name_faults, WRITTEN),
    (print_faults, LIBRARY),
    (global_state_faults, LIBRARY),
    (shift_faults, LIBRARY),
]


@pytest.mark.parametrize("rule, paths", RULES, ids=[rule.__name__ for rule, _ in RULES])
def test_the_house_keeps(rule, paths):
    sources = {path: (ROOT / path).read_text(encoding="utf-8") for path in paths}
    assert sources
    faults = [fault for path, source in sources.items() for fault in rule(path, source)]
    assert not faults, "\n" + "\n".join(faults)


WORLD, LOSS, LAB = "arl_mini/envs/quest.py", "arl_mini/ops.py", "arl_mini/lab/curves.py"
BROKEN = [
    (import_faults, LOSS, "from .models.tiny import TinyLM"),
    (import_faults, LOSS, "from . import batch"),
    (import_faults, LOSS, "def f():\n    import arl_mini.models"),
    (import_faults, "arl_mini/models/__init__.py", "from ..train import train"),
    (import_faults, "arl_mini/models/hf.py", "import transformers"),
    (import_faults, "arl_mini/models/hf.py", "if True:\n    from peft import LoraConfig"),
    (import_faults, "arl_mini/bridges/trl.py", "from trl import GRPOTrainer"),
    (import_faults, "arl_mini/rollout.py", "def f():\n    import transformers"),
    (import_faults, "arl_mini/rollout.py", "from .envs.quest import Quest"),
    (import_faults, "arl_mini/rollout.py", "from . import GRPO"),
    (import_faults, WORLD, "import torch"),
    (import_faults, WORLD, "from ..models.tiny import TinyLM"),
    (import_faults, LAB, "import torch"),
    (import_faults, LAB, "def f():\n    import trl"),
    (import_faults, LAB, "from ..train import Record"),
    (import_faults, "survey_taxonomy/load.py", "from arl_mini.train import train"),
    (import_faults, "arl_mini/attic.py", ""),
    (length_faults, LOSS, "\n" * 401),
    (length_faults, LOSS, "def f():\n    '''Doc.'''\n" + "    x = 1\n" * 41),
    (length_faults, LOSS, "class A:\n    async def f(self):\n" + "        x = 1\n" * 41),
    (name_faults, "arl_mini/utils.py", ""),
    (name_faults, "tests/envs/helpers.py", ""),
    (print_faults, LOSS, "def f():\n    print(1)"),
    (print_faults, LOSS, "def main():\n    print(1)"),
    (print_faults, LOSS, "def f():\n    print(1)\nif __name__ == '__main__':\n    f()"),
    (global_state_faults, LOSS, "import torch\ntorch.manual_seed(0)"),
    (global_state_faults, LOSS, "from torch import manual_seed as m\nm(0)"),
    (global_state_faults, LOSS, "import numpy as np\nnp.random.seed(0)"),
    (global_state_faults, LOSS, "import numpy.random\nnumpy.random.rand(3)"),
    (global_state_faults, LOSS, "import random\nrandom.seed(0)"),
    (global_state_faults, LOSS, "from random import choice\nchoice([1])"),
    (global_state_faults, LOSS, "import logging\nlogging.basicConfig()"),
    (shift_faults, LOSS, "y = x[:, 1:]"),
    (shift_faults, LOSS, "y = x.logits[:, :-1].sum()"),
]


@pytest.mark.parametrize("rule, path, source", BROKEN, ids=lambda part: getattr(part, "__name__", None))
def test_a_broken_rule_is_found(rule, path, source):
    assert len(rule(path, source)) == 1


KEPT = [
    (import_faults, LOSS, "import math\nimport torch\nfrom torch import Tensor"),
    (import_faults, "arl_mini/models/hf.py", "def f():\n    import peft\n    from .. import batch"),
    (import_faults, "arl_mini/algorithms/grpo.py", "from .. import ops\nfrom ..models.score import Scores"),
    (import_faults, "arl_mini/rollout.py", "from .envs.base import Env"),
    (import_faults, LAB, "import typing as t\nif t.TYPE_CHECKING:\n    from .. import train"),
    (length_faults, LOSS, "def f():\n    '''Doc.'''\n" + "    x = 1\n" * 40),
    (print_faults, "survey_taxonomy/__main__.py", "print(1)"),
    (print_faults, LOSS, "def main():\n    print(1)\nif __name__ == '__main__':\n    main()"),
    (global_state_faults, LOSS, "import torch\ng = torch.Generator().manual_seed(0)"),
    (global_state_faults, LOSS, "import random\nr = random.Random(0)\nr.choice([1])"),
    (global_state_faults, LOSS, "import numpy as np\nr = np.random.default_rng(0)\nr.random()"),
    (shift_faults, "arl_mini/models/score.py", "y = x[:, 1:]"),
    (shift_faults, LOSS, "y = x[1:], x[:, -1:]"),
]


@pytest.mark.parametrize("rule, path, source", KEPT, ids=lambda part: getattr(part, "__name__", None))
def test_a_kept_rule_is_let_pass(rule, path, source):
    assert rule(path, source) == []


HEAVY = ("transformers", "trl", "peft", "tokenizers", "matplotlib", "ipywidgets", "pandas")


def cost_after_torch(statement: str) -> tuple[float, list[str]]:
    """Seconds that a statement takes in a fresh Python after `import torch`; heavy modules loaded then."""
    program = (
        "import json, sys, time, torch\nstart = time.perf_counter()\n"
        f"{statement}\nseconds = time.perf_counter() - start\n"
        f"print(json.dumps([seconds, [m for m in {HEAVY} if m in sys.modules]]))"
    )
    said = subprocess.check_output([sys.executable, "-c", program], cwd=ROOT, text=True)
    seconds, loaded = json.loads(said)
    return seconds, loaded


def test_import_is_light():
    trials = [cost_after_torch("import arl_mini") for _ in range(3)]
    assert all(loaded == [] for _, loaded in trials)
    assert min(seconds for seconds, _ in trials) < 2.0  # the least: other processes only add to it


def test_a_heavy_import_is_found():
    seconds, loaded = cost_after_torch("import matplotlib, time\ntime.sleep(0.2)")
    assert loaded == ["matplotlib"]
    assert seconds > 0.2
