"""One test for each formula of the chapters: the function against the formula written out in loops.

Named in `arl_mini.formal.equations`; a test here that no equation names is an orphan (see test_registry.py).
"""

import itertools
import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from arl_mini import ops
from arl_mini.formal import (
    Utterances,
    belief_update,
    exact_gradient,
    exact_value,
    objective,
    q_learning,
    random_pomdp,
    shape,
    softmax_policy,
    theorem_gradient,
    turn_policy,
    walk,
)
from tests.formal.worlds import (
    CHECKED,
    close,
    distribution,
    draws,
    gammas,
    generator,
    mdps,
    numbers,
    seeds,
)


@CHECKED
@given(mdps(st.none()), seeds)
def test_bellman(mdp, seed):
    policy = distribution(seed, *mdp.R.shape)
    values = exact_value(mdp, policy)
    for s in range(len(mdp.states)):
        ahead = sum(
            policy[s, a] * (mdp.R[s, a] + mdp.gamma * mdp.P[s, a] @ values) for a in range(len(mdp.actions))
        )
        assert close(values[s], ahead)


@CHECKED
@given(mdps(), seeds)
def test_policy_gradient_theorem(mdp, seed):
    logits = numbers(seed, *mdp.R.shape)
    theta = logits.clone().requires_grad_()
    by_autograd = torch.autograd.grad(objective(mdp, softmax_policy(theta)), theta)[0]
    assert close(theorem_gradient(mdp, logits), by_autograd)


@CHECKED
@given(seeds)
def test_belief_update(seed):
    pomdp = random_pomdp(generator(seed), 3, 2, 2)
    belief = torch.cat([distribution(seed, 3), torch.zeros(1)])
    for a, o in itertools.product(range(2), range(2)):
        joint = [sum(belief[s] * pomdp.mdp.P[s, a, t] for s in range(3)) * pomdp.O[a, t, o] for t in range(3)]
        assert close(belief_update(pomdp, belief, a, o)[:3], torch.stack(joint) / sum(joint))


def test_q_learning():
    """One step by hand: Q ← Q + α (r + γ max Q' − Q) with Q = 0 at first, so Q = α r at the pair that was
    tried."""
    mdp = walk(1, 1, small=3.0, large=5.0)
    q = next(q_learning(mdp, generator(0), rate=lambda n: 0.5, explore=0.0))
    assert q.tolist() == [[1.5, 0.0], [0.0, 0.0]]
    run = q_learning(mdp, generator(0), rate=lambda n: 0.5, explore=0.0)
    assert [float(next(run)[0, 0]) for _ in range(3)] == [1.5, 2.25, 2.625]


@CHECKED
@given(mdps(st.none()), seeds)
def test_potential_shaping(mdp, seed):
    phi = numbers(seed, len(mdp.states)) * ~mdp.terminal
    shaped = shape(mdp, phi)
    for s, a in itertools.product(range(len(mdp.states) - 1), range(len(mdp.actions))):
        assert close(shaped.R[s, a], mdp.R[s, a] + mdp.gamma * (mdp.P[s, a] @ phi) - phi[s])
    logits = numbers(seed + 1, *mdp.R.shape)
    assert close(exact_gradient(shaped, logits), exact_gradient(mdp, logits))


@given(seeds, st.integers(1, 3))
def test_turn_policy(seed, length):
    said = Utterances(("a", "b", "<end>"), ("<end>",), length)
    tokens = softmax_policy(numbers(seed, 2 * len(said.prefixes), 3))
    found = turn_policy(tokens, said)
    for s, (y, utterance) in itertools.product(range(2), enumerate(said.complete)):
        p = 1.0
        for j, token in enumerate(utterance):
            p *= float(tokens[s * len(said.prefixes) + said.prefixes.index(utterance[:j]), token])
        assert close(found[s, y], p)


@given(seeds, gammas, st.floats(0, 1))
def test_gae(seed, gamma, lam):
    """The sum of discounted TD errors over the sampled tokens of a row, forced tokens skipped."""
    B, T = 3, 5
    mask = (numbers(seed, B, T) > -0.5).double()
    rewards, values = numbers(seed + 1, B, T) * mask, numbers(seed + 2, B, T)
    found = ops.gae(rewards, values, mask, gamma, lam)
    for i in range(B):
        at = mask[i].nonzero()[:, 0].tolist()
        nexts = [*values[i, at[1:]].tolist(), 0.0]
        delta = [float(rewards[i, t]) + gamma * v - float(values[i, t]) for t, v in zip(at, nexts)]
        by_hand = torch.zeros(T).double()
        for k, t in enumerate(at):
            by_hand[t] = sum((gamma * lam) ** (j - k) * delta[j] for j in range(k, len(at)))
        assert close(found[i], by_hand)


@given(seeds, st.integers(2, 5))
def test_leave_one_out(seed, tries):
    r = numbers(seed, 2 * tries)
    group = torch.arange(2 * tries) % 2
    found = ops.group_leave_one_out(r, group)
    for i in range(2 * tries):
        others = [r[j] for j in range(2 * tries) if j != i and j % 2 == i % 2]
        assert close(found[i], r[i] - sum(others) / (tries - 1))


@given(st.floats(-3, 0), st.floats(-3, 0))
def test_kl_estimators(logp, ref):
    x = logp - ref
    pair = torch.tensor([logp], dtype=torch.float64), torch.tensor([ref], dtype=torch.float64)
    found = [float(k(*pair)) for k in (ops.kl_k1, ops.kl_k2, ops.kl_k3)]
    for a, b in zip(found, (x, x * x / 2, math.exp(-x) + x - 1)):
        assert math.isclose(a, b, abs_tol=1e-12)


@given(seeds)
def test_sequence_ratio(seed):
    d = draws(seed, 2, 2, 3)
    found = ops.sequence_ratio(d.logp, d.old_logp, d.mask)
    for i in range(4):
        n = int(d.mask[i].sum())
        w = math.prod(math.exp(d.logp[i, t] - d.old_logp[i, t]) for t in range(n))
        assert close(found[i, 0], w ** (1 / n))
