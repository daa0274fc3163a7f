"""Chapter 03: preferences over short replies (Taste), steps and lengths (Chain), fitted in many ways."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from .. import envs, evaluate, models, ops
from ..algorithms import DPO, GRPO, IPO, KTO, LCPO, ORPO, BetaDPO, OnlineDPO, SimPO, StepDPO
from ..algorithms.base import Algorithm
from ..algorithms.dpo import Pair
from ..batch import Batch, Episode, by_group, collate, pairs
from ..imitate import imitate
from ..models.score import score
from ..rewards import at_end
from ..rollout import Limits, rollout
from ..train import train
from . import kinds
from .kinds import FRESH_SEEDS, ByReward, Experiment
from .sums import (
    FEW,
    SUMS,
    WRITTEN,
    FitSums,
    length_data,
    measure_lengths,
    measure_steps,
    slipper,
    step_data,
    talker,
)

SEEDS = FRESH_SEEDS[:3]
PEOPLE = envs.Taste(noise=0.2)
SHORT = Limits(turn_tokens=20, turns=1, total=32)
TASTE = dict(steps=60, prompts=32, tries=2, lr=6e-4, limits=SHORT)


# --- who says what, and who prefers it --------------------------------------------------------------------


def replies(seed: int, tasks: int, tries: int = 2) -> list[Episode]:
    """The novice's replies to training tasks of this seed; an episode's reward is its true utility."""
    first = 1_000_000 * (seed + 1)
    return rollout(
        models.load("taste-novice"), PEOPLE, range(first, first + tasks), tries, seed=seed, limits=SHORT
    )


def prefers(a: Episode, b: Episode) -> bool:
    """Whether a noisy annotator takes a over b; asked twice, the answer is the same."""
    chance = 1 / (1 + np.exp(-(a.reward - b.reward) / PEOPLE.noise))
    return random.Random(f"{a.text} {b.text}").random() < chance


def ordered(a: Episode, b: Episode, better: bool) -> Pair:
    """(chosen, rejected)."""
    return (a, b) if better else (b, a)


def noisy_pairs(seed: int, tasks: int = 600) -> list[Pair]:
    """Two replies to each task, as a noisy annotator orders them."""
    return [ordered(a, b, prefers(a, b)) for a, b in by_group(replies(seed, tasks))]


def true_pairs(seed: int, tasks: int = 600, flipped: float = 0.0) -> list[Pair]:
    """Two replies to each task by true utility; a share of the labels is turned round."""
    rng = np.random.default_rng([seed, 3])
    return [
        ordered(a, b, (a.reward >= b.reward) != (rng.random() < flipped))
        for a, b in by_group(replies(seed, tasks))
    ]


def long_pairs(seed: int, tasks: int = 600) -> list[Pair]:
    """Noisy pairs whose winner is the longer reply, as many as `tasks`."""
    return [(w, l) for w, l in noisy_pairs(seed, 4 * tasks) if w.mask.sum() > l.mask.sum()][:tasks]


def low_pairs(seed: int, tasks: int = 960) -> list[Pair]:
    """Noisy pairs of the two worst of six replies."""
    worst = [sorted(tries, key=lambda e: e.reward)[:2] for tries in by_group(replies(seed, tasks, 6))]
    return [ordered(a, b, prefers(a, b)) for a, b in worst]


def labels(seed: int, good: int, bad: int) -> list[tuple[Episode, bool]]:
    """Single replies with a label each, (episode, whether it was the better one of two); no two of one task."""
    data = noisy_pairs(seed, good + bad)
    return [(w, True) for w, _ in data[:good]] + [(l, False) for _, l in data[-bad:]]


# --- what is measured -------------------------------------------------------------------------------------


def measure_taste(policy, tasks: int = 1024) -> dict[str, float]:
    """On held-out tasks: true utility, nats away from the novice a reply, words a reply."""
    tried = evaluate.episodes(policy, PEOPLE, tasks, limits=SHORT)
    batch = with_ref(tried, models.load("taste-novice"))
    away = ops.row_sum(batch.old_logp - batch.ref_logp, batch.mask)
    return {
        "utility": float(batch.reward.mean()),
        "kl": float(away.mean()),
        "words": float(batch.mask.sum(1).mean()) - 1,
    }


@torch.no_grad()
def with_ref(episodes: Sequence[Episode], ref) -> Batch:
    """A batch with its reference's log-probabilities."""
    batch = collate(episodes)
    return batch.set(ref_logp=score(ref, batch).logp)


@torch.no_grad()
def measure_length(policy) -> dict[str, float]:
    """As measure_taste; and on 512 of the novice's replies, how an implicit reward goes with their length."""
    batch = with_ref(replies(-1, 512, 1), models.load("taste-novice"))
    logp, length = score(policy, batch).logp, batch.mask.sum(1)
    rewards = {"sum": ops.row_sum(logp - batch.ref_logp, batch.mask), "mean": ops.row_mean(logp, batch.mask)}
    found = {
        f"corr_{name}": float(torch.corrcoef(torch.stack([r, length]))[0, 1]) for name, r in rewards.items()
    }
    return measure_taste(policy) | {k: 0.0 if np.isnan(v) else v for k, v in found.items()}


