"""Getting better from one's own attempts (survey section 3.4): correction in words, and rewards that nobody labels.

In words, with weights as they are: `reflect_loop`, and who comments: the policy itself (`Critic`), the
policy asked example by example (`Checklist`), an interpreter (`Executed`). Into the weights: `Judged`, GRPO
with a reward that a judge gives (`majority_reward`, `dual_reward`), curricula (`CurriculumBandit`) and
shared successes (`ExperienceBank`). Self-play is in `improvement_play`.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from .. import ops
from ..algorithms.base import Sampler
from ..algorithms.dpo import DPO
from ..algorithms.grpo import GRPO
from ..batch import Batch, Episode, by_group
from ..envs.base import Env, Reply
from ..models.score import Scores
from ..rewards import at_end
from ..rollout import Limits, Row, Sampling, rollout, start
from .ahead import follow, propose
from .improvement_roles import RIGHT, Questions, answer_of, body_of, deduction, examples, executed, review
from .vote import vote

SHORT = Limits(turn_tokens=16, turns=1, total=160)


# --- correction in words ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comment:
    """What a try is told; ` right` ends the loop. tokens: sampled to find it."""

    text: str
    tokens: int = 0


Commentator = Callable[[Sequence[str], Sequence[str]], list[Comment]]  # (tasks, answers) → a comment each


@dataclass(frozen=True)
class Attempt:
    """One task under reflection: its answers in order, what was said of them, and the hidden truth on each."""

    seed: int
    task: str
    said: tuple[str, ...]
    told: tuple[str, ...]
    right: tuple[bool, ...]
    tokens: int  # sampled in all, comments included


class _Told(Env):
    """A world that answers a turn with a text of ours and does nothing."""

    def __init__(self, text: str):
        self.text = text

    def step(self, said: str) -> Reply:
        return Reply(self.text)


def reflect_loop(
    policy,
    env: Env,
    seeds: Sequence[int],
    comment: Commentator,
    tries: int = 2,
    *,
    remember: bool = True,
    seed: int = 0,
    sampling: Sampling = Sampling(),
    limits: Limits = Limits(turn_tokens=16, turns=8, total=256),
) -> list[Attempt]:
    """Answer, hear a comment, answer again, until the comment is ` right` or there were `tries`. No gradient.

    env: a world of one-turn tasks, such as `PyFunc(tries=1)`; its verdict is noted, and nobody in the loop
    sees it. remember=False: each try begins anew, so that comments only decide when to stop (verify and
    sample again). Source: Reflexion (Shinn et al. 2023, arXiv 2303.11366), Self-Refine (Madaan et al. 2023,
    arXiv 2303.17651).
    """
    rows = [start(policy, env, s, i) for i, s in enumerate(seeds)]
    tasks = [env.clone().reset(s) for s in seeds]
    said, told, right = ([[] for _ in seeds] for _ in range(3))
    tokens, going = [0] * len(seeds), list(range(len(seeds)))
    for turn in range(tries):
        made = propose(
            policy, [rows[i] for i in going], seed=10 * seed + turn, sampling=sampling, limits=limits
        )
        for i, (candidate,) in zip(going, made, strict=True):
            said[i].append(candidate.said)
            right[i].append(candidate.reply.reward > 0)
            tokens[i] += int(candidate.row.episode.mask.sum() - rows[i].episode.mask.sum())
        if turn == tries - 1:
            break
        found = comment([tasks[i] for i in going], [said[i][-1] for i in going])
        for i, c in zip(going, found, strict=True):
            told[i].append(c.text)
            tokens[i] += c.tokens
        going = [i for i in going if told[i][-1] != RIGHT]
        if not going:
            break
        for i in going if remember else ():
            rows[i] = Row(
                env.clone(), follow(policy, Row(_Told(told[i][-1]), rows[i].episode), said[i][-1]).row.episode
            )
            rows[i].env.reset(seeds[i])
    parts = zip(seeds, tasks, map(tuple, said), map(tuple, told), map(tuple, right), tokens, strict=True)
    return [Attempt(*part) for part in parts]


def ask(
    policy, questions: Sequence[str], tries: int = 1, *, seed: int = 0, sampling: Sampling = Sampling()
) -> list[list[Episode]]:
    """`tries` answers to each question, as episodes that nobody judged (reward 0)."""
    world = Questions([(q, "") for q in questions])
    made = rollout(policy, world, range(len(questions)), tries, seed=seed, sampling=sampling, limits=SHORT)
    return [made[i : i + tries] for i in range(0, len(made), tries)]


GREEDY = Sampling(temperature=0)


@dataclass(frozen=True)
class Critic:
    """A policy that says in one go what is wrong with an answer: free self-critique, or somebody else's critique."""

    policy: object

    def __call__(self, tasks: Sequence[str], answers: Sequence[str]) -> list[Comment]:
        found = ask(self.policy, [review(t, a) for t, a in zip(tasks, answers, strict=True)], sampling=GREEDY)
        return [Comment(answer_of(e.said(0)) or RIGHT, int(e.mask.sum())) for (e,) in found]


