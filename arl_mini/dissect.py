"""An update taken apart: what policies and algorithms make of each token, as plain columns.

Nothing here trains. `Dissection` runs the hooks of an algorithm and its real loss on episodes that are there,
and reads the gradient of the loss with respect to each token's log-probability.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from . import ops
from .algorithms.base import Algorithm
from .algorithms.catalogue import compare, formula
from .batch import Batch, Episode, collate
from .models.score import Scores, score
from .models.tokenizer import encode

Columns = dict[str, np.ndarray]  # name → (B, T) float32, nan where a token has no such number
ROWS = 8  # a forward pass: a vocabulary of 50,000 words takes 1 GB for 5,000 sampled tokens
BLAND = (int, float, str, bool, tuple)  # fields of an algorithm that fit into its name


def push(algorithm: Algorithm, scores: Scores, batch: Batch) -> Tensor:
    """−∂L/∂ℓ of each token, (B, T), by autograd through the loss: how hard a step pulls its log p up."""
    scores = replace(scores, logp=scores.logp.detach().requires_grad_())
    loss = algorithm.loss(scores, batch)
    if not loss.requires_grad:
        return torch.zeros_like(scores.logp)
    (gradient,) = torch.autograd.grad(loss, scores.logp, allow_unused=True)
    return torch.zeros_like(scores.logp) if gradient is None else -gradient


def names(algorithms: Iterable[Algorithm]) -> dict[str, Algorithm]:
    """Algorithms by class name; of equal ones each also tells the fields that are not its defaults."""
    algorithms = list(algorithms)
    kinds = [type(a).__name__ for a in algorithms]
    found: dict[str, Algorithm] = {}
    for kind, algorithm in zip(kinds, algorithms):
        changed = _changed(algorithm) if kinds.count(kind) > 1 else ""
        name = f"{kind}({changed})" if changed else kind
        if name in found:
            raise ValueError(f"two algorithms are both {name}; hint: pass a dict with a name for each")
        found[name] = algorithm
    return found


def _changed(algorithm: Algorithm) -> str:
    default = {f.name: f.default for f in fields(algorithm)}
    own = {k: v for k, v in vars(algorithm).items() if isinstance(v, BLAND) and v != default.get(k)}
    return ", ".join(f"{k}={v}" for k, v in own.items())


@dataclass(frozen=True)
class _Told:
    """What the policies say of one row: arrays (L,), by name of the policy."""

    logp: dict[str, np.ndarray]
    entropy: dict[str, np.ndarray]
    ref: np.ndarray | None
    values: np.ndarray | None  # of the critic


class Dissection:
    """Episodes under any of several policies and algorithms.

    Args:
        policies: name → policy. None at all: every token keeps the log-probability it was sampled with, as in
            the first update after a rollout, where all ratios are 1.
        algorithms: name → algorithm.
        ref: the reference policy. None: the policy that sampled, which is what a run takes at its first step.
        critic: value head of the first policy (`run.critic`). None: V = 0, which is what a new head says,
            unless the episodes carry measured values.

    What an algorithm does in `plan` (drawing, filtering and rerolling tries) is not repeated here.
    """

    def __init__(
        self, policies: Mapping[str, object], algorithms: Mapping[str, Algorithm], ref=None, critic=None
    ):
        if critic is not None and not policies:
            raise ValueError("a critic reads the hidden states of a policy; hint: policy=run.policy")
        self._policies, self._algorithms = dict(policies), dict(algorithms)
        self._ref, self._critic = ref, critic
        self._told: dict[bytes, _Told] = {}

    @property
    def policies(self) -> list[str]:
        """Names of the policies; the first is the one a critic and an edited token belong to."""
        return list(self._policies)

    @property
    def algorithms(self) -> list[str]:
        """Names of the algorithms."""
        return list(self._algorithms)

    def columns(self, episodes: Sequence[Episode], policy: str = "", algorithm: str = "") -> Columns:
        """What is known of each token: arrays (B, T), nan at forced tokens and in padding.

        logp, entropy (nats), ratio π/π_old, kl (k3 to the reference, nats), value: of `policy`. reward (as
        the algorithm pays it), advantage, push −∂L/∂ℓ, share (100 · push / Σ|push|, in %), clipped (0 or 1):
        of `algorithm` under `policy`; rows that its `keep` drops have none of these. A column that nobody can
        tell is left out. Raises KeyError for an unknown name, ValueError where the algorithm does not fit.
        """
        batch, scores = self._batch(episodes, policy)
        columns = {"logp": scores.logp, "reward": batch.rewards}
        if policy:
            columns |= {"entropy": scores.entropy, "ratio": ops.ratio(scores.logp, batch.old_logp)}
        if self._ref is not None:
            columns["kl"] = ops.kl_k3(scores.logp, batch.ref_logp)
        if self._critic is not None or all(e.values is not None for e in episodes):
            columns["value"] = batch.values
        if algorithm:
            try:
                columns |= self._update(self._algorithms[algorithm], scores, batch)
            except Exception as error:  # of whatever kind: a hook meets rows that its own plan did not make
                raise ValueError(
                    f"{algorithm} cannot be applied to these episodes ({type(error).__name__}: {error}); "
                    "hint: it may need what its own plan measures"
                ) from error
        sampled = batch.mask > 0
        plain = {name: x.float().masked_fill(~sampled, torch.nan).numpy() for name, x in columns.items()}
        return {"mask": np.where(_inside(batch), batch.mask.numpy(), np.nan), **plain}

    def edited(
        self, episode: Episode, place: int, text: str | None = None, reward: float | None = None
    ) -> Episode:
        """A copy with another token or another reward at one place; replies and `success` stay as they were.

        A row with another token was sampled by nobody: it gets the log-probabilities of the first policy.
        Raises ValueError for text that is not exactly one token, and for a reward at a forced token.
        """
        if reward is not None:
            if not episode.mask[place]:
                raise ValueError(f"token {place} was forced; rewards stand at sampled tokens")
            rewards = np.array(episode.rewards, dtype=np.float32)
            rewards[place] = reward
            episode = replace(episode, rewards=rewards)
        if text is not None:
            if not self._policies:
                raise ValueError("another token needs a policy to score it; hint: microscope(…, policy=…)")
            ids = encode(episode.tokenizer, text)
            if len(ids) != 1:
                raise ValueError(
                    f"{text!r} is {len(ids)} tokens, expected 1; hint: most words begin with a space"
                )
            tokens = np.array(episode.tokens)
            tokens[place] = ids[0]
            episode = replace(episode, tokens=tokens)
            episode = replace(episode, logp=self._tell([episode])[0].logp[self.policies[0]])
        return episode

    def _update(self, algorithm: Algorithm, scores: Scores, batch: Batch) -> dict[str, Tensor]:
        """What the hooks of one step say of each token, nan in the rows that it drops."""
        if algorithm.needs_entropy:
            batch = batch.set(entropy=scores.entropy)
        batch = algorithm.reward(batch)
        kept = algorithm.keep(batch).nonzero()[:, 0]
        rows, mine = batch.rows(kept), Scores(scores.logp[kept], scores.entropy[kept], scores.values[kept])
        if algorithm.needs_critic:
            rows = rows.set(returns=algorithm.returns(rows))
        rows = rows.set(advantages=algorithm.advantages(rows))
        pushed = push(algorithm, mine, rows)
        total = pushed.abs().sum()
        share = 100 * pushed / total if total > 0 else pushed
        clipped = algorithm.clipped(mine, rows).float()
        known = {"advantage": rows.advantages, "push": pushed, "share": share, "clipped": clipped}
        empty = torch.full_like(batch.rewards, torch.nan)
        placed = {k: empty.index_copy(0, kept, x.detach()) for k, x in known.items()}
        return {"reward": batch.rewards} | placed

    def _batch(self, episodes: Sequence[Episode], policy: str) -> tuple[Batch, Scores]:
        """Episodes as a batch with all columns, and what one policy says of them."""
        if policy and policy not in self._policies:
            raise KeyError(f"no policy {policy!r}; there are {self.policies}")
        batch, told = collate(episodes), self._tell(episodes)

        def pad(rows: Iterable[np.ndarray]) -> Tensor:
            out = torch.zeros_like(batch.old_logp)
            for line, row in zip(out, rows):
                line[: len(row)] = torch.from_numpy(row)
            return out

        first = pad(t.logp[self.policies[0]] for t in told) if self._policies else batch.old_logp
        old = torch.where(batch.own[:, None], batch.old_logp, first)
        ref = old if self._ref is None else pad(t.ref for t in told)
        measured = torch.zeros_like(old) if batch.values is None else batch.values
        values = measured if self._critic is None else pad(t.values for t in told)
        logp = pad(t.logp[policy] for t in told) if policy else old
        entropy = pad(t.entropy[policy] for t in told) if policy else torch.zeros_like(old)
        return batch.set(old_logp=old, ref_logp=ref, values=values), Scores(logp, entropy, values)

    def _tell(self, episodes: Sequence[Episode]) -> list[_Told]:
        """What each policy says of each row; rows seen before are not scored again."""
        keys = [e.tokens.tobytes() + e.mask.tobytes() for e in episodes]
        fresh = {key: e for key, e in zip(keys, episodes) if key not in self._told}
        for start in range(0, len(fresh), ROWS):
            part = dict(list(fresh.items())[start : start + ROWS])
            self._told |= zip(part, self._ask(list(part.values())))
        return [self._told[key] for key in keys]

    def _ask(self, episodes: Sequence[Episode]) -> Iterable[_Told]:
        batch = collate(episodes)
        critics = {name: self._critic if name == self.policies[0] else None for name in self._policies}
        said = {name: _scored(policy, batch, critics[name]) for name, policy in self._policies.items()}
        ref = None if self._ref is None else _scored(self._ref, batch).logp
        values = None if self._critic is None else said[self.policies[0]].values
        for row, episode in enumerate(episodes):
            n = len(episode)
            logp = {name: s.logp[row, :n].numpy() for name, s in said.items()}
            entropy = {name: s.entropy[row, :n].numpy() for name, s in said.items()}
            yield _Told(logp, entropy, *(None if x is None else x[row, :n].numpy() for x in (ref, values)))


@torch.no_grad()
def _scored(policy, batch: Batch, critic=None) -> Scores:
    said = score(policy, batch.to(policy.device), critic)
    return Scores(*(None if x is None else x.float().cpu() for x in (said.logp, said.entropy, said.values)))


def _inside(batch: Batch) -> np.ndarray:
    """(B, T) bool: not padding."""
    return np.arange(batch.tokens.shape[1]) < batch.lengths.numpy()[:, None]


# --- one algorithm, probed: how hard it pushes a token, by ratio, advantage, length and success -----------

RATIOS = tuple(float(r) for r in np.exp(np.linspace(np.log(0.4), np.log(2.5), 61)).round(4))
ADVANTAGES = tuple(float(a) for a in np.linspace(-2, 2, 25).round(4))
LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
TRIES = 8  # of a task
OLD = -1.0  # log-probability of each probed token when it was sampled


@dataclass(frozen=True)
class Probe:
    """What an algorithm does to single tokens, measured through its loss and hooks, as plain numbers.

    weight: a list for each of `advantages` with a number for each of `ratios`: −∂L/∂ℓ of a row of one token,
    over its size at ratio 1 and advantage 1. by_length: for each of `lengths`, −∂L/∂ℓ of one token of a row
    so long, over the mean of all tokens, at ratio 1. by_success: for k = 1 … TRIES − 1 successes in a group,
    the mean advantage of a success; empty where the loss does not use the size of advantages. What is empty
    because a hook failed has its reason in `why`.

    For a loss that compares pairs, an advantage above 0 stands for the chosen row of a pair, one below 0 for the
    rejected; the ratio is that of the row to the reference, and the other row of the pair has ratio 1.
    """

    name: str
    formula: str
    ratios: Sequence[float]
    advantages: Sequence[float]
    weight: list[list[float]]
    lengths: Sequence[int]
    by_length: list[float]
    by_success: list[float]
    why: str = ""


def probe(algorithm: Algorithm, name: str = "") -> Probe:
    """Probes an algorithm; its loss runs on rows made for it, so no policy is needed."""
    parts: list[list] = [[], [], []]
    why = ""
    try:
        parts[0], parts[1] = _by_ratio(algorithm), _by_length(algorithm)
        one, two = (parts[0][ADVANTAGES.index(a)][RATIOS.index(1.0)] for a in (1.0, 2.0))
        if two > 1.5 * one:  # else the loss looks at the sign at most
            parts[2] = _by_success(algorithm)
    except Exception as error:  # of whatever kind: a hook meets rows that its own plan did not make
        why = f"{type(error).__name__}: {error}"[:160]
    weight, lengths, success = parts
    name = name or type(algorithm).__name__
    return Probe(name, formula(type(algorithm)), RATIOS, ADVANTAGES, weight, LENGTHS, lengths, success, why)


def _by_ratio(algorithm: Algorithm) -> list[list[float]]:
    pairs = [(a, r) for a in ADVANTAGES for r in RATIOS] + [(1.0, 1.0)]
    batch = _in_pairs([1] * len(pairs), [a for a, _ in pairs])
    logp = batch.old_logp.clone()
    logp[0::2, 1] += torch.tensor([r for _, r in pairs]).log()
    pushed = push(algorithm, _scores(logp), batch)[0::2, 1]
    unit = float(pushed[-1].abs()) or 1.0
    return (pushed[:-1] / unit).reshape(len(ADVANTAGES), -1).tolist()


def _by_length(algorithm: Algorithm) -> list[float]:
    batch = _in_pairs(LENGTHS, [1.0] * len(LENGTHS))
    pushed = push(algorithm, _scores(batch.old_logp), batch)[0::2]
    mean = float(pushed[batch.mask[0::2] > 0].mean().abs()) or 1.0
    return [float(x) / mean for x in pushed[:, 1]]


def _by_success(algorithm: Algorithm) -> list[float]:
    """Mean advantage of a success, for each number of successes among the tries of one task."""
    found = []
    for right in range(1, TRIES):
        rows = [_row(4, reward=float(i < right), success=i < right) for i in range(TRIES)]
        batch = collate(rows)
        batch = batch.set(ref_logp=batch.old_logp, values=torch.zeros_like(batch.mask), entropy=batch.mask)
        batch = algorithm.reward(batch)
        found.append(float(ops.token_mean(algorithm.advantages(batch), batch.mask * batch.success[:, None])))
    return found


def _in_pairs(lengths: Sequence[int], advantages: Sequence[float]) -> Batch:
    """Each probed row and its partner: the same length, the other sign, the other place in the pair."""
    rows = []
    for number, (n, a) in enumerate(zip(lengths, advantages)):
        marks = dict(pair=number, group=number, success=a > 0)
        rows += [_row(n, chosen=(a >= 0) == probed, **marks) for probed in (True, False)]
    batch = collate(rows)
    signed = torch.tensor(advantages).repeat_interleave(2) * torch.tensor([1.0, -1.0]).repeat(len(lengths))
    zero = torch.zeros_like(batch.mask)
    return batch.set(ref_logp=batch.old_logp, values=zero, returns=zero, entropy=batch.mask,
                     advantages=ops.per_token(signed, batch.mask))  # fmt: skip


def _row(n: int, reward: float = 0.0, **marks) -> Episode:
    """One prompt token, then n sampled ones in one turn."""
    mask = np.array([0.0] + [1.0] * n, np.float32)
    rewards = np.zeros(n + 1, np.float32)
    rewards[-1] = reward
    turn = mask.astype(np.int64) - 1
    return Episode(np.arange(n + 1), mask, turn, OLD * mask, rewards, infos=[{}], terminated=True, **marks)


def _scores(logp: Tensor) -> Scores:
    return Scores(logp, torch.zeros_like(logp), torch.zeros_like(logp))


@dataclass(frozen=True)
class Contrast:
    """Two algorithms side by side as plain data. note: which of the two builds on the other, if one does."""

    left: Probe
    right: Probe
    settings: dict[str, tuple[object, object]]  # fields that differ; None where a class lacks one
    methods: dict[str, str]  # name → unified diff
    note: str = ""


def contrast(left: Algorithm | type[Algorithm], right: Algorithm | type[Algorithm]) -> Contrast:
    """What differs between two algorithms, classes or made ones. Source lines as in `algorithms.compare`."""
    two = [a() if isinstance(a, type) else a for a in (left, right)]
    name = list(names(two)) if type(two[0]) is not type(two[1]) or two[0] != two[1] else ["", ""]
    mine, other = ({f.name: getattr(a, f.name) for f in fields(a)} for a in two)
    settings = {k: (mine.get(k), other.get(k)) for k in {**mine, **other} if mine.get(k) != other.get(k)}
    methods = compare(type(two[0]), type(two[1])).methods
    return Contrast(probe(two[0], name[0]), probe(two[1], name[1]), settings, methods, _heir(*map(type, two)))


def _heir(left: type, right: type) -> str:
    if left is right or not (issubclass(left, right) or issubclass(right, left)):
        return ""
    child, parent = (left, right) if issubclass(left, right) else (right, left)
    return f"{child.__name__} builds on {parent.__name__}: symbols its formula does not repeat are as there."
