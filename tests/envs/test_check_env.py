"""Each rule of check_env catches a world that breaks it, and lets a good one pass."""

import random
import time

import pytest

from arl_mini.envs import Env, Reply, act, check_env, malformed, parse_act


class Good(Env):
    """Say the number that the task tells, twice."""

    words = " say = error act again"

    def reset(self, seed: int) -> str:
        self.answer, self.done = random.Random(f"good {seed}").randint(0, 9), 0
        return f" say = {self.answer}"

    def step(self, said: str) -> Reply:
        words = parse_act(said)
        if words is None:
            return malformed("say act")
        self.done += words == ["say", str(self.answer)]
        over = self.done == 2
        return Reply(" again", float(over), over, info={"success": over})

    def expert(self) -> str:
        return act(f"say {self.answer}")


def test_a_good_world_passes():
    check_env(Good())
    check_env(Good(), seeds=range(100, 102), turns=2)


# --- one broken rule each ---------------------------------------------------------------------------------


class NoTask(Good):
    def reset(self, seed):
        super().reset(seed)


class EmptyTask(Good):
    def reset(self, seed):
        super().reset(seed)
        return ""


class BytesTask(Good):
    def reset(self, seed):
        return super().reset(seed).encode()


class TupleReply(Good):
    def step(self, said):
        reply = super().step(said)
        return reply.text, reply.reward, reply.done


class NoReward(Good):
    def step(self, said):
        return Reply(super().step(said).text, reward=float("nan"))


class WallClock(Good):
    def step(self, said):
        reply = super().step(said)
        return Reply(f" {time.perf_counter_ns()}", reply.reward, reply.done, info=reply.info)


class ClockAtStart(Good):
    def reset(self, seed):
        task = super().reset(seed)
        self.bonus = time.perf_counter_ns()
        return task

    def step(self, said):
        reply = super().step(said)
        return Reply(reply.text, reply.reward + self.bonus % 1000, reply.done, info=reply.info)


class GlobalChance(Good):
    def step(self, said):
        reply = super().step(said)
        return Reply(reply.text, reply.reward + random.random(), reply.done, info=reply.info)


class GlobalTask(Good):
    def reset(self, seed):
        super().reset(seed)
        self.answer = random.randint(0, 10**9)
        return f" say = {self.answer}"


class RemembersSeeds(Good):
    resets = 0

    def reset(self, seed):
        self.resets += 1
        return super().reset(seed) + " again" * (self.resets > 1)


class Resentful(Good):
    """reset forgets to clear what was said in the last episode."""

    angry = False

    def step(self, said):
        self.angry |= parse_act(said) is None
        reply = super().step(said)
        return Reply(reply.text, reply.reward - self.angry, reply.done, info=reply.info)


class SharedState(Good):
    board: list = []  # one for all copies

    def step(self, said):
        self.board.append(said)
        reply = super().step(said)
        return Reply(reply.text, reply.reward + len(self.board), reply.done, info=reply.info)


class NoCopy(Good):
    def clone(self):
        return self


class RaisesOnNothing(Good):
    def step(self, said):
        parse_act(said)[0]
        return super().step(said)


class RaisesOnEmptyText(Good):
    def step(self, said):
        said[0]
        return super().step(said)


class RaisesOnOddBytes(Good):
    def step(self, said):
        said.encode("ascii")
        return super().step(said)


class RaisesOnLongText(Good):
    def step(self, said):
        if len(said) > 100:
            raise RecursionError
        return super().step(said)


class RaisesOnAnUnknownVerb(Good):
    def step(self, said):
        words = parse_act(said)
        {"say": 1, "x": 2}[words[0] if words else "say"]
        return super().step(said)


class WrongReplyToNonsense(Good):
    def step(self, said):
        return super().step(said) if parse_act(said) else None


class SucceedsAtTheEnd(Good):
    """Whoever stops is right."""

    def step(self, said):
        return Reply(done=True, info={"success": True}) if said.endswith("<end>") else super().step(said)


class SucceedsAtNothing(Good):
    def step(self, said):
        return Reply(done=True, info={"success": True}) if not said else super().step(said)


class BelievesForgery(Good):
    def step(self, said):
        return Reply(done=True, info={"success": True}) if "win" in said else super().step(said)


class Patient(Good):
    """Pays whoever stays long enough."""

    def step(self, said):
        self.turns = getattr(self, "turns", 0) + 1
        return Reply(done=True, info={"success": True}) if self.turns > 5 else super().step(said)


class ExpertNeverEnds(Good):
    def expert(self):
        return act("say nothing")


