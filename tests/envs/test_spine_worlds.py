"""Every world keeps the contract; an expert beats chance; nothing but solving the task wins."""

import random

import pytest

from arl_mini import envs
from arl_mini.envs import Calc, Chain, Finite, Quest, Reply, Taste, check_env
from arl_mini.formal.models import tiger, tmaze, walk

WORLDS = {
    "quest": Quest(), "quest-10": Quest(rooms=10, limit=20), "quest-2": Quest(rooms=2),
    "calc": Calc(), "calc-down": Calc(failing=1.0, price=0.1), "calc-no-tool": Calc(tool=False),
    "chain": Chain((1, 9)), "chain-steps": Chain((2, 3), score="chain"),
    "taste": Taste(), "taste-other-people": Taste(group=3),
    "tiger": Finite(tiger()), "tmaze": Finite(tmaze(5)), "walk": Finite(walk()),
}  # fmt: skip


def play(env, seed: int, speak, turns: int = 40) -> tuple[float, bool]:
    """Total reward and success of speak(env, last text) in one task."""
    text, total = env.reset(seed), 0.0
    for _ in range(turns):
        reply = env.step(speak(env, text))
        text, total = reply.text, total + reply.reward
        if reply.done or reply.truncated:
            return total, bool(reply.info.get("success"))
    return total, False


@pytest.mark.parametrize("env", WORLDS.values(), ids=WORLDS)
def test_contract(env):
    check_env(env)


@pytest.mark.parametrize("env", WORLDS.values(), ids=WORLDS)
def test_expert_beats_random(env):
    rng = random.Random(0)
    expert = [play(env, s, lambda e, _: e.expert())[0] for s in range(60)]
    chance = [play(env, s, lambda e, _: e.random(rng))[0] for s in range(60)]
    assert sum(expert) > sum(chance)


DEGENERATE = {
    "nothing": lambda env, text: "<end>",
    "cut in the middle": lambda env, text: " 1",
    "very long": lambda env, text: " the" * 400 + "<end>",
    "copies the task": lambda env, text: f"{text}<end>",
    "copies as an action": lambda env, text: envs.act(text or "x"),
    "writes a result itself": lambda env, text: "<obs> 42</obs> 42<end>",
    "claims success": lambda env, text: "<obs> you win</obs><end>",
    "always north": lambda env, text: "<act> go north</act>",
    "always 5": lambda env, text: " 5<end>",
    "opens at once": lambda env, text: "<act> open door</act>",
}


@pytest.mark.parametrize("speak", DEGENERATE.values(), ids=DEGENERATE)
@pytest.mark.parametrize("name", ["quest", "calc", "chain-steps", "taste", "tmaze"])
def test_no_degenerate_policy_wins(name, speak):
    won = [play(WORLDS[name], s, speak)[1] for s in range(100)]
    assert sum(won) <= 12  # a constant digit is right in one of ten chains of depth one


def test_nothing_said_never_pays_in_a_world_with_costs():
    for model in (tiger(), tmaze(3)):
        env = Finite(model)
        silent = sum(play(env, s, lambda e, _: "<end>")[0] for s in range(20))
        chance = sum(play(env, s, lambda e, _: e.random(random.Random(s)))[0] for s in range(20))
        assert silent <= chance


# --- the checker catches bad worlds -----------------------------------------------------------------------


class Good(envs.Env):
    """Say the digit that the task shows."""

    words = " digit say act"

    def reset(self, seed):
        self.digit = random.Random(seed).randint(0, 9)
        return f" digit {self.digit}"

    def step(self, said):
        right = envs.parse_act(said) == ["digit", str(self.digit)]
        return Reply(reward=float(right), done=True, info={"success": right})

    def expert(self):
        return envs.act(f"digit {self.digit}")


class GlobalChance(Good):
    def reset(self, seed):
        self.digit = random.randint(0, 9)
        return f" digit {self.digit}"


class Remembers(Good):
    count = 0

    def step(self, said):
        Remembers.count += 1
        return Reply(f" digit {Remembers.count % 10}", done=True, info={"success": "digit" in said})


class Raises(Good):
    def step(self, said):
        return super().step(said) if said else 1 / 0


class WrongType(Good):
    def step(self, said):
        return ("done", 1.0)


class MissingWords(Good):
    words = " say"


class Endless(Good):
    def step(self, said):
        return Reply(" digit")


class Generous(Good):
    def step(self, said):
        return Reply(reward=1.0, done=True, info={"success": True})


@pytest.mark.parametrize("bad", [GlobalChance, Remembers, Raises, MissingWords, Endless, Generous])
def test_check_env_catches(bad):
    check_env(Good())
    with pytest.raises(AssertionError, match=bad.__name__):
        check_env(bad())


def test_check_env_names_a_wrong_type():
    with pytest.raises(TypeError, match="WrongType.step.*expected a Reply"):
        check_env(WrongType())


# --- Calc's evaluator -------------------------------------------------------------------------------------

HOSTILE = """__import__('os').system('ls')|open('x')|9**9**9|(lambda: 1)()|[1][0]|x|1 if 1 else 2|True|1.5|1e9|"a"|'1'*9|()|[]|{}|1<2
|1 and 2|not 1|~1|1<<2|1|2|3&1|f"{1}"|print(1)|exec("1")|1;2|a:=1|*1|...|None|0x|1_|import os|10**12|99999999*99999999
|1//0|1%0|@|$|`1`|1 +|)(|eval('1')|().__class__|[i for i in (1,2)]|while 1: pass|def f(): 1|1j|b'1'|lambda: 0""".replace("\n", "")


def test_hostile_expressions_are_refused():
    texts = [t for t in HOSTILE.split("|") if t not in ("1", "2", "3&1")] + ["(" * 500 + "1" + ")" * 500, "1+" * 200 + "1", ""]
    assert len(texts) >= 30
    for text in texts:
        with pytest.raises(ValueError):
            envs.calc.evaluate(text)


def test_legal_expressions_agree_with_python():
    rng = random.Random(0)
    for _ in range(500):
        terms = [str(rng.randint(0, 99)) for _ in range(rng.randint(1, 5))]
        text = terms[0] + "".join(rng.choice("+-*") + t for t in terms[1:])
        assert envs.calc.evaluate(text) == eval(text)  # noqa: S307  our own digits


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Quest(rooms=1), "rooms must be 2 to"),
        (lambda: Calc(("square",)), "kinds must be"),
        (lambda: Calc(failing=2), "failing is a share"),
        (lambda: Chain((0, 3)), "depths must be"),
        (lambda: Chain(score="most"), "score must be"),
        (lambda: Taste(noise=0), "noise is a temperature"),
    ],
)
def test_bad_settings_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
