"""Chapter 11: thoughts as vectors. Written steps give way to hidden states, to fillers, or to nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from .. import envs, evaluate
from ..batch import Episode
from ..capabilities.reasoning_latent import LatentThought, hard_token, parted, soft_token, think
from ..models.tokenizer import END, THINK, THINK_END
from ..rollout import demonstrate
from .ch11 import NAME
from .kinds import FRESH_SEEDS, Experiment

DEPTH = 3
WORLD = envs.Chain((DEPTH, DEPTH))
EACH, ROWS, LR = 40, 64, 1e-3  # updates a stage (the last: twice as many), rows an update
POOL = 2000  # training tasks


def written(policy, seeds: Sequence[int], env: envs.Chain = WORLD) -> list[Episode]:
    """The expert's replies, every step written."""
    return demonstrate(policy, env, seeds, _steps)


def _steps(env: envs.Chain) -> str:
    return f"{THINK}{''.join(f' {s}' for s in env.steps)}{THINK_END} {env.answer}{END}"


def accuracy(thought: LatentThought, dropped: int, seed: int = 0, tasks: int = 256) -> float:
    """Share of held-out chains of three sums answered right by the likeliest tokens after the thoughts."""
    first = evaluate.HELD_OUT + seed * 10_000
    before, after = parted(thought.policy, written(thought.policy, range(first, first + tasks)), dropped)
    said = thought.answer(before, after.shape[1])
    return float((said[:, -2] == after[:, -2]).float().mean())


@torch.no_grad()
def readable(thought: LatentThought, seed: int = 0, tasks: int = 256) -> list[float]:
    """For each vector, the share of held-out tasks in which its likeliest token is the step it stands for."""
    first, policy = evaluate.HELD_OUT + seed * 10_000, thought.policy
    before, after = parted(policy, written(policy, range(first, first + tasks)), 0)
    vectors = thought.inputs(before)[:, before.shape[1] :]  # (tasks, k, width)
    said = (vectors @ policy.embed.T).argmax(-1)  # as the head would read them: N(h) is already taken
    return (said == after[:, : thought.k]).float().mean(0).tolist()


@dataclass(frozen=True)
class Stages:
    """An arm: in stage s the first s written steps are left out; `thoughts` of them have a vector in their
    place.

    latent: vectors that are hidden states; filler: that many copies of a word; neither: nothing stands there.
    keep: no step is ever left out (written thinking, trained as long).
    """

    latent: bool = False
    filler: str = ""
    keep: bool = False

    def thought(self, policy, stage: int) -> LatentThought:
        """What stands for the steps left out in a stage."""
        return LatentThought(policy, stage if self.latent or self.filler else 0, self.filler)

    def __call__(self, policy, seed: int, each: int = EACH) -> Iterator[dict]:
        """Yields the loss of each update; the last record also holds accuracy and visible tokens."""
        first = 1_000_000 * (seed + 1)
        pool, rng = written(policy, range(first, first + POOL)), np.random.default_rng(seed)
        step, last = 0, DEPTH - 1
        for stage in range(1, last + 1):
            dropped = 0 if self.keep else stage
            thought = self.thought(policy, dropped)
            updates = each * (2 if stage == last else 1)
            optimizer = torch.optim.AdamW(policy.parameters(), lr=LR, weight_decay=0.01)
            for loss in _fit(thought, optimizer, pool, rng, updates, dropped):
                step += 1
                end = stage == last and loss.step == updates
                told = (
                    {"right": accuracy(thought, dropped, seed), "visible": DEPTH - 1 - dropped + 4}
                    if end
                    else {}
                )
                yield {"step": step, "stage": stage, "loss": loss.value, **told}


@dataclass(frozen=True)
class _Loss:
    step: int
    value: float


def _fit(thought: LatentThought, optimizer, pool, rng, updates: int, dropped: int) -> Iterator[_Loss]:
    """Updates on rows drawn from the pool; the learning rate rises over 20 updates and falls to a tenth."""
    for step in range(1, updates + 1):
        for part in optimizer.param_groups:
            part["lr"] = LR * min(1.0, step / 20) * (1 - 0.9 * step / updates)
        before, after = parted(thought.policy, [pool[i] for i in rng.integers(len(pool), size=ROWS)], dropped)
        loss = thought.loss(before, after)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(thought.policy.parameters(), 1.0)
        optimizer.step()
        yield _Loss(step, float(loss.detach()))


def likeliest_token(embed: torch.Tensor, probability: torch.Tensor) -> torch.Tensor:
    """e_v of the likeliest token, (B, width): the same at every temperature."""
    return embed[probability.argmax(-1)]


def soft_against_hard(
    policy, seed: int, depth: int = 4, temperatures=(1.0, 1.5, 2.0), tasks: int = 256
) -> list[dict]:
    """Accuracy after mixtures of tokens, after drawn and after likeliest ones, at several temperatures; no
    training."""
    first = evaluate.HELD_OUT + seed * 10_000
    shown = written(policy, range(first, first + tasks), envs.Chain((depth, depth)))
    before, after = parted(policy, shown, depth - 1)
    rows = []
    for temperature in temperatures:
        generator = torch.Generator().manual_seed(seed)
        thinkers = {
            "mixtures": soft_token,
            "drawn tokens": hard_token(generator),
            "likeliest tokens": likeliest_token,
        }
        said = {
            name: think(policy, before, depth - 1, thinker, temperature) for name, thinker in thinkers.items()
        }
        right = {name: float((s[:, 0] == after[:, -2]).float().mean()) for name, s in said.items()}
        rows.append({"temperature": temperature, **right})
    return rows


EXPERIMENTS = {
    f"{NAME}/latent": Experiment(
        "Chains of three sums whose steps are written, left out, replaced by fillers, or by hidden states.",
        "chain-modes",
        {
            "written": Stages(keep=True),
            "left out": Stages(),
            "filler": Stages(filler=" ="),
            "latent": Stages(latent=True),
        },
        lambda policy: {},
        seeds=FRESH_SEEDS[:3],
    ),
}
