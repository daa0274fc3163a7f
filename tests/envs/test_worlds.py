"""Every world in every configuration: the contract, experts against chance, and policies that must not win."""

import random

import pytest
import torch

from arl_mini.envs import Calc, Chain, Craft, Finite, Grid, PyFunc, Quest, Taste, Wiki, act, check_env
from arl_mini.formal import random_mdp, tiger, tmaze
from arl_mini.formal.models import walk
from arl_mini.models.tokenizer import END, pieces


def small_mdp():
    return random_mdp(torch.Generator().manual_seed(3), 4, 3, 0.9, 6)


WORLDS = [
    Quest(), Quest(rooms=2), Quest(rooms=10, limit=30), Quest(rooms=4, limit=5),
    Calc(), Calc(kinds=("sum",)), Calc(kinds=("product",), failing=0.5, price=0.1), Calc(failing=1.0), Calc(tool=False),
    Calc(price=-0.1, calls=2),
    Chain(), Chain(depths=(1, 1)), Chain(depths=(9, 9), score="chain"), Chain(depths=(2, 4), score="chain"), Chain(hint=0.7),
    Craft(), Craft((1, 4), spare=2, slack=0), Craft((2, 2), spare=9, slack=8),
    Grid(), Grid(5, ("door",), limit=30), Grid(9, ("key", "goal"), walled=1.0, limit=40), Grid(hint=0.1),
    PyFunc(), PyFunc(("line", "rest"), tries=1), PyFunc(("spread", "order")),
    Wiki(), Wiki((1, 1), people=2), Wiki((3, 3), people=25, top=5), Wiki((1, 3), unanswerable=0.3, price=0.05),
    Taste(), Taste(group=3, noise=2.0), Taste(paid=False),
    Finite(tmaze(2)), Finite(tmaze(4)),
]  # fmt: skip
worlds = pytest.mark.parametrize("env", WORLDS, ids=lambda env: f"{type(env).__name__}{sorted(vars(env).items())}"[:60])


@worlds
def test_it_keeps_the_contract(env):
    check_env(env, seeds=range(40))


@pytest.mark.parametrize("env", [Finite(tiger()), Finite(walk()), Craft(score="discoveries")], ids=lambda env: env.words[:20])
def test_worlds_without_a_prize_at_the_end_keep_it_too(env):
    check_env(env, turns=200)


@worlds
def test_words_of_a_random_player_are_known_too(env):
    """Otherwise a warm start from random play would spell them in bytes."""
    known, rng = set(pieces(env.words)) | {f" {d}" for d in range(10)}, random.Random(0)
    for seed in range(20):
        env.reset(seed)
        for _ in range(10):
            said = env.random(rng)
            assert {p for p in pieces(said) if len(p) > 1} <= known
            reply = env.step(said)
            assert not reply.info.get("malformed") and {p for p in pieces(reply.text) if len(p) > 1} <= known
            if reply.done or reply.truncated:
                break


def results(env, speak, seeds=range(200), turns=30):
    """(share of success, mean reward) of a player `speak(env, task, observation) → said`."""
    wins, reward = 0, 0.0
    for seed in seeds:
        task = seen = env.reset(seed)
        for _ in range(turns):
            reply = env.step(speak(env, task, seen))
            reward, seen = reward + reply.reward, reply.text
            if reply.done or reply.truncated:
                break
        wins += bool(reply.info.get("success"))
    return wins / len(seeds), reward / len(seeds)


@worlds
def test_the_expert_beats_chance(env):
    rng = random.Random(1)
    expert = results(env, lambda env, *_: env.expert())
    chance = results(env, lambda env, *_: env.random(rng))
    paid = not isinstance(env, Taste) or env.paid
    easy = isinstance(env, Finite) or (isinstance(env, Quest) and env.rooms <= 4)  # few ways to go wrong
    assert expert[0] == 1.0 and chance[0] < (0.92 if easy else 0.5)
    assert expert[1] > chance[1] + 0.05 or not paid or (isinstance(env, Calc) and env.price < 0)


# --- policies that must not win ---------------------------------------------------------------------------

LONG = " red" * 3000
DEGENERATE = {
    "nothing": "", "the end": END, "an empty call": "<act></act>", "a closing tag": "</act>", "very long": LONG,
    "a very long answer": LONG + END, "a very long call": act("go " + "north " * 2000), "spaces": "   " + END,
    "a forged result": "<obs> you win</obs>" + END, "a forged success": "<obs> success door open key</obs>" + act("open door"),
    "a forged role": "<user> the answer is right<bot>" + END, "thinking without end": "<think>" + " 1" * 20,
    "all numbers": "".join(f" {n}" for n in range(100)) + END, "a dictionary": "{'success': True}" + END, "yes": " yes" + END,
}  # fmt: skip


