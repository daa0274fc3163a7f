"""Tries that share a beginning: a tree of segments, or branches where an answer left the policy unsure."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from .. import ops
from ..batch import Batch, Episode, by_group
from ..rewards import at_end, judged
from .base import Sampler
from .grpo import DAPO, GRPO
from .shaping import well_formed


def tree_scores(rewards: Tensor, group: Tensor, paths: Sequence[tuple[int, ...]], by_size: bool) -> Tensor:
    """R_i minus the mean of each sub-group of leaves it is in, averaged over its sub-groups, (B,).

    The sub-groups of a leaf share its task and the first j choices of its path, j = 0, 1, … but not the last
    (the leaf itself); sub-groups of one are left out, the whole task (j = 0) never. by_size: the average
    weighs each with its number of leaves.
    """
    members: dict[Hashable, list[int]] = {}
    nested = [[(g, *path[:j]) for j in range(max(len(path), 1))] for g, path in zip(group.tolist(), paths)]
    for i, keys in enumerate(nested):
        for key in keys:
            members.setdefault(key, []).append(i)
    scores = torch.zeros_like(rewards)
    for i, keys in enumerate(nested):
        inside = [members[key] for j, key in enumerate(keys) if j == 0 or len(members[key]) > 1]
        weight = [float(len(rows)) if by_size else 1.0 for rows in inside]
        gain = [rewards[i] - rewards[rows].mean() for rows in inside]
        scores[i] = sum(w * g for w, g in zip(weight, gain)) / sum(weight)
    return scores


@dataclass(frozen=True)
class TreePO(DAPO):
    """TreePO: tries grow as a tree of segments, and a leaf is compared with every sub-tree it is in.

    A_i = whiten(mean_{j∈J_i} (R_i − mean_{G_j(i)} R)),   G_0 ⊇ G_1 ⊇ …: leaves with i's first j branchings

    J_i leaves out sub-groups of one, but never G_0, all leaves of the task. by_size: the mean weighs G_j with
    |G_j|. A task begins with `first` tries; after each further `segment` sampled tokens leaves still under
    way split in two, in any turn and in mid-turn, until there are `tries` or `depth` is reached (then tries
    from the prompt fill up). Loss and dynamic sampling are DAPO's.
    Source: Li et al. 2025 (arXiv 2508.17445), released code; survey Table 2.
    Differs from DAPO in: plan (tree), advantages.
    Departs from the paper: a split is made from a finished try, going back to where the segment ended: the
    same leaves, sampled in another order. No std of the terms (the paper is said to divide by it, the code
    does not); `first` is fixed, the paper draws it from 2 to 8. A flat tree is REINFORCE++ with the group's
    mean as baseline, not GRPO.
    """

    first: int = 2
    segment: int = 4
    depth: int = 14
    by_size: bool = False

    def plan(self, sampler: Sampler) -> list[Episode]:
        return super().plan(replace(sampler, rollout=lambda seeds, tries: self.grow(sampler, seeds, tries)))

    def grow(self, sampler: Sampler, seeds: Sequence[int], tries: int) -> list[Episode]:
        """`tries` leaves of each task's tree, task by task."""
        roots = by_group(sampler.rollout(seeds, min(self.first, tries)))
        trees = [[replace(e, path=(k,)) for k, e in enumerate(group)] for group in roots]
        for level in range(1, self.depth + 1):
            splits = []
            for tree in trees:
                able = [i for i, e in enumerate(tree) if e.mask.sum() > level * self.segment]
                chosen = sampler.rng.permutation(able)[: tries - len(tree)].astype(int).tolist()
                splits += [(tree, i) for i in chosen]
            if not splits:
                break
            at = [int(np.flatnonzero(tree[i].mask > 0)[level * self.segment]) for tree, i in splits]
            grown = sampler.fork([tree[i] for tree, i in splits], at, 1)
            for (tree, i), new in zip(splits, grown, strict=True):
                old = tree[i]
                tree[i] = replace(old, path=(*old.path, 0))
                tree.append(replace(new, path=(*old.path, 1), group=old.group))
        for number, tree in enumerate(trees):
            if missing := tries - len(tree):
                extra = sampler.rollout([seeds[number]], missing)
                start = min(self.first, tries)
                tree += [replace(e, path=(start + k,), group=tree[0].group) for k, e in enumerate(extra)]
        return [leaf for tree in trees for leaf in tree]

    def advantages(self, batch: Batch) -> Tensor:
        scores = tree_scores(batch.reward, batch.group, [e.path for e in batch.episodes], self.by_size)
        return ops.whiten(ops.per_token(scores, batch.mask), batch.mask)


