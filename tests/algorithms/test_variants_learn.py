"""The six of the spine and GRPO's variants learn from the shipped warm starts, and show against GRPO what each is about.

Quick: one seed each. Slow: fresh seeds 10 to 12; settings were chosen on seeds 0 to 2.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from arl_mini import Limits, envs, evaluate, imitate, models, train
from arl_mini.algorithms import (
    ASPO,
    CHORD,
    CISPO,
    DAPO,
    GMPO,
    GRPO,
    KTAE,
    LUFFY,
    GSPO,
    PAPO,
    RLOO,
    DrGRPO,
    EdgeGRPO,
    GSPOToken,
    PassAtK,
    PosteriorGRPO,
    Reinforce,
    StepGRPO,
)  # fmt: skip
from arl_mini.algorithms.mixed import blanked
from arl_mini.algorithms.shaping import steps_right
from arl_mini.batch import collate
from arl_mini.models.score import score
from arl_mini.ops import token_mean
from arl_mini.rollout import demonstrate

FRESH = (10, 11, 12)
CHAIN = {"prompts": 16, "tries": 8, "lr": 7e-4, "limits": Limits(turn_tokens=10, turns=1, total=32)}
CALC = {"prompts": 16, "tries": 8, "lr": 5e-4, "limits": Limits(turn_tokens=16, turns=4, total=96)}
ON_CHAIN = [
    GSPOToken(), GMPO(), CISPO(), LUFFY(), CHORD(), PAPO(), PosteriorGRPO(), StepGRPO(), EdgeGRPO(), PassAtK(), KTAE(),
]  # fmt: skip
# On Chain about one seed in six of RLOO, GRPO and GSPO stays with guessing at once: its gain was 0.06 to 0.11 after 30 and
# after 60 updates, where the others' was 0.5.
ON_CALC = [Reinforce(), RLOO(), GRPO(), DrGRPO(), DAPO(), GSPO(), ASPO()]
PLACES = [(a, "chain-atoms", envs.Chain(), CHAIN) for a in ON_CHAIN] + [
    (a, "calc-novice", envs.Calc(), CALC) for a in ON_CALC
]


def taught(start, env, algorithm, settings, **changes):
    """The policy after training."""
    policy = models.load(start) if isinstance(start, str) else start.copy().requires_grad_(True)
    for _ in train(policy, env, algorithm, **settings | changes):
        pass
    return policy


def gain(start, env, algorithm, settings, **changes) -> float:
    """Success on 256 held-out tasks after training, less that of the start."""
    policies = models.load(start), taught(start, env, algorithm, settings, **changes)
    before, after = (evaluate.success(p, env, limits=settings["limits"]).mean for p in policies)
    return after - before


@pytest.mark.parametrize("algorithm, start, env, settings", PLACES, ids=lambda x: type(x).__name__)
def test_learns(algorithm, start, env, settings):
    assert gain(start, env, algorithm, settings, steps=15, seed=0) > 0.1


# Pass@k is about the best of k tries (below); a single try gained 0.11, 0.43 and 0.49 on the fresh seeds.
ON_SUCCESS = [place for place in PLACES if not isinstance(place[0], PassAtK)]


@pytest.mark.slow
@pytest.mark.parametrize("algorithm, start, env, settings", ON_SUCCESS, ids=lambda x: type(x).__name__)
def test_beats_its_start_in_every_fresh_seed(algorithm, start, env, settings):
    gains = [gain(start, env, algorithm, settings, steps=30, seed=seed) for seed in FRESH]
    assert min(gains) > 0.2, gains


# --- what each is about -----------------------------------------------------------------------------------


def held_out(policy, env, tries=1, limits=CHAIN["limits"]):
    return evaluate.episodes(policy, env, 128, tries, limits=limits)


def surprise(policy, env) -> float:
    """Nats a token that the expert's answers cost the policy."""
    batch = collate(demonstrate(policy, env, range(64), lambda env: env.expert()))
    with torch.no_grad():
        return float(token_mean(-score(policy, batch).logp, batch.mask))


@pytest.mark.slow
@pytest.mark.parametrize(
    "algorithm, margin", [(LUFFY(), 0.05), (CHORD(), 0.5)], ids=lambda x: type(x).__name__
)
def test_the_expert_teaches_where_no_try_succeeds(algorithm, margin):
    """Chains of four additions, every step asked for: GRPO's groups are all dead, so it stays where it was.

    LUFFY pulls weakly at tokens this unlikely (γp/(p + γ)² at p ≈ 0.01), hence its smaller margin.
    """
    env, settings = envs.Chain((4, 4), score="chain"), CHAIN | {"limits": Limits(16, 1, 48), "steps": 25}
    start = surprise(models.load("chain-atoms"), env)
    for seed in FRESH:
        alone, told = (
            surprise(taught("chain-atoms", env, a, settings, seed=seed), env) for a in (GRPO(), algorithm)
        )
        assert abs(alone - start) < 0.1 and told < start - margin


