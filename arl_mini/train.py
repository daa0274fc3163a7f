"""The training loop: an iterator that yields one record a step.

`for record in train(policy, env, GRPO(), steps=40): …` Whoever iterates decides to plot, evaluate, pause, fork or stop.
"""

import time
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import numpy as np
import torch

from . import ops
from .algorithms.base import Algorithm, Sampler
from .batch import Batch, Episode, collate, joined
from .envs.base import Env
from .files import write_whole
from .models.heads import ValueHead
from .models.score import score
from .models.tokenizer import fingerprint
from .rollout import Limits, Row, Sampling, branch, demonstrate, rewind, rollout, run, start

CHANGEABLE = ("lr", "temperature", "tries", "prompts", "epochs", "minibatches", "max_grad_norm")  # of Settings, in mid-run


@dataclass
class Record:
    """One step of training, as plain numbers. Means over the step's episodes unless said otherwise."""

    step: int  # 1 for the first
    reward: float  # what the world paid
    success: float  # share of episodes that succeeded
    loss: float  # mean over the step's minibatches
    kl: float  # k3 estimate to the reference policy a token, nats; to the policy that sampled where no reference
    entropy: float  # nats a sampled token
    clip_share: float  # share of sampled tokens whose gradient the clip cut
    signal_share: float  # share of groups whose rewards differ: the others teach a group method nothing
    grad_norm: float  # before clipping, mean over minibatches
    tokens: int  # sampled
    positions: int  # all, prompts and observations included
    turns: float  # a episode
    malformed: float  # share of turns without a well-formed action
    seconds: dict[str, float]  # rollout, score, update
    episodes: list[Episode] = field(default_factory=list, repr=False)

    def numbers(self) -> dict[str, float]:
        """Everything but the episodes, flat, for a table or a file."""
        plain = {k: v for k, v in vars(self).items() if k not in ("episodes", "seconds")}
        return plain | {f"seconds_{k}": v for k, v in self.seconds.items()}


