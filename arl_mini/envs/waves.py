"""Waves: sounds computed sample by sample, seen as a log-spectrum, and a question about what was heard."""

import random

import numpy as np

from .. import pictures
from ..models.tokenizer import END, THINK, THINK_END
from .base import Env, Reply

RATE = 8000  # samples a second
FRAME, FRAMES, BANDS = 256, 4, 16  # samples a frame (32 ms), frames a tone, bands of the spectrum
HISS = 0.2  # standard deviation of the noise
MOVES = ("up", "down", "level")


def glide(start: float, end: float, samples: int, loud: float = 1.0) -> np.ndarray:
    """A tone whose pitch goes in a line from start to end, in Hz; PCM (samples,), at most `loud`."""
    pitch = np.linspace(start, end, samples)
    wave = loud * np.sin(2 * np.pi * np.cumsum(pitch) / RATE)
    fade = min(40, samples // 4)  # 5 ms: a sudden end would sound at every pitch
    ramp = 0.5 - 0.5 * np.cos(np.pi * (np.arange(fade) + 0.5) / fade)
    wave[:fade] *= ramp
    wave[samples - fade :] *= ramp[::-1]
    return wave


def log_spectrum(
    pcm: np.ndarray, frame: int, bands: int, low: float = 200.0, high: float = 3600.0
) -> np.ndarray:
    """Natural log of the power in bands equally wide on a logarithmic scale of pitch; (frames, bands).

    pcm (samples,): cut into frames that do not overlap, each under a Hann window; what is left over at the
    end is dropped.
    """
    frames = pcm[: len(pcm) // frame * frame].reshape(-1, frame) * np.hanning(frame)
    power = np.abs(np.fft.rfft(frames, axis=1)) ** 2 / frame
    edges = np.geomspace(low, high, bands + 1)
    band = np.searchsorted(edges, np.fft.rfftfreq(frame, 1 / RATE), side="right") - 1
    inside = (band >= 0) & (band < bands)
    sums = np.zeros((len(frames), bands))
    np.add.at(sums.T, band[inside], power.T[inside])
    return np.log(sums + 1e-4)


class Waves(Env):
    """A tune of one to five tones in noise; how many of them rise?

    Each tone lasts 128 ms and goes up, down or stays level. The task is the log-spectrum of the recording as
    a picture, 16 bands of pitch (the highest on top) by 4 frames a tone, cut into patches of 4×4 tone by
    tone, and then ` rise ?`. The policy may answer at once, ` 2<end>`, or write down what it hears, tone by
    tone, with the count so far. Reward 1 for the right number, whatever was written. steps=False: an answer
    with steps is malformed.

    A sample: `<user><patch 0 0 0000…>` … ` rise ?<bot><think> up 1 down 1 up 2</think> 2<end>` and the reward
    is 1.
    """

    words = f" {' '.join(MOVES)} rise ?"

    def __init__(self, tones: tuple[int, int] = (1, 5), steps: bool = True):
        if not 1 <= tones[0] <= tones[1] <= 9:
            raise ValueError(f"tones must be a range within 1 to 9, got {tones}")
        self.tones, self.steps = tones, steps

    def reset(self, seed: int) -> str:
        rng = random.Random(f"waves {seed}")
        self.seed = seed
        self.moves = [rng.choice(MOVES) for _ in range(rng.randint(*self.tones))]
        self.pitches = [_pitches(move, rng) for move in self.moves]
        self.counts = [self.moves[: i + 1].count("up") for i in range(len(self.moves))]
        seen = self.spectrum()
        parts = [seen[:, i : i + FRAMES] for i in range(0, seen.shape[1], FRAMES)]
        return "".join(pictures.write(part, (0, i)) for i, part in enumerate(parts)) + " rise ?"

    def record(self) -> np.ndarray:
        """PCM of the tune in its noise, (1024 · tones,)."""
        tune = np.concatenate([glide(start, end, FRAME * FRAMES) for start, end in self.pitches])
        return tune + HISS * np.random.default_rng([8, self.seed]).standard_normal(len(tune))

    def spectrum(self) -> np.ndarray:
        """The log-spectrum as grey levels 0 to 7, (16, 4 · tones): high bands on top."""
        heard = log_spectrum(self.record(), FRAME, BANDS).T[::-1]
        return pictures.grey(heard + 2, most=4.5)

    @property
    def answer(self) -> int:
        """How many tones rise."""
        return self.counts[-1]

    def direct(self, answer: int) -> str:
        """An answer at once."""
        return f" {answer}{END}"

    def step(self, said: str) -> Reply:
        head, thinking, rest = said.partition(THINK)
        written, closed, tail = rest.partition(THINK_END)
        answer = (tail if thinking else head).removesuffix(END).strip()
        malformed = not said.endswith(END) or bool(
            thinking and (head.strip() or not closed or not self.steps)
        )
        right = not malformed and answer == str(self.answer)
        heard = [word for word in written.split() if word in MOVES]
        matched = sum(a == b for a, b in zip(heard, self.moves)) / len(self.moves)
        info = {
            "success": right,
            "malformed": malformed,
            "wrote": bool(thinking),
            "heard": matched,
            "tones": len(self.moves),
        }
        return Reply(reward=float(right), done=True, info=info)

    def written(self, moves: list[str]) -> str:
        """A reply that writes these moves with the count so far, then the last count."""
        steps = "".join(f" {move} {moves[: i + 1].count('up')}" for i, move in enumerate(moves))
        return f"{THINK}{steps}{THINK_END} {moves.count('up')}{END}"

    def expert(self) -> str:
        """Writes every tone down."""
        return self.written(self.moves) if self.steps else self.direct(self.answer)

    def random(self, rng: random.Random) -> str:
        """A number at once, up to the number of tones."""
        return self.direct(rng.randint(0, len(self.moves)))

    def render_chat(self) -> str:
        return (
            "The text is the log-spectrum of a tune as patches <patch row column levels> of 4 by 4 grey "
            "levels, high pitch on top, four frames a tone. How many tones rise? Answer with the number."
        )


def _pitches(move: str, rng: random.Random) -> tuple[float, float]:
    """Where a tone begins and ends, in Hz: a rise or fall is by a factor of 1.5 to 2."""
    low, factor = rng.uniform(350, 1500), rng.uniform(1.5, 2.0)
    return {"up": (low, low * factor), "down": (low * factor, low), "level": (low * 1.4, low * 1.4)}[move]
