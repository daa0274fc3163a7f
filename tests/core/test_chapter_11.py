"""What chapter 11 measures with, and the claims of its recorded runs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from arl_mini import evaluate, experiments, models
from arl_mini.capabilities import reasoning
from arl_mini.envs import check_env
from arl_mini.experiments import ch11, ch11_latent, ch11_search
from arl_mini.rollout import rollout


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=8))
def test_spearman_is_scipys(points):
    x, y = zip(*points, strict=True)
    if len(set(x)) > 1 and len(set(y)) > 1:
        assert ch11.spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic)
    else:
        assert ch11.spearman(x, y) == 0


def test_the_world_for_language_models_reads_the_last_number():
    world = ch11.Told((2, 3))
    check_env(world)
    world.reset(0)
    for said in (f"first 3, then 9. The answer is {world.answer}.<end>", f" {world.answer}<end>"):
        assert world.clone().step(said).reward == 1
    for said in (f"{world.answer}", "<end>", f"{world.answer} or {(world.answer + 1) % 10}<end>", "none<end>"):
        assert world.clone().step(said).reward == 0


def test_a_forced_opening_is_spoken_when_imitated():
    policy = models.load("chain-modes")
    made = rollout(reasoning.slow(policy), ch11.MIXED, range(8), limits=ch11.LIMITS)
    for e in made:
        again = ch11_search.spoken(policy, e)
        assert again.said(0) == f"<think>{e.said(0)}" and again.success == e.success and again.text == e.text


@pytest.mark.parametrize("name, arm", [("fork", "top 20 %"), ("forks", "top 20")])
def test_a_name_that_is_not_there_is_told(name, arm):
    with pytest.raises(ValueError, match="hint: an experiment and one of its arms"):
        ch11.live(name, arm)


def test_an_arm_in_one_mode_trains_the_policy_itself():
    policy, arm = models.load("chain-modes"), ch11.EXPERIMENTS["11_reasoning/adaptive"].arms["always slow"]
    before = policy.embed.detach().clone()
    (record,) = arm(policy, 0, steps=1, prompts=4, tries=4, temperature=2.0)
    assert not bool((policy.embed == before).all())
    assert all("<think>" in e.text and "<think>" not in e.said(0) for e in record.episodes)


def test_labels_cost_what_they_sample():
    policy = models.load("chain-careless")
    shown, spent = ch11_search.labelled(policy, 0, by_rule=True)
    assert spent == sum(int(e.mask.sum()) for e, _ in shown)
    for episode, labels in shown:
        told = labels[~np.isnan(labels)]
        assert set(told[:-1]) <= {1.0}  # nothing behind the first mistake
        assert told[-1] == 0 or episode.success


def test_tries_cost_what_they_sample():
    careless = models.load("chain-careless")
    rows = ch11_search.accuracy_vs_tokens(careless, reasoning.StepVerifier(careless), 0, tasks=8)
    by = {(r["way"], r["tries"]): r for r in rows}
    assert by["slow, vote", 1]["right"] == by["slow, verifier", 1]["right"]  # one try leaves no choice
    assert by["slow, vote", 8]["tokens"] == by["slow, verifier", 8]["tokens"] > 8 * 5
    assert [n for way, n in by if way == "fast, vote"] == [1, 2, 4, 8, 16, 32]


def test_stages_end_where_no_step_is_written():
    policy = models.load("chain-modes")
    *rows, last = ch11_latent.Stages(latent=True)(policy, 0, each=1)
    assert [r["stage"] for r in rows] + [last["stage"]] == [1, 2, 2]
    assert last["visible"] == 4 and 0 <= last["right"] <= 1
    assert list(ch11_latent.Stages(keep=True)(policy, 0, each=1))[-1]["visible"] == 6


def test_the_first_vector_reads_as_the_first_step():
    policy = models.load("chain-modes")  # it writes the first step after `<think>`, and the vector is that state
    first, _ = ch11_latent.readable(ch11_latent.LatentThought(policy, 2), tasks=64)
    assert first > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("name, arm, number", [("rl", "GRPO", "success"), ("penalty", "on right answers", "success")])
def test_a_recorded_seed_comes_again(name, arm, number):
    recorded = next(o for o in experiments.recorded(f"11_reasoning/{name}").outcomes[arm] if o["seed"] == 10)
    _, before, after = ch11.live(name, arm, seed=10)
    assert before[number] == pytest.approx(recorded["before"][number], abs=0.01)
    assert after[number] == pytest.approx(recorded["after"][number], abs=0.08)  # other processors, other rounding


@pytest.mark.slow
def test_a_steep_price_on_every_answer_silences_the_policy():
    _, before, after = ch11.live("penalty", "on every answer", seed=20)
    assert before["thinking"] > 0.03 and after["thinking"] < 0.02
    assert after["success"] < 0.4  # half of what the same training reaches where only right answers pay


def test_each_set_of_tasks_has_its_own_tasks(monkeypatch):
    policy, asked = models.load("chain-modes"), []

    def note(policy, env, seeds, *rest, **options):
        asked.append(seeds)
        return rollout(policy, env, seeds, *rest, **options)

    monkeypatch.setattr(ch11, "rollout", note)
    for seed in (10, 11):
        ch11.modes_by_depth(policy, seed, tasks=2)
    assert min(map(min, asked)) >= evaluate.HELD_OUT and not set(asked[0]) & set(asked[-1])


def after(name: str, arm: str, number: str) -> np.ndarray:
    """What was recorded after training, a number a seed."""
    return np.array(experiments.recorded(f"11_reasoning/{name}").values(arm, number))


def last(name: str, arm: str, number: str) -> np.ndarray:
    """What the last record of each seed holds."""
    return np.array([run[-1][number] for run in experiments.recorded(f"11_reasoning/{name}").curves[arm]])


def test_the_claims_that_hold_hold_in_the_records():
    top, rest = after("forks", "top 20 %", "success"), after("forks", "bottom 80 %", "success")
    assert (top >= after("forks", "all tokens", "success") - 0.03).all() and (rest < top).all()
    assert (after("search", "search", "success") > after("search", "GRPO", "success")).all()
    latent, filler = last("latent", "latent", "right"), last("latent", "filler", "right")
    assert (latent - filler > 0.3).all() and (latent >= last("latent", "written", "right") - 0.05).all()
    pay = {arm: after("adaptive", arm, mode) for arm, mode in (("free", "free"), ("always slow", "slow"))}
    assert (pay["free"] > pay["always slow"]).all()
    assert (after("penalty", "on every answer", "thinking") < 0.02).all()
    for arm in ("labels by rule", "labels by re-rolls"):
        assert (last("verifier", arm, "verifier") > last("verifier", arm, "log-prob")).all()
