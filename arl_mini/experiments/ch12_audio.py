"""Chapter 12, sound: tones counted with and without written steps; durations tuned on a recogniser's error."""

from collections.abc import Callable

import numpy as np

from .. import envs, evaluate
from ..algorithms import GRPO
from ..capabilities.sound import Voice
from ..rollout import Limits
from .ch12_draw import voted
from .kinds import ByImitation, ByReward, Experiment

SEEDS = (10, 11, 12)
VOTES = 6
HEARD = Limits(turn_tokens=16, turns=1, total=64)
LISTEN = dict(steps=16, prompts=16, tries=8, lr=5e-4, limits=HEARD)
SPOKEN = Limits(turn_tokens=8, turns=1, total=32)
SPEAK = dict(steps=40, prompts=16, tries=8, lr=5e-4, limits=SPOKEN)


def measure_waves(policy) -> dict[str, float]:
    """On 512 held-out tunes: right, right where four or five tones sound, writes steps, tones heard right
    where it does; of four or five tones also a vote of six answers at once, which are as many tokens as an
    answer with steps.
    """
    last = [e.infos[-1] for e in evaluate.episodes(policy, envs.Waves(), 512, limits=HEARD)]
    long = [i["success"] for i in last if i["tones"] >= 4]
    heard = [i["heard"] for i in last if i["wrote"]]
    measured = {
        "success": [i["success"] for i in last],
        "long_success": long,
        "writes": [i["wrote"] for i in last],
    }
    means = {k: float(np.mean(v)) for k, v in measured.items()} | (
        {"heard": float(np.mean(heard))} if heard else {}
    )
    return means | {"long_vote": voted(policy, envs.Waves((4, 5), steps=False), VOTES)}


def measure_voice(policy) -> dict[str, float]:
    """On 512 held-out texts: word error rate, frames a text, and the share of them that soft sounds get."""
    last = [e.infos[-1] for e in evaluate.episodes(policy, Voice(), 512, limits=SPOKEN)]
    spoken = [i for i in last if not i.get("malformed")]
    measured = {"error": float(np.mean([i["error"] for i in last])), "malformed": 1 - len(spoken) / len(last)}
    if spoken:
        frames = float(np.mean([i["frames"] for i in spoken]))
        measured |= {"frames": frames, "soft_share": float(np.mean([i["soft"] for i in spoken])) / frames}
    return measured


def even_error(frames: int) -> float:
    """The word error rate of a voice that gives every sound as many frames, on the same 512 texts."""
    return scripted_error(lambda world: world.write([frames] * world.count))


def scripted_error(speak: Callable[[Voice], str]) -> float:
    """The word error rate of scripted durations, on the same 512 texts."""
    world, total = Voice(), 0.0
    for seed in range(evaluate.HELD_OUT, evaluate.HELD_OUT + 512):
        world.reset(seed)
        total += world.step(speak(world)).info["error"]
    return total / 512


EXPERIMENTS = {
    "12_perception/waves": Experiment(
        "How many tones rise: GRPO with and without written steps, and imitation of right answers without.",
        "waves-novice",
        {
            "steps": ByReward(envs.Waves(), GRPO(), LISTEN),
            "direct": ByReward(envs.Waves(steps=False), GRPO(), LISTEN),
            "taught direct": ByImitation(envs.Waves(steps=False), 3000, dict(steps=150, rows=64, lr=2e-3)),
        },
        measure_waves,
        SEEDS,
    ),
    "12_perception/voice": Experiment(
        "The durations of a synthetic voice, tuned by GRPO on a recogniser's word errors; and with room without end.",
        "voice-novice",
        {
            "tuned": ByReward(Voice(), GRPO(), SPEAK),
            "endless": ByReward(Voice(pace=None), GRPO(), SPEAK),
        },
        measure_voice,
        SEEDS,
    ),
}
