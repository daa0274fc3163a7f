"""Perception: rewards for looks and for curiosity, twins in two views, what is done to pictures."""

import numpy as np
import pytest
import torch

from arl_mini import collate, pictures
from arl_mini.algorithms import GRPO
from arl_mini.capabilities.perception import (
    Curious, Grounded, PicturePAPO, ViewConsistency, consistent, curiosity, ground_reward, reliance, tool_calls,
)  # fmt: skip
from arl_mini.envs import Glimpse, act
from arl_mini.envs.glimpse import MIRROR
from arl_mini.experiments.watched import planned
from arl_mini.models import TinyLM, tokenizer
from arl_mini.models.tokenizer import END
from arl_mini.rollout import Limits, demonstrate
from arl_mini.train import train

POLICY = TinyLM.new("nano", tokenizer.build(Glimpse.words), 0, eyes=8)
LOOKS = Glimpse(digits=2, tools=("look",))


def said(env: Glimpse, *turns: str):
    """One episode in which these turns are said."""
    left = list(turns)
    (episode,) = demonstrate(POLICY, env, [3], lambda e: left.pop(0), turns=len(turns))
    return episode


def test_a_look_that_lands_is_paid_beside_the_answer():
    env = LOOKS.clone()
    env.reset(3)
    (r, c), away = env.places[env.asked], (0 if env.places[env.asked][0] > 2 else 4)
    answer, wrong = env.answer + END, f" {(int(env.answer) + 1) % 10}{END}"
    rows = [said(LOOKS, act(f"look {r} {c}"), answer), said(LOOKS, act(f"look {r} {c}"), wrong),
            said(LOOKS, act(f"look {away} {c}"), answer), said(LOOKS, wrong)]  # fmt: skip
    assert [ground_reward(e) for e in rows] == [1, 1, 0, 0] and [tool_calls(e) for e in rows] == [1, 1, 1, 0]
    batch = Grounded(bonus=0.5).reward(collate(rows))
    assert batch.reward.tolist() == [1.5, 0.5, 1.0, 0.0]
    assert (batch.rewards[:, :-1][batch.mask[:, :-1] == 0] == 0).all()


def test_curiosity_is_the_formula_and_fades():
    used = torch.tensor([1, 0, 0, 0, 0, 0, 0, 0, 0, 0] + [1, 1, 1, 1, 0] * 2)
    group = torch.tensor([7] * 10 + [2] * 10)
    expected = [0.2] + [0.0] * 19  # rate 0.1 in the first group, 0.8 in the other
    assert curiosity(used, group, 0.3).tolist() == pytest.approx(expected)
    assert curiosity(torch.zeros(4), torch.zeros(4), 0.3).sum() == 0


def test_curious_pays_few_calls_and_charges_for_many():
    env = Glimpse(tools=("look", "count"), turns=6)
    env.reset(3)
    answer = env.answer + END
    count = act("count")
    rows = [said(env, count, answer), said(env, count, count, count, answer)] + [said(env, answer)] * 8
    batch = collate(rows)
    paid = Curious(bonus=0.5, least=0.3, price=0.05, most=1).reward(batch.set(group=torch.zeros(10).long()))
    bonus = 0.5 * (0.3 - 0.2)
    assert paid.reward.tolist() == pytest.approx([1 + bonus, 1 + bonus - 0.1] + [1.0] * 8)


def test_twins_are_paid_for_opposite_answers():
    side = Glimpse("side", digits=2)
    left, right, none, same = (
        said(side, f" {words}{END}") for words in ("7 left 5", "5 left 7", "7", "5 left 5")
    )
    assert consistent(left, right) and consistent(right, left)
    assert not any(consistent(a, b) for a, b in ((left, left), (none, none), (none, left), (same, same)))
    rows = [left, left, right, left]  # twins: 0 and 2, 1 and 3
    batch = collate(rows)
    paid = ViewConsistency(bonus=0.5).reward(batch).reward - batch.reward
    assert paid.tolist() == [0.5, 0.0, 0.5, 0.0]


