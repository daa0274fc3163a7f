"""Three real steps of TRL's trainers on our worlds, rewards and preferences, with an exported TinyLM."""

from dataclasses import replace

import pytest
import torch

from arl_mini import envs, imitate, models, rollout
from arl_mini.algorithms.dpo import choose_pairs
from arl_mini.algorithms.preference import best_and_worst
from arl_mini.batch import Episode
from arl_mini.bridges import trl as bridge
from arl_mini.models import TinyLM

from . import peers

QUEST = {
    "go": bridge.Verb("Walks into the next room.", ("way",)),
    "take": bridge.Verb("Takes a thing.", ("thing",)),
    "open": bridge.Verb("Opens a thing.", ("thing",)),
}


def config(kind: str, folder, **more):
    import trl

    plain = dict(use_cpu=True, bf16=False, report_to=[], save_strategy="no", output_dir=str(folder), max_steps=3)
    return getattr(trl, kind)(per_device_train_batch_size=8, learning_rate=1e-3, logging_steps=1, **plain, **more)


def trained(trainer, policy: TinyLM) -> TinyLM:
    """The policy after training; it must have moved, and still be one of ours."""
    before = policy.embed.clone()
    trainer.train()
    after = TinyLM.from_hf(trainer.model, policy.tokenizer)
    assert not torch.equal(after.embed, before) and after.embed.isfinite().all()
    return after


def logged(trainer, name: str) -> list[float]:
    return [row[name] for row in trainer.state.log_history if name in row]


def test_grpo_on_a_world(tmp_path):
    import trl

    policy, env, heard = models.load("chain-atoms"), envs.Chain(), []

    def verdict(episode: Episode) -> float:
        heard.append(episode.text)
        return float(len(episode))

    pay = bridge.reward_func(env, policy.tokenizer)
    trainer = trl.GRPOTrainer(
        policy.to_hf(), [pay, bridge.judge_func(verdict, policy.tokenizer)],
        args=config("GRPOConfig", tmp_path, num_generations=8, max_completion_length=16, reward_weights=[1.0, 0.0]),
        train_dataset=bridge.prompts(env, range(16)), processing_class=policy.tokenizer,
    )  # fmt: skip
    after = trained(trainer, policy)
    assert len(heard) == 24 and all(text.startswith("<user> ") and "=<bot>" in text for text in heard)
    assert {*logged(trainer, "rewards/Chain/mean")} <= {i / 8 for i in range(9)}
    assert rollout(after, env, range(2), 2)


def test_rewards_are_the_worlds(tmp_path):
    """What the bridge pays is what our engine's episodes were paid."""
    policy, env = models.load("chain-atoms"), envs.Chain()
    tried = rollout(policy, env, range(8), 4)
    ids = [e.tokens[e.turn >= 0].tolist() for e in tried]
    data = bridge.prompts(env, [e.seed for e in tried])
    pay = bridge.reward_func(env, policy.tokenizer)
    assert pay(prompts=data["prompt"], completion_ids=ids, seed=data["seed"]) == [e.reward for e in tried]
    assert 0 < sum(e.reward for e in tried) < len(tried)
    texts = []
    bridge.judge_func(lambda e: texts.append(e.text) or 0.0, policy.tokenizer)(data["prompt"], ids)
    assert texts == [e.text for e in tried]


def test_dpo_on_preferences(tmp_path):
    import trl

    policy = models.load("chain-atoms")
    tried = rollout(policy, envs.Chain(), range(24), 4)
    odd = [e for e in tried if "\ufffd" in e.text]  # the policy may sample half a letter
    with pytest.raises(ValueError, match="text does not give back"):
        bridge.preferences([(odd[0], odd[0])])
    pairs = choose_pairs([e for e in tried if e.terminated and "\ufffd" not in e.text], best_and_worst)
    trainer = trl.DPOTrainer(
        policy.to_hf(), ref_model=policy.to_hf(), args=config("DPOConfig", tmp_path),
        train_dataset=bridge.preferences(pairs), processing_class=policy.tokenizer,
    )  # fmt: skip
    row = next(iter(trainer.get_train_dataloader()))
    seen = {tuple(ids[mask > 0].tolist()) for ids, mask in zip(row["input_ids"], row["attention_mask"])}
    known = {tuple(e.tokens.tolist()) for pair in pairs for e in pair}
    assert seen <= known, "TRL's token ids are those that the engine saw"
    trained(trainer, policy)
    assert logged(trainer, "loss")[0] == pytest.approx(0.6931, abs=1e-3)


