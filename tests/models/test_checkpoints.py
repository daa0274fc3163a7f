"""Checkpoints: what is saved comes back; what is damaged, foreign or of another vocabulary is named."""

import json

import pytest
import torch
from safetensors.torch import save_file

from arl_mini import models
from arl_mini.envs import Calc, Chain, Quest, Taste
from arl_mini.models import TinyLM, load, save
from arl_mini.models.checkpoints import folder
from arl_mini.models.tokenizer import build, fingerprint
from tests.core.stage import TOKENIZER, chatty


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "one.safetensors"
    save(chatty(3), path, {"command": "none", "accuracy": 0.5, "words": ["é"]})
    return path


def test_what_is_saved_comes_back(saved):
    policy, again = chatty(3), load(saved)
    assert again.config == policy.config and again.card == {"command": "none", "accuracy": 0.5, "words": ["é"]}
    assert fingerprint(again.tokenizer) == fingerprint(TOKENIZER)
    assert again.tokenizer.encode(" red é 12<end>") == TOKENIZER.encode(" red é 12<end>")
    assert all(torch.equal(a, b) for a, b in zip(policy.parameters(), again.parameters()))
    tokens = torch.arange(30)[None]
    assert torch.equal(policy(tokens), again(tokens))
    assert load(saved, TOKENIZER).tokenizer is TOKENIZER


def test_equal_policies_make_equal_files(saved):
    first = saved.read_bytes()
    for _ in range(5):
        save(chatty(3), saved, {"words": ["é"], "accuracy": 0.5, "command": "none"})
        assert saved.read_bytes() == first


@pytest.mark.parametrize("cut", [0, 4, 100, 0.5, -1])
def test_a_file_that_was_cut_off(saved, cut):
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(len(whole) * cut) if isinstance(cut, float) else cut])
    with pytest.raises(ValueError, match="one.safetensors is no safetensors file, or a damaged one"):
        load(saved)


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"PK\x03\x04 a zip", json.dumps({"a": 1}).encode()])
def test_another_kind_of_file(saved, content):
    saved.write_bytes(content)
    with pytest.raises(ValueError, match="is no safetensors file, or a damaged one"):
        load(saved)


def rewrite(path, change):
    """Saves the file again with other metadata or weights."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        about, weights = dict(file.metadata()), {k: file.get_tensor(k) for k in file.keys()}
    change(about, weights)
    save_file(weights, path, about)


def test_foreign_weights(saved):
    save_file({"model.embed": torch.zeros(2)}, saved, {"format": "pt"})
    with pytest.raises(ValueError, match="holds 'foreign weights', expected 'arl_mini TinyLM 1'; hint: models.HFPolicy"):
        load(saved)
    save_file({"model.embed": torch.zeros(2)}, saved, {"kind": "other 7"})
    with pytest.raises(ValueError, match="holds 'other 7', expected 'arl_mini TinyLM 1'"):
        load(saved)


def test_a_vocabulary_that_was_changed(saved):
    rewrite(saved, lambda about, _: about.update(words=about["words"].replace(" red", " rot")))
    with pytest.raises(ValueError, match="its vocabulary is not the one it was saved with; the file is damaged"):
        load(saved)


def test_weights_that_do_not_fit(saved):
    rewrite(saved, lambda _, weights: weights.update(norm=torch.ones(7)))
    with pytest.raises(ValueError, match=r"(?s)one.safetensors: weights do not fit the shape it names: .*norm"):
        load(saved)
    rewrite(saved, lambda _, weights: weights.pop("norm"))
    with pytest.raises(ValueError, match=r"(?s)weights do not fit the shape it names: .*norm"):
        load(saved)


def test_another_tokenizer_is_named(saved):
    other = build(Quest.words)
    wanted = rf"was trained with tokenizer {fingerprint(TOKENIZER)} \({len(TOKENIZER)} tokens\); got "
    with pytest.raises(ValueError, match=wanted + rf"{fingerprint(other)} \({len(other)} tokens\); hint: use the tokenizer"):
        load(saved, other)


def test_an_unknown_name_lists_the_known_ones(monkeypatch, tmp_path):
    with pytest.raises(FileNotFoundError, match="no checkpoint quest-expert; shipped ones: .*quest-novice"):
        load("quest-expert")
    monkeypatch.setenv("ARL_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="shipped ones: none in"):
        load("quest-novice")
    assert folder() == tmp_path / "checkpoints"


def test_a_writer_that_fails_leaves_what_was_there(saved, monkeypatch):
    before = saved.read_bytes()
    broken = chatty(3)
    monkeypatch.setattr(broken, "state_dict", lambda: {"embed": torch.zeros(1), "twice": object()})
    with pytest.raises(AttributeError):
        save(broken, saved, {})
    assert saved.read_bytes() == before and len(list(saved.parent.iterdir())) == 1


def test_a_card_must_be_plain_data(saved):
    with pytest.raises(TypeError, match="not JSON serializable"):
        save(chatty(3), saved, {"run": object()})


@pytest.mark.parametrize("name, env", [
    ("quest-novice", Quest()), ("calc-novice", Calc()), ("chain-atoms", Chain()), ("taste-novice", Taste()),
], ids=lambda p: p if isinstance(p, str) else "")  # fmt: skip
def test_shipped_checkpoints_load_and_know_their_world(name, env):
    policy = load(name)
    assert isinstance(policy, TinyLM) and policy.card["command"]
    known = set(models.tokenizer.pieces(env.words))
    assert all(len(policy.tokenizer.encode(word)) == 1 for word in known)
