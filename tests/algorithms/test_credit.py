"""Credit over turns: bi-level GAE, StarPO, StarPO-S, GiGPO, MT-GRPO against oracles, loops, parents."""

import math

import numpy as np
import pytest
import torch

from arl_mini import Limits, envs, models
from arl_mini.algorithms import GRPO, GiGPO, StarPO, StarPOS, TurnGRPO
from arl_mini.algorithms.credit import bilevel_gae, fined, observation, returns_to_go, turn_ends, turn_split
from arl_mini.batch import collate
from arl_mini.models.score import Scores
from arl_mini.ops import gae, group_zscore
from arl_mini.rollout import rollout
from tests.algorithms.rows import by_hand, f64, value_and_grad
from tests.oracles.reading import cases

QUEST = Limits(8, 8, 112)


def played(seed=0, tasks=3, tries=4):
    """Ragged episodes of several turns in a small Quest, some with malformed turns."""
    return rollout(
        models.load("quest-novice"), envs.Quest(3, 8), range(tasks), tries, seed=seed, limits=QUEST
    )


def drawn(seed: int, rows: int = 6, turns: int = 3):
    """Rows of several turns with a reward for each, in float64; observations stand between them."""
    rng = np.random.default_rng(seed)
    turn = torch.full((rows, 4 * turns + 1), -1)
    mask = torch.zeros(rows, 4 * turns + 1, dtype=torch.float64)
    rewards = torch.zeros_like(mask)
    for i in range(rows):
        at = 1
        for k in range(int(rng.integers(1, turns + 1))):
            n = int(rng.integers(1, 4))
            turn[i, at : at + n + 1], mask[i, at : at + n] = k, 1
            rewards[i, at + n - 1] = float(rng.normal())
            at += n + 1
    old = f64(-rng.random(mask.shape) - 0.1)
    batch = by_hand(mask, turn=turn, rewards=rewards, group=torch.arange(rows) % 2, old_logp=old,
                    ref_logp=f64(-rng.random(mask.shape)), values=f64(rng.normal(size=mask.shape)),
                    episodes=list(range(rows)))  # fmt: skip
    return batch, old + f64(0.4 * rng.normal(size=mask.shape))


def turns_of(batch, i):
    """Positions of the sampled tokens of each turn of a row."""
    last = int((batch.turn[i] * (batch.mask[i] > 0)).max())
    return [
        [t for t in range(batch.mask.shape[1]) if batch.mask[i, t] and batch.turn[i, t] == k]
        for k in range(last + 1)
    ]


def paid(batch, i):
    return [float(sum(batch.rewards[i, t] for t in at)) for at in turns_of(batch, i)]


# --- bi-level GAE -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("credit", "starpo-bilevel"))
def test_bilevel_oracle(case):
    turn = torch.tensor([[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1]])
    mask, values = case.tensor("mask"), case.tensor("values")
    h = case.hyper
    got = bilevel_gae(
        case.tensor("token_rewards"), values, mask, turn, h["gamma"], h["lam"], h["high_level_gamma"]
    )
    case.meets(got, case.outputs["unwhitened_hand"])
    case.meets((got + values) * mask, case.outputs["returns"])
    batch = by_hand(mask, rewards=case.tensor("token_rewards"), values=values, turn=turn)
    star = StarPO(bilevel=True, gamma=h["gamma"], lam=h["lam"], gamma_turn=h["high_level_gamma"])
    case.meets(star.advantages(batch), f64(case.outputs["advantages"]) * mask)


