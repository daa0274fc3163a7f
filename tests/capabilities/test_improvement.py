"""Self-improvement: what is told, who is paid, which tasks are drawn, what a bank keeps, what a proposal is worth."""

import itertools
import math
import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from arl_mini import collate, envs, evaluate, models, ops, rollout, train
from arl_mini.algorithms import DPO, GRPO
from arl_mini.batch import pairs as mark
from arl_mini.capabilities import improvement, improvement_play
from arl_mini.capabilities.improvement import (
    RPO, Checklist, Comment, Critic, CurriculumBandit, Executed, ExperienceBank, Judged, dual_reward, majority_reward,
    reflect_loop,
)  # fmt: skip
from arl_mini.capabilities.improvement_play import Proposer, by_majority, learnability, self_play, uncertainty
from arl_mini.capabilities.improvement_roles import (
    Questions, answer_of, deduction, examples, executed, last_of, missing, review, value_of,
)  # fmt: skip
from arl_mini.envs import act, check_env
from arl_mini.models import score
from arl_mini.rollout import Limits

LIMITS = Limits(turn_tokens=12, turns=1, total=48)
ONCE = envs.PyFunc(("line", "square"), tries=1)


@pytest.fixture(scope="module")
def programmer():
    return models.load("pyfunc-novice")


@pytest.fixture(scope="module")
def tried():
    return rollout(models.load("chain-atoms"), envs.Chain((2, 3)), range(6), 8, limits=LIMITS)


def final(episode):
    return last_of(episode.said(0))


# --- questions and what an interpreter says ---------------------------------------------------------------


def test_questions_keep_the_contract_and_answer_by_seed():
    world = Questions([(" 3 + 4 =", " 7"), (" 1 + 1 =", " 2")])
    check_env(world)
    assert (
        world.reset(5) == " 1 + 1 ="
        and world.step(" 2<end>").reward == 1
        and world.step(" 7<end>").reward == 0
    )
    thinking = Questions([(" 3 + 4 + 1 =", " 8")], read=last_of)
    thinking.reset(0)
    assert (
        thinking.step("<think> 7</think> 8<end>").reward == 1
        and thinking.step("<think> 8</think> 7<end>").reward == 0
    )
    with pytest.raises(ValueError, match="invalid"):
        Questions([])


@pytest.mark.parametrize("said, answer, last", [
    (" 7<end>", " 7", " 7"), ("<end>", None, None), (" 7", None, None), ("<think> 1</think> 7<end>", "<think> 1</think> 7", " 7"),
    ("<think> 1</think><end>", "<think> 1</think>", None),
])  # fmt: skip
def test_the_answer_in_a_reply(said, answer, last):
    assert (answer_of(said), last_of(said)) == (answer, last)


def test_examples_and_deductions_are_the_worlds():
    env = envs.PyFunc(tries=1)
    for seed in range(100):
        shown = examples(env.reset(seed))
        assert len(shown) == 3
        for (x, y), given, value in zip(shown, env.inputs, env.expected):
            assert eval(x.strip()) == given and int(y) == value
            if isinstance(given, int):
                assert value_of(deduction(f" return {env.expression}", x)) == y


@pytest.mark.parametrize("said, told", [
    ("return x * 2 + 1", " right"), ("return x * 2", " f ( 3 ) = 6 not 7"), ("return y", " error name"), ("return x +", " error syntax"),
])  # fmt: skip
def test_an_interpreter_runs_what_is_shown(said, told):
    task = " f ( 3 ) = 7 ; f ( 0 ) = 1 ; f ( 5 ) = 11"
    assert executed(task, act(said)) == told
    assert Executed()([task], [act(said)]) == [Comment(told)]


def test_no_hidden_test_is_run():
    assert (
        executed(" f ( 3 ) = 7 ; f ( 0 ) = 1 ; f ( 5 ) = 11", act("return [ 1 , 0 , 0 , 7 , 0 , 11 ] [ x ]"))
        == " right"
    )
    assert executed(" f ( 3 ) = 7 ; f ( 0 ) = 1", "junk").startswith(" error")


@pytest.mark.parametrize(
    "question",
    [
        "",
        "junk",
        " return x +; f ( 3 ) =",
        " return y ; f ( 3 ) =",
        " return x ; f ( x ) =",
        " return [ x ] ; f ( 3 ) =",
    ],
)
def test_what_is_no_question_has_no_value(question):
    assert value_of(question) is None


