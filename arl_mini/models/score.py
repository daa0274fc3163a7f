"""Log-probabilities of the tokens that were sampled. The one place that shifts by one."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..batch import Batch


@dataclass
class Scores:
    """What a policy says about a batch, aligned with the token scored, 0 at forced tokens."""

    logp: Tensor  # (B, T) log π(token | what stands before it), at the batch's temperature
    entropy: Tensor  # (B, T) of the distribution the token was drawn from, without gradient
    values: Tensor | None = None  # (B, T) of the critic, where the policy has one


def score(policy, batch: Batch, critic=None) -> Scores:
    """Scores of the sampled tokens of a batch; differentiable.

    The hidden state at position t − 1 scores the token at t: hidden states are cut by [:, :-1], tokens and mask by
    [:, 1:]. Only sampled tokens go through the vocabulary. Log-softmax runs in float32. critic: a module
    that maps hidden states (N, width) to values (N,) of the state *before* the token.
    """
    B, T = batch.tokens.shape
    hidden = policy.hidden(batch.tokens, batch.lengths)[:, :-1]
    wanted = batch.mask[:, 1:] > 0
    before, token = hidden[wanted], batch.tokens[:, 1:][wanted]  # (N, width), (N,)
    logits = policy.head(before).float()
    logp = (logits / batch.temperature).log_softmax(-1)
    with torch.no_grad():
        entropy = -(logp.exp() * logp).sum(-1)

    def place(x: Tensor) -> Tensor:
        return torch.zeros(B, T, dtype=x.dtype, device=x.device).masked_scatter(_sampled(batch), x)

    values = place(critic(before)) if critic is not None else None
    return Scores(place(logp.gather(1, token[:, None])[:, 0]), place(entropy), values)


def _sampled(batch: Batch) -> Tensor:
    """True at sampled tokens that have something before them; a first token is nobody's choice."""
    sampled = batch.mask > 0
    if bool(sampled[:, 0].any()):
        raise ValueError("the first token of a row has mask 1, but nothing stands before it; hint: prompts are forced")
    return sampled
