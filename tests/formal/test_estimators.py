"""Each estimator against the exact gradient: unbiased ones hit it, biased ones miss it by the amount that
theory gives.

Expectations are exact (every group of paths, by its probability); samples are checked against them on top.
"""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from arl_mini import ops
from arl_mini.formal import (
    CATALOGUE,
    PBRFT,
    Estimator,
    Laboratory,
    Utterances,
    action_value,
    advantage,
    backup,
    clocked,
    estimator,
    exact_value,
    kl_value_moments,
    occupancy,
    random_mdp,
    softmax_policy,
    token_level,
    walk,
)
from arl_mini.formal.estimators import clipped, gae, policy_gradient, truncated
from tests.formal.worlds import SLOW_CHECKED, close, generator, numbers, seeds

GROUP = 3
SAID = Utterances(("a", "b", "<end>"), ("<end>",), 2)  # 7 replies of 1 or 2 tokens
BY_NAME = {e.name: e for e in CATALOGUE}


def replies(seed: int, rewards=None) -> Laboratory:
    """Two prompts, replies of tokens, 0/1 rewards: an easy prompt and a hard one, unless given."""
    r = [[1, 1, 0, 1, 1, 1, 0], [0, 0, 1, 0, 0, 0, 0]] if rewards is None else rewards
    world = token_level(PBRFT.from_rewards(r, [0.4, 0.6]), SAID)
    theta = numbers(seed, *world.R.shape)
    old = theta + numbers(seed + 1, *theta.shape)
    return Laboratory(world, theta, None, old, numbers(seed + 2, *theta.shape), numbers(seed + 3, len(theta)))


def steps(seed: int, gamma: float = 0.9) -> Laboratory:
    """A world of chance with two steps, in which the critic is wrong."""
    world = clocked(random_mdp(generator(seed), 2, 2, gamma, 2))
    theta = numbers(seed, *world.R.shape)
    critic = numbers(seed + 2, len(theta)) * ~world.terminal
    return Laboratory(world, theta, None, theta + 0.5 * numbers(seed + 1, *theta.shape), None, critic)


def on_policy(lab: Laboratory) -> Laboratory:
    return replace(lab, old=None)


def suited(lab: Laboratory, e: Estimator) -> Laboratory:
    return on_policy(lab) if e.on_policy else lab


def per_row(lab: Laboratory, table) -> torch.Tensor:
    """Σ_s Σ_a table(s, a) ∇_θ log π(a | s), (P,): a softmax table's gradient from weights of states and
    actions."""
    policy = softmax_policy(lab.logits)
    return (table - policy * table.sum(-1, keepdim=True)).flatten()


# --- unbiased ----------------------------------------------------------------------------------------------


@SLOW_CHECKED
@given(seeds, st.sampled_from([replies, steps]), st.integers(2, 3))
def test_claims_of_no_bias_are_exact_in_every_world(seed, build, group):
    lab = build(seed)
    for e in CATALOGUE:
        if e.unbiased and not (e.target == "KL" and lab.ref is None):
            moments = suited(lab, e).enumerate(e, group)
            assert close(moments.mean, moments.exact), e.name


@pytest.mark.parametrize("e", CATALOGUE, ids=lambda e: e.name)
def test_20000_samples_lie_within_four_standard_errors(e):
    """Of the exact gradient where unbiased, of the enumerated mean where not (and then far from the exact
    one)."""
    lab = suited(replies(5), e)
    truth, sampled = lab.enumerate(e, GROUP), lab.sample(e, generator(11), 20_000, GROUP)
    aim = truth.exact if e.unbiased else truth.mean
    seen = sampled.standard_error > 1e-12
    distance = (sampled.mean - aim).abs()
    assert bool((distance[seen] <= 4 * sampled.standard_error[seen]).all())
    assert bool((distance[~seen] < 1e-10).all())
    assert close(sampled.variance, truth.variance, 0.2)
    if not e.unbiased:
        assert bool((truth.bias.abs() > 8 * sampled.standard_error)[seen].any()), "too small to be seen"


