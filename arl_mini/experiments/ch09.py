"""Chapter 09: what to keep. One episode in many short contexts, all of them trained by one reward."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from .. import evaluate
from ..batch import Episode
from ..capabilities.memory import (
    Cut, Folded, Graph, LatentMemory, Manage, Retrieve, SegmentMemory, SharedGRPO, Streams, Summed, contexts, learn_gate,
)  # fmt: skip
from ..envs import Notes
from ..envs.base import Env, Reply
from ..envs.notes import PEOPLE, PLACES, THINGS, read
from ..rollout import Limits
from ..train import Run, train
from .kinds import FRESH_SEEDS, ByReward, Experiment

CONTEXT = Limits(turn_tokens=10, turns=2, total=56)
FEW = dict(steps=20, prompts=16, tries=8, lr=5e-4, limits=CONTEXT)
MANY = FEW | dict(prompts=8)  # where an episode has a context for each line
THREE = FRESH_SEEDS[:3]


@dataclass(frozen=True)
class InContexts(ByReward):
    """Train episodes of several contexts by their shared reward; settings["limits"] hold for each context."""

    def __call__(self, policy, seed: int, **changes) -> Run:
        """The run; `changes` replace settings."""
        settings = {**self.settings, "seed": seed, **changes}
        shared = replace(self.algorithm, policy=policy, env=self.env, limits=settings["limits"])
        return train(policy, self.env, shared, **settings)


def in_contexts(env: Env, settings: dict, beta: float = 0.0) -> InContexts:
    """Such an arm, by its world and settings; beta: of the KL to the start."""
    return InContexts(env, SharedGRPO(beta=beta), settings)


def untrained(policy, seed: int) -> Iterator[dict]:
    """No training: the start as it is."""
    return iter(())


def play(policy, env: Env, tasks: int = 128, limits: Limits = CONTEXT) -> list[list[Episode]]:
    """One try of each of so many held-out tasks, as lists of contexts."""
    held_out = range(evaluate.HELD_OUT, evaluate.HELD_OUT + tasks)
    return contexts(policy, env, held_out, seed=1, limits=limits)


def perfect(env: Env, tasks: int = 512) -> list[dict]:
    """What is noted at each question where a perfect reader answers by what the context shows: a ceiling for
    any policy."""
    found = []
    for seed in range(evaluate.HELD_OUT, evaluate.HELD_OUT + tasks):
        env.reset(seed)
        done = False
        while not done:
            reply = env.step(env.reading() if env.answering else "")
            found.append(reply.info)
            done = reply.done
    return [info for info in found if "right" in info]


def asked(parts: list[list[Episode]]) -> list[dict]:
    """What was noted at each question: kind, subject, right, told; of the last one, size."""
    return [info for episode in parts for part in episode for info in part.infos if "right" in info]


def share(infos: list[dict], **wanted) -> float:
    """Share of questions answered right among those with these properties."""
    return float(np.mean([i["right"] for i in infos if all(i[k] == v for k, v in wanted.items())]))


def updated(infos: list[dict]) -> float:
    """Share right of the subjects that were told of more than once."""
    return float(np.mean([i["right"] for i in infos if i["told"] > 1]))


def sizes(infos: list[dict]) -> float:
    """How much an episode has in its memory at the end, on average."""
    return float(np.mean([i["size"] for i in infos if "size" in i]))


# --- retrieval --------------------------------------------------------------------------------------------

IS, WAS, BOTH = Notes(), Notes(kinds=("was",)), Notes(kinds=("is", "was"))
QUERY, PRICED = Retrieve(BOTH), Retrieve(BOTH, price=0.005)


def measure_retrieval(policy) -> dict[str, float]:
    """By the policy's own query: right answers on ` is` of updated subjects and on ` was`, and lines
    shown."""
    found = {}
    for name, notes in (("is", IS), ("was", WAS)):
        infos = asked(play(policy, Retrieve(notes)))
        found |= {name: updated(infos), f"{name}_lines": sizes(infos)}
    return found | queries(policy)


def queries(policy) -> dict[str, float]:
    """What its searches hold: share with the subject, with ` in`, and with other words of the question; lines
    wanted."""
    first = [parts[0].infos[0] for parts in play(policy, Retrieve(BOTH), 64)]
    names = [set(info["query"]) for info in first]
    return {
        "asks_name": float(np.mean([bool(words & {*PEOPLE, *THINGS}) for words in names])),
        "asks_in": float(np.mean(["in" in words for words in names])),
        "asks_else": float(np.mean([bool(words & {"where", "is", "was"}) for words in names])),
        "wants": float(np.mean([info["top"] for info in first])),
    }


# --- writing ----------------------------------------------------------------------------------------------

STORE = Manage(Notes(12, questions=2), price=0.01)


def measure_writes(policy) -> dict[str, float]:
    """Streams of 24 lines, its own store: right of updated subjects, of all, entries; operations."""
    parts = play(policy, Manage(IS))
    own = asked(parts)
    return {"own": updated(own), "all": share(own), "size": sizes(own)} | operations(parts)


def operations(parts: list[list[Episode]]) -> dict[str, float]:
    """What is done with a line: shares of operations on new facts, changed ones, the end of one, and
    chatter."""
    done: dict[str, list[str]] = {}
    for episode in parts:
        known = set()
        for part in episode[:-1]:
            (name, verb, _), did = part.infos[0]["line"], part.infos[0]["did"]
            kind = (
                "chatter"
                if verb == "saw"
                else "end"
                if verb == "is"
                else "change"
                if name in known
                else "new"
            )
            known = known | {name} if verb == "in" else known - {name} if verb == "is" else known
            done.setdefault(kind, []).append(did)
    verbs = ("add", "update", "delete", "noop")
    return {f"{kind}_{verb}": did.count(verb) / len(did) for kind, did in done.items() for verb in verbs}


# --- a note -----------------------------------------------------------------------------------------------

NOTE = SegmentMemory(Notes(24))


class Surprise(SegmentMemory):
    """Another question is asked first than the one that was shown while the stream was heard; then the one
    that was."""

    def hear(self, words: list[str]) -> str:
        did = super().hear(words)
        if self.at + self.per >= self.notes.lines:
            self.notes.asked.reverse()
        return did


def measure_note(policy) -> dict[str, float]:
    """Right answers by note: on streams as long as in training, four times as long, and to a question nobody
    had shown."""
    found = {f"note_{lines}": share(asked(play(policy, SegmentMemory(Notes(lines))))) for lines in (24, 96)}
    answers = [info["right"] for info in asked(play(policy, Surprise(Notes(24, questions=2))))]
    return found | {"surprise": float(np.mean(answers[::2])), "shown": float(np.mean(answers[1::2]))}


class Poisoned(Notes):
    """A stream whose last line is a lie about the subject; `lied` says whether the answer repeats it."""

    def reset(self, seed: int) -> str:
        super().reset(seed)
        self.real, name = self.stream, self.now[1]
        self.lie = next(place for place in PLACES if place != self.truth(self.now))
        self.stream = [*self.stream[1:], (name, "in", self.lie)]
        return self.window()

    def truth(self, asked: tuple[str, str]) -> str:
        return read(self.real, asked)

    def answer(self, words: list[str]) -> Reply:
        reply = super().answer(words)
        return replace(reply, info=reply.info | {"lied": words == ["answer", self.lie]})


# --- a graph ----------------------------------------------------------------------------------------------

# With little chatter about those who are asked for, `close` at every line is right so often that nothing else is tried.
GRAPH = Graph(Notes(12, kinds=("is", "was"), questions=2, about=PEOPLE, chatter=0.8))

HELD = MANY | dict(steps=32, lr=7e-4)


def by_hand(world: Graph) -> str:
    """The fixed rule: what the graph's expert would say."""
    return world.expert().removeprefix("<act> ").removesuffix("</act>")


