"""Mixed: a number to work out or a fact to look up, with the tools for both at hand in every task."""

import random
from dataclasses import replace

from .base import Env, Reply, act, parse_act, within
from .calc import Calc
from .wiki import JOBS, Wiki

TOOL_OF = {"py": "calculator", "abacus": "calculator", "search": "search", "open": "search"}
WANTED = {"sum": ("", "calculator"), "product": ("calculator",), "fact": ("search",)}


class Mixed(Env):
    """A task of Calc, or in a share `facts` a one-hop question of Wiki; the policy must see which tool helps.

    All commands work in all tasks: `py 7*8` answers in a question about people too, `search pens` in a sum.
    The task is done as in its own world: a number and `<end>`, or `<act> answer WORD</act>`. Reward 1 for the
    right answer, nothing for calls. At most `limit` turns.

    A sample: `<user> what is job of ada ?<bot><act> py 3*4</act><obs> 12</obs><act> search ada</act><obs> ada
    ben</obs><act> open ada</act><obs> ada birthplace brook friend ben job baker</obs><act> answer
    baker</act>`: reward 1, though the first tool was the wrong one.
    """

    words = f"{Calc.words} {Wiki.words}"

    def __init__(self, facts: float = 0.5, limit: int = 8):
        if not 0 <= facts <= 1:
            raise ValueError(f"facts is a share in [0, 1], got {facts}")
        if limit < 3:
            raise ValueError(f"looking up a fact takes 3 turns, got a limit of {limit}")
        self.facts, self.limit = facts, limit
        self.calc, self.wiki = Calc(calls=limit), Wiki((1, 1), limit=limit)

    def reset(self, seed: int) -> str:
        self.turns, self.tools = 0, []
        number, fact = self.calc.reset(seed), self.wiki.reset(seed)
        self.kind = "fact" if random.Random(f"mixed {seed}").random() < self.facts else self.calc.kind
        return fact if self.kind == "fact" else number

    def step(self, said: str) -> Reply:
        self.turns += 1
        tool = TOOL_OF.get((parse_act(said) or [""])[0], "")
        self.tools += [tool] if tool else []
        asked, other = (self.wiki, self.calc) if self.kind == "fact" else (self.calc, self.wiki)
        if tool and tool not in WANTED[self.kind]:
            reply = replace(other.step(said), reward=0.0, done=False, truncated=False)
        else:
            reply = asked.step(said)
        return within(replace(reply, info=self._info(reply.info)), self.turns, self.limit)

    def _info(self, told: dict) -> dict:
        """tool: the one called first; right_tool: it is one that helps; calls: of any tool."""
        first = self.tools[0] if self.tools else ""
        kept = {k: told[k] for k in ("success", "malformed", "illegal") if k in told}
        counts = {"tool": first, "right_tool": first in WANTED[self.kind], "calls": len(self.tools)}
        return {"kind": self.kind, **counts, **kept}

    def expert(self) -> str:
        """The expert of the task's own world."""
        return (self.wiki if self.kind == "fact" else self.calc).expert()

    def random(self, rng: random.Random) -> str:
        """A call of either tool, or an answer without one."""
        if self.tools or rng.random() < 0.3:
            number = f" {rng.randint(0, 99)}<end>"
            return act(f"answer {rng.choice(JOBS)}") if self.kind == "fact" else number
        return rng.choice((self.calc, self.wiki)).random(rng)

    def render_chat(self) -> str:
        return f"{self.calc.render_chat()} Or the task is another one. {self.wiki.render_chat()}"
