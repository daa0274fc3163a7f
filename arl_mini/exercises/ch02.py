"""Chapter 02: GAE over a mask, a mean by enumeration, a search, a harmful baseline, a loss with a bug."""

import itertools
import math
import random
from collections.abc import Callable

import torch
from torch import Tensor

from .. import ops
from ..lab.check import Trial, show
from . import Exercise, Wrong, changed, numbers


def _short(x) -> str:
    """Numbers with three digits."""
    return str([round(v, 3) for v in torch.as_tensor(x).tolist()])


def _numbers(trial: Trial, came, n: int) -> Tensor:
    """What came as n finite float64 numbers, or the end of the trial."""
    found = numbers(trial, came, (n,))
    if not bool(found.isfinite().all()):
        trial.fail(show(came), f"Return {n} finite numbers.")
    return found


# --- 02.1 -------------------------------------------------------------------------------------------------


def _by_sum(rewards, values, mask, gamma, lam) -> list[float]:
    """GAE as the double sum it is defined by, over the sampled tokens alone."""
    at = [t for t, m in enumerate(mask) if m]
    ahead = [values[t] for t in at[1:]] + [0.0]
    delta = [rewards[t] + gamma * v_next - values[t] for t, v_next in zip(at, ahead)]
    out = [0.0] * len(mask)
    for k, t in enumerate(at):
        out[t] = sum((gamma * lam) ** j * d for j, d in enumerate(delta[k:]))
    return out


def check_gae(trial: Trial) -> str:
    rng = trial.rng
    for index in range(80):
        T = 1 + index // 10
        mask = [int(index < 20 or rng.random() < 0.6) for _ in range(T)]
        mask[rng.randrange(T)] = 1
        rewards = [round(rng.uniform(-2, 2), 2) * m for m in mask]
        values = [round(rng.uniform(-2, 2), 2) for _ in mask]  # a critic says something at forced tokens, too
        gamma, lam = (rng.choice((0.0, 1.0, round(rng.random(), 2))) for _ in range(2))
        expected = _by_sum(rewards, values, mask, gamma, lam)
        trial.begin(
            f"gae({rewards}, {values}, mask={mask}, gamma={gamma}, lam={lam})", _short(expected),
            "δ_t = r_t + γ V(next) − V_t, A_t = δ_t + γλ A(next); behind the last sampled token both are 0.",
        )  # fmt: skip
        came = _numbers(trial, trial.answer(list(rewards), list(values), list(mask), gamma, lam), T)
        forced = [t for t in range(T) if not mask[t] and abs(float(came[t])) > 1e-9]
        if forced:
            trial.fail(_short(came), f"Nobody chose token {forced[0]}: its advantage is 0.")
        if not torch.allclose(came, torch.tensor(expected, dtype=torch.float64), atol=1e-9):
            gap = "The next state is that before the next *sampled* token: forced ones are no time."
            trial.fail(_short(came), "" if all(mask) else gap)
    return "80 episodes of 1 to 8 tokens, 60 of them with forced tokens, against the double sum"


def gae(rewards: list, values: list, mask: list, gamma: float, lam: float) -> list:
    """Advantages (T,) of one finished episode; 0 at forced tokens."""
    advantages, ahead, after = [0.0] * len(mask), 0.0, 0.0
    for t in reversed(range(len(mask))):
        if mask[t]:
            ahead = rewards[t] + gamma * after - values[t] + gamma * lam * ahead
            after = values[t]
            advantages[t] = ahead
    return advantages


def gae_through_gaps(rewards, values, mask, gamma, lam):
    masked = [v * m for v, m in zip(values, mask)]
    return [a * m for a, m in zip(gae(rewards, masked, [1] * len(mask), gamma, lam), mask)]


# --- 02.2 -------------------------------------------------------------------------------------------------

WEIGHTS: dict[str, Callable[[list], list]] = {
    "no baseline": lambda R: list(R),
    "leave one out": lambda R: [r - (sum(R) - r) / (len(R) - 1) for r in R],
    "group mean": lambda R: [r - sum(R) / len(R) for r in R],
    "the best of the group": lambda R: [r - max(R) for r in R],
}


def _mean_estimate(p: list, R: list, G: int, weights: Callable) -> list[float]:
    """Σ over all groups of their probability × 1/G Σ_i A_i (1[a_i = k] − p_k)."""
    out = [0.0] * len(p)
    for group in itertools.product(range(len(p)), repeat=G):
        chance = math.prod(p[a] for a in group)
        for a, A in zip(group, weights([R[a] for a in group])):
            for k in range(len(p)):
                out[k] += chance * A * ((a == k) - p[k]) / G
    return out


