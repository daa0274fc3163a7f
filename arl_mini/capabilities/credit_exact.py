"""Credit without error: a language policy in a world small enough to enumerate, read off as a table."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..batch import Episode, collate
from ..envs.base import act, parse_act
from ..formal import FinitePOMDP, Unrolled, action_value, history_mdp
from ..models.score import score
from ..models.tokenizer import encode


def chances(policy, prefixes: Sequence[Sequence[int]], sayings: Sequence[str]) -> Tensor:
    """π(saying | prefix) of whole turns, made to sum to 1 over the sayings: (N, A) float64.

    prefixes: token ids of what stands before the turn. What the policy would say beside these is left out.
    """
    episodes = []
    for prefix in prefixes:
        for said in sayings:
            ids, more = np.array(prefix), np.array(encode(policy.tokenizer, said))
            tokens, zeros = np.concatenate([ids, more]), np.zeros(len(ids) + len(more), np.float32)
            mask = zeros.copy()
            mask[len(ids) :] = 1
            turn = np.where(mask > 0, 0, -1)
            episodes.append(Episode(tokens, mask, turn, zeros, zeros, tokenizer=policy.tokenizer))
    with torch.no_grad():
        logp = score(policy, collate(episodes, policy.device)).logp.double().sum(1).cpu()
    return logp.view(len(prefixes), len(sayings)).softmax(1)


@dataclass(frozen=True, eq=False)
class Truth:
    """Exact values of a policy over the histories of a world. chances, advantages: (N, A), values (N,)."""

    told: Unrolled
    chances: Tensor
    values: Tensor
    advantages: Tensor
    place: dict[str, int]  # a history in words → its row

    def __call__(self, episodes: Sequence[Episode]) -> list[np.ndarray]:
        """As a `Pay`: A(history, action) of each turn, (K,); nan where a turn was no action, and after it."""
        return [np.array([self._of(e, k) for k in range(e.turns)]) for e in episodes]

    def _of(self, episode: Episode, turn: int) -> float:
        row = self.place.get(words_before(episode, turn))
        words, actions = parse_act(episode.said(turn)), self.told.mdp.actions
        known = row is not None and words is not None and len(words) == 1 and words[0] in actions
        return float(self.advantages[row, actions.index(words[0])]) if known else float("nan")

    def value(self, episode: Episode) -> float:
        """V before the first turn."""
        return float(self.values[self.place[words_before(episode, 0)]])


def words_before(episode: Episode, turn: int) -> str:
    """All words before a turn, without marks: 'cue-up forward corridor', as `FinitePOMDP.tell` has it."""
    at = int(np.argmax(episode.turn == turn)) if turn else int(np.argmax(episode.mask))
    text = episode.tokenizer.decode(
        episode.tokens[:at].tolist(), skip_special_tokens=False, clean_up_tokenization_spaces=False
    )
    return " ".join(re.sub(r"<[^<> ]*>", " ", text).split())


def true_credit(policy, world: FinitePOMDP) -> Truth:
    """A(h, a) = Q(h, a) − V(h) of what the policy really does in `envs.Finite(world)`, for every history.

    The policy is taken as it is on well-formed turns. The world needs a horizon; its values are those of
    survey Eq. (11) with γ as the world has it.
    """
    told, form = history_mdp(world), policy.format
    prefixes = []
    for history in told.histories:
        text = form.prompt(f" {world.observations[history[0]]}")
        for action, seen in zip(history[1::2], history[2::2]):
            text += act(told.mdp.actions[action]) + form.observation(f" {world.observations[seen]}")
        prefixes.append(encode(policy.tokenizer, text))
    pi = chances(policy, prefixes, [act(a) for a in told.mdp.actions])
    pi = torch.cat([pi, torch.full_like(pi[:1], 1 / pi.shape[1])])  # the end: nobody acts there
    q = action_value(told.mdp, pi)
    values = (pi * q).sum(1)
    place = {world.tell(h): i for i, h in enumerate(told.histories)}
    return Truth(told, pi[:-1], values[:-1], (q - values[:, None])[:-1], place)
