"""Notes: what its stream tells, what its questions mean, and that no habit answers them."""

import random

import pytest

from arl_mini.envs import act, check_env
from arl_mini.envs.notes import GONE, PEOPLE, PLACES, THINGS, Notes, places, read, told

ALL = ("is", "was", "many")


@pytest.mark.parametrize("env", [Notes(), Notes(limit=0), Notes(24, 0, ALL, 3), Notes(96, 40, ALL)], ids=range(4))
def test_it_keeps_the_contract(env):
    check_env(env)


def test_a_stream_tells_of_the_subject_one_to_four_times_and_of_each_change():
    for seed in range(200):
        env = Notes(24, kinds=ALL, questions=3)
        env.reset(seed)
        assert len(env.stream) == 24 and len({name for _, name in env.asked}) == 3
        for kind, name in env.asked:
            found = places(env.stream, name)
            assert (2 if kind == "was" else 1) <= len(found) <= 4
            assert all(
                a != b for a, b in zip([GONE, *found], found)
            )  # nobody is told to be where they are, or gone twice
        for who, verb, what in env.stream:
            assert (verb, what in PLACES, what == GONE) in (
                ("in", True, False),
                ("is", False, True),
                ("saw", False, False),
            )
            assert verb != "saw" or (who in PEOPLE and what in PEOPLE + THINGS and who != what)


def test_the_subject_is_told_of_anywhere_in_the_stream():
    last = []
    for seed in range(400):
        env = Notes(96)
        env.reset(seed)
        name = env.asked[0][1]
        last.append(max(i for i, (who, verb, _) in enumerate(env.stream) if who == name and verb != "saw"))
    shares = [sum(96 * k / 4 <= at < 96 * (k + 1) / 4 for at in last) / 400 for k in range(4)]
    # of 1 to 4 places drawn in 96, the last lies in the first quarter with probability Σ (1/4)^n / 4, and so on
    expected = [sum(((k + 1) / 4) ** n - (k / 4) ** n for n in range(1, 5)) / 4 for k in range(4)]
    assert all(abs(a - b) < 0.08 for a, b in zip(shares, expected))


def test_questions_read_the_lines_from_behind():
    lines = [
        ("ada", "in", "hall"),
        ("ben", "saw", "ada"),
        ("ada", "is", GONE),
        ("ada", "in", "cave"),
        ("ben", "in", "hall"),
    ]
    assert [read(lines, (kind, "ada")) for kind in ALL] == ["cave", GONE, "2"]
    assert [read(lines[:3], (kind, "ada")) for kind in ALL] == [GONE, "hall", "1"]
    assert [read(lines, (kind, "key")) for kind in ALL] == [GONE, GONE, "0"]
    assert (
        told(lines[:2]) == " ada in hall ben saw ada" and told(lines[:2], "ada") == " it in hall ben saw it"
    )


def test_the_window_shows_the_last_lines_that_fit_and_the_question():
    for seed in range(50):
        short, whole = Notes(24, 40), Notes(24, 0)
        text, full = short.reset(seed), whole.reset(seed)
        assert len(text.split()) <= 40 < len(full.split()) and full.endswith(text)
        assert read(short.recalled(), short.now) in short.reading()


def test_every_question_pays_its_share_and_success_is_all_of_them():
    env = Notes(24, 0, ALL, 3)
    env.reset(0)
    first = env.step(env.expert())
    assert (first.reward, first.done, first.info["fresh"]) == (pytest.approx(1 / 3), False, first.text)
    second = env.step(act("answer nowhere"))
    assert (second.reward, second.info["right"]) == (0, False)
    third = env.step(env.expert())
    assert third.done and third.reward == pytest.approx(1 / 3) and not third.info["success"]


def habit(say) -> float:
    """Success of a way to speak, say(text, rng), over 400 tasks."""
    env, rng, right = Notes(), random.Random(0), 0
    for seed in range(400):
        right += env.step(say(env.reset(seed), rng)).reward
    return right / 400


@pytest.mark.parametrize(
    "say",
    [
        lambda text, rng: act("answer gone"),
        lambda text, rng: act("answer hall"),
        lambda text, rng: "",
        lambda text, rng: act("answer" + " hall" * 200),
        lambda text, rng: act(text),
        lambda text, rng: f"<obs>{text}</obs>",
        lambda text, rng: act("answer " + " ".join(PLACES)),
        lambda text, rng: act(
            f"answer {[w for w in text.split() if w in PLACES][-1]}"
        ),  # the place told last, of anyone
        lambda text, rng: Notes().random(rng),
    ],
    ids="gone hall empty long copy result all latest random".split(),
)
def test_no_habit_wins(say):
    assert habit(say) < 0.35


def test_a_reader_of_the_window_does_better_than_habits_and_worse_than_one_who_heard_all():
    env, right = Notes(), 0
    for seed in range(400):
        env.reset(seed)
        right += env.step(env.reading()).reward
    assert 0.5 < right / 400 < 0.9


@pytest.mark.parametrize(
    "wrong", [dict(questions=4), dict(lines=3), dict(kinds=("who",)), dict(about=("zoe",)), dict(chatter=2.0)]
)
def test_impossible_settings_are_errors(wrong):
    with pytest.raises(ValueError, match="expected"):
        Notes(**wrong)
