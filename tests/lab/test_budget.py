"""The three budgets and their errors."""

import pytest
import torch

from arl_mini import lab


def test_default_environment_and_argument(monkeypatch):
    monkeypatch.delenv("ARL_BUDGET", raising=False)
    assert lab.budget().name == "cpu"
    monkeypatch.setenv("ARL_BUDGET", "smoke")
    assert lab.budget().name == "smoke"
    assert lab.budget("cpu").pick(smoke=2, cpu=15, gpu=40) == 15
    assert lab.budget().device == "cpu"


def test_every_budget_must_be_answered():
    with pytest.raises(TypeError, match="gpu"):
        lab.budget("smoke").pick(smoke=1, cpu=2)


def test_unknown_name_says_what_there_is(monkeypatch):
    monkeypatch.setenv("ARL_BUDGET", "huge")
    with pytest.raises(ValueError, match="'huge', expected one of smoke, cpu, gpu"):
        lab.budget()


def test_gpu_without_cuda_is_an_error(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="no CUDA device.*ARL_BUDGET=cpu"):
        lab.budget("gpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert lab.budget("gpu").device == "cuda"
