"""Planning: searches count their steps and find what is there; plans, skills and drafts do what they say."""

import random
from collections import Counter

import numpy as np
import pytest

from arl_mini import Limits, models, rollout
from arl_mini.capabilities.ahead import propose
from arl_mini.capabilities.planning import (
    GoalCritic,
    Milestones,
    Node,
    PlanFirst,
    PlanGate,
    Price,
    ReturnFirst,
    Skilled,
    SkillLibrary,
    SpeculativePlanner,
    ValueGuide,
    beam,
    choice,
    executable,
    fixed,
    guided,
    hindsight,
    mcts,
    plan_reward,
    play,
    puct,
    random_playouts,
    traces,
)  # fmt: skip
from arl_mini.capabilities.planning.offline import DecisionTransformer, told
from arl_mini.capabilities.planning.plans import write, written
from arl_mini.capabilities.planning.speculative import Trace
from arl_mini.capabilities.planning.values import outcomes
from arl_mini.envs import Craft, Robots, act, check_env
from arl_mini.envs.craft import plan
from arl_mini.rollout import start

CRAFT, LIMITS = Craft((1, 2)), Limits(turn_tokens=8, turns=10, total=200)


@pytest.fixture(scope="module")
def novice():
    return models.load("craft-novice")


@pytest.fixture(scope="module")
def tried(novice):
    return rollout(novice, CRAFT, range(40), limits=LIMITS)


WORLDS = {
    "plan first": PlanFirst(), "plan, complete": PlanFirst(pays="complete"), "plan, executable": PlanFirst(pays="executable"),
    "milestones": Milestones(), "gate": PlanGate(), "gate, never": PlanGate("never"), "robots": Robots(),
    "return": ReturnFirst(Robots()), "skilled": Skilled(Craft(), SkillLibrary()),
}  # fmt: skip


@pytest.mark.parametrize("name", WORLDS)
def test_worlds_keep_the_contract(name):
    check_env(WORLDS[name])


# --- search -----------------------------------------------------------------------------------------------


class Perfect:
    """Knows what a state is worth: 1 where the goal can still be reached in time."""

    def values(self, rows):
        found = []
        for row in rows:
            env = row.env
            rest = plan(env.goal, env.bag, env.field)
            reachable = rest is not None and len(rest) <= env.limit - env.turns
            over = row.episode.terminated or row.episode.truncated
            found.append(row.episode.reward if over else float(reachable))
        return found


def test_a_true_value_makes_search_better_than_its_proposer(novice, tried):
    how = dict(steps=24, width=6, limits=LIMITS)
    rows = play(
        novice,
        CRAFT,
        range(40),
        lambda r, turn: [choice(t) for t in mcts(novice, r, guided(Perfect()), **how)],
        LIMITS,
    )
    assert np.mean([r.episode.success for r in rows]) > np.mean([e.success for e in tried]) + 0.15


@pytest.mark.parametrize("width, steps", [(2, 7), (4, 16)])
def test_a_tree_spends_no_more_than_its_steps_and_counts_visits(novice, width, steps):
    counted = []

    def count(rows):
        counted.append(len(rows))
        return [(0.5, 1) for _ in rows]

    (root,) = mcts(novice, [start(novice, CRAFT, 3)], count, steps=steps, width=width, limits=LIMITS)
    expansions = [n for n in nodes(root) if n.children]
    assert len(expansions) * width + sum(counted) <= steps + width
    assert root.visits == 1 + sum(child.visits for child in root.children)
    assert all(sum(c.prior for c in n.children) == pytest.approx(1) for n in expansions)
    assert all(len({c.candidate.said for c in n.children}) == len(n.children) for n in expansions)


def nodes(root: Node):
    yield root
    for child in root.children:
        yield from nodes(child)


def test_puct_goes_where_value_and_prior_say():
    root = Node(row=None, visits=9)
    good, likely = Node(None, prior=0.1, visits=4, total=3.6), Node(None, prior=0.9, visits=4, total=2.0)
    root.children = [good, likely]
    assert puct(root, 0.0) is good and puct(root, 2.0) is likely


def test_playouts_cost_their_turns_and_leave_the_world_alone(novice):
    row = start(novice, CRAFT, 5)
    before = (Counter(row.env.bag), row.env.turns)
    ((value, cost),) = random_playouts(0)([row])
    assert value in (0.0, 1.0) and 1 <= cost <= row.env.limit
    assert (row.env.bag, row.env.turns) == before


