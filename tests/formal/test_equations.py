"""One test for each registered equation: the function against the formula written out in loops.

Named in `arl_mini.formal.equations`; a test here that no equation names is an orphan (see test_registry.py).
"""

import itertools
import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from arl_mini import ops
from arl_mini.formal import (
    PBRFT,
    AgentAction,
    FinitePOMDP,
    Laboratory,
    Reward,
    Utterances,
    bandit_objective,
    bradley_terry,
    clipped,
    dpo_loss,
    enumerate_paths,
    estimator,
    exact_gradient,
    grpo,
    joint_objective,
    kl_optimum,
    minus_value,
    objective,
    policy_gradient,
    random_mdp,
    random_pomdp,
    speak,
)
from arl_mini.formal.estimators import minus_constant
from tests.formal.worlds import (
    CHECKED,
    SLOW_CHECKED,
    close,
    distribution,
    draws,
    gammas,
    generator,
    mdps,
    numbers,
    seeds,
)

sizes = st.tuples(st.integers(1, 3), st.integers(2, 4))


@CHECKED
@given(sizes, seeds, gammas)
def test_survey_1(size, seed, gamma):
    """Every episode is one reply, and γ changes nothing."""
    r = numbers(seed, *size)
    world, plain = PBRFT.from_rewards(r, gamma=gamma), PBRFT.from_rewards(r, gamma=1.0)
    paths = enumerate_paths(world)
    assert paths.mask.shape == (size[0] * size[1], 1) and bool((paths.mask == 1).all())
    policy = distribution(seed, *world.R.shape)
    assert torch.equal(objective(world, policy), objective(plain, policy))


@SLOW_CHECKED
@given(seeds, st.sampled_from([0.5, 1.0]))
def test_survey_2(seed, gamma):
    """Σ over s₀ o₀ a₀ s₁ o₁ a₁ of everything multiplied, for a policy over histories; o_t = O(s_t) shows one
    thing."""
    pomdp = random_pomdp(generator(seed), 2, 2, 2, gamma, 2)
    mdp, live = pomdp.mdp, range(2)
    first, second = (
        distribution(seed, 2, 2),
        distribution(seed + 1, 2, 2, 2, 2),
    )  # π(a₀ | o₀), π(a₁ | o₀ a₀ o₁)
    total = 0.0
    for s0, o0, a0 in itertools.product(live, range(2), range(2)):
        p = mdp.start[s0] * pomdp.O_start[s0, o0] * first[o0, a0]
        total += p * mdp.R[s0, a0]
        for s1, o1, a1 in itertools.product(live, range(2), range(2)):
            q = p * mdp.P[s0, a0, s1] * pomdp.O[a0, s1, o1] * second[o0, a0, o1, a1]
            total += gamma * q * mdp.R[s1, a1]
    found = joint_objective(pomdp, lambda h: first[h[0]] if len(h) == 1 else second[h[0], h[1], h[2]])
    assert close(found, total)
    seen = FinitePOMDP.seen(mdp, ["dark", "dark", "light"])
    assert seen.O.shape == (2, 3, 2) and seen.O[:, :2, 0].min() == 1 == seen.O[:, 2, 1].min()


@given(sizes)
def test_survey_3(size):
    world = PBRFT.from_rewards(torch.zeros(size))
    assert len(world.prompts) == size[0] and "end" not in world.prompts
    assert PBRFT.from_rewards([1.0, 2.0]).prompts == ("prompt0",)


def test_survey_4():
    """Frequencies of 40,000 draws within four standard errors of P."""
    mdp, n = random_mdp(generator(3), 3, 2), 40_000
    for s, a in itertools.product(range(3), range(2)):
        after, reward, done = mdp.step(torch.full((n,), s), torch.full((n,), a), generator(10 * s + a))
        share = torch.bincount(after, minlength=4) / n
        assert bool(((share - mdp.P[s, a]).abs() <= 4 * (mdp.P[s, a] * (1 - mdp.P[s, a]) / n).sqrt()).all())
        assert bool((reward == mdp.R[s, a]).all()) and torch.equal(done, after == 3)


word = st.text("abc", min_size=1, max_size=3)


