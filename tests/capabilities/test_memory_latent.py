"""Soft tokens: nothing but them passes on, they are what the model makes of vectors, and only the gate is
trained by reward."""

import pytest
import torch

from arl_mini.capabilities.memory import LatentMemory, Streams, course, learn_gate, teach
from arl_mini.envs import Notes
from arl_mini.envs.notes import read
from arl_mini.models import TinyLM, tokenizer

NOTES = Notes(12)


@pytest.fixture
def memory() -> LatentMemory:
    return LatentMemory(TinyLM.new("nano", tokenizer.build(course().words), 0))


def test_streams_hold_what_the_world_says(memory):
    streams = Streams.draw(memory.policy, NOTES, range(20), per=4)
    assert streams.tokens.shape == (20, 3, 16) and streams.truth.shape == (20, 4)
    for seed in range(20):
        NOTES.reset(seed)
        text = memory.policy.tokenizer.decode(streams.tokens[seed, 1])
        lines = "".join(f" {' '.join(line)}" for line in NOTES.stream[4:8])
        assert text == f" where is it ?{lines.replace(f' {NOTES.now[1]}', ' it')}"
        answer = memory.policy.tokenizer.decode(streams.truth[seed, 2])
        assert answer.strip() == read(NOTES.stream[:8], NOTES.now)
        assert bool(streams.told[seed, 1]) == (streams.truth[seed, 1] != streams.truth[seed, 2])


def test_vectors_in_place_of_tokens_give_the_models_own_states(memory):
    tokens = torch.randint(20, 300, (3, 7))
    lead = torch.tensor([memory.blank]).expand(3, -1)
    states = memory.states(memory.start(3), tokens)
    assert torch.allclose(states, memory.policy.hidden(torch.cat((lead, tokens), 1)), atol=1e-5)


@torch.no_grad()
def test_only_the_soft_tokens_pass_on(memory):
    one, two = Streams.draw(memory.policy, NOTES, range(8)), Streams.draw(memory.policy, NOTES, range(8, 16))
    mixed = Streams(torch.cat((two.tokens[:, :2], one.tokens[:, 2:]), 1), one.question, one.truth, one.told)
    final, opened, _ = memory.run(one, "always")
    assert bool(opened.bool().all()) and final.shape == (8, 4, 64)
    assert not torch.allclose(final, memory.run(mixed, "always")[0])  # what was read first has left a trace
    shut, opened, _ = memory.run(one, "never")
    assert not bool(opened.bool().any()) and torch.allclose(shut, memory.run(mixed, "never")[0])
    assert torch.allclose(shut, memory.start(8))
    fewer = LatentMemory(memory.policy, slots=1).run(one, "always")[0]
    assert fewer.shape == (8, 1, 64)


def test_a_draw_of_the_gate_can_be_repeated(memory):
    streams = Streams.draw(memory.policy, NOTES, range(8))
    with torch.no_grad():
        runs = [memory.run(streams, "learned", torch.Generator().manual_seed(3))[1] for _ in range(2)]
    assert torch.equal(*runs) and 0 < runs[0].mean() < 1


def test_teaching_reaches_back_to_the_first_segment(memory):
    streams = Streams.draw(memory.policy, NOTES, range(4))
    first = memory.absorb(memory.start(4), streams.tokens[:, 0])[0].detach().requires_grad_()
    last = memory.absorb(first, streams.tokens[:, 1])[0]
    memory.answers(last, streams.question).sum().backward()
    assert bool((first.grad.abs().sum((1, 2)) > 0).all())
    losses = list(teach(memory, NOTES, steps=12, rows=16))
    assert losses[-1] < losses[0]


def test_reward_trains_the_gate_and_nothing_else(memory):
    before = {name: p.clone() for name, p in memory.policy.named_parameters()}
    records = list(learn_gate(memory, NOTES, steps=2, prompts=3, tries=4, price=0.5))
    assert [r["step"] for r in records] == [1, 2] and all(0 <= r["opens_told"] <= 1 for r in records)
    for name, p in memory.policy.named_parameters():
        changed = (p != before[name]).nonzero()
        assert name == "embed" or len(changed) == 0
    moved = (memory.policy.embed != before["embed"]).any(1).nonzero()[:, 0].tolist()
    assert sorted(moved) == sorted(memory.choice)


def test_a_price_alone_shuts_the_gate(memory):
    records = list(learn_gate(memory, NOTES, steps=15, prompts=4, tries=8, lr=0.1, price=5.0))
    assert records[0]["opens_told"] > 0.1 > 0.02 > records[-1]["opens_told"]


@pytest.mark.parametrize("wrong", [dict(slots=0), dict(slots=5)])
def test_impossible_settings_are_errors(memory, wrong):
    with pytest.raises(ValueError, match="slots must be 1 to 4"):
        LatentMemory(memory.policy, **wrong)
    with pytest.raises(ValueError, match="a gate is"):
        memory.run(Streams.draw(memory.policy, NOTES, range(2)), "open")
