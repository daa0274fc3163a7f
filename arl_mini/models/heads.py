"""Small heads on hidden states: one number for a state (critic) or for a whole reply (reward model)."""

import torch
from torch import Tensor, nn


class ValueHead(nn.Module):
    """V(state) from the hidden state before a token: (N, width) → (N,). Starts at 0 everywhere."""

    def __init__(self, width: int):
        super().__init__()
        self.linear = nn.Linear(width, 1)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.linear(hidden.float())[:, 0]


class RewardModel(nn.Module):
    """r(episode) from the hidden state of its last token: a policy's trunk and a value head of its own."""

    def __init__(self, trunk: nn.Module):
        super().__init__()
        self.trunk = trunk.copy()
        self.head = ValueHead(trunk.width)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """tokens (B, T) right-padded, lengths (B,) → rewards (B,)."""
        hidden = self.trunk.hidden(tokens, lengths)
        return self.head(hidden[torch.arange(len(tokens), device=tokens.device), lengths - 1])