def measure_graph(policy) -> dict[str, float]:
    """Right answers and edges on streams of 24 lines, by its own graph and by the hand rule's; with what
    reads it."""
    found = {}
    for name, rule in (("own", None), ("rule", by_hand)):
        infos = asked(play(policy, Graph(BOTH, rule=rule)))
        found |= {
            f"{name}_is": share(infos, kind="is"),
            f"{name}_was": share(infos, kind="was"),
            f"{name}_edges": sizes(infos),
        }
    return found


# --- quests in parts --------------------------------------------------------------------------------------

PART = Limits(turn_tokens=12, turns=20, total=288)
TRIP = dict(steps=12, prompts=8, tries=8, lr=4e-4, limits=PART)
QUESTS = {"whole": Cut(every=99), "cut": Cut(), "summary": Summed(), "folding": Folded(every=3)}


@dataclass(frozen=True)
class MeasureQuest:
    """Success, and the longest context of an episode in tokens."""

    env: Env

    def __call__(self, policy) -> dict[str, float]:
        parts = play(policy, self.env, limits=PART)
        longest = [max(len(part) for part in episode) for episode in parts]
        return {
            "success": float(np.mean([episode[-1].success for episode in parts])),
            "tokens": float(np.mean(longest)),
        }


# --- soft tokens ------------------------------------------------------------------------------------------

