"""Chapter 12, pictures: partial credit, boxes, two views, looks, tools, shortcuts. Sound and drawing: other files."""

from collections.abc import Sequence

import numpy as np

from .. import envs, evaluate
from ..algorithms import GRPO
from ..batch import Episode
from ..capabilities.perception import (
    Curious,
    Grounded,
    PicturePAPO,
    ViewConsistency,
    consistent,
    ground_reward,
)
from ..envs.glimpse import LETTERS, MIRROR, SPOTS
from ..pictures import iou
from ..rollout import Limits, rollout
from .kinds import ByImitation, ByReward, Experiment

SHORT = Limits(turn_tokens=8, turns=1, total=64)
TURNS = Limits(turn_tokens=8, turns=4, total=96)
READ = dict(steps=30, prompts=24, tries=8, lr=5e-4, limits=SHORT)
FOURS = dict(prompts=48, tries=4)  # as many tries as READ, of twice the tasks
ACT = dict(steps=50, prompts=16, tries=8, lr=1e-3, limits=TURNS)
SEEDS = (10, 11, 12)
# The worlds that the starts were taught, see `warmstarts.ch12`.
SUMS, BOXES, SIDES = (envs.Glimpse(task, digits=2, scale=2) for task in ("sum", "box", "side"))
HINTS = envs.Glimpse(scale=2, hint=0.7)
LOOKS = envs.Glimpse(digits=2, tools=("look",))
TOOLS = envs.Glimpse(digits=2, scale=2, dim=0.5, tools=("crop", "contrast", "count"))
HINTED = envs.Glimpse(scale=2, hint=0.9)  # training; measured on HINTS, right in 7 of 10
FAR = envs.Glimpse(digits=2)  # as LOOKS, without the tool
ALONE = envs.Glimpse("box", scale=2)  # as BOXES, with no other digit


def share(values: Sequence[float]) -> float:
    """Their mean; nan of none."""
    return float(np.mean(values)) if len(values) else float("nan")


def paying(env: envs.Glimpse, pay: str) -> envs.Glimpse:
    """The same world with another rule of pay."""
    other = env.clone()
    other.pay = pay
    return other


# --- passive: partial credit and boxes ------------------------------------------------------------------------


def measure_sums(policy) -> dict[str, float]:
    """384 held-out sums: right in the end, digits named right."""
    tried = evaluate.episodes(policy, SUMS, 384, limits=SHORT)
    named = [e.infos[-1].get("share", 0.0) for e in tried]
    return {"success": share([e.success for e in tried]), "named": share(named)}


def measure_boxes(policy, env: envs.Glimpse = BOXES) -> dict[str, float]:
    """256 held-out boxes: mean IoU, share above 0.5, area in pixels, share of the ink's box covered."""
    tried = evaluate.episodes(policy, env, 256, limits=SHORT)
    last = [e.infos[-1] for e in tried]
    covered = rollout(policy, paying(env, "covered"), [e.seed for e in tried], limits=SHORT)
    return {
        "iou": share([i.get("iou", 0.0) for i in last]), "success": share([e.success for e in tried]),
        "area": share([i.get("area", 0) for i in last]), "covered": share([e.reward for e in covered]),
    }  # fmt: skip


def which_box(policy) -> dict[str, float]:
    """256 held-out boxes: share nearer to the digit asked for, nearer to the other; mean IoU with the nearer."""
    env, pairs = BOXES.clone(), []
    for episode in evaluate.episodes(policy, BOXES, 256, limits=SHORT):
        edges = episode.infos[-1].get("answer", "").split()
        env.reset(episode.seed)
        told = tuple(map(LETTERS.find, edges)) if len(edges) == 4 else (0, 0, 0, 0)
        own = iou(told, env.box)
        env.asked = 1 - env.asked
        pairs.append((own, iou(told, env.box)))
    own, other = np.array(pairs).T
    return {
        "asked": share(own > other),
        "other": share(other > own),
        "iou_nearer": share(np.maximum(own, other)[own != other]),
    }


# --- two views ------------------------------------------------------------------------------------------------


