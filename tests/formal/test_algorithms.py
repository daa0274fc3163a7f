"""The algorithms' own losses, seen from the laboratory: on the same episodes they give the estimators
measured here."""

import pytest
import torch
from hypothesis import given

from arl_mini.algorithms import DPO, GRPO, GSPO, RLOO, DrGRPO, Reinforce
from arl_mini.batch import Batch
from arl_mini.formal import PBRFT, Laboratory, Utterances, dpo_loss, estimator, softmax_policy, token_level
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


@SLOW_CHECKED
@given(seed=seeds)
def test_dpo_on_a_batch_is_the_population_loss_of_its_pairs(seed):
    """Pairs of one-token replies to one prompt: a batch of K of them is a table D with 1/K in each."""
    replies, K, beta = 4, 5, 0.3
    theta, ref = numbers(seed, 1, replies).requires_grad_(), numbers(seed + 1, 1, replies)
    won, lost = torch.randint(replies, (2, K), generator=generator(seed))
    shares = torch.zeros(1, replies, replies).double()
    for w, n in zip(won.tolist(), lost.tolist()):
        shares[0, w, n] += 1 / K
    chosen = torch.cat([won, lost])
    logp, ref_logp = (x.log_softmax(-1)[0, chosen, None] for x in (theta, ref))
    ones, empty = torch.ones_like(ref_logp), torch.zeros_like(ref_logp)
    off = torch.zeros(2 * K).bool()
    number = torch.arange(2 * K) % K
    batch = Batch(empty.long(), ones, empty, empty, empty.long(), number, ones.sum(1).long(), off, off)
    batch = batch.set(ref_logp=ref_logp, pair=number, chosen=torch.arange(2 * K) < K)
    by_algorithm, exact = DPO(beta=beta).loss(Scores(logp, empty), batch), dpo_loss(theta, ref, shares, beta)
    assert close(by_algorithm, exact)
    gradients = [torch.autograd.grad(loss, theta)[0] for loss in (by_algorithm, exact)]
    assert close(*gradients)
