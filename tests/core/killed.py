"""Trains and saves after every step; started by test_resume.py in a process of its own, which it kills."""

import sys

from arl_mini.algorithms import DAPO
from arl_mini.rollout import Limits
from arl_mini.train import Run, train
from tests.core.stage import Talk, chatty

STEPS = 12


def begin(weights: int = 1) -> Run:
    """A run with everything that a state must hold: a reference, minibatches, a second moment, a refilling plan."""
    return train(
        chatty(weights), Talk(), DAPO(beta=0.05, rounds=3), steps=STEPS, prompts=3, tries=3, epochs=2, minibatches=2, micro=2, lr=1e-2,
        limits=Limits(6, 3, 80), seed=9,
    )  # fmt: skip


if __name__ == "__main__":
    run = begin()
    for record in run:
        run.save(sys.argv[1])
        print(record.step, flush=True)
