"""Fast and slow reasoning: one policy in two modes, and what repairs a quick answer (survey section 3.5).

Fast: answer at once. Slow: write a thought between `<think>` and `</think>` first. Then: vote over answers,
choose the best of n by confidence or by a verifier of steps, and search for chains that are worth learning
from.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from ..algorithms.preference import is_number, step_numbers
from ..algorithms.shaping import chain_steps
from ..batch import Batch, Episode, collate
from ..envs.base import Env
from ..models.format import Format
from ..models.score import score
from ..models.tokenizer import END, THINK, THINK_END, encode
from ..rewards import step_loss
from ..rollout import Limits, Row, Sampling, branch, run, start
from .vote import Vote, vote

# --- one policy, two modes --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Opening(Format):
    """A format in which the first words of the reply are given: forced behind the prompt, heard by the world.

    For worlds of one turn. `<think>` opens a thought; Qwen3 closes it at once to forbid one:
    `<think></think>`.
    """

    opening: str = THINK

    def prompt(self, task: str, instructions: str = "") -> str:
        return super().prompt(task, instructions) + self.opening

    def heard(self, text: str) -> str:
        return self.opening + super().heard(text)


class View:
    """A policy seen in one mode. Weights are shared: what trains the view trains the policy.

    opening: words its replies begin with. bar: words it cannot say; their probability goes to the others, in
    sampling and in scoring alike. Each must be one token.
    """

    def __init__(self, policy, opening: str = "", bar: Sequence[str] = ()):
        ids = [encode(policy.tokenizer, word) for word in bar]
        if long := [word for word, tokens in zip(bar, ids) if len(tokens) != 1]:
            raise ValueError(
                f"{long[0]!r} is not one token here; hint: View(policy, opening='{THINK}{THINK_END}')"
            )
        self.policy, self.bar = policy, tuple(bar)
        self.format = Opening(**vars(policy.format), opening=opening) if opening else policy.format
        self._barred = torch.tensor([tokens[0] for tokens in ids], dtype=torch.long, device=policy.device)
        self._opening = opening

    def __getattr__(self, name: str):
        if name == "policy":  # asked for before there is one, while copying
            raise AttributeError(name)
        return getattr(self.policy, name)

    def copy(self) -> "View":
        """The same mode of a copy of the policy."""
        return View(self.policy.copy(), self._opening, self.bar)

    def head(self, hidden: Tensor) -> Tensor:
        """Logits over the vocabulary."""
        return self._cut(self.policy.head(hidden))

    def advance(self, tokens: Tensor, counts: Tensor | None, cache, rows: Tensor | None) -> Tensor:
        """As the policy's own."""
        return self._cut(self.policy.advance(tokens, counts, cache, rows))

    def _cut(self, logits: Tensor) -> Tensor:
        return (
            logits.index_fill(-1, self._barred, -1e9) if len(self._barred) else logits
        )  # not −inf: 0·∞ is nan


def fast(policy) -> View:
    """The policy without `<think>`: it answers at once."""
    return View(policy, bar=(THINK,))


def slow(policy) -> View:
    """The policy behind `<think>`: it thinks before it answers."""
    return View(policy, opening=THINK)


@torch.no_grad()
def mode_chance(policy, env: Env, seeds: Sequence[int], word: str = THINK) -> np.ndarray:
    """Probability that the first token of each reply is `word`, (n,): the mode as a gate, without
    sampling."""
    rows = [start(policy, env, seed).episode.tokens for seed in seeds]
    lengths = torch.tensor([len(row) for row in rows], device=policy.device)
    tokens = torch.zeros(len(rows), int(lengths.max()), dtype=torch.long, device=policy.device)
    for row, ids in zip(tokens, rows):
        row[: len(ids)] = torch.from_numpy(ids)
    last = policy.hidden(tokens, lengths)[torch.arange(len(rows)), lengths - 1]
    chance = policy.head(last).float().softmax(-1)[:, encode(policy.tokenizer, word)[0]]
    return chance.cpu().numpy()


def thought(episode: Episode) -> bool:
    """Whether anything stands between `<think>` and `</think>` in the reply."""
    inside = episode.text.rpartition(THINK)[2] if THINK in episode.text else ""
    return bool(inside.partition(THINK_END)[0].removesuffix(END).strip())


