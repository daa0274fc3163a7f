"""Learned judges of plans under way: a value of states fitted to outcomes, and a critic of steps fitted to
hindsight goals.

Both are a copy of the policy's trunk with a head of one number; the policy itself stays as it is.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from ...batch import Episode
from ...envs.base import parse_act
from ...envs.craft import RECIPES
from ...models.heads import RewardModel
from ...models.tokenizer import encode
from ...rewards import fit_process_model, rewards_of
from ...rollout import Row
from ..ahead import Candidate


@dataclass
class ValueGuide:
    """V(state): the chance that the episode succeeds from here, read from the text so far.

    Source: a learned value that steers a search, as in AlphaZero; RAP (arXiv 2305.14992) and LATS
    (2310.04406) ask a language model for the value instead and train nothing.
    """

    model: RewardModel

    @classmethod
    def of(cls, policy) -> "ValueGuide":
        """A guide with the trunk of a policy that was not fitted yet."""
        return cls(RewardModel(policy).requires_grad_(True))

    def fit(
        self, episodes: Sequence[Episode], *, steps: int, lr: float = 1e-3, seed: int = 0
    ) -> Iterator[float]:
        """Fits the value of every state of these episodes to how they ended; yields the loss of each update."""
        return fit_process_model(
            self.model, [(e, outcomes(e)) for e in episodes], steps=steps, rows=32, lr=lr, seed=seed
        )

    def values(self, rows: Sequence[Row]) -> list[float]:
        """V of each row, in [0, 1]; one that is over is worth what it was paid."""
        return _scored(self.model, [row.episode for row in rows])


def outcomes(episode: Episode, truth: float | None = None) -> np.ndarray:
    """Labels (L,) for a value: how the episode ended, at the last token before each turn; nan elsewhere.

    truth: where it was measured otherwise, for the state that the episode stands in now, that state alone.
    """
    labels = np.full(len(episode), np.nan)
    if truth is not None:
        labels[-1] = truth
        return labels
    first = np.flatnonzero((episode.mask > 0) & (np.diff(episode.mask, prepend=0) > 0))
    labels[first - 1] = float(episode.success)
    return labels


def _scored(model: RewardModel, episodes: Sequence[Episode]) -> list[float]:
    """The chance that a judge gives each text, read at its last token; one that is over is worth its reward."""
    alive = [i for i, e in enumerate(episodes) if not (e.terminated or e.truncated)]
    found = [e.reward for e in episodes]
    if alive:
        for i, value in zip(alive, rewards_of(model, [episodes[i] for i in alive]).sigmoid().tolist()):
            found[i] = value
    return found


@dataclass
class GoalCritic:
    """Q(state, step, goal): the chance that a goal is reached after a step, read from the text before the
    world answers.

    Fitted offline on episodes of any quality: each is told again with goals that it did reach, and with some
    that it did not. Source: Planning without Search (arXiv 2505.18098), whose critic judges thoughts in
    natural language.
    """

    model: RewardModel

    @classmethod
    def of(cls, policy) -> "GoalCritic":
        """A critic with the trunk of a policy that was not fitted yet."""
        return cls(RewardModel(policy).requires_grad_(True))

    def fit(
        self, episodes: Sequence[Episode], *, steps: int, lr: float = 1e-3, seed: int = 0
    ) -> Iterator[float]:
        """Fits the critic to crafting episodes told again; yields the loss of each update."""
        told = [pair for e in episodes for pair in hindsight(e, random.Random(f"hindsight {seed} {e.seed}"))]
        return fit_process_model(self.model, told, steps=steps, rows=32, lr=lr, seed=seed)

    def rerank(self, proposals: Sequence[Sequence[Candidate]], prior: float = 1.0) -> list[Candidate]:
        """Of each row's proposals the one with the highest log Q + prior · log π; no world is asked.

        With prior 1 that is the proposal most probable given that the goal is reached; 0: Q alone.
        """
        flat = [c for group in proposals for c in group]
        chance = _scored(self.model, [_before_answer(c.row.episode) for c in flat])
        scores = iter(math.log(max(q, 1e-9)) + prior * c.logp for q, c in zip(chance, flat))
        return [max(group, key=lambda _: next(scores)) for group in proposals]


def _before_answer(episode: Episode) -> Episode:
    """The episode up to its last sampled token, as if nobody knew yet what the world says."""
    end = int(np.flatnonzero(episode.mask > 0)[-1]) + 1
    kept = {name: getattr(episode, name)[:end] for name in ("tokens", "mask", "turn", "logp", "rewards")}
    return replace(episode, **kept, terminated=False, truncated=False)


def hindsight(episode: Episode, rng: random.Random, others: int = 2) -> list[tuple[Episode, np.ndarray]]:
    """A crafting episode told again, (episode, labels (L,)): for each thing made, its own goal, and `others`
    never made.

    The goal's word in the task is exchanged. A label stands at the last token of each turn: 1 where the goal
    is made then or later, else 0; nan elsewhere, and after the goal was made.
    """
    made = {}
    for turn, info in enumerate(episode.infos):
        words = parse_act(episode.said(turn)) or [""]
        if words[0] == "make" and not info.get("illegal"):
            made.setdefault(words[-1], turn)
    goal = episode.infos[0]["goal"]
    never = [thing for thing in RECIPES if thing not in made and thing != goal]
    place = int(np.flatnonzero(episode.tokens == _word(episode, goal))[0])
    told = []
    for wanted in [*made, *rng.sample(never, min(others, len(never))), *([] if goal in made else [goal])]:
        tokens, labels = episode.tokens.copy(), np.full(len(episode), np.nan)
        tokens[place] = _word(episode, wanted)
        last = made.get(wanted, episode.turns - 1)
        for turn in range(last + 1):
            labels[int(np.flatnonzero((episode.turn == turn) & (episode.mask > 0))[-1])] = float(
                wanted in made
            )
        told.append((replace(episode, tokens=tokens), labels))
    return told


def _word(episode: Episode, thing: str) -> int:
    (token,) = encode(episode.tokenizer, f" {thing}")
    return token


def fit_to_truth(
    guide: ValueGuide, rows: Sequence[Row], truths: Sequence[float], episodes: Sequence[Episode], *, steps: int,
    lr: float = 1e-3, seed: int = 0,
) -> Iterator[float]:  # fmt: skip
    """Fits a guide anew to states that a search went to and what they are truly worth, old episodes among
    them.
    """
    data = [(row.episode, outcomes(row.episode, t)) for row, t in zip(rows, truths, strict=True)]
    data += [(e, outcomes(e)) for e in episodes]
    return fit_process_model(guide.model, data, steps=steps, rows=32, lr=lr, seed=seed)


@torch.no_grad()
def brier(values: Sequence[float], truths: Sequence[float]) -> float:
    """Mean squared distance of told values from true ones."""
    return float(np.mean((np.asarray(values) - np.asarray(truths)) ** 2))
