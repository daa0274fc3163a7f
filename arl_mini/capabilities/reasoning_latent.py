"""Thoughts that are not written: hidden states fed back in place of tokens, and mixtures of tokens.

The engine feeds tokens; here vectors are fed, so a TinyLM's layers are run by hand, whole rows at a time. All
rows of a call are equally long.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ..batch import Episode
from ..models.tiny import TinyLM
from ..models.tokenizer import END, THINK, THINK_END, encode


def states(policy: TinyLM, x: Tensor) -> Tensor:
    """Hidden states (B, T, width) after the input vectors x (B, T, width), which need not be embeddings of
    tokens."""
    B, T, _ = x.shape
    heads, dim = policy.config.heads, policy.config.width // policy.config.heads
    freq = policy.config.theta ** (-torch.arange(0, dim, 2, device=x.device).double() / dim)
    angle = (torch.arange(T, device=x.device)[:, None, None] * freq).repeat(
        1, heads + 2, 1
    )  # (T, heads + 2, dim/2)
    angle[:, -1] = 0  # values are not turned
    turn = torch.polar(torch.ones_like(angle), angle).to(torch.complex64)
    for block in policy.blocks:
        q, kv = block.project(x, turn)
        keys, values = (h[:, None].expand(-1, heads, -1, -1) for h in kv.chunk(2, -1))
        q = q.view(B, T, heads, dim).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(q, keys, values, is_causal=True)
        x = block.finish(x, mixed.transpose(1, 2).flatten(2))
    return x


@dataclass(frozen=True)
class LatentThought:
    """A TinyLM that thinks k vectors between `<think>` and what it writes next.

    z_1 = N(h) of the last token, z_{j+1} = N(h) of z_j;   N: the model's last norm, scaled to the length of
    an embedding

    filler: instead of hidden states the embedding of this word k times: as many positions, no feedback.
    Source: Coconut (Hao et al. 2024, arXiv 2412.06769), §3; fillers: Goyal et al. 2023 (arXiv 2310.02226).
    Departs from the paper: no tokens of their own around the vectors; the vectors are scaled, since
    embeddings are shorter than normed states here; one vector stands for one written token.
    """

    policy: TinyLM
    k: int
    filler: str = ""

    def inputs(self, before: Tensor) -> Tensor:
        """Input vectors (B, P + k, width) of tokens before (B, P) and the k thoughts behind them;
        differentiable."""
        x = self.policy.embed[before]
        for _ in range(self.k):
            x = torch.cat((x, self._next(x)[:, None]), 1)
        return x

    def _next(self, x: Tensor) -> Tensor:
        policy = self.policy
        if self.filler:
            return policy.embed[encode(policy.tokenizer, self.filler)[0]].expand(len(x), -1)
        h = states(policy, x)[:, -1]
        return (
            F.rms_norm(h, policy.norm.shape, policy.norm, 1e-6) * policy.embed.detach().square().mean().sqrt()
        )

    def loss(self, before: Tensor, after: Tensor) -> Tensor:
        """Mean −log π of the tokens `after` (B, R) the thoughts, nats a token."""
        x = torch.cat((self.inputs(before), self.policy.embed[after]), 1)
        logits = self.policy.head(states(self.policy, x)).float()
        first = x.shape[1] - after.shape[1]
        return F.cross_entropy(logits[:, first - 1 : x.shape[1] - 1].flatten(0, 1), after.flatten())

    @torch.no_grad()
    def answer(self, before: Tensor, length: int) -> Tensor:
        """The likeliest next `length` tokens after the thoughts, one by one, (B, length)."""
        return _write(self.policy, self.inputs(before), length)


def _write(policy: TinyLM, x: Tensor, length: int) -> Tensor:
    said = []
    for _ in range(length):
        said.append(policy.head(states(policy, x)[:, -1]).argmax(-1))
        x = torch.cat((x, policy.embed[said[-1]][:, None]), 1)
    return torch.stack(said, 1)


Thinker = Callable[
    [Tensor, Tensor], Tensor
]  # (embedding table, probabilities (B, vocab)) → next input (B, width)


def soft_token(embed: Tensor, probability: Tensor) -> Tensor:
    """Σ_v p(v) e_v, (B, width): all next tokens at once, each by its probability. Soft Thinking, arXiv
    2505.15778."""
    return probability @ embed


def hard_token(generator: torch.Generator) -> Thinker:
    """e_v of one token drawn from the probabilities, as in ordinary writing."""
    return lambda embed, probability: embed[torch.multinomial(probability, 1, generator=generator)[:, 0]]


@torch.no_grad()
def think(policy: TinyLM, before: Tensor, steps: int, thinker: Thinker, temperature: float = 1.0) -> Tensor:
    """The likeliest answer (B, 2) (a word and `<end>`) after `steps` thoughts made by `thinker` and
    `</think>`.

    Departs from Soft Thinking: no cut to the likeliest tokens, and the number of thoughts is given, not found
    by entropy.
    """
    x = policy.embed[before]
    for _ in range(steps):
        logits = policy.head(states(policy, x)[:, -1]).float()
        x = torch.cat((x, thinker(policy.embed, (logits / temperature).softmax(-1))[:, None]), 1)
    close = encode(policy.tokenizer, THINK_END)[0]
    return _write(policy, torch.cat((x, policy.embed[close].expand(len(x), 1, -1)), 1), 2)


def parted(policy: TinyLM, episodes: Sequence[Episode], dropped: int) -> tuple[Tensor, Tensor]:
    """Equally long replies as tokens up to `<think>` (B, P), and after it (B, R) without the first `dropped`
    ones."""
    rows = torch.tensor([e.tokens.tolist() for e in episodes], device=policy.device)
    opened = (rows == encode(policy.tokenizer, THINK)[0]).nonzero()
    at = opened[:, 1].unique()
    if len(opened) != len(rows) or len(at) != 1:
        raise ValueError(
            f"expected one {THINK} at one place of {len(rows)} equally long replies, got places {at.tolist()}"
        )
    first = int(at) + 1
    if int((rows[:, -1] != encode(policy.tokenizer, END)[0]).sum()):
        raise ValueError(f"expected replies that close with {END}")
    return rows[:, :first], rows[:, first + dropped :]
