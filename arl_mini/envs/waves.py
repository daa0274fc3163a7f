"""Waves: sounds computed sample by sample, seen as a log-spectrum, and a question about what was heard."""

import numpy as np

RATE = 8000  # samples a second


def glide(start: float, end: float, samples: int, loud: float = 1.0) -> np.ndarray:
    """A tone whose pitch goes in a line from start to end, in Hz; PCM (samples,) in [−loud, loud], faded at both ends."""
    pitch = np.linspace(start, end, samples)
    wave = loud * np.sin(2 * np.pi * np.cumsum(pitch) / RATE)
    fade = min(40, samples // 4)  # 5 ms: a sudden end would sound at every pitch
    ramp = 0.5 - 0.5 * np.cos(np.pi * (np.arange(fade) + 0.5) / fade)
    wave[:fade] *= ramp
    wave[samples - fade :] *= ramp[::-1]
    return wave


def log_spectrum(pcm: np.ndarray, frame: int, bands: int, low: float = 200.0, high: float = 3600.0) -> np.ndarray:
    """Natural log of the power in bands equally wide on a logarithmic scale of pitch; (frames, bands).

    pcm (samples,): cut into frames that do not overlap, each under a Hann window; what is left over at the end is dropped.
    """
    frames = pcm[: len(pcm) // frame * frame].reshape(-1, frame) * np.hanning(frame)
    power = np.abs(np.fft.rfft(frames, axis=1)) ** 2 / frame
    edges = np.geomspace(low, high, bands + 1)
    band = np.searchsorted(edges, np.fft.rfftfreq(frame, 1 / RATE), side="right") - 1
    inside = (band >= 0) & (band < bands)
    sums = np.zeros((len(frames), bands))
    np.add.at(sums.T, band[inside], power.T[inside])
    return np.log(sums + 1e-4)
