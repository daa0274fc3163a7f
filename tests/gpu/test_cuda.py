"""Checks for a machine with a CUDA device; skipped with a word elsewhere. Together they take under five minutes."""

import time

import pytest
import torch

from arl_mini import GRPO, envs, evaluate, experiments, models, train
from arl_mini.batch import collate
from arl_mini.rollout import Limits, rollout

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device: PyTorch sees none"),
]


@pytest.fixture(autouse=True)
def exact_products():
    """Float32 matrix products without TF32, so that engine and scorer can be compared closely."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


def test_engine_agrees_with_scorer():
    policy = models.load("quest-novice").to("cuda")
    batch = collate(rollout(policy, envs.Quest(), range(16), 8, limits=experiments.ch00.QUEST["limits"]), "cuda")
    with torch.no_grad():
        scored = models.score(policy, batch).logp
    assert float(((scored - batch.old_logp) * batch.mask).abs().max()) < 1e-4


def test_chapter_00_learns():
    policy = models.load("quest-novice").to("cuda")
    before = evaluate.success(policy, envs.Quest(), limits=experiments.ch00.QUEST["limits"])
    for _ in train(policy, envs.Quest(), GRPO(), seed=0, **experiments.ch00.QUEST):
        pass
    after = evaluate.success(policy, envs.Quest(), limits=experiments.ch00.QUEST["limits"])
    assert after.mean >= before.mean + 0.3 and after.mean >= 0.7, f"{before} → {after}"


def test_throughput_is_not_below_generate():
    from tests.benchmarks.generation import Say, generate, policy_with_stops, prompt_ids

    policy = policy_with_stops("mini", 0).to("cuda")
    llama, env, limits = policy.to_hf(), Say(32), Limits(64, 1, 97)
    prompts = prompt_ids(policy, env, range(256))

    def seconds(work) -> float:
        work()
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        return time.perf_counter() - start

    ours = seconds(lambda: rollout(policy, env, range(256), limits=limits))
    theirs = seconds(lambda: generate(llama, prompts, 64, []))
    assert ours <= theirs, f"ours {ours:.2f} s, generate() {theirs:.2f} s"
