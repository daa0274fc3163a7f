"""What a policy can tell apart: a context is a function of the history; equal contexts, equal actions.

The last observation alone, a window, a bounded memory, everything: a language model's context is such a
choice.
"""

from collections.abc import Callable, Hashable, Sequence

import torch
from torch import Tensor

from .pomdp import History

Context = Callable[[History], Hashable]


def whole(history: History) -> Hashable:
    """Everything seen and done."""
    return history


def last_observation(history: History) -> Hashable:
    """o_t alone, as survey §2.1 writes the policy."""
    return history[-1]


def window(observations: int) -> Context:
    """The last so many observations and the actions between them."""
    if observations < 1:
        raise ValueError(f"a window of {observations} observations shows nothing; expected ≥ 1")
    return lambda history: history[-(2 * observations - 1) :]


def memory(start: Callable[[int], Hashable], update: Callable[[Hashable, int, int], Hashable]) -> Context:
    """A bounded memory: m₀ = start(o₀), m_{t+1} = update(m_t, a_t, o_{t+1}). The policy sees (m_t, o_t)."""

    def context(history: History) -> Hashable:
        m = start(history[0])
        for k in range(1, len(history), 2):
            m = update(m, history[k], history[k + 1])
        return m, history[-1]

    return context


def rows(histories: Sequence[History], context: Context) -> tuple[Tensor, tuple[Hashable, ...]]:
    """(N + 1,): the table row of each state of an `Unrolled` (0 for `end`), and the context of each row."""
    contexts = [context(h) for h in histories]
    names = tuple(dict.fromkeys(contexts))
    number = {name: i for i, name in enumerate(names)}
    return torch.tensor([*(number[c] for c in contexts), 0]), names