def _simplex(rng: random.Random, n: int) -> list[float]:
    weight = [0.1 + rng.random() for _ in range(n)]
    return [w / sum(weight) for w in weight]


def check_mean_estimate(trial: Trial) -> str:
    rng = trial.rng
    for index in range(40):
        name, weights = list(WEIGHTS.items())[index % len(WEIGHTS)]
        p, R, G = _simplex(rng, 3), [round(rng.uniform(-1, 2), 2) for _ in range(3)], 2 + index // 20
        J = sum(a * b for a, b in zip(p, R))
        exact = [a * (r - J) for a, r in zip(p, R)]  # ∂J/∂θ_k
        trial.begin(
            f"p={_short(p)}, R={R}, G={G}, weights of {name}", _short(_mean_estimate(p, R, G, weights)),
            "Sum over all 3^G groups, each with the product of its probabilities; "
            "∂ log p(a)/∂θ_k = 1[a = k] − p_k.",
        )  # fmt: skip
        came = _numbers(trial, trial.answer(list(p), list(R), G, weights), 3)
        off = (came - torch.tensor(_mean_estimate(p, R, G, weights), dtype=torch.float64)).abs().max()
        if float(off) > 1e-9:
            told = f"{_short(came)}; the exact gradient is {_short(exact)}"
            trial.fail(told)
    return "40 worlds of 3 tokens, groups of 2 and 3, four kinds of weights; leave one out hit ∇J"


def mean_estimate(p: list, R: list, G: int, weights) -> list:
    """The mean (3,) of 1/G Σ_i A_i ∇_θ log p(a_i) over all groups of G tries, A = weights(their rewards)."""
    mean = [0.0] * len(p)
    for group in itertools.product(range(len(p)), repeat=G):
        chance = math.prod(p[a] for a in group)
        for a, A in zip(group, weights([R[a] for a in group])):
            mean = [m + chance * A / G * ((k == a) - p[k]) for k, m in enumerate(mean)]
    return mean


# --- 02.3 -------------------------------------------------------------------------------------------------


class _Judge:
    """Says whether the first k lines can still end well, and counts how often it is asked."""

    def __init__(self, n: int, first: int):
        self.n, self.first, self.calls = n, first, 0

    def __call__(self, k: int) -> bool:
        if not isinstance(k, int) or not 0 <= k <= self.n:
            raise ValueError(f"asked about the first {k!r} of {self.n} lines")
        self.calls += 1
        return k <= self.first


def check_first_wrong(trial: Trial) -> str:
    rng = trial.rng
    cases = [(n, first) for n in range(1, 9) for first in range(n + 1)]
    cases += [(n, rng.randint(0, n)) for n in (20, 64, 100, 1000, 4096) for _ in range(4)]
    for n, first in cases:
        judge, most = _Judge(n, first), math.ceil(math.log2(n + 1))
        where = "no line is wrong" if first == n else f"line {first} is the first wrong one"
        trial.begin(
            f"first_wrong({n}, can_end_well), where {where}", f"{first}, after at most {most} questions",
            "Lines before it are right, so the first `answer` lines can end well and one more cannot.",
        )  # fmt: skip
        came = trial.answer(n, judge)
        if isinstance(came, bool) or not isinstance(came, int) or came != first:
            trial.fail(show(came))
        if judge.calls > most:
            trial.fail(f"{came} after {judge.calls} questions", "Every question should halve what is left.")
    return f"{len(cases)} programs of 1 to 4,096 lines, never more than log₂(n + 1) questions"


def first_wrong(n: int, can_end_well) -> int:
    """Number of the first wrong line, counted from 0; n where none is. can_end_well(k): the first k lines."""
    low, high = 0, n
    while low < high:
        middle = (low + high + 1) // 2
        if can_end_well(middle):
            low = middle
        else:
            high = middle - 1
    return low


def first_wrong_one_by_one(n, can_end_well):
    return next((k for k in range(n) if not can_end_well(k + 1)), n)


# --- 02.4 -------------------------------------------------------------------------------------------------


