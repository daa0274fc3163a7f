"""Single contexts of many memory worlds, to teach a policy what each kind of context asks of it."""

import random
from collections.abc import Sequence

from ...envs.base import Env, Reply
from ...envs.notes import Notes
from .latent import SOFT
from .quests import Cut
from .worlds import Graph, Manage, Remembering, Retrieve, SegmentMemory


class Lessons(Env):
    """One context, drawn from the course of a random world's episode; reward 1 for ending it with what its
    expert says.

    Before that the episode was played by the world's demonstrator or, turn by turn, at random, so that
    memories of all qualities are met. Questions are to be answered by what the context shows, be it enough or
    not.
    """

    words = " ".join((*(world.words for world in (Notes, SegmentMemory, Retrieve, Manage, Graph, Cut)), SOFT))

    def __init__(self, worlds: Sequence[Env]):
        self.worlds = tuple(worlds)

    def reset(self, seed: int) -> str:
        rng = random.Random(f"lesson {seed}")
        self.world = rng.choice(self.worlds).clone()
        text, wild = self.world.reset(seed), rng.choice((0.0, 0.3, 1.0))
        last = self.world.rounds
        asks = (
            not isinstance(self.world, Cut) and rng.random() < 0.5
        )  # half of these lessons ask for an answer
        before = last if asks else rng.randint(0, last)
        while before:
            reply = self.world.step(self.world.random(rng) if rng.random() < wild else self.expert())
            if reply.done or reply.truncated:
                return self.reset(seed + 2**40)
            before, text = before - ("fresh" in reply.info), reply.text
        return text

    @property
    def answering(self) -> bool:
        """Whether the context asks for an answer."""
        return isinstance(self.world, Notes | Remembering) and self.world.answering

    def expert(self) -> str:
        if isinstance(self.world, Cut):
            return self.world.shown()
        return self.world.reading() if self.answering else self.world.expert()

    def random(self, rng: random.Random) -> str:
        return self.world.random(rng)

    def step(self, said: str) -> Reply:
        right, answering = said == self.clone().expert(), self.answering
        reply = self.world.step(said)
        over = reply.done or reply.truncated or "fresh" in reply.info
        info = {"world": type(self.world).__name__, "answering": answering}
        if not over:
            return Reply(reply.text, info=info)
        return Reply(reward=float(right), done=True, info={**info, "success": right})


def novice(lesson: Lessons, rng: random.Random) -> str:
    """Reads as taught; what it does with a memory is left to chance."""
    return lesson.expert() if lesson.answering else lesson.random(rng)


def course(lines: int = 16) -> Lessons:
    """All worlds on Notes; windows and notes twice, for to find the right line is the hardest to learn."""
    notes, plain = Notes(lines, kinds=("is", "was")), Notes(lines)
    windows = (Notes(12, kinds=("is", "was")), Notes(), SegmentMemory(plain), SegmentMemory(plain))
    return Lessons((*windows, Retrieve(notes), Manage(plain), Graph(notes)))