class Probe:
    """What a policy makes of fixed pairs, against the policy as it was when the probe was made."""

    def __init__(self, policy, data: Sequence[Pair], most: int = 96):
        self.batch = with_ref(pairs(data[:most]), policy)

    @torch.no_grad()
    def __call__(self, policy) -> dict[str, float]:
        """Nats by which chosen and rejected replies rose, and by which they are apart; mean log-odds ratio."""
        b = self.batch
        logp = score(policy, b).logp
        rose, mean = ops.row_sum(logp - b.ref_logp, b.mask), ops.row_mean(logp, b.mask)
        odds = ops.log_odds(mean)
        return {
            "chosen": float(rose[0::2].mean()),
            "rejected": float(rose[1::2].mean()),
            "margin": float((rose[0::2] - rose[1::2]).mean()),
            "chosen_logp": float(mean[0::2].mean()),
            "odds": float((odds[0::2] - odds[1::2]).mean()),
        }


# --- arms -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fit:
    """Fits an algorithm to data made from the seed; yields a row a step, now and then the probe or utility."""

    data: Callable[[int], list]
    algorithm: Callable[[list], Algorithm]
    settings: dict

    def __call__(self, policy, seed: int, **changes) -> Iterator[dict]:
        data = self.data(seed)
        probe = Probe(policy, data) if isinstance(data[0][1], Episode) else None
        for record in train(
            policy, PEOPLE, self.algorithm(data), **{**self.settings, "seed": seed, **changes}
        ):
            row = {"step": record.step, "loss": record.loss} | filtered(record.episodes)
            if probe and record.step % 4 == 0:
                row |= probe(policy)
            if record.step % 20 == 0:
                row |= {"utility": measure_taste(policy, 256)["utility"]}
            yield row


def filtered(episodes: Sequence[Episode]) -> dict[str, float]:
    """Of the pairs that β-DPO left out of a step, the share whose label is wrong; nothing where none was."""
    out = [a.reward < b.reward for a, b in zip(episodes[0::2], episodes[1::2]) if a.pair < 0]
    return {"dropped_flipped": float(np.mean(out))} if out else {}


def two_stages(policy, seed: int) -> Iterator[dict]:
    """Imitates the winners, then DPO from there; as many rows in each half as ORPO sees in its own."""
    data = noisy_pairs(seed)
    probe = Probe(policy, data)
    losses = imitate(policy, [w for w, _ in data], steps=30, rows=64, lr=TASTE["lr"], seed=seed)
    for step, loss in enumerate(losses, 1):
        yield {"step": step, "loss": loss} | (probe(policy) if step % 4 == 0 else {})
    for record in train(policy, PEOPLE, DPO(pairs=data), **{**TASTE, "steps": 30, "seed": seed}):
        yield {"step": 30 + record.step, "loss": record.loss} | (
            probe(policy) if record.step % 4 == 2 else {}
        )


@dataclass(frozen=True)
class ByAnnotator(GRPO):
    """GRPO on two tries of a task; the one that the annotator takes is paid 1, the other 0."""

    def reward(self, batch: Batch) -> Batch:
        took = {}
        for a, b in by_group(batch.episodes):
            took[id(a)] = prefers(a, b)
            took[id(b)] = not took[id(a)]
        paid = torch.tensor([float(took[id(e)]) for e in batch.episodes])
        return batch.set(rewards=at_end(paid, batch.mask))


def online(policy, seed: int) -> Iterator[dict]:
    """60 updates on 16 fresh comparisons each: 960 questions to the annotator."""
    settings = {**TASTE, "prompts": 16, "seed": seed}
    return ({"step": r.step, "utility": r.reward} for r in train(policy, PEOPLE, ByAnnotator(), **settings))