def check_bad_baseline(trial: Trial) -> str:
    rng = trial.rng
    for index in range(60):
        n = 2 + index // 20
        p, R = _simplex(rng, n), [round(rng.uniform(0, 0.5), 2) for _ in range(n)]
        R[rng.randrange(n)] = 0.5
        R[R.index(0.5) - 1] = 0.1  # no world in which all is equal
        trial.begin(
            f"bad_baseline(p={_short(p)}, R={R})",
            f"{n} numbers between 0 and 1 whose mean estimate points downhill",
            "Σ_a p(a) (R(a) − b(a)) ∇ log p(a) must point against ∇J: take most from the best action.",
        )  # fmt: skip
        b = _numbers(trial, trial.answer(list(p), list(R)), n)
        if bool(((b < -1e-9) | (b > 1 + 1e-9)).any()):
            trial.fail(_short(b), "All between 0 and 1, as rewards are.")
        P, reward = torch.tensor(p, dtype=torch.float64), torch.tensor(R, dtype=torch.float64)
        exact, found = (P * (x - P @ x) for x in (reward, reward - b))
        if bool((b == b[0]).all()):
            same = f"{_short(b)}, the same for every action"
            trial.fail(same, "One that ignores the action cannot hurt the mean.")
        cosine = float(torch.cosine_similarity(exact, found, dim=0))
        if cosine > -1e-6:
            trial.fail(f"{_short(b)}: cosine of estimate and gradient {cosine:.3f}")
    return "60 worlds of 2 to 4 actions, rewards from 0 to 0.5: training would go downhill in each"


def bad_baseline(p: list, R: list) -> list:
    """A baseline (n,) that knows the action, between 0 and 1, with which the mean estimate is −∇J."""
    return [2 * r for r in R]


# --- 02.5 -------------------------------------------------------------------------------------------------


def _loss_batch(rng: random.Random) -> tuple[Tensor, ...]:
    """logp (a leaf), old_logp, advantages, mask: (B, T) each."""
    B, T = rng.randint(1, 4), rng.randint(2, 6)

    def table(low: float, high: float) -> Tensor:
        rows = [[rng.uniform(low, high) for _ in range(T)] for _ in range(B)]
        return torch.tensor(rows, dtype=torch.float64)

    mask = (table(0, 1) < 0.7).double()
    mask[0, 0] = 1.0
    old = table(-3, -0.1)
    return (old + table(-0.6, 0.6)).requires_grad_(), old, table(-2, 2), mask


def _slope(logp: Tensor, old: Tensor, adv: Tensor, mask: Tensor) -> Tensor:
    """∂L/∂logp of PPO token by token, from Eq. (13): none where the ratio left the band on A's side."""
    out, n = torch.zeros_like(logp), float(mask.sum())
    for i, t in itertools.product(*map(range, logp.shape)):
        ratio, A = math.exp(float(logp[i, t] - old[i, t])), float(adv[i, t])
        if mask[i, t] and not (ratio > 1.2 if A > 0 else ratio < 0.8):
            out[i, t] = -A * ratio / n
    return out


def check_ppo_loss(trial: Trial) -> str:
    for _ in range(40):
        logp, old, adv, mask = _loss_batch(trial.rng)
        told = f"{int(mask.sum())} sampled of {mask.numel()} tokens, each at most 0.6 nats off the old one"
        trial.begin(told, "a scalar tensor that depends on logp", "Return a torch scalar; do not detach.")
        loss = trial.answer(logp, old.clone(), adv.clone(), mask.clone())
        if not isinstance(loss, Tensor) or loss.ndim or not loss.requires_grad:
            trial.fail(f"{type(loss).__name__} {show(loss)}")
        (came,) = torch.autograd.grad(loss, logp, allow_unused=True)
        came = torch.zeros_like(logp) if came is None else came
        _compare(trial, came, _slope(logp.detach(), old, adv, mask), (logp.detach() - old).exp(), adv, mask)
    return "40 random batches, the gradient at every token against a plain loop over Eq. (13)"


def _compare(trial: Trial, came: Tensor, expected: Tensor, ratio: Tensor, adv: Tensor, mask: Tensor) -> None:
    off = ((came - expected).abs() > 1e-9).nonzero().tolist()
    if not off:
        return
    forced = [place for place in off if mask[tuple(place)] == 0]
    i, t = (forced or off)[0]
    got, want = float(came[i, t]), float(expected[i, t])
    hint = "Each sampled token weighs 1/Σ mask, its gradient is −A · ratio."
    if forced:
        hint = "Nobody sampled this token: the mask takes it out of the sum."
    elif want == 0:
        hint = "The ratio left the band on the side that A asks for: there the pessimistic bound stops."
    elif got == 0:
        hint = "Out of the band on the wrong side: the pessimistic bound still pulls the ratio back."
    trial.fail(
        f"gradient {got:.4f} at row {i}, token {t}", hint,
        f"gradient {want:.4f} there: the ratio is {float(ratio[i, t]):.2f}, A is {float(adv[i, t]):.2f}",
    )  # fmt: skip


