"""Pictures: text, ids and vectors; a policy with eyes samples, scores, learns and is saved like any other."""

import random

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from arl_mini import collate, pictures
from arl_mini.envs.base import Env, Reply, act
from arl_mini.imitate import imitate
from arl_mini.models import PatchEncoder, TinyConfig, TinyLM, load, save, score
from arl_mini.models.patches import unpack
from arl_mini.models.tokenizer import build, decode, encode, pieces
from arl_mini.rollout import Limits, demonstrate, rollout
from tests.core.drawn import CHECKED

TOKENIZER = build(" look left right 0 1 2")
places = st.integers(0, 31)
patches = st.builds(
    lambda r, c, p: f"<patch {r} {c} {p}>", places, places, st.text("01234567", min_size=16, max_size=16)
)
texts = st.lists(
    patches | st.text() | st.sampled_from([" look", "<end>", "<patch 0", "<patch 32 1 0000000000000000>"])
)


def sees(seed=0, eyes=24) -> TinyLM:
    return TinyLM(
        TinyConfig(len(TOKENIZER), width=32, layers=2, heads=2, hidden=48, eyes=eyes), TOKENIZER, seed
    )


class Peep(Env):
    """A bright bar on the left or the right; another picture comes back for every look; any side may be told."""

    words = " look left right"

    def reset(self, seed):
        rng = random.Random(f"peep {seed}")
        self.side, self.seen, self.most = rng.choice(["left", "right"]), 0, 2 + seed % 2
        self.bar = np.zeros((8, 8), int)
        self.bar[:, 0 if self.side == "left" else 7] = rng.randint(3, 7)
        return pictures.write(self.bar)

    def step(self, said):
        self.seen += 1
        right = said == f" {self.side}<end>"
        if self.seen < self.most and not right:
            return Reply(" look" + pictures.write(self.bar[:4, 4:], at=(3, self.seen)))
        return Reply(reward=float(right), done=True, info={"success": right})

    def expert(self):
        return act("look") if self.seen == 0 else f" {self.side}<end>"


@CHECKED
@given(texts.map("".join))
@example("<patch 00 1 0000000000000000><patch 1 31 7654321076543210>")
def test_any_text_with_pictures_comes_back_and_a_patch_is_one_token(text):
    ids = encode(TOKENIZER, text)
    assert decode(TOKENIZER, list(ids)) == text
    assert sum(i >= pictures.MARK for i in ids) == len(pictures.read(text))
    assert max(ids, default=0) < 2**63


def test_to_another_tokenizer_a_patch_is_text():
    other = build()
    other.pictures = False  # as of a model from elsewhere
    assert max(encode(other, pictures.write(np.ones((4, 4), int)))) < len(other)


def test_a_picture_is_cut_into_its_patches_with_their_places():
    picture = np.random.default_rng(0).integers(8, size=(8, 12))
    found = pictures.read(" red" + pictures.write(picture, at=(5, 2)) + "<end>")
    assert [(r, c) for r, c, _ in found] == [(5, 2), (5, 3), (5, 4), (6, 2), (6, 3), (6, 4)]
    for r, c, patch in found:
        top, left = 4 * (r - 5), 4 * (c - 2)
        assert (patch == picture[top : top + 4, left : left + 4]).all()
    assert pieces(pictures.write(picture)) == ["\n"] * 6  # no words for a vocabulary
    assert (pictures.assemble(pictures.write(picture, at=(5, 2))) == picture).all()
    with pytest.raises(ValueError, match="no patch in ' red'"):
        pictures.assemble(" red")


def test_an_id_unpacks_to_the_pixels_and_the_place():
    picture = np.random.default_rng(1).integers(8, size=(8, 8))
    pixels, at = unpack(torch.tensor(encode(TOKENIZER, pictures.write(picture, at=(30, 7)))))
    assert at.tolist() == [[30, 7], [30, 8], [31, 7], [31, 8]]
    assert torch.equal((pixels * 7).round()[3].int(), torch.from_numpy(picture[4:, 4:]).int())


