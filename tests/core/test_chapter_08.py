"""What chapter 08 adds for its experiments; and, slowly, one seed of its cheap claims anew."""

import numpy as np
import pytest
import torch

from arl_mini import collate, envs, evaluate, experiments, models, train
from arl_mini.algorithms import GRPO
from arl_mini.capabilities.tools import Insertion
from arl_mini.experiments import ch08_choice as choice
from arl_mini.experiments import ch08_imitation as imitation
from arl_mini.rollout import demonstrate
from arl_mini.train import Settings

NAME = "08_tool_use"


@pytest.fixture(scope="module")
def reader():
    """A policy with Wiki's words; it need not know anything."""
    return models.TinyLM.new("nano", models.tokenizer.build(envs.Wiki.words))


def wandering(env):
    """The expert, with a search for nobody before and a passage opened twice."""
    if env.turns == 0:
        return envs.act("search nobody")
    return envs.act(f"open {env.opened[-1]}") if env.opened and env.turns == 4 else env.expert()


def test_each_turn_of_the_expert_leads_on(reader):
    for episode in demonstrate(reader, choice.THREE_HOPS, range(40), lambda env: env.expert()):
        assert episode.success and all(choice.advances(episode))
    assert choice.wasted(demonstrate(reader, choice.THREE_HOPS, range(40), lambda env: env.expert())) == 0


def test_turns_that_lead_nowhere_are_found(reader):
    for episode in demonstrate(reader, choice.THREE_HOPS, range(40), wandering):
        found = choice.advances(episode)
        assert episode.success and not found[0] and not found[4] and sum(found) == len(found) - 2
        assert [choice.nearer(episode, k) for k in range(len(found))] == found
    assert choice.wasted(demonstrate(reader, choice.THREE_HOPS, range(40), wandering)) == 2


def test_a_wrong_answer_leads_nowhere(reader):
    (episode,) = demonstrate(reader, choice.THREE_HOPS, [1], lambda env: envs.act("answer nobody"))
    assert choice.advances(episode) == [False]


def test_the_best_call_of_each_text_is_kept():
    calls = [Insertion(i, 0, "", "", gain, None) for i, gain in [(0, 0.1), (0, 0.9), (0, 0.6), (1, 0.4), (2, 0.5)]]
    kept = imitation.best_calls(calls, 0.5)
    assert {i: call.gain for i, call in kept.items()} == {0: 0.9, 2: 0.5}


def test_shares_of_texts_with_a_call():
    policy = models.load("calc-novice")
    texts = demonstrate(policy, envs.Calc(), range(40), imitation.by_head)
    sums = [i for i, text in enumerate(texts) if "boxes" not in text.text]
    assert imitation.shares(texts, dict.fromkeys(sums)) == {"kept_sum": 1.0, "kept_product": 0.0}


def test_the_leak_trains_on_what_the_tool_said_and_scores_it_right():
    settings = Settings(**choice.CALC | dict(prompts=4, tries=4))
    run = choice.ResultsToo(models.load("calc-novice"), choice.PRODUCTS, GRPO(), settings)
    episodes = evaluate.episodes(run.policy, choice.PRODUCTS, 4, tries=4, limits=settings.limits)
    batch, _ = run._prepare(episodes)
    right, _ = train(run.policy, choice.PRODUCTS, GRPO())._prepare(episodes)
    results = (right.mask == 0) & (right.turn >= 0)
    assert results.any() and torch.equal(batch.mask > 0, (right.mask > 0) | results)
    assert torch.allclose(batch.old_logp * right.mask, right.old_logp, atol=1e-4)
    assert bool((batch.old_logp[results] < 0).all())
    assert torch.allclose(batch.advantages * right.mask, right.advantages)


