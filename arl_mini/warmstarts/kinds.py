"""What a warm start is: a recipe of stages, each an imitation of scripted demonstrators."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from .. import evaluate, ops
from ..envs.base import Env
from ..imitate import imitate
from ..models import TinyLM, checkpoints, tokenizer
from ..rollout import demonstrate


@dataclass(frozen=True)
class Stage:
    """`steps` updates on demonstrations in which speak(env, rng) acts."""

    env: Env
    speak: Callable[[Env, random.Random], str]
    steps: int
    lr: float
    tasks: int = 6000
    rows: int = 128  # episodes an update

    def losses(self, policy: TinyLM, first: int, rng: random.Random, seed: int) -> Iterator[float]:
        """Trains the policy in place on the tasks from `first` on; yields the loss of each update, in nats a token."""
        shown = demonstrate(policy, self.env, range(first, first + self.tasks), lambda e: self.speak(e, rng))
        return imitate(policy, shown, steps=self.steps, rows=self.rows, lr=self.lr, seed=seed)


@dataclass(frozen=True)
class Recipe:
    """How a checkpoint is made: the world it is measured on, and its stages in order.

    start: a checkpoint to go on from, by name; without one the model is fresh.
    """

    about: str
    env: Env
    stages: tuple[Stage, ...]
    atoms: Callable[[TinyLM], dict[str, float]]  # what the policy is supposed to know, measured
    size: str = "nano"
    eyes: int = 0  # as in `TinyConfig`, for worlds with pictures
    start: str = ""


def make(name: str, recipe: Recipe, seed: int = 0) -> Iterator[str]:
    """Trains a checkpoint and writes it; yields progress in words."""
    words = tokenizer.build(recipe.env.words)
    policy = checkpoints.load(recipe.start, words) if recipe.start else TinyLM.new(recipe.size, words, seed, recipe.eyes)
    start = 0
    for number, stage in enumerate(recipe.stages, 1):
        rng = random.Random(f"{name} {seed} {number}")
        for step, loss in enumerate(stage.losses(policy, start, rng, seed), 1):
            if step % 100 == 0 or step == stage.steps:
                yield f"stage {number}, update {step} of {stage.steps}: {loss:.3f} nats a token"
        start += stage.tasks
    card = {
        "about": recipe.about,
        "command": f"python -m arl_mini.warmstarts {name}" + (f" --seed {seed}" if seed else ""),
        "updates": sum(stage.steps for stage in recipe.stages),
        "parameters": sum(p.numel() for p in policy.parameters()),
        **start_signal(policy, recipe.env),
        **{k: round(v, 3) for k, v in recipe.atoms(policy).items()},
    }
    checkpoints.save(policy, checkpoints.folder() / f"{name}.safetensors", card)
    yield str(card)


def start_signal(policy: TinyLM, env: Env) -> dict[str, float]:
    """Success on 256 held-out tasks, and the share of 64 groups of 8 whose rewards differ."""
    tried = evaluate.episodes(policy, env, 64, 8)
    rewards, group = torch.tensor([e.reward for e in tried]), torch.tensor([e.group for e in tried])
    return {
        "success": round(evaluate.success(policy, env, seed=1).mean, 3),
        "signal_share": round(float(ops.group_signal(rewards, group).float().mean()), 3),
    }