def iterated(policy, seed: int, rounds: int = 4) -> Iterator[dict]:
    """DPO on 240 pairs, then on 240 of its own, …; a round's reference is the policy that it starts with."""
    data = low_pairs(seed, 960 // rounds)
    for turn in range(rounds):
        if turn:
            first = 1_000_000 * (seed + 1) + 100_000 * turn
            tries = rollout(policy, PEOPLE, range(first, first + 960 // rounds), 2, seed=seed, limits=SHORT)
            data = [ordered(a, b, prefers(a, b)) for a, b in by_group(tries)]
        settings = {**TASTE, "steps": 60 // rounds, "seed": 100 * seed + turn}
        yield from ({"step": 60 // rounds * turn + r.step, "loss": r.loss} for r in
                    train(policy, PEOPLE, DPO(pairs=data), **settings))  # fmt: skip
        yield {"step": 60 // rounds * (turn + 1), "utility": measure_taste(policy, 256)["utility"]}


# --- what is recorded -------------------------------------------------------------------------------------

LONG, GENTLE = {**TASTE, "steps": 200}, {**TASTE, "lr": 1e-4}
STEPS = dict(steps=30, prompts=32, tries=2, lr=3e-4, limits=WRITTEN)
LENGTHS = dict(steps=24, prompts=32, tries=2, lr=1e-4, limits=WRITTEN)
FASTER = {**LENGTHS, "lr": 3e-4}


def _by_steps(algorithm, settings=STEPS) -> FitSums:
    return FitSums(slipper, SUMS, step_data, algorithm, settings)


def _by_length(algorithm, settings=LENGTHS) -> FitSums:
    return FitSums(talker, FEW, length_data, algorithm, settings)


def _flipped(seed: int) -> list[Pair]:
    return true_pairs(seed, 600, 0.2)


REAL = ByReward(envs.Taste(), OnlineDPO(beta=0.1), kinds.REAL)

EXPERIMENTS = {
    "03_preferences/ipo": Experiment(
        "Labels without noise, 600 pairs, 200 updates: a margin without end against a target of 5 nats.",
        "taste-novice",
        {
            "DPO": Fit(true_pairs, lambda data: DPO(pairs=data), LONG),
            "IPO": Fit(true_pairs, lambda data: IPO(beta=0.1, mean=False, pairs=data), LONG),
        },
        measure_taste,
        SEEDS,
    ),
    "03_preferences/simpo": Experiment(
        "Pairs whose winner is the longer reply: how the implicit reward goes with length.",
        "taste-novice",
        {
            "DPO": Fit(long_pairs, lambda data: DPO(pairs=data), GENTLE),
            "SimPO": Fit(long_pairs, lambda data: SimPO(pairs=data), GENTLE),
        },
        measure_length,
        SEEDS,
    ),
    "03_preferences/kto": Experiment(
        "800 single labels: in balance, four good to one bad and the reverse, with weights and without.",
        "taste-novice",
        {
            "in balance": Fit(lambda s: labels(s, 400, 400), lambda d: KTO(labelled=d), TASTE),
            "mostly good": Fit(lambda s: labels(s, 640, 160), lambda d: KTO(labelled=d), TASTE),
            "mostly good, weighted": Fit(
                lambda s: labels(s, 640, 160), lambda d: KTO(labelled=d, undesirable=4.0), TASTE
            ),
            "mostly bad": Fit(lambda s: labels(s, 160, 640), lambda d: KTO(labelled=d), TASTE),
            "mostly bad, weighted": Fit(
                lambda s: labels(s, 160, 640), lambda d: KTO(labelled=d, desirable=4.0), TASTE
            ),
        },
        measure_taste,
        SEEDS,
    ),
    "03_preferences/orpo": Experiment(
        "One stage without a reference against imitation of the winners and then DPO, at equal rows.",
        "taste-novice",
        {
            "SFT, then DPO": two_stages,
            "ORPO, λ = 20": Fit(noisy_pairs, lambda data: ORPO(lam=20.0, pairs=data), TASTE),
            "ORPO, λ = 1": Fit(noisy_pairs, lambda data: ORPO(lam=1.0, pairs=data), TASTE),
        },
        measure_taste,
        SEEDS,
    ),
    "03_preferences/beta": Experiment(
        "A fifth of 600 labels turned round: does β-DPO leave those pairs out?",
        "taste-novice",
        {
            "DPO, clean labels": Fit(true_pairs, lambda data: DPO(pairs=data), TASTE),
            "DPO": Fit(_flipped, lambda data: DPO(pairs=data), TASTE),
            "DPO, smoothing 0.2": Fit(_flipped, lambda data: DPO(pairs=data, smoothing=0.2), TASTE),
            "β-DPO": Fit(_flipped, lambda data: BetaDPO(pairs=data), TASTE),
        },
        measure_taste,
    ),
    "03_preferences/steps": Experiment(
        "Sums of three steps by a policy that slips: the first wrong step compared, or the whole answer.",
        "chain-atoms",
        {
            "start": _by_steps(None),
            "DPO": _by_steps(lambda data: DPO(beta=0.4, pairs=data)),
            "Step-DPO": _by_steps(lambda data: StepDPO(pairs=data)),
        },
        measure_steps,
    ),
    "03_preferences/lengths": Experiment(
        "Shortest against longest of right answers, 200 pairs of a policy that writes too much.",
        "chain-atoms",
        {
            "start": _by_length(None),
            "DPO": _by_length(lambda data: DPO(pairs=data)),
            "LCPO": _by_length(lambda data: LCPO(pairs=data)),
            "DPO, three times the rate": _by_length(lambda data: DPO(pairs=data), FASTER),
            "LCPO, three times the rate": _by_length(lambda data: LCPO(pairs=data), FASTER),
        },
        measure_lengths,
        SEEDS,
    ),
    "03_preferences/coverage": Experiment(
        "960 questions to an annotator: about poor replies beforehand, in four rounds, or about fresh replies.",
        "taste-novice",
        {
            "DPO on poor replies": Fit(low_pairs, lambda data: DPO(pairs=data), TASTE),
            "DPO in four rounds": iterated,
            "GRPO": online,
        },
        measure_taste,
        SEEDS,
    ),
}