def test_a_missing_number_can_be_found_again():
    for digits in itertools.product((0, 3, 8), repeat=3):
        for k in range(3):
            task = missing(digits, k, sum(digits) % 10)
            left, result = task.split(" = ")
            known = sum(int(d) for d in left.split(" + ") if d.strip() != "?")
            assert (int(result) - known) % 10 == digits[k] and task.count("?") == 1


# --- correction in words ----------------------------------------------------------------------------------


def test_a_loop_stops_where_the_comment_is_right(programmer):
    seeds = range(evaluate.HELD_OUT, evaluate.HELD_OUT + 24)
    heard = []

    def comment(tasks, answers):
        heard.append(len(tasks))
        return Executed()(tasks, answers)

    found = reflect_loop(programmer, ONCE, seeds, comment, 3)
    assert [a.seed for a in found] == list(seeds) and len(heard) == 2 and heard[0] == 24 > heard[1]
    for a in found:
        assert 1 <= len(a.said) <= 3 and len(a.told) == min(len(a.said), 2)
        assert all(told != " right" for told in a.told[: len(a.said) - 1])
        assert [executed(a.task, s) for s in a.said[: len(a.told)]] == list(a.told)
        world = ONCE.clone()
        for said, right in zip(a.said, a.right):
            world.reset(a.seed)
            assert (world.step(said).reward > 0) == right
    assert found == reflect_loop(programmer, ONCE, seeds, Executed(), 3), "the same seed, the same loop"


def test_what_is_told_stands_in_the_context_and_in_fresh_tries_it_does_not(programmer, monkeypatch):
    seen = []
    true = improvement.propose

    def spy(policy, rows, **how):
        seen.append([row.episode.text for row in rows])
        return true(policy, rows, **how)

    monkeypatch.setattr(improvement, "propose", spy)
    seeds = range(4)
    wrong = lambda tasks, answers: [Comment(" f ( 1 ) = 2 not 3", 5) for _ in tasks]  # noqa: E731
    found = reflect_loop(programmer, ONCE, seeds, wrong, 2)
    assert all(b == f"{a}{f.said[0]}<obs> f ( 1 ) = 2 not 3</obs>" for a, b, f in zip(*seen, found))
    assert all(f.tokens >= 5 + 2 for f in found)
    del seen[:]
    reflect_loop(programmer, ONCE, seeds, wrong, 2, remember=False)
    assert seen[0] == seen[1]


def scripted(monkeypatch, answers):
    """`ask` answers from a table question → reply."""
    asked = []

    def ask(policy, questions, tries=1, **_):
        asked.extend(questions)
        mask = np.ones(2)
        return [[SimpleNamespace(said=lambda turn, q=q: answers(q), mask=mask)] * tries for q in questions]

    monkeypatch.setattr(improvement, "ask", ask)
    monkeypatch.setattr(improvement_play, "ask", ask)
    return asked


def test_a_checklist_tells_the_first_mismatch_and_never_shows_the_value_it_wants(monkeypatch):
    asked = scripted(
        monkeypatch,
        lambda q: {" return x * 2 ; f ( 3 ) =": " 6<end>", " return x * 2 ; f ( 5 ) =": " 10<end>"}.get(
            q, "<end>"
        ),
    )
    task = " f ( 3 ) = 6 ; f ( 5 ) = 11 ; f ( 0 ) = 1"
    first, second = Checklist(None)([task, task], [act("return x * 2"), "junk<end>"])
    assert first == Comment(" f ( 5 ) = 10 not 11", 6) and second == Comment(" error say act", 0)
    assert len(asked) == 3 and not any("11" in q for q in asked)


def test_a_critic_is_asked_about_task_and_program(monkeypatch):
    asked = scripted(monkeypatch, lambda q: " right<end>" if "+ 1" in q else "<end>")
    task = " f ( 3 ) = 7"
    assert Critic(None)([task] * 2, [act("return x * 2 + 1"), act("return 3")]) == [Comment(" right", 2)] * 2
    assert asked == [review(task, act("return x * 2 + 1")), f"{task} ; return 3"]


# --- rewards that nobody labels ---------------------------------------------------------------------------


