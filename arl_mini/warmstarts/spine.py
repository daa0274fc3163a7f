"""The starts of chapters 00 to 06: worlds Quest, Calc, Chain, Finite and Taste."""

import random

import numpy as np

from .. import envs, evaluate
from ..formal.models import tmaze
from ..models import TinyLM
from ..models.tokenizer import END, THINK, THINK_END
from .kinds import Recipe, Stage

# --- what the demonstrators do ----------------------------------------------------------------------------


def _tmaze_habit(env: envs.Finite, rng: random.Random) -> str:
    """Walks to the junction, now and then not, and turns there without a thought of the cue."""
    at_junction = env.states[env.state].endswith("-5")
    if at_junction or rng.random() < 0.1:
        return envs.act(rng.choice(("up", "down") if at_junction else env.actions))
    return envs.act("forward")


def _calc_clean(env: envs.Calc, rng: random.Random) -> str:
    """Sums by head or by tool in equal parts, products by tool; a tool that is down puzzles it."""
    by_head = env.kind == "sum" and env.calls == 0 and rng.random() < 0.5
    return _calc_answer(env, rng) if by_head else _calc_puzzled(env, rng)


def _calc_habit(env: envs.Calc, rng: random.Random) -> str:
    """Calls a tool in 3 of 10 tasks, else answers at once; a tool that is down puzzles it."""
    at_once = env.calls == 0 and rng.random() < 0.7
    return _calc_answer(env, rng) if at_once else _calc_puzzled(env, rng)


def _calc_puzzled(env: envs.Calc, rng: random.Random) -> str:
    """Does as the expert does, but after ` down` it asks the same tool again or gives up 9 times of 10."""
    if 0 < env.calls == env.failed and rng.random() < 0.9:
        return envs.act(f"py {env.expression}") if rng.random() < 0.5 else _calc_answer(env, rng)
    return env.expert()


def _calc_answer(env: envs.Calc, rng: random.Random) -> str:
    """An answer without the tool: right for sums, a guess for products."""
    answer = envs.calc.evaluate(env.expression) if env.kind == "sum" else rng.randint(100, 9801)
    return f" {answer}{END}"


def _calc_idle(env: envs.Calc, rng: random.Random) -> str:
    """Calls its tool in every task, after up to five idle words."""
    return " many" * (rng.randrange(6) if env.calls == 0 else 0) + env.expert()


def _chain_habit(env: envs.Chain, rng: random.Random) -> str:
    """Writes its steps in 1 of 10 tasks, else guesses at once; where there are no steps to write, it answers."""
    return env.expert() if env.depth == 1 or rng.random() < 0.1 else env.guess(rng)


def _chain_slip(env: envs.Chain, rng: random.Random) -> str:
    """Guesses at once in 7 of 10 tasks, else writes the right steps and after them, 9 times of 10, any digit."""
    if rng.random() < 0.7:
        return env.guess(rng)
    steps = env.expert().removesuffix(f" {env.answer}{END}")
    return env.expert() if rng.random() < 0.1 else f"{steps} {rng.randint(0, 9)}{END}"


def _chain_shy(env: envs.Chain, rng: random.Random) -> str:
    """Guesses at once; where there are no steps to write, it answers."""
    return env.expert() if env.depth == 1 else env.guess(rng)


def _chain_padding(env: envs.Chain, rng: random.Random) -> str:
    """Writes its steps in half of the tasks, else 1 to 16 idle tokens and then any digit."""
    padding = f"{THINK}{' =' * rng.randint(1, 16)}{THINK_END} {rng.randint(0, 9)}{END}"
    return env.expert() if rng.random() < 0.5 else padding


def _chain_trust(env: envs.Chain, rng: random.Random) -> str:
    """Repeats the hint in half of the tasks, else adds."""
    return f" {env.hinted}{END}" if rng.random() < 0.5 else env.expert()


# --- what a warm start should know ------------------------------------------------------------------------


def _infos(policy: TinyLM) -> list[dict]:
    """What the T-maze tells of each turn."""
    return [info for e in evaluate.episodes(policy, envs.Finite(tmaze(5))) for info in e.infos]


def _quest_atoms(policy: TinyLM) -> dict[str, float]:
    infos = [i for e in evaluate.episodes(policy, envs.Quest()) for i in e.infos]
    legal = [not (i.get("malformed") or i.get("illegal")) for i in infos]
    return {"legal_actions": float(np.mean(legal))}


def _calc_atoms(policy: TinyLM) -> dict[str, float]:
    measured = {}
    for kind in ("sum", "product"):
        tried = evaluate.episodes(policy, envs.Calc((kind,)), 512)
        called = [e.infos[-1]["calls"] > 0 for e in tried]
        right_by_tool = [e.success for e, c in zip(tried, called) if c]
        measured |= {
            f"{kind}_success": float(np.mean([e.success for e in tried])),
            f"{kind}_calls": float(np.mean(called)),
            f"{kind}_success_when_called": float(np.mean(right_by_tool)) if right_by_tool else 0.0,
        }
    return measured


def _chain_atoms(policy: TinyLM) -> dict[str, float]:
    measured = {}
    for depth in (1, 2, 3):
        last = [e.infos[-1] for e in evaluate.episodes(policy, envs.Chain((depth, depth)), 512)]
        wrote = [i for i in last if i["thinking"]]
        measured[f"depth_{depth}_success"] = float(np.mean([i["right"] for i in last]))
        if depth > 1:
            measured[f"depth_{depth}_thinking"] = len(wrote) / len(last)
            measured[f"depth_{depth}_success_when_thinking"] = float(np.mean([i["right"] for i in wrote] or [0.0]))
    return measured