# --- biased: sign and size ---------------------------------------------------------------------------------


@SLOW_CHECKED
@given(seeds, st.sampled_from([replies, steps]), st.integers(2, 3))
def test_a_group_mean_with_oneself_in_it_shrinks_the_gradient(seed, build, group):
    """Dr.GRPO's advantage (and GRPO's before the division): (1 − 1/G) ∇J, to the letter."""
    moments = on_policy(build(seed)).enumerate(estimator("group mean"), group)
    assert close(moments.mean, (1 - 1 / group) * moments.exact)


def zscore_factor(p: float, group: int) -> float:
    """What a prompt of success rate p is multiplied by: Σ_k Bin(k) √(k(G−k)) √((G−1)/G³) / (p(1−p)), by hand.

    k of G tries succeed; E[∇ log π | success] = ∇p / p and E[∇ log π | failure] = −∇p / (1 − p).
    """
    total = 0.0
    for k in range(1, group):
        chance = math.comb(group, k) * p**k * (1 - p) ** (group - k)
        std = math.sqrt(k * (group - k) / (group * (group - 1)))
        right, wrong = (1 - k / group) / (std + ops.EPS), (k / group) / (std + ops.EPS)
        total += chance * (k / group * right / p + (1 - k / group) * wrong / (1 - p))
    return total


@SLOW_CHECKED
@given(seeds, st.integers(2, 4))
def test_the_std_division_weighs_prompts_by_how_even_they_are(seed, group):
    """GRPO = Dr.GRPO × a factor of the prompt that depends on its success rate only.

    With two or three tries every mixed group has the same std and the factor is the same for all prompts;
    from four tries on it is larger the more extreme the rate.
    """
    lab = on_policy(replies(seed))
    moments = lab.enumerate(estimator("GRPO z-score"), group)
    policy, K = softmax_policy(lab.logits), len(SAID.prefixes)
    p = exact_value(lab.mdp, policy)[[0, K]]  # success rate of each prompt
    factor = torch.tensor([zscore_factor(float(x), group) for x in p], dtype=torch.float64)
    scale = torch.cat([factor.repeat_interleave(K), factor.new_ones(K)])
    assert close(moments.mean.view(-1, 3), scale[:, None] * moments.exact.view(-1, 3))
    ratio = factor / (1 - 1 / group)  # against the group mean alone
    extreme = (p - 0.5).abs()
    if group < 4:
        assert close(ratio[0], ratio[1])
    elif extreme[0] > extreme[1] + 1e-3:
        assert ratio[0] > ratio[1]
    elif extreme[1] > extreme[0] + 1e-3:
        assert ratio[1] > ratio[0]


@SLOW_CHECKED
@given(seeds)
def test_the_length_division_by_hand(seed):
    """(1 − 1/G) (E[R ∇log π / n] − E[R] E[∇log π / n]) for each prompt: no gradient of anything that was
    asked for."""
    lab = on_policy(replies(seed))
    paths, policy = lab.paths, softmax_policy(lab.logits)
    chance, n = paths.probability(policy), paths.mask.sum(1)
    push = lab.score.sum(1) / n[:, None]
    by_hand = 0
    for s in paths.start.unique():
        p = chance * (paths.start == s)
        rho = p.sum()
        by_hand = by_hand + p @ (paths.returns[:, None] * push) - (p @ paths.returns) / rho * (p @ push)
    moments = lab.enumerate(estimator("group mean / length"), GROUP)
    assert close(moments.mean, (1 - 1 / GROUP) * by_hand)