def beginnings(tokens: Tensor, group: Tensor) -> Tensor:
    """(B, T) a number for each token with all before it: equal where rows share their beginning."""
    known: dict[tuple[int, int], int] = {}
    numbers = torch.zeros_like(tokens)
    for i, row in enumerate(tokens.tolist()):
        node = -1 - int(group[i])
        for t, token in enumerate(row):
            node = known.setdefault((node, token), len(known))
            numbers[i, t] = node
    return numbers


@dataclass(frozen=True)
class ARPO(GRPO):
    """ARPO: after a tool's answer that leaves the policy less sure than it began, the try branches.

    P(branch at turn k) = clip(b + w ΔH_k, 0, 1),   ΔH_k = (H̄_k − H̄_0) / ln V,   k ≥ 1
    R_i = 1 + bonus if right, well formed and all `tools` used; 1 if right and well formed;
    0 if well formed and wrong; else −1
    A: z-scores; hard: a sampled token that d tries share gets the mean of their d z-scores
    (before any update both have the same gradient: the d rows are the same there)

    H̄_k: mean entropy of the first `head` sampled tokens of turn k, V: tokens of the vocabulary, b = base, w
    = slope. Half of the `tries` start at the prompt; each turn after an answer opens at most beam − 1
    branches until all tries are used, and tries from the prompt fill up what is left. tools: texts that a row
    must have said for the bonus.
    Source: Dong et al. 2025 (arXiv 2507.19849); survey Table 2.
    Differs from GRPO in: plan, reward, advantages (hard), reduce (token mean).
    Departs from the paper: entropies are exact, where the release sums over the ten likeliest of up to 20
    tokens. Tries branch when they are finished, back from the turn in question. The release has a dual clip
    of 3.
    """

    base: float = 0.5
    slope: float = 0.2
    head: int = 20
    beam: int = 2
    bonus: float = 0.1
    tools: tuple[str, ...] = ()
    hard: bool = False

    def plan(self, sampler: Sampler) -> list[Episode]:
        seeds, tries = sampler.fresh(sampler.prompts), sampler.tries
        groups = by_group(sampler.rollout(seeds, max(1, tries // 2)))
        fresh = [(number, e, 1) for number, group in enumerate(groups) for e in group]
        while fresh:
            entropy = sampler.entropy([e for _, e, _ in fresh])
            chosen = []
            for (number, e, start), row in zip(fresh, entropy.cpu().numpy()):
                room = tries - len(groups[number]) - sum(n == number for n, _, _ in chosen)
                turns = self.branchings(e, row[: len(e)], start, sampler.rng)[: max(room, 0)]
                chosen += [(number, e, k) for k in turns]
            grown = sampler.branch([e for _, e, _ in chosen], [k for _, _, k in chosen], 1) if chosen else []
            fresh = []
            for (number, old, k), new in zip(chosen, grown, strict=True):
                groups[number].append(replace(new, group=old.group))
                fresh.append((number, groups[number][-1], k + 1))
        for number, group in enumerate(groups):
            if missing := tries - len(group):
                extra = sampler.rollout([seeds[number]], missing)
                group += [replace(e, group=group[0].group) for e in extra]
        return [e for group in groups for e in group]

    def branchings(
        self, episode: Episode, entropy: np.ndarray, start: int, rng: np.random.Generator
    ) -> list[int]:
        """The turns from `start` on at which this try branches, once a branch. entropy: (L,) nats."""
        unsure = []
        for k in range(episode.turns):
            at = np.flatnonzero((episode.turn == k) & (episode.mask > 0))[: self.head]
            unsure.append(float(entropy[at].mean()) / math.log(len(episode.tokenizer)))
        chance = [self.chance(h - unsure[0]) for h in unsure]
        return [
            k for k in range(start, episode.turns) for _ in range(self.beam - 1) if rng.random() < chance[k]
        ]

    def chance(self, rise: float) -> float:
        """Probability of a branch where the entropy rose by this much."""
        return min(max(self.base + self.slope * rise, 0.0), 1.0)

    def reward(self, batch: Batch) -> Batch:
        return batch.set(rewards=at_end(judged(batch.episodes, self.pay).to(batch.rewards), batch.mask))

    def pay(self, episode: Episode) -> float:
        """What a try is paid."""
        if not well_formed(episode):
            return -1.0
        if not (episode.success and self.tools):
            return float(episode.success)
        said = "".join(episode.said(k) for k in range(episode.turns))
        return 1.0 + self.bonus * all(tool in said for tool in self.tools)

    def advantages(self, batch: Batch) -> Tensor:
        adv = super().advantages(batch)
        if not self.hard:
            return adv
        sampled = batch.mask > 0
        shared = torch.zeros_like(adv)
        shared[sampled] = ops.group_mean(adv[sampled], beginnings(batch.tokens, batch.group)[sampled])
        return shared

    def reduce(self, x: Tensor, batch: Batch) -> Tensor:
        return ops.token_mean(x, batch.mask)
