"""A run that goes back, and one whose settings change while it is under way."""

import pytest
import torch

from arl_mini.algorithms import DAPO, GRPO, SRPO, ProRL
from arl_mini.train import train
from tests.core.killed import begin
from tests.core.stage import Bandit, Talk, chatty
from tests.core.test_resume import Fitted, Remembers
from tests.core.test_runs import SMALL, plain

RUNS = {
    "reference and refilling": begin,
    "critic": lambda: train(chatty(1), Talk(), Fitted(), steps=6, **SMALL),
    "memory": lambda: train(chatty(1), Bandit(), Remembers(), steps=6, **SMALL),
    "reference that is reset": lambda: train(chatty(1), Talk(), ProRL(beta=0.05, window=2, rounds=2), steps=6, **SMALL),
}


@pytest.mark.parametrize("new", RUNS.values(), ids=RUNS)
def test_a_restored_run_gives_the_same_records(new):
    """From any state, in any order, after other training in between: bit for bit."""
    unbroken = [plain(record) for record in new()]
    run, states = new(), []
    states.append(run.snapshot())
    for record in run:
        assert plain(record) == unbroken[len(states) - 1]  # a snapshot changes nothing
        states.append(run.snapshot())
    for at in (3, 1, 0, 3):
        run.restore(states[at])
        run.change(lr=0.3, tries=2, temperature=1.5)
        next(run), next(run)
        run.restore(states[at])
        assert run.step == at
        assert [plain(record) for record in run] == unbroken[at:]


def test_a_restored_run_has_the_settings_of_then():
    run = begin()
    first = run.snapshot()
    before = run.changeable()
    run.change(lr=0.5, clip_high=0.4, tries=7)
    second = run.snapshot()
    run.restore(first)
    assert run.changeable() == before and run.optimizer.param_groups[0]["lr"] == before["lr"]
    run.restore(second)
    assert (run.settings.lr, run.algorithm.clip_high, run.settings.tries) == (0.5, 0.4, 7)
    assert run.optimizer.param_groups[0]["lr"] == 0.5


def test_a_change_holds_from_the_next_record_on():
    run = begin()
    assert len(next(run).episodes) == 9
    run.change(tries=5)
    assert len(next(run).episodes) == 15
    run.change(lr=0.0)
    before = [p.clone() for p in run.policy.parameters()]
    next(run)
    assert all(torch.equal(a, b) for a, b in zip(before, run.policy.parameters(), strict=True))
    run.change(temperature=0.25)
    assert next(run).episodes[0].temperature == 0.25


def test_a_change_equals_a_run_that_began_with_it():
    """Changed before the first step, and set at the start: the same records."""
    there = train(chatty(1), Talk(), DAPO(clip_high=0.1, beta=0.2), steps=3, **SMALL | dict(lr=0.02, minibatches=2))
    here = train(chatty(1), Talk(), DAPO(), steps=3, **SMALL)
    here.change(clip_high=0.1, beta=0.2, lr=0.02, minibatches=2)
    assert [plain(record) for record in here] == [plain(record) for record in there]


def test_a_penalty_that_comes_later_takes_the_policy_as_its_reference():
    run = train(chatty(1), Talk(), GRPO(), steps=9, **SMALL)
    next(run)
    without = run.snapshot()
    run.change(beta=0.1)
    assert run.ref is not run.policy
    assert all(torch.equal(a, b) for a, b in zip(run.ref.parameters(), run.policy.parameters(), strict=True))
    assert next(run).kl < 1e-6
    run.restore(without)
    assert run.ref is None and run.algorithm.beta == 0


@pytest.mark.parametrize("change, words", [
    (dict(seed=1), "'seed' cannot change in mid-run; these can: clip_low, clip_high, beta"),
    (dict(lr=0.1, bilevel=True), "'bilevel' cannot change"),
    (dict(lr=0.5, tries=0), "tries must be at least 1, got 0"),
    (dict(lr=0.5, temperature=0.0), "temperature must be positive"),
])  # fmt: skip
def test_a_bad_change_changes_nothing(change, words):
    run = begin()
    before = run.changeable(), run.algorithm
    with pytest.raises(ValueError, match=words):
        run.change(**change)
    assert (run.changeable(), run.algorithm) == before and run.optimizer.param_groups[0]["lr"] == 1e-2


def test_a_name_that_both_have_is_the_run_s():
    """SRPO has epochs of its own; `epochs` means passes over a step's episodes."""
    run = train(chatty(1), Talk(), SRPO(), steps=1, **SMALL)
    run.change(epochs=3)
    assert run.settings.epochs == 3 and run.algorithm == SRPO()


def test_states_do_not_move_when_the_run_goes_on():
    run = begin()
    next(run)
    state = run.snapshot()
    weights = {k: v.clone() for k, v in state["run"]["policy"].items()}
    moments = [v["exp_avg"].clone() for v in state["run"]["optimizer"]["state"].values()]
    for _ in range(2):
        next(run)
        run.restore(state)
        next(run)
    assert all(torch.equal(v, weights[k]) for k, v in state["run"]["policy"].items())
    assert all(torch.equal(v["exp_avg"], m) for v, m in zip(state["run"]["optimizer"]["state"].values(), moments, strict=True))
