"""Waves: what the samples and the spectrum are, and what careless policies earn."""

import random

import numpy as np
import pytest

from arl_mini import pictures
from arl_mini.envs import Waves, check_env
from arl_mini.envs.waves import BANDS, FRAME, FRAMES, MOVES, RATE, glide, log_spectrum


def band_of(hz: float) -> int:
    return int(np.searchsorted(np.geomspace(200, 3600, BANDS + 1), hz, side="right") - 1)


@pytest.mark.parametrize("hz", [250, 440, 1000, 2500, 3500])
def test_a_tone_is_loudest_in_its_band(hz):
    assert (log_spectrum(glide(hz, hz, RATE), FRAME, BANDS).argmax(1) == band_of(hz)).mean() > 0.9


def test_a_glide_sounds_at_its_start_then_at_its_end_and_is_quiet_at_both():
    wave = glide(400, 1600, 4096)
    loudest = log_spectrum(wave, 512, BANDS).argmax(1)
    assert loudest[0] < loudest[3] < loudest[-1] and abs(loudest[-1] - band_of(1550)) <= 1
    assert abs(wave[0]) < 0.02 and abs(wave[-1]) < 0.02 and np.abs(wave).max() <= 1


def test_power_is_that_of_parseval():
    """Summed over all bands and bins, the one-sided spectrum holds the energy of the windowed frame."""
    rng = np.random.default_rng(0)
    frame = rng.standard_normal(256)
    wide = np.exp(log_spectrum(frame, 256, 1, low=1.0, high=4001.0)) - 1e-4
    windowed = frame * np.hanning(256)
    full = np.abs(np.fft.fft(windowed)) ** 2 / 256
    assert wide[0, 0] == pytest.approx(full[1:129].sum()) and full.sum() == pytest.approx((windowed**2).sum())


def test_what_is_left_of_a_frame_is_dropped():
    assert log_spectrum(np.zeros(700), 256, 16).shape == (2, 16) and log_spectrum(
        np.zeros(10), 256, 16
    ).shape == (0, 16)


def test_the_picture_is_the_spectrum_cut_tone_by_tone():
    for seed in range(30):
        env = Waves()
        patches = pictures.read(env.reset(seed))
        seen = np.zeros((BANDS, FRAMES * len(env.moves)), int)
        for row, column, levels in patches:
            seen[4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = levels
        assert np.array_equal(seen, env.spectrum()) and seen.max() == 7
        assert [column for _, column, _ in patches] == [i for i in range(len(env.moves)) for _ in range(4)]
        assert len(env.record()) == FRAME * FRAMES * len(env.moves)


def test_the_loudest_bands_alone_tell_what_a_tone_does():
    """Who compares the loudest band of first and last frame is nearly always right: the task is fair."""
    right, total = 0, 0
    for seed in range(300):
        env = Waves()
        env.reset(seed)
        for i, move in enumerate(env.moves):
            tone = env.spectrum()[::-1, FRAMES * i : FRAMES * (i + 1)]
            step = int(tone[:, -1].argmax()) - int(tone[:, 0].argmax())
            right += MOVES[0 if step > 1 else 1 if step < -1 else 2] == move
            total += 1
    assert right / total > 0.95


@pytest.mark.parametrize("env", [Waves(), Waves((5, 5)), Waves(steps=False)], ids=["waves", "five", "direct"])
def test_the_contract(env):
    check_env(env, range(20))


def earned(env, speak, tasks: int = 400) -> float:
    rng, total = random.Random(0), 0.0
    for seed in range(tasks):
        env.reset(seed)
        total += env.step(speak(env, rng)).reward
    return total / tasks


def test_careless_answers_earn_little():
    assert earned(Waves(), lambda env, rng: env.expert()) == 1
    for speak in (
        lambda env, rng: env.random(rng),
        lambda env, rng: env.direct(1),  # the likeliest number
        lambda env, rng: env.direct(round(len(env.moves) / 3)),  # the likeliest for so many tones
        lambda env, rng: env.written([rng.choice(MOVES) for _ in env.moves]),  # steps, but no ear
    ):
        assert earned(Waves(), speak) < 0.5
    assert earned(Waves((5, 5)), lambda env, rng: env.direct(2)) < 0.4


def test_steps_may_be_forbidden_and_must_be_closed():
    env = Waves(steps=False)
    env.reset(2)
    assert env.step(env.written(env.moves)).reward == 0 and env.step(env.expert()).reward == 1
    env = Waves()
    env.reset(2)
    assert env.step(env.expert().replace("</think>", "")).info["malformed"]
    with pytest.raises(ValueError, match="1 to 9"):
        Waves((0, 3))
