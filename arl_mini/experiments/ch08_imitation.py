"""Chapter 08, calls that are shown: examples in a prompt, a text that asks for calls, an expert's traces."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .. import envs, evaluate
from ..capabilities.tools import Insertion, ToolBox, call_stats, insert_calls
from ..capabilities.tools_shown import Shown, by_head, by_tool
from ..imitate import imitate
from ..rollout import Limits, demonstrate, rollout
from .kinds import Experiment

NAME = "08_tool_use"
PRODUCTS, SUMS = envs.Calc(("product",)), envs.Calc(("sum",))
LIMITS = Limits(turn_tokens=16, turns=8, total=200)
CALCULATOR = ToolBox({"py": lambda text: str(envs.calc.evaluate(text))})


def first_task(seed: int) -> int:
    """Training tasks of a seed begin here."""
    return 1_000_000 * (seed + 1)


# --- ReAct and FireAct ------------------------------------------------------------------------------------

TRACES = dict(steps=40, rows=128, lr=1e-3)
WAYS = {"alone": PRODUCTS, "calls_shown": Shown(PRODUCTS, by_tool), "answers_shown": Shown(PRODUCTS, by_head)}


def prompted(policy, seed: int, tasks: int = 256) -> dict[str, float]:
    """Products alone and after two examples, with calls or without: calls, accuracy, tokens a task.

    Every seed has tasks of its own.
    """
    first, measured = evaluate.HELD_OUT + 1000 * seed, {}
    for name, env in WAYS.items():
        tried = rollout(policy, env, range(first, first + tasks), seed=seed, limits=LIMITS)
        measured |= {
            f"{name}_calls": call_stats(tried)["call_share"],
            f"{name}_success": float(np.mean([e.success for e in tried])),
            f"{name}_tokens": float(np.mean([len(e) for e in tried])),
        }
    return measured


def asked(policy, seed: int) -> Iterator[dict]:
    """An arm that trains nothing: one record of `prompted`."""
    yield {"step": 0, **prompted(policy, seed)}


def followed(policy, seed: int, **changes) -> Iterator[dict]:
    """Imitation of an expert's traces, without examples; then one record of `prompted`."""
    tasks = range(first_task(seed), first_task(seed) + 3000)
    shown = demonstrate(policy, envs.Calc(), tasks, by_tool)
    for step, loss in enumerate(imitate(policy, shown, **{**TRACES, "seed": seed, **changes}), 1):
        yield {"step": step, "loss": loss}
    yield {"step": step, **prompted(policy, seed)}


# --- Toolformer -------------------------------------------------------------------------------------------

LEAST = 0.5  # τ of the filter, nats a token
RETRAIN = dict(steps=60, rows=128, lr=1e-3)


def best_calls(calls: list[Insertion], least: float) -> dict[int, Insertion]:
    """For each text the call that helps most, if it gains at least this much."""
    best: dict[int, Insertion] = {}
    for call in calls:
        if call.gain >= least and (call.source not in best or call.gain > best[call.source].gain):
            best[call.source] = call
    return best


def shares(texts, kept: dict[int, Insertion]) -> dict[str, float]:
    """Share of the sums and of the products among the texts that got a call."""
    product = np.array([" boxes" in text.text for text in texts])
    called = np.array([i in kept for i in range(len(texts))])
    return {"kept_sum": float(called[~product].mean()), "kept_product": float(called[product].mean())}


@dataclass(frozen=True)
class Toolformer:
    """Plain texts, calls put in where they gain at least `least` (None: no calls), then fine-tuning."""

    least: float | None
    texts: int = 1000

    def __call__(self, policy, seed: int, **changes) -> Iterator[dict]:
        """Yields the shares of texts with a call, then the loss of each update."""
        tasks = range(first_task(seed), first_task(seed) + self.texts)
        texts = demonstrate(policy, envs.Calc(), tasks, by_head)
        kept = {}
        if self.least is not None:
            kept = best_calls(insert_calls(policy, texts, CALCULATOR, seed=seed), self.least)
        yield {"step": 0, **shares(texts, kept)}
        mixed = [kept[i].episode if i in kept else text for i, text in enumerate(texts)]
        for step, loss in enumerate(imitate(policy, mixed, **{**RETRAIN, "seed": seed, **changes}), 1):
            yield {"step": step, "loss": loss}


def measure_calls(policy) -> dict[str, float]:
    """Accuracy and share of tasks with a call, sums and products."""
    measured = {}
    for kind, env in (("sum", SUMS), ("product", PRODUCTS)):
        tried = evaluate.episodes(policy, env, limits=LIMITS)
        measured[f"{kind}_success"] = float(np.mean([e.success for e in tried]))
        measured[f"{kind}_calls"] = call_stats(tried)["call_share"]
    return measured


# --- what can be reached at all ---------------------------------------------------------------------------


def reach(policy, seed: int, tasks: int = 32, tries: int = 256) -> dict[str, float]:
    """Three-digit products: pass@k without the tool, pass@1 with it, after two examples of either way.

    Every seed has tasks of its own. text_k: mean over tasks of pass@k, for k = 1, 4, … `tries`.
    """
    held_out = range(evaluate.HELD_OUT + 1000 * seed, evaluate.HELD_OUT + 1000 * seed + tasks)
    text = rollout(policy, Shown(LONG_TEXT, by_head), held_out, tries, seed=seed, limits=LIMITS)
    right = [sum(e.success for e in text[i * tries : (i + 1) * tries]) for i in range(tasks)]
    ks = [4**n for n in range(10) if 4**n <= tries]
    measured = {f"text_{k}": float(np.mean([evaluate.pass_at_k(r, tries, k) for r in right])) for k in ks}
    tool = rollout(policy, Shown(envs.LongCalc(), by_tool), held_out, 8, seed=seed, limits=LIMITS)
    spent = call_stats(tool)["tokens"], call_stats(text)["tokens"]
    return measured | {
        "tool_1": float(np.mean([e.success for e in tool])), "tool_tokens": spent[0], "text_tokens": spent[1],
    }  # fmt: skip


LONG_TEXT = envs.LongCalc(tool=False)


def reached(policy, seed: int) -> Iterator[dict]:
    """An arm that trains nothing: one record of `reach`."""
    yield {"step": 1, **reach(policy, seed)}


EXPERIMENTS = {
    f"{NAME}/react": Experiment(
        "Two examples in the prompt, with calls or without, against imitation of an expert's traces.",
        "calc-corpus",
        {"prompt only": asked, "traces": followed},
        lambda policy: {},
        (10, 11, 12),
    ),
    f"{NAME}/toolformer": Experiment(
        "Fine-tuning on plain texts: with the calls that help what follows, with every call, with none.",
        "calc-novice",
        {
            "calls that help": Toolformer(LEAST),
            "every call": Toolformer(-np.inf),
            "no calls": Toolformer(None),
        },
        measure_calls,
        (10, 11, 12),
    ),
    f"{NAME}/reach": Experiment(
        "Three-digit products: 256 tries without the tool against one with it. Nothing is trained.",
        "calc-corpus",
        {"as it is": reached},
        lambda policy: {},
        (10, 11, 12),
    ),
}
