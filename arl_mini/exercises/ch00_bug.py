"""Chapter 00: a loop with a bug."""

import random

from ..envs import Env, Reply
from ..lab.check import Trial, show
from . import Exercise, Wrong, changed

# --- 00.4 -------------------------------------------------------------------------------------------------


class _Scripted(Env):
    """Replies as written down, and keeps what it heard."""

    def __init__(self, task: str, replies: list[Reply]):
        self.task, self.replies = task, replies

    def reset(self, seed: int) -> str:
        self.seed, self.heard = seed, []
        return self.task

    def step(self, said: str) -> Reply:
        self.heard.append(said)
        if len(self.heard) > len(self.replies):
            raise AssertionError("the episode was over")
        return self.replies[len(self.heard) - 1]


def _script(rng: random.Random) -> tuple[_Scripted, int]:
    """A world of 1 to 5 replies, of which the last may end it, and how many turns may be played."""
    n = rng.randint(1, 5)
    end = rng.choice(({"done": True}, {"truncated": True}, {}))
    replies = [Reply(f" reply {i}", rng.choice((0.0, 0.5, -1.0))) for i in range(n - 1)]
    info = {"success": rng.random() < 0.5} if end.get("done") else {}
    return _Scripted(" task", [*replies, Reply(" end", rng.choice((0.0, 1.0)), info=info, **end)]), n


def check_play(trial: Trial) -> str:
    rng = trial.rng
    for _ in range(80):
        world, turns = _script(rng)
        contexts: list[str] = []

        def speak(context: str) -> str:
            contexts.append(context)
            return f" say {len(contexts)}"

        said = [f" say {i + 1}" for i in range(turns)]
        heard = ["".join([world.task, *(s + r.text for s, r in zip(said[:i], world.replies))]) for i in range(turns)]
        last = world.replies[-1]
        expected = (sum(r.reward for r in world.replies), bool(last.done and last.info.get("success")))
        trial.begin(f"a world that replies {[r.text for r in world.replies]}, turns={turns}", f"{expected}",
                    "All rewards count; success is what info says at the end, not that there was an end.")  # fmt: skip
        came = trial.answer(world, speak, rng.randrange(100), turns)
        if contexts != heard:
            trial.fail(f"speak() was given {contexts}", "Each turn answers all that went before: task, own words, replies.",
                       f"{heard}")  # fmt: skip
        if came != expected:
            trial.fail(show(came))
    return "80 scripted worlds that end, are cut, or go on"


def play(world, speak, seed: int, turns: int) -> tuple[float, bool]:
    """Reward and success of one episode; `speak(context)` answers all that went before."""
    context, total = world.reset(seed), 0.0
    for _ in range(turns):
        said = speak(context)
        reply = world.step(said)
        context += said + reply.text
        total += reply.reward
        if reply.done or reply.truncated:
            return total, bool(reply.info.get("success"))
    return total, False


# fmt: off
EXERCISES = (
    Exercise(
        "00.4",
        "play(world, speak, seed, turns): reward and success of one episode, without its bug.",
        check_play, play,
        (
            Wrong(changed(play, "context += said + reply.text", "context = reply.text"),
                  "forgets all but the last reply", "all that went before"),
            Wrong(changed(play, "context += said + reply.text", "context += reply.text"),
                  "forgets what it said itself", "all that went before"),
            Wrong(changed(play, "total += reply.reward", "total = reply.reward"),
                  "keeps the last reward only", "All rewards count"),
            Wrong(changed(play, 'bool(reply.info.get("success"))', "bool(reply.done)"),
                  "takes the end for a success", "not that there was an end"),
        ),
    ),
)
# fmt: on