def test_the_length_division_lengthens_wrong_replies_and_shortens_right_ones():
    """Right iff the first token is 'a'; what is said then changes the length and nothing else.

    So the exact gradient of going on after the first token is 0, and so is Dr.GRPO's. Divided by length,
    ending a wrong reply early is pushed down more than ending it late, and ending a right one early is pushed
    up more.
    """
    said = Utterances(("a", "b", "<end>"), ("<end>",), 3)
    right = torch.tensor([[1.0 if y[0] == 0 else 0.0 for y in said.complete]])
    lab = Laboratory(
        token_level(PBRFT.from_rewards(right), said), torch.zeros(2 * len(said.prefixes), 3).double()
    )
    after_a, after_b = said.prefixes.index((0,)), said.prefixes.index((1,))
    fair = lab.enumerate(estimator("group mean"), GROUP).mean.view(-1, 3)
    divided = lab.enumerate(estimator("group mean / length"), GROUP).mean.view(-1, 3)
    for row in (after_a, after_b):
        assert close(lab.exact().view(-1, 3)[row], torch.zeros(3)) and close(fair[row], torch.zeros(3))
    assert divided[after_b, 2] < -1e-3  # wrong: end later
    assert divided[after_a, 2] > 1e-3  # right: end sooner


@SLOW_CHECKED
@given(seeds)
def test_gae_is_as_right_as_its_critic(seed):
    """λ = 0: Σ_s d(s) Σ_a ∇π(a|s) Q̂(s, a) with Q̂ = R + γ P V̂, whatever the critic V̂ is; exact with V̂ =
    V."""
    lab = on_policy(steps(seed))
    policy = softmax_policy(lab.logits)
    visits = occupancy(lab.mdp, policy)
    by_hand = per_row(lab, visits * (backup(lab.mdp, lab.critic) - lab.critic[:, None]))
    assert close(lab.enumerate(estimator("GAE λ=0")).mean, by_hand)
    right = replace(lab, critic=exact_value(lab.mdp, policy))
    for lam in (0.0, 0.5, 0.9):
        assert (lambda m: close(m.mean, m.exact))(
            right.enumerate(Estimator("", policy_gradient(gae(lam)), True, ""))
        )


def test_lambda_trades_bias_for_variance():
    """On a slippery walk of four steps, with a critic that is off by about 0.1."""
    world = clocked(replace(walk(2, 2, 1.0, 2.0, 0.9, slip=0.3), horizon=4))
    lab = Laboratory(world, 0.5 * numbers(2, *world.R.shape))
    off = 0.1 * numbers(3, len(world.states)) * ~world.terminal
    lab = replace(lab, critic=exact_value(world, softmax_policy(lab.logits)) + off)
    found = [lab.enumerate(Estimator("", policy_gradient(gae(lam)), False, "")) for lam in (0.0, 0.5, 1.0)]
    bias, variance = [float(m.bias.norm()) for m in found], [float(m.variance.sum()) for m in found]
    assert bias[0] > bias[1] > bias[2] and bias[2] < 1e-12
    assert variance[0] < variance[1] < variance[2]


@SLOW_CHECKED
@given(seeds, st.sampled_from([replies, steps]))
def test_token_weights_give_the_gradient_of_another_objective(seed, build):
    """Σ_s d_old(s) Σ_a ∇π(a | s) Q_old(s, a): PPO's surrogate, right only at θ = θ_old."""
    lab = build(seed)
    old, policy = softmax_policy(lab.old), softmax_policy(lab.logits)
    visits = occupancy(lab.mdp, old).sum(-1, keepdim=True)
    by_hand = per_row(lab, visits * policy * action_value(lab.mdp, old))
    moments = lab.enumerate(estimator("token weight"))
    assert close(moments.mean, by_hand)
    here = on_policy(lab).enumerate(estimator("token weight"))
    assert close(here.mean, here.exact)


