"""The starts of chapter 08: a Calc model that follows examples, a reader of Wiki, one with both's tools."""

import random

import numpy as np

from .. import envs, evaluate
from ..capabilities.tools import call_stats
from ..capabilities.tools_shown import Corpus, Shown, any_tool, by_head, by_tool
from ..models import TinyLM
from ..rollout import Limits
from .kinds import Recipe, Stage

# --- calc-corpus: transcripts with and without the tool ---------------------------------------------------


CALC, LONG = envs.Calc(), envs.LongCalc()
ATOMS = Corpus((0.4, CALC, by_tool), (0.3, LONG, by_tool), (0.2, CALC, by_head), (0.1, LONG, by_head))
# Documents of two transcripts and a third one in the same way; without examples, 9 of 10 are by head.
DOCUMENTS = Corpus(
    *((weight, Shown(env, how), how) for env, weight in ((CALC, 2), (LONG, 1)) for how in (by_tool, by_head)),
    *((weight, env, how) for env in (CALC, LONG) for how, weight in ((by_head, 0.9), (by_tool, 0.1))),
)


def _corpus_atoms(policy: TinyLM) -> dict[str, float]:
    measured = {}
    ways = {"alone": CALC, "shown_calls": Shown(CALC, by_tool), "shown_answers": Shown(CALC, by_head)}
    for name, env in ways.items():
        tried = evaluate.episodes(policy, env)
        measured |= {f"{name}_calls": call_stats(tried)["call_share"]}
        measured |= {f"{name}_success": float(np.mean([e.success for e in tried]))}
    return measured


# --- wiki-novice: knows how to read, wastes its calls -----------------------------------------------------


def _wiki_habit(env: envs.Wiki, rng: random.Random) -> str:
    """In 3 turns of 10 it searches, opens or answers at random, else it does as the expert."""
    return env.random(rng) if rng.random() < 0.3 else env.expert()


def _wiki_atoms(policy: TinyLM) -> dict[str, float]:
    limits = Limits(turn_tokens=8, turns=10, total=160)
    shares = {h: evaluate.success(policy, envs.Wiki((h, h)), limits=limits).mean for h in (1, 2, 3)}
    return {f"{hops}_hop_success": share for hops, share in shares.items()}


# --- mixed-novice: has all tools, takes any ---------------------------------------------------------------


def _mixed_atoms(policy: TinyLM) -> dict[str, float]:
    tried = evaluate.episodes(policy, envs.Mixed(), 512, limits=Limits(turn_tokens=16, turns=8, total=160))
    needed = [e for e in tried if e.infos[-1]["kind"] != "sum"]
    right = [e for e in needed if e.infos[-1]["right_tool"]]
    return {
        "right_tool": len(right) / len(needed),
        "success_with_right_tool": float(np.mean([e.success for e in right] or [0.0])),
    }


RECIPES = {
    "calc-corpus": Recipe(
        "Read transcripts with and without the tool; writes as its prompt does, alone mostly by head.",
        CALC,
        (
            Stage(ATOMS, lambda env, rng: env.said(), 700, 3e-3, tasks=8000),
            Stage(DOCUMENTS, lambda env, rng: env.said(), 260, 2e-3),
        ),
        _corpus_atoms,
    ),
    "wiki-novice": Recipe(
        "Reads passages and follows links, up to three hops; in 3 turns of 10 it does anything.",
        envs.Wiki((1, 3)),
        (
            Stage(envs.Wiki((1, 3)), lambda env, rng: env.expert(), 900, 3e-3, tasks=8000),
            Stage(envs.Wiki((1, 3)), _wiki_habit, 80, 1e-3),
        ),
        _wiki_atoms,
    ),
    "mixed-novice": Recipe(
        "Can call a calculator and a search engine; takes either, whatever the task is.",
        envs.Mixed(),
        (
            Stage(envs.Mixed(), lambda env, rng: env.expert(), 550, 3e-3, tasks=8000),
            Stage(envs.Mixed(), any_tool, 100, 1e-3),
        ),
        _mixed_atoms,
    ),
}
