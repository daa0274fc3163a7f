"""The algorithms' own losses, seen from the laboratory: on the same episodes they give the estimators
measured here."""

import pytest
import torch
from hypothesis import given

from arl_mini.algorithms import GRPO, GSPO, RLOO, DrGRPO, Reinforce
from arl_mini.batch import Batch
from arl_mini.formal import PBRFT, Laboratory, Utterances, estimator, softmax_policy, token_level
from arl_mini.models.score import Scores
from tests.formal.worlds import SLOW_CHECKED, close, generator, numbers, seeds

SAID = Utterances(("a", "b", "<end>"), ("<end>",), 2)
LENGTH = 2
PAIRS = [
    (Reinforce(), "reward to go", 1.0),
    (RLOO(), "leave one out", 1.0),
    (GRPO(), "GRPO z-score / length", 1.0),
    (DrGRPO(length=LENGTH), "group mean", 1 / LENGTH),
    (GSPO(), "GRPO z-score / length", 1.0),
]


def gradient(algorithm, lab: Laboratory, index: torch.Tensor) -> torch.Tensor:
    """−∇ of the algorithm's loss on these paths, (P,)."""
    chosen, paths = index.flatten(), lab.paths
    theta = lab.logits.clone().requires_grad_()
    logp = paths.logp(softmax_policy(theta))[chosen]
    mask, empty = paths.mask[chosen], torch.zeros_like(logp.detach())
    group = torch.arange(len(index)).repeat_interleave(index.shape[1])
    off = torch.zeros(len(chosen)).bool()
    batch = Batch(
        empty.long(),
        mask,
        logp.detach(),
        paths.rewards[chosen],
        empty.long(),
        group,
        mask.sum(1).long(),
        off,
        off,
    )
    batch = batch.set(advantages=algorithm.advantages(batch))
    return -torch.autograd.grad(algorithm.loss(Scores(logp, empty), batch), theta)[0].flatten()


@pytest.mark.parametrize("algorithm, name, scale", PAIRS, ids=lambda part: type(part).__name__)
@SLOW_CHECKED
@given(seed=seeds)
def test_same_episodes_same_gradient(algorithm, name, scale, seed):
    r = (numbers(seed, 2, len(SAID.complete)) > 0).double()
    world = token_level(PBRFT.from_rewards(r), SAID)
    lab = Laboratory(world, numbers(seed + 1, *world.R.shape))
    index = lab.sample_paths(generator(seed), 6, 4)
    expected = lab.estimate(estimator(name), index).mean(0)
    assert close(gradient(algorithm, lab, index), scale * expected)
