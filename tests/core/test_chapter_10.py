"""What chapter 10 adds for its experiments: habits, questions, tables; and recorded numbers that come again."""

import random
import re

import numpy as np
import pytest

from arl_mini import envs, evaluate, experiments, models
from arl_mini.capabilities.improvement_roles import deduced, executed
from arl_mini.experiments import ch10, ch10_sums
from arl_mini.experiments.kinds import FRESH_SEEDS
from arl_mini.warmstarts import ch10 as made


def test_a_near_miss_differs_in_one_number_and_stays_a_program():
    env, rng = envs.PyFunc(made.KINDS), random.Random(0)
    for seed in range(200):
        task = env.reset(seed)
        said = made.near_miss(env, rng)
        changed = [a != b for a, b in zip(said.split(), env.expert().split(), strict=True)]
        assert sum(changed) == 1 and not executed(task, said).startswith(" error")


def test_the_jobs_answers_are_right():
    for seed in range(200):
        question, answer = deduced(seed, made.KINDS)
        body, x = re.fullmatch(r" return (.*) ; f \( (\d+) \) =", question).groups()
        assert int(answer) == eval(body, {"x": int(x)})
        question, answer = made.backwards(seed)
        left, result = question.split(" =")
        assert (eval(left.replace("?", answer.split()[-1].split(">")[-1])) - int(result)) % 10 == 0
        assert ch10_sums.true_sum(made.summed(seed)[1]) is not None


def test_the_believer_forgets_the_last_of_three_additions():
    env, rng, said = ch10_sums.SUMS, random.Random(0), {2: [], 3: []}
    for seed in range(1500):
        env.reset(seed)
        answer = ch10_sums.last_of(ch10_sums.believes(env, rng))
        said[env.depth].append((answer == f" {env.steps[-1]}", answer == f" {env.answer}"))
    forgotten, right = np.mean(said[3], 0)
    assert 0.57 < forgotten < 0.7 and 0.28 < right < 0.42  # a last number of 0 counts as both
    assert 0.48 < np.mean(said[2], 0)[1] < 0.63


@pytest.mark.parametrize("question, answer", [
    (" 3 + 4 =", " 7"), (" 9 + 9 + 9 =", " 7"), (" 3 =", None), (" 3 + 4", None), ("3 + 4 =", None), (" 3 + 14 =", None), ("", None),
])  # fmt: skip
def test_what_is_a_sum(question, answer):
    assert ch10_sums.true_sum(question) == answer


def test_later_successes_are_worth_less():
    from types import SimpleNamespace as Row

    rows = [Row(success=s, turns=t) for s, t in ((True, 1), (True, 2), (True, 3), (False, 1))]
    assert ch10.sooner(rows) == [1.0, 0.5, 0.0, 0.0]


def test_seeds_of_the_recordings_are_fresh():
    mine = {k: e for k, e in experiments.EXPERIMENTS.items() if k.startswith(ch10.NAME)}
    assert len(mine) == 10
    assert all(len(e.seeds) >= 3 and min(e.seeds) >= min(FRESH_SEEDS) for e in mine.values())


def test_a_votes_winner_is_judged():
    policy = models.load("pyfunc-novice")
    one, many = (ch10.voted(policy, 3, n, range(evaluate.HELD_OUT, evaluate.HELD_OUT + 40)) for n in (1, 8))
    assert one["first"] == one["final"] and 7 < many["tokens"] / one["tokens"] < 9


@pytest.mark.slow
@pytest.mark.parametrize("name, arm", [
    ("words", "vote of 8"), ("words", "self-critique"), ("words", "structured"), ("words", "executed"), ("curriculum", "bandit"),
])  # fmt: skip
def test_a_recorded_seed_comes_again(name, arm):
    experiment, found = (
        experiments.EXPERIMENTS[f"{ch10.NAME}/{name}"],
        experiments.recorded(f"{ch10.NAME}/{name}"),
    )
    rows = list(experiment.arms[arm](models.load(experiment.start), experiment.seeds[0]))
    for again, before in zip(rows, found.curves[arm][0], strict=True):
        for number in ("final", "tokens", "held_out"):
            if number in before:
                assert again[number] == pytest.approx(before[number], abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name, arm", [
    ("weights", "DPO"), ("weights", "RL, sooner is better"), ("critic", "trained"), ("dual", "backwards"), ("zero", "interpreter"),
    ("challenger", "challenger learns"), ("ttrl", "majority"), ("bank", "shared"), ("gate", "gate"),
])  # fmt: skip
def test_the_first_records_come_again(name, arm):
    """Two updates of the first seed: the recording is what this code does, up to another machine's last digits."""
    experiment, found = (
        experiments.EXPERIMENTS[f"{ch10.NAME}/{name}"],
        experiments.recorded(f"{ch10.NAME}/{name}"),
    )
    again, compared = experiment.arms[arm](models.load(experiment.start), experiment.seeds[0]), 0
    for before, row in zip(found.curves[arm][0][:2], again):
        now = row if isinstance(row, dict) else row.numbers()
        for number in {"loss", "success", "reward", "paid", "solved", "labels_right", "mean", "foreign"} & set(before):
            assert now[number] == pytest.approx(before[number], abs=0.03)
            compared += 1
    assert compared


@pytest.mark.slow
def test_the_majority_pays_what_is_wrong():
    """The failure of the chapter, one seed more: what is paid rises while the truth sinks."""
    arm = experiments.EXPERIMENTS[f"{ch10.NAME}/ttrl"].arms["majority, wrong ones only"]
    policy, before = models.load("chain-atoms"), ch10_sums.measure_tests(ch10_sums.believer())
    rows, after = list(arm(policy, 20)), ch10_sums.measure_tests(policy)
    assert rows[-1]["paid"] > rows[0]["paid"] + 0.1
    assert after["vote_wrong"] < before["vote_wrong"] and after["others"] < before["others"] - 0.1
