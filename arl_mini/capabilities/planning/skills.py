"""A library of skills: what worked once is kept as one action more, and an action may be made of actions."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...batch import Episode
from ...envs.base import Env, Reply, act, parse_act
from ...envs.craft import Craft
from .plans import executable


@dataclass
class SkillLibrary:
    """Verified command sequences by the name of what they make: composite actions in the sense of survey Eq.
    (5).

    Source: Voyager (arXiv 2305.16291), which stores programs that a frozen language model wrote and a game
    verified. The weights of the policy never change.
    """

    skills: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def learn(self, env: Craft, commands: Sequence[str]) -> bool:
        """Keeps a sequence that ends in a `make`, without what it did not take; whether there was anything to
        keep.

        env: the world as it was before the sequence; it is tried in copies only.
        """
        name, kept = commands[-1], list(commands)
        if not works(env, kept):
            return False
        for command in commands[:-1]:
            shorter = kept.copy()
            shorter.remove(command)
            kept = shorter if works(env, shorter) else kept
        if len(self.skills.get(name, kept)) < len(kept):
            return False
        self.skills[name] = tuple(kept)
        return True

    def learn_from(self, env: Craft, episode: Episode) -> list[str]:
        """Keeps what an episode of a world made; the names of what it learned from it."""
        env = env.clone()
        env.reset(episode.seed)
        done, learned = [], []
        for info, turn in zip(episode.infos, range(episode.turns)):
            if info.get("illegal") or info.get("malformed"):
                continue
            done += info.get("carried_out", [" ".join(parse_act(episode.said(turn)))])
            if done[-1].startswith("make") and self.learn(env, done):
                learned.append(done[-1])
        return learned

    def unfold(self, env: Craft, command: str) -> list[str]:
        """The commands that a command stands for here: itself where it can be done, else the latest part of
        the skill of that name that can be carried out to its end; [] where there is none.
        """
        if command in env.legal():
            return [command]
        skill = self.skills.get(command, ())
        for first in reversed(range(len(skill))):
            if works(env, skill[first:]):
                return list(skill[first:])
        return []


def works(env: Craft, commands: Sequence[str]) -> bool:
    """Whether commands can be carried out one after the other; tried in a copy of the world."""
    return len(executable(env, list(commands))) == len(commands)


class Skilled(Env):
    """A crafting world in which what a library holds is one action. info['carried_out']: the world's own
    commands.
    """

    def __init__(self, env: Craft, library: SkillLibrary):
        self.env, self.library, self.words = env, library, env.words

    def __deepcopy__(self, memo) -> "Skilled":
        return Skilled(
            self.env.clone(), self.library
        )  # one library for all copies: it is looked up, not changed, here

    def reset(self, seed: int) -> str:
        return self.env.reset(seed)

    def step(self, said: str) -> Reply:
        commands = self.library.unfold(self.env, " ".join(parse_act(said) or []))
        if not commands:
            return self.env.step(said)
        for number, command in enumerate(commands, 1):
            reply = self.env.step(act(command))
            if reply.done or reply.truncated:
                break
        return Reply(
            reply.text,
            reply.reward,
            reply.done,
            reply.truncated,
            reply.info | {"carried_out": commands[:number]},
        )

    def expert(self) -> str:
        return self.env.expert()

    def random(self, rng) -> str:
        return self.env.random(rng)

    def render_chat(self) -> str:
        more = "You may name any thing that you have made before, and it is made from the start."
        return f"{self.env.render_chat()} {more}"