def test_the_judge_pays_and_the_world_does_not(tried):
    wanted = [float(i % 3) for i in range(len(tried))]
    algorithm, batch = Judged(judge=lambda episodes: wanted), collate(tried)
    judged = algorithm.reward(batch)
    assert judged.reward.tolist() == wanted and bool((judged.rewards * (1 - batch.mask) == 0).all())
    expected = ops.per_token(ops.group_zscore(torch.tensor(wanted), batch.group), batch.mask)
    assert torch.allclose(algorithm.advantages(judged), expected)
    assert torch.equal(batch.reward, collate(tried).reward)


@pytest.mark.parametrize("answers, paid", [
    (["7", "7", "3"], [1, 1, 0]), (["3", "7"], [1, 0]), ([None, None, "3"], [0, 0, 1]), ([None, None], [0, 0]), (["3"], [1]),
    (["1", "2", "2", "1"], [1, 0, 0, 1]),
])  # fmt: skip
def test_the_majority_is_paid(answers, paid):
    rows = [SimpleNamespace(group=4, answer=a) for a in answers] + [SimpleNamespace(group=9, answer="7")]
    assert majority_reward(lambda e: e.answer)(rows) == [float(p) for p in paid] + [1.0]


def test_who_is_right_about_the_inverse_is_paid(monkeypatch):
    scripted(monkeypatch, lambda q: " 4<end>" if "= 7" in q else " 0<end>")
    rows = [SimpleNamespace(result=r) for r in (7, 5, None)]
    inverse = lambda e: None if e.result is None else (missing([3, 4], 1, e.result), " 4")  # noqa: E731
    assert dual_reward(None, inverse, lambda e: answer_of(e.said(0)))(rows) == [1.0, 0.0, 0.0]


def test_rpo_is_dpo_and_the_likelihood_of_the_chosen(tried):
    won, lost = tried[:3], tried[8:11]
    batch = collate(mark(list(zip(won, lost))))
    policy = models.load("chain-slips")
    batch = batch.set(ref_logp=batch.old_logp)
    scores = score(policy, batch)
    likely = [(row * m).sum() / m.sum() for row, m, c in zip(scores.logp, batch.mask, batch.chosen) if c]
    plain = DPO(beta=0.3).loss(scores, batch)
    assert torch.isclose(
        RPO(beta=0.3, alpha=0.5).loss(scores, batch), plain - 0.5 * sum(likely) / 3, atol=1e-5
    )
    assert torch.isclose(RPO(beta=0.3, alpha=0.0).loss(scores, batch), plain)


# --- which tasks, whose successes -------------------------------------------------------------------------

DEPTHS = (1, 2, 3)


def depth(seed: int) -> int:
    env = envs.Chain((1, 3), score="chain")
    env.reset(seed)
    return env.depth


def test_a_bandit_draws_kinds_and_learns_what_they_move():
    bandit = CurriculumBandit(arm=depth, arms=DEPTHS, heat=0.1, rate=0.5)
    policy, settings = models.load("chain-atoms"), dict(prompts=12, tries=4, limits=LIMITS, steps=2)
    run = train(policy, envs.Chain((1, 3), score="chain"), bandit, **settings)
    made = bandit.plan(run._sampler())
    depths = [depth(e.seed) for e in made[::4]]
    assert [depths.count(d) for d in DEPTHS] == run.memory["drawn"][0]
    batch = collate(made)
    size = GRPO().advantages(batch).abs().max(1).values
    for k, d in enumerate(DEPTHS):
        of = [i for i, e in enumerate(made) if depth(e.seed) == d]
        assert run.memory["value"][k] == pytest.approx(0.5 * float(size[of].mean()) if of else 0.0, abs=1e-4)


def test_a_bandits_chances():
    bandit = CurriculumBandit(heat=math.inf)
    assert bandit.chances([0.0, 5.0]).tolist() == [0.5, 0.5]
    assert CurriculumBandit(heat=0.5).chances([0.0, 1.0])[1] == pytest.approx(1 / (1 + math.exp(-2)))


def test_a_kind_that_the_world_does_not_draw_is_an_error():
    bandit = CurriculumBandit(arm=depth, arms=(7,))
    run = train(models.load("chain-atoms"), envs.Chain((1, 3)), bandit, prompts=2, tries=2, limits=LIMITS)
    with pytest.raises(ValueError, match="7"):
        next(run)