def ppo_loss(logp: Tensor, old_logp: Tensor, adv: Tensor, mask: Tensor) -> Tensor:
    """PPO's clipped surrogate with ε = 0.2, mean over sampled tokens, to be minimised. All (B, T)."""
    ratio = ops.ratio(logp, old_logp)
    loss = torch.maximum(-adv * ratio, -adv * ratio.clamp(0.8, 1.2))
    return ops.token_mean(loss, mask)


# fmt: off
EXERCISES = (
    Exercise(
        "02.1", "gae(rewards, values, mask, gamma, lam): advantages over the sampled tokens of one episode.",
        check_gae, gae,
        (
            Wrong(changed(gae, "if mask[t]:", "if True:"),
                  "takes forced tokens for time", "Nobody chose token"),
            Wrong(changed(gae, "after = values[t]", "after = values[t + 1] if t + 1 < len(mask) else 0.0"),
                  "looks up the value of the wrong state", "δ_t"),
            Wrong(changed(gae, "len(mask), 0.0, 0.0", "len(mask), 0.0, values[-1]"),
                  "expects more after the end", "behind the last sampled token"),
            Wrong(changed(gae, "gamma * lam * ahead", "gamma * ahead"), "forgets λ", "A_t = δ_t"),
            Wrong(gae_through_gaps, "takes a gap for a state of value 0", "forced ones are no time"),
        ),
    ),
    Exercise(
        "02.2", "mean_estimate(p, R, G, weights): the mean of the estimate over all groups of G tries.",
        check_mean_estimate, mean_estimate,
        (
            Wrong(changed(mean_estimate, "chance = math.prod(p[a] for a in group)", "chance = len(p) ** -G"),
                  "takes all groups for equally likely", "product of its probabilities"),
            Wrong(changed(mean_estimate, "product(range(len(p)), repeat=G)", "combinations(range(3), G)"),
                  "leaves out groups in which a token comes twice", "Sum over all"),
            Wrong(changed(mean_estimate, "((k == a) - p[k])", "(k == a)"),
                  "forgets that the softmax shifts all", "1[a = k]"),
            Wrong(changed(mean_estimate, "A / G *", "A *"), "adds the tries up", "exact gradient"),
        ),
    ),
    Exercise(
        "02.3", "first_wrong(n, can_end_well): the first wrong line, in at most log₂(n + 1) questions.",
        check_first_wrong, first_wrong,
        (
            Wrong(first_wrong_one_by_one, "asks line by line", "halve what is left"),
            Wrong(changed(first_wrong, "low, high = 0, n", "low, high = 0, n - 1"),
                  "never finds that all is right", "no line is wrong"),
            Wrong(changed(first_wrong, "return low", "return low + 1"),
                  "counts from 1", "Lines before it are right"),
            Wrong(changed(first_wrong, "low = middle", "low = middle + 1"),
                  "passes over a line that it has not asked about", "Lines before it are right"),
        ),
    ),
    Exercise(
        "02.4", "bad_baseline(p, R): a baseline that knows the action, with which training goes downhill.",
        check_bad_baseline, bad_baseline,
        (
            Wrong(lambda p, R: [sum(a * b for a, b in zip(p, R))] * len(R),
                  "takes the mean reward, which is harmless", "cannot hurt the mean"),
            Wrong(lambda p, R: list(R), "takes all reward away: no gradient is left", "cosine"),
            Wrong(lambda p, R: [1 - r for r in R],
                  "takes least from the best action", "take most from the best"),
            Wrong(lambda p, R: [20 * r for r in R], "is no number between 0 and 1", "between 0 and 1"),
        ),
    ),
    Exercise(
        "02.5", "ppo_loss(logp, old_logp, adv, mask): PPO's clipped surrogate, without its bug.",
        check_ppo_loss, ppo_loss,
        (
            Wrong(changed(ppo_loss, "torch.maximum", "torch.minimum"),
                  "takes the optimistic bound", "pessimistic"),
            Wrong(changed(ppo_loss, "torch.maximum(-adv * ratio, ", "torch.clone("),
                  "clips on both sides", "pulls the ratio back"),
            Wrong(changed(ppo_loss, "ops.token_mean(loss, mask)", "loss.mean()"), "forgets the mask", "mask"),
            Wrong(changed(ppo_loss, "token_mean", "sequence_mean"),
                  "weighs rows instead of tokens", "1/Σ mask"),
            Wrong(changed(ppo_loss, "(logp, old_logp)\n", "(old_logp, logp)\n"),
                  "turns the ratio over", "gradient"),
        ),
    ),
)