def perception(policy) -> float:
    """Nats a token that the policy's answers lose when 0.6 of what was observed is blank."""
    rows = [replace(e, pair=i) for i, e in enumerate(held_out(policy, envs.Chain((2, 3))))]
    batch = collate(rows + blanked(rows, 0.6, np.random.default_rng(0)))
    with torch.no_grad():
        seen, blind = score(policy, batch).logp.split(len(rows))
    return float(token_mean(seen - blind, batch.mask[: len(rows)]))


@pytest.mark.slow
def test_papo_answers_depend_more_on_what_was_observed():
    """The perception term alone against its host; in so small a world the entropy terms at 0.05 outweigh it."""
    host, papo = DAPO(clip_high=0.3, beta=0.01, rounds=1), PAPO(eta_copy=0.0, eta_row=0.0)
    for seed in FRESH:
        plain, pushed, held = (
            perception(taught("chain-atoms", envs.Chain(), a, CHAIN, steps=12, seed=seed))
            for a in (host, papo, PAPO())
        )
        assert pushed > 1.2 * plain and held < pushed


@pytest.mark.slow
def test_step_grpo_writes_right_steps_sooner():
    gaps = []
    for seed in FRESH:
        grpo, step = (
            np.mean([steps_right(e) for e in held_out(taught("chain-atoms", envs.Chain(), a, CHAIN, steps=12, seed=seed),
                                                     envs.Chain((2, 3)))])
            for a in (GRPO(), StepGRPO())
        )  # fmt: skip
        gaps.append(step - grpo)
    assert np.mean(gaps) > 0.05, gaps


@pytest.mark.slow
def test_pass_at_k_lifts_the_best_of_eight():
    gaps = []
    for seed in FRESH:
        best = []
        for algorithm in (GRPO(), PassAtK(k=4)):
            policy = taught("chain-atoms", envs.Chain(), algorithm, CHAIN, steps=12, seed=seed)
            tried = held_out(policy, envs.Chain((3, 3)), tries=8)
            best.append(np.mean([any(e.success for e in tried[i : i + 8]) for i in range(0, len(tried), 8)]))
        gaps.append(best[1] - best[0])
    assert np.mean(gaps) > 0, gaps


def test_edge_leaves_fewer_rows_without_advantage():
    for seed in FRESH:
        dead = []
        for algorithm in (GRPO(), EdgeGRPO()):
            run = train(models.load("chain-atoms"), envs.Chain(), algorithm, **CHAIN | {"prompts": 64}, seed=seed)
            batch, _ = run._prepare(algorithm.plan(run._sampler()))
            dead.append(float((batch.advantages.abs().amax(1) == 0).float().mean()))
        assert dead[1] < dead[0] - 0.1


def first_calls(policy, env) -> tuple[float, float]:
    """(success, mean number of sampled tokens before the first call) on held-out tasks."""
    tried = held_out(policy, env, limits=CALC["limits"])
    call = policy.tokenizer.convert_tokens_to_ids("<act>")
    said = [e.tokens[e.mask > 0] for e in tried]
    return np.mean([e.success for e in tried]), np.mean(
        [(s == call).argmax() for s in said if (s == call).any()]
    )


@pytest.mark.slow
def test_aspo_calls_earlier():
    """From a start that idles up to five words before it calls, and is right whenever it calls.

    No claim on accuracy beside GRPO's: on seed 10 it was 0.89 against 0.98, on seeds 0 to 2 0.97 against 0.97.
    """
    env = envs.Calc(("product",))
    start, rng = models.load("calc-novice"), np.random.default_rng(0)
    idle = demonstrate(
        start, env, range(2500), lambda e: ("" if e.calls else " many" * int(rng.integers(6))) + e.expert()
    )
    for _ in imitate(start, idle, steps=150, rows=64, lr=2e-3):
        pass
    success, before = first_calls(start, env)
    assert success > 0.9 and before > 2
    for seed in FRESH:
        (_, late), (right, early) = (
            first_calls(taught(start, env, x, CALC, steps=8, seed=seed), env) for x in (GRPO(), ASPO())
        )
        assert early < late - 0.2 and right > 0.8
