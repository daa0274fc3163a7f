"""Measure a gradient estimator against the exact gradient: by enumeration of all episodes, and by sampling.

An estimator is a function of `Draws` to losses per token, (B, T) or (B, 1), made of the parts of `ops` that
the algorithms use. The laboratory differentiates the loss by the log-probabilities and carries that to the
policy table.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from .exact import exact_gradient, exact_value, softmax_policy
from .mdp import FiniteMDP
from .paths import Paths, enumerate_paths

MOST_GROUPS = 400_000


@dataclass(frozen=True, eq=False)
class Draws:
    """M groups of G episodes, one a row (B = M·G), as an algorithm would see them; all (B, T) but `group`."""

    logp: Tensor  # of the policy whose gradient is wanted; the leaf that losses are differentiated by
    old_logp: Tensor  # of the policy that was sampled from
    ref_logp: Tensor
    rewards: Tensor
    values: Tensor  # the critic's V(s_t)
    weight: Tensor  # γ^t
    mask: Tensor
    group: Tensor  # (B,): episodes of one group have the same first state
    gamma: float

    @property
    def returns(self) -> Tensor:
        """G(τ) = Σ_t γ^t r_t, (B,)."""
        return (self.weight * self.rewards).sum(1)

    def row(self, x: Tensor) -> Tensor:
        """Sum over the tokens of each row, (B, 1): log-probabilities of tokens to that of the whole row."""
        return (x * self.mask).sum(1, keepdim=True)


Loss = Callable[[Draws], Tensor]


@dataclass(frozen=True)
class Estimator:
    """A named loss. target: 'J' (−loss climbs the objective) or 'KL' (loss is a penalty); unbiased: whether
    the mean of its gradient is the exact one, in every world, for group sizes ≥ 2; says: why."""

    name: str
    loss: Loss = field(repr=False)
    unbiased: bool
    says: str
    target: str = "J"
    on_policy: bool = False  # the claim holds where old = θ


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean (P,) and variance (P,) of one group's estimate; exact: the gradient it should have. All ascent
    directions for target 'J', gradients of the penalty for 'KL'."""

    mean: Tensor
    variance: Tensor
    exact: Tensor
    groups: int | None = None  # None: enumerated, nothing was sampled

    @property
    def bias(self) -> Tensor:
        """(P,)."""
        return self.mean - self.exact

    @property
    def standard_error(self) -> Tensor:
        """(P,) of the mean; 0 where enumerated."""
        return torch.zeros_like(self.mean) if self.groups is None else (self.variance / self.groups).sqrt()

    def error_after(self, groups: int) -> float:
        """Root mean square distance of the mean of n groups to the exact gradient: √(|bias|² + tr Σ / n)."""
        return float((self.bias.square().sum() + self.variance.sum() / groups).sqrt())