def answer_of(episode: Episode) -> str | None:
    """What a reply says behind its thought, or None where the thought or the reply was not ended."""
    said = episode.said(episode.turns - 1)
    if not said.endswith(END) or (
        THINK in episode.text and THINK_END not in episode.text.rpartition(THINK)[2]
    ):
        return None
    return said.removesuffix(END).rpartition(THINK_END)[2].strip() or None


# --- many tries, one answer -------------------------------------------------------------------------------


def self_consistency(tries: Sequence[Episode], weigh: Callable[[Episode], float] | None = None) -> Vote:
    """The majority's answer among the tries of one task; weigh: what a try counts, by default 1.

    Source: Wang et al. 2022 (arXiv 2203.11171); weighed by a verifier: Li et al. 2022 (arXiv 2206.02336).
    """
    return vote([answer_of(e) for e in tries], [weigh(e) for e in tries] if weigh else None)


def best_of_n(tries: Sequence[Episode], scores: Sequence[float]) -> Episode:
    """The try with the highest score; of equals the first."""
    if len(tries) != len(scores) or not tries:
        raise ValueError(f"expected a score for each try, got {len(tries)} tries and {len(scores)} scores")
    return tries[int(np.argmax(scores))]


def confidence(episode: Episode) -> float:
    """Mean log-probability of the sampled tokens (nats a token), as when they were sampled."""
    return float(episode.logp.sum() / max(episode.mask.sum(), 1))


# --- a verifier of steps ----------------------------------------------------------------------------------


def step_ends(episode: Episode) -> np.ndarray:
    """Places of the sampled tokens that end a step: numbers, the answer among them."""
    number = step_numbers(episode, is_number)
    pieces = episode.pieces
    return np.array([t for t in np.flatnonzero(number >= 0) if is_number(pieces[t])], dtype=np.int64)


def true_labels(episode: Episode) -> np.ndarray:
    """Labels (L,) of a Chain reply: 1 where a step and all before it are right, else 0; nan elsewhere.

    The labels of Let's Verify Step by Step (Lightman et al. 2023, arXiv 2305.20050), by a rule and not by
    people.
    """
    labels = np.full(len(episode), np.nan, np.float32)
    ends, wanted = step_ends(episode), chain_steps(episode)[1]
    good = True
    for number, t in enumerate(ends):
        last = number == len(ends) - 1
        piece = episode.pieces[t].strip()
        good = good and (episode.success if last else number < len(wanted) and piece == wanted[number])
        labels[t] = float(good)
    return labels


