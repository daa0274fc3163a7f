"""The contract of every world, and `check_env`, which holds a world to it.

A world is a text game for one policy: `reset(seed) → str` tells the task, `step(said) → Reply` answers what the
policy said. State depends only on seed and actions. One action format for all: free text is text;
`<act> verb arg …</act>` is an action; a turn ends with `</act>` or `<end>`.
"""

import copy
import math
import numbers
from dataclasses import dataclass, field, replace

from ..models.tokenizer import ACT, ACT_END, SPECIALS


@dataclass(frozen=True)
class Reply:
    """What a world answers: text (shown to the policy unless done), reward, and whether the episode is over.

    done: the task ended (terminated). truncated: the world's own limit cut it. info: plain data for people;
    'success' (bool) and 'malformed' (bool) are counted by the library.
    """

    text: str = ""
    reward: float = 0.0
    done: bool = False
    truncated: bool = False
    info: dict = field(default_factory=dict)


class Env:
    """Base class of worlds. Subclasses set `words` and write `reset`, `step` and `expert`."""

    words: str = ""  # a text sample with every word the world uses: its vocabulary

    def reset(self, seed: int) -> str:
        """Starts the task of a seed; returns its text."""
        raise NotImplementedError

    def step(self, said: str) -> Reply:
        """Answers one turn of the policy; never raises for what a policy can say."""
        raise NotImplementedError

    def expert(self) -> str:
        """What a scripted expert would say now."""
        raise NotImplementedError

    def random(self, rng) -> str:
        """What a random but well-formed policy would say now. rng: `random.Random`."""
        raise NotImplementedError

    def clone(self) -> "Env":
        """An independent copy with the same state, to look ahead or branch from."""
        return copy.deepcopy(self)

    def render_chat(self) -> str:
        """Instructions for a real language model, put before the task text."""
        return (
            "Act by writing <act> command </act>, one command at a time. "
            "The answer comes back between <obs> and </obs>."
        )


def act(command: str) -> str:
    """`<act> command</act>`: every word with the space before it, the closing tag without."""
    return f"{ACT} {command.strip()}{ACT_END}"


def parse_act(said: str) -> list[str] | None:
    """The words of the action that ends a turn, or None where there is no well-formed one.

    Real language models put a space before the closing tag; that is fine. Text before `<act>` is thought.
    """
    head, tag, command = said.partition(ACT)
    if not tag or not command.rstrip().endswith(ACT_END):
        return None
    command = command.rstrip()[: -len(ACT_END)]
    if any(token in command for token in SPECIALS) or any(token in head for token in (ACT_END,)):
        return None
    return command.split() or None


def within(reply: Reply, turns: int, limit: int) -> Reply:
    """The reply, or the same as the end of an episode that failed where the world's own limit of turns is reached."""
    if reply.done or turns < limit:
        return reply
    return replace(reply, truncated=True, info={**reply.info, "success": False})


def malformed(hint: str, **info) -> Reply:
    """The observation that a turn without a well-formed action gets; counted by the library."""
    return Reply(f" error {hint}", info={"malformed": True, **info})


def check_reply(reply, env, said: str) -> Reply:
    """The reply itself if it keeps the contract, else an error that says what came."""
    name = type(env).__name__
    if not isinstance(reply, Reply):
        raise TypeError(
            f"{name}.step({said!r}) returned {type(reply).__name__} {reply!r:.80}; expected a Reply; "
            "hint: return Reply(text, reward, done)"
        )
    if not isinstance(reply.text, str):
        raise TypeError(f"{name}.step({said!r}): Reply.text is {type(reply.text).__name__}, expected str")
    if not isinstance(reply.reward, numbers.Real) or not math.isfinite(reply.reward):
        raise ValueError(f"{name}.step({said!r}): Reply.reward is {reply.reward!r}, expected a finite number")
    for flag in ("done", "truncated"):
        if not isinstance(getattr(reply, flag), bool):
            raise TypeError(f"{name}.step({said!r}): Reply.{flag} is {getattr(reply, flag)!r}, expected a bool")
    if not isinstance(reply.info, dict):
        raise TypeError(f"{name}.step({said!r}): Reply.info is {type(reply.info).__name__}, expected a dict")
    return reply


ODD_SAYINGS = ("", "<end>", "</act>", "<act></act>", "<act> " + "x " * 50, "<obs> you win</obs>", "é\0\n", act("?"))


def check_env(env: Env, seeds: range = range(5), turns: int = 30) -> None:
    """Raises AssertionError naming the broken rule: types, determinism under seed, experts, odd sayings.

    Rules: the same seed and sayings give the same replies, also in a clone, after other seeds and after episodes that
    were left half-way; nothing that a policy can say raises; the expert ends every task with success; every text is
    made of the world's `words`.
    """
    name = type(env).__name__
    for seed in seeds:
        first = env.reset(seed)
        assert isinstance(first, str) and first, f"{name}.reset({seed}) returned {first!r}, expected a text"
        said, replies, twin = [], [], env.clone()
        for _ in range(turns):
            said.append(env.expert())
            replies.append(check_reply(env.step(said[-1]), env, said[-1]))
            again = twin.step(said[-1])
            assert again == replies[-1], f"{name} seed {seed}: a clone answered {again}, not {replies[-1]}"
            if replies[-1].done or replies[-1].truncated:
                break
        last = replies[-1]
        assert last.done, f"{name} seed {seed}: the expert did not finish in {turns} turns"
        assert last.info.get("success"), f"{name} seed {seed}: the expert's last reply has no info['success']"
        env.reset(seed + 1)
        _check_odd_sayings(env, seed, turns)
        assert env.reset(seed) == first, f"{name}.reset({seed}) told another task the second time"
        again = [env.step(s) for s in said]
        assert again == replies, f"{name} seed {seed}: the same sayings got other replies"
        _check_words(env, [first, *said, *(r.text for r in replies)])


def _check_odd_sayings(env: Env, seed: int, turns: int) -> None:
    for odd in ODD_SAYINGS:
        env.reset(seed)
        for _ in range(turns):
            try:
                reply = check_reply(env.step(odd), env, odd)
            except Exception as error:
                raise AssertionError(
                    f"{type(env).__name__} seed {seed}: step({odd!r}) raised {error!r}; expected a Reply"
                ) from error
            assert not reply.info.get("success"), f"{type(env).__name__}: saying {odd!r} counts as success"
            if reply.done or reply.truncated:
                break


def _check_words(env: Env, texts: list[str]) -> None:
    from ..models.tokenizer import pieces

    known = set(pieces(env.words)) | {f" {d}" for d in range(10)}
    used = {p for text in texts for p in pieces(text) if len(p) > 1}
    assert used <= known, f"{type(env).__name__}.words lacks {sorted(used - known)}; hint: add them to `words`"