def test_both_views_of_a_task_are_tried():
    run = train(
        POLICY.copy(),
        Glimpse("side", digits=2),
        ViewConsistency(),
        steps=1,
        prompts=4,
        tries=3,
        limits=Limits(3, 1, 64),
    )
    (record,) = run
    seeds = [e.seed for e in record.episodes]
    assert len(seeds) == 12 and [s + MIRROR for s in seeds[:6]] == seeds[6:]
    assert [e.pair for e in record.episodes] == [0, 1, 2, 3, 4, 5] * 2 and len(
        {e.group for e in record.episodes}
    ) == 4


def test_without_bonus_they_are_grpo():
    side = Glimpse("side", digits=2)
    batch = collate([said(side, f" {word}{END}") for word in ("7 left 5", "5 left 7")] * 2).set(
        group=torch.tensor([0, 0, 1, 1])
    )
    for algorithm in (Grounded(bonus=0), Curious(bonus=0), ViewConsistency(bonus=0)):
        assert torch.equal(algorithm.advantages(algorithm.reward(batch)), GRPO().advantages(batch))


def test_copies_lack_patches_and_nothing_else():
    batch, _ = planned(
        PicturePAPO(blank=0.5), POLICY, Glimpse(hint=0.7), seed=0, prompts=8, tries=4, limits=Limits(3, 1, 64)
    )
    rows = {e.pair: e for e in batch.episodes if not e.blanked}
    lost = 0
    for copy in (e for e in batch.episodes if e.blanked):
        row = rows[copy.pair].tokens
        changed = row != copy.tokens
        assert (row[changed] >= pictures.MARK).all() and (
            copy.tokens[changed] == POLICY.tokenizer.pad_token_id
        ).all()
        lost += changed.sum()
    assert 0.3 < lost / (32 * 4) < 0.7


def test_reliance():
    assert reliance(0.3, 0.3, 0.1) == 0 and reliance(1.0, 0.1, 0.1) == pytest.approx(1)
    with pytest.raises(ValueError, match="chance must be in"):
        reliance(1, 0, 1)


# --- what is done to pictures -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_iou_counts_pixels(seed):
    rng = np.random.default_rng(seed)
    boxes = []
    for _ in range(2):
        (left, right), (top, bottom) = (np.sort(rng.integers(0, 12, 2)) for _ in range(2))
        boxes.append((int(left), int(top), int(right), int(bottom)))
    painted = []
    for left, top, right, bottom in boxes:
        canvas = np.zeros((12, 12), bool)
        canvas[top:bottom, left:right] = True
        painted.append(canvas)
    both, either = (painted[0] & painted[1]).sum(), (painted[0] | painted[1]).sum()
    assert pictures.common(*boxes) == both
    assert pictures.iou(*boxes) == pytest.approx(both / either if either else 0.0)
    assert pictures.iou(*boxes) == pictures.iou(*boxes[::-1])


@pytest.mark.parametrize(
    "box", [(2, 1, 5, 6), (-2, -1, 3, 2), (9, 8, 14, 15), (-5, 0, -2, 3), (-1, -1, 13, 13)]
)
def test_a_crop_has_its_size_and_is_black_beyond_the_border(box):
    picture = np.arange(1, 12 * 10 + 1).reshape(12, 10)
    left, top, right, bottom = box
    cut = pictures.crop(picture, box)
    assert cut.shape == (bottom - top, right - left)
    for y in range(bottom - top):
        for x in range(right - left):
            inside = 0 <= top + y < 12 and 0 <= left + x < 10
            assert cut[y, x] == (picture[top + y, left + x] if inside else 0)


def test_look_mark_and_shrink():
    picture = np.arange(24 * 24).reshape(24, 24)
    assert (pictures.look(picture, 2, 3) == picture[8:16, 12:20]).all()
    drawn = pictures.mark(picture, (4, 6, 9, 10), -1)
    assert (drawn == -1).sum() == 5 * 4 - 3 * 2 and (picture >= 0).all()
    small = pictures.shrink(picture, 3)
    assert small.shape == (8, 8) and small[1, 2] == picture[3:6, 6:9].mean()
    with pytest.raises(ValueError, match="cannot shrink 24×24 pixels by 5"):
        pictures.shrink(picture, 5)
    with pytest.raises(ValueError, match="has nothing in it"):
        pictures.crop(picture, (3, 3, 3, 5))
