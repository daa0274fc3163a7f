"""Glimpse: the contract, real digits, questions with the right answers, tools, and what no policy gets for nothing."""

import random

import numpy as np
import pytest

from arl_mini import evaluate, pictures
from arl_mini.envs import Glimpse, act, check_env
from arl_mini.envs import glimpse as world
from arl_mini.models.tokenizer import END

CONFIGS = [
    dict(), dict(digits=2, tools=("look",)), dict(task="sum", digits=2, pay="partial"), dict(task="box", digits=3),
    dict(task="side", digits=2, scale=1), dict(hint=0.7, scale=2), dict(tools=world.TOOLS[1:], dim=0.3), dict(digits=4),
]  # fmt: skip
configs = pytest.mark.parametrize("config", CONFIGS, ids=str)


def mean_reward(env: Glimpse, speak, tasks: int = 150) -> float:
    earned = []
    for seed in range(tasks):
        env.reset(seed)
        for _ in range(12):
            reply = env.step(speak(env))
            if reply.done or reply.truncated:
                break
        earned.append(reply.reward)
    return float(np.mean(earned))


@configs
def test_contract(config):
    check_env(Glimpse(**config))


@configs
def test_the_expert_beats_random_and_no_constant_wins(config):
    env, rng = Glimpse(**config), random.Random(0)
    assert mean_reward(env, lambda e: e.expert()) > 0.99
    assert mean_reward(env, lambda e: e.random(rng)) < 0.7  # two sides: half of them
    constant = {"box": " a a y y", "side": " left"}.get(env.task, " 1")
    assert mean_reward(env, lambda e: constant + END) < 0.65


@pytest.mark.parametrize(
    "said",
    [
        "",
        END,
        " " + "1 " * 40 + END,
        "<obs> 7</obs>" + END,
        " 0 1 2 3 4 5 6 7 8 9" + END,
        " left right" + END,
    ],
)
@configs
def test_degenerate_answers_earn_next_to_nothing(config, said):
    env = Glimpse(**config)
    floor = 0.15 if env.pay == "partial" else 0.0  # the name of a digit may stand at its place by chance
    assert mean_reward(env, lambda e: said) <= floor


def test_copying_the_prompt_earns_nothing():
    env = Glimpse()
    for seed in range(50):
        assert env.step(env.reset(seed) + END).reward == 0


def test_the_canvas_shows_the_images_at_their_places():
    images, labels = world.digit_images()
    env = Glimpse(digits=4)
    for seed in range(30):
        env.reset(seed)
        assert len(set(env.values)) == 4 and [c for _, c in env.places] == sorted(c for _, c in env.places)
        for (r, c), value in zip(env.places, env.values):
            window = env.canvas[4 * r : 4 * r + 8, 4 * c : 4 * c + 8]
            assert any((window == image).all() for image in images[labels == value])
        assert env.canvas.sum() == sum(
            env.canvas[4 * r : 4 * r + 8, 4 * c : 4 * c + 8].sum() for r, c in env.places
        )


def test_lessons_training_and_held_out_tasks_share_no_image():
    images, _ = world.digit_images()
    env, pools = Glimpse(), {}
    for name, first in (("lessons", 0), ("training", world.LESSONS), ("held out", world.HELD_OUT)):
        pools[name] = set()
        for seed in range(first, first + 300):
            env.reset(seed)
            (r, c) = env.places[0]
            pools[name].add(env.canvas[4 * r : 4 * r + 8, 4 * c : 4 * c + 8].tobytes())
    assert not pools["lessons"] & pools["training"] and not pools["training"] & pools["held out"]
    assert evaluate.HELD_OUT == world.HELD_OUT


def test_a_mirrored_seed_mirrors_the_places_and_the_answer():
    env = Glimpse("side", digits=2)
    for seed in range(40):
        text = env.reset(seed)
        places, values, answer = env.places, env.values, env.answer
        other = env.reset(seed + world.MIRROR)
        assert env.places == [(r, 4 - c) for r, c in reversed(places)] and env.values == values[::-1]
        assert (
            text.partition("<")[0] == other.partition("<")[0] and answer.split() == env.answer.split()[::-1]
        )


