"""Our worlds, rewards and preferences for TRL's trainers.

    model = models.load("chain-atoms")
    trainer = trl.GRPOTrainer(
        model.to_hf(), reward_func(envs.Chain(), model.tokenizer), processing_class=model.tokenizer,
        train_dataset=prompts(envs.Chain(), range(64)), args=trl.GRPOConfig(…),
    )
    trainer.train()
    trained = models.TinyLM.from_hf(trainer.model, model.tokenizer)

TRL renders tools into the prompt and reads calls as `<act> go way = north</act>` (the tokenizer's chat template and
response template), so a policy that learned our worlds' shorter `<act> go north</act>` must learn that form first.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..batch import Episode
from ..envs.base import Env, act, check_reply
from ..models.tokenizer import END, decode, encode
from ..rewards import judged


def prompts(env: Env, seeds: Sequence[int]):
    """A `datasets.Dataset` for GRPOTrainer: a row a task, columns prompt (one user message) and seed."""
    from datasets import Dataset

    if not seeds:
        raise ValueError("no seeds: a dataset needs at least one task; hint: prompts(env, range(64))")
    return Dataset.from_list(
        [{"prompt": [{"role": "user", "content": env.reset(seed)}], "seed": seed} for seed in seeds]
    )


def preferences(pairs: Sequence[tuple[Episode, Episode]]):
    """A `datasets.Dataset` for DPOTrainer: columns prompt, chosen, rejected, plain text, a row a pair of episodes.

    The two episodes share their prompt, have one turn each (TRL scores every token of an answer, an observation too),
    were not cut (TRL puts an end token behind every answer), and are the tokens of their text (TRL reads text again; a
    lone byte is none).
    """
    from datasets import Dataset

    rows = []
    for number, pair in enumerate(pairs):
        asked = {decode(e.tokenizer, e.tokens[e.turn < 0]) for e in pair}
        faults = {
            "two prompts": len(asked) > 1,
            "forced tokens in an answer": any((e.mask[e.turn >= 0] == 0).any() for e in pair),
            "an answer that was cut": any(e.truncated for e in pair),
            "tokens that text does not give back": any(
                encode(e.tokenizer, e.text) != tuple(e.tokens.tolist()) for e in pair
            ),
        }
        if any(faults.values()):
            raise ValueError(
                f"pair {number} has {next(f for f in faults if faults[f])}; expected two whole answers of one turn to "
                "one prompt; hint: worlds such as Taste or Chain, and pairs of e.terminated episodes"
            )
        chosen, rejected = (decode(e.tokenizer, e.tokens[e.turn >= 0]) for e in pair)
        rows.append({"prompt": asked.pop(), "chosen": chosen, "rejected": rejected})
    return Dataset.from_list(rows)


def reward_func(env: Env, tokenizer) -> Callable[..., list[float]]:
    """A TRL reward function: what the world pays for each completion, heard as the answer to the task of `seed`.

    For worlds of one turn; where the policy calls tools, use `environment_factory`, which keeps the rewards itself.
    """

    def paid(prompts, completion_ids, seed, **_) -> list[float]:
        rewards = []
        for ids, task in zip(completion_ids, seed, strict=True):
            world = env.clone()
            world.reset(task)
            said = decode(tokenizer, ids)
            rewards.append(float(check_reply(world.step(said), world, said).reward))
        return rewards

    paid.__name__ = type(env).__name__
    return paid


def judge_func(judge: Callable[[Episode], float], tokenizer) -> Callable[..., list[float]]:
    """A TRL reward function from ours, which judge an `Episode`; the completion is its one turn."""

    def verdicts(prompts, completion_ids, **_) -> list[float]:
        episodes = []
        for prompt, ids in zip(prompts, completion_ids, strict=True):
            asked = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=False)
            tokens, mask = np.array([*asked, *ids]), np.repeat(np.float32([0, 1]), [len(asked), len(ids)])
            zero = np.zeros_like(mask)
            episodes.append(Episode(tokens, mask, mask.astype(int) - 1, zero, zero, tokenizer=tokenizer))
        return judged(episodes, judge).tolist()

    verdicts.__name__ = getattr(judge, "__name__", type(judge).__name__)
    return verdicts


@dataclass(frozen=True)
class Verb:
    """A command as a tool: what it does, its arguments, and what the world hears (default: `<act> name arg …</act>`)."""

    about: str
    arguments: tuple[str, ...] = ()
    says: Callable[..., str] | None = None


def answer(text: str) -> str:
    """What the world hears of a final answer in words; for `Verb(…, ("text",), answer)`."""
    return f" {text.strip()}{END}"


def tool(name: str, verb: Verb, call: Callable[..., str]) -> Callable[..., str]:
    """A function that TRL can offer to a model: call(**arguments), all texts, under the verb's name and description."""
    lines = [f"{verb.about}", "", "Args:", *(f"    {a}: what to {name}." for a in verb.arguments)]

    one = inspect.Parameter.POSITIONAL_OR_KEYWORD
    mine = [inspect.Parameter("self", one)] if "self" in inspect.signature(call).parameters else []
    asked = [inspect.Parameter(a, one, annotation=str) for a in verb.arguments]
    signature = inspect.Signature([*mine, *asked], return_annotation=str)

    def called(*args, **given) -> str:
        return call(**signature.bind(*args, **given).arguments)

    called.__name__, called.__doc__ = name, "\n".join(lines if verb.arguments else lines[:1])
    called.__signature__ = signature
    called.__annotations__ = {**dict.fromkeys(verb.arguments, str), "return": str}
    return called


class World:
    """What TRL plays: `reset(seed)` starts the task, the verbs are methods, `get_reward()` is what the world paid."""

    _env: Env
    _verbs: Mapping[str, Verb]

    def __init__(self):
        self._world, self._over, self._paid = self._env.clone(), True, 0.0

    def reset(self, seed: int, **row) -> None:
        """Starts the task of the row's seed; the prompt (see `prompts`) has told it already."""
        self._world.reset(seed)
        self._over, self._paid = False, 0.0

    def get_reward(self) -> float:
        """Sum of the rewards so far."""
        return self._paid

    def _say(self, name: str, given: dict[str, str]) -> str:
        verb = self._verbs[name]
        said = verb.says(**given) if verb.says else act(" ".join([name, *map(str, given.values())]))
        if self._over:
            return " over"
        reply = check_reply(self._world.step(said), self._world, said)
        self._over, self._paid = reply.done or reply.truncated, self._paid + float(reply.reward)
        return reply.text


def environment_factory(env: Env, verbs: Mapping[str, Verb]) -> type[World]:
    """A class for TRL's `environment_factory`: one instance a rollout, a tool a verb, the world's rewards.

    environment_factory(envs.Quest(), {"go": Verb("Walks.", ("way",)), "take": Verb("Takes.", ("thing",)), …})
    """
    taken = sorted(set(verbs) & {"reset", "get_reward"} | {v for v in verbs if not v.isidentifier() or v[0] == "_"})
    if taken or not verbs:
        raise ValueError(f"verbs must be names of tools other than reset and get_reward, got {taken or 'none'}")

    def method(name: str) -> Callable[..., str]:
        def call(self, **given) -> str:
            return self._say(name, given)

        return tool(name, verbs[name], call)

    methods = {name: method(name) for name in verbs}
    return type(f"{type(env).__name__}World", (World,), {**methods, "_env": env, "_verbs": dict(verbs)})