def reroll_labels(
    policy, env: Env, episodes: Sequence[Episode], tries: int, *, seed: int = 0, limits: Limits = Limits()
) -> tuple[list[np.ndarray], int]:
    """Labels (L,) of each reply: the share of `tries` continuations after a step that succeed; and the tokens
    spent.

    The last step's label is the reply's own success. Source: Math-Shepherd (Wang et al. 2023, arXiv
    2312.08935), soft labels.
    """
    labels = [np.full(len(e), np.nan, np.float32) for e in episodes]
    asked: list[tuple[int, int]] = []
    for i, episode in enumerate(episodes):
        ends = step_ends(episode)
        if len(ends):
            labels[i][ends[-1]] = float(episode.success)
        asked += [(i, int(t)) for t in ends[:-1]]
    prefixes, places = [episodes[i] for i, _ in asked], [t + 1 for _, t in asked]
    made = branch(policy, env, prefixes, places, tries, seed=seed, limits=limits)
    for n, (i, t) in enumerate(asked):
        labels[i][t] = float(np.mean([e.success for e in made[n * tries : (n + 1) * tries]]))
    spent = sum(
        int(e.mask.sum()) - int(prefixes[n // tries].mask[: places[n // tries]].sum())
        for n, e in enumerate(made)
    )
    return labels, spent


class StepVerifier(nn.Module):
    """P(a step is right) from its probability under a copy of the policy: σ(a ln π_φ(step | before) + b).

    It begins as the policy's own confidence; labels then teach it where that confidence is misplaced. a and b
    start at 1 and 3. Its trunk is a copy, so that the policy does not change.
    """

    def __init__(self, policy):
        super().__init__()
        self.trunk = getattr(policy, "policy", policy).copy().requires_grad_(True)
        self.scale, self.bias = nn.Parameter(torch.tensor(1.0)), nn.Parameter(torch.tensor(3.0))

    def forward(self, batch: Batch) -> Tensor:
        """Log-odds of being right of each sampled token, (B, T); they mean something where a step ends."""
        return self.scale * score(self.trunk, batch).logp + self.bias


def first_mistake(labels: np.ndarray, above: float = 0.0) -> np.ndarray:
    """Hard labels, 1 where a label is above `above`, up to and with the first 0; nan after it, (L,).

    What comes after a mistake is neither right nor wrong: Lightman et al. 2023, section 2.6. With above = 0,
    labels by re-rolls are Math-Shepherd's hard ones.
    """
    hard = np.where(np.isnan(labels), np.nan, labels > above).astype(np.float32)
    wrong = np.flatnonzero(hard == 0)
    if len(wrong):
        hard[wrong[0] + 1 :] = np.nan
    return hard


def step_verifier(
    policy,
    labelled: Sequence[tuple[Episode, np.ndarray]],
    *,
    steps: int,
    rows: int = 64,
    lr: float = 1e-3,
    seed: int = 0,
) -> StepVerifier:
    """A verifier fitted to (reply, labels (L,)) by cross-entropy, `rows` replies an update."""
    model = StepVerifier(policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)
    for step in range(steps):
        picks = np.random.default_rng([seed, step]).integers(len(labelled), size=rows)
        batch = collate([labelled[i][0] for i in picks], policy.device)
        labels = torch.full(batch.tokens.shape, torch.nan, device=policy.device)
        for row, i in zip(labels, picks):
            row[: len(labelled[i][1])] = torch.from_numpy(labelled[i][1])
        optimizer.zero_grad(set_to_none=True)
        step_loss(model(batch), labels).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model


@torch.no_grad()
def verified(verifier: StepVerifier, episodes: Sequence[Episode]) -> list[float]:
    """Log of the product of the steps' probabilities of being right, one number a reply or beginning of one.

    −∞ without steps. The product over steps: Lightman et al. 2023, section 2.6.
    """
    batch = collate(episodes, verifier.scale.device)
    logp = torch.nn.functional.logsigmoid(verifier(batch)).cpu().numpy()
    places = [step_ends(e) for e in episodes]
    return [float(row[at].sum()) if len(at) else -math.inf for row, at in zip(logp, places)]


# --- chains by search -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Search:
    """What a search found: the best finished reply of each task, its score, and the tokens sampled for
    all."""

    best: list[Episode]
    scores: list[float]
    tokens: int


def search_chains(
    policy, env: Env, seeds: Sequence[int], judge: Callable[[Sequence[Episode]], Sequence[float]], *,
    width: int = 2, expand: int = 4, segment: int = 1, seed: int = 0, limits: Limits = Limits(),
) -> Search:  # fmt: skip
    """A beam of `width` beginnings a task; each grows `expand` times by `segment` tokens, and the best stay.

    judge(beginnings) → one number each, for finished replies too. A task without a finished reply within the
    limits is left out. The search of rStar-Math and Marco-o1 without its tree statistics.
    """
    beams = [[start(policy, env, s, group).episode] for group, s in enumerate(seeds)]
    spent = 0
    for level in range(1, math.ceil(limits.turn_tokens / segment) + 1):
        under_way = [e for beam in beams for e in beam if not e.terminated]
        if not under_way:
            break
        grown = _grown(policy, env, under_way, expand, level * segment, (seed, level), limits)
        spent += sum(int(e.mask.sum()) - (level - 1) * segment for e in grown)
        tasks: dict[int, dict[bytes, Episode]] = {g: {} for g in range(len(seeds))}
        for e in [*(e for beam in beams for e in beam if e.terminated), *grown]:
            tasks[e.group].setdefault(e.tokens.tobytes(), e)  # the same beginning once
        flat = [e for found in tasks.values() for e in found.values()]
        worth = dict(zip(map(id, flat), judge(flat), strict=True))
        beams = [sorted(found.values(), key=lambda e: -worth[id(e)])[:width] for found in tasks.values()]
    ended = [[e for e in beam if e.terminated] for beam in beams]
    best = [beam[0] for beam in ended if beam]
    return Search(best, list(map(float, judge(best))) if best else [], spent)


def _grown(policy, env: Env, beginnings, expand: int, sampled: int, stream: tuple[int, int], limits: Limits):
    """`expand` ways on from each beginning, cut where `sampled` tokens of the reply stand."""
    rows = []
    for e in beginnings:
        fresh = replace(e, truncated=False, success=False, infos=[])
        rows += [Row(start(policy, env, e.seed).env, fresh) for _ in range(expand)]
    streams = [(*stream, i) for i in range(len(rows))]
    return run(policy, rows, streams, sampling=Sampling(), limits=replace(limits, turn_tokens=sampled))
