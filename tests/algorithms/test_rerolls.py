"""VinePPO, PSGPO, PF-PPO: what their plans make of episodes, against a sampler whose futures are known; what
they learn."""

import numpy as np
import pytest
import torch

from arl_mini import envs, evaluate, models
from arl_mini.algorithms import PFPPO, PPO, PSGPO, VAPO, LitePPO, ReinforcePlusPlus, VinePPO
from arl_mini.algorithms.base import Sampler
from arl_mini.algorithms.rerolls import (
    judge_steps,
    measured,
    step_advantages,
    step_ends,
    token_starts,
    turn_starts,
)
from arl_mini.batch import Episode, collate
from arl_mini.rollout import Limits
from arl_mini.train import train
from tests.algorithms.rows import by_hand
from tests.core.drawn import close
from tests.oracles.reading import cases


def episode(turns: list[int], reward: float = 0.0, seed: int = 0, forced: int = 2) -> Episode:
    """Turns of so many sampled tokens, each answered by `forced` tokens but the last; tokens are 0, 1, 2,
    …"""
    mask, turn = [0] * 3, [-1] * 3
    for k, n in enumerate(turns):
        mask, turn = mask + [1] * n + [0] * forced, turn + [k] * (n + forced)
    length = len(mask) - forced
    mask, turn = np.array(mask[:length], np.float32), np.array(turn[:length])
    rewards = np.zeros(length, np.float32)
    rewards[-1] = reward
    tokens = np.arange(length)
    return Episode(tokens, mask, turn, np.zeros_like(mask), rewards, seed=seed, success=reward > 0)


class Known:
    """Plays the run's part: from position p of any episode, try k succeeds where k < good(seed, p)."""

    def __init__(self, good, tried=()):
        self.good, self.asked, self.rng = good, [], np.random.default_rng(0)
        self.sampler = Sampler(
            1, 1, lambda n: [0], lambda seeds, tries: list(tried), rng=self.rng, fork=self.fork
        )

    def fork(self, episodes, positions, tries):
        self.asked.append([(e.seed, p) for e, p in zip(episodes, positions, strict=True)])
        assert all(e.mask[p] == 1 for e, p in zip(episodes, positions))
        return [
            episode([p], float(k < self.good(e.seed, p)), e.seed)
            for e, p in zip(episodes, positions) for k in range(tries)
        ]  # fmt: skip


# --- steps ------------------------------------------------------------------------------------------------


def test_where_steps_begin_and_end():
    e = episode([2, 1, 3])
    assert turn_starts(e).tolist() == [3, 7, 10] and step_ends(e, turn_starts(e)).tolist() == [4, 7, 12]
    assert token_starts(e).tolist() == step_ends(e, token_starts(e)).tolist() == [3, 4, 7, 10, 11, 12]


@pytest.mark.parametrize("starts", [[], [4], [3, 3], [7, 3]])
def test_steps_must_cover_what_was_sampled(starts):
    with pytest.raises(ValueError, match="expected rising positions from 3"):
        measured(Known(lambda s, p: 0).sampler, [episode([2, 1])], lambda e: np.array(starts), 2)


@pytest.mark.parametrize("case", [c for c in cases("ppo", "vineppo_step") if "truncated" not in c.id])
def test_step_advantages_oracle(case):
    values = np.array([v for v in case.inputs["mc_values"] if v is not None])
    case.meets(step_advantages(np.array(case.inputs["step_rewards"]), values), case.outputs["advantages"])


# --- VinePPO ----------------------------------------------------------------------------------------------


def test_values_are_the_share_of_tries_that_succeed():
    """V of each step at all its tokens; equal prefixes of one task are asked once; another task's are not
    shared."""
    tried = [episode([2, 1, 3], 1.0), episode([2, 1, 3]), episode([2, 1, 3], seed=5)]
    known = Known(lambda seed, p: p % 4 if seed == 0 else 4)
    first, second, third = measured(known.sampler, tried, turn_starts, 4)
    assert known.asked == [[(0, 3), (0, 7), (0, 10), (5, 3), (5, 7), (5, 10)]]
    wanted = [0, 0, 0, 3 / 4, 3 / 4, 0, 0, 3 / 4, 0, 0, 2 / 4, 2 / 4, 2 / 4]
    assert first.values.tolist() == second.values.tolist() == wanted
    assert third.values.tolist() == third.mask.tolist()