@given(st.lists(word, max_size=3), st.lists(word, min_size=1, max_size=3), st.integers(0, 3))
def test_survey_5(thought, command, parts):
    """Without delimiters a turn is in A_text, with them in A_action, and (a₁, …, a_k) is again in
    A_action."""
    text, one = " ".join(thought), f"<act> {' '.join(command)} </act>"
    assert AgentAction.parse(text).is_text and not AgentAction.parse(f"{text} {one}").is_text
    assert AgentAction.parse(f"{text} {one}").command == " ".join(command)
    many = AgentAction.parse(f"<act> {one * parts} </act>") if parts else AgentAction.parse(one)
    assert [a.command for a in many.primitives()] == [" ".join(command)] * max(parts, 1)


@given(sizes, seeds)
def test_survey_6(size, seed):
    world = PBRFT.from_rewards(numbers(seed, *size))
    assert bool((world.P[:, :, -1] == 1).all()) and world.terminal.tolist() == [False] * size[0] + [True]


@CHECKED
@given(seeds)
def test_survey_7(seed):
    """The rows of an utterance are those of the action in it; text has the identity."""
    pomdp = random_pomdp(generator(seed), 3, 2, 2)
    said = Utterances(("hm", "<act> a0 </act>", "<act> a1 </act>"), ("<act> a0 </act>", "<act> a1 </act>"), 2)
    spoken = speak(pomdp, said)
    for y, text in enumerate(spoken.mdp.actions):
        taken = [a for a in (0, 1) if f"a{a}" in text]
        expected = pomdp.mdp.P[:, taken[0]] if taken else torch.eye(4).double()
        assert torch.equal(spoken.mdp.P[:, y], expected)
        assert close(spoken.mdp.R[:, y], pomdp.mdp.R[:, taken[0]] if taken else torch.zeros(4))


@given(sizes, seeds)
def test_survey_8(size, seed):
    r = numbers(seed, *size)
    assert torch.equal(PBRFT.from_rewards(r).r, r)


def test_survey_9():
    """The three cases, and the one that the formula leaves open."""
    completes, progresses = torch.tensor([1, 0, 0, 1]).bool(), torch.tensor([0, 1, 0, 1]).bool()
    assert Reward(task=2.0, sub=0.5)(completes, progresses).tolist() == [2.0, 0.5, 0.0, 2.0]
    assert Reward(task=2.0, sub=0.5, tie="sum")(completes, progresses).tolist() == [2.0, 0.5, 0.0, 2.5]


@given(sizes, seeds)
def test_survey_10(size, seed):
    r, policy, start = numbers(seed, *size), distribution(seed + 1, *size), distribution(seed + 2, size[0])
    total = sum(start[x] * policy[x, y] * r[x, y] for x in range(size[0]) for y in range(size[1]))
    assert close(bandit_objective(r, policy, start), total)


@SLOW_CHECKED
@given(mdps(st.integers(1, 3), st.integers(1, 2)), seeds)
def test_survey_11(mdp, seed):
    """Every trajectory in loops: its probability times Σ γ^t R(s_t, a_t)."""
    policy = distribution(seed, *mdp.R.shape)

    def rest(s: int, t: int) -> float:
        if t == mdp.horizon:
            return 0.0
        return sum(
            float(policy[s, a] * mdp.P[s, a, after])
            * (mdp.gamma**t * float(mdp.R[s, a]) + rest(after, t + 1))
            for a in range(len(mdp.actions))
            for after in range(len(mdp.states))
        )

    total = sum(float(mdp.start[s]) * rest(s, 0) for s in range(len(mdp.states)))
    assert close(objective(mdp, policy), total)


@SLOW_CHECKED
@given(sizes, seeds, st.floats(-2, 2))
def test_survey_12(size, seed, b):
    """One sample by hand, and E over samples = ∇J for any b chosen beforehand; not for one that knows the
    action."""
    world = PBRFT.from_rewards(numbers(seed, *size))
    lab = Laboratory(world, numbers(seed + 1, *world.R.shape))
    loss = policy_gradient(minus_constant(b))
    d = lab.draws(torch.arange(len(lab.paths.chance))[:, None])
    assert close(loss(d), -(d.rewards - b) * d.logp)
    assert close(
        exact_gradient(world, lab.logits).flatten(), lab.enumerate(estimator("constant baseline")).mean
    )
    knows = lab.enumerate(estimator("group mean"), 2)
    assert close(knows.mean, knows.exact / 2)  # N = 2: half of the baseline is the action's own reward