@SLOW_CHECKED
@given(seeds, st.floats(0.05, 0.5))
def test_the_clip_drops_what_is_outside(seed, eps):
    """Σ d_old(s) π(a | s) A_old(s, a) ∇log π without the pairs whose advantage asks to go further out."""
    lab = replace(steps(seed), critic=None)  # critic: V of the old policy
    old, policy = softmax_policy(lab.old), softmax_policy(lab.logits)
    # Without chance in the world δ_t is A_old(s, a), and the clip depends on (s, a) alone.
    sure = torch.nn.functional.one_hot(lab.mdp.P.argmax(-1), lab.mdp.P.shape[-1]).double()
    lab = replace(lab, mdp=replace(lab.mdp, P=sure))
    adv, ratio = advantage(lab.mdp, old), policy / old
    kept = ~ops.is_clipped(ratio, adv, eps, eps)
    visits = occupancy(lab.mdp, old).sum(-1, keepdim=True)
    by_hand = per_row(lab, visits * policy * adv * kept)
    moments = lab.enumerate(Estimator("", clipped(gae(0.0), eps, eps), False, ""))
    assert close(moments.mean, by_hand)
    first = on_policy(lab).enumerate(Estimator("", clipped(gae(0.0), eps, eps), False, ""))
    assert close(first.mean, first.exact)  # on the first step there is nothing to clip


@SLOW_CHECKED
@given(seeds, st.floats(0.5, 3))
def test_truncated_weights_lose_what_lies_above_the_cap(seed, cap):
    """Σ_τ min(P_θ, cap · P_old) G ∇log P_θ; the bias is that of the paths above the cap, and 0 for a cap
    above all."""
    lab = replies(seed)
    paths = lab.paths
    new, old = (paths.probability(softmax_policy(x)) for x in (lab.logits, lab.old))
    push = paths.returns[:, None] * lab.score.sum(1)
    moments = lab.enumerate(Estimator("", truncated(cap), False, ""))
    assert close(moments.mean, torch.minimum(new, cap * old) @ push)
    assert close(moments.bias, -(new - cap * old).clamp(min=0) @ push)
    assert close(lab.enumerate(Estimator("", truncated(1e9), True, "")).bias, torch.zeros_like(moments.bias))
    assert (
        torch.minimum(new, cap * old) @ paths.returns <= new @ paths.returns + 1e-12
    )  # rewards ≥ 0: never too much


@SLOW_CHECKED
@given(seeds)
def test_the_length_normalised_weight_by_hand(seed):
    lab = replies(seed)
    paths = lab.paths
    new, old = (paths.probability(softmax_policy(x)) for x in (lab.logits, lab.old))
    weight = (new / old) ** (1 / paths.mask.sum(1))
    by_hand = (old * weight) @ (paths.returns[:, None] * lab.score.sum(1))
    assert close(lab.enumerate(estimator("length-normalised weight")).mean, by_hand)


@SLOW_CHECKED
@given(seeds)
def test_data_of_another_policy_without_weights(seed):
    """Σ_τ P_old(τ) Σ_t ∇log π_θ(a_t | s_t) γ^t G_t = Σ_s d_old(s) Σ_a π_old(a|s) Q_old(s, a) ∇log
    π_θ(a|s)."""
    lab = steps(seed)
    old = softmax_policy(lab.old)
    by_hand = per_row(lab, occupancy(lab.mdp, old) * action_value(lab.mdp, old))
    assert close(lab.enumerate(estimator("no weight")).mean, by_hand)


def test_weights_by_step_vary_less_than_weights_by_sequence():
    lab = steps(8)
    by_step, by_sequence = (
        lab.enumerate(estimator(f"{x} weight")).variance.sum() for x in ("step", "sequence")
    )
    assert by_step < by_sequence


# --- KL ----------------------------------------------------------------------------------------------------


@SLOW_CHECKED
@given(seeds)
def test_kl_gradients(seed):
    """k1: 0. k3: the gradient of KL(π_ref ‖ π). k2 by tokens: later tokens are missing."""
    lab = on_policy(replies(seed))
    assert close(lab.enumerate(estimator("k1 in the loss")).mean, torch.zeros(lab.logits.numel()))
    other_way = replace(lab, logits=lab.ref, ref=lab.logits)
    theta = lab.logits.clone().requires_grad_()
    reverse = lab.paths.probability(softmax_policy(lab.ref)) @ (
        lab.paths.logp(softmax_policy(lab.ref)) - lab.paths.logp(softmax_policy(theta))
    ).sum(1)
    assert close(reverse, other_way.kl())
    assert close(
        lab.enumerate(estimator("k3 in the loss")).mean, torch.autograd.grad(reverse, theta)[0].flatten()
    )
    policy, ref = softmax_policy(lab.logits), softmax_policy(lab.ref)
    gap = (policy / ref).log()
    by_hand = per_row(lab, occupancy(lab.mdp, policy) * gap)
    assert close(lab.enumerate(estimator("k2 per token")).mean, by_hand)


