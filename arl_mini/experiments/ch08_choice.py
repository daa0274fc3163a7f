"""Chapter 08, what reward selects: from few calls, which tool, credit over many turns, a leak in the mask."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from .. import envs, evaluate, ops
from ..algorithms import GRPO, GiGPO, TurnGRPO
from ..batch import Batch, Episode, collate
from ..capabilities.tools import call_stats
from ..capabilities.tools_shown import any_tool, by_head
from ..imitate import imitate
from ..models.format import TINY
from ..models.score import score
from ..models.tokenizer import END, OBS, OBS_END, encode
from ..rollout import Limits, demonstrate
from ..train import Run, Settings
from .ch08 import CALC
from .kinds import ByReward, Experiment
from .watched import Noted

NAME = "08_tool_use"
PRODUCTS = envs.Calc(("product",))


def share_that_call(run, record) -> dict[str, float]:
    """Of an update's episodes."""
    return {"call_share": call_stats(record.episodes)["call_share"]}


# --- from almost no calls ---------------------------------------------------------------------------------

RARE = 0.01
FEW = CALC | dict(steps=50)


def made_shy(policy, seed: int, calls: float) -> None:
    """Imitation in place of answers by head, with the tool in a share `calls` of tasks."""
    rng = np.random.default_rng([seed, 8])

    def speak(env: envs.Calc) -> str:
        return env.expert() if env.calls or rng.random() < calls else by_head(env)

    shown = demonstrate(policy, PRODUCTS, range(1_000_000 * (seed + 1), 1_000_000 * (seed + 1) + 4000), speak)
    for _ in imitate(policy, shown, steps=80, rows=128, lr=1e-3, seed=seed):
        pass


@dataclass(frozen=True)
class FromFew:
    """Makes the policy shy of its tool first, then trains on the answer alone."""

    calls: float

    def __call__(self, policy, seed: int) -> Iterator[dict]:
        """Yields plain records with the share of tasks that call."""
        made_shy(policy, seed, self.calls)
        arm = Noted(ByReward(PRODUCTS, GRPO(), FEW), share_that_call)
        yield from arm(policy, seed)


def measure_products(policy) -> dict[str, float]:
    """Accuracy and share of tasks with a call."""
    tried = evaluate.episodes(policy, PRODUCTS, 512, limits=CALC["limits"])
    return {
        "success": float(np.mean([e.success for e in tried])),
        "call_share": call_stats(tried)["call_share"],
    }


# --- which tool -------------------------------------------------------------------------------------------

MIXED = dict(steps=20, prompts=32, tries=8, lr=1e-3, limits=Limits(turn_tokens=16, turns=8, total=160))


@dataclass(frozen=True)
class ByTraces:
    """Imitation of traces of those who know the tools but take either; all of them, or the right ones."""

    only_right: bool
    tasks: int = 4096

    def __call__(self, policy, seed: int, **changes) -> Iterator[dict]:
        """Yields the loss of each update."""
        rng, first = random.Random(seed), 1_000_000 * (seed + 1)
        shown = demonstrate(
            policy, envs.Mixed(), range(first, first + self.tasks), lambda env: any_tool(env, rng)
        )
        shown = [e for e in shown if e.success or not self.only_right]
        losses = imitate(policy, shown, **{**dict(steps=40, rows=256, lr=1e-3, seed=seed), **changes})
        return ({"step": step, "loss": loss} for step, loss in enumerate(losses, 1))


def measure_choice(policy) -> dict[str, float]:
    """Share of tasks that begin with the right tool, of those that need one; accuracy by kind."""
    tried = evaluate.episodes(policy, envs.Mixed(), 512, limits=MIXED["limits"])
    by = {k: [e for e in tried if e.infos[-1]["kind"] == k] for k in ("sum", "product", "fact")}
    needed = by["product"] + by["fact"]
    right = float(np.mean([e.infos[-1]["right_tool"] for e in needed]))
    return {"right_tool": right} | {
        f"{k}_success": float(np.mean([e.success for e in es])) for k, es in by.items()
    }


# --- credit over many turns -------------------------------------------------------------------------------

THREE_HOPS = envs.Wiki((3, 3))
WIKI = dict(steps=16, prompts=16, tries=8, lr=1e-3, limits=Limits(turn_tokens=8, turns=10, total=200))


def advances(episode: Episode) -> list[bool]:
    """Whether each turn brought the answer nearer, found by playing the episode again.

    Such a turn is the first to find, or to open, the next passage of the chain, or the right answer.
    """
    env = THREE_HOPS.clone()
    env.reset(episode.seed)
    chain, reached, nearer = env.chain()[:-1], 0, []
    for k in range(episode.turns):
        right = env.step(episode.said(k)).info.get("success", False)
        read = next((i for i, title in enumerate(chain) if title not in env.opened), len(chain))
        stage = 2 * read + (read < len(chain) and chain[read] in env.found)
        nearer.append(right or stage > reached)
        reached = max(reached, stage)
    return nearer


def nearer(episode: Episode, turn: int) -> float:
    """1.0 for a turn that brought the answer nearer, else 0.0: a judge of turns that knows the chain."""
    return float(advances(episode)[turn])


def wasted(episodes) -> float:
    """Turns that brought the answer no nearer, for each episode that succeeded."""
    lost = sum(len(steps) - sum(steps) for steps in map(advances, episodes))
    return lost / max(1, sum(e.success for e in episodes))