def test_results_are_heard_with_their_tags_and_without():
    policy = models.load("calc-novice")
    world = choice.PRODUCTS
    (episode,) = demonstrate(policy, world, [evaluate.HELD_OUT], lambda env: env.expert())
    with torch.no_grad():
        logp = policy(torch.from_numpy(episode.tokens)[None]).log_softmax(-1)[0]
    places = [t for t in range(len(episode)) if episode.turn[t] >= 0 and episode.mask[t] == 0]
    losses = [-logp[t - 1, episode.tokens[t]].item() for t in places]
    assert len(losses) == 6 and episode.text.count("<obs>") == 1  # a tag, four digits, a tag
    heard = choice.heard(policy, tasks=1)
    assert heard["result_loss"] == pytest.approx(np.mean(losses), abs=1e-3)
    assert heard["digit_loss"] == pytest.approx(np.mean(losses[1:-1]), abs=1e-3)


def test_a_shy_policy_still_has_the_call():
    policy = models.load("calc-novice")
    choice.made_shy(policy, 0, choice.RARE)
    with torch.no_grad():
        tried = evaluate.episodes(policy, choice.PRODUCTS, 512)
        batch = collate(tried)
        assert 0 < np.mean([e.infos[-1]["calls"] > 0 for e in tried]) < 0.05 and batch.mask.any()


def again(name: str, arm: str, seed: int = 10) -> dict[str, float]:
    """One seed trained anew: the last record and what was measured."""
    experiment = experiments.EXPERIMENTS[f"{NAME}/{name}"]
    policy = models.load(experiment.start)
    rows = [r if isinstance(r, dict) else r.numbers() for r in experiment.arms[arm](policy, seed)]
    return rows[0] | rows[-1] | experiment.measure(policy)


@pytest.mark.slow
def test_claims_on_calls_that_are_shown():
    prompt, traces = again("react", "prompt only"), again("react", "traces")
    assert prompt["calls_shown_calls"] - prompt["alone_calls"] >= 0.3
    assert prompt["calls_shown_success"] - prompt["alone_success"] >= 0.3
    assert traces["alone_tokens"] < 0.5 * prompt["calls_shown_tokens"]
    helped, every = again("toolformer", "calls that help"), again("toolformer", "every call")
    assert helped["kept_product"] - helped["kept_sum"] >= 0.5
    novice = imitation.measure_calls(models.load("calc-novice"))["product_success"]
    assert helped["product_success"] >= novice + 0.3 and every["sum_calls"] - helped["sum_calls"] >= 0.3


@pytest.mark.slow
def test_claims_on_a_tool_that_is_down():
    copied, rewarded = again("failing", "imitation"), again("failing", "outcome RL")
    assert rewarded["product_failing_success"] - copied["product_failing_success"] >= 0.15
    assert rewarded["product_failing_switch_share"] > 0.9


@pytest.mark.slow
def test_claims_on_a_price():
    free, priced = again("price", "free"), again("price", "price 0.1")
    assert priced["sum_calls"] < 0.5 * free["sum_calls"] and priced["product_call_share"] > 0.9
    assert priced["sum_success"] >= free["sum_success"] - 0.02


@pytest.mark.slow
def test_pay_for_turns_that_lead_on_helps_over_all_updates():
    arms = experiments.EXPERIMENTS[f"{NAME}/hops"].arms
    area = {name: [r["success"] for r in arms[name](models.load("wiki-novice"), 10)] for name in ("GRPO", "turn reward")}
    assert np.mean(area["turn reward"]) > np.mean(area["GRPO"])


@pytest.mark.slow
def test_claims_on_calls_that_pay():
    few, which = again("few", "1 % call"), again("which", "outcome RL")
    assert few["call_share"] > 0.8 and few["success"] > 0.7
    assert which["right_tool"] > 0.9 and which["right_tool"] > again("which", "traces")["right_tool"]


@pytest.mark.slow
def test_claims_on_what_a_tool_makes_reachable():
    found = again("reach", "as it is")
    assert found["tool_1"] > 0.75 and found["text_256"] < 0.1


@pytest.mark.slow
def test_claims_on_the_leak():
    right, leaked, copied = (again("leak", arm) for arm in experiments.EXPERIMENTS[f"{NAME}/leak"].arms)
    assert right["result_loss"] - leaked["result_loss"] >= 1.5
    assert right["digit_loss"] - leaked["digit_loss"] >= 1.5
    assert copied["invented"] > 0.5 and right["invented"] == 0