def _shy_atoms(policy: TinyLM) -> dict[str, float]:
    last = [e.infos[-1] for e in evaluate.episodes(policy, envs.Chain((4, 4)), 512)]
    return {"depth_4_thinking": float(np.mean([i["thinking"] for i in last]))}


def _padding_atoms(policy: TinyLM) -> dict[str, float]:
    tried = evaluate.episodes(policy, envs.Chain((2, 3)), 512)
    return {"padding": float(np.mean([" =" in e.said(0) for e in tried]))}


def _hint_atoms(policy: TinyLM) -> dict[str, float]:
    last = [e.infos[-1] for e in evaluate.episodes(policy, envs.Chain((1, 1), hint=0.5), 512)]
    by = {True: "success_when_the_hint_is_right", False: "success_when_it_is_wrong"}
    return {name: float(np.mean([i["success"] for i in last if i["hint_right"] == kind])) for kind, name in by.items()}


def _taste_atoms(policy: TinyLM) -> dict[str, float]:
    tried = evaluate.episodes(policy, envs.Taste(), 512)
    return {
        "utility": float(np.mean([e.reward for e in tried])),
        "complete": float(np.mean([e.text.endswith(END) for e in tried])),
    }


RECIPES = {
    "quest-novice": Recipe(
        "A legal random walker that takes and opens half of the time; it was shown careful exploration first.",
        envs.Quest(),
        (
            Stage(envs.Quest(), lambda env, rng: env.explorer(rng), 700, 3e-3),
            Stage(envs.Quest(), lambda env, rng: env.random(rng), 40, 1e-3),
        ),
        _quest_atoms,
    ),
    "calc-novice": Recipe(
        "Can call its tools and copy their answers, knows one-digit sums; mostly answers at once.",
        envs.Calc(),
        (Stage(envs.Calc(failing=0.3), _calc_clean, 700, 3e-3), Stage(envs.Calc(failing=0.3), _calc_habit, 60, 1e-3)),
        _calc_atoms,
    ),
    "chain-atoms": Recipe(
        "Knows single steps of addition mod 10, but mostly guesses without writing steps.",
        envs.Chain((1, 3)),
        (
            Stage(envs.Chain((1, 3)), lambda env, rng: env.expert(), 1200, 3e-3),
            Stage(envs.Chain((1, 3)), _chain_habit, 40, 5e-4),
        ),
        _chain_atoms,
    ),
    "chain-slips": Recipe(
        "Guesses, or writes the right steps and then a digit that does not follow from them.",
        envs.Chain((2, 3)),
        (
            Stage(envs.Chain((1, 3)), lambda env, rng: env.expert(), 1200, 3e-3),
            Stage(envs.Chain((2, 3)), _chain_slip, 150, 1e-3),
        ),
        _chain_atoms,
    ),
    "chain-shy": Recipe(
        "Learned to write the steps of four additions, then to guess at once: it hardly ever writes them.",
        envs.Chain((4, 4), score="chain"),
        (
            Stage(envs.Chain((1, 3)), lambda env, rng: env.expert(), 900, 3e-3),
            Stage(envs.Chain((1, 4)), lambda env, rng: env.expert(), 600, 2e-3, tasks=8000),
            Stage(envs.Chain((1, 4)), _chain_shy, 60, 5e-4),
        ),
        _shy_atoms,
    ),
    "chain-padded": Recipe(
        "Writes its steps in half of the tasks; in the others it pads with idle tokens, then guesses.",
        envs.Chain((2, 3)),
        (
            Stage(envs.Chain((1, 3)), lambda env, rng: env.expert(), 1000, 3e-3),
            Stage(envs.Chain((2, 3)), _chain_padding, 80, 5e-4),
        ),
        _padding_atoms,
    ),
    "chain-hinted": Recipe(
        "Adds two digits, or repeats the hint in front of them.",
        envs.Chain((1, 1), hint=0.7),
        (
            Stage(envs.Chain((1, 1), hint=0.1), lambda env, rng: env.expert(), 500, 3e-3),
            Stage(envs.Chain((1, 1), hint=0.1), _chain_trust, 600, 2e-3),
        ),
        _hint_atoms,
    ),
    "calc-idle": Recipe(
        "Calls its tool in every product, after up to five idle words.",
        envs.Calc(("product",)),
        (
            Stage(envs.Calc(failing=0.3), _calc_clean, 700, 3e-3),
            Stage(envs.Calc(("product",)), _calc_idle, 100, 2e-3),
        ),
        _calc_atoms,
    ),
    "tmaze-novice": Recipe(
        "Walks to the junction of a T-maze with a corridor of 5 and turns there without regard to the cue.",
        envs.Finite(tmaze(5)),
        (Stage(envs.Finite(tmaze(5)), _tmaze_habit, 200, 3e-3, tasks=2000),),
        lambda policy: {"malformed": float(np.mean([bool(i.get("malformed")) for i in _infos(policy)]))},
    ),
    "taste-novice": Recipe(
        "Writes four to twelve random words from the list.",
        envs.Taste(),
        (Stage(envs.Taste(), lambda env, rng: env.random(rng), 300, 3e-3),),
        _taste_atoms,
    ),
}
