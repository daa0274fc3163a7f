"""The starts of chapter 08: a Calc model that follows examples, a reader of Wiki, one with both's tools."""

import random

import numpy as np

from .. import envs, evaluate
from ..capabilities.tools import Shown, call_stats
from ..envs.base import Env, Reply
from ..envs.wiki import JOBS, PEOPLE, PLACES, REGIONS
from ..models import TinyLM
from ..models.tokenizer import END
from ..rollout import Limits
from .kinds import Recipe, Stage

# --- calc-corpus: transcripts with and without the tool ---------------------------------------------------


def by_tool(env: envs.Calc) -> str:
    """Calls the tool, repeats its answer."""
    return env.expert()


def by_head(env: envs.Calc) -> str:
    """The right answer at once."""
    return f" {envs.calc.evaluate(env.expression)}{END}"


class Corpus(Env):
    """One of several worlds, drawn by weight; `speak` is how the transcripts of that world are written."""

    words = envs.Calc.words

    def __init__(self, *parts: tuple[float, Env, object]):
        self.parts = parts

    def reset(self, seed: int) -> str:
        weights = [weight for weight, _, _ in self.parts]
        _, self.env, self.speak = random.Random(f"corpus {seed}").choices(self.parts, weights)[0]
        return self.env.reset(seed)

    def step(self, said: str) -> Reply:
        return self.env.step(said)

    def said(self) -> str:
        """What the transcript has next."""
        return self.speak(getattr(self.env, "env", self.env))


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
    shares = {h: evaluate.success(policy, envs.Wiki((h, h)), limits=limits).mean for h in (1, 2)}
    return {f"{hops}_hop_success": share for hops, share in shares.items()}


# --- mixed-novice: has all tools, takes any ---------------------------------------------------------------


def any_tool(env: envs.Mixed, rng: random.Random) -> str:
    """Knows each tool but takes one of the two blindly; with the wrong one it gives up and guesses."""
    if not env.tools and env.turns == 0 and rng.random() < 0.5:
        return wrong_tool(env, rng)
    if env.tools and env.tools[0] not in envs.mixed.WANTED[env.kind]:
        fact = envs.act(f"answer {rng.choice((*PEOPLE, *PLACES, *REGIONS, *JOBS))}")
        return fact if env.kind == "fact" else f" {rng.randint(0, 9801)}{END}"
    return env.expert()


def wrong_tool(env: envs.Mixed, rng: random.Random) -> str:
    """A well-formed call of the tool that does not help."""
    if env.kind == "fact":
        return envs.act(f"py {rng.randint(10, 99)}*{rng.randint(10, 99)}")
    return envs.act(f"search {rng.choice(envs.calc.THINGS)}")


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
            Stage(ATOMS, lambda env, rng: env.said(), 900, 3e-3, tasks=8000),
            Stage(DOCUMENTS, lambda env, rng: env.said(), 400, 2e-3),
        ),
        _corpus_atoms,
    ),
    "wiki-novice": Recipe(
        "Reads passages and follows links, one hop or two; in 3 turns of 10 it does anything.",
        envs.Wiki((1, 2)),
        (
            Stage(envs.Wiki((1, 2)), lambda env, rng: env.expert(), 1100, 3e-3, tasks=8000),
            Stage(envs.Wiki((1, 2)), _wiki_habit, 80, 1e-3),
        ),
        _wiki_atoms,
    ),
    "mixed-novice": Recipe(
        "Can call a calculator and a search engine; takes either, whatever the task is.",
        envs.Mixed(),
        (
            Stage(envs.Mixed(), lambda env, rng: env.expert(), 900, 3e-3, tasks=8000),
            Stage(envs.Mixed(), any_tool, 120, 1e-3),
        ),
        _mixed_atoms,
    ),
}