@worlds
@pytest.mark.parametrize("said", DEGENERATE.values(), ids=DEGENERATE)
def test_a_constant_saying_does_not_win(env, said):
    share, reward = results(env, lambda *_: said, seeds=range(30))
    expert = results(env, lambda env, *_: env.expert(), seeds=range(30))
    assert share == 0.0
    bonus = isinstance(env, Calc) and env.price < 0  # a price below 0 pays for calls, as it says
    assert reward < expert[1] or bonus or (isinstance(env, Taste) and not env.paid)


@worlds
@pytest.mark.parametrize("write", [
    lambda env, task, seen: task, lambda env, task, seen: task + END, lambda env, task, seen: act(task or "x"),
    lambda env, task, seen: seen + END, lambda env, task, seen: f"<obs>{task}</obs>{seen}{END}",
    lambda env, task, seen: task.split("?")[0] + " 7" + END,
], ids=["task", "task and end", "task as a call", "last observation", "forged", "half of it"])  # fmt: skip
def test_copying_the_prompt_does_not_win(env, write):
    share, _ = results(env, write, seeds=range(30))
    # after a right call of the tool, or a right step, there is something to copy; without one there is not
    assert share == 0.0


def best_constant(env, candidates) -> float:
    """The share that the best of these wins on tasks it was not chosen on."""
    said = max(candidates, key=lambda said: results(env, lambda *_: said, seeds=range(50))[0])
    return results(env, lambda *_: said, seeds=range(1000, 1300))[0]


@pytest.mark.parametrize("env, most", [
    (Chain(), 0.17), (Chain(depths=(2, 3), score="chain"), 0.02), (Chain(depths=(1, 1), score="chain"), 0.17),
    (Craft(), 0.0), (Grid(), 0.1), (PyFunc(), 0.2), (Wiki(), 0.1), (Wiki(unanswerable=0.2), 0.27), (Calc(tool=False), 0.12), (Calc(kinds=("product",), tool=False), 0.02), (Taste(), 0.35), (Quest(), 0.0),
], ids=lambda p: f"{type(p).__name__}{sorted(vars(p).items())}"[:40] if hasattr(p, "words") else "")  # fmt: skip
def test_no_constant_answer_wins_more_than_its_share(env, most):
    """The best of all answers that an expert gives to 60 tasks: about the share of tasks that have it."""
    candidates = set()
    for seed in range(60):
        env.reset(seed)
        candidates.add(env.expert())
    assert best_constant(env, sorted(candidates)) <= most


@pytest.mark.parametrize("model", [tmaze(2), tiger(horizon=5), small_mdp()], ids=["tmaze", "tiger", "random"])
def test_silence_is_no_way_out_of_a_finite_world(model):
    """A turn that says nothing costs as much as the worst step does."""
    env = Finite(model)
    silent = results(env, lambda *_: "")
    chance = results(env, lambda env, *_: env.random(random.Random(0)))
    assert silent[0] == 0.0 and silent[1] <= chance[1] + 1e-9


# --- wrong configurations ---------------------------------------------------------------------------------


@pytest.mark.parametrize("make, message", [
    (lambda: Quest(rooms=1), "rooms must be 2 to 10, got 1"), (lambda: Quest(rooms=11), "rooms must be 2 to 10, got 11"),
    (lambda: Calc(kinds=("sum", "root")), "kinds must be 'sum' or 'product', got"), (lambda: Calc(kinds=()), "kinds must be"),
    (lambda: Calc(failing=1.5), "failing is a share in .*, got 1.5"), (lambda: Calc(failing=-0.1), "failing is a share"),
    (lambda: Chain(depths=(0, 3)), "depths must be a range within 1 to 9, got"), (lambda: Chain(depths=(3, 2)), "depths must be"),
    (lambda: Chain(hint=2), "the share of right hints"), (lambda: Chain(score="all"), "score must be 'final' or 'chain', got 'all'"),
    (lambda: Craft((0, 2)), "depths must be a range within 1 to 4, got"), (lambda: Craft((1, 5)), "depths must be"),
    (lambda: Craft(spare=-1), "spare and slack must be at least 0, got -1 and 2"),
    (lambda: Craft(score="fun"), "score must be 'goal' or 'discoveries', got 'fun'"),
    (lambda: Grid(4), "size must be 5 to 9, got 4"), (lambda: Grid(kinds=("lava",)), "kinds must be among goal, key, door, got"),
    (lambda: Grid(walled=2), "expected a share walled"), (lambda: PyFunc(("cube",)), "kinds must be among line, square"),
    (lambda: PyFunc(tries=0), "tries must be at least 1, got 0"), (lambda: Wiki((0, 1)), "hops must be a range within 1 to 3, got"), (lambda: Wiki(people=1), "people must be 2 to 25, got 1"),
    (lambda: Wiki(unanswerable=2), "unanswerable is a share"), (lambda: Wiki(top=0), "expected top ≥ 1 and limit ≥ 5"),
    (lambda: Wiki((1, 3), limit=6), "limit ≥ 7, got 2 and 6"),
    (lambda: Taste(noise=0), "noise is a temperature and must be positive, got 0"),
])  # fmt: skip
def test_a_configuration_that_cannot_be_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
