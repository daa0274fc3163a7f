"""pyproject.toml, constraints.txt, environment.yml, the Makefile and the README say the same."""

import ast
import importlib.metadata
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests import conftest

ROOT = Path(__file__).parents[1]
INSTALL = '-c constraints.txt -e ".[all]"'

# Import names that differ from the name of the distribution, or that a declared one always brings along.
BROUGHT_BY = {
    "cycler": "matplotlib",
    "datasets": "trl",
    "IPython": "ipykernel",
    "jupyter_client": "nbclient",
    "matplotlib_inline": "ipykernel",
    "PIL": "matplotlib",
    "sklearn": "scikit-learn",
    "traitlets": "ipywidgets",
    "yaml": "pyyaml",
}


def requirements(project: dict) -> list[Requirement]:
    """Every direct dependency, extras included, the project's own name left out."""
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    found = [Requirement(line) for group in groups for line in group]
    return [r for r in found if r.name != project["name"]]


def pins(lines: list[str]) -> dict[str, str]:
    """Name → version of the `name==version` lines; other lines must be comments or options."""
    found = {}
    for line in lines:
        name, equals, version = line.partition("==")
        if equals:
            found[canonicalize_name(name)] = version
        elif line and line[0] not in "#-":
            raise ValueError(f"{line!r} pins nothing; expected name==version")
    return found


def pin_faults(direct: list[Requirement], pinned: dict[str, str]) -> list[str]:
    """Direct dependencies that are not pinned, or pinned outside their bound."""
    faults = []
    for requirement in direct:
        version = pinned.get(canonicalize_name(requirement.name))
        if version is None:
            faults.append(f"{requirement.name} is not pinned")
        elif not requirement.specifier.contains(version, prereleases=True):
            faults.append(f"{requirement.name}=={version} is outside {requirement.specifier}")
    return faults


def environment_pins(text: str) -> dict[str, str]:
    """The pins in the pip part of an environment.yml."""
    parts = yaml.safe_load(text)["dependencies"]
    return pins(next(part["pip"] for part in parts if isinstance(part, dict)))


def pulled_in(names: set[str]) -> set[str]:
    """The distributions that are installed here because the named ones, directly or not, require them."""
    seen, waiting = set(), set(names)
    while waiting:
        name = waiting.pop()
        seen.add(name)
        for line in importlib.metadata.distribution(name).requires or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting |= {canonicalize_name(requirement.name)} - seen
    return seen


