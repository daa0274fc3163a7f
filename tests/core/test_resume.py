"""A run that was stopped goes on as if it had not been: in this process, in another, after kill −9; and wrong files."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from arl_mini.algorithms import DAPO, GRPO, RLOO, Algorithm
from arl_mini.models.tokenizer import build, fingerprint
from arl_mini.train import train
from tests.core.killed import STEPS, begin
from tests.core.stage import TOKENIZER, Bandit, Echo, Talk, chatty
from tests.core.test_runs import SMALL, plain

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def unbroken():
    """The records of the run that nobody stopped."""
    return [plain(record) for record in begin()]


@pytest.mark.parametrize("stop", [0, 1, 5, STEPS - 1])
def test_a_run_goes_on_from_a_file(stop, unbroken, tmp_path):
    """Saved after `stop` steps, loaded into a run that began anew: the same records, bit for bit."""
    run = begin()
    for _ in range(stop):
        next(run)
    run.save(tmp_path / "run.pt")
    again = begin().load(tmp_path / "run.pt")
    assert again.step == stop and [plain(record) for record in again] == unbroken[stop:]


def test_saving_changes_nothing(unbroken, tmp_path):
    run, records = begin(), []
    for _ in range(3):
        records.append(plain(next(run)))
        run.save(tmp_path / "run.pt")
    assert records == unbroken[:3]


def test_a_loaded_run_may_have_begun_from_other_weights(unbroken, tmp_path):
    """The reference comes from the file too, not from the policy that the new run was given."""
    run = begin()
    next(run)
    run.save(tmp_path / "run.pt")
    again = begin(weights=2).load(tmp_path / "run.pt")
    assert [plain(next(again)) for _ in range(2)] == unbroken[1:3]


def test_a_loaded_run_may_be_one_that_has_gone_elsewhere(unbroken, tmp_path):
    """Loading replaces all that the next record depends on: weights, reference, moments, step."""
    run = begin()
    next(run)
    run.save(tmp_path / "run.pt")
    for _ in range(3):
        next(run)
    run.load(tmp_path / "run.pt")
    assert [plain(next(run)) for _ in range(2)] == unbroken[1:3]


@pytest.mark.parametrize("chance", [11, 12])
def test_killed_at_any_moment(chance, unbroken, tmp_path):
    """A process that trains and saves is killed with −9 at a random moment; what it left goes on with the same records."""
    path, dice = tmp_path / "run.pt", random.Random(chance)
    command = [sys.executable, "-m", "tests.core.killed", str(path)]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    seen = int(child.stdout.readline())
    start, count = time.perf_counter(), dice.randint(2, 5)
    for _ in range(count):  # so many more steps are done and saved for certain
        seen = int(child.stdout.readline())
    time.sleep(dice.random() * (time.perf_counter() - start) / count)  # in mid-step, or in the middle of saving
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    run = begin().load(path)
    stop = run.step
    assert seen <= stop < STEPS
    assert [plain(record) for record in run] == unbroken[stop:]


# --- files that are none ----------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    run = begin()
    next(run)
    run.save(tmp_path / "run.pt")
    return tmp_path / "run.pt"


@pytest.mark.parametrize("cut", [0, 10, 0.5, -1])
def test_a_file_that_was_cut_off(saved, cut):
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(len(whole) * cut) if isinstance(cut, float) else cut])
    with pytest.raises(ValueError, match=r"run.pt is no saved run \(or a damaged one\)"):
        begin().load(saved)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("content", [b"hello", b"\x80\x04.", b"PK\x03\x04" + b"\0" * 50])
def test_another_kind_of_file(saved, content):
    saved.write_bytes(content)
    with pytest.raises(ValueError, match="is no saved run"):
        begin().load(saved)


def test_a_file_that_would_run_code_is_not_opened(saved):
    class Trap:
        def __reduce__(self):
            return (os.mkdir, (str(saved.parent / "sprung"),))

    torch.save({"made_with": Trap()}, saved)
    with pytest.raises(ValueError, match="is no saved run"):
        begin().load(saved)
    assert not (saved.parent / "sprung").exists()


@pytest.mark.parametrize("content", [{"policy": {}}, [1, 2], torch.zeros(2)])
def test_another_file_of_torch(saved, content):
    torch.save(content, saved)
    with pytest.raises(ValueError, match="holds no run state; hint: it must come from Run.save"):
        begin().load(saved)


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        begin().load(tmp_path / "run.pt")


def other(policy=None, env=None, algorithm=None, **changed):
    algorithm = algorithm or DAPO(beta=0.05, rounds=3)
    return train(policy or chatty(1), env or Talk(), algorithm, **SMALL | dict(seed=9) | changed)


@pytest.mark.parametrize("run, message", [
    (lambda: other(algorithm=GRPO()), r"saved with algorithm 'DAPO\(.*rounds=3.*; this run has 'GRPO\("),
    (lambda: other(algorithm=DAPO(beta=0.1, rounds=3)), r"beta=0.05.*; this run has 'DAPO\(.*beta=0.1"),
    (lambda: other(seed=4), "saved with seed '9'; this run has '4'"),
    (lambda: other(env=Echo()), "saved with world 'Talk'; this run has 'Echo'"),
], ids=["algorithm", "its fields", "seed", "world"])  # fmt: skip
def test_a_state_of_another_run_is_named(saved, run, message):
    with pytest.raises(ValueError, match=message):
        run().load(saved)


def test_a_state_of_another_tokenizer_is_named(saved):
    policy = chatty(1)
    policy.tokenizer = build(" red")
    wanted = f"saved with tokenizer '{fingerprint(TOKENIZER)}'; this run has '{fingerprint(policy.tokenizer)}'"
    with pytest.raises(ValueError, match=wanted):
        other(policy).load(saved)


def test_a_state_of_another_size_says_which_weights_differ(saved):
    policy = chatty(1, size=dict(width=16, layers=2, heads=2, hidden=8))
    with pytest.raises(RuntimeError, match=r"(?s)size mismatch for embed.*32.*16"):
        other(policy).load(saved)


def test_a_save_that_fails_leaves_the_last_one(saved, unbroken):
    """The state holds something that cannot be written: the old file stays, and nothing is left beside it."""
    run = begin().load(saved)
    run.memory["open file"] = open(os.devnull)
    with pytest.raises(Exception, match="TextIOWrapper"):
        run.save(saved)
    assert [path.name for path in saved.parent.iterdir()] == ["run.pt"]
    assert plain(next(begin().load(saved))) == unbroken[1]


# --- what an algorithm remembers --------------------------------------------------------------------------


class Remembers(RLOO):
    """Notes the tasks of every step, and asks one of them again."""

    def plan(self, sampler):
        seeds = sampler.fresh(sampler.prompts - 1) + sampler.memory.get("last", [7])
        sampler.memory["last"] = seeds[:1]
        return sampler.rollout(seeds, sampler.tries)


def test_memory_is_saved_with_the_run(tmp_path):
    def new():
        return train(chatty(1), Bandit(), Remembers(), steps=4, **SMALL)

    unbroken = [plain(record) for record in new()]
    run = new()
    next(run), next(run)
    run.save(tmp_path / "run.pt")
    assert [plain(record) for record in new().load(tmp_path / "run.pt")] == unbroken[2:]


class Fitted(Algorithm):
    """Policy gradient with a critic: its weights and moments are part of the state."""

    needs_critic = True

    def loss(self, scores, batch):
        policy = -(scores.logp * (batch.advantages - batch.values) * batch.mask).sum()
        return policy + ((scores.values - batch.advantages) ** 2 * batch.mask).sum()


def test_a_critic_is_saved_with_the_run(tmp_path):
    def new():
        return train(chatty(1), Talk(), Fitted(), steps=4, **SMALL)

    unbroken = [plain(record) for record in new()]
    run = new()
    next(run), next(run)
    run.save(tmp_path / "run.pt")
    assert [plain(record) for record in new().load(tmp_path / "run.pt")] == unbroken[2:]
    assert bool((run.critic.linear.weight != 0).any())