@dataclass(frozen=True)
class Checklist:
    """A structured workflow: the policy predicts its program's value on each shown example; the first mismatch is told.

    It answers each question in a context of its own, without the value it should find, as in
    Chain-of-Verification (Dhuliawala et al. 2023, arXiv 2309.11495). Comparing is left to code.
    """

    policy: object

    def __call__(self, tasks: Sequence[str], answers: Sequence[str]) -> list[Comment]:
        asked = [(i, x, y) for i, t in enumerate(tasks) for x, y in examples(t) if body_of(answers[i])]
        replies = ask(
            self.policy, [deduction(body_of(answers[i]), x) for i, x, _ in asked] or [""], sampling=GREEDY
        )
        comments = [Comment(RIGHT if body_of(a) else " error say act") for a in answers]
        for (i, x, y), (e,) in zip(asked, replies, strict=False):
            found, before = answer_of(e.said(0)), comments[i]
            wrong = before.text == RIGHT and found != y
            text = f" f ({x} ) ={found or ' nothing'} not{y}" if wrong else before.text
            comments[i] = Comment(text, before.tokens + int(e.mask.sum()))
        return comments


@dataclass(frozen=True)
class Executed:
    """An interpreter runs the shown examples; what it finds is told (Self-Debugging, arXiv 2304.05128; CRITIC, 2305.11738)."""

    run: Callable | None = None  # as in `PyFunc`

    def __call__(self, tasks: Sequence[str], answers: Sequence[str]) -> list[Comment]:
        return [Comment(executed(t, a, self.run)) for t, a in zip(tasks, answers, strict=True)]


# --- rewards that nobody labels ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged(GRPO):
    """GRPO where a judge pays, not the world: R_i = judge(episodes)_i, at the last sampled token of row i.

    judge: all episodes of a step → a number each. What the world would have paid stays in the records.
    Differs from GRPO in: reward.
    """

    judge: Callable[[Sequence[Episode]], Sequence[float]] = field(default=None, repr=False, compare=False)

    def reward(self, batch: Batch) -> Batch:
        amounts = torch.tensor(list(self.judge(batch.episodes)), dtype=batch.rewards.dtype)
        return batch.set(rewards=at_end(amounts.to(batch.rewards.device), batch.mask))


@dataclass(frozen=True)
class RPO(DPO):
    """RPO: DPO that also keeps the chosen reply likely, so that its probability cannot sink with the rejected one's.

    L = L_DPO − α 1/P Σ_k ℓ̄_w,   ℓ̄_w = mean log-probability of a token of the chosen row of pair k

    α = alpha. Source: Pang et al. 2024 (arXiv 2404.19733), the loss called DPO+NLL there.
    Differs from DPO in: loss. Departs from the paper: nothing.
    """

    alpha: float = 1.0

    def loss(self, scores: Scores, batch: Batch) -> Tensor:
        chosen, _ = ops.pair_rows(batch.pair, batch.chosen)
        likely = ops.row_mean(scores.logp, batch.mask)[chosen]
        return super().loss(scores, batch) - self.alpha * likely.sum() / max(len(likely), 1)


def majority_reward(answer: Callable[[Episode], str | None]) -> Callable[[Sequence[Episode]], list[float]]:
    """The judge of TTRL: 1 for the answer that most tries of the task gave, else 0; an invalid answer never wins.

    R_i = 1[y_i = argmax_y Σ_j 1[y_j = y]] over the tries j of the group.
    Source: Zuo et al. 2025 (arXiv 2504.16084).
    """

    def judge(episodes: Sequence[Episode]) -> list[float]:
        winner = {tries[0].group: vote([answer(e) for e in tries]).answer for tries in by_group(episodes)}
        return [float(winner[e.group] is not None and answer(e) == winner[e.group]) for e in episodes]

    return judge