def test_a_beam_finds_the_way_with_a_true_value(novice):
    rows = [start(novice, CRAFT, seed) for seed in range(12)]
    found = beam(novice, rows, Perfect().values, keep=4, width=6, limits=LIMITS)
    assert np.mean([b.end.row.episode.reward for b in found]) > 0.7
    assert all(b.steps <= 6 + 24 * (len(b.kept) - 1) for b in found)
    assert all(len(level) <= 4 for b in found for level in b.kept)


# --- judges -----------------------------------------------------------------------------------------------


def test_labels_of_a_value_stand_before_each_turn(tried):
    for e in tried:
        labels = outcomes(e)
        at = np.flatnonzero(~np.isnan(labels))
        assert len(at) == e.turns and set(labels[at]) == {float(e.success)}
        assert all(e.mask[at + 1] == 1) and all(e.mask[at] == 0)


def test_hindsight_gives_each_thing_made_a_task_of_its_own(novice):
    episode = next(
        e for e in rollout(novice, CRAFT, range(100, 160), limits=LIMITS) if e.infos[-1]["made"] >= 2
    )
    told_again = hindsight(episode, random.Random(0))
    goals = [e.text.split(" make ")[1].split()[0] for e, _ in told_again]
    assert len(set(goals)) == len(goals) >= 4
    for goal, (e, labels) in zip(goals, told_again):
        made = [
            k
            for k, info in enumerate(e.infos)
            if e.said(k) == act(f"make {goal}") and not info.get("illegal")
        ]
        values = labels[~np.isnan(labels)]
        assert set(values) == {float(bool(made))} and len(values) == (made[0] + 1 if made else e.turns)


def test_judges_start_at_one_half_and_learn(novice, tried):
    guide = ValueGuide.of(novice)
    rows = [start(novice, CRAFT, seed) for seed in range(5)]
    assert guide.values(rows) == pytest.approx([0.5] * 5)
    losses = list(guide.fit(tried, steps=30))
    assert np.mean(losses[-5:]) < losses[0]
    critic, before = GoalCritic.of(novice), [p.clone() for p in novice.parameters()]
    proposals = propose(novice, rows, 3, limits=LIMITS)
    assert [c.said for c in critic.rerank(proposals, prior=0)] == [group[0].said for group in proposals]
    assert [c.said for c in critic.rerank(proposals)] == [max(group, key=lambda c: c.logp).said for group in proposals]
    losses = list(critic.fit(tried, steps=30))
    assert np.mean(losses[-5:]) < losses[0]
    assert all((a == b).all() for a, b in zip(before, novice.parameters()))  # the proposer stays as it was


# --- plans ------------------------------------------------------------------------------------------------


def at(goal: str, field: str, bag: str = "") -> Craft:
    env = Craft()
    env.reset(0)
    env.goal, env.bag, env.field = goal, Counter(bag.split()), Counter(field.split())
    return env


def test_what_a_plan_is_worth():
    env = at("stick", "wood wood fibre")
    good = ["get wood", "make plank", "make stick"]
    assert plan_reward(env, write(good)) == plan_reward(env, write(good), "executable") == 1.0
    gap = write(["get wood", "make stick", "get fibre"])
    assert plan_reward(env, gap) == pytest.approx(1 / 3) == plan_reward(env, gap, "executable")
    idle = write(["get fibre"])  # can be done, and is of no use
    assert plan_reward(env, idle, "executable") == 1.0 and plan_reward(env, idle) == 0.0
    padded = write(["get fibre", *good])
    assert plan_reward(env, padded) == pytest.approx(3 / 4)
    assert plan_reward(env, act("get wood")) == plan_reward(env, "") == 0.0
    assert executable(env, good) == good and env.bag.total() == 0
    assert written(write(good)) == good and written("<think> get moon make plank</think>") == []


@pytest.mark.parametrize("pays", ["executable", "complete"])
def test_a_plan_that_is_judged_ends_the_episode(pays):
    env = PlanFirst((2, 3), pays=pays)
    for seed in range(10):
        env.reset(seed)
        reply = env.step(env.expert())
        assert reply.done and reply.reward == 1.0 and reply.info["success"]
        env.reset(seed)
        assert env.step(write([]) + act("get wood")).reward == 0.0


