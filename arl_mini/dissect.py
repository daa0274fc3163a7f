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
        critic: value head of the first policy (`run.critic`). None: V = 0, which is what a new head says, unless
            the episodes carry measured values.

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
        the algorithm pays it), advantage, push −∂L/∂ℓ, share (100 · push / Σ|push|, in %), clipped (0 or 1): of
        `algorithm` under `policy`; rows that its `keep` drops have none of these. A column that nobody can tell
        is left out. Raises KeyError for an unknown name, ValueError where the algorithm cannot be applied.
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
        """A copy with another token or another reward at one place; the world's replies stay as they were.

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
        return {"reward": batch.rewards} | {k: empty.index_copy(0, kept, x.detach()) for k, x in known.items()}

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