@pytest.mark.parametrize("seed", range(5))
def test_bilevel_loop(seed):
    batch, _ = drawn(seed)
    gamma, lam, high = 0.9, 0.8, 0.7
    got = bilevel_gae(batch.rewards, batch.values, batch.mask, batch.turn, gamma, lam, high)
    want = torch.zeros_like(got)
    for i in range(len(batch)):
        V, turns = batch.values[i], turns_of(batch, i)
        ends, above = [at[-1] for at in turns], [0.0] * (len(turns) + 1)
        for k in reversed(range(len(turns))):
            after = float(V[ends[k + 1]]) if k + 1 < len(turns) else 0.0
            above[k] = (
                float(batch.rewards[i, ends[k]])
                + high * after
                - float(V[ends[k]])
                + high * lam * above[k + 1]
            )
        for k, at in enumerate(turns):
            below = value = 0.0
            for t in reversed(at):
                reward = above[k] + float(V[t]) if t == at[-1] else 0.0
                below = reward + gamma * value - float(V[t]) + gamma * lam * below
                value, want[i, t] = float(V[t]), below
    torch.testing.assert_close(got, want)


def test_bilevel_of_one_turn_is_gae_and_without_values_the_return_from_the_turn_on():
    batch, _ = drawn(3, turns=1)
    known = batch.rewards, batch.values, batch.mask
    torch.testing.assert_close(bilevel_gae(*known, batch.turn, 0.9, 0.8, 0.5), gae(*known, 0.9, 0.8))
    batch, _ = drawn(4)
    got = bilevel_gae(batch.rewards, 0 * batch.values, batch.mask, batch.turn, 1, 1, 1)
    for i in range(len(batch)):
        for k, at in enumerate(turns_of(batch, i)):
            torch.testing.assert_close(got[i, at], torch.full((len(at),), sum(paid(batch, i)[k:])).double())


# --- StarPO -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("credit", "starpo-rewardnorm"))
def test_starpo_reward_oracle(case):
    """The class is the release's mean_std; its clip and its identity are other settings there."""
    score = case.tensor("rewards") + case.tensor("penalty")
    if case.hyper["method"] != "identity":
        batch = by_hand(torch.ones(8, 1), rewards=score[:, None], group=case.group)
        clip = case.hyper["clip"] or (-math.inf, math.inf)
        score = StarPO().advantages(batch)[:, 0].clamp(*clip)
    case.meets(score, case.outputs["score"])


def test_fines_stand_at_the_end_of_malformed_turns():
    tried = played()
    tried[0].infos[0]["malformed"] = True
    tried[1].infos[-1]["malformed"] = True
    batch = collate(tried)
    cost = batch.rewards - fined(batch, 0.25).rewards
    assert float(cost.sum()) == 0.25 * sum(bool(i.get("malformed")) for e in tried for i in e.infos) >= 0.5
    assert bool((cost * (1 - turn_ends(batch.mask, batch.turn)) == 0).all())


@pytest.mark.parametrize("seed", range(3))
def test_starpo_loop(seed):
    batch, logp = drawn(seed)
    star = StarPO(beta=0.3)
    batch = batch.set(advantages=star.advantages(batch))
    totals = f64([sum(paid(batch, i)) for i in range(len(batch))])
    zscores = group_zscore(totals, batch.group)

    def loop(logp):
        rows = 0.0
        for i in range(len(batch)):
            n = sum(map(len, turns_of(batch, i)))
            for t in [t for at in turns_of(batch, i) for t in at]:
                r = math.exp(float(logp[i, t] - batch.old_logp[i, t]))
                a = float(zscores[i])
                cost = max(-a * r, -a * min(max(r, 0.8), 1.2))
                rows += (cost + 0.3 * float(logp[i, t] - batch.ref_logp[i, t])) / n
        return rows / len(batch)

    loss, grad = value_and_grad(star, batch, logp)
    assert loss == pytest.approx(loop(logp), abs=1e-9)
    i, t = batch.mask.nonzero()[seed].tolist()
    bump = torch.zeros_like(logp)
    bump[i, t] = 1e-6
    assert float(grad[i, t]) == pytest.approx((loop(logp + bump) - loop(logp - bump)) / 2e-6, abs=1e-6)
    assert bool((grad[batch.mask == 0] == 0).all())