def measure_views(policy) -> dict[str, float]:
    """256 held-out pairs of views: answers that turn with the picture, and right ones."""
    first = range(evaluate.HELD_OUT, evaluate.HELD_OUT + 256)
    one, other = (rollout(policy, SIDES, [s + view for s in first], limits=SHORT) for view in (0, MIRROR))
    return {
        "consistent": share([consistent(a, b) for a, b in zip(one, other, strict=True)]),
        "success": share([e.success for e in [*one, *other]]),
    }


# --- looking closer -------------------------------------------------------------------------------------------


def landing_chance(env: envs.Glimpse, tasks: int = 512) -> float:
    """How often a look at a random place lands (IoU ≥ 0.5 with what is asked for), exact for each held-out task."""
    env, landed = env.clone(), []
    for seed in range(evaluate.HELD_OUT, evaluate.HELD_OUT + tasks):
        env.reset(seed)
        spots = [(4 * c, 4 * r, 4 * c + 8, 4 * r + 8) for r in range(SPOTS) for c in range(SPOTS)]
        r, c = env.places[env.asked]
        landed.append(np.mean([iou(spot, (4 * c, 4 * r, 4 * c + 8, 4 * r + 8)) >= 0.5 for spot in spots]))
    return float(np.mean(landed))


def looked(episodes: Sequence[Episode]) -> dict[str, float]:
    """Success; share of episodes that look, and of those that look, how many land."""
    looks = [e for e in episodes if any(i.get("looks") for i in e.infos)]
    return {
        "success": share([e.success for e in episodes]),
        "look_share": len(looks) / len(episodes),
        "landed": share([ground_reward(e) for e in looks]),
        "right_when_landed": share([e.success for e in looks if ground_reward(e)]),
    }


def measure_looks(policy) -> dict[str, float]:
    """256 held-out tasks with the tool, and the same ones without it."""
    passive = evaluate.episodes(policy, FAR, 256, limits=TURNS)
    return looked(evaluate.episodes(policy, LOOKS, 256, limits=TURNS)) | {
        "passive": share([e.success for e in passive])
    }


# --- tools and curiosity --------------------------------------------------------------------------------------


def measure_tools(policy) -> dict[str, float]:
    """256 held-out tasks: success, share with a call, share with each tool, success after a call and at once."""
    tried = evaluate.episodes(policy, TOOLS, 256, limits=TURNS)
    calls = [e.infos[-1]["calls"] for e in tried]
    return {
        "success": share([e.success for e in tried]),
        "call_share": share([bool(c) for c in calls]),
        **{tool: share([tool in c for c in calls]) for tool in TOOLS.tools},
        "after_call": share([e.success for e, c in zip(tried, calls) if c]),
        "at_once": share([e.success for e, c in zip(tried, calls) if not c]),
    }


# --- shortcut -------------------------------------------------------------------------------------------------


def blinded(policy, env: envs.Glimpse, tasks: int = 512) -> float:
    """Success on held-out tasks whose pictures are black: what the words alone give away."""

    class Black(envs.Glimpse):
        def _view(self, canvas):
            return super()._view(canvas * 0)

    black = Black(env.task, env.digits, env.scale, env.tools, env.dim, env.pay, env.hint, env.turns)
    return share([e.success for e in evaluate.episodes(policy, black, tasks, limits=SHORT)])


def measure_hints(policy) -> dict[str, float]:
    """768 held-out names with a hint: right where it is right or wrong, hints copied; in the dark."""
    tried = evaluate.episodes(policy, HINTS, 768, limits=SHORT)
    last = [e.infos[-1] for e in tried]
    wrong = [i for i in last if i.get("hint_right") is False]
    right = [i for i in last if i.get("hint_right")]
    hinted = [e.text.split("hint ")[1][0] for e in tried if e.infos[-1].get("hint_right") is False]
    return {
        "success": share([e.success for e in tried]),
        "agree": share([i["success"] for i in right]), "disagree": share([i["success"] for i in wrong]),
        "copied": share([i["answer"] == h for i, h in zip(wrong, hinted, strict=True)]), "blind": blinded(policy, HINTS),
    }  # fmt: skip