def third_party(source: str) -> set[str]:
    """First names of the absolute imports anywhere in a source text, Python's own left out."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names) - {"arl_mini", "survey_taxonomy", "notebooks", "tests"}


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def locked():
    return pins((ROOT / "constraints.txt").read_text().splitlines())


def test_every_direct_dependency_is_pinned_within_its_bound(project, locked):
    assert pin_faults(requirements(project), locked) == []


def test_bounds_are_open(project):
    assert {s.operator for r in requirements(project) for s in r.specifier} == {">="}


@pytest.mark.parametrize("line, fault", [("a>=2", "outside"), ("b>=1", "not pinned")])
def test_a_wrong_pin_is_found(line, fault):
    (found,) = pin_faults([Requirement(line)], {"a": "1.0"})
    assert fault in found


def test_the_lock_is_full_and_fits_every_machine(project, locked):
    names = {canonicalize_name(r.name) for r in requirements(project)}
    # torch itself names the exact CUDA builds that it needs, and only where it needs them
    unpinned = {n for n in pulled_in(names) - set(locked) if not n.startswith(("nvidia-", "cuda-", "triton"))}
    assert unpinned == set()
    assert locked["torch"] == "2.13.0"
    assert [n for n, version in locked.items() if "+" in version or n.startswith("nvidia")] == []
    assert {"colorama", "pywinpty"} <= set(locked)


def test_environment_yml_has_the_same_pins(project, locked):
    text = (ROOT / "environment.yml").read_text()
    found = environment_pins(text)
    assert found == {n: locked[n] for n in (canonicalize_name(r.name) for r in requirements(project))}
    parts = yaml.safe_load(text)["dependencies"]
    python = next(p for p in parts if isinstance(p, str) and p.startswith("python=")).partition("=")[2]
    assert Requirement(f"python{project['requires-python']}").specifier.contains(Version(python))
    options = [line for line in parts[-1]["pip"] if line.startswith("-")]
    assert options == ["-c constraints.txt", "-e .[all]"]


def test_a_line_that_pins_nothing_is_found():
    with pytest.raises(ValueError, match="pins nothing"):
        pins(["torch>=2"])


def test_every_import_is_declared(project):
    declared = {canonicalize_name(r.name) for r in requirements(project)}
    folders = [ROOT / n for n in ("arl_mini", "survey_taxonomy", "notebooks", "tests")]
    missing = {}
    for path in (p for folder in folders for p in folder.rglob("*.py") if "bridges" not in p.parts):
        for name in third_party(path.read_text(encoding="utf-8")):
            if canonicalize_name(BROUGHT_BY.get(name, name)) not in declared:
                missing.setdefault(name, str(path.relative_to(ROOT)))
    assert missing == {}


def test_an_undeclared_import_is_found():
    assert third_party("import os\ndef f():\n    from left.pad import x\n    from . import y") == {"left"}


def dry_run(target: str) -> str:
    """What `make target` would run."""
    if shutil.which("make") is None:
        pytest.skip("no make on this machine")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(["make", "-n", target], cwd=ROOT, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_make_test_runs_everything_in_order():
    said = dry_run("test")
    steps = ['-m "not slow and not gpu" tests']
    if (ROOT / "survey_taxonomy" / "__main__.py").exists():
        steps.append("-m survey_taxonomy check")
    if list((ROOT / "notebooks").glob("*.ipynb")):
        steps += ["ARL_BUDGET=smoke", "--nbval-lax --nbval-current-env notebooks"]
    places = [said.find(step) for step in steps]
    assert -1 not in places and places == sorted(places), said


def test_ci_calls_make_test():
    script = (ROOT / ".ci" / "run").read_text()
    assert re.search(r"^(PIP_QUIET=1 )?make test$", script, re.MULTILINE)
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def make_targets(makefile: str) -> set[str]:
    return set(re.findall(r"^([a-z]+):.*## ", makefile, re.MULTILINE))


def make_calls(text: str) -> set[str]:
    """Targets that a Markdown text tells its reader to make, in code spans and in fenced blocks."""
    return set(re.findall(r"(?:`|^\$? *)make ([a-z]+)\b", text, re.MULTILINE))


def test_readme_and_makefile_agree():
    makefile = (ROOT / "Makefile").read_text()
    assert INSTALL in makefile
    if not (ROOT / "README.md").exists():
        pytest.skip("no README yet")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert make_calls(readme) <= make_targets(makefile)
    assert {"lab", "test"} <= make_calls(readme)
    assert INSTALL in readme, "the README's steps for Windows install what the Makefile installs"
    assert "environment.yml" in readme


def test_calls_and_targets_are_told_apart():
    assert make_calls("Type `make lab`.\n```\nmake fly\n```\nThey make do.") == {"lab", "fly"}
    assert make_targets("lab: x ## opens\nhidden: y\n") == {"lab"}


def test_citation_names_this_version_and_the_survey(project):
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == project["version"]
    assert "2509.02547" in citation["references"][0]["url"]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "", None])
def test_this_machine_can_be_reached(host):
    assert conftest.guard_lookup(lambda h: "asked")(host) == "asked"
    assert conftest.guard_connect(lambda sock, address: "passed")(None, (host, 80)) == "passed"


@pytest.mark.parametrize("host", ["example.org", "192.0.2.1", "2001:db8::1", b"example.org"])
def test_no_other_machine_can_be_reached(host):
    with pytest.raises(conftest.NetworkIsOff, match="only this machine"):
        conftest.guard_lookup(lambda h: "asked")(host)
    with pytest.raises(conftest.NetworkIsOff, match="only this machine"):
        conftest.guard_connect(lambda sock, address: "passed")(None, (host, 80))


def test_the_guard_stands_before_real_sockets():
    with pytest.raises(conftest.NetworkIsOff):
        socket.create_connection(("name.invalid", 80), timeout=1)
    assert socket.socket.connect.__qualname__.startswith("guard_connect")
    assert socket.socket.connect_ex.__qualname__.startswith("guard_connect")