@dataclass(frozen=True)
class Settings:
    """What a run needs to know besides policy, world and algorithm."""

    steps: int = 40
    prompts: int = 16  # tasks a step
    tries: int = 8  # episodes of each task
    lr: float = 1e-3
    epochs: int = 1  # passes over the step's episodes
    minibatches: int = 1  # updates a pass
    micro: int = 0  # rows a forward pass (0: all); the gradient does not depend on it
    max_grad_norm: float = 1.0
    temperature: float = 1.0
    limits: Limits = Limits()
    seed: int = 0
    tasks: tuple[int, ...] = ()  # seeds of the training tasks; () draws from all seeds below 2³⁰

    def __post_init__(self):
        for name in ("steps", "prompts", "tries", "epochs", "minibatches"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.temperature <= 0:
            raise ValueError(f"temperature must be positive to learn from samples, got {self.temperature}")


def train(policy, env: Env, algorithm: Algorithm, *, ref=None, **settings) -> "Run":
    """A run to iterate over; `settings` are the fields of `Settings` (an unknown one is an error).

    ref: the reference policy; where the algorithm needs one and none is given, a copy of the policy as it is now.
    """
    return Run(policy, env, algorithm, Settings(**settings), ref)


class Run(Iterator[Record]):
    """A training run under way: iterate to step it, `save`/`load` to stop and go on later.

    Everything random depends on (seed, step) alone, so a run resumed from a saved state yields the same records.
    """

    def __init__(self, policy, env: Env, algorithm: Algorithm, settings: Settings, ref=None):
        self.policy, self.env, self.algorithm, self.settings = policy, env, algorithm, settings
        self.ref = policy.copy() if ref is None and algorithm.needs_ref else ref
        self.critic = ValueHead(policy.width).to(policy.device) if algorithm.needs_critic else None
        trained = [p for m in (policy, self.critic) if m is not None for p in m.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(trained, lr=settings.lr, weight_decay=0.0)
        self.step, self.memory = 0, {}

    def __next__(self) -> Record:
        if self.step >= self.settings.steps:
            raise StopIteration
        clock = _Clock()
        episodes = self.algorithm.plan(self._sampler())
        clock.lap("rollout")
        batch, signal = self._prepare(episodes)
        clock.lap("score")
        updates = [self._update(batch.rows(rows)) for rows in self._minibatches(batch)]
        clock.lap("update")
        self.step += 1
        return self._record(episodes, updates, signal, clock.laps)

    def __length_hint__(self) -> int:
        return self.settings.steps - self.step

    def _sampler(self) -> Sampler:
        s, means = self.settings, _Means(self)
        return Sampler(
            s.prompts, s.tries, means.fresh, means.rollout, self.memory,
            means.branch, self._logratio, means.demonstrate, means.retry, means.rng, means.fork,
            s.tasks, self._reset, self._entropy,
        )  # fmt: skip

    def _reset(self) -> None:
        """The reference becomes the policy as it is now; the optimizer forgets its moments."""
        self.ref = self.policy.copy()
        self.optimizer.state.clear()

    @torch.no_grad()
    def _entropy(self, episodes: Sequence[Episode]) -> torch.Tensor:
        """Nats at each sampled token under the policy as it is now, (B, T)."""
        return score(self.policy, collate(episodes, self.policy.device)).entropy

    @torch.no_grad()
    def _logratio(self, episodes: Sequence[Episode]) -> torch.Tensor:
        """Σ_t m (ℓ − ℓ_ref) of each episode under the policy as it is now, (B,)."""
        batch = collate(episodes, self.policy.device)
        return ops.row_sum(score(self.policy, batch).logp - score(self.ref, batch).logp, batch.mask)

    def _prepare(self, episodes: list[Episode]) -> tuple[Batch, float]:
        """Episodes to a batch with all columns, and the share of groups with signal before `keep`."""
        batch = collate(episodes, self.policy.device).set(step=self.step)
        with torch.no_grad():
            if self.algorithm.needs_entropy or not bool(batch.own.all()):
                now = score(self.policy, batch)
                old_logp = torch.where(batch.own[:, None], batch.old_logp, now.logp)
                batch = batch.set(old_logp=old_logp, entropy=now.entropy)
            if self.ref is not None:
                batch = batch.set(ref_logp=score(self.ref, batch).logp)
            if self.critic is not None:
                batch = batch.set(values=score(self.policy, batch, self.critic).values)
            batch = self.algorithm.reward(batch)
            fresh = batch.own & torch.tensor([not e.past for e in episodes], device=batch.own.device)
            contrast = ops.group_signal(batch.reward, batch.group)[fresh]
            signal = float(contrast[_firsts(batch.group[fresh])].float().mean())
            kept = self.algorithm.keep(batch)
            if not bool(kept.any()):
                raise ValueError(f"{type(self.algorithm).__name__}.keep left none of {len(batch)} rows to train on")
            batch = batch.rows(kept)
            if self.critic is not None:
                batch = batch.set(returns=self.algorithm.returns(batch))
            return batch.set(advantages=self.algorithm.advantages(batch)), signal

    def _minibatches(self, batch: Batch) -> Iterator[torch.Tensor]:
        """Row indices of each update: everything in order once, or shuffled parts; the rows of a pair stay together."""
        s = self.settings
        rng = np.random.default_rng([s.seed, self.step, 2**31])
        pair = batch.pair.cpu().numpy()
        alone = np.arange(len(batch)) + pair.max() + 1
        _, unit = np.unique(np.where(pair < 0, alone, pair), return_inverse=True)
        units = int(unit.max()) + 1
        for _ in range(s.epochs):
            order = rng.permutation(units) if s.minibatches > 1 else np.arange(units)
            for part in np.array_split(order, min(s.minibatches, units)):
                rows = np.concatenate([np.flatnonzero(unit == u) for u in part])
                yield torch.from_numpy(rows).to(self.policy.device)

    def _update(self, batch: Batch) -> dict[str, float]:
        """One optimizer step; the numbers it saw."""
        self.optimizer.zero_grad(set_to_none=True)
        numbers = backward(self.policy, self.algorithm, batch, self.settings.micro, self.critic)
        if not np.isfinite(numbers["loss"]):
            raise FloatingPointError(f"loss is {numbers['loss']} at step {self.step}; hint: lower lr or clip rewards")
        if self.step < self.algorithm.critic_steps:
            self.policy.zero_grad(set_to_none=True)
        parameters = self.optimizer.param_groups[0]["params"]
        norm = torch.nn.utils.clip_grad_norm_(parameters, self.settings.max_grad_norm)
        if not bool(norm.isfinite()):
            raise FloatingPointError(f"the gradient is not finite at step {self.step}; hint: a loss with √0 or log 0?")
        self.optimizer.step()
        return numbers | {"grad_norm": float(norm)}

    def _record(self, episodes, updates, signal, seconds) -> Record:
        episodes = [e for e in episodes if e.own and not e.past]
        infos = [info for e in episodes for info in e.infos]
        mean = {k: float(np.mean([u[k] for u in updates])) for k in updates[0]}
        return Record(
            step=self.step,
            reward=float(np.mean([e.reward for e in episodes])),
            success=float(np.mean([e.success for e in episodes])),
            signal_share=signal,
            tokens=int(sum(e.mask.sum() for e in episodes)),
            positions=sum(len(e) for e in episodes),
            turns=float(np.mean([e.turns for e in episodes])),
            malformed=float(np.mean([bool(i.get("malformed")) for i in infos])) if infos else 0.0,
            seconds=seconds,
            episodes=episodes,
            **mean,
        )

    def state_dict(self) -> dict:
        """All that the next record depends on, as plain data and tensors."""
        return {
            "step": self.step,
            "policy": self.policy.state_dict(),
            "ref": None if self.ref is None else self.ref.state_dict(),
            "critic": None if self.critic is None else self.critic.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "memory": self.memory,
            "made_with": self._identity(),
        }

    def _identity(self) -> dict[str, str]:
        """What a saved state must share with the run that loads it."""
        return {
            "tokenizer": fingerprint(self.policy.tokenizer), "algorithm": repr(self.algorithm), "world": type(self.env).__name__,
            **{k: repr(getattr(self.settings, k)) for k in ("seed", "limits", "tasks")},
        }  # fmt: skip

    def load_state_dict(self, state: dict) -> None:
        """Goes on from `state_dict()`; one of another tokenizer, algorithm, world, seed, limits or tasks is an error."""
        for name, mine in self._identity().items():
            if state["made_with"][name] != mine:
                raise ValueError(f"this state was saved with {name} {state['made_with'][name]!r}; this run has {mine!r}")
        self.policy.load_state_dict(state["policy"])
        if state["ref"] is not None:
            self.ref = self.ref or self.policy.copy()
            self.ref.load_state_dict(state["ref"])
        if state["critic"] is not None:
            self.critic.load_state_dict(state["critic"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.memory = state["step"], state["memory"]

    def changeable(self) -> dict[str, float]:
        """The numbers that `change` takes, as they are now: of the settings, and the algorithm's own."""
        own = {f.name: getattr(self.algorithm, f.name) for f in fields(self.algorithm)}
        return {k: v for k, v in own.items() if type(v) in (int, float)} | {k: getattr(self.settings, k) for k in CHANGEABLE}

    def change(self, **numbers: float) -> None:
        """Other numbers from the next step on. A reference that only they need is a copy of the policy as it is now."""
        if unknown := [name for name in numbers if name not in self.changeable()]:
            raise ValueError(f"{unknown[0]!r} cannot change in mid-run; these can: {', '.join(self.changeable())}")
        settings = replace(self.settings, **{k: v for k, v in numbers.items() if k in CHANGEABLE})
        algorithm = replace(self.algorithm, **{k: v for k, v in numbers.items() if k not in CHANGEABLE})
        self.settings, self.algorithm = settings, algorithm
        if self.ref is None and self.algorithm.needs_ref:
            self.ref = self.policy.copy()
        if "lr" in numbers:
            self.optimizer.param_groups[0]["lr"] = settings.lr

    def snapshot(self) -> dict:
        """All that the next record depends on, settings too, for `restore`; further training leaves it as it is."""
        return {"run": deepcopy(self.state_dict()), "settings": self.settings, "algorithm": self.algorithm}

    def restore(self, state: dict) -> None:
        """Back to what `snapshot` returned; the records from there on come again, bit for bit."""
        ref = None if state["run"]["ref"] is None else self.ref
        self.settings, self.algorithm, self.ref = state["settings"], state["algorithm"], ref
        self.load_state_dict(deepcopy(state["run"]))  # a copy: the optimizer goes on with the tensors it is given

    def save(self, path: str | Path) -> None:
        """Writes the state to a file, whole or not at all."""
        write_whole(path, lambda file: torch.save(self.state_dict(), file))

    def load(self, path: str | Path) -> "Run":
        """Goes on from a file that `save` wrote; returns itself."""
        try:
            state = torch.load(path, map_location=self.policy.device, weights_only=True)
        except FileNotFoundError:
            raise
        except Exception as error:
            raise ValueError(f"{path} is no saved run (or a damaged one): {(str(error) or repr(error)).splitlines()[0]}") from error
        if not isinstance(state, dict) or "made_with" not in state:
            raise ValueError(f"{path} holds no run state; hint: it must come from Run.save")
        self.load_state_dict(state)
        return self


class _Means:
    """Fresh tasks and episodes for one step; every call gets random numbers of its own."""

    def __init__(self, run: Run):
        self.run, self.calls, self.asked = run, 0, set()
        self.rng = np.random.default_rng([run.settings.seed, run.step, 0])
        self.how = dict(sampling=Sampling(run.settings.temperature), limits=run.settings.limits)

    def _seed(self) -> int:
        self.calls += 1
        return int(np.random.default_rng([self.run.settings.seed, self.run.step, self.calls]).integers(2**62))

    def _own(self, episodes: list[Episode]) -> list[Episode]:
        """Groups that no other call has."""
        return [replace(e, group=e.group + self.calls * 1_000_000) for e in episodes]

    def fresh(self, n: int) -> list[int]:
        tasks = self.run.settings.tasks
        pool = [t for t in tasks if t not in self.asked] or list(tasks)
        seeds = self.rng.choice(pool, n, replace=n > len(pool)) if tasks else self.rng.integers(2**30, size=n)
        self.asked.update(seeds.tolist())
        return seeds.tolist()

    def rollout(self, seeds: Sequence[int], tries: int) -> list[Episode]:
        return self._own(rollout(self.run.policy, self.run.env, seeds, tries, seed=self._seed(), **self.how))

    def branch(self, episodes: Sequence[Episode], turns: Sequence[int], tries: int) -> list[Episode]:
        seed = self._seed()
        back = [(i, k) for i in range(len(episodes)) for k in range(tries)]
        heard = self.run.policy.format.heard
        rows = [rewind(self.run.env, replace(episodes[i], group=i), turns[i], heard) for i, _ in back]
        return self._own(run(self.run.policy, rows, [(seed, i, k) for i, k in back], **self.how))

    def fork(self, episodes: Sequence[Episode], positions: Sequence[int], tries: int) -> list[Episode]:
        seed = self._seed()
        return self._own(branch(self.run.policy, self.run.env, episodes, positions, tries, seed=seed, **self.how))

    def demonstrate(self, seeds: Sequence[int]) -> list[Episode]:
        self._seed()
        s = self.run.settings
        shown = demonstrate(self.run.policy, self.run.env, seeds, lambda env: env.expert(), s.limits.turns)
        return self._own([replace(e, expert=True, temperature=s.temperature) for e in shown])

    def retry(self, episodes: Sequence[Episode]) -> list[Episode]:
        seed = self._seed()
        anew = [(e, start(self.run.policy, self.run.env, e.seed)) for e in episodes]
        rows = [Row(row.env, joined(e, row.episode)) for e, row in anew]
        return run(self.run.policy, rows, [(seed, i) for i in range(len(rows))], **self.how) if rows else []


def backward(policy, algorithm: Algorithm, batch: Batch, micro: int = 0, critic=None) -> dict[str, float]:
    """Adds the gradient of the algorithm's loss on a batch to the parameters; returns loss and diagnostics.

    With micro > 0, `micro` rows at a time go through the model, and the gradient is still that of the whole batch:
    the loss is differentiated with respect to the scores first, then each part is passed through again with its
    share of that gradient. So no loss needs to know how it was split.
    """
    if micro <= 0 or micro >= len(batch):
        scores = score(policy, batch, critic)
        loss = algorithm.loss(scores, batch)
        loss.backward()
        return _diagnose(algorithm, scores, batch, loss)
    parts = torch.arange(len(batch), device=batch.tokens.device).split(micro)
    with torch.no_grad():
        pieces = [score(policy, batch.rows(part), critic) for part in parts]
    scores = type(pieces[0])(
        *(None if x[0] is None else torch.cat(x) for x in zip(*(vars(p).values() for p in pieces)))
    )
    scores.logp.requires_grad_()
    if critic is not None:
        scores.values.requires_grad_()
    loss = algorithm.loss(scores, batch)
    loss.backward()
    for part in parts:
        again = score(policy, batch.rows(part), critic)
        outputs = [(again.logp, scores.logp.grad[part])]
        if critic is not None and scores.values.grad is not None:
            outputs.append((again.values, scores.values.grad[part]))
        torch.autograd.backward(*zip(*outputs))
    return _diagnose(algorithm, scores, batch, loss)


@torch.no_grad()
def _diagnose(algorithm: Algorithm, scores, batch: Batch, loss) -> dict[str, float]:
    anchor = batch.old_logp if batch.ref_logp is None else batch.ref_logp
    mask = batch.mask * batch.own[:, None]
    return {
        "loss": float(loss.detach()),
        "kl": float(ops.token_mean(ops.kl_k3(scores.logp, anchor), mask)),
        "entropy": float(ops.token_mean(scores.entropy, mask)),
        "clip_share": float(ops.token_mean(algorithm.clipped(scores, batch).float(), mask)),
    }


def _firsts(group: torch.Tensor) -> torch.Tensor:
    """Index of one row of each group."""
    _, index = torch.unique(group, return_inverse=True)
    n = int(index.max()) + 1
    return torch.zeros(n, dtype=torch.long, device=group.device).scatter(0, index, torch.arange(len(group)).to(group))


class _Clock:
    """Wall seconds between laps."""

    def __init__(self):
        self.laps, self._last = {}, time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name], self._last = now - self._last, now