def test_a_look_is_the_canvas_in_full_size():
    env = Glimpse(tools=("look", "crop", "contrast", "count"), dim=0.5)
    env.reset(3)
    (r, c) = env.places[0]
    seen = pictures.read(env.step(act(f"look {r} {c}")).text)
    assert [(a, b) for a, b, _ in seen] == [(r, c), (r, c + 1), (r + 1, c), (r + 1, c + 1)]
    window = pictures.grey(env.canvas[4 * r : 4 * r + 8, 4 * c : 4 * c + 8], 16)
    assert (np.block([[seen[0][2], seen[1][2]], [seen[2][2], seen[3][2]]]) == window).all()
    dark = pictures.read(env.step(act(f"crop {r} {c}")).text)
    assert max(p.max() for _, _, p in dark) <= 4 < window.max()
    assert env.step(act("count")).text == " 1" and env.looks == [1.0, 1.0]
    last = env.step(act("contrast"))
    assert last.truncated and len(pictures.read(last.text)) == 4  # the fourth turn is the last


@pytest.mark.parametrize(
    "said", [act("look 5 0"), act("look 0"), act("zoom 1 1"), act("crop 1 1"), act("look a b")]
)
def test_other_calls_get_no_and_no_picture(said):
    env = Glimpse(tools=("look",))
    env.reset(0)
    reply = env.step(said)
    assert reply.text == " no" and reply.info["illegal"] and env.looks == []


def test_boxes_surround_the_ink_and_the_whole_canvas_pays_only_where_it_should_not():
    env = Glimpse("box", digits=2)
    whole = {
        pay: mean_reward(Glimpse("box", digits=2, pay=pay), lambda e: " a a y y" + END)
        for pay in ("right", "covered")
    }
    assert whole["covered"] == 1.0 and whole["right"] < 0.12
    for seed in range(30):
        env.reset(seed)
        left, top, right, bottom = env.box
        ink = env.canvas >= world.INK
        (r, c) = env.places[env.asked]
        inside = np.zeros_like(ink)
        inside[4 * r : 4 * r + 8, 4 * c : 4 * c + 8] = ink[4 * r : 4 * r + 8, 4 * c : 4 * c + 8]
        cut = inside[top:bottom, left:right]
        assert (
            cut.sum() == inside.sum()
            and cut[0].any()
            and cut[-1].any()
            and cut[:, 0].any()
            and cut[:, -1].any()
        )


def test_partial_credit():
    env = Glimpse("sum", digits=2, pay="partial")
    env.reset(5)
    (a, b), total = env.values, sum(env.values) % 10
    wrong = (total + 1) % 10
    for said, reward in (
        (f" {a} {b} = {total}", 1.0),
        (f" {a} {b} = {wrong}", 0.5),
        (f" {a} {(b + 1) % 10} = {wrong}", 0.25),
        (f" = {total}", 0.5),
    ):
        env.reset(5)
        assert env.step(said + END).reward == reward


def test_a_hint_is_right_as_often_as_said():
    env = Glimpse(hint=0.7)
    right = []
    for seed in range(600):
        hinted = env.reset(seed).split()[1]
        right.append(env.step(f" {hinted}{END}").info)
    assert np.mean([i["success"] for i in right]) == pytest.approx(0.7, abs=0.06)
    assert all(i["success"] == i["hint_right"] for i in right)


@pytest.mark.parametrize(
    "config",
    [
        dict(task="count"),
        dict(digits=5),
        dict(task="side"),
        dict(scale=4),
        dict(tools=("zoom",)),
        dict(pay="all"),
    ],
)
def test_what_cannot_be_is_named(config):
    with pytest.raises(ValueError, match="unknown task|expected 1 to 4 digits"):
        Glimpse(**config)
