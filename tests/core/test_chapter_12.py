"""What chapter 12 measures of pictures, and the claims of its recorded runs."""

import random

import numpy as np
import pytest

from arl_mini import evaluate, experiments, models, pictures
from arl_mini.capabilities.perception import ground_reward
from arl_mini.envs import act
from arl_mini.experiments import ch12
from arl_mini.models.tokenizer import END
from arl_mini.rollout import demonstrate
from arl_mini.warmstarts import ch12 as starts
from arl_mini.warmstarts.ch12 import READS, RECIPES


def values(name: str, arm: str, number: str, when: str = "after") -> np.ndarray:
    return np.array(experiments.recorded(f"12_perception/{name}").values(arm, number, when))


def test_the_chance_to_land_is_what_random_looks_do():
    rng, policy = random.Random(0), models.load("glimpse-novice")
    first, tasks = evaluate.HELD_OUT, 128

    def anywhere(env):
        return env.answer + END if env.calls else act(f"look {rng.randrange(5)} {rng.randrange(5)}")

    landed = [
        ground_reward(e)
        for _ in range(8)
        for e in demonstrate(policy, ch12.LOOKS, range(first, first + tasks), anywhere)
    ]
    assert np.mean(landed) == pytest.approx(ch12.landing_chance(ch12.LOOKS, tasks), abs=0.04)


def test_a_blinded_world_shows_the_words_alone():
    seen = []

    def episodes(policy, env, tasks, **how):
        seen.extend(env.reset(seed) for seed in range(tasks))
        return demonstrate(models.load("glimpse-reader"), env, range(tasks), lambda e: e.expert())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ch12.evaluate, "episodes", episodes)
        assert ch12.blinded(None, ch12.HINTS, 8) == 1.0
    plain = ch12.HINTS.clone()
    for seed, text in enumerate(seen):
        assert pictures.assemble(text).max() == 0
        assert text.partition("<")[0] == plain.reset(seed).partition("<")[0]


def test_the_same_world_may_pay_by_another_rule():
    assert ch12.paying(ch12.BOXES, "covered").pay == "covered" and ch12.BOXES.pay == "right"


@pytest.mark.parametrize("name", RECIPES)
def test_the_checkpoints_are_as_their_cards_say(name):
    policy = models.load(name)
    assert policy.config.eyes == RECIPES[name].eyes
    assert policy.card["about"] == RECIPES[name].about
    assert policy.card["updates"] == sum(stage.steps for stage in RECIPES[name].stages)


@pytest.mark.parametrize("name", ["SUMS", "BOXES", "SIDES", "HINTS", "LOOKS", "TOOLS"])
def test_the_starts_were_taught_the_worlds_of_the_experiments(name):
    assert vars(getattr(ch12, name)) == vars(getattr(starts, name))


def test_the_lessons_have_all_four_tasks():
    tasks = {READS.reset(seed).split("<")[0].split()[0] for seed in range(16)}
    assert tasks == {"name", "sum", "box", "side", "hint"}


# --- the claims of the recorded runs, and one seed of the cheapest arms anew --------------------------------


def test_looks_find_the_evidence_without_being_paid_for_it():
    chance, best = ch12.landing_chance(ch12.LOOKS), np.maximum(
        values("looks", "passive", "success"), values("looks", "passive, shown answers", "success")
    )  # fmt: skip
    assert (values("looks", "outcome only", "success") - best >= 0.15).all()
    assert (values("looks", "outcome only", "landed") >= 2 * chance).all()


def test_tools_die_without_curiosity():
    assert (values("tools", "outcome only", "call_share") < 0.05).sum() >= 2
    assert (values("tools", "curious", "success") - values("tools", "no tools", "success") >= 0.2).all()


def test_boxes_of_the_only_digit_improve():
    assert (values("box_alone", "IoU", "iou") - values("box_alone", "IoU", "iou", "before") >= 0.15).all()


def test_answers_turn_with_the_picture():
    gain = values("views", "view consistency", "consistent") - values("views", "two views", "consistent", "before")
    assert (gain > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, arm, number", [("looks", "outcome only", "success"), ("tools", "curious", "call_share")]
)
def test_one_seed_again(name, arm, number):
    experiment = ch12.EXPERIMENTS[f"12_perception/{name}"]
    policy = models.load(experiment.start)
    for _ in experiment.arms[arm](policy, 10):
        pass
    before = values(name, arm, number, "before")[0]
    assert experiment.measure(policy)[number] > before + 0.3