class ExpertFails(Good):
    def step(self, said):
        reply = super().step(said)
        return Reply(reply.text, reply.reward, reply.done, info={"success": False})


class ExpertSaysNothingOfSuccess(Good):
    def step(self, said):
        reply = super().step(said)
        return Reply(reply.text, reply.reward, reply.done)


class ExpertChanges(Good):
    """Asking the expert moves the world on."""

    def expert(self):
        self.done = 1
        return super().expert()


class WordsLackTask(Good):
    words = " = error act again"


class WordsLackObservation(Good):
    words = " say = error act"


class WordsLackExpert(Good):
    words = Good.words

    def step(self, said):
        return super().step(said.replace(" speak", " say"))

    def expert(self):
        return super().expert().replace(" say", " speak")


BROKEN = [
    (NoTask, "NoTask.reset.0. returned None, expected a text"),
    (EmptyTask, "EmptyTask.reset.0. returned '', expected a text"),
    (BytesTask, "BytesTask.reset.0. returned b' say"),
    (TupleReply, "returned tuple .* expected a Reply"),
    (NoReward, "Reply.reward is nan, expected a finite number"),
    (WallClock, "a clone answered"),
    (ClockAtStart, "same sayings got other replies"),
    (GlobalChance, "a clone answered"),
    (GlobalTask, "told another task the second time"),
    (RemembersSeeds, "told another task the second time"),
    (Resentful, "same sayings got other replies"),
    (SharedState, "a clone answered"),
    (NoCopy, "a clone answered"),
    (RaisesOnNothing, r"step\(''\) raised TypeError"),
    (RaisesOnEmptyText, r"step\(''\) raised IndexError"),
    (RaisesOnOddBytes, r"step\('é.*raised UnicodeEncodeError"),
    (RaisesOnLongText, "raised RecursionError"),
    (RaisesOnAnUnknownVerb, r"step\('<act> \?</act>'\) raised KeyError"),
    (WrongReplyToNonsense, r"step\(''\) raised TypeError.*expected a Reply"),
    (SucceedsAtTheEnd, "saying '<end>' counts as success"),
    (SucceedsAtNothing, "saying '' counts as success"),
    (BelievesForgery, "saying '<obs> you win</obs>' counts as success"),
    (Patient, "saying '' counts as success"),
    (ExpertNeverEnds, "the expert did not finish in 30 turns"),
    (ExpertFails, r"the expert's last reply has no info\['success'\]"),
    (ExpertSaysNothingOfSuccess, r"the expert's last reply has no info\['success'\]"),
    (ExpertChanges, "a clone answered"),
    (WordsLackTask, r"WordsLackTask.words lacks \[' say'\]; hint: add them to `words`"),
    (WordsLackObservation, r"lacks \[' again'\]"),
    (WordsLackExpert, r"lacks \[' speak'\]"),
]


@pytest.mark.parametrize("world, message", BROKEN, ids=[w.__name__ for w, _ in BROKEN])
def test_a_broken_rule_is_found(world, message):
    with pytest.raises((AssertionError, TypeError, ValueError), match=message):
        check_env(world())


# --- the one action format --------------------------------------------------------------------------------


@pytest.mark.parametrize("said, words", [
    ("<act> go north</act>", ["go", "north"]), ("<act>go north</act>", ["go", "north"]), ("<act> go  north </act>\n", ["go", "north"]),
    (" I think so <act> go</act>", ["go"]), ("<think> a</think><act> go</act>", ["go"]),
    ("", None), ("<end>", None), (" go north<end>", None), ("<act> go north", None), ("go north</act>", None),
    ("<act></act>", None), ("<act>   </act>", None), ("<act> go</act> more", None), ("<act> go</act></act>", None),
    ("</act><act> go</act>", None), ("<act> a</act><act> b</act>", None), ("<act> <act> go</act>", None),
    ("<act> go<end></act>", None), ("<act> <obs> x</obs></act>", None), ("<act> a <user> b</act>", None),
])  # fmt: skip
def test_parse_act(said, words):
    assert parse_act(said) == words


def test_act_writes_what_parse_act_reads():
    for command in ("go north", " go north ", "py 47*83"):
        assert act(command) == f"<act> {command.strip()}</act>" and parse_act(act(command)) == command.split()


def test_malformed_is_told_and_counted():
    reply = malformed("say act", calls=2)
    assert (reply.text, reply.reward, reply.done, reply.truncated) == (" error say act", 0.0, False, False)
    assert reply.info == {"malformed": True, "calls": 2}