@pytest.mark.parametrize(
    "picture, at, message",
    [(np.zeros((4, 6), int), (0, 0), "multiples of 4"), (np.zeros((0, 4), int), (0, 0), "multiples of 4"),
     (np.full((4, 4), 8), (0, 0), "grey levels 0 to 7"), (np.zeros((4, 4)), (0, 0), "hint: `grey` makes them"),
     (np.zeros((8, 4), int), (31, 0), "leave the 32×32 places")],
)  # fmt: skip
def test_what_is_no_picture_is_named(picture, at, message):
    with pytest.raises(ValueError, match=message):
        pictures.write(picture, at)


def test_grey_levels():
    assert pictures.grey([-1, 0, 8, 16, 99], most=16).tolist() == [0, 0, 4, 7, 7]


def test_a_model_without_eyes_says_so():
    with pytest.raises(ValueError, match="a picture came to a model without eyes; hint: TinyLM.new"):
        rollout(sees(eyes=0), Peep(), [0])
    with pytest.raises(ValueError, match="a Llama has no eyes"):
        sees().to_hf()


@pytest.mark.parametrize("tries", [1, 4])
def test_engine_and_scoring_agree_on_ragged_rows_with_pictures(tries):
    policy = sees()
    played = rollout(policy, Peep(), range(12), tries, limits=Limits(5, 3, 64))
    assert {e.turns for e in played} == {2, 3} and len({len(e) for e in played}) > 2
    assert all(any(t >= pictures.MARK for t in e.tokens[e.turn >= 0]) for e in played if e.turns > 1)
    batch = collate(played)
    assert (score(policy, batch).logp - batch.old_logp).abs().max() < 1e-5
    alone = torch.cat([score(policy, collate([e])).logp[0] for e in played])
    assert (
        alone - batch.old_logp[torch.arange(batch.tokens.shape[1]) < batch.lengths[:, None]]
    ).abs().max() < 1e-5


def test_pixels_and_places_matter_and_have_a_gradient():
    policy, picture = sees(), np.random.default_rng(0).integers(8, size=(4, 4))
    other = picture.copy()
    other[2, 1] = 7 - other[2, 1]
    rows = [
        pictures.write(picture),
        pictures.write(other),
        pictures.write(picture, at=(0, 1)),
        pictures.write(picture, at=(1, 0)),
    ]
    logits = policy(torch.tensor([(4, *encode(TOKENIZER, row)) for row in rows]))[:, -1]
    assert all((logits[0] - logits[k]).abs().max() > 1e-4 for k in (1, 2, 3))
    logits.logsumexp(-1).sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in policy.eyes.parameters())


def test_the_encoder_takes_patches_of_any_shape_with_16_pixels():
    eyes = PatchEncoder(width=8, hidden=5)
    patch, place = torch.rand(3, 2, 8), torch.tensor([[0, 0], [4, 31], [0, 0]])
    assert eyes(patch, place).shape == (3, 8)
    assert torch.equal(eyes(patch, place), eyes(patch.view(3, 4, 4), place))
    assert not torch.equal(eyes.first, PatchEncoder(8, 5, seed=1).first)


def test_what_it_saw_can_be_learned_and_is_saved(tmp_path):
    policy = sees()
    shown = demonstrate(policy, Peep(), range(64), lambda env: env.expert())
    losses = list(imitate(policy, shown, steps=60, rows=32, lr=1e-2))
    assert losses[0] > 1 and losses[-1] < 0.05  # blind, it would not get below ln 2 / 6 ≈ 0.12
    save(policy, tmp_path / "one.safetensors", {})
    again = load(tmp_path / "one.safetensors")
    played, replayed = (rollout(p, Peep(), range(100, 132)) for p in (policy, again))
    assert np.mean([e.success for e in played]) > 0.9
    assert [e.text for e in played] == [e.text for e in replayed]
    assert again.config.eyes == 24 and "eyes.first" in again.state_dict()


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor])
def test_ids_may_be_of_any_kind(kind):
    text = " look<patch 1 2 0123456701234567> left"
    assert decode(TOKENIZER, kind(encode(TOKENIZER, text))) == text and decode(TOKENIZER, kind([])) == ""