@SLOW_CHECKED
@given(seeds)
def test_kl_values(seed):
    """k1 and k3 have the right mean; k2 = ½ E[x²] does not."""
    lab = on_policy(replies(seed))
    kl = float(lab.kl())
    assert close(kl_value_moments(lab, ops.kl_k1)[0], kl) and close(kl_value_moments(lab, ops.kl_k3)[0], kl)
    policy, ref = softmax_policy(lab.logits), softmax_policy(lab.ref)
    x = (lab.paths.logp(policy) - lab.paths.logp(ref)).sum(1)
    assert close(kl_value_moments(lab, ops.kl_k2)[0], lab.paths.probability(policy) @ (x**2 / 2))


def test_near_the_reference_k3_varies_least():
    lab = on_policy(replies(3))
    near = replace(lab, ref=lab.logits + 0.05 * lab.ref)
    variance = {k.__name__: kl_value_moments(near, k)[1] for k in (ops.kl_k1, ops.kl_k2, ops.kl_k3)}
    assert variance["kl_k3"] < variance["kl_k1"] / 10 and variance["kl_k2"] < variance["kl_k1"] / 10


@SLOW_CHECKED
@given(seeds)
def test_states_that_share_a_row(seed):
    """A policy that cannot tell some states apart: the laboratory's score is that of the shared table."""
    lab = steps(seed)
    rows = torch.arange(len(lab.mdp.states)) % 2
    lab = replace(lab, logits=lab.logits[:2], old=None, rows=rows)
    moments = lab.enumerate(estimator("leave one out"), 2)
    assert moments.mean.shape == (4,) and close(moments.mean, moments.exact)


# --- the laboratory itself ---------------------------------------------------------------------------------


def test_baselines_in_order_of_variance():
    lab = replace(on_policy(replies(5)), critic=None)  # the exact critic
    variance = {n: float(lab.enumerate(estimator(n), 4).variance.sum()) for n in
                ("REINFORCE", "leave one out", "value baseline")}  # fmt: skip
    assert variance["REINFORCE"] > variance["leave one out"] > variance["value baseline"]


@pytest.mark.parametrize("name", ["REINFORCE", "GRPO z-score", "k3 in the loss", "no weight"])
def test_the_error_falls_as_predicted(name):
    """√(|bias|² + tr Σ / n): unbiased estimators go on falling, biased ones stop at their bias."""
    e = estimator(name)
    lab = suited(replies(5), e)
    records = lab.error_curve(e, generator(3), (4, 64, 2048), GROUP, repeats=30)
    for record in records:
        assert record["measured"] == pytest.approx(record["predicted"], rel=0.25)
    floor = float(lab.enumerate(e, GROUP).bias.norm())
    assert records[-1]["predicted"] >= floor
    assert (records[-1]["measured"] < records[0]["measured"] / 16) == e.unbiased


def test_a_wrong_claim_is_caught():
    """The test of claims can fail: GRPO declared unbiased."""
    moments = on_policy(replies(5)).enumerate(estimator("GRPO z-score"), GROUP)
    assert not close(moments.mean, moments.exact, 1e-3)


def test_refusals():
    with pytest.raises(ValueError, match="hint: clocked"):
        Laboratory(random_mdp(generator(0), horizon=3), torch.zeros(5, 2).double())
    with pytest.raises(ValueError, match="groups are too many"):
        replies(0).enumerate(estimator("group mean"), 9)
    with pytest.raises(KeyError, match="no estimator 'magic'; there are: REINFORCE"):
        estimator("magic")