# --- the experiments ------------------------------------------------------------------------------------------

EXPERIMENTS = {
    "12_perception/partial": Experiment(
        "Sums of two small digits: reward for the sum alone against half a point for digits named right.",
        "glimpse-reader",
        {"exact": ByReward(SUMS, GRPO(), READ), "partial": ByReward(paying(SUMS, "partial"), GRPO(), READ)},
        measure_sums, SEEDS,
    ),
    "12_perception/partial_fours": Experiment(
        "As `partial`, with groups of four tries, of which fewer differ by the sum alone: its second setting.",
        "glimpse-reader",
        {
            "exact": ByReward(SUMS, GRPO(), READ | FOURS),
            "partial": ByReward(paying(SUMS, "partial"), GRPO(), READ | FOURS),
        },
        measure_sums, (13, 14, 15),
    ),
    "12_perception/box": Experiment(
        "Boxes paid by IoU, and paid by the share of the digit that they cover.",
        "glimpse-reader",
        {"IoU": ByReward(BOXES, GRPO(), READ | dict(steps=80)), "covered": ByReward(paying(BOXES, "covered"), GRPO(), READ | dict(steps=50))},
        measure_boxes, SEEDS,
    ),
    "12_perception/box_alone": Experiment(
        "The box of the only digit on the canvas, paid by IoU: the second setting of `box`.",
        "glimpse-reader",
        {"IoU": ByReward(ALONE, GRPO(), READ | dict(steps=40))},
        lambda policy: measure_boxes(policy, ALONE), (13, 14, 15),
    ),
    "12_perception/views": Experiment(
        "Left or right in two mirrored views: rewards for right answers, and for answers that agree as well.",
        "glimpse-reader",
        {
            "two views": ByReward(SIDES, ViewConsistency(bonus=0.0), READ | dict(steps=60)),
            "view consistency": ByReward(SIDES, ViewConsistency(bonus=1.0), READ | dict(steps=60)),
        },
        measure_views, SEEDS,
    ),
    "12_perception/looks": Experiment(
        "Two digits from afar: answers at once, or after a look; looks paid for the answer alone or for landing too.",
        "glimpse-novice",
        {
            "passive": ByReward(FAR, GRPO(), ACT | dict(steps=80)),
            "passive, shown answers": ByImitation(FAR, 3072, dict(steps=120, rows=128, lr=2e-3)),
            "outcome only": ByReward(LOOKS, GRPO(), ACT),
            "grounded": ByReward(LOOKS, Grounded(bonus=0.5), ACT),
        },
        measure_looks, SEEDS,
    ),
    "12_perception/tools": Experiment(
        "Three tools that puzzle the start: outcome reward, a curiosity bonus that fades, and no tools at all.",
        "glimpse-shy",
        {
            "outcome only": ByReward(TOOLS, GRPO(), ACT),
            "curious": ByReward(TOOLS, Curious(), ACT),
            "no tools": ByReward(envs.Glimpse(digits=2, scale=2, dim=0.5), GRPO(), ACT),
        },
        measure_tools, SEEDS,
    ),
    "12_perception/shortcut": Experiment(
        "Names with a hint that is right in 9 of 10 tasks: GRPO, PAPO, and PAPO without its entropy terms.",
        "glimpse-reader",
        {
            "GRPO": ByReward(HINTED, GRPO(), READ),
            "PAPO": ByReward(HINTED, PicturePAPO(gamma=0.1), READ),
            "PAPO, unbounded": ByReward(HINTED, PicturePAPO(gamma=0.3, eta_copy=0.0, eta_row=0.0), READ),
        },
        measure_hints, SEEDS,
    ),
}  # fmt: skip

REAL = ByReward(
    envs.Glimpse(tools=("look",)), GRPO(),
    dict(steps=64, prompts=8, tries=8, lr=2e-5, limits=Limits(turn_tokens=48, turns=3, total=700)),
)  # fmt: skip
