"""Episodes of several contexts: what each shows, what is shared, and that the trainer sees what the engine
saw."""

import math

import pytest
import torch

from arl_mini import GRPO, collate, models, train
from arl_mini.capabilities.memory import SegmentMemory, SharedGRPO, contexts, course, shared
from arl_mini.envs import Notes
from arl_mini.models import TinyLM, tokenizer
from arl_mini.rollout import Limits


@pytest.fixture(scope="module")
def policy() -> TinyLM:
    """A fresh model: what it says is noise, so notes are mostly malformed; one in a few is not."""
    return TinyLM.new("nano", tokenizer.build(course().words), 0)


def test_a_context_shows_what_the_world_said_last_and_nothing_before_it(policy):
    env = SegmentMemory(Notes(12))
    parts = contexts(policy, env, [3, 4], 2, seed=1)
    assert len(parts) == 4 and {len(part) for part in parts} == {4}
    for number, part in enumerate(parts):
        assert {e.group for e in part} == {number // 2}
        for before, after in zip(part, part[1:]):
            assert after.text.startswith(f"<user>{before.infos[-1]['fresh']}<bot>")
            assert not before.truncated and not before.terminated and after.turns == 1
        assert part[-1].terminated or part[-1].truncated


def test_a_row_does_not_depend_on_its_neighbours(policy):
    env = SegmentMemory(Notes(12))
    alone = contexts(policy, env, [4], 1, seed=1)[0]
    among = contexts(policy, env, [3, 4], 1, seed=1)[1]
    assert [e.text for e in alone] == [e.text for e in among]


def test_the_trainer_scores_each_context_as_the_engine_did(policy):
    batch = collate(shared(contexts(policy, SegmentMemory(Notes(12)), range(4), 2)))
    with torch.no_grad():
        logp = models.score(policy, batch).logp
    assert (logp - batch.old_logp).abs().max() < 1e-5


def test_all_contexts_share_the_reward_and_weights_of_an_episode_sum_to_one(policy):
    parts = contexts(policy, SegmentMemory(Notes(16)), range(3), 2)
    rows = shared(parts)
    for number, part in enumerate(parts):
        mine = [row for row in rows if row.path == (number,)]
        assert sum(row.weight for row in mine) == pytest.approx(1) and len(mine) == len(part)
        assert {row.reward for row in mine} == {sum(e.reward for e in part)}
        assert all(row.rewards[row.mask > 0][-1] == row.reward for row in mine)
        assert {row.success for row in mine} == {part[-1].success}


def ragged(policy, rewards):
    """One group of episodes with 1, 2, 3, … contexts and these rewards, as a batch."""
    parts = contexts(policy, SegmentMemory(Notes(16)), [5], len(rewards))
    cut = [part[: number + 1] for number, part in enumerate(parts)]
    batch = collate(shared(cut))
    number = torch.tensor([e.path[0] for e in batch.episodes])
    last = (
        torch.arange(batch.tokens.shape[1])
        == (batch.mask * torch.arange(batch.tokens.shape[1])).argmax(1)[:, None]
    )
    return batch.set(rewards=torch.tensor(rewards)[number][:, None] * last), number


def test_the_advantage_is_the_z_score_over_episodes_shared_out_by_weight(policy):
    rewards = [1.0, 0.0, 0.5, 0.0]
    batch, number = ragged(policy, rewards)
    mean = sum(rewards) / 4
    std = math.sqrt(sum((r - mean) ** 2 for r in rewards) / 3)
    adv = SharedGRPO().advantages(batch)
    for row, i in enumerate(number.tolist()):
        expected = (rewards[i] - mean) / (std + 1e-6) / (i + 1) * len(batch) / 4
        assert torch.allclose(adv[row][batch.mask[row] > 0], torch.tensor(expected), atol=1e-5)
        assert adv[row][batch.mask[row] == 0].abs().sum() == 0
    weighed = [
        sum(float(adv[r].max() + adv[r].min()) for r in (number == i).nonzero()[:, 0]) for i in range(4)
    ]
    assert sum(weighed) == pytest.approx(0, abs=1e-4)  # an episode counts once, however many contexts it took


def test_equal_rewards_teach_nothing_and_one_context_each_is_grpo(policy):
    batch, _ = ragged(policy, [1.0, 1.0, 1.0])
    assert SharedGRPO().advantages(batch).abs().max() == 0
    first = collate(shared([part[:1] for part in contexts(policy, SegmentMemory(Notes(16)), [5, 6], 4)]))
    last = (
        torch.arange(first.tokens.shape[1])
        == (first.mask * torch.arange(first.tokens.shape[1])).argmax(1)[:, None]
    )
    first = first.set(rewards=torch.arange(8.0)[:, None] * last)
    assert torch.allclose(SharedGRPO().advantages(first), GRPO().advantages(first), atol=1e-5)


def test_a_run_trains_on_contexts(policy):
    learner, env = policy.copy(), SegmentMemory(Notes(8))
    algorithm = SharedGRPO(policy=learner, env=env, limits=Limits(8, 8, 48))
    run = train(learner, env, algorithm, steps=1, prompts=2, tries=3)
    record = next(run)
    assert len(record.episodes) == 2 * 3 * 3 and math.isfinite(record.loss)