@pytest.mark.parametrize("steps", [turn_starts, token_starts])
def test_advantages_telescope(steps):
    """Σ over steps = R − V(s_0); inside a step all tokens have the same; forced tokens have none; then
    whitened."""
    tried = [episode([2, 1, 3], 1.0), episode([4], 0.0, seed=1), episode([1, 1], 1.0, seed=2)]
    algorithm = VinePPO(rolls=8, steps=steps)
    known = Known(lambda seed, p: (3 * p + seed) % 9, tried)
    batch = collate(algorithm.plan(known.sampler))
    A = algorithm.advantages(batch)
    raw = []
    for e, row in zip(batch.episodes, A):
        starts = steps(e)
        each = step_advantages(np.add.reduceat(e.rewards, starts), e.values[starts])
        assert each.sum() == pytest.approx(e.reward - e.values[starts[0]])
        raw.append(
            np.concatenate(
                [[a] * int(e.mask[s:t].sum()) for a, s, t in zip(each, starts, [*starts[1:], len(e)])]
            )
        )
        assert bool((row[: len(e)][torch.tensor(e.mask) == 0] == 0).all())
    raw = np.concatenate(raw)
    got = A[batch.mask > 0].numpy()
    assert close(got, (raw - raw.mean()) / (raw.std(ddof=1) ** 2 + 1e-8) ** 0.5, 1e-5)


@pytest.mark.parametrize("case", cases("ppo", "vineppo_token"))
def test_token_advantages_oracle(case):
    """Its last token, the end of the text, copies the step before; here it is a token of that step."""
    steps = [*case.inputs["step_of_token"], case.inputs["step_of_token"][-1]]
    values = np.array(case.inputs["mc_values"][:-1])
    each = step_advantages(np.array(case.inputs["step_rewards"]), values)
    starts = [3 + steps.index(k) for k in range(len(values))]
    e = episode([len(steps)], 1.0)
    e.values = np.concatenate([[0] * 3, values[steps]]).astype(np.float32)
    A = VinePPO(steps=lambda e: np.array(starts)).advantages(collate([e]))[0, 3:].double()
    wanted = torch.tensor(case.outputs["token_advantages"], dtype=torch.float64)
    case.meets(each[steps], wanted)
    assert close(A, (wanted - wanted.mean()) / (wanted.var() + 1e-8).sqrt(), 1e-5)


def test_a_value_is_unbiased():
    """The mean over many re-rolls of a live Chain episode comes near the share that a fresh rollout succeeds
    at."""
    policy, env, limits = models.load("chain-atoms"), envs.Chain((1, 3)), Limits(12, 1, 48)
    run = train(policy, env, VinePPO(rolls=60), steps=1, prompts=6, tries=1, limits=limits, seed=3)
    tried = run.algorithm.plan(run._sampler())
    fresh = run._sampler().rollout([e.seed for e in tried], 60)
    shares = np.array([e.success for e in fresh]).reshape(6, 60).mean(1)
    values = np.array([e.values[turn_starts(e)[0]] for e in tried])
    assert np.abs(values - shares).max() < 4 * (2 * 0.25 / 60) ** 0.5


# --- PSGPO ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("ppo", "psgpo_binary_search"))
def test_binary_search_oracle(case):
    feasible, n = case.inputs["prefix_feasible"], case.hyper["n_lines"]
    known = Known(
        lambda seed, p: 3 if feasible[(p - 3) - 1] else 0
    )  # before token p, p − 3 steps are written
    (judged,) = judge_steps(known.sampler, [episode([n])], token_starts, 3)
    case.meets(judged.verdicts[3:], case.outputs["labels"])
    assert len(known.asked) <= int(np.ceil(np.log2(n + 1)))


@pytest.mark.parametrize("steps", [1, 2, 5, 8])
def test_binary_search_is_a_linear_search(steps):
    """For every place where it can go wrong; a success is never asked about."""
    tried = [episode([steps], seed=lost) for lost in range(steps)] + [episode([steps], 1.0, seed=99)]
    known = Known(lambda lost, p: int(p - 3 <= lost))
    judged = judge_steps(known.sampler, tried, token_starts, 2)
    for lost, e in enumerate(judged[:-1]):
        assert e.verdicts[3:].tolist() == [1.0 if k < lost else -1.0 for k in range(steps)]
    assert judged[-1].verdicts[3:].tolist() == [1.0] * steps and np.isnan(judged[-1].verdicts[:3]).all()
    assert len(known.asked) <= int(np.ceil(np.log2(steps + 1))) and all(
        s != 99 for ask in known.asked for s, _ in ask
    )


