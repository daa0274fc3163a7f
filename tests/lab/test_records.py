"""Plain records of every kind are read alike; alarms speak when they should and only then."""

import dataclasses
import math
from collections import namedtuple
from types import SimpleNamespace

import pytest
import torch

from arl_mini.lab.alarms import WINDOW, alarms
from arl_mini.lab.records import moving_mean, numbers, value, without_episodes


@dataclasses.dataclass(frozen=True)
class Frozen:
    step: int
    loss: float
    seconds: dict
    episodes: tuple

    @property
    def double(self):
        return 2 * self.loss


Named = namedtuple("Named", "step loss seconds episodes")
FIELDS = {"step": 3, "loss": torch.tensor(0.5), "seconds": {"rollout": 1.5, "note": "x"},
          "episodes": ("long", "list")}
KINDS = [Frozen(**FIELDS), Named(**FIELDS), SimpleNamespace(**FIELDS), dict(FIELDS)]


@pytest.mark.parametrize("record", KINDS, ids=lambda record: type(record).__name__)
def test_kinds_of_record(record):
    assert numbers(record) == {"step": 3.0, "loss": 0.5, "seconds rollout": 1.5}
    assert value(record, "seconds rollout") == 1.5
    light = without_episodes(record)
    assert numbers(light) == numbers(record)
    assert value({"kl": None}, "kl") != value({"kl": None}, "kl")  # NaN: known, but not there yet
    assert (light["episodes"] if isinstance(light, dict) else light.episodes) == ()
    assert (record["episodes"] if isinstance(record, dict) else record.episodes) == ("long", "list")


def test_properties_count_as_fields():
    assert value(KINDS[0], "double") == 1.0


def test_what_is_no_record():
    with pytest.raises(TypeError, match="a record is a float"):
        numbers(0.5)


def test_moving_mean_skips_gaps():
    assert moving_mean([1.0, math.nan, 3.0, 5.0], 2) == [1.0, 1.0, 3.0, 4.0]
    assert math.isnan(moving_mean([math.nan], 3)[0])


def test_alarms():
    good = {"signal_share": 0.5, "entropy": 1.0, "loss": 0.1}
    assert alarms([good] * WINDOW) == alarms([]) == []
    assert alarms([dict(good, signal_share=0.1)] * (WINDOW - 1)) == []  # one odd update is no trend
    assert alarms([dict(good, signal_share=0.1)] * WINDOW) == [
        "90% of groups have no signal: the tasks are too easy or too hard"]
    assert "collapsed" in alarms([dict(good, entropy=0.01)] * WINDOW)[0]
    assert alarms([*[dict(good, entropy=0.01)] * (WINDOW - 1), good]) == []
    assert alarms([dict(good, loss=math.nan)]) == ["loss is nan: the run is broken from here on"]
