"""Chain: add digits from left to right, mod 10; answer at once or write every step."""

import random

from .base import Env, Reply
from ..models.tokenizer import END, THINK, THINK_END


class Chain(Env):
    """One reply to a chain of `depth` additions mod 10.

    The task: ` 3 + 4 + 8 =`. The policy may answer at once, ` 5<end>`, or write the running sums first:
    `<think> 7</think> 5<end>`. `depths` is the range of depths drawn from; `score` says what earns the reward 1:
    'final' the last digit, 'chain' also every step in between (so an answer without steps earns it at depth 1 only).
    hint: with it the task begins with an answer that somebody claims, ` 5 = 3 + 4 + 8 =`, right in this share of tasks.

    A sample: `<user> 3 + 4 + 8 + 1 =<bot><think> 7 5</think> 6<end>` and the reward is 1.
    """

    words = " + ="

    def __init__(self, depths: tuple[int, int] = (1, 3), score: str = "final", hint: float | None = None):
        if not 1 <= depths[0] <= depths[1] <= 9:
            raise ValueError(f"depths must be a range within 1 to 9, got {depths}")
        if score not in ("final", "chain"):
            raise ValueError(f"score must be 'final' or 'chain', got {score!r}")
        if hint is not None and not 0 <= hint <= 1:
            raise ValueError(f"hint is the share of right hints, in [0, 1], or None; got {hint}")
        self.depths, self.score, self.hint = depths, score, hint

    def reset(self, seed: int) -> str:
        rng = random.Random(f"chain {seed}")
        digits = [rng.randint(0, 9) for _ in range(rng.randint(*self.depths) + 1)]
        sums = [sum(digits[: i + 1]) % 10 for i in range(1, len(digits))]
        self.steps, self.answer = sums[:-1], sums[-1]
        task = f" {' + '.join(map(str, digits))} ="
        if self.hint is None:
            return task
        rng = random.Random(f"hint {seed}")  # its own, so that the task is the one without a hint
        self.hinted = self.answer if rng.random() < self.hint else (self.answer + rng.randint(1, 9)) % 10
        return f" {self.hinted} ={task}"

    def _write(self, steps: list[int], answer: int) -> str:
        thought = f"{THINK}{''.join(f' {s}' for s in steps)}{THINK_END}" if steps else ""
        return f"{thought} {answer}{END}"

    def step(self, said: str) -> Reply:
        head, thinking, rest = said.partition(THINK)
        thought, _, tail = rest.partition(THINK_END)
        answer = (tail if thinking else head).removesuffix(END).strip()
        right = said.endswith(END) and answer == str(self.answer)
        correct = thought.split() == [str(s) for s in self.steps]
        paid = right and (self.score == "final" or correct)
        info = {"success": paid, "right": right, "thinking": bool(thinking), "steps_right": correct, "depth": self.depth}
        if self.hint is not None:
            info["hint_right"] = self.hinted == self.answer
        return Reply(reward=float(paid), done=True, info=info)

    @property
    def depth(self) -> int:
        """Additions in the task."""
        return len(self.steps) + 1

    def expert(self) -> str:
        """Writes every step."""
        return self._write(self.steps, self.answer)

    def guess(self, rng: random.Random) -> str:
        """Answers at once, with a random digit."""
        return self._write([], rng.randint(0, 9))

    random = guess

    def render_chat(self) -> str:
        return "Add from left to right and keep only the last digit of each sum. Answer with one digit."
