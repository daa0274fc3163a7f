"""TreePO and ARPO: trees that really share beginnings, their advantages, and when a try branches."""

import math

import numpy as np
import pytest
import torch

from arl_mini import Limits, envs, models, train
from arl_mini.algorithms import ARPO, DAPO, GRPO, TreePO
from arl_mini.batch import by_group
from arl_mini.algorithms.trees import beginnings, tree_scores
from arl_mini.batch import Episode, collate
from arl_mini.ops import group_center, whiten
from tests.algorithms.rows import by_hand, f64, random_batch, value_and_grad
from tests.oracles.reading import cases

QUEST, CHAIN = Limits(8, 8, 112), Limits(12, 1, 48)


def leaf(path=(), **more) -> Episode:
    zero = np.zeros(2, np.float32)
    return Episode(np.array([1, 2]), zero, np.array([-1, 0]), zero, zero, path=path, **more)


# --- TreePO -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("trees", "treepo-adv"))
def test_tree_oracle(case):
    names = [path.split("#") for path in case.inputs["node_path"]]
    group, paths = torch.tensor(["pq".index(n[0]) for n in names]), [tuple(map(int, n[1:])) for n in names]
    by_size = case.hyper["adv_weight_strategy"] == "group_size"
    rewards, mask = case.tensor("rewards"), case.tensor("mask")
    case.meets(tree_scores(rewards, group, paths, by_size), case.outputs["score_before_whitening_hand"])
    batch = by_hand(
        mask, rewards=rewards[:, None] * f64([1, 0, 0]), group=group, episodes=[leaf(p) for p in paths]
    )
    case.meets(TreePO(by_size=by_size).advantages(batch), case.outputs["advantages"])


def test_a_flat_tree_is_group_centring_and_whitening_not_grpo():
    batch, _ = random_batch(3)
    batch = batch.set(episodes=[leaf((i,)) for i in range(len(batch))])
    got = TreePO().advantages(batch)
    want = whiten(group_center(batch.reward, batch.group)[:, None] * batch.mask, batch.mask)
    torch.testing.assert_close(got, want)
    assert not torch.allclose(got, GRPO().advantages(batch))
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    torch.testing.assert_close(TreePO().advantages(batch.rows(order)), got[order])


def test_equal_rewards_and_single_leaves_teach_nothing():
    batch, _ = random_batch(4)
    paths = [leaf((i % 2, i)) for i in range(len(batch))]
    for rows in (batch.set(rewards=0 * batch.rewards), batch.set(group=torch.arange(len(batch)))):
        assert bool((TreePO().advantages(rows.set(episodes=paths)) == 0).all())


@pytest.mark.parametrize("world", ["Chain", "Quest"])
def test_leaves_share_as_many_tokens_as_their_paths_say(world):
    chain = world == "Chain"
    env, start, limits = (
        (envs.Chain((3, 3)), "chain-atoms", CHAIN) if chain else (envs.Quest(3, 8), "quest-novice", QUEST)
    )
    tree = TreePO(first=2, segment=1 if chain else 5)
    run = train(models.load(start), env, tree, steps=1, prompts=3, tries=7, limits=limits)
    leaves = tree.grow(run._sampler(), [1, 2, 3], 7)
    groups = by_group(leaves)
    assert [len(g) for g in groups] == [7, 7, 7] and [g[0].seed for g in groups] == [1, 2, 3]
    splits = 0
    for group in groups:
        assert len({e.path for e in group}) == 7
        for a in group:
            for b in group:
                shared = [x == y for x, y in zip(a.path, b.path)]
                j = len(shared) if all(shared) else shared.index(False)
                if a is not b and 0 < j < min(len(a.path), len(b.path)):
                    at = [np.flatnonzero(e.mask > 0) for e in (a, b)]
                    n = tree.segment * j  # at least so many sampled tokens are the same
                    assert a.tokens[: at[0][n - 1] + 1].tolist() == b.tokens[: at[1][n - 1] + 1].tolist()
                    splits += 1
        assert all(e.own and (e.mask > 0).sum() == (e.logp != 0).sum() or chain for e in group)
    assert splits > 0


def test_a_run_grows_trees_and_dynamic_sampling_holds():
    run = train(
        models.load("quest-novice"), envs.Quest(3, 8), TreePO(), steps=1, prompts=3, tries=4, limits=QUEST
    )
    record = next(run)
    assert record.signal_share == 1.0 and len(record.episodes) == 12
    assert any(len(e.path) > 1 for e in record.episodes)
    batch, logp = random_batch(5)
    batch = batch.set(advantages=GRPO().advantages(batch))
    mine, parent = (value_and_grad(a, batch, logp) for a in (TreePO(), DAPO()))
    assert mine[0] == parent[0] and torch.equal(mine[1], parent[1])


