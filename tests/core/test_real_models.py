"""The `gpu` budget of each chapter, one step of it on two CPU cores: SmolLM2-135M-Instruct in the chapter's world."""

from dataclasses import replace

import pytest
import torch

from arl_mini import collate
from arl_mini.experiments import real
from arl_mini.models import HFPolicy, score

RUNS = real.chapters()


@pytest.fixture(scope="module")
def language_model(smollm2):
    return HFPolicy.load(smollm2, lora=4)


@pytest.mark.parametrize("chapter", RUNS)
def test_a_chapter_names_a_small_run(chapter):
    settings = RUNS[chapter].settings
    assert settings["prompts"] * settings["tries"] <= 16 * 16 and settings["limits"].total <= 2048


@pytest.mark.slow
@pytest.mark.parametrize("chapter", RUNS)
def test_one_step_on_a_real_model(language_model, chapter):
    policy, real_run = language_model.copy(), RUNS[chapter]
    limits = replace(real_run.settings["limits"], turns=min(2, real_run.settings["limits"].turns))
    record = next(real_run(policy, 0, steps=1, prompts=1, tries=2, limits=limits))
    assert len(record.episodes) >= 2 and all(e.mask.sum() > 0 for e in record.episodes)
    instructions = real_run.env.render_chat().split(".")[0]
    assert all(instructions in e.text for e in record.episodes)  # the world speaks English to it
    batch = collate(record.episodes)
    with torch.no_grad():
        assert float((score(language_model, batch).logp - batch.old_logp).abs().max()) < 1e-3
