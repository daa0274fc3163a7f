"""Chapter 08: a calculator that fails, and a price for every call."""

from .. import envs, evaluate
from ..algorithms import GRPO
from ..rollout import Limits
from . import kinds
from .kinds import ByImitation, ByReward, Experiment

CALC = dict(steps=80, prompts=32, tries=8, lr=5e-4, limits=Limits(turn_tokens=16, turns=8, total=128))
REAL = ByReward(envs.Calc(("product",)), GRPO(beta=0.01), kinds.REAL)


def measure_calc(policy) -> dict[str, float]:
    """Accuracy and calls on held-out sums and products, with `py` working and down in 30 % of tasks."""
    measured = {}
    for kind in ("sum", "product"):
        for name, failing in (("", 0.0), ("_failing", 0.3)):
            env = envs.Calc((kind,), failing=failing)
            tried = evaluate.episodes(policy, env, limits=CALC["limits"])
            last = [e.infos[-1] for e in tried]
            puzzled = [i for i in last if i["failed"]]
            measured |= {
                f"{kind}{name}_success": sum(e.success for e in tried) / len(tried),
                f"{kind}{name}_call_share": sum(i["calls"] > 0 for i in last) / len(last),
                f"{kind}{name}_calls": sum(i["calls"] for i in last) / len(last),
            }
            if puzzled:
                measured[f"{kind}{name}_switch_share"] = sum(i["switched"] for i in puzzled) / len(puzzled)
    return measured


EXPERIMENTS = {
    "08_tool_use/failing": Experiment(
        "A tool that is down in 30 % of tasks: "
        "imitation of an expert's clean traces against GRPO on the answer.",
        "calc-novice",
        {
            "imitation": ByImitation(envs.Calc(), 4096, dict(steps=80, rows=256, lr=1e-3)),
            "outcome RL": ByReward(envs.Calc(failing=0.3), GRPO(), CALC),
        },
        measure_calc,
    ),
    "08_tool_use/price": Experiment(
        "What a price of 0.1 a call changes: the same start and the same updates with and without it.",
        "calc-novice",
        {
            "free": ByReward(envs.Calc(), GRPO(), CALC),
            "price 0.1": ByReward(envs.Calc(price=0.1), GRPO(), CALC),
        },
        measure_calc,
    ),
}
