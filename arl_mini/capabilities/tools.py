"""Tools: a box of them, calls that a text asks for (Toolformer), counts of calls."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ..algorithms.credit import sound
from ..batch import Episode, collate
from ..envs.base import Env, Reply, malformed, parse_act
from ..models.score import score
from ..models.tokenizer import ACT, OBS, OBS_END, encode
from ..rollout import Limits, Row, Sampling, run


@dataclass(frozen=True)
class ToolBox:
    """Tools by name. A tool takes the text behind its name and answers a text, or raises ValueError."""

    tools: Mapping[str, Callable[[str], str]]

    def answer(self, said: str) -> Reply:
        """The reply to `… <act> name arguments</act>`; what is no such call is an error that is counted."""
        words = parse_act(said)
        if not words or words[0] not in self.tools:
            return malformed(f"say {' or '.join(self.tools)}")
        try:
            return Reply(f" {self.tools[words[0]](' '.join(words[1:]))}")
        except ValueError:
            return malformed(words[0])


# --- Toolformer: the text says where a call helps ---------------------------------------------------------


@dataclass(frozen=True)
class Insertion:
    """A call put into a text, and how much likelier it made what follows."""

    source: int  # which of the texts
    position: int  # the token that the call stands before
    call: str  # `<act> py 47*83</act>`
    result: str  # ` 3901`
    gain: float  # nats a token, see `insert_calls`
    episode: Episode  # the text with call and result; what was in the text or called has mask 1


class _Listener(Env):
    """Hears one turn and ends."""

    def step(self, said: str) -> Reply:
        return Reply(done=True)


def insert_calls(
    policy, texts: Sequence[Episode], box: ToolBox, *, places: int = 2, tries: int = 2, floor: float = 0.05,
    call_tokens: int = 16, seed: int = 0,
) -> list[Insertion]:  # fmt: skip
    """Calls that the policy itself would put into plain texts, carried out, with what each is worth.

    For each text: the `places` tokens of mask 1 before which p(<act>) is highest, and at least `floor`;
    `tries` calls sampled at each, of at most `call_tokens` tokens; what the box can answer is kept, each call
    once. With x_i the token that follows the call,

    gain = min(L(no call), L(call without result)) − L(call and result)
    L = −Σ_{j≥i} w_{j−i} log π(x_j | …),   w_t = max(0, 1 − 0.2 t), divided by their sum

    The filter is `gain ≥ τ`; to fine-tune on what it keeps is `imitate`. texts: of one turn, as `demonstrate`
    makes.
    Source: Schick et al. 2023 (arXiv 2302.04761), §2 (places, filter) and §4.1 (weights).
    Departs from the paper: the call stands where it was sampled, not before the whole text, since this policy
    knows how calls look; w is divided by its sum over the tokens that are there, of which the paper has plenty;
    the tokens of a result are not trained on.
    """
    spots = [(i, at) for i, found in enumerate(_spots(policy, texts, places, floor)) for at in found]
    begun = [_pieced(policy, texts[i], (texts[i].tokens[:at], 0), (ACT, 0)) for i, at in spots]
    rows = [Row(_Listener(), episode) for episode in begun for _ in range(tries)]
    if not rows:
        return []
    limits = Limits(turn_tokens=call_tokens, total=max(map(len, begun)) + call_tokens + 1)
    streams = [(seed, n) for n in range(len(rows))]
    heard = [e.said(0) for e in run(policy, rows, streams, sampling=Sampling(), limits=limits)]
    calls = dict.fromkeys((*spots[n // tries], ACT + said) for n, said in enumerate(heard))
    answered = [(i, at, call, box.answer(call)) for i, at, call in calls]
    made = [(i, at, call, r.text) for i, at, call, r in answered if not r.info.get("malformed")]
    gains = _gains(policy, texts, made)
    return [Insertion(*c, gain, _inserted(policy, texts, *c)) for c, gain in zip(made, gains, strict=True)]


def _spots(policy, texts: Sequence[Episode], places: int, floor: float) -> list[list[int]]:
    """For each text the tokens before which a call may stand, likeliest first."""
    where = [[int(at) for at in np.flatnonzero(text.mask)] for text in texts]
    pairs = [(text, at) for text, spots in zip(texts, where, strict=True) for at in spots]
    asked = [_pieced(policy, text, (text.tokens[:at], 0), (ACT, 1)) for text, at in pairs]
    chance = iter(logp.sum().exp().item() for logp in _logp(policy, asked))
    ranked = [sorted((-next(chance), at) for at in spots) for spots in where]
    return [[at for p, at in spots[:places] if -p >= floor] for spots in ranked]


def _gains(policy, texts: Sequence[Episode], calls: Sequence[tuple[int, int, str, str]]) -> list[float]:
    """The gain of each (text, position, call, result)."""

    def losses(write: Callable[[str, str], str]) -> list[float]:
        asked = [
            _pieced(policy, text, (text.tokens[:at], 0), (write(call, result), 0), (text.tokens[at:], 1))
            for (i, at, call, result) in calls
            for text in (texts[i],)
        ]
        return [weighted_loss(logp) for logp in _logp(policy, asked)]

    none = losses(lambda call, result: "")
    empty = losses(lambda call, result: f"{call}{OBS}{OBS_END}")
    full = losses(lambda call, result: f"{call}{OBS}{result}{OBS_END}")
    return [min(n, e) - f for n, e, f in zip(none, empty, full, strict=True)]


def weighted_loss(logp: Tensor) -> float:
    """−Σ_t w_t logp_t of the tokens (n,) after a call: w_t = max(0, 1 − 0.2 t), divided by their sum."""
    weight = (1 - 0.2 * torch.arange(len(logp))).clamp(min=0)
    return float(-(weight / weight.sum() * logp).sum())


def _inserted(policy, texts: Sequence[Episode], i: int, at: int, call: str, result: str) -> Episode:
    """The text with the call as its first turn, what followed as its second."""
    text = texts[i]
    begun = int(np.flatnonzero(text.mask)[0])
    parts = (text.tokens[:begun], 0), (text.tokens[begun:at], 1), (call, 1), (f"{OBS}{result}{OBS_END}", 0)
    made = _pieced(policy, text, *parts, (text.tokens[at:], 1))
    later = np.arange(len(made)) >= len(made) - (len(text) - at)
    return replace(made, turn=np.where(made.turn < 0, -1, later.astype(int)))


def _pieced(policy, text: Episode, *parts: tuple[np.ndarray | str, int]) -> Episode:
    """An episode of one turn from (tokens or text, mask); all before the first mask 1 is its prompt."""
    ids = [np.array(encode(policy.tokenizer, p), np.int64) if isinstance(p, str) else p for p, _ in parts]
    tokens = np.concatenate(ids)
    mask = np.repeat([float(m) for _, m in parts], [len(x) for x in ids]).astype(np.float32)
    zeros = np.zeros_like(mask)
    turn = np.where(mask.cumsum() > 0, 0, -1)
    return replace(text, tokens=tokens, mask=mask, turn=turn, logp=zeros, rewards=zeros, infos=[])


@torch.no_grad()
def _logp(policy, episodes: Sequence[Episode], rows: int = 512) -> list[Tensor]:
    """Log-probabilities of the tokens of mask 1 of each episode."""
    found = []
    for start in range(0, len(episodes), rows):
        batch = collate(episodes[start : start + rows], policy.device)
        scored = score(policy, batch).logp
        found += [logp[mask > 0].cpu() for logp, mask in zip(scored, batch.mask, strict=True)]
    return found


# --- what was called --------------------------------------------------------------------------------------


def call_stats(episodes: Sequence[Episode]) -> dict[str, float]:
    """How tools were used: counts of the calls in what the policy said, whatever the world.

    call_share: share of episodes with a call; calls: an episode; malformed: share of calls that were no
    well-formed action or that the world could not carry out; tokens: sampled an episode.
    """
    if not episodes:
        raise ValueError("no episodes: a share of nothing is undefined")
    calls = [[ACT in e.said(k) for k in range(e.turns)] for e in episodes]
    bad = sum(
        called and not sound(e, k)
        for e, turns in zip(episodes, calls, strict=True) for k, called in enumerate(turns[: len(e.infos)])
    )  # fmt: skip
    made = sum(map(sum, calls))
    return {
        "call_share": float(np.mean([any(called) for called in calls])),
        "calls": made / len(episodes),
        "malformed": bad / made if made else 0.0,
        "tokens": float(np.mean([e.mask.sum() for e in episodes])),
    }