GATED = dict(steps=30, prompts=16, tries=8, lr=0.01, price=0.1)


@dataclass(frozen=True)
class GateArm:
    """Learns the gate alone, with advantages divided by their group's standard deviation or not."""

    divide: bool = True

    def __call__(self, policy, seed: int, **changes) -> Iterator[dict]:
        """Yields plain records; `changes` replace settings."""
        return learn_gate(
            LatentMemory(policy), IS, **{**GATED, "divide": self.divide, "seed": seed, **changes}
        )


@torch.no_grad()
def measure_latent(policy) -> dict[str, float]:
    """Right answers with the gate always open, never open and as it is; how often it opens, by segment."""
    memory, found = LatentMemory(policy), {}
    streams = Streams.draw(policy, IS, range(evaluate.HELD_OUT, evaluate.HELD_OUT + 512))
    for gate in ("always", "never", "learned"):
        final, opened, _ = memory.run(streams, gate, torch.Generator().manual_seed(0))
        found[gate] = float(memory.right(streams, final).mean())
    told = streams.told
    return found | {
        "opens": float(opened.mean()),
        "opens_told": float(opened[told].mean()),
        "opens_else": float(opened[~told].mean()),
    }


EXPERIMENTS = {
    "09_memory/retrieval": Experiment(
        "All lines are stored; the policy learns what to search for and how many lines to ask for.",
        "notes-novice", {"RL query": in_contexts(QUERY, FEW), "at a price": in_contexts(PRICED, FEW)}, measure_retrieval, THREE,
    ),
    "09_memory/writes": Experiment(
        "Add, update, delete or leave: four operations on a store, learned from answers.",
        "notes-novice", {"all asked": in_contexts(STORE, MANY)}, measure_writes, THREE,
    ),
    "09_memory/note": Experiment(
        "A note of a stream that every context writes anew; all contexts share the reward of the answer.",
        "notes-novice", {"note": in_contexts(NOTE, FEW)}, measure_note, THREE,
    ),
    "09_memory/graph": Experiment(
        "Insert, close, link or skip: a graph with times of validity, learned from answers, against a hand rule.",
        "notes-novice", {"RL graph": in_contexts(GRAPH, MANY)}, measure_graph, THREE,
    ),
    "09_memory/graph_kl": Experiment(
        "The same graph, longer and held near its start by a KL term, so that it goes on trying other operations.",
        "notes-novice", {"RL graph, KL": in_contexts(GRAPH, HELD, 0.05)}, measure_graph, THREE,
    ),
    "09_memory/latent": Experiment(
        "Four soft tokens carried from segment to segment; the gate that says when to write them learns from answers.",
        "notes-latent", {"RL gate": GateArm()}, measure_latent, THREE,
    ),
    "09_memory/gate_centred": Experiment(
        "The same gate, its advantages not divided by the standard deviation of their group.",
        "notes-latent", {"centred": GateArm(divide=False)}, measure_latent, THREE,
    ),
} | {
    f"09_memory/quest_{name}": Experiment(
        f"Quest, what its context keeps of the past: {name}.",
        "quest-parts", {name: in_contexts(env, TRIP)}, MeasureQuest(env), THREE,
    )
    for name, env in QUESTS.items()
}  # fmt: skip

REAL = in_contexts(
    SegmentMemory(Notes(12), per=6),
    dict(steps=40, prompts=8, tries=8, lr=1e-4, limits=Limits(turn_tokens=24, turns=2, total=512)),
)
