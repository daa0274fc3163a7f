"""Recorded experiments: what is finished survives a kill; every committed record names a command that exists."""

import json

import pytest

from arl_mini import experiments, models
from arl_mini.experiments.kinds import Experiment

NAME = "99_none/two_arms"


@pytest.fixture
def started(tmp_path, monkeypatch):
    """An experiment of two arms and two seeds that need no training, and the (arm, seed) pairs that were run."""
    runs = []

    def arm(name):
        def train(policy, seed):
            runs.append((name, seed))
            yield {"step": 1, "loss": seed / 7, "seconds_update": 1.0}

        return train

    made = Experiment("", "quest-novice", {"a": arm("a"), "b": arm("b")}, lambda policy: {"n": 1.0}, (10, 11))
    monkeypatch.setitem(experiments.EXPERIMENTS, NAME, made)
    monkeypatch.setattr(experiments, "path", lambda name: tmp_path / f"{name}.jsonl")
    monkeypatch.setattr(models, "load", lambda name: None)
    return runs


def test_recording_goes_on_after_a_kill(started):
    whole = list(experiments.record(NAME))
    first = experiments.path(NAME).read_bytes()
    experiments.path(NAME).unlink()
    killed = experiments.record(NAME)
    assert [next(killed), next(killed)] == whole[:2] and not experiments.path(NAME).exists()
    killed.close()
    del started[:]
    assert list(experiments.record(NAME)) == whole[2:]
    assert started == [("b", 10), ("b", 11)]
    assert experiments.path(NAME).read_bytes() == first
    assert [file.suffix for file in experiments.path(NAME).parent.iterdir()] == [".jsonl"]


def test_another_command_starts_anew(started):
    killed = experiments.record(NAME)
    next(killed)
    list(experiments.record(NAME, (12,)))
    assert started == [("a", 10), ("a", 12), ("b", 12)]
    assert [o["seed"] for o in experiments.recorded(NAME).outcomes["a"]] == [12]


def test_clocks_are_not_recorded(started):
    list(experiments.record(NAME))
    assert "seconds" not in experiments.path(NAME).read_text()


FOLDER = models.checkpoints.folder().parent / "runs"


@pytest.mark.parametrize("name", sorted(str(f.relative_to(FOLDER))[:-6] for f in FOLDER.rglob("*.jsonl")))
def test_committed_records_are_whole(name):
    experiment = experiments.EXPERIMENTS[name]
    runs = experiments.recorded(name)
    head = json.loads(experiments.path(name).read_text().splitlines()[0])
    assert runs.command.startswith(f"python -m arl_mini.experiments {name}") and head["about"] == experiment.about
    assert set(runs.outcomes) == set(experiment.arms)
    assert all([o["seed"] for o in found] == list(experiment.seeds) for found in runs.outcomes.values())