@dataclass(frozen=True, eq=False)
class Laboratory:
    """A world small enough to enumerate, a policy θ in it, and whoever else an estimator needs.

    logits: θ (rows, A); P = rows·A parameters. rows: (S,) where states share rows. old: logits that are
    sampled from, ref: logits of the reference, critic: values (S,); by default θ, θ and V of `old`.
    """

    mdp: FiniteMDP
    logits: Tensor
    rows: Tensor | None = None
    old: Tensor | None = None
    ref: Tensor | None = None
    critic: Tensor | None = None

    def __post_init__(self):
        if isinstance(self.mdp.gamma, Tensor) or self.mdp.horizon is not None:
            raise ValueError(
                f"a laboratory needs one γ and no horizon, got {self.mdp.gamma} and {self.mdp.horizon}; "
                "hint: clocked(mdp)"
            )

    @cached_property
    def paths(self) -> Paths:
        """Every episode of the world."""
        return enumerate_paths(self.mdp)

    def _policy(self, logits: Tensor | None) -> Tensor:
        return softmax_policy(self.logits if logits is None else logits, self.rows)

    @cached_property
    def score(self) -> Tensor:
        """∇_θ log π(a_t | s_t), (N, T, P): for a softmax table, what was done minus what was expected."""
        paths, policy = self.paths, self._policy(None)
        n, A = self.logits.shape
        row = paths.states if self.rows is None else self.rows[paths.states]
        done = torch.nn.functional.one_hot(paths.actions, A) - policy[paths.states]
        where = torch.nn.functional.one_hot(row, n).double()
        return torch.einsum("ntr,nta->ntra", where, done * paths.mask[..., None]).flatten(2)

    @cached_property
    def _columns(self) -> tuple[Tensor, ...]:
        paths = self.paths
        critic = exact_value(self.mdp, self._policy(self.old)) if self.critic is None else self.critic
        logps = [paths.logp(self._policy(x)) for x in (None, self.old, self.ref)]
        return (*logps, paths.rewards, critic[paths.states] * paths.mask, paths.weight, paths.mask)

    def draws(self, index: Tensor) -> Draws:
        """The paths index (M, G) as rows."""
        M, G = index.shape
        logp, *others = (x[index.flatten()] for x in self._columns)
        group = torch.arange(M).repeat_interleave(G)
        return Draws(logp.detach().requires_grad_(), *others, group, self.mdp.gamma)

    def estimate(self, estimator: Estimator, index: Tensor) -> Tensor:
        """The gradient that each group of paths index (M, G) gives, (M, P)."""
        M, G = index.shape
        draws = self.draws(index)
        by_token = torch.autograd.grad(estimator.loss(draws).sum(), draws.logp)[0]  # (B, T)
        rows = torch.einsum("bt,btp->bp", by_token, self.score[index.flatten()])
        sign = -1 if estimator.target == "J" else 1
        return sign * rows.view(M, G, -1).mean(1)

    def exact(self, target: str = "J") -> Tensor:
        """∇_θ J, or ∇_θ KL(π_θ ‖ π_ref) of whole episodes, (P,)."""
        if target == "J":
            return exact_gradient(self.mdp, self.logits, self.rows).flatten()
        logits = self.logits.detach().requires_grad_()
        return torch.autograd.grad(self.kl(logits), logits)[0].flatten()

    def kl(self, logits: Tensor | None = None) -> Tensor:
        """KL(π_θ ‖ π_ref) = Σ_τ P_θ(τ) [log π_θ(τ) − log π_ref(τ)], a scalar."""
        policy, ref = self._policy(logits), self._policy(self.ref)
        gap = (self.paths.logp(policy) - self.paths.logp(ref)).sum(1)
        return self.paths.probability(policy) @ gap

    @cached_property
    def _given_start(self) -> tuple[Tensor, Tensor]:
        """First states that occur (K,), and P_old(τ | s₀) for each, (K, N)."""
        chance = self.paths.probability(self._policy(self.old))
        first = self.paths.start.unique()
        given = torch.where(self.paths.start == first[:, None], chance, torch.zeros_like(chance))
        return first, given / self.mdp.start[first][:, None]

    def enumerate(self, estimator: Estimator, group: int = 1) -> Moments:
        """Exact mean and variance of the estimate of one group: every group of paths, by its probability."""
        first, given = self._given_start
        index, chance = [], []
        for s, p in zip(first, given):
            paths = (p > 0).nonzero()[:, 0]
            if len(paths) ** group > MOST_GROUPS:
                raise ValueError(
                    f"{len(paths)} paths in groups of {group}: {len(paths) ** group:.2g} groups are too many"
                )
            grid = torch.cartesian_prod(*[paths] * group).view(-1, group)
            index.append(grid)
            chance.append(self.mdp.start[s] * p[grid].prod(1))
        estimates, p = self.estimate(estimator, torch.cat(index)), torch.cat(chance)
        mean = p @ estimates
        return Moments(mean, p @ (estimates - mean).square(), self.exact(estimator.target))

    def sample_paths(self, generator: torch.Generator, groups: int, group: int = 1) -> Tensor:
        """(groups, group) indices of paths; a group shares its first state."""
        first, given = self._given_start
        which = torch.multinomial(self.mdp.start[first], groups, True, generator=generator)
        return torch.multinomial(given[which], group, True, generator=generator)

    def sample(
        self, estimator: Estimator, generator: torch.Generator, groups: int, group: int = 1
    ) -> Moments:
        """Mean and variance over sampled groups."""
        estimates = self.estimate(estimator, self.sample_paths(generator, groups, group))
        return Moments(estimates.mean(0), estimates.var(0), self.exact(estimator.target), groups)

    def error_curve(
        self,
        estimator: Estimator,
        generator: torch.Generator,
        counts: Sequence[int],
        group: int = 1,
        repeats: int = 50,
    ) -> list[dict]:
        """Error against number of groups: {'estimator', 'groups', 'measured', 'predicted'}, one row a count.

        measured: root mean square distance to the exact gradient over `repeats` fresh means; predicted: from
        `enumerate`.
        """
        moments, records = self.enumerate(estimator, group), []
        for n in counts:
            drawn = self.estimate(estimator, self.sample_paths(generator, n * repeats, group)).view(
                repeats, n, -1
            )
            distance = (drawn.mean(1) - moments.exact).square().sum(-1).mean().sqrt()
            records.append({"estimator": estimator.name, "groups": n, "measured": float(distance),
                            "predicted": moments.error_after(n)})  # fmt: skip
        return records