@pytest.mark.parametrize("case", cases("ppo", "psgpo_reward"))
def test_psgpo_reward_oracle(case):
    h, mask, ends = case.hyper, case.tensor("mask"), case.tensor("line_end_mask") > 0
    verdicts = case.tensor("prm_score_at_line_end").masked_fill(~ends, torch.nan)
    paid = torch.zeros_like(mask)
    last = mask.sum(1).long() - 1
    paid[torch.arange(len(mask)), last] = case.tensor("unit_test_reward")
    passed = case.tensor("unit_test_reward") > 0
    zero = torch.zeros_like(mask)
    batch = by_hand(
        mask,
        rewards=paid,
        verdicts=verdicts,
        success=passed,
        old_logp=case.tensor("kl_per_token"),
        ref_logp=zero,
    )
    algorithm = PSGPO(weight_fail=h["lambda_fail"], weight_pass=h["lambda_pass"])
    case.meets(algorithm.reward(batch).rewards, case.outputs["token_rewards_no_kl"])
    with_kl = PSGPO(weight_fail=h["lambda_fail"], weight_pass=h["lambda_pass"], beta=h["kl_coef"]).reward(
        batch
    )
    case.meets(with_kl.rewards, case.outputs["token_rewards"])
    dense = (algorithm.reward(batch).rewards - paid).sum(1).abs()
    assert bool((dense <= torch.where(passed, h["lambda_pass"], h["lambda_fail"])).all())
    none = PSGPO(weight_fail=0.0, weight_pass=0.0).reward(batch)
    assert torch.equal(none.rewards, paid)


# --- PF-PPO -----------------------------------------------------------------------------------------------


def test_filtration_draws_best_and_worst_of_each_prompt():
    tried = [episode([1], r, seed=g) for g in range(40) for r in (0.2, 1.0, -1.0, 0.4)]
    for e in tried:
        e.group = e.seed
    drawn = PFPPO(draws=3).plan(Known(None, tried).sampler)
    assert len(drawn) == 120 and [e.group for e in drawn] == [g for g in range(40) for _ in range(3)]
    assert {round(e.reward, 3) for e in drawn} == {1.0, -1.0}
    assert 40 < sum(e.reward > 0 for e in drawn) < 80


# --- learning ---------------------------------------------------------------------------------------------

CHAIN = dict(steps=20, prompts=16, tries=8, lr=5e-4, minibatches=2, limits=Limits(12, 1, 48))
LEARNERS = [
    PPO(), VAPO(alpha=1.0, critic_steps=3), LitePPO(), PFPPO(draws=8), ReinforcePlusPlus(),
    VinePPO(rolls=4, steps=token_starts), PSGPO(rolls=4, steps=token_starts),
]  # fmt: skip


def learned(algorithm, seed: int, **changes) -> tuple[float, float, object]:
    """(held-out success before, after, the run)."""
    policy, env = models.load("chain-atoms"), envs.Chain((1, 3))
    before = evaluate.success(policy, env, limits=CHAIN["limits"]).mean
    run = train(policy, env, algorithm, seed=seed, **(CHAIN | changes))
    for _ in run:
        pass
    return before, evaluate.success(policy, env, limits=CHAIN["limits"]).mean, run


@pytest.mark.parametrize("algorithm", LEARNERS, ids=lambda a: type(a).__name__)
def test_learns(algorithm):
    before, after, _ = learned(algorithm, 0, steps=14)
    assert after > before + 0.08


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", LEARNERS, ids=lambda a: type(a).__name__)
def test_learns_with_three_fresh_seeds(algorithm):
    for seed in (21, 22, 23):
        before, after, _ = learned(algorithm, seed, steps=40)
        assert after > before + 0.25, seed


def test_only_the_critic_learns_while_it_is_warmed_up():
    policy = models.load("chain-atoms")
    start = {k: v.clone() for k, v in policy.state_dict().items()}
    run = train(policy, envs.Chain((1, 3)), VAPO(critic_steps=3), **CHAIN)
    for step, _ in zip(range(4), run):
        same = all(torch.equal(v, start[k]) for k, v in policy.state_dict().items())
        assert same == (step < 3) and float(run.critic.linear.weight.detach().abs().sum()) > 0


def test_a_steered_kl_comes_near_its_target():
    """β falls while the KL is below the target, is saved with the run, and is what the rows of a step
    carry."""
    *_, run = learned(PPO(beta=0.2, target=1.0, horizon=640), 0, steps=3)
    assert run.memory["beta"] < 0.2 and run.state_dict()["memory"] == run.memory
    *_, fixed = learned(PPO(beta=0.2), 0, steps=2)
    assert "beta" not in fixed.memory