def measure_hops(policy) -> dict[str, float]:
    """On questions of three hops: success, turns, wasted turns a success."""
    tried = evaluate.episodes(policy, THREE_HOPS, 512, limits=WIKI["limits"])
    return {
        "success": float(np.mean([e.success for e in tried])),
        "turns": float(np.mean([e.turns for e in tried])),
        "wasted": wasted(tried),
    }


def share_wasted(run, record) -> dict[str, float]:
    """Wasted turns a success in an update's episodes."""
    return {"wasted": wasted(record.episodes)}


# --- a leak in the mask -----------------------------------------------------------------------------------


LEAK = CALC | dict(steps=60)


class ResultsToo(Run):
    """A run with a bug: what the tool said is scored and trained as if the policy had said it."""

    def _prepare(self, episodes: list[Episode]) -> tuple[Batch, float]:
        batch, signal = super()._prepare(episodes)
        batch = batch.set(mask=(batch.turn >= 0).to(batch.mask))
        with torch.no_grad():
            batch = batch.set(old_logp=score(self.policy, batch).logp)
        return batch.set(advantages=self.algorithm.advantages(batch)), signal


def leaking(policy, seed: int, **changes) -> Run:
    """The arm of the bug: as `ByReward`, with the run above."""
    return ResultsToo(policy, PRODUCTS, GRPO(), Settings(**{**LEAK, "seed": seed, **changes}))


def copied(policy, seed: int, **changes) -> Iterator[dict]:
    """The same bug in imitation: an expert's traces, with the tool's tokens in the loss."""
    first = 1_000_000 * (seed + 1)
    shown = demonstrate(policy, PRODUCTS, range(first, first + 4000), lambda env: env.expert())
    leaked = [replace(e, mask=(e.turn >= 0).astype(np.float32)) for e in shown]
    losses = imitate(policy, leaked, **{**dict(steps=80, rows=128, lr=1e-3, seed=seed), **changes})
    return ({"step": step, "loss": loss} for step, loss in enumerate(losses, 1))


def heard(policy, tasks: int = 256) -> dict[str, float]:
    """Nats a token at real results of the tool: entropy, and the loss, how little they were expected.

    result_*: of digits and of the tags around them; digit_*: of digits alone.
    """
    held_out = range(evaluate.HELD_OUT, evaluate.HELD_OUT + tasks)
    batch = collate(demonstrate(policy, PRODUCTS, held_out, lambda env: env.expert()))
    results = ((batch.mask == 0) & (batch.turn >= 0)).to(batch.mask)
    tags = torch.tensor(encode(policy.tokenizer, OBS + OBS_END))
    digits = results * ~torch.isin(batch.tokens, tags)
    with torch.no_grad():
        scored = score(policy, batch.set(mask=results))
    return {
        f"{name}_{number}": float(ops.token_mean(x, mask))
        for name, mask in (("result", results), ("digit", digits))
        for number, x in (("entropy", scored.entropy), ("loss", -scored.logp))
    }


def unstopped(policy, tasks: int = 256) -> list[Episode]:
    """What a policy writes that nobody stops at </act>: one turn, up to <end>."""
    free = policy.copy()
    free.format = replace(TINY, stops=(END,))
    limits = replace(CALC["limits"], turn_tokens=40, turns=1)
    return evaluate.episodes(free, PRODUCTS, tasks, limits=limits)


def invented(policy) -> float:
    """Share of tasks in which such a policy writes a whole result by itself."""
    said = [e.said(0) for e in unstopped(policy)]
    return float(np.mean([0 <= text.find(OBS) < text.find(OBS_END) for text in said]))


def measure_leak(policy) -> dict[str, float]:
    """Success, certainty about results, results of its own."""
    return measure_products(policy) | heard(policy) | {"invented": invented(policy)}


def wiki(algorithm: GRPO) -> Noted:
    """An arm of the long horizon."""
    return Noted(ByReward(THREE_HOPS, algorithm, WIKI), share_wasted)


EXPERIMENTS = {
    f"{NAME}/few": Experiment(
        "Outcome reward alone, from a policy that calls in 1 % of tasks, and from one shown no call at all.",
        "calc-novice",
        {"1 % call": FromFew(RARE), "no call shown": FromFew(0.0)},
        measure_products,
        (10, 11, 12),
    ),
    f"{NAME}/which": Experiment(
        "Two tools and tasks for either: imitation of traces, of the right ones among them, outcome reward.",
        "mixed-novice",
        {
            "traces": ByTraces(only_right=False),
            "right traces": ByTraces(only_right=True),
            "outcome RL": ByReward(envs.Mixed(), GRPO(), MIXED),
        },
        measure_choice,
        (10, 11, 12),
    ),
    f"{NAME}/hops": Experiment(
        "Questions of three hops at equal tries: outcome alone, step groups, pay for turns that lead on.",
        "wiki-novice",
        {
            "GRPO": wiki(GRPO()),
            "GiGPO": wiki(GiGPO(beta=0.0, fine=0.0)),
            "turn reward": wiki(TurnGRPO(judge=nearer)),
        },
        measure_hops,
    ),
    f"{NAME}/leak": Experiment(
        "The loss on sampled tokens, and with the tool's tokens in it.",
        "calc-novice",
        {
            "sampled tokens": ByReward(PRODUCTS, GRPO(), LEAK),
            "results too": leaking,
            "imitation, results too": copied,
        },
        measure_leak,
        (10, 11, 12),
    ),
}
