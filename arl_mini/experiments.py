"""The experiments behind the chapters' claims: several seeds each, recorded in `data/runs` with their command.

    python -m arl_mini.experiments                                     lists them
    python -m arl_mini.experiments 00_start_here/quest                 records seeds 10 to 14 anew
    python -m arl_mini.experiments 08_tool_use/failing --seeds 20 21   other seeds

A chapter trains one seed live with the same settings and recomputes its claim from the recorded runs.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import envs, evaluate, models
from .algorithms import GRPO, Reinforce
from .algorithms.base import Algorithm
from .envs.base import Env
from .files import write_whole
from .formal import FinitePOMDP, tmaze
from .imitate import imitate
from .rollout import Limits, demonstrate
from .train import Run, train

FRESH_SEEDS = (10, 11, 12, 13, 14)  # seeds below 10 were used while settings were chosen


@dataclass(frozen=True)
class ByReward:
    """Train by reinforcement: a world, an algorithm, settings of `train`."""

    env: Env
    algorithm: Algorithm
    settings: dict

    def __call__(self, policy, seed: int, **changes) -> Run:
        """The run; `changes` replace settings."""
        return train(policy, self.env, self.algorithm, **{**self.settings, "seed": seed, **changes})


@dataclass(frozen=True)
class ByImitation:
    """Train by imitation: traces of the world's expert on `tasks` tasks, settings of `imitate`."""

    env: Env
    tasks: int
    settings: dict

    def __call__(self, policy, seed: int, **changes) -> Iterator[dict]:
        """Yields the loss of each update."""
        first = 1_000_000 * (seed + 1)
        shown = demonstrate(policy, self.env, range(first, first + self.tasks), lambda env: env.expert())
        losses = imitate(policy, shown, **{**self.settings, "seed": seed, **changes})
        return ({"step": step, "loss": loss} for step, loss in enumerate(losses, 1))


@dataclass(frozen=True)
class Experiment:
    """Arms that train the same checkpoint, measured before and after by measure(policy) → plain numbers."""

    about: str
    start: str
    arms: dict[str, ByReward | ByImitation]
    measure: Callable[[models.TinyLM], dict[str, float]]
    seeds: Sequence[int] = FRESH_SEEDS


# --- 00: start here ---------------------------------------------------------------------------------------

QUEST = dict(
    steps=60, prompts=16, tries=8, lr=1e-3, minibatches=2, limits=Limits(turn_tokens=12, turns=12, total=256)
)


def measure_quest(policy) -> dict[str, float]:
    """Success on 256 held-out tasks."""
    return {"success": evaluate.success(policy, envs.Quest(), limits=QUEST["limits"]).mean}


# --- 01: decision processes -------------------------------------------------------------------------------

TMAZE = dict(steps=40, prompts=16, tries=8, lr=1e-3, limits=Limits(turn_tokens=6, turns=6, total=96))


def cueless(maze: FinitePOMDP) -> FinitePOMDP:
    """The same maze whose cue looks like the corridor: what is left of it for a context that lost the cue."""
    looks = [maze.observations[int(shown.argmax())] for shown in maze.O_start]
    return FinitePOMDP.seen(maze.mdp, ["corridor" if look.startswith("cue-") else look for look in looks])


def measure_tmaze(policy) -> dict[str, float]:
    """Success on 256 held-out mazes, cue shown and cue hidden."""
    shown, hidden = tmaze(5), cueless(tmaze(5))
    return {
        "success": evaluate.success(policy, envs.Finite(shown), limits=TMAZE["limits"]).mean,
        "success_without_cue": evaluate.success(policy, envs.Finite(hidden), limits=TMAZE["limits"]).mean,
    }


# --- 08: tool use -----------------------------------------------------------------------------------------

CALC = dict(
    steps=80, prompts=32, tries=8, lr=5e-4, limits=Limits(turn_tokens=16, turns=8, total=128)
)  # fmt: skip


