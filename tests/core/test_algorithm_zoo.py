"""The meter counts what the engine really draws, and every algorithm runs on it; offline data costs its budget."""

import numpy as np
import pytest

from arl_mini import collate, models, rollout
from arl_mini.experiments import ch06

ON_POLICY = [name for name in ch06.NAMES if isinstance(ch06.arm(name, 1e-3), ch06.OnBudget)]


@pytest.fixture
def drawn(monkeypatch):
    """A list to which the engine adds how many tokens it draws, call by call."""
    counts = []
    table = rollout.__globals__["_Table"]  # the function hides the module of its name
    sample = table.sample

    def counted(self, ready, logits):
        counts.append(len(ready))
        sample(self, ready, logits)

    monkeypatch.setattr(table, "sample", counted)
    return counts


@pytest.mark.parametrize("name", ON_POLICY)
def test_the_meter_counts_every_draw_and_no_other(name, drawn):
    arm = ch06.arm(name, 1e-3)
    run = ch06.Metered(
        models.load("chain-atoms"), arm.algorithm, 1e-3, 0, **arm.changes | {"prompts": 4, "tries": 4}
    )
    record = next(run)
    assert run.spent == sum(drawn) > 0
    assert np.isfinite(record.loss)


def test_a_run_stops_when_its_budget_is_spent_and_tells_each_mark_once():
    arm = ch06.arm("PSGPO", 1e-3, budget=600)  # one update passes several marks
    rows = list(arm(models.load("chain-atoms"), 0))
    assert [row["mark"] for row in rows] == list(range(1, ch06.MARKS + 1))
    assert rows[-1]["spent"] >= 600 and all(r["spent"] * ch06.MARKS >= r["mark"] * 600 for r in rows)


def test_offline_pairs_cost_the_budget(drawn):
    pairs, spent = ch06.pairs_of(models.load("chain-atoms"), 0, 1500)
    assert 1500 <= spent == sum(drawn) < 1500 + 32 * 8 * 10
    assert all(good.reward > bad.reward and good.seed == bad.seed for good, bad in pairs)
    assert len({good.seed for good, _ in pairs}) == len(pairs)


def test_the_interquartile_mean_leaves_out_a_quarter_at_each_end():
    assert ch06.iqm([9, 1, 2, 100, 3, 4, 5, -50]) == pytest.approx((2 + 3 + 4 + 5) / 4)
    assert ch06.iqm([1, 2, 6]) == 3


def test_what_differs_by_a_factor_alone_is_alike():
    policy = models.load("chain-atoms")
    tried = rollout(policy, ch06.TASK, range(24), 8, limits=ch06.LIMITS)
    found = ch06.alike(policy, collate(tried), ["RLOO", "DrGRPO", "GRPO", "ASPO", "PassAtK"])
    assert found == [["RLOO", "DrGRPO"], ["GRPO", "ASPO"], ["PassAtK"]]
