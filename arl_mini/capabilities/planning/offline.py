"""A decision transformer: offline reinforcement learning as reading; ask for a high return, get the moves
that had one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ...batch import Episode
from ...envs.base import Env, Reply
from ...imitate import imitate
from ...models.tokenizer import encode
from ...rollout import demonstrate


class ReturnFirst(Env):
    """A world whose task begins with the return that is wanted, in tenths: ` return 9 …`; else it is as it
    was.
    """

    def __init__(self, env: Env, wanted: int = 9):
        if not 0 <= wanted <= 9:
            raise ValueError(f"wanted must be one digit, 0 to 9, got {wanted}")
        self.env, self.wanted, self.words = env, wanted, f"{env.words} return"

    def reset(self, seed: int) -> str:
        return f" return {self.wanted}{self.env.reset(seed)}"

    def step(self, said: str) -> Reply:
        return self.env.step(said)

    def expert(self) -> str:
        return self.env.expert()

    def random(self, rng) -> str:
        return self.env.random(rng)

    def render_chat(self) -> str:
        return f"{self.env.render_chat()} The task begins with the return that you should reach, from 0 to 9."


class DecisionTransformer:
    """p(action | return wanted, what was seen and done): a sequence model fitted to logs, without any value
    function.

    The worlds here pay at the end, so the return to go is the return all the way and stands once, in the
    task; 1.0 and 0.9 share the digit 9. Source: Chen et al. 2021 (arXiv 2106.01345). MAPF-DT (2509.22130)
    uses one for path finding of many robots and lets a language model advise it in changing scenes; the
    adviser is left out here.
    """

    def __init__(self, policy, env: Env):
        self.policy, self.env = policy, env

    def logs(self, seeds: Sequence[int], speak, turns: int = 16) -> list[Episode]:
        """What speak(env) → said did on these tasks, each told with the return that it had."""
        made = demonstrate(self.policy, ReturnFirst(self.env), seeds, lambda env: speak(env.env), turns)
        return [told(e, digit(e.reward)) for e in made]

    def fit(
        self, logs: Sequence[Episode], *, steps: int, rows: int = 128, lr: float = 3e-3, seed: int = 0
    ) -> Iterator[float]:
        """Learns to say what was said, given the return; yields the loss of each update."""
        return imitate(self.policy, logs, steps=steps, rows=rows, lr=lr, seed=seed)

    def asked(self, wanted: int) -> ReturnFirst:
        """The world that asks for a return."""
        return ReturnFirst(self.env, wanted)


def digit(reward: float) -> int:
    """The digit that stands for a return in [0, 1]."""
    return int(np.clip(10 * reward + 1e-6, 0, 9))


def told(episode: Episode, value: int) -> Episode:
    """The episode with another return in its task."""
    word, number = (encode(episode.tokenizer, text)[0] for text in (" return", f" {value}"))
    tokens = episode.tokens.copy()
    tokens[int(np.flatnonzero(tokens == word)[0]) + 1] = number
    return replace(episode, tokens=tokens)