def measure_calc(policy) -> dict[str, float]:
    """Accuracy and calls on held-out sums and products, with `py` working and with it down in 30 % of tasks."""
    measured = {}
    for kind in ("sum", "product"):
        for name, failing in (("", 0.0), ("_failing", 0.3)):
            env = envs.Calc((kind,), failing=failing)
            tried = evaluate.episodes(policy, env, limits=CALC["limits"])
            last = [e.infos[-1] for e in tried]
            puzzled = [i for i in last if i["failed"]]
            measured |= {
                f"{kind}{name}_success": sum(e.success for e in tried) / len(tried),
                f"{kind}{name}_call_share": sum(i["calls"] > 0 for i in last) / len(last),
                f"{kind}{name}_calls": sum(i["calls"] for i in last) / len(last),
            }
            if puzzled:
                measured[f"{kind}{name}_switch_share"] = sum(i["switched"] for i in puzzled) / len(puzzled)
    return measured


EXPERIMENTS = {
    "00_start_here/quest": Experiment(
        "GRPO teaches the novice to find the key and open the door.",
        "quest-novice",
        {"GRPO": ByReward(envs.Quest(), GRPO(), QUEST)},
        measure_quest,
    ),
    "01_mdp_pomdp/tmaze": Experiment(
        "A T-maze whose cue stays in the context, against one whose cue was never in it: REINFORCE, reward ±1.",
        "tmaze-novice",
        {
            "cue in context": ByReward(envs.Finite(tmaze(5)), Reinforce(), TMAZE),
            "cue lost": ByReward(envs.Finite(cueless(tmaze(5))), Reinforce(), TMAZE),
        },
        measure_tmaze,
        seeds=FRESH_SEEDS[:3],
    ),
    "08_tool_use/failing": Experiment(
        "A tool that is down in 30 % of tasks: imitation of an expert's clean traces against GRPO on the answer.",
        "calc-novice",
        {
            "imitation": ByImitation(envs.Calc(), 4096, dict(steps=80, rows=256, lr=1e-3)),
            "outcome RL": ByReward(envs.Calc(failing=0.3), GRPO(), CALC),
        },
        measure_calc,
    ),
    "08_tool_use/price": Experiment(
        "What a price of 0.1 a call changes: the same start and the same updates with and without it.",
        "calc-novice",
        {
            "free": ByReward(envs.Calc(), GRPO(), CALC),
            "price 0.1": ByReward(envs.Calc(price=0.1), GRPO(), CALC),
        },
        measure_calc,
    ),
}


def path(name: str) -> Path:
    """Where an experiment's runs are recorded."""
    return models.checkpoints.folder().parent / "runs" / f"{name}.jsonl"


def record(name: str, seeds: Sequence[int] = ()) -> Iterator[str]:
    """Runs an experiment and writes its file, whole or not at all; yields progress in words."""
    experiment = EXPERIMENTS[name]
    seeds = tuple(seeds) or tuple(experiment.seeds)
    extra = "" if seeds == tuple(experiment.seeds) else f" --seeds {' '.join(map(str, seeds))}"
    rows: list[dict] = [{"command": f"python -m arl_mini.experiments {name}{extra}", "about": experiment.about}]
    for arm in experiment.arms:
        for seed in seeds:
            policy = models.load(experiment.start)
            before = experiment.measure(policy)
            for made in experiment.arms[arm](policy, seed):
                numbers = made if isinstance(made, dict) else made.numbers()
                rows.append({"arm": arm, "seed": seed, **_rounded(numbers)})
            after = experiment.measure(policy)
            rows.append({"arm": arm, "seed": seed, "before": _rounded(before), "after": _rounded(after)})
            yield f"{name} {arm} seed {seed}: {_rounded(after)}"
    text = "".join(json.dumps(row) + "\n" for row in rows)
    write_whole(path(name), lambda file: file.write(text.encode()))


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", nargs="*", type=int, default=[])
    chosen = parser.parse_args()
    unknown = [name for name in chosen.names if name not in EXPERIMENTS]
    if unknown:
        parser.error(f"unknown experiment {unknown[0]!r}; known: {', '.join(EXPERIMENTS)}")
    if not chosen.names:
        for name, experiment in EXPERIMENTS.items():
            print(f"{name:24} {experiment.about}")
    for name in chosen.names:
        for line in record(name, chosen.seeds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
