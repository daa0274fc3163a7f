"""Episodes as the engine saw them, and the one Batch that carries everything an algorithm needs.

Preference pairs, expert traces and perturbed copies are rows; reference log-probabilities, values and
advantages are columns. Every per-token tensor is (B, T), aligned with the token it scores.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from . import pictures


@dataclass
class Episode:
    """One episode of L tokens: prompt, then turns of sampled tokens and forced observations.

    tokens, mask, turn, logp, rewards: arrays (L,). mask is 1 where sampled; turn is −1 in the prompt, then
    counts from 0 (an observation belongs to the turn it answers); logp is that of the distribution sampled
    from, 0 where forced; a reward stands at the last sampled token of its turn.
    """

    tokens: np.ndarray
    mask: np.ndarray
    turn: np.ndarray
    logp: np.ndarray
    rewards: np.ndarray
    seed: int = 0  # of the world
    group: int = 0  # rows of the same prompt share it
    terminated: bool = False  # the world ended the episode
    truncated: bool = False  # a limit cut it
    success: bool = False
    infos: list[dict] = field(default_factory=list)  # one a turn, from the world
    temperature: float = 1.0
    full_support: bool = True  # False where top-k or top-p cut the distribution
    pair: int = -1  # the two episodes of a preference share it; −1: in none
    chosen: bool = False  # the preferred one of its pair
    weight: float = 1.0  # what `plan` says of the row, a constant for the gradient
    expert: bool = False  # the world's expert spoke in it, not the policy alone
    blanked: bool = False  # a copy of another row with forced tokens blanked or exchanged
    past: bool = False  # the policy of an earlier step sampled it
    path: tuple[int, ...] = ()  # the branches taken to it, where tries grow as a tree
    values: np.ndarray | None = None  # (L,) of the state before each sampled token, where `plan` measured it
    verdicts: np.ndarray | None = None  # (L,) on the step that ends at a token, nan elsewhere, where `plan` asked
    tokenizer: object = field(default=None, repr=False, compare=False)

    @property
    def own(self) -> bool:
        """Whether the policy sampled it as it stands."""
        return not (self.expert or self.blanked)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def reward(self) -> float:
        """Sum of the rewards."""
        return float(self.rewards.sum())

    @property
    def turns(self) -> int:
        """Number of turns the policy took."""
        return int(self.turn.max()) + 1 if len(self) else 0

    @property
    def pieces(self) -> list[str]:
        """The text of each token."""
        return [self._decode([int(t)]) for t in self.tokens]

    @property
    def text(self) -> str:
        """The whole episode as text, special tokens kept."""
        return self._decode(self.tokens.tolist())

    def said(self, turn: int) -> str:
        """What the policy sampled in one turn."""
        return self._decode(self.tokens[(self.turn == turn) & (self.mask > 0)].tolist())

    def _decode(self, ids: list[int]) -> str:
        """The exact text: some tokenizers drop a space before a mark unless told otherwise."""
        plain = partial(self.tokenizer.decode, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return pictures.decode(ids, plain)


@dataclass
class Batch:
    """B episodes side by side, right-padded to T. Columns that nobody computed yet are None."""

    tokens: Tensor  # (B, T) long, padding 0
    mask: Tensor  # (B, T) float, 1 = sampled
    old_logp: Tensor  # (B, T) log-probability when sampled, 0 where forced
    rewards: Tensor  # (B, T) at the last sampled token of each turn
    turn: Tensor  # (B, T) long, −1 in prompt and padding
    group: Tensor  # (B,) long
    lengths: Tensor  # (B,) long
    truncated: Tensor  # (B,) bool
    success: Tensor  # (B,) bool
    temperature: float = 1.0
    ref_logp: Tensor | None = None  # (B, T) of the reference policy
    values: Tensor | None = None  # (B, T) of the critic, or as measured by `plan`
    verdicts: Tensor | None = None  # (B, T) on the step that ends there, nan elsewhere
    advantages: Tensor | None = None  # (B, T)
    returns: Tensor | None = None  # (B, T)
    pair: Tensor | None = None  # (B,) long, −1: in no pair
    chosen: Tensor | None = None  # (B,) bool
    weight: Tensor | None = None  # (B,)
    entropy: Tensor | None = None  # (B, T) of the policy before the step's updates
    expert: Tensor | None = None  # (B,) bool; old_logp of such a row is the policy's before the step's updates
    blanked: Tensor | None = None  # (B,) bool; the same holds
    step: int = 0  # steps of the run before this one
    episodes: Sequence[Episode] = ()

    @property
    def own(self) -> Tensor:
        """(B,) bool: rows that the policy sampled as they stand."""
        others = [x for x in (self.expert, self.blanked) if x is not None]
        return ~sum(others, torch.zeros(len(self), dtype=torch.bool, device=self.tokens.device))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def reward(self) -> Tensor:
        """Sum of the rewards of each row, (B,)."""
        return self.rewards.sum(1)

    def set(self, **columns) -> "Batch":
        """A copy with other columns."""
        return replace(self, **columns)

    def rows(self, index: Tensor) -> "Batch":
        """The rows given (long index or bool mask), in that order."""
        index = index.nonzero()[:, 0] if index.dtype == torch.bool else index
        cut = {f.name: getattr(self, f.name) for f in fields(self)}
        cut = {k: v[index] if isinstance(v, Tensor) else v for k, v in cut.items()}
        if self.episodes:
            cut["episodes"] = [self.episodes[i] for i in index.tolist()]
        return Batch(**cut)

    def to(self, device) -> "Batch":
        """The same batch on another device."""
        moved = {f.name: getattr(self, f.name) for f in fields(self)}
        return Batch(**{k: v.to(device) if isinstance(v, Tensor) else v for k, v in moved.items()})


def collate(episodes: Sequence[Episode], device=None) -> Batch:
    """Episodes to a Batch on a device. All must have been sampled at one temperature with full support."""
    if not episodes:
        raise ValueError("no episodes to collate; hint: did `keep` or `plan` leave none?")
    temperatures = sorted({e.temperature for e in episodes})
    if len(temperatures) > 1:
        raise ValueError(f"episodes were sampled at several temperatures {temperatures}; expected one")
    if temperatures[0] == 0:
        raise ValueError("episodes were sampled at temperature 0: a choice without chance has no log-probability to score")
    if not all(e.full_support for e in episodes):
        raise ValueError(
            "episodes were sampled with top-k or top-p: their log-probabilities are those of a cut distribution, "
            "which the ratio π_θ/π_old cannot use; hint: train with top_k=0, top_p=1 and keep the cuts for evaluation"
        )
    T = max(len(e) for e in episodes)

    def pad(name: str, fill, dtype) -> Tensor | None:
        if any(getattr(e, name) is None for e in episodes):
            return None
        out = np.full((len(episodes), T), fill, dtype)
        for row, episode in zip(out, episodes):
            row[: len(episode)] = getattr(episode, name)
        return torch.from_numpy(out)

    plain = ("group", "truncated", "success", "pair", "chosen", "weight", "expert", "blanked")
    batch = Batch(
        **{name: torch.tensor([getattr(e, name) for e in episodes]) for name in plain},
        tokens=pad("tokens", 0, np.int64),
        mask=pad("mask", 0, np.float32),
        old_logp=pad("logp", 0, np.float32),
        rewards=pad("rewards", 0, np.float32),
        turn=pad("turn", -1, np.int64),
        lengths=torch.tensor([len(e) for e in episodes]),
        temperature=temperatures[0],
        values=pad("values", 0, np.float32),
        verdicts=pad("verdicts", np.nan, np.float32),
        episodes=list(episodes),
    )
    return batch.to(device) if device is not None else batch


def by_group(episodes: Sequence[Episode]) -> list[list[Episode]]:
    """The episodes of each group, groups in the order of their first."""
    found: dict[int, list[Episode]] = {}
    for episode in episodes:
        found.setdefault(episode.group, []).append(episode)
    return list(found.values())


def pairs(preferences: Sequence[tuple[Episode, Episode]]) -> list[Episode]:
    """(chosen, rejected) preferences to rows, two a pair: copies marked with the pair's number and its chosen one."""
    return [
        replace(episode, pair=number, chosen=chosen)
        for number, preference in enumerate(preferences)
        for episode, chosen in zip(preference, (True, False), strict=True)
    ]


def joined(first: Episode, second: Episode) -> Episode:
    """The task of `second` after all of `first`, as one episode with the outcome of `second`.

    Sampled tokens of the first stay sampled; its rewards are taken away, and the prompt of the second is forced.
    """
    turn = np.where(second.turn < 0, first.turns - 1, second.turn + first.turns)
    parts = {k: np.concatenate([getattr(first, k), getattr(second, k)]) for k in ("tokens", "mask", "logp")}
    rewards = np.concatenate([np.zeros_like(first.rewards), second.rewards])
    return replace(
        second, **parts, turn=np.concatenate([first.turn, turn]), rewards=rewards, group=first.group,
        infos=[*first.infos, *second.infos], expert=first.expert or second.expert,
    )  # fmt: skip