def test_milestones_pay_half_for_progress_once():
    env = Milestones((2, 3), slack=4)
    env.reset(1)
    total = 0.0
    while True:
        reply = env.step(env.expert())
        total += reply.reward
        if reply.done:
            break
    assert total == pytest.approx(1.0)
    env.reset(1)
    first = env.step(env.expert()).reward
    assert first == pytest.approx(0.5 / env.needed)
    assert env.step(act("get nothing")).reward == 0.0


def test_a_gate_plans_always_or_never():
    always, never = PlanGate("always"), PlanGate("never")
    for seed in range(5):
        always.reset(seed)
        never.reset(seed)
        assert always.step(act("forward")).info["plans"] == 1
        assert never.step(act("plan")).info.get("illegal")
    with pytest.raises(ValueError, match="when must be"):
        PlanGate("sometimes")


# --- logs, skills, drafts ---------------------------------------------------------------------------------


def test_logs_are_told_with_their_returns():
    from arl_mini.models import TinyLM, tokenizer

    made = DecisionTransformer(TinyLM.new("nano", tokenizer.build(f"{Robots.words} return")), Robots())
    logs = made.logs(range(6), lambda env: env.expert())
    assert all(e.text.startswith("<user> return 9 first") for e in logs)
    assert told(logs[0], 3).text == logs[0].text.replace("return 9", "return 3")
    idle = made.logs(range(3), lambda env: act("stay stay"))
    assert all(e.text.startswith("<user> return 0 first") and e.reward == 0 for e in idle)


def test_robots_do_not_meet_or_change_places():
    env = Robots()
    env.reset(0)
    env.at, env.goals = ((1, 1), (2, 1)), ((3, 3), (0, 0))
    assert env.step(act("right left")).info["illegal"] and env.at == ((1, 1), (2, 1))
    assert env.step(act("right stay")).info["illegal"] and env.at == ((1, 1), (2, 1))
    env.step(act("right right"))
    assert env.at == ((2, 1), (3, 1))


def test_a_skill_is_kept_without_what_it_did_not_take():
    env, library = at("rope", "wood wood fibre stone"), SkillLibrary()
    assert library.learn(env, ["get stone", "get wood", "make plank", "get fibre", "make stick"])
    assert library.skills == {"make stick": ("get wood", "make plank", "make stick")}
    assert not library.learn(env, ["make stick"]) and not library.learn(env, ["get wood", "make stick"])
    assert library.unfold(at("rope", "", "plank"), "make stick") == ["make stick"]
    assert library.unfold(at("rope", "", "wood"), "make stick") == ["make plank", "make stick"]
    assert library.unfold(at("rope", "fibre"), "make stick") == library.unfold(env, "make bell") == []


def test_a_skill_is_one_action_of_its_world():
    library = SkillLibrary({"make stick": ("get wood", "make plank", "make stick")})
    env = Skilled(at("stick", "wood fibre"), library)
    env.env.limit, env.env.turns = 5, 0
    reply = env.step(act("make stick"))
    assert (
        reply.done and reply.reward == 1.0 and reply.info["carried_out"] == list(library.skills["make stick"])
    )


def test_a_bandit_learns_to_draft_where_drafts_are_right():
    price = Price(draft=0.1, waste=0.5)
    easy, hard = Trace((4, 4, 3, 2, 1, 0), (1.0,) * 6, True), Trace((0,) * 6, (0.0,) * 6, True)
    assert fixed(easy, 4, price) < fixed(easy, 0, price) == 6 and fixed(hard, 4, price) > fixed(
        hard, 0, price
    )
    planner, rng = SpeculativePlanner(price=price, explore=0.05), random.Random(0)
    made = [easy, hard] * 150
    costs = [planner.plan(t, rng) for t in made]
    late = sum(costs[-100:])
    assert late < min(sum(fixed(t, k, price) for t in made[-100:]) for k in (0, 1, 2, 4))


def test_a_model_agrees_with_its_own_drafts(novice):
    for trace in traces(novice, novice, CRAFT, range(6), 3, limits=LIMITS):
        n = len(trace.agreed)
        assert trace.agreed == tuple(min(3, n - k) for k in range(n))
        assert all(0 < p <= 1 for p in trace.sure)