@given(seeds, st.floats(0.01, 0.9))
def test_survey_13(seed, eps):
    """Each sampled token: min(ρ A, clip(ρ, 1 − ε, 1 + ε) A), with the sign of a loss."""
    d = draws(seed, 2, 2, 3)
    adv = numbers(seed + 8, *d.logp.shape)
    found = clipped(lambda d: adv, eps, eps)(d)
    for i, t in itertools.product(range(4), range(3)):
        rho = math.exp(d.logp[i, t] - d.old_logp[i, t])
        bound = min(rho * float(adv[i, t]), min(max(rho, 1 - eps), 1 + eps) * float(adv[i, t]))
        assert close(found[i, t], -bound * d.mask[i, t])


@given(seeds, gammas)
def test_survey_14(seed, gamma):
    """R read as the return from t on; with one token R − V to the letter."""
    d = draws(seed, 2, 2, 3, gamma)
    for i, t in (d.mask > 0).nonzero().tolist():
        after = sum(gamma ** (k - t) * d.rewards[i, k] for k in range(t, 3))
        assert close(minus_value(d)[i, t], gamma**t * (after - d.values[i, t]))
    one = draws(seed, 2, 2, 1, gamma)
    assert torch.equal(minus_value(one), one.rewards - one.values)


@CHECKED
@given(sizes, seeds, st.floats(0.2, 2))
def test_survey_15(size, seed, beta):
    """The loss in loops; on Bradley–Terry data its gradient is 0 exactly at π_ref · exp(r/β)."""
    r, ref, logits = (numbers(seed + k, *size) for k in range(3))
    start = distribution(seed + 3, size[0])
    shares = start[:, None, None] * bradley_terry(r) / size[1] ** 2
    policy, before = logits.softmax(-1), ref.softmax(-1)
    total = 0.0
    for x in range(size[0]):
        ratio = policy[x] / before[x]
        for w, lost in itertools.product(range(size[1]), repeat=2):
            margin = beta * (ratio[w].log() - ratio[lost].log())
            total -= shares[x, w, lost] * torch.sigmoid(margin).log()
    assert close(dpo_loss(logits, ref, shares, beta), total)

    def slope(at):
        at = at.clone().requires_grad_()
        return torch.autograd.grad(dpo_loss(at, ref, shares, beta), at)[0]

    best = kl_optimum(ref, r, beta)
    assert close(slope(best.log()), torch.zeros(size))
    assert float(slope(best.log() + numbers(seed + 9, *size)).abs().max()) > 1e-6


@given(seeds, st.floats(0.05, 0.5))
def test_survey_16(seed, eps):
    """Each row of one token: min(ρ Â, clip(ρ) Â), Â the z-score of its group."""
    d = draws(seed, 2, 4, 1)
    found = -grpo(eps, eps)(d)
    for i in range(8):
        mates = d.rewards[d.group == d.group[i], 0]
        a = (d.rewards[i, 0] - mates.mean()) / (mates.std() + 1e-6)
        rho = (d.logp - d.old_logp)[i, 0].exp()
        assert close(found[i, 0], torch.minimum(rho * a, rho.clamp(1 - eps, 1 + eps) * a))


@given(seeds, st.integers(2, 5), st.floats(-3, 3))
def test_survey_17(seed, tries, same):
    """Mean 0 and (nearly) variance 1 in the group; 0 where all are equal, and in a group of one."""
    r, group = numbers(seed, tries), torch.zeros(tries)
    by_hand = (r - r.sum() / tries) / (((r - r.sum() / tries) ** 2).sum() / (tries - 1)).sqrt()
    assert close(ops.group_zscore(r, group, eps=0.0), by_hand)
    assert bool((ops.group_zscore(torch.full((tries,), same), group) == 0).all())
    assert float(ops.group_zscore(torch.tensor([same]), torch.zeros(1))) == 0
