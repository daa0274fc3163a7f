"""Episodes side by side: padding, columns, selections; and the rewards that may be added to them."""

import numpy as np
import pytest
import torch

from arl_mini import ops
from arl_mini.batch import Episode, collate
from arl_mini.rewards import at_end, judged, kl_penalty
from tests.core.stage import TOKENIZER


def episode(length: int, group: int = 0, **more) -> Episode:
    """Two prompt tokens, then sampled ones, the last with reward `length`."""
    at = np.arange(length)
    mask = (at >= 2).astype(np.float32)
    parts = dict(tokens=at + 10, mask=mask, turn=np.where(at < 2, -1, 0), logp=-0.5 * mask, rewards=mask * length * (at == length - 1))
    return Episode(**parts, group=group, tokenizer=TOKENIZER, **more)


def three():
    return [episode(3, 7, truncated=True), episode(5, 7, success=True), episode(4, 9)]


def test_collate_pads_on_the_right():
    batch = collate(three())
    assert batch.tokens.tolist() == [[10, 11, 12, 0, 0], [10, 11, 12, 13, 14], [10, 11, 12, 13, 0]]
    assert batch.mask.tolist() == [[0, 0, 1, 0, 0], [0, 0, 1, 1, 1], [0, 0, 1, 1, 0]]
    assert batch.old_logp.tolist() == [[0, 0, -0.5, 0, 0], [0, 0, -0.5, -0.5, -0.5], [0, 0, -0.5, -0.5, 0]]
    assert batch.turn.tolist() == [[-1, -1, 0, -1, -1], [-1, -1, 0, 0, 0], [-1, -1, 0, 0, -1]]
    assert batch.rewards.tolist() == [[0, 0, 3, 0, 0], [0, 0, 0, 0, 5], [0, 0, 0, 4, 0]]
    assert batch.reward.tolist() == [3, 5, 4]
    assert (batch.group.tolist(), batch.lengths.tolist()) == ([7, 7, 9], [3, 5, 4])
    assert (batch.truncated.tolist(), batch.success.tolist()) == ([True, False, False], [False, True, False])
    assert (batch.tokens.dtype, batch.mask.dtype, len(batch), batch.temperature) == (torch.int64, torch.float32, 3, 1.0)


def test_collate_needs_episodes():
    with pytest.raises(ValueError, match="no episodes to collate; hint: did `keep` or `plan` leave none"):
        collate([])


@pytest.mark.parametrize("index", [torch.tensor([2, 0]), torch.tensor([True, False, True])])
def test_rows_take_every_column_along(index):
    batch = collate(three()).set(values=torch.arange(15.0).view(3, 5), ref_logp=torch.arange(15.0).view(3, 5) + 100)
    part = batch.rows(index)
    order = [2, 0] if index.dtype == torch.long else [0, 2]
    for name, column in vars(batch).items():
        if isinstance(column, torch.Tensor):
            assert torch.equal(getattr(part, name), column[order]), name
    assert part.temperature == batch.temperature and [e.group for e in part.episodes] == [batch.episodes[i].group for i in order]


def test_a_batch_with_other_columns_is_a_copy():
    batch = collate(three())
    other = batch.set(advantages=torch.ones(3, 5))
    assert batch.advantages is None and other.advantages is not None and other.tokens is batch.tokens
    with pytest.raises(TypeError, match="advantage"):
        batch.set(advantage=torch.ones(3, 5))


def test_to_moves_every_column():
    moved = collate(three()).set(values=torch.zeros(3, 5)).to("meta")
    columns = [c for c in vars(moved).values() if isinstance(c, torch.Tensor)]
    assert len(columns) >= 10 and all(c.device.type == "meta" for c in columns)


def test_an_empty_episode_has_no_turns():
    assert (episode(0).turns, len(episode(0)), episode(0).reward) == (0, 0, 0.0)
    assert (episode(2).turns, episode(5).turns) == (0, 1)


# --- rewards ----------------------------------------------------------------------------------------------


def test_at_end_finds_the_last_sampled_token():
    mask = torch.tensor([[0, 1, 0, 1, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 1, 1, 1.0]])
    paid = at_end(torch.tensor([1.0, -2.0, 5.0, 0.5]), mask)
    assert paid.tolist() == [[0, 0, 0, 1, 0], [-2, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0.5]]


def test_kl_penalty_stands_at_sampled_tokens_and_needs_a_reference():
    batch = collate(three())
    with pytest.raises(ValueError, match=r"no ref_logp; hint: give train\(…, ref=policy.copy\(\)\)"):
        kl_penalty(batch, 0.1)
    batch = batch.set(ref_logp=torch.full((3, 5), -0.2))
    wanted = torch.where(batch.mask > 0, torch.tensor(-0.1 * (-0.5 + 0.2)), torch.tensor(0.0))
    assert torch.allclose(kl_penalty(batch, 0.1), wanted)
    ops.discount(batch.rewards + kl_penalty(batch, 0.1), batch.mask, 1.0)  # no reward at a forced token


@pytest.mark.parametrize("verdict", [1, 0.5, True, np.float32(0.25), np.int64(3)])
def test_a_judge_may_answer_any_number(verdict):
    assert judged(three(), lambda e: verdict).tolist() == [float(verdict)] * 3


def test_a_judge_sees_each_episode():
    assert judged(three(), len).tolist() == [3.0, 5.0, 4.0]


@pytest.mark.parametrize("verdict", ["1", None, float("nan"), float("inf"), -float("inf"), [1.0]])
def test_a_judge_that_answers_no_number_is_named(verdict):
    def strict(e):
        return verdict if len(e) == 5 else 1.0

    with pytest.raises(TypeError, match=r"reward function strict returned .* on episode 1; expected a finite number"):
        judged(three(), strict)


def test_a_judge_that_raises_is_an_error_not_a_zero():
    def strict(e):
        return 1 / (len(e) - 4)

    with pytest.raises(RuntimeError, match=r"reward function strict raised ZeroDivisionError.* on episode 2: ") as caught:
        judged(three(), strict)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
