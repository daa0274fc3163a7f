"""Chapter 07: its experiments come out again, its baselines get the same compute, its measures measure what
they say.
"""

import numpy as np
import pytest
import torch

from arl_mini import experiments, models
from arl_mini.capabilities.planning import Skilled, SkillLibrary, guided, mcts
from arl_mini.experiments import EXPERIMENTS, ch07, ch07_offline, ch07_search
from arl_mini.rollout import start

NAME = "07_planning"


def recorded_rows(name: str, arm: str, seed: int) -> list[dict]:
    found = experiments.recorded(f"{NAME}/{name}")
    return next(run for run in found.curves[arm] if run[0]["seed"] == seed)


def again(name: str, arm: str, seed: int) -> tuple[list[dict], dict]:
    """Records and measures of an arm run anew."""
    experiment = EXPERIMENTS[f"{NAME}/{name}"]
    policy = models.load(experiment.start)
    rows = [r if isinstance(r, dict) else r.numbers() for r in experiment.arms[arm](policy, seed)]
    return rows, experiment.measure(policy)


@pytest.mark.slow
@pytest.mark.parametrize("arm", ["with a library", "without"])
def test_a_life_is_lived_again(arm):
    torch.set_num_threads(1)
    rows, _ = again("skills", arm, 10)
    for row, old in zip(rows, recorded_rows("skills", arm, 10), strict=True):
        assert row["goal"] == old["goal"] and row["success"] == pytest.approx(old["success"], abs=0.1)


@pytest.mark.slow
def test_plans_paid_for_completeness_reach_the_goal_and_bare_ones_do_not():
    """Claims 1 and 2 of demonstration 8, one seed anew."""
    start = ch07.measure_plans(models.load("craft-novice"))
    _, complete = again("plan_reward", "complete", 10)
    assert complete["executable"] > start["executable"] + 0.2 and complete["reaches"] > start["reaches"] + 0.2
    _, bare = again("plan_reward", "executable", 10)
    assert bare["commands"] < start["commands"] and bare["reaches"] < start["reaches"]


def test_what_is_recorded_has_three_fresh_seeds():
    for name in (n for n in EXPERIMENTS if n.startswith(f"{NAME}/")):
        found = experiments.recorded(name)
        assert all(len(outcomes) >= 3 for outcomes in found.outcomes.values()), name
        assert all(o["seed"] >= 10 for outcomes in found.outcomes.values() for o in outcomes), name


def test_the_claims_that_hold_hold_in_the_records():
    for run in experiments.recorded(f"{NAME}/transformer").curves["decision transformer"]:
        assert run[-1]["ask_9"] > max(run[-1]["logs"], run[-1]["cloning"]) and run[-1]["ask_0"] < run[-1]["cloning"]
    critic = {arm: last(runs) for arm, runs in experiments.recorded(f"{NAME}/critic").curves.items()}
    assert all(a > b for a, b in zip(critic["goal critic"], critic["proposer"]))
    eto = experiments.recorded(f"{NAME}/internal")
    assert all(a > b for a, b in zip(eto.values("ETO", "success"), eto.values("imitation of wins", "success")))
    bare = experiments.recorded(f"{NAME}/plan_reward")
    before = bare.outcomes["executable"][0]["before"]
    assert max(bare.values("executable", "commands")) < before["commands"]
    assert max(bare.values("executable", "reaches")) < before["reaches"]
    drafts = [run[-1] for run in experiments.recorded(f"{NAME}/speculative").curves["drafts"]]
    assert all(r["bandit"] < min(r["fixed_1"], r["fixed_4"]) for r in drafts)
    lives = experiments.recorded(f"{NAME}/skills_more").curves
    spent = {arm: [turns_a_success(run) for run in runs] for arm, runs in lives.items()}
    assert all(a < b for a, b in zip(spent["with a library"], spent["without"]))


def last(runs: list[list[dict]], number: str = "success") -> list[float]:
    return [run[-1][number] for run in runs]


def turns_a_success(run: list[dict]) -> float:
    deep = [r for r in run if r["depth"] == 3]
    return sum(r["turns"] for r in deep) / max(sum(r["wins"] for r in deep), 1)


def test_re_rolls_get_no_more_steps_than_the_search(monkeypatch):
    novice, steps, asked = models.load("craft-novice"), 40, []
    rows = [start(novice, ch07_search.CRAFT, seed) for seed in (7, 8)]
    real = ch07_search.reroll
    counted = lambda policy, rows, tries, **how: asked.append(tries) or real(policy, rows, tries, **how)
    monkeypatch.setattr(ch07_search, "reroll", counted)
    taken = ch07_search.by_rerolls(novice, steps, 0)(rows, 0)
    assert 1 <= asked[0] and asked[0] * max(row.env.limit for row in rows) <= steps
    assert [c.row.episode.turns for c in taken] == [1, 1] and [row.env.turns for row in rows] == [0, 0]
    value = ch07_search.ValueGuide.of(novice)
    for root in mcts(novice, rows, guided(value), steps=steps, width=4, limits=ch07_search.LIMITS):
        assert 4 * len([n for n in walk(root) if n.children]) <= steps


def walk(node):
    yield node
    for child in node.children:
        yield from walk(child)


def test_pairs_of_won_and_lost_are_of_one_task():
    rows = ch07_search.logs(models.load("craft-novice"), 0, 24)
    rows += ch07_search.rollout(
        models.load("craft-novice"), ch07_search.CRAFT, [e.seed for e in rows], 3, limits=ch07_search.LIMITS
    )
    pairs = ch07.won_and_lost(rows, 2)
    assert pairs and all(w.seed == l.seed and w.success and not l.success for w, l in pairs)


def test_a_life_without_a_library_keeps_nothing_and_the_world_is_the_same():
    novice = models.load("craft-novice")
    rows = list(ch07_offline.Lifelong(False, tries=2, last=2)(novice, 3))
    assert [r["skills"] for r in rows] == [0] * 10
    world = ch07_offline.craft_of("net")
    tasks = ch07_offline.tasks_for("net", 3, 0)
    plain, skilled = ([e.text for e in ch07_search.rollout(novice, env, tasks, limits=ch07_offline.LONG)]
                      for env in (world, Skilled(world, SkillLibrary())))  # fmt: skip
    assert plain == skilled  # an empty library changes nothing


def test_tokens_end_an_arm():
    arm = ch07.UpTo(EXPERIMENTS[f"{NAME}/pilot"].arms["no plan"].arm, tokens=1)
    rows = list(arm(models.load("craft-novice"), 0, prompts=2, tries=2))
    assert len(rows) == 1 and rows[0]["spent"] >= 1


def test_spent_counts_turns_wins_and_dead_ends():
    class Made:
        def __init__(self, turns, success, left):
            self.turns, self.success, self.infos = turns, success, [{"left": left}]

    found = ch07_offline.spent([Made(4, False, -1), Made(3, True, 0), Made(5, True, 0)])
    assert found == {"success": 2 / 3, "turns": 12, "wins": 2, "turns_won": 4.0, "dead": 1 / 3}
    assert ch07_offline.spent([Made(4, False, 2)])["turns_won"] == 0.0


def test_logs_of_robots_are_of_mixed_quality():
    made = ch07_offline.transformer(0)
    returns = [e.reward for e in ch07_offline.floor_logs(made, 0, 60)]
    assert 0.2 < np.mean(returns) < 0.9 and min(returns) == 0.0 and max(returns) == 1.0