TOOLS = "<system> tools go ( way ) . open ( thing ) . take ( thing ) ."  # as TRL writes them into the prompt


def played(tokenizer, env, turns: int) -> Episode:
    """The expert's first turns in the form that TRL reads, then a last word."""
    parts = [(f"{TOOLS}<user>{env.reset(0)}<bot>", 0)]
    for _ in range(turns):
        said = env.expert()
        verb, what = envs.base.parse_act(said)
        parts.append((f"<act> {verb} {'way' if verb == 'go' else 'thing'} = {what}</act>", 1))
        reply = env.step(said)
        parts.append((f"<obs>{reply.text}</obs>", 0))
        if reply.done:
            break
    return peers.episode(tokenizer, [*parts, (" over<end>", 1)])


def walker(env) -> TinyLM:
    """A policy that calls the verbs, and about half of the time gives up after the second."""
    policy = TinyLM.new("nano", models.tokenizer.build(f"{env.words} system tools ( way thing ) . = over"))
    shown = [played(policy.tokenizer, env, turns) for turns in (9, 2)]
    list(imitate(policy, shown, steps=120, rows=8, lr=1e-2))
    return policy


def test_grpo_with_an_environment(tmp_path):
    import trl

    env = envs.Quest(rooms=2)
    policy = walker(env)
    trainer = trl.GRPOTrainer(
        policy.to_hf(), environment_factory=bridge.environment_factory(env, QUEST),
        args=config("GRPOConfig", tmp_path, num_generations=8, max_completion_length=80),
        train_dataset=bridge.prompts(env, [0] * 8), processing_class=policy.tokenizer,
    )  # fmt: skip
    trained(trainer, policy)
    paid = logged(trainer, "rewards/QuestWorld/mean")
    assert max(paid) > 0 and min(paid) < 1
    assert min(logged(trainer, "tools/call_frequency")) > 1
    assert max(logged(trainer, "tools/failure_frequency")) < 0.5


def test_environment_is_the_world():
    """The verbs play the same game: the expert's commands, one by one, against the world itself."""
    env = envs.Quest()
    world = bridge.environment_factory(env, QUEST)()
    assert world.reset(seed=3, prompt="ignored") is None
    env.reset(3)
    while True:
        said = env.expert()
        verb, what = envs.base.parse_act(said)
        reply = env.step(said)
        assert getattr(world, verb)(what) == reply.text
        if reply.done:
            break
    assert world.get_reward() == 1.0 and world.go("north") == " over" and world.get_reward() == 1.0


def test_tools_have_schemas():
    from transformers.utils import get_json_schema

    world = bridge.environment_factory(envs.Quest(), QUEST)()
    schema = get_json_schema(world.go)["function"]
    assert schema["name"] == "go" and schema["description"] == "Walks into the next room."
    assert schema["parameters"]["properties"] == {"way": {"type": "string", "description": "what to go."}}
    say = bridge.environment_factory(envs.Calc(), {"answer": bridge.Verb("Answers.", ("text",), bridge.answer)})()
    say.reset(0)
    env = envs.Calc()
    env.reset(0)
    assert say.answer(text=str(envs.calc.evaluate(env.expression))) == "" and say.get_reward() == 1.0


def test_tools_without_a_world():
    from transformers.utils import get_json_schema

    py = bridge.tool("py", bridge.Verb("Computes.", ("expression",)), lambda expression: f" {envs.calc.evaluate(expression)}")
    assert py(expression="4*2") == " 8" and get_json_schema(py)["function"]["name"] == "py"


def test_bad_input():
    with pytest.raises(ValueError, match="reset"):
        bridge.environment_factory(envs.Quest(), {"reset": bridge.Verb("No.")})
    with pytest.raises(ValueError, match="no seeds"):
        bridge.prompts(envs.Quest(), [])
    _, tried = peers.episodes()
    used = next(e for e in tried if e.turns > 1)
    with pytest.raises(ValueError, match="forced tokens"):
        bridge.preferences([(used, used)])
    with pytest.raises(ValueError, match="two prompts"):
        bridge.preferences([(tried[0], tried[-1])])
    cut = [replace(e, truncated=True) for e in tried if e.turns == 1][:1]
    with pytest.raises(ValueError, match="was cut"):
        bridge.preferences([(cut[0], cut[0])])
