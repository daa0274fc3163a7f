"""Random worlds for property tests: hypothesis chooses sizes and a seed, so that it can shrink the sizes."""

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from arl_mini.formal import Draws, FiniteMDP, FinitePOMDP, Utterances, random_mdp, random_pomdp

EXACT = 1e-10
CHECKED = settings(max_examples=40, deadline=None)
SLOW_CHECKED = settings(max_examples=20, deadline=None)

seeds = st.integers(0, 2**31 - 1)
gammas = st.sampled_from([0.0, 0.5, 0.9, 1.0])


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def numbers(seed: int, *shape: int) -> Tensor:
    """Normal random numbers in double precision."""
    return torch.randn(*shape, generator=generator(seed + 1), dtype=torch.float64)


def distribution(seed: int, *shape: int) -> Tensor:
    return numbers(seed, *shape).softmax(-1)


@st.composite
def mdps(draw, horizons=st.none() | st.integers(1, 4), states=st.integers(1, 4)) -> FiniteMDP:
    return random_mdp(
        generator(draw(seeds)),
        draw(states),
        draw(st.integers(1, 3)),
        draw(gammas),
        draw(horizons),
        draw(st.sampled_from([0.1, 0.5])),
    )


@st.composite
def pomdps(draw, horizon=st.integers(1, 3)) -> FinitePOMDP:
    return random_pomdp(
        generator(draw(seeds)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 2)),
        draw(st.integers(1, 2)),
        draw(gammas),
        draw(horizon),
    )


@st.composite
def utterances(draw, length=st.integers(1, 2)) -> Utterances:
    words = ("a", "b", "c")[: draw(st.integers(1, 2))] + ("<end>",)
    return Utterances(words, draw(st.sampled_from([("<end>",), ()])), draw(length))


def close(a, b, tolerance: float = EXACT) -> bool:
    """Equal up to the tolerance, relative above 1."""
    a, b = (torch.as_tensor(x, dtype=torch.float64).detach() for x in (a, b))
    return a.shape == b.shape and bool(((a - b).abs() <= tolerance * b.abs().clamp(min=1)).all())


def draws(seed: int, groups: int, tries: int, tokens: int, gamma: float = 1.0) -> Draws:
    """Random log-probabilities and rewards of rows with 1 … tokens tokens."""
    B = groups * tries
    length = torch.randint(1, tokens + 1, (B, 1), generator=generator(seed))
    t = torch.arange(tokens)
    mask = (t < length).double()
    logp, old, ref, values = (-numbers(seed + k, B, tokens).abs() * mask for k in range(4))
    rewards = numbers(seed + 5, B, tokens) * mask
    weight = gamma ** t.double().expand(B, tokens)
    return Draws(logp, old, ref, rewards, values, weight, mask, torch.arange(B) // tries, gamma)