def test_starpo_without_fine_and_kl_is_grpo():
    batch, logp = drawn(1)
    star = StarPO(beta=0.0, fine=0.0)
    mine, parent = (
        value_and_grad(a, batch.set(advantages=a.advantages(batch)), logp) for a in (star, GRPO())
    )
    assert mine[0] == parent[0] and torch.equal(mine[1], parent[1])


def test_the_critic_of_bilevel_starpo_learns_the_return():
    batch, logp = drawn(2)
    star = StarPO(beta=0.0, bilevel=True)
    assert star.needs_critic and not StarPO().needs_critic
    batch = batch.set(advantages=star.advantages(batch))
    values = batch.values.clone().requires_grad_()
    star.loss(Scores(logp, 0 * logp, values), batch).backward()
    wanted = -star.gae(batch) / batch.mask.sum()
    torch.testing.assert_close(values.grad, wanted * batch.mask)


@pytest.mark.parametrize("case", cases("credit", "starpos-filter"))
def test_starpos_filter_oracle(case):
    rewards = case.tensor("rewards")
    group = torch.arange(len(rewards)) // case.inputs["group_size"]
    batch = by_hand(torch.ones(len(rewards), 1), rewards=rewards[:, None], group=group)
    kept = StarPOS(share=case.hyper["keep_ratio"]).keep(batch).nonzero()[:, 0]
    assert kept.tolist() == case.outputs["kept_indices"]


def test_starpos_keeps_one_group_at_least_and_is_starpo_otherwise():
    batch, logp = drawn(5)
    assert batch.group[StarPOS(share=0.01).keep(batch)].unique().numel() == 1
    assert StarPOS(share=1.0).keep(batch).all()
    batch = batch.set(advantages=StarPO().advantages(batch))
    mine, parent = (value_and_grad(a, batch, logp) for a in (StarPOS(clip_high=0.2), StarPO(beta=0.0)))
    assert mine[0] == parent[0] and torch.equal(mine[1], parent[1])


# --- GiGPO ------------------------------------------------------------------------------------------------


def steps_as_turns(case):
    """Rows that are steps in the oracle become turns of one row a trajectory, two tokens each."""
    names = list(dict.fromkeys(case.inputs["traj"]))
    at = [(names.index(n), case.inputs["traj"][:j].count(n)) for j, n in enumerate(case.inputs["traj"])]
    turn = torch.full((len(names), 2 * max(k + 1 for _, k in at)), -1)
    for i, k in at:
        turn[i, 2 * k : 2 * k + 2] = k
    return at, turn


def test_step_returns_oracle():
    (case,) = (p.values[0] for p in cases("credit", "gigpo-step-returns"))
    at, turn = steps_as_turns(case)
    rewards = torch.zeros(len(turn), int(turn.max()) + 1, dtype=torch.float64)
    for r, (i, k) in zip(case.inputs["step_rewards"], at):
        rewards[i, k] = r
    returns = returns_to_go(rewards, case.hyper["gamma"])
    case.meets([float(returns[i, k]) for i, k in at], case.outputs["step_returns"])