# --- ARPO -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("trees", "arpo-branch"))
def test_branch_oracle(case):
    arpo = ARPO(base=case.hyper["branch_probability"], slope=case.hyper["entropy_weight"])
    case.meets([arpo.chance(rise) for rise in case.inputs["delta_entropy"]], case.outputs["p_branch"])


@pytest.mark.parametrize("case", cases("trees", "arpo-entropy"))
def test_entropy_oracle(case):
    """The release's sum over the likeliest tokens; this class takes the exact mean, on the same scale."""
    logp, vocab = f64(case.inputs["logprobs"]), case.hyper["vocab"]
    entropy = -(logp.exp() * logp).sum()
    case.meets(entropy, case.outputs["entropy"])
    case.meets(entropy / math.log(vocab), case.outputs["normalised_hand"])


@pytest.mark.parametrize("case", cases("trees", "arpo-hard"))
def test_hard_oracle(case):
    """Three tries of three tokens: 0 and 1 part at the third, 2 at the second."""
    adv = case.tensor("adv")
    tokens = torch.tensor([[5, 6, 7], [5, 6, 8], [5, 9, 7]])
    numbers = beginnings(tokens, torch.zeros(3).long())
    same = [[[j for j in range(3) if numbers[j, t] == numbers[i, t]] for t in range(3)] for i in range(3)]
    assert same == case.inputs["shared_with"]
    scale = float(adv.std())
    rewards = torch.zeros(3, 3).double()
    rewards[:, 0] = adv
    batch = by_hand(torch.ones(3, 3), tokens=tokens, rewards=rewards)
    got = ARPO(hard=True).advantages(batch) * (scale + 1e-6)
    case.meets(got, case.outputs["advantages"])


def test_hard_without_shared_beginnings_is_grpo():
    batch, _ = random_batch(6)
    batch = batch.set(tokens=torch.arange(batch.mask.numel()).view(batch.mask.shape))
    torch.testing.assert_close(ARPO(hard=True).advantages(batch), GRPO().advantages(batch))
    assert torch.equal(ARPO().advantages(batch), GRPO().advantages(batch))


def quest_run(arpo, tries=6):
    return train(
        models.load("quest-novice"), envs.Quest(3, 8), arpo, steps=1, prompts=4, tries=tries, limits=QUEST
    )


@pytest.mark.parametrize("base", [0.0, 0.5, 1.0])
def test_tries_branch_after_answers_only(base):
    """All tries are used; at base 0 none shares more than by chance, at 1 half of them share whole turns."""
    run = quest_run(ARPO(base=base, slope=0.0))
    calls, sampler = [], run._sampler()
    ask = sampler.branch

    def noted(episodes, turns, tries):
        calls.extend(turns)
        return ask(episodes, turns, tries)

    sampler.branch = noted
    groups = by_group(ARPO(base=base, slope=0.0).plan(sampler))
    assert [len(g) for g in groups] == [6] * 4
    assert len(calls) == {0.0: 0, 1.0: 12}.get(base, len(calls)) and all(k >= 1 for k in calls)
    assert base != 0.5 or 0 < len(calls) <= 12


def test_a_rise_of_entropy_makes_branches_likelier():
    episode = quest_run(ARPO())._sampler().rollout([1], 1)[0]
    flat = np.ones(len(episode), np.float32)
    rising = np.where(episode.turn > 0, 4.0, 1.0).astype(np.float32)
    rng = np.random.default_rng(0)
    arpo = ARPO(base=0.2, slope=0.5)
    counts = [sum(len(arpo.branchings(episode, h, 1, rng)) for _ in range(300)) for h in (flat, rising)]
    later = episode.turns - 1
    rise = 3 / math.log(len(episode.tokenizer))
    for count, p in zip(counts, (0.2, 0.2 + 0.5 * rise)):
        assert count / (300 * later) == pytest.approx(p, abs=4 * math.sqrt(0.25 / (300 * later)))


def test_what_a_try_is_paid():
    calc = models.load("calc-novice")
    right = (
        train(calc, envs.Calc(failing=1.0), ARPO(), steps=1, prompts=2, tries=2)
        ._sampler()
        .demonstrate([1])[0]
    )
    arpo = ARPO(tools=("py", "abacus"))
    assert (
        arpo.pay(right) == 1.1
        and ARPO().pay(right) == 1.0
        and ARPO(tools=("py", "spade")).pay(right) == 1.0
    )
    wrong = leaf(terminated=True)
    assert arpo.pay(wrong) == 0.0 and arpo.pay(leaf()) == -1.0
    assert arpo.pay(leaf(terminated=True, success=True, infos=[{"malformed": True}])) == -1.0
    assert arpo.reward(collate([right])).reward.tolist() == pytest.approx([1.1])
