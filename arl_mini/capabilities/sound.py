"""A voice of computed sounds, a recogniser that hears it, and the one part between them that is trained.

A synthesiser that reads a text aloud first decides how long each sound lasts. That decision is no function of
the sound wave that a loss could pass through, but it can be tried out and scored: DMOSpeech 2 (arXiv
2507.14988) tunes the duration predictor of a speech model by GRPO with a recogniser's error in the reward.
`Voice` is that loop as a world: the policy is the duration predictor; synthesiser and recogniser stay as they
are.
"""

import random
from collections.abc import Sequence
from functools import cache

import numpy as np

from ..envs.base import Env, Reply
from ..envs.waves import glide, log_spectrum
from ..models.tokenizer import END

SOUNDS = {  # name → pitch of its two partials in Hz, loudness, and how many frames a reader gives it
    "ba": (300, 1300, 1.0, 4), "de": (420, 1990, 0.35, 2), "gi": (540, 2680, 1.0, 4), "ko": (660, 1530, 0.35, 2),
    "lu": (780, 2220, 1.0, 4), "ma": (900, 2910, 0.35, 2), "ne": (1020, 1760, 1.0, 4), "so": (1140, 2450, 0.35, 2),
}  # fmt: skip
FRAME, BANDS = 128, 16  # samples (16 ms); bands of the spectrum
NOISE = 0.6  # standard deviation of the room's noise
SPREAD = 1.3  # of a band's log-power, in nats
SWITCH = 6.0  # what it costs the recogniser to believe in a new sound


def pronounce(sounds: Sequence[str], frames: Sequence[int]) -> np.ndarray:
    """PCM of sounds that last so many frames of 128 samples each."""
    parts = []
    for sound, n in zip(sounds, frames, strict=True):
        low, high, loud, _ = SOUNDS[sound]
        parts.append(loud * (glide(low, low, n * FRAME) + 0.7 * glide(high, high, n * FRAME)))
    return np.concatenate(parts)


@cache
def _templates() -> np.ndarray:
    """The mean log-spectrum of each sound in the noise, and of the noise alone last; (sounds + 1, bands)."""
    rng = np.random.default_rng(0)
    heard = [pronounce([sound], [40]) for sound in SOUNDS] + [np.zeros(40 * FRAME)]
    noise = (NOISE * rng.standard_normal(40 * FRAME) for _ in heard)
    return np.array([log_spectrum(pcm + hiss, FRAME, BANDS).mean(0) for pcm, hiss in zip(heard, noise)])


def recognise(pcm: np.ndarray) -> list[str]:
    """The sounds in a recording: the likeliest path through the frames, each change of sound at a cost.

    Frame by frame the log-likelihood of a sound is −‖spectrum − template‖² / 2·spread²; Viterbi finds the
    best path. A sound that is short or soft does not pay for its change and is missed.
    """
    templates = _templates()
    apart = log_spectrum(pcm, FRAME, BANDS)[:, None] - templates
    fit = -(apart**2).sum(2) / (2 * SPREAD**2)  # (frames, sounds + 1)
    if len(fit) == 0:
        return []
    best, came = fit[0], []
    for frame in fit[1:]:
        leader = int(best.argmax())
        stays = best >= best[leader] - SWITCH
        came.append(np.where(stays, np.arange(len(best)), leader))
        best = np.maximum(best, best[leader] - SWITCH) + frame
    path = [int(best.argmax())]
    for back in reversed(came):
        path.append(int(back[path[-1]]))
    names = [*SOUNDS, None]
    heard = [names[k] for i, k in enumerate(path[::-1]) if i == 0 or path[::-1][i - 1] != k]
    return [name for name in heard if name]


def word_errors(said: Sequence[str], heard: Sequence[str]) -> int:
    """The fewest words to change, drop or add that turn `said` into `heard` (Levenshtein 1966)."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(said, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(heard, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (word != other))
    return row[-1]


class Voice(Env):
    """Six sounds to be spoken in noise; the policy says how many frames each lasts, from 1 to 9.

    The task: ` ba de ko gi ma lu`, and the policy answers ` 4 2 2 4 2 4<end>`. The synthesiser speaks, the
    room adds its noise, the recogniser listens. Reward: 1 − word error rate. `pace`: frames a sound that the
    recording has room for, on average; what comes later is cut off. None: it may last as long as it likes.

    Four sounds are loud and four are soft. A reader gives the loud ones more time; the recogniser needs it
    for the soft ones, and the expert knows.
    """

    words = f" {' '.join(SOUNDS)}"

    def __init__(self, sounds: int = 6, pace: float | None = 3.0):
        if not 1 <= sounds <= len(SOUNDS):
            raise ValueError(f"sounds must be from 1 to {len(SOUNDS)}, got {sounds}")
        self.count, self.pace = sounds, pace

    def reset(self, seed: int) -> str:
        self.seed = seed
        self.said = random.Random(f"voice {seed}").sample(list(SOUNDS), self.count)
        return "".join(f" {sound}" for sound in self.said)

    def record(self, frames: Sequence[int]) -> np.ndarray:
        """PCM of what the microphone hears: the voice, cut to its room, and the noise of this task."""
        pcm = pronounce(self.said, frames)
        room = len(pcm) if self.pace is None else round(self.pace * self.count) * FRAME
        noise = np.random.default_rng([7, self.seed]).standard_normal(9 * self.count * FRAME)
        pcm = pcm[:room]
        return pcm + NOISE * noise[: len(pcm)]

    def step(self, said: str) -> Reply:
        words = said.removesuffix(END).split()
        good = said.endswith(END) and len(words) == self.count and all(w in list("123456789") for w in words)
        if not good:
            return Reply(reward=0.0, done=True, info={"success": False, "malformed": True, "error": 1.0})
        frames = [int(word) for word in words]
        heard = recognise(self.record(frames))
        error = word_errors(self.said, heard) / self.count
        soft = [n for sound, n in zip(self.said, frames) if SOUNDS[sound][2] < 1]
        info = {
            "success": error == 0,
            "error": error,
            "frames": sum(frames),
            "soft": sum(soft),
            "heard": heard,
        }
        return Reply(reward=1.0 - error, done=True, info=info)

    def expert(self) -> str:
        """Two frames for loud sounds, the rest of the room for soft ones; nine for all without a limit."""
        soft = [SOUNDS[sound][2] < 1 for sound in self.said]
        if self.pace is None:
            return self.write([9] * self.count)
        room = round(self.pace * self.count) - 2 * soft.count(False)
        each = min(9, max(1, room // max(1, sum(soft))))
        return self.write([each if s else 2 for s in soft])

    def reader(self) -> str:
        """The durations of somebody who stresses what is loud."""
        return self.write([SOUNDS[sound][3] for sound in self.said])

    def write(self, frames: Sequence[int]) -> str:
        """A reply with these durations."""
        return f"{''.join(f' {n}' for n in frames)}{END}"

    def random(self, rng: random.Random) -> str:
        """Any durations."""
        return self.write([rng.randint(1, 9) for _ in self.said])

    def render_chat(self) -> str:
        return "Each word will be spoken. Say how many frames each lasts: digits from 1 to 9, with spaces between."
