"""The voice, the recogniser and the error between them."""

import random

import numpy as np
import pytest

from arl_mini.capabilities import sound
from arl_mini.capabilities.sound import FRAME, NOISE, SOUNDS, Voice, pronounce, recognise, word_errors
from arl_mini.envs import check_env


def by_alignment(said, heard) -> int:
    """The least cost over all ways to align two lists, tried one by one."""
    if not said or not heard:
        return len(said) + len(heard)
    return min(
        by_alignment(said[1:], heard[1:]) + (said[0] != heard[0]),
        by_alignment(said[1:], heard) + 1,
        by_alignment(said, heard[1:]) + 1,
    )


def test_word_errors_are_those_of_the_best_alignment():
    rng = random.Random(0)
    for _ in range(300):
        said, heard = (rng.choices("abc", k=rng.randint(0, 5)) for _ in range(2))
        assert word_errors(said, heard) == by_alignment(said, heard) == word_errors(heard, said)


def test_what_is_long_and_clear_is_heard():
    rng = random.Random(1)
    for _ in range(40):
        said = rng.sample(list(SOUNDS), 5)
        pcm = pronounce(said, [12] * 5)
        assert pcm.shape == (60 * FRAME,) and np.abs(pcm).max() <= 1.7
        noise = np.random.default_rng(rng.randrange(10**6)).standard_normal(len(pcm))
        assert word_errors(said, recognise(pcm + NOISE * noise)) <= 1


def test_nothing_is_heard_in_noise_alone_or_in_nothing():
    noise = np.random.default_rng(3).standard_normal(50 * FRAME)
    assert recognise(NOISE * noise) == [] and recognise(noise[:10]) == []


def error(speak, tasks: int = 200, **settings) -> float:
    env, total = Voice(**settings), 0.0
    rng = random.Random(2)
    for seed in range(tasks):
        env.reset(seed)
        total += env.step(speak(env, rng)).info["error"]
    return total / tasks


def test_soft_sounds_need_time_and_the_reader_gives_it_to_the_loud_ones():
    expert, reader = error(lambda e, rng: e.expert()), error(lambda e, rng: e.reader())
    even, hasty = error(lambda e, rng: e.write([3] * 6)), error(lambda e, rng: e.write([1] * 6))
    slow, chance = error(lambda e, rng: e.write([9] * 6)), error(lambda e, rng: e.random(rng))
    assert expert < 0.6 * reader and expert < even < reader < hasty
    assert slow > 0.5 and chance > reader  # what has no room in the recording is not heard
    assert error(lambda e, rng: e.write([9] * 6), pace=None) < 0.02  # what breaks it: room without end


def test_the_contract():
    check_env(Voice(pace=None), range(12))


@pytest.mark.parametrize(
    "said", ["", " 3 3<end>", " 3 3 3 3 3 0<end>", " 3 3 3 3 3 33<end>", " 3 3 3 3 3 3", " a b c d e f<end>"]
)
def test_what_is_no_list_of_durations_is_an_error_of_one(said):
    env = Voice()
    env.reset(0)
    reply = env.step(said)
    assert reply.info == {"success": False, "malformed": True, "error": 1.0} and reply.reward == 0


def test_the_recording_ends_where_its_room_does():
    env = Voice(sounds=4, pace=2.0)
    env.reset(5)
    assert len(env.record([1, 1, 1, 1])) == 4 * FRAME and len(env.record([9, 9, 9, 9])) == 8 * FRAME
    with pytest.raises(ValueError, match="from 1 to 8"):
        Voice(sounds=9)
    assert sound.BANDS == sound._templates().shape[1]