def test_a_bank_keeps_different_successes(tried):
    bank = ExperienceBank(most=2)
    new = bank.add(tried)
    kept = list(bank)
    assert new == len(bank) == len(kept) > 0 and all(e.success for e in kept)
    assert len({(e.seed, e.text) for e in kept}) == len(kept)
    assert max(sum(e.seed == s for e in kept) for s in range(6)) <= 2
    assert bank.add(tried) == 0


# --- self-play --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("worth", [uncertainty, learnability])
def test_neither_the_hopeless_nor_the_trivial_is_paid(worth):
    assert worth(0.0) == worth(1.0) == 0.0
    assert all(0 < worth(p) <= 1 for p in np.linspace(0.05, 0.95, 19))


def test_uncertainty_has_its_peak_at_a_half_and_learnability_falls():
    grid = np.linspace(0.01, 0.99, 99)
    assert max(grid, key=uncertainty) == pytest.approx(0.5) and uncertainty(0.3) == pytest.approx(
        uncertainty(0.7)
    )
    assert max(grid, key=learnability) == pytest.approx(0.01)


def said(*texts):
    return [SimpleNamespace(said=lambda turn, t=t: t) for t in texts]


def test_a_proposal_is_paid_by_what_the_solver_makes_of_it(monkeypatch):
    scripted(monkeypatch, lambda q: " 7<end>")
    truth = {" 3 + 4 =": " 7", " 3 + 3 =": " 6"}
    proposer = Proposer(None, lambda q, _: truth.get(q), learnability, tries=4)
    paid = proposer(said(" 3 + 3 =<end>", " 3 + 4 =<end>", " 3 + 4 =<end>", " x<end>", " 3 + 4 ="))
    assert paid == [0.0, 0.0, 0.0, -0.5, -0.5]
    assert {(p.question, p.solved) for p in proposer.found} == {(" 3 + 4 =", 1.0), (" 3 + 3 =", 0.0)}


def test_the_same_question_again_is_worth_less(monkeypatch):
    replies = itertools.cycle([" 7<end>", " 1<end>"])
    monkeypatch.setattr(
        improvement_play, "ask", lambda s, qs, n, **_: [said(*(next(replies) for _ in range(n))) for _ in qs]
    )
    proposer = Proposer(None, by_majority, uncertainty, tries=4)
    assert proposer(said(" a<end>", " b<end>", " b<end>", " b<end>")) == [1.0, 0.5, 0.5, 0.5]


def test_rounds_of_self_play_train_both(monkeypatch):
    policy = models.load("chain-atoms")
    shown = itertools.cycle(said(*(f" {a} + {b} =<end>" for a, b in itertools.product(range(5), repeat=2))))
    proposer = Proposer(policy, by_majority, answer=final, valid=lambda q: "+" in q)
    proposing = (proposer([next(shown) for _ in range(8)]) for _ in itertools.count())
    solving = train(
        policy,
        Questions([(" 1 + 1 =", " 2")], envs.Chain.words, last_of),
        GRPO(),
        prompts=4,
        tries=4,
        limits=LIMITS,
    )
    rows = list(self_play(proposing, solving, proposer, 3, updates=2, band=(0.0, 1.0)))
    assert [r["step"] for r in rows] == [1, 2, 3] and solving.step == 6
    assert all(r["valid"] == r["chosen"] == 8 and 0 < r["solved"] <= 1 and r["length"] == 4 for r in rows)
    assert {q for q, _ in solving.env.items} == {p.question for p in proposer.found}


# --- what a revision did ----------------------------------------------------------------------------------


def test_a_correction_matrix():
    matrix = evaluate.correction_matrix([0, 0, 0, 1, 1], [1, 0, 0, 1, 0])
    assert matrix.tolist() == [[pytest.approx(2 / 3), pytest.approx(1 / 3)], [0.5, 0.5]]
    assert np.isnan(evaluate.correction_matrix([1, 1], [1, 0])[0]).all()
    rng = random.Random(0)
    many = [[rng.random() < 0.5 for _ in range(40)] for _ in range(2)]
    assert np.allclose(evaluate.correction_matrix(*many).sum(1), 1)
    with pytest.raises(ValueError, match="2"):
        evaluate.correction_matrix([1, 0], [1])
