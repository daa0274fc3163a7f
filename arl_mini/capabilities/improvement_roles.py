"""The jobs around a program besides writing it: predicting what it gives, reviewing it, running it on what is shown.

A job is a question with one answer, so one world, `Questions`, serves them all, and whatever a policy asks
itself.
"""

import ast
import random
import re
from collections.abc import Callable, Sequence

from ..envs.base import Env, Reply, act, parse_act
from ..envs.pyfunc import PyFunc
from ..models.tokenizer import END, THINK_END

RIGHT = " right"
WORDS = f"{PyFunc.words}{RIGHT} propose"


def answer_of(said: str) -> str | None:
    """What was said before `<end>`; None for a reply that is empty or was cut."""
    answer = said.removesuffix(END)
    return answer if answer.strip() and said.endswith(END) else None


def last_of(said: str) -> str | None:
    """The answer behind a thought."""
    answer = answer_of(said)
    return None if answer is None else answer.rpartition(THINK_END)[2] or None


class Questions(Env):
    """Questions with one answer each, ` x * 2 + 1 ; f ( 5 ) =` and ` 11<end>`; the task of a seed is item seed mod n.

    items: (question, answer) pairs, or a function seed → pair. Reward 1 where read(said) is the answer.
    What a policy wrote can be an item, so it is the world of self-made curricula; `words` must then cover
    it.
    """

    def __init__(
        self,
        items: Sequence[tuple[str, str]] | Callable[[int], tuple[str, str]],
        words: str = WORDS,
        read: Callable[[str], str | None] = answer_of,
    ):
        if not callable(items) and not items:
            raise ValueError("no questions to ask; hint: were all proposals invalid?")
        self.items, self.words, self.read = items if callable(items) else tuple(items), words, read

    def __deepcopy__(self, memo) -> "Questions":
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))  # the items are never changed
        return twin

    def reset(self, seed: int) -> str:
        question, self.answer = self.item(seed)
        return question

    def item(self, seed: int) -> tuple[str, str]:
        """The question and the answer of a seed."""
        return self.items(seed) if callable(self.items) else self.items[seed % len(self.items)]

    def step(self, said: str) -> Reply:
        right = self.read(said) == self.answer
        return Reply(reward=float(right), done=True, info={"success": right})

    def expert(self) -> str:
        return self.answer + END

    def random(self, rng: random.Random) -> str:
        """The answer to some question."""
        return self.item(rng.randrange(2**30))[1] + END

    def render_chat(self) -> str:
        return "Answer the question with the answer alone."


def body_of(said: str) -> str | None:
    """The program of an action, without its tags; None where there is none."""
    words = parse_act(said)
    return None if words is None else " " + " ".join(words)


def examples(task: str) -> list[tuple[str, str]]:
    """The (input, value) pairs that a PyFunc task shows, as it writes them."""
    parts = [part.partition(" ) =") for part in task.split(" ; f (") if part.strip()]
    return [(call.removeprefix(" f ("), value) for call, _, value in parts]


def deduction(body: str, shown: str) -> str:
    """The question what a program gives for an input; both as written in PyFunc."""
    return f"{body} ; f ({shown} ) ="


def deduced(seed: int, kinds: tuple[str, ...]) -> tuple[str, str]:
    """What a program of a seed gives for one of its inputs: the question and the answer. kinds: as in `PyFunc`."""
    env = PyFunc(kinds)
    env.reset(seed)
    return deduction(f" return {env.expression}", f" {env.inputs[seed % 8]}"), f" {env.expected[seed % 8]}"


def review(task: str, said: str) -> str:
    """The question what is wrong with an answer to a PyFunc task."""
    return f"{task} ;{body_of(said) or ' nothing'}"


def executed(task: str, said: str, run=None) -> str:
    """What an interpreter finds on the examples that the task *shows*: ` right`, ` f ( 5 ) = 10 not 11` or ` error name`.

    The hidden tests stay hidden: a program that fits the examples alone passes. run: as in `PyFunc`.
    """
    env = PyFunc(run=run)
    pairs = examples(task)
    env.kind, env.tried = "shown", 0
    env.inputs = [ast.literal_eval(x.strip()) for x, _ in pairs]
    env.expected = [int(y.replace(" ", "")) for _, y in pairs]
    reply = env.step(said)
    return RIGHT if reply.done else reply.text


def value_of(question: str, run=None) -> str | None:
    """What an interpreter answers to a `deduction`; None where it is no such question, or the program gives no number."""
    body, _, call = question.partition(" ; f (")
    shown = call.removesuffix(" ) =")
    if not re.fullmatch(r" \d+", shown) or call == shown:
        return None
    env = PyFunc(run=run)
    env.kind, env.tried, env.inputs, env.expected = "asked", 0, [int(shown)], [10**6]
    found = re.match(r" f \( \d+ \) = (.*) not", env.step(act(body)).text)
    return f" {found[1]}" if found and found[1] != "nothing" else None


def missing(digits: Sequence[int], hidden: int, result: int) -> str:
    """The inverse question of a chain of sums: one number is hidden, the result is told. ` 3 + ? + 8 = 5`."""
    shown = ["?" if k == hidden else str(d) for k, d in enumerate(digits)]
    return f" {' + '.join(shown)} = {result}"
