"""A whole step of TRL's GRPO with its tool loop, on our tokenizer and an exported TinyLM."""

import pytest
import torch

from arl_mini import imitate
from arl_mini.models import TinyLM
from arl_mini.models.tokenizer import build
from tests.bridges.peers import episode

pytestmark = pytest.mark.slow

TOKENIZER = build(" one two red py expression = + 4 2")


def taught() -> TinyLM:
    """A policy that calls the tool, and then answers with what came back."""
    policy = TinyLM.new("nano", TOKENIZER)
    parts = [
        ("<system> tools py ( expression ) .<user> one<bot>", 0), ("<act> py expression = 4*2</act>", 1),
        ("<obs> 8</obs>", 0), (" 8<end>", 1),
    ]  # fmt: skip
    shown = episode(TOKENIZER, parts)
    losses = list(imitate(policy, [shown], steps=80, rows=4, lr=1e-2))
    assert losses[-1] < 0.05
    return policy


def test_a_step_with_tools(tmp_path):
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    heard = []

    def py(expression: str) -> str:
        """
        Computes.

        Args:
            expression: what to compute.
        """
        heard.append(expression)
        return " 8"

    paid = []

    def reward(completions, **_):
        paid.extend(completions)
        return [float(i) for i in range(len(completions))]

    model = taught().to_hf()
    before = model.model.embed_tokens.weight.clone()
    config = GRPOConfig(
        output_dir=str(tmp_path), per_device_train_batch_size=4, num_generations=4, max_completion_length=40, max_steps=1,
        report_to=[], use_cpu=True, save_strategy="no", learning_rate=1e-3,
    )  # fmt: skip
    data = Dataset.from_list([{"prompt": [{"role": "user", "content": " one"}]}] * 4)
    trainer = GRPOTrainer(model, reward, args=config, train_dataset=data, processing_class=TOKENIZER, tools=[py])
    trainer.train()
    assert heard.count("4*2") >= 2
    roles = [[message["role"] for message in said] for said in paid]
    assert ["assistant", "tool", "assistant"] in roles
    assert not torch.equal(model.model.embed_tokens.weight, before)