@pytest.mark.parametrize("case", cases("credit", "gigpo-adv") + cases("credit", "gigpo-episode"))
def test_gigpo_oracle(case):
    """Both readings of the episode's part: over tries (the paper, this class), over turns (the release)."""
    at, turn = steps_as_turns(case)
    returns, states = case.inputs.get("step_returns"), dict(zip(at, case.inputs.get("anchor_obs", at)))
    paper, omega = returns is None, case.hyper.get("step_advantage_w", 0.0)
    score = f64([case.inputs["episode_score"][[i for i, _ in at].index(j)] for j in range(len(turn))])
    group = torch.tensor([case.inputs["group"][[i for i, _ in at].index(j)] for j in range(len(turn))])
    gi = GiGPO(omega=omega, std="std" in case.hyper["mode"], state=lambda row, k: states[row, k])
    if paper:
        rewards = torch.zeros(turn.shape, dtype=torch.float64)
        rewards[:, 0] = score
        batch = by_hand(turn >= 0, turn=turn, rewards=rewards, group=group, episodes=range(len(turn)))
        got = gi.advantages(batch)
    else:  # the step's part alone, from rewards whose return is the oracle's; then the release's part
        rewards = torch.zeros(turn.shape, dtype=torch.float64)
        for r, (i, k) in zip(returns, at):
            rewards[i, 2 * k + 1] = r
        batch = by_hand(turn >= 0, turn=turn, rewards=rewards, group=group, episodes=range(len(turn)))
        settings = {**vars(gi), "gamma": 0.0}
        both, whole = (GiGPO(**{**settings, "omega": w}).advantages(batch) for w in (omega, 0.0))
        got = both - whole
        mean_over_turns(case, at, got, batch.mask)
    want = torch.zeros_like(got)
    for row, (i, k) in zip(case.outputs["advantages"], at):
        want[i, 2 * k : 2 * k + 2] = row[0]
    case.meets(got, want)


def mean_over_turns(case, at, got, mask):
    """Adds the release's episode part: statistics over all turns of the group."""
    score, group = case.tensor("episode_score"), case.group
    for j, (i, k) in enumerate(at):
        mine = score[group == group[j]]
        scale = mine.std() + 1e-6 if "std" in case.hyper["mode"] else 1.0
        got[i, 2 * k : 2 * k + 2] += (score[j] - mine.mean()) / scale


@pytest.mark.parametrize("seed", range(3))
def test_gigpo_loop_on_episodes(seed):
    gi, tried = GiGPO(omega=0.7), played(seed)
    batch = gi.reward(collate(tried))
    got, G, anchors = gi.advantages(batch), {}, {}
    whole = group_zscore(batch.reward, batch.group)
    for i, e in enumerate(tried):
        r = paid(batch, i)
        for k in range(e.turns):
            G[i, k] = sum(gi.gamma ** (j - k) * r[j] for j in range(k, e.turns))
            shown = e.text.split("<bot>")[0] if k == 0 else e.text.split("<obs>")[k].split("</obs>")[0]
            anchors.setdefault((e.group, shown), []).append((i, k))
    assert any(
        len({i for i, _ in same}) < len(same) for same in anchors.values()
    )  # a state comes back in one try
    for same in anchors.values():
        x = np.array([G[s] for s in same])
        z = (x - x.mean()) / (x.std(ddof=1) + 1e-6) if len(x) > 1 and x.min() < x.max() else 0 * x
        for (i, k), step in zip(same, z):
            here = (batch.turn[i] == k) & (batch.mask[i] > 0)
            wanted = float(whole[i]) + 0.7 * float(step)
            assert got[i][here].tolist() == pytest.approx([wanted] * int(here.sum()), abs=2e-4)
    assert bool((got[batch.mask == 0] == 0).all())


def test_gigpo_reduces_to_grpo():
    batch, _ = drawn(6)
    for gi in (GiGPO(omega=0.0, state=lambda e, k: 0), GiGPO(state=lambda e, k: (e, k))):
        assert torch.equal(gi.advantages(batch), GRPO().advantages(batch))
    episode = played(tasks=1, tries=1)[0]
    assert observation(episode, 0) == tuple(episode.tokens[episode.turn < 0].tolist())


# --- MT-GRPO ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("credit", "mtgrpo-assign"))
def test_turn_split_oracle(case):
    mask, part = case.tensor("mask"), [case.tensor(f"adv_{k}") for k in ("turn", "outcome", "combined")]
    turn = torch.tensor([[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1], [0] * 7])
    turns = part[0][:, None].expand(3, 2)
    got = turn_split(turns, part[1], part[2], mask, turn, case.hyper["turn_advantage_coef"])
    case.meets(got, f64(case.outputs["advantages"]) * mask)


