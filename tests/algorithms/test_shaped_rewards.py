"""Posterior-GRPO and Step-GRPO: what they pay, against oracles and by hand."""

from types import SimpleNamespace

import pytest
import torch

from arl_mini import envs, models
from arl_mini.algorithms import GRPO, PosteriorGRPO, StepGRPO, shaping
from arl_mini.batch import Episode, collate
from arl_mini.rollout import demonstrate
from tests.algorithms.rows import by_hand, random_batch, rewarded, value_and_grad
from tests.oracles.reading import cases


@pytest.fixture(scope="module")
def novice():
    return models.load("chain-atoms")


def answers(policy, seed: int, *said: str) -> list[Episode]:
    """Episodes of one Chain task in which these things are said."""
    env = envs.Chain((3, 3))
    return [demonstrate(policy, env, [seed], lambda env, text=text: text)[0] for text in said]


@pytest.mark.parametrize("case", cases("shaping", "pgrpo"))
def test_posterior_oracle(case):
    batch = rewarded(case.inputs["outcome"], case.group, torch.ones(6, 2))
    told = dict(zip(range(6), zip(case.inputs["format"], case.inputs["thinking"])))
    batch = batch.set(episodes=[SimpleNamespace(number=i) for i in range(6)])
    posterior = PosteriorGRPO(
        form=lambda e: float(told[e.number][0]), thinking=lambda e: float(told[e.number][1])
    )
    paid = posterior.reward(batch)
    case.meets(paid.reward, case.outputs["reward"])
    paid = rewarded(case.outputs["reward"], case.group, batch.mask)  # verdicts are float32, the case is not
    case.meets(posterior.advantages(paid)[:, 0], case.outputs["advantages"])


def test_posterior_pays_thoughts_only_behind_a_right_answer(novice):
    env = envs.Chain((3, 3))
    env.reset(5)
    good, (a, b), right = env.expert(), env.steps, env.answer
    wrong = (right + 1) % 10
    said = [good, f" {right}<end>", f"<think> {a} {b}</think> {wrong}<end>", f" {wrong}<end>", f" {right}"]
    batch = PosteriorGRPO().reward(collate(answers(novice, 5, *said)))
    assert batch.reward.tolist() == [
        3.0,
        2.0,
        1.0,
        1.0,
        pytest.approx(1.0),
    ]  # the last one never ended: no reward
    last = (batch.mask.cumsum(1) == batch.mask.sum(1, keepdim=True)) & (batch.mask > 0)
    assert bool((batch.rewards[~last] == 0).all())


def test_posterior_without_thoughts_is_grpo_on_form_and_outcome():
    batch = rewarded([1, 0, 1, 0], [0, 0, 1, 1], torch.ones(4, 3))
    batch = batch.set(episodes=[SimpleNamespace(number=i) for i in range(4)])
    form = [1.0, 1.0, 0.0, 1.0]
    paid = PosteriorGRPO(form=lambda e: form[e.number], thinking=lambda e: 0.0).reward(batch)
    assert paid.reward.tolist() == [2.0, 1.0, 1.0, 1.0]
    plain = rewarded(paid.reward, batch.group, batch.mask)
    assert torch.equal(PosteriorGRPO().advantages(paid), GRPO().advantages(plain))
    contrast = PosteriorGRPO(form=lambda e: 1.0, thinking=lambda e: form[e.number])
    all_right = batch.set(success=torch.ones(4).bool())
    assert (
        float(contrast.advantages(contrast.reward(all_right))[2:].abs().min()) > 0
    )  # all right, yet not all alike


def test_judges_of_written_steps(novice):
    env = envs.Chain((3, 3))
    env.reset(5)
    (a, b), right = env.steps, env.answer
    other = (b + 1) % 10
    said = [env.expert(), f"<think> {a} {other}</think> {right}<end>", f"<think> {a}</think> {right}<end>",
            f" {right}<end>", f"<think> {a} {b}</think> {right}",
            f"<think><think> {a} {b}</think> {right}<end>"]  # fmt: skip
    made = answers(novice, 5, *said)
    assert [shaping.steps_right(e) for e in made][:5] == [1.0, 0.5, 0.5, 0.0, 1.0]
    assert [shaping.steps_ordered(e) for e in made] == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    quest = demonstrate(models.load("quest-novice"), envs.Quest(), [0], lambda env: env.expert())[0]
    with pytest.raises(ValueError, match="no Chain task"):
        shaping.steps_right(quest)


@pytest.mark.parametrize("case", cases("shaping", "stepgrpo-loss"))
def test_step_loss_oracle(case):
    batch = by_hand(case.inputs["mask"], old_logp=case.tensor("old_logp"), ref_logp=case.tensor("ref_logp"),
                    advantages=case.inputs["adv"])  # fmt: skip
    loss, grad = value_and_grad(StepGRPO(beta=case.hyper["beta"]), batch, case.inputs["logp"])
    case.meets(loss, case.outputs["loss"])
    case.meets(grad, case.grads["logp"])


@pytest.mark.parametrize("case", cases("shaping", "stepgrpo-keystep"))
def test_step_matching_oracle(case):
    found = [shaping.match_share(text, case.inputs["key_steps"]) for text in case.inputs["text"]]
    case.meets(found, case.outputs["match_ratio"])


def test_step_reward(novice):
    """1[right] + α k + v; a wrong answer is paid α k too, as in the released code."""
    env = envs.Chain((3, 3))
    env.reset(5)
    (a, b), right = env.steps, env.answer
    said = [
        env.expert(),
        f" {right}<end>",
        f"<think> {a} {b}</think> {(right + 1) % 10}<end>",
        f"<think> {b}</think> {a}",
    ]
    batch = StepGRPO().reward(collate(answers(novice, 5, *said)))
    assert batch.reward.tolist() == pytest.approx([2.1, 1.0, 1.1, 0.05 * (a == b)])


def test_step_without_its_rules_is_on_policy_grpo():
    batch, _ = random_batch(2)
    batch = batch.set(advantages=GRPO().advantages(batch))
    ours, grpo = (value_and_grad(a, batch, batch.old_logp) for a in (StepGRPO(), GRPO(beta=0.04)))
    assert ours[0] == pytest.approx(grpo[0], rel=1e-12)
    torch.testing.assert_close(ours[1], grpo[1])