def dual_reward(
    policy,
    inverse: Callable[[Episode], tuple[str, str] | None],
    answer: Callable[[Episode], str | None],
    tries: int = 4,
) -> Callable[[Sequence[Episode]], list[float]]:
    """The judge of DuPO: how often the hidden part of the task is found again from the answer.

    inverse(episode) → (question, hidden part), or None where the answer is invalid (reward 0). The share of
    `tries` replies of `policy` to the question whose `answer` is the hidden part is the reward. Source: She
    et al. 2025 (arXiv 2508.14460).
    """

    def judge(episodes: Sequence[Episode]) -> list[float]:
        asked = [inverse(e) for e in episodes]
        known = [i for i, a in enumerate(asked) if a is not None]
        replies = ask(policy, [asked[i][0] for i in known], tries, seed=len(known)) if known else []
        share = {
            i: float(np.mean([answer(e) == asked[i][1] for e in rs]))
            for i, rs in zip(known, replies, strict=True)
        }
        return [share.get(i, 0.0) for i in range(len(episodes))]

    return judge


# --- which tasks ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CurriculumBandit(GRPO):
    """SEC: the kind of each task is chosen by a bandit whose reward is how much the kind moves the policy.

    P(c) = softmax(Q_c/τ);   after a step, for each kind met: Q_c ← (1 − α) Q_c + α mean |A| of its tries

    arm(seed) tells a task's kind, one of `arms`; α = rate, τ = heat (inf: uniform). Kinds whose tries all
    succeed or all fail have A = 0, so the bandit leaves them; softmax keeps looking at them now and then.
    Source: Chen et al. 2025 (arXiv 2505.14970), Self-Evolving Curriculum. Differs from GRPO in: plan.
    """

    arm: Callable[[int], Hashable] = field(default=None, repr=False, compare=False)
    arms: tuple = ()
    rate: float = 0.5
    heat: float = 0.08

    def chances(self, values: Sequence[float]) -> np.ndarray:
        """The probability of each kind."""
        logits = np.asarray(values, float) / self.heat
        weights = np.exp(logits - logits.max())
        return weights / weights.sum()

    def plan(self, sampler: Sampler) -> list[Episode]:
        value = sampler.memory.setdefault("value", [0.0] * len(self.arms))
        chosen = sampler.rng.choice(len(self.arms), sampler.prompts, p=self.chances(value))
        tried = sampler.rollout(self._tasks(sampler, chosen), sampler.tries)
        reward, group = (torch.tensor([getattr(e, k) for e in tried]) for k in ("reward", "group"))
        size = ops.group_zscore(reward, group).abs().view(len(chosen), sampler.tries).mean(1)
        for k in set(chosen.tolist()):
            value[k] += self.rate * (float(size[torch.from_numpy(chosen == k)].mean()) - value[k])
        sampler.memory.setdefault("drawn", []).append(np.bincount(chosen, minlength=len(self.arms)).tolist())
        return tried

    def _tasks(self, sampler: Sampler, chosen: np.ndarray) -> list[int]:
        """A fresh task of each kind that was chosen."""
        stock: dict[Hashable, list[int]] = {}
        for _ in range(200):
            for s in sampler.fresh(4 * sampler.prompts):
                stock.setdefault(self.arm(s), []).append(s)
            wanted = np.bincount(chosen, minlength=len(self.arms))
            if all(len(stock.get(a, ())) >= n for a, n in zip(self.arms, wanted)):
                return [stock[self.arms[k]].pop() for k in chosen]
        lacking = [a for a, n in zip(self.arms, wanted) if len(stock.get(a, ())) < n]
        raise ValueError(
            f"found too few tasks of the kinds {lacking}; hint: does the world draw them at all?"
        )


# --- shared successes -------------------------------------------------------------------------------------


class ExperienceBank:
    """Successful episodes of anyone, at most `most` different ones a task (SiriuS, Zhao et al. 2025, arXiv 2502.04780)."""

    def __init__(self, most: int = 2):
        self.most, self.kept = most, {}

    def add(self, episodes: Sequence[Episode]) -> int:
        """Keeps the successes that are new; how many those were."""
        before = len(self)
        for e in episodes:
            known = self.kept.setdefault(e.seed, {})
            if e.success and e.text not in known and len(known) < self.most:
                known[e.text] = e
        return len(self) - before

    def __len__(self) -> int:
        return sum(map(len, self.kept.values()))

    def __iter__(self) -> Iterator[Episode]:
        return (e for known in self.kept.values() for e in known.values())
