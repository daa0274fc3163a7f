"""Arms that count: every generated token once, and the run itself is not changed by being watched."""

import torch

from arl_mini import envs, models
from arl_mini.algorithms import ARPO, DAPO, GRPO
from arl_mini.experiments.ch05_sampling import Grown
from arl_mini.experiments.kinds import ByReward
from arl_mini.experiments.watched import TOLD, Watched, planned
from arl_mini.rollout import Limits

QUEST = dict(prompts=2, tries=4, lr=1e-3, limits=Limits(8, 8, 112))


def spent(algorithm) -> tuple[int, int]:
    """Tokens generated for one batch, and tokens that its rows were sampled with."""
    batch, generated = planned(algorithm, models.load("quest-novice"), envs.Quest(3, 8), seed=0, **QUEST)
    return generated, int(batch.mask.sum())


def test_independent_tries_cost_what_they_hold():
    generated, held = spent(GRPO())
    assert generated == held > 0


def test_shared_beginnings_are_generated_once():
    for algorithm in (Grown(), ARPO()):
        batch, generated = planned(algorithm, models.load("quest-novice"), envs.Quest(3, 8), seed=3, **QUEST)
        prefixes = {
            (int(g), tuple(row[: t + 1]))
            for g, row, mask in zip(batch.group, batch.tokens.tolist(), batch.mask)
            for t in mask.nonzero()[:, 0].tolist()
        }
        # Two branches may say the same words; then what was generated twice is one prefix.
        assert len(prefixes) <= generated < int(batch.mask.sum())


def test_what_dynamic_sampling_throws_away_counts():
    world = envs.Chain((1, 3), "chain")
    batch, generated = planned(DAPO(), models.load("chain-atoms"), world, seed=0, **QUEST)
    assert generated > int(batch.mask.sum())


def test_watching_changes_nothing():
    arm = ByReward(envs.Quest(3, 8), GRPO(), QUEST | {"steps": 2})
    alone, seen = (models.load("quest-novice") for _ in range(2))
    plain = [{name: getattr(r, name) for name in TOLD} for r in arm(alone, 1)]
    assert [{name: r[name] for name in TOLD} for r in Watched(arm)(seen, 1)] == plain
    assert all(map(torch.equal, alone.state_dict().values(), seen.state_dict().values()))


def test_planning_leaves_the_policy_as_it_was():
    policy = models.load("quest-novice")
    before = {k: v.clone() for k, v in policy.state_dict().items()}
    batches = [planned(GRPO(), policy, envs.Quest(3, 8), seed=2, **QUEST)[0] for _ in range(2)]
    assert torch.equal(batches[0].tokens, batches[1].tokens)
    assert all(torch.equal(v, before[k]) for k, v in policy.state_dict().items())
