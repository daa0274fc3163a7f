"""Self-play: one policy proposes questions, one answers them, and what is hard but not hopeless is paid best."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..batch import Episode
from .improvement import ask
from .improvement_roles import Questions, answer_of
from .vote import Vote, vote

PROPOSE = " propose"


def uncertainty(solved: float) -> float:
    """1 − 2|p − ½|: most for what is solved half of the time, nothing for what is always or never solved (R-Zero)."""
    return 1 - 2 * abs(solved - 0.5)


def learnability(solved: float) -> float:
    """1 − p, but nothing for what is never solved: hard and possible (Absolute Zero)."""
    return 1 - solved if solved > 0 else 0.0


@dataclass(frozen=True)
class Proposal:
    """A question that was proposed, what counts as its answer, and how often the solver gave that."""

    question: str
    answer: str
    solved: float


class Proposer:
    """The judge of proposals, for `Judged`; it keeps the valid questions of its last step in `found`.

    The solver answers each question `tries` times. label(question, answers) → what counts as the answer, or
    None for an invalid question: an interpreter's word (Absolute Zero, arXiv 2505.03335) or the majority
    (R-Zero, arXiv 2508.05004). A proposal is paid worth(share of tries with that answer) × (1 − share of
    this step's proposals that ask the same question); an invalid one −0.5. Departs from the papers: R-Zero takes
    a penalty for clusters of similar questions off, and this factor is also laid on Absolute Zero's reward.
    """

    def __init__(
        self,
        solver,
        label: Callable[[str, Sequence[str | None]], str | None],
        worth: Callable[[float], float] = uncertainty,
        tries: int = 8,
        answer: Callable[[Episode], str | None] = lambda e: answer_of(e.said(0)),
        valid: Callable[[str], bool] = bool,
    ):
        self.solver, self.label, self.worth, self.tries = solver, label, worth, tries
        self.answer, self.valid, self.found, self.steps = answer, valid, [], 0

    def __call__(self, episodes: Sequence[Episode]) -> list[float]:
        said = [answer_of(e.said(0)) for e in episodes]
        asked = list(dict.fromkeys(q for q in said if q is not None and self.valid(q)))
        self.steps += 1
        replies = ask(self.solver, asked, self.tries, seed=self.steps) if asked else []
        known: dict[str, Proposal] = {}
        for question, tried in zip(asked, replies, strict=True):
            answers = [self.answer(e) for e in tried]
            truth = self.label(question, answers)
            if truth is not None:
                known[question] = Proposal(question, truth, float(np.mean([a == truth for a in answers])))
        self.found = list(known.values())
        often = Counter(said)
        return [
            self.worth(known[q].solved) * (1 - (often[q] - 1) / len(said)) if q in known else -0.5
            for q in said
        ]


def by_majority(_: str, answers: Sequence[str | None]) -> str | None:
    """The label of R-Zero: the solver's own most common answer."""
    found: Vote = vote(answers)
    return found.answer


def self_play(
    proposing,
    solving,
    proposer: Proposer,
    rounds: int,
    updates: int = 1,
    band: tuple[float, float] = (0.2, 0.9),
) -> Iterator[dict[str, float]]:
    """Rounds of one step of the run `proposing` and `updates` steps of the run `solving`; yields what each round found.

    The solver trains on the questions of the round whose share lies in `band`, and on all where none does.
    proposing: a run on `Questions([(PROPOSE, "")])` under Judged(judge=proposer); solving: a run on
    `Questions`, whose items are replaced.
    """
    for number in range(1, rounds + 1):
        next(proposing)
        found = proposer.found
        chosen = [p for p in found if band[0] <= p.solved <= band[1]] or found
        if chosen:
            solving.env = Questions(
                [(p.question, p.answer) for p in chosen], solving.env.words, solving.env.read
            )
            for _ in range(updates):
                next(solving)
        yield {
            "step": number, "valid": len(found), "chosen": len(chosen),
            "solved": float(np.mean([p.solved for p in found] or [0.0])),
            "length": float(np.mean([len(p.question.split()) for p in found] or [0.0])),
        }  # fmt: skip
