"""Tools: what the box answers, what a prompt shows, which calls a text asks for, and how calls are counted."""

import math

import numpy as np
import pytest
import torch

from arl_mini import collate, envs, evaluate, models
from arl_mini.capabilities.tools import ToolBox, call_stats, insert_calls, weighted_loss
from arl_mini.capabilities.tools_shown import Shown
from arl_mini.envs import act, check_env
from arl_mini.envs.calc import evaluate as value
from arl_mini.models.tokenizer import END, encode
from arl_mini.rollout import demonstrate

BOX = ToolBox({"py": lambda text: str(value(text)), "upper": str.upper})


def expert(env):
    return env.expert()


def by_head(env):
    return f" {value(env.expression)}{END}"


@pytest.fixture(scope="module")
def novice():
    return models.load("calc-novice")


@pytest.mark.parametrize("said, text", [(act("py 2*3"), " 6"), (f" so{act('upper a b')}", " A B")])
def test_the_box_answers_a_call(said, text):
    reply = BOX.answer(said)
    assert reply.text == text and not reply.info and not reply.done


@pytest.mark.parametrize("said", ["", " 6<end>", "<act></act>", act("open a"), act("py 2**3"), act("py"), "<act> py 2*3"])
def test_what_is_no_call_is_an_error_and_counted(said):
    reply = BOX.answer(said)
    assert reply.info["malformed"] and reply.text.startswith(" error")


def test_a_tool_that_crashes_is_an_error_of_the_program():
    with pytest.raises(ZeroDivisionError):
        ToolBox({"broken": lambda text: str(1 // 0)}).answer(act("broken"))


@pytest.mark.parametrize("examples", [0, 1, 3])
def test_a_prompt_shows_whole_transcripts_and_then_the_task(examples):
    world = Shown(envs.Calc(), expert, examples)
    check_env(world)
    text, alone = world.reset(5), envs.Calc().reset(5)
    *shown, task = text.split("<user>")
    assert task == alone and len(shown) == examples
    assert all(part.endswith(END) and part.count("<bot>") == 1 and part.count("<obs>") == 1 for part in shown)


def test_examples_differ_from_task_to_task_and_are_no_held_out_ones(monkeypatch):
    world, drawn, reset = Shown(envs.Calc(), by_head, 1), [], envs.Calc.reset
    monkeypatch.setattr(envs.Calc, "reset", lambda env, seed: drawn.append(seed) or reset(env, seed))
    held_out = range(evaluate.HELD_OUT, evaluate.HELD_OUT + 50)
    texts = {world.reset(seed).split("<bot>")[0] for seed in held_out}
    assert len(texts) > 40
    assert len(drawn) == 100 and sum(seed < evaluate.HELD_OUT for seed in drawn) == 50


def test_a_number_of_examples_below_zero_is_refused():
    with pytest.raises(ValueError, match="examples"):
        Shown(envs.Calc(), by_head, -1)


@pytest.mark.parametrize("n", range(1, 9))
def test_the_weights_of_what_follows(n):
    logp = -torch.rand(n)
    weights = np.array([1, 0.8, 0.6, 0.4, 0.2, 0, 0, 0, 0][:n])
    assert weighted_loss(logp) == pytest.approx(-float((weights * logp.numpy()).sum() / weights.sum()), abs=1e-6)


def test_gains_are_those_of_the_formula(novice):
    """Each gain from the policy's own logits, one text at a time."""
    texts = demonstrate(novice, envs.Calc(), range(24), by_head)
    found = insert_calls(novice, texts, BOX, seed=1)
    assert found

    def loss(call: str, source: int, at: int) -> float:
        tokens = texts[source].tokens
        row = [*tokens[:at], *encode(novice.tokenizer, call), *tokens[at:]]
        with torch.no_grad():
            logp = novice(torch.tensor([row])).log_softmax(-1)[0]
        after = [logp[i - 1, row[i]] for i in range(len(row) - len(tokens) + at, len(row))]
        return weighted_loss(torch.stack(after))

    for one in found:
        before = min(loss("", one.source, one.position), loss(f"{one.call}<obs></obs>", one.source, one.position))
        full = loss(f"{one.call}<obs>{one.result}</obs>", one.source, one.position)
        assert one.gain == pytest.approx(before - full, abs=1e-4)


def test_an_inserted_call_reads_like_an_episode_of_the_world(novice):
    texts = demonstrate(novice, envs.Calc(("product",)), range(40), by_head)
    right = [i for i in insert_calls(novice, texts, BOX) if i.gain > 1]
    assert len(right) > 20
    for one in right:
        (real,) = demonstrate(novice, envs.Calc(("product",)), [texts[one.source].seed], expert)
        if one.episode.text == real.text:
            assert np.array_equal(one.episode.mask, real.mask) and np.array_equal(one.episode.turn, real.turn)
    assert np.mean([one.episode.text.endswith(f"</act><obs>{one.result}</obs>{one.result}{END}") for one in right]) > 0.9
    collate([one.episode for one in right])


def test_no_likely_place_no_call(novice):
    texts = demonstrate(novice, envs.Calc(), range(4), by_head)
    assert insert_calls(novice, texts, BOX, floor=1.1) == [] and insert_calls(novice, [], BOX) == []


def test_each_call_of_a_place_comes_once(novice):
    texts = demonstrate(novice, envs.Calc(("sum",)), range(20), by_head)
    found = [(i.source, i.position, i.call) for i in insert_calls(novice, texts, BOX, tries=8)]
    assert len(found) == len(set(found))


def test_calls_are_counted(novice):
    world = envs.Calc(("product",))
    plain, called = (demonstrate(novice, world, range(6), speak) for speak in (by_head, expert))
    assert call_stats(called)["call_share"] == 1 and call_stats(called)["calls"] == 1
    assert call_stats(plain) == {"call_share": 0, "calls": 0, "malformed": 0, "tokens": pytest.approx(5, abs=1)}
    bad = demonstrate(novice, world, range(6), lambda env: act("fly 3") if env.calls < 2 else by_head(env))
    assert call_stats(bad)["malformed"] == 1 and call_stats(bad)["calls"] == 2
    assert call_stats(called + bad)["malformed"] == pytest.approx(12 / 18)
    tried = evaluate.episodes(novice, world, 64)
    assert call_stats(tried)["call_share"] == np.mean([e.infos[-1]["calls"] > 0 for e in tried])
    assert not math.isnan(call_stats(tried)["tokens"])
    with pytest.raises(ValueError, match="no episodes"):
        call_stats([])