@pytest.mark.parametrize("case", cases("credit", "mtgrpo-norm"))
def test_turn_norm_oracle(case):
    case.meets(
        group_zscore(case.tensor("rewards"), case.group, case.hyper["epsilon"]), case.outputs["advantages"]
    )


@pytest.mark.parametrize("case", cases("credit", "mtgrpo-loss"))
def test_turn_loss_oracle(case):
    batch = by_hand(case.inputs["mask"], old_logp=case.tensor("old_logp"), advantages=case.inputs["adv"])
    loss, grad = value_and_grad(TurnGRPO(), batch, case.inputs["logp"])
    case.meets(loss, case.outputs["loss"])
    case.meets(grad, case.grads["logp"])


@pytest.mark.parametrize("seed", range(4))
def test_turn_loop(seed):
    batch, _ = drawn(seed, rows=8)
    got, want = TurnGRPO(coef=0.6).advantages(batch), torch.zeros_like(batch.mask)
    r = [paid(batch, i) for i in range(8)]
    outcome = group_zscore(f64([x[-1] for x in r]), batch.group)
    both = group_zscore(f64([sum(x) for x in r]), batch.group)
    for k in range(3):
        own = group_zscore(f64([x[k] if k < len(x) - 1 else 0.0 for x in r]), batch.group)
        for i in range(8):
            if k < len(r[i]):
                alone = len(r[i]) == 1
                extra = 0.6 * own[i] if k < len(r[i]) - 1 else 0.0
                want[i, turns_of(batch, i)[k]] = both[i] if alone else outcome[i] + extra
    torch.testing.assert_close(got, want)


def test_turn_judge_pays_each_turn_but_the_last():
    tried = played()
    batch = collate(tried)
    paid_now = TurnGRPO(judge=lambda e, k: 1.0 + k).reward(batch).rewards - batch.rewards
    assert paid_now.sum(1).tolist() == [sum(range(1, e.turns)) for e in tried]
    assert bool((paid_now * (1 - turn_ends(batch.mask, batch.turn)) == 0).all())


def test_turn_grpo_with_one_turn_is_grpo_and_equal_turns_add_nothing():
    batch, _ = drawn(7, turns=1)
    assert torch.equal(TurnGRPO().advantages(batch), GRPO().advantages(batch))
    batch = collate(played(2))
    plain, judged = (TurnGRPO(judge=lambda e, k, v=v: v) for v in (0.0, 1.0))
    same = [e.turns for e in batch.episodes]
    assert len(set(same)) > 1
    outcome = group_zscore(batch.reward, batch.group)[:, None] * batch.mask
    torch.testing.assert_close(plain.advantages(plain.reward(batch)), outcome)
    assert not torch.equal(judged.advantages(judged.reward(batch)), outcome)  # a missing turn is paid 0


# --- edges -------------- ----------------------------------------------------------------------------------


ALL = [StarPO(), StarPO(bilevel=True), StarPOS(), GiGPO(), TurnGRPO()]


@pytest.mark.parametrize("algorithm", [a for a in ALL if not a.needs_critic], ids=lambda a: type(a).__name__)
def test_no_contrast_and_groups_of_one_teach_nothing(algorithm):
    if type(algorithm) is GiGPO:  # by number, so that no state of a try comes back
        algorithm = GiGPO(state=lambda e, k: k)
    batch, _ = drawn(8)
    assert bool((algorithm.advantages(batch.set(rewards=0 * batch.rewards)) == 0).all())
    assert bool((algorithm.advantages(batch.set(group=torch.arange(len(batch)))) == 0).all())
    one = by_hand([[0, 1]], turn=torch.tensor([[-1, 0]]), rewards=f64([[0, 1.0]]), episodes=[0])
    assert bool((algorithm.advantages(one) == 0).all())
