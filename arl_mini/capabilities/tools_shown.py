"""How tools are shown: who writes transcripts, transcripts as examples in a prompt (ReAct), and as a corpus."""

import random
from collections.abc import Callable

from ..envs.base import Env, Reply, act
from ..envs.calc import THINGS, Calc, evaluate
from ..envs.mixed import WANTED, Mixed
from ..envs.wiki import JOBS, PEOPLE, PLACES, REGIONS
from ..models.tokenizer import BOT, END, OBS, OBS_END, USER

Speaker = Callable[[Env], str]  # what is said next in a world


# --- those who write -------------------------------------------------------------------------------------


def by_tool(env: Calc) -> str:
    """Calls the tool, repeats its answer."""
    return env.expert()


def by_head(env: Calc) -> str:
    """The right answer at once."""
    return f" {evaluate(env.expression)}{END}"


def any_tool(env: Mixed, rng: random.Random) -> str:
    """Knows each tool but takes one of the two blindly; with the wrong one it gives up and guesses."""
    if not env.tools and env.turns == 0 and rng.random() < 0.5:
        return wrong_tool(env, rng)
    if env.tools and env.tools[0] not in WANTED[env.kind]:
        fact = act(f"answer {rng.choice((*PEOPLE, *PLACES, *REGIONS, *JOBS))}")
        return fact if env.kind == "fact" else f" {rng.randint(0, 9801)}{END}"
    return env.expert()


def wrong_tool(env: Mixed, rng: random.Random) -> str:
    """A well-formed call of the tool that does not help."""
    if env.kind == "fact":
        return act(f"py {rng.randint(10, 99)}*{rng.randint(10, 99)}")
    return act(f"search {rng.choice(THINGS)}")


# --- transcripts ------------------------------------------------------------------------------------------


class Shown(Env):
    """A world whose task comes after whole transcripts of other tasks, as in a prompt with examples.

    `speak(env) → said` acts in the `examples` tasks shown, drawn from the training tasks anew for each seed.
    Source: the prompts of Yao et al. 2022 (arXiv 2210.03629), ReAct; the tags are this library's.
    """

    def __init__(self, env: Env, speak: Speaker, examples: int = 2, turns: int = 16):
        if examples < 0:
            raise ValueError(f"examples must be 0 or more, got {examples}")
        self.env, self.speak, self.examples, self.turns = env, speak, examples, turns
        self.words = env.words

    def reset(self, seed: int) -> str:
        rng = random.Random(f"shown {seed}")
        shown = [self._transcript(rng.randrange(2**30)) for _ in range(self.examples)]
        return USER.join([*shown, self.env.reset(seed)])

    def _transcript(self, seed: int) -> str:
        env = self.env.clone()
        text = env.reset(seed) + BOT
        for _ in range(self.turns):
            said = self.speak(env)
            reply = env.step(said)
            text += said
            if reply.done or reply.truncated:
                break
            text += f"{OBS}{reply.text}{OBS_END}"
        return text

    def step(self, said: str) -> Reply:
        return self.env.step(said)

    def expert(self) -> str:
        return self.env.expert()

    def random(self, rng: random.Random) -> str:
        return self.env.random(rng)

    def render_chat(self) -> str:
        return self.env.render_chat()


class Corpus(Env):
    """One of several worlds, drawn by weight; `speak` is how the transcripts of that world are written."""

    words = Calc.words

    def __init__(self, *parts: tuple[float, Env, Speaker]):
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
