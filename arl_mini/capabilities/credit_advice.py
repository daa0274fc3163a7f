"""A strategist over a frozen actor: two policies write one episode, and only the first of them learns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from ..algorithms.base import Sampler
from ..algorithms.rerolls import turn_starts
from ..batch import Episode
from ..models.tokenizer import encode
from .credit import StepCredit


class Advised(nn.Module):
    """The strategist says the first token of each turn, the actor goes on from there; both see everything.

    To the engine and to `train` it is one policy; its parameters that learn are the strategist's.
    """

    def __init__(self, strategist, actor):
        super().__init__()
        if strategist.tokenizer is not actor.tokenizer and len(strategist.tokenizer) != len(actor.tokenizer):
            raise ValueError(
                "strategist and actor must share a tokenizer; hint: start both from one checkpoint"
            )
        self.strategist, self.actor = strategist, actor.requires_grad_(False)
        self.tokenizer, self.format = strategist.tokenizer, strategist.format
        marks = (self.format.prompt_after, self.format.obs_after)
        self.begins = torch.tensor([encode(self.tokenizer, mark)[-1] for mark in marks])

    @property
    def width(self) -> int:
        """Size of the strategist's hidden state."""
        return self.strategist.width

    @property
    def device(self) -> torch.device:
        return self.strategist.device

    def copy(self) -> "Advised":
        """An independent copy of the strategist over the same actor."""
        return Advised(self.strategist.copy(), self.actor)

    def hidden(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The strategist's hidden states: what is scored and trained is what it says."""
        return self.strategist.hidden(tokens, lengths)

    def head(self, hidden: Tensor) -> Tensor:
        """The strategist's logits."""
        return self.strategist.head(hidden)

    def cache(self, rows: int) -> "Both":
        """Two empty caches."""
        return Both(self.strategist.cache(rows), self.actor.cache(rows))

    def advance(self, tokens: Tensor, counts: Tensor | None, cache: "Both", rows: Tensor | None) -> Tensor:
        """As `TinyLM.advance`; the logits are those of whoever's word is next."""
        theirs = self.strategist.advance(tokens, counts, cache.strategist, rows)
        own = self.actor.advance(tokens, counts, cache.actor, rows)
        last = tokens[:, -1] if counts is None else tokens.gather(1, (counts - 1).clamp(min=0)[:, None])[:, 0]
        return torch.where(torch.isin(last, self.begins.to(last))[:, None], theirs, own)


@dataclass
class Both:
    """The caches of both."""

    strategist: object
    actor: object

    def select(self, rows: Tensor) -> None:
        """As `Cache.select`."""
        self.strategist.select(rows)
        self.actor.select(rows)


def advice_only(episode: Episode) -> Episode:
    """The same with mask 1 at each turn's first token alone: the actor's words are forced there."""
    mask = np.zeros_like(episode.mask)
    mask[turn_starts(episode)] = 1
    return replace(episode, mask=mask, logp=episode.logp * mask)


@dataclass(frozen=True)
class StrategyGRPO(StepCredit):
    """EPO's idea: reinforcement for the words of advice only, the actor that follows them stays as it is.

    GRPO with m = 1 at the first token of each turn, which the strategist of an `Advised` policy says; a `pay`
    compares turns of advice, too.
    Source: Liu et al. 2025 (EPO, ACL 2025). Differs from StepCredit in: plan (mask).
    Departs from the paper: there strategies are sentences in free text, process rewards support the outcome,
    and the actor may be any model; here a strategy is one word of three.
    """

    def plan(self, sampler: Sampler) -> list[Episode]:
        return list(map(advice_only, super().plan(sampler)))


def hinted(episodes: Sequence[Episode]) -> dict[str, float]:
    """How often each first word was said, as shares of all turns."""
    words = [e.pieces[at].strip() for e in episodes for at in turn_starts(e)]
    return {word: words.count(word) / len(words) for word in sorted(set(words))}
