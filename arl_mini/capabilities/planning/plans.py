"""Plans that are written down before acting: what of them can be carried out, and worlds that ask for them."""

import itertools
import random

from ...batch import Episode
from ...envs.base import Reply, act
from ...envs.craft import THINGS, Craft, plan
from ...envs.grid import Grid
from ...models.tokenizer import THINK, THINK_END

PAYS = ("goal", "executable", "complete")


def written(said: str) -> list[str]:
    """The commands of the plan `<think> get wood make plank</think>` that a turn begins with, up to its first
    slip.
    """
    thought = said.partition(THINK)[2].partition(THINK_END)[0] if said.startswith(THINK) else ""
    words, commands = thought.split(), []
    for verb, thing in zip(words[::2], words[1::2]):
        if verb not in ("get", "make") or thing not in THINGS:
            break
        commands.append(f"{verb} {thing}")
    return commands


def write(commands: list[str]) -> str:
    """The thought that holds a plan."""
    return f"{THINK}{''.join(f' {command}' for command in commands)}{THINK_END}"


def executable(env: Craft, commands: list[str]) -> list[str]:
    """The commands of a plan that can be carried out one after the other from here; tried in a copy of the
    world.
    """
    trial, done = env.clone(), []
    for command in commands:
        if command not in trial.legal():
            break
        done.append(command)
        Craft.step(trial, act(command))  # as a plain turn, whatever the world makes of first turns
    return done


def plan_reward(env: Craft, said: str, pays: str = "complete") -> float:
    """What a written plan is worth without looking at whether it reaches the goal; in [0, 1].

    'executable': the share of its commands before the first that cannot be carried out. 'complete': of the
    commands that the goal takes, the share found among these, over the plan's length where it is longer than
    needed. Source: RLTR (arXiv 2508.19598) pays the completeness of tool calls, judged by a model; here the
    recipe book judges.
    """
    if pays not in PAYS[1:]:
        raise ValueError(f"pays must be one of {PAYS[1:]}, got {pays!r}")
    commands = written(said)
    done = executable(env, commands)
    if pays == "executable":
        return len(done) / max(len(commands), 1)
    needed = plan(env.goal, env.bag, env.field) or []
    left, found = list(needed), 0
    for command in done:
        if command in left:
            left.remove(command)
            found += 1
    return found / max(len(needed), len(commands), 1)


class PlanFirst(Craft):
    """Craft that asks for a plan before the first act in a share `asked` of its tasks: ` plan make stick .
    field …`.

    The plan is the thought that the first turn begins with; later turns act. pays='goal' is Craft's own
    reward. Else the episode ends with the first turn, which is paid `plan_reward`; info['success'] then says
    whether the plan as written reaches the goal. info['plan'] is the plan, info['done'] how many of its
    commands can be carried out.

    A sample: `<user> plan make rope . field fibre 1<bot><think> get fibre make rope</think><act> get
    fibre</act><obs> bag fibre 1 . field empty</obs><act> make rope</act>` and the reward is 1.
    """

    words = f"{Craft.words} plan choose"

    def __init__(
        self,
        depths: tuple[int, int] = (1, 3),
        asked: float = 1.0,
        pays: str = "goal",
        spare: int = 4,
        slack: int = 2,
    ):
        if pays not in PAYS:
            raise ValueError(f"pays must be one of {PAYS}, got {pays!r}")
        super().__init__(depths, spare, slack)
        self.asked, self.pays = asked, pays

    def reset(self, seed: int) -> str:
        task = super().reset(seed)
        self.asks = random.Random(f"asks {seed}").random() < self.asked
        return f"{' plan' if self.asks else ''}{task}"

    def step(self, said: str) -> Reply:
        if not self.asks or self.turns:
            return super().step(said)
        commands = written(said)
        told = {"plan": commands, "done": len(executable(self, commands))}
        if self.pays == "goal":
            reply = super().step(said)
            return Reply(reply.text, reply.reward, reply.done, reply.truncated, reply.info | told)
        paid = plan_reward(self, said, self.pays)
        reached = told["done"] == len(commands) and f"make {self.goal}" in commands
        self.turns += 1
        return Reply(reward=paid, done=True, info=self._info(success=reached) | told)

    def expert(self) -> str:
        """The whole plan before the first act, where it is asked for."""
        if not self.asks or self.turns:
            return super().expert()
        return write(plan(self.goal, self.bag, self.field)) + super().expert()

    def render_chat(self) -> str:
        asked = "If the task begins with the word plan, write your whole plan before the first command."
        return f"{super().render_chat()} {asked}"


def plan_of(episode: Episode) -> list[str]:
    """The plan that an episode's first turn holds."""
    return written(episode.said(0))


class Milestones(Craft):
    """Craft that pays half of its reward for progress: each turn that brings the shortest plan to a new least
    length.

    info['success'] is the goal alone. Source: the shaped rewards of Planner-R1 (arXiv 2509.25779), whose
    steps are tool calls. This pays for progress that is not finished, so it may change which policy is best
    (exercise 07.3).
    """

    def reset(self, seed: int) -> str:
        task = super().reset(seed)
        self.needed = self.least = len(plan(self.goal, self.bag, self.field))
        return task

    def step(self, said: str) -> Reply:
        reply = super().step(said)
        left = reply.info["left"]
        won = max(self.least - left, 0) if left >= 0 else 0
        self.least -= won
        return Reply(
            reply.text, 0.5 * reply.reward + 0.5 * won / self.needed, reply.done, reply.truncated, reply.info
        )


class PlanGate(Grid):
    """Grid with a price on its `plan` command, and three rules for when it may be used.

    A share `walled` of the mazes has a wall with one gap and a way of at least six commands; the others are open.
    when='free': the policy decides. 'never': the command is refused. 'always': the first turn and every fifth is
    heard as `plan`, whatever was said. info['plans'] counts them.
    Source: Learning When to Plan (arXiv 2509.03581).
    """

    def __init__(
        self, when: str = "free", price: float = 0.05, size: int = 6, walled: float = 0.5, limit: int = 14
    ):
        if when not in ("free", "always", "never"):
            raise ValueError(f"when must be 'free', 'always' or 'never', got {when!r}")
        super().__init__(size, ("goal",), walled, limit, None if when == "never" else price)
        self.when, self.share = when, walled

    def reset(self, seed: int) -> str:
        self.walled = float(random.Random(f"gate {seed}").random() < self.share)
        for draw in itertools.count():
            task = super().reset(f"{seed} {draw}")
            if not self.walled or self.shortest >= 6:
                return task

    def step(self, said: str) -> Reply:
        return super().step(act("plan") if self.when == "always" and self.turns % 5 == 0 else said)
