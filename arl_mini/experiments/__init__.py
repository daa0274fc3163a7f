"""The experiments behind the chapters' claims: several seeds each, recorded in `data/runs` with their command.

    python -m arl_mini.experiments                                     lists them
    python -m arl_mini.experiments 00_start_here/quest                 records seeds 10 to 14 anew
    python -m arl_mini.experiments 08_tool_use/failing --seeds 20 21   other seeds

A chapter trains one seed live with the same settings and recomputes its claim from the recorded runs.
`chNN.py` holds a chapter's experiments and their settings, in a dict `EXPERIMENTS`.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

from .. import models
from ..files import write_whole
from . import real
from .kinds import Experiment

CHAPTERS = sorted(module.name for module in iter_modules(__path__) if module.name.startswith("ch"))
EXPERIMENTS: dict[str, Experiment] = {}


def chapter_module(name: str) -> ModuleType:
    """`ch04` → the module with that chapter's experiments."""
    return import_module(f"{__name__}.{name}")


for chapter in CHAPTERS:
    EXPERIMENTS |= chapter_module(chapter).EXPERIMENTS


def path(name: str) -> Path:
    """Where an experiment's runs are recorded."""
    return models.checkpoints.folder().parent / "runs" / f"{name}.jsonl"


def record(name: str, seeds: Sequence[int] = ()) -> Iterator[str]:
    """Runs an experiment and writes its file, whole or not at all; yields progress in words.

    What is finished lies in `NAME.jsonl.part` meanwhile, so the same command after a kill goes on where it was.
    """
    experiment = EXPERIMENTS[name]
    seeds = tuple(seeds) or tuple(experiment.seeds)
    extra = "" if seeds == tuple(experiment.seeds) else f" --seeds {' '.join(map(str, seeds))}"
    head = {"command": f"python -m arl_mini.experiments {name}{extra}", "about": experiment.about}
    part = path(name).with_suffix(".jsonl.part")
    rows = _finished(part, head)
    done = {(row["arm"], row["seed"]) for row in rows[1:] if "after" in row}
    for arm in experiment.arms:
        for seed in seeds:
            if (arm, seed) not in done:
                rows += _run(experiment, arm, seed)
                _write(part, rows)
                yield f"{name} {arm} seed {seed}: {rows[-1]['after']}"
    _write(path(name), rows)
    part.unlink(missing_ok=True)


def _finished(part: Path, head: dict) -> list[dict]:
    """The rows of an interrupted recording by the same command, or its head alone."""
    try:
        rows = [json.loads(line) for line in part.read_text().splitlines()]
    except FileNotFoundError:
        return [head]
    return rows if rows[:1] == [head] else [head]


def _run(experiment: Experiment, arm: str, seed: int) -> list[dict]:
    """The rows of one arm and seed: its records, then what was measured before and after."""
    policy = models.load(experiment.start)
    before = experiment.measure(policy)
    rows = []
    for made in experiment.arms[arm](policy, seed):
        numbers = made if isinstance(made, dict) else made.numbers()
        rows.append({"arm": arm, "seed": seed, **_rounded(numbers)})
    after = experiment.measure(policy)
    return [*rows, {"arm": arm, "seed": seed, "before": _rounded(before), "after": _rounded(after)}]


def _write(file: Path, rows: list[dict]) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    write_whole(file, lambda opened: opened.write(text.encode()))


def _rounded(numbers: dict[str, float]) -> dict[str, float]:
    return {k: round(v, 4) if isinstance(v, float) else v for k, v in numbers.items() if not k.startswith("seconds")}


@dataclass(frozen=True)
class Recorded:
    """The recorded runs of an experiment."""

    command: str
    curves: dict[str, list[list[dict]]]  # arm → a list of records for each seed
    outcomes: dict[str, list[dict]]  # arm → {"seed", "before", "after"} for each seed

    def values(self, arm: str, number: str, when: str = "after") -> list[float]:
        """One measured number of each seed, in the order of the seeds."""
        return [outcome[when][number] for outcome in self.outcomes[arm]]


def recorded(name: str) -> Recorded:
    """Reads what `record` wrote; an unknown or damaged file is an error that names the command to make it."""
    try:
        head, *rows = [json.loads(line) for line in path(name).read_text().splitlines()]
        curves: dict[str, dict[int, list[dict]]] = {}
        outcomes: dict[str, list[dict]] = {}
        for row in rows:
            if "after" in row:
                outcomes.setdefault(row["arm"], []).append(row)
            else:
                curves.setdefault(row["arm"], {}).setdefault(row["seed"], []).append(row)
        return Recorded(head["command"], {arm: list(seeds.values()) for arm, seeds in curves.items()}, outcomes)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"no readable runs of {name!r} ({error!r}); hint: python -m arl_mini.experiments {name}"
        ) from error
