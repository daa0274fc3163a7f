"""Perception as action: pay for a look that lands, keep a policy curious, make answers turn with the picture.

What may be done to a picture (`look`, `crop`, `mark`, `shrink`, `iou`) is in `arl_mini.pictures`; the world
Glimpse offers it as tools. Here are the rewards that make a policy use them, each as GRPO with another `plan`
or `reward`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ..algorithms.base import Sampler
from ..algorithms.grpo import GRPO
from ..algorithms.mixed import PAPO
from ..batch import Batch, Episode
from ..envs.glimpse import MIRROR
from ..pictures import MARK, crop, iou, look, mark, shrink
from ..rewards import at_end, judged

__all__ = [
    "Curious", "Grounded", "PicturePAPO", "ViewConsistency", "consistent", "crop", "curiosity", "ground_reward", "iou",
    "look", "mark", "reliance", "shrink", "tool_calls",
]  # fmt: skip


def tool_calls(episode: Episode) -> float:
    """How many calls of the episode a tool answered."""
    return float(len(episode.infos[-1].get("calls", ())) if episode.infos else 0)


# --- grounding: a look should land on what was asked for ----------------------------------------------------


def ground_reward(episode: Episode, least: float = 0.5) -> float:
    """1.0 if a look of the episode covers what was asked for with an IoU of at least `least`, else 0.0."""
    return float(
        any(overlap >= least for overlap in episode.infos[-1].get("looks", ())) if episode.infos else False
    )


@dataclass(frozen=True)
class Grounded(GRPO):
    """GRPO with a bonus for evidence: R_i = r_i + α g_i.

    r_i is what the world paid, α = bonus, g_i = judge(episode) in [0, 1]. Source: the idea of a grounding
    reward beside the answer's, as in GRIT (Fan et al. 2025, arXiv 2505.15879). Differs from GRPO in: reward.
    Departs from the paper: GRIT rewards the form of boxes in the text, not their place; here the world knows
    where the evidence is. With bonus = 0 nobody marks where to look, as in Ground-R1 (arXiv 2505.20272) and
    DeepEyes (arXiv 2505.14362), which adds a bonus for right answers that used its tool.
    """

    bonus: float = 0.5
    judge: Callable[[Episode], float] = ground_reward

    def reward(self, batch: Batch) -> Batch:
        extra = judged(batch.episodes, self.judge).to(batch.rewards)
        return batch.set(rewards=batch.rewards + at_end(self.bonus * extra, batch.mask))


# --- curiosity: tools are not given up before they can be used ----------------------------------------------


def curiosity(used: Tensor, group: Tensor, least: float) -> Tensor:
    """max(least − rate, 0) for tries that used a tool, else 0, (B,); rate: share of their group that did."""
    _, index = torch.unique(group, return_inverse=True)
    used = used.float()
    counts = torch.zeros(int(index.max()) + 1, device=used.device)
    rate = counts.index_add(0, index, used) / counts.index_add(0, index, torch.ones_like(used))
    return used * (least - rate[index]).clamp(min=0)


@dataclass(frozen=True)
class Curious(GRPO):
    """Pixel Reasoner's reward: R_i = r_i + α max(H − ρ_g, 0) 1[n_i > 0] − β max(n_i − N, 0).

    n_i: tool calls of try i; ρ_g: share of its group's tries that called one; α = bonus, H = least, β =
    price, N = most. The bonus fades by itself: it is 0 for a group of which the share H uses a tool. Source:
    Su et al. 2025 (arXiv 2505.15966), Pixel Reasoner. Differs from GRPO in: reward. Departs from the paper:
    the rate is that of the group of this step (the paper's: of the query's rollouts).
    """

    bonus: float = 0.5
    least: float = 0.3
    price: float = 0.05
    most: int = 1

    def reward(self, batch: Batch) -> Batch:
        calls = judged(batch.episodes, tool_calls).to(batch.rewards)
        extra = self.bonus * curiosity(calls > 0, batch.group, self.least) - self.price * (
            calls - self.most
        ).clamp(min=0)
        return batch.set(rewards=batch.rewards + at_end(extra, batch.mask))


# --- view consistency: a mirrored picture has the mirrored answer -------------------------------------------


def consistent(one: Episode, other: Episode) -> bool:
    """Whether ` 7 left 5` to a picture met ` 5 left 7` to its mirror image, right or wrong."""
    said, again = ((e.infos[-1].get("answer", "") if e.infos else "").split() for e in (one, other))
    return len(said) == 3 and said[1] == "left" and said[0] != said[2] and said == again[::-1]


@dataclass(frozen=True)
class ViewConsistency(GRPO):
    """Spatial-GRPO's idea: each task is tried in two views, and a try is paid for agreeing with its twin.

    R_i = r_i + α c_i,   c_i = 1 where try i of one view and try i of its mirror image are opposite

    plan: half of the prompts, each in both views, one group a view; twins share batch.pair. α = bonus; 0: the
    same rows without the bonus, the baseline. Source: Wang and Ling 2025 (arXiv 2506.01371), SVQA-R1. Differs
    from GRPO in: plan, reward. Departs from the paper: its views are perturbed photographs.
    """

    bonus: float = 0.5

    def plan(self, sampler: Sampler) -> list[Episode]:
        seeds = sampler.fresh(max(1, sampler.prompts // 2))
        tried = sampler.rollout([s + view for view in (0, MIRROR) for s in seeds], sampler.tries)
        half = len(tried) // 2
        return [replace(e, pair=i % half) for i, e in enumerate(tried)]

    def reward(self, batch: Batch) -> Batch:
        half = len(batch) // 2
        agree = [
            float(consistent(a, b)) for a, b in zip(batch.episodes[:half], batch.episodes[half:], strict=True)
        ]
        extra = torch.tensor(agree * 2).to(batch.rewards)
        return batch.set(rewards=batch.rewards + at_end(self.bonus * extra, batch.mask))


# --- shortcuts: an answer must need the picture -------------------------------------------------------------


@dataclass(frozen=True)
class PicturePAPO(PAPO):
    """PAPO as its paper means it: in the copies a share of the patches of pictures is blank, and all words
    stay.

    Differs from PAPO in: plan. Departs from the paper: as PAPO, but for the masked patches.
    """

    def plan(self, sampler: Sampler) -> list[Episode]:
        episodes = super().plan(sampler)
        rows = {e.pair: e.tokens for e in episodes if not e.blanked}
        return [
            replace(e, tokens=np.where(rows[e.pair] >= MARK, e.tokens, rows[e.pair])) if e.blanked else e
            for e in episodes
        ]


def reliance(seen: float, blind: float, chance: float) -> float:
    """Share of what can be won by looking that is won by looking: (seen − blind) / (1 − chance), accuracies
    in [0, 1].

    0 for a policy that never looks at the picture, 1 for one that is always right with it and guesses without
    it.
    """
    if not 0 <= chance < 1:
        raise ValueError(f"chance must be in [0, 1), got {chance}")
    return (seen - blind) / (1 - chance)
