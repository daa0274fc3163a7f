"""What is sampled: skips, epochs, added tries, moving anchors, hints, replay; against oracles and books."""

import math

import numpy as np
import pytest
import torch

from arl_mini import Limits, envs, models, train
from arl_mini.algorithms import DAPO, DARS, GHPO, GRESO, GRPO, SRPO, DrGRPO, ProRL, SkyworkR1V2
from arl_mini.algorithms.base import Sampler
from arl_mini.algorithms.replay import draw, restored, stored
from arl_mini.algorithms.sampling import begun, by_group, extra_tries, forced_before
from arl_mini.batch import Episode, collate
from arl_mini.rollout import demonstrate
from tests.algorithms.rows import by_hand, f64, random_batch, value_and_grad
from tests.oracles.reading import cases

QUEST, CHAIN = Limits(8, 8, 112), Limits(12, 1, 48)


def episode(seed: int, group: int, reward: float) -> Episode:
    """One prompt token, one sampled token with the reward; a success where it is 1."""
    zero, mask = np.zeros(2, np.float32), np.array([0, 1], np.float32)
    turn = np.array([-1, 0])
    return Episode(
        np.array([1, 2]), mask, turn, zero, reward * mask, seed=seed, group=group, success=reward == 1
    )


class Books:
    """Plays the run's part: task s pays pays(s, n) when tried n times; notes what was asked for."""

    def __init__(self, prompts: int, tries: int, pays, tasks=()):
        self.next, self.asked, self.pays, self.tasks = 0, [], pays, list(tasks)
        rng = np.random.default_rng(0)
        self.sampler = Sampler(
            prompts, tries, self.fresh, self.rollout, rng=rng, tasks=tuple(tasks), reset=self.reset
        )
        self.resets = []

    def fresh(self, n):
        self.next += n
        return [self.tasks[i % len(self.tasks)] if self.tasks else i for i in range(self.next - n, self.next)]

    def rollout(self, seeds, tries):
        self.asked.append((list(seeds), tries))
        base = 1000 * len(self.asked)
        return [episode(s, base + i, r) for i, s in enumerate(seeds) for r in self.pays(s, tries)]

    def reset(self):
        self.resets.append(len(self.asked))


# --- GRESO ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("curricula", "greso-skip"))
def test_greso_skip_oracle(case):
    h, got = case.hyper, {"easy": [], "hard": []}
    greso = GRESO(easy=h["easy_threshold"], hard=h["hard_threshold"], floor=h["floor"])
    for visits in case.inputs["history"].values():
        z = 0
        for mean in visits:
            z = greso.streak(z, mean)
        p = greso.skip(z, h["p_easy"], h["p_hard"])
        got["easy"].append(p if z > 0 else 0.0)
        got["hard"].append(p if z < 0 else 0.0)
    case.meets(got["easy"], case.outputs["skip_prob_easy"])
    case.meets(got["hard"], case.outputs["skip_prob_hard"])


@pytest.mark.parametrize("case", cases("curricula", "greso-p-update"))
def test_greso_control_oracle(case):
    h, p = case.hyper, [case.inputs["p_easy"], case.inputs["p_hard"]]
    greso = GRESO(
        delta=h["step"],
        target_easy=h["target_easy"],
        target_hard=h["target_hard"],
        low=h["min_p"],
        high=h["max_p"],
    )
    shares = zip(case.inputs["easy_ratio"], case.inputs["hard_ratio"])
    got = [
        [greso.adapt(p[0], e, greso.target_easy), greso.adapt(p[1], d, greso.target_hard)] for e, d in shares
    ]
    case.meets(got, case.outputs["p_easy_hard"])


def test_greso_saves_tries_on_tasks_without_contrast():
    """Of 8 tasks 2 have contrast: in time the others are mostly not tried at all."""
    pays = lambda s, n: [float(s % 4 == 0)] + [0.0] * (n - 1)  # noqa: E731
    books = Books(2, 4, pays, tasks=range(8))
    tried = []
    for _ in range(30):
        books.asked.clear()
        kept = GRESO().plan(books.sampler)
        assert {e.seed for e in kept} <= {0, 4} and len(kept) == 8
        tried.append([s for seeds, _ in books.asked for s in seeds])
    alive = [np.mean([s % 4 == 0 for s in t]) for t in tried]
    assert np.mean(alive[:2]) < 0.5 < 0.8 < np.mean(alive[-10:])
    assert books.sampler.memory["streak"][0] == 0 and books.sampler.memory["streak"][1] < -1


def test_greso_skips_nothing_where_tasks_are_new_or_p_is_1():
    nothing = lambda s, n: [0.0] * n  # noqa: E731
    always = GRESO(start=1.0, high=1.0, low=1.0)
    for books, greso in ((Books(3, 2, nothing), GRESO(rounds=3)), (Books(3, 2, nothing, range(4)), always)):
        greso.plan(books.sampler)
        asked = [s for seeds, _ in books.asked for s in seeds]
        assert len(asked) == books.next or len(set(asked)) == 4
        assert len(books.asked) == greso.rounds


# --- SRPO -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("curricula", "srpo-history"))
def test_srpo_history_oracle(case):
    names = list(case.inputs["epoch_rewards"])
    books = Books(3, 4, lambda s, n: case.inputs["epoch_rewards"][names[s]], tasks=range(3))
    SRPO().plan(books.sampler)
    SRPO().plan(books.sampler)
    assert {names[s] for s in books.asked[1][0]} == set(case.outputs["kept"])


@pytest.mark.parametrize("case", cases("curricula", "srpo-overlong"))
def test_srpo_overlong_oracle(case):
    """Cut rows get 0 whatever their z-score; the others keep it."""
    cut = torch.tensor(case.inputs["truncated"]).bool()
    batch, _ = random_batch(0, rows=3, groups=1)
    got = SRPO().advantages(batch.set(truncated=cut))
    assert torch.equal(got, GRPO().advantages(batch) * ~cut[:, None])
    case.meets(case.tensor("adv") * ~cut, case.outputs["advantages"])


def test_srpo_epochs_stages_and_return():
    books = Books(2, 2, lambda s, n: [1.0] * n if s != 3 else [1.0, 0.0], tasks=range(5))
    srpo = SRPO(later=lambda s: s >= 4)
    visits = []
    for _ in range(6):
        srpo.plan(books.sampler)
        visits.append(sorted(books.asked[-1][0]))
    assert sorted(visits[0] + visits[1]) == [0, 1, 2, 3]  # the first stage, once each
    assert visits[2] == [3, 4] and visits[3] == visits[4] == visits[5] == [3]  # then what is not solved
    books = Books(2, 2, lambda s, n: [1.0] * n, tasks=range(2))
    for _ in range(3):
        SRPO().plan(books.sampler)
        assert sorted(books.asked[-1][0]) == [0, 1]  # nothing is left: all come back
    with pytest.raises(ValueError, match="fixed tasks"):
        SRPO().plan(Books(2, 2, lambda s, n: [0.0] * n).sampler)


# --- DARS -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("curricula", "dars-ET") + cases("curricula", "dars-HW"))
def test_dars_schedule_oracle(case):
    h = case.hyper
    got = [
        extra_tries(a, h["N"], h["N_max"], "HW" in case.id, bool(h["use_std"])) for a in case.inputs["acc"]
    ]
    assert got == case.outputs["extra_rollouts"]


@pytest.mark.parametrize("case", cases("curricula", "dars-loss"))
def test_dars_loss_oracle(case):
    """The release's sum over the width is Dr.GRPO's constant times the rows; its other reading, GRPO's."""
    batch = by_hand(case.inputs["mask"], old_logp=case.tensor("old_logp"), advantages=case.inputs["adv"])
    width = "padded" in case.hyper["agg"]
    algorithm = DARS(length=batch.mask.shape[1]) if width else GRPO()
    loss, grad = value_and_grad(algorithm, batch, case.inputs["logp"])
    scale = len(batch) if width else 1
    case.meets(scale * loss, case.outputs["loss"])
    case.meets(scale * grad, case.grads["logp"])


def test_dars_gives_hard_tasks_more_tries_in_one_group():
    right = {0: 4, 1: 1, 2: 0, 3: 2}
    books = Books(4, 4, lambda s, n: [1.0] * right[s] + [0.0] * (4 - right[s]) if n == 4 else [0.0] * n)
    groups = {g[0].seed: g for g in by_group(DARS(most=12).plan(books.sampler))}
    want = {s: 4 + extra_tries(r / 4, 4, 12, False, False) for s, r in right.items()}
    assert {s: len(g) for s, g in groups.items()} == want and want[2] > want[1] > 4 == want[0] == want[3]
    batch = collate([e for g in groups.values() for e in g])
    kept = batch.rows(DARS().keep(batch))
    assert {e.seed for e in kept.episodes} == {1, 3}  # all right and all wrong leave
    mass = DARS().advantages(kept).abs().sum(1)
    hard, medium = (sum(m for m, e in zip(mass.tolist(), kept.episodes) if e.seed == s) for s in (1, 3))
    assert 1.5 < hard == pytest.approx(medium, rel=0.2)  # 1.5 without the added tries, 2 for 2 of 4


def test_dars_without_room_is_drgrpo():
    batch, logp = random_batch(1)
    batch = batch.set(advantages=DARS().advantages(batch))
    assert torch.equal(batch.advantages, DrGRPO().advantages(batch))
    assert value_and_grad(DARS(), batch, logp)[0] == value_and_grad(DrGRPO(), batch, logp)[0]
    assert all(extra_tries(a / 8, 8, 8, True, False) == 0 for a in range(9))


# --- ProRL ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("curricula", "prorl-loss"))
def test_prorl_loss_oracle(case):
    batch = by_hand(case.inputs["mask"], old_logp=case.tensor("old_logp"), advantages=case.inputs["adv"],
                    ref_logp=case.tensor("ref_logp"))  # fmt: skip
    prorl = ProRL(clip_low=case.hyper["eps_low"], clip_high=case.hyper["eps_high"], beta=case.hyper["beta"])
    loss, grad = value_and_grad(prorl, batch, case.inputs["logp"])
    case.meets(loss, case.outputs["loss"])
    case.meets(grad, case.grads["logp"])


def test_prorl_without_anchor_is_dapo():
    batch, logp = random_batch(2)
    batch = batch.set(advantages=GRPO().advantages(batch))
    mine, parent = (value_and_grad(a, batch, logp) for a in (ProRL(beta=0.0), DAPO(clip_high=0.4)))
    assert mine[0] == parent[0] and torch.equal(mine[1], parent[1])


def test_prorl_resets_when_success_stalls():
    right = iter([0, 0, 1, 1, 2, 2, 2, 1, 0, 0, 0, 0])
    now = {"n": 0}
    books = Books(1, 3, lambda s, n: [1.0] * now["n"] + [0.0] * (n - now["n"]))
    for now["n"] in right:
        ProRL(window=2, rounds=1).plan(books.sampler)
    assert books.resets == [8, 12]  # 2 + 1 is below 2 + 2; then the count starts anew
    assert books.sampler.memory["resets"] == 2


def test_a_reset_moves_the_reference_and_empties_the_optimizer():
    policy = models.load("quest-novice")
    run = train(
        policy, envs.Quest(3, 8), ProRL(window=1, beta=0.1), steps=4, prompts=2, tries=3, limits=QUEST
    )
    next(run)
    assert not torch.equal(run.ref.embed, policy.embed) and run.optimizer.state
    run._sampler().reset()
    assert torch.equal(run.ref.embed, policy.embed) and not run.optimizer.state
    kl = [record.kl for record in run]
    assert all(math.isfinite(x) for x in kl) and kl[0] < 1e-6  # the anchor is where the policy is


# --- GHPO -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("curricula", "ghpo-loss"))
def test_ghpo_loss_oracle(case):
    batch = by_hand(case.inputs["mask"], old_logp=case.tensor("old_logp"), advantages=case.inputs["adv"])
    loss, grad = value_and_grad(GHPO(), batch, case.inputs["logp"])
    case.meets(loss, case.outputs["loss"])
    case.meets(grad, case.grads["logp"])


@pytest.mark.parametrize("case", cases("curricula", "ghpo-hints"))
def test_ghpo_ladder_oracle(case):
    """As many letters as the released code gives, and no round after the first success."""
    text, rounds = case.inputs["solution"], case.inputs["accuracy_by_round"]
    n, hints = len(text), []
    shown = Episode(np.arange(n + 1), np.r_[0, np.ones(n)].astype(np.float32), np.r_[-1, np.zeros(n, int)],
                    np.zeros(n + 1, np.float32), np.zeros(n + 1, np.float32))  # fmt: skip
    books = Books(1, 4, lambda s, n: rounds[0])

    def fork(episodes, positions, tries):
        hints.append(text[: positions[0] - 1])
        return [episode(0, 9, r) for r in rounds[len(hints)]]

    books.sampler.demonstrate, books.sampler.fork = lambda seeds: [shown], fork
    GHPO(hints=tuple(case.hyper["ratios"][1:])).plan(books.sampler)
    assert ["", *hints] == case.outputs["prompt_hint_by_round"]


def test_ghpo_hints_are_forced_and_heard():
    """In Chain, in mid-answer, and in Quest, over turns: hints are the expert's, untrained, unpaid."""
    for env, start, limits in (
        (envs.Chain((3, 3)), "chain-atoms", CHAIN),
        (envs.Quest(3, 8), "quest-novice", QUEST),
    ):
        policy = models.load(start)
        run = train(policy, env, GHPO(), steps=1, prompts=4, tries=3, limits=limits)
        sampler = run._sampler()
        shown = sampler.demonstrate([5, 6])
        cuts = [begun(e, 0.5) for e in shown]
        for k, tried in enumerate(by_group(sampler.fork(shown, cuts, 3))):
            for e in (forced_before(t, cuts[k]) for t in tried):
                assert e.tokens[: cuts[k]].tolist() == shown[k].tokens[: cuts[k]].tolist()
                assert not e.mask[: cuts[k]].any() and not e.logp[: cuts[k]].any() and e.mask[cuts[k]] == 1
                replay = env.clone()
                replay.reset(e.seed)
                said = owned(e, shown[k], cuts[k])
                texts = [
                    "".join(p for p, t, mine in zip(e.pieces, e.turn, said) if t == j and mine)
                    for j in range(e.turns)
                ]
                replies = [replay.step(text) for text in texts]
                assert bool(replies[-1].info.get("success")) == e.success


def owned(e, shown, cut):
    """Tokens that were said, by the expert before the cut or by the policy after it."""
    return [bool(shown.mask[t]) if t < cut else bool(e.mask[t]) for t in range(len(e))]


def test_ghpo_without_failing_groups_is_grpo():
    books = Books(3, 2, lambda s, n: [1.0, 0.0])
    assert len(GHPO().plan(books.sampler)) == 6 and len(books.asked) == 1


# --- Skywork R1V2 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("curricula", "r1v2-ssb"))
def test_buffer_oracle(case):
    weights, rng = case.inputs["adv"], np.random.default_rng(0)
    count = np.bincount([draw(weights, 1, rng)[0] for _ in range(4000)], minlength=5) / 4000
    assert np.flatnonzero(count).tolist() == case.outputs["kept"]
    assert count[case.outputs["kept"]].tolist() == pytest.approx(case.outputs["sampling_prob"], abs=0.03)
    assert sorted(draw(weights, 9, rng)) == case.outputs["kept"] and draw([0.0], 2, rng) == []


@pytest.mark.parametrize("case", cases("curricula", "r1v2-mpo"))
def test_mpo_oracle(case):
    inputs, tokens = case.inputs, case.inputs["chosen_tokens"]
    sums = [*inputs["chosen_logp"], *inputs["rejected_logp"]]
    refs = [*inputs["ref_chosen_logp"], *inputs["ref_rejected_logp"]]
    n = [*tokens, 3, 4]
    mask = f64([[1.0] * k + [0.0] * (8 - k) for k in n])
    logp, ref = (f64([[s / k] * 8 for s, k in zip(x, n)]) for x in (sums, refs))
    batch = by_hand(
        mask, ref_logp=ref, pair=torch.tensor([0, 1, 0, 1]), chosen=torch.tensor([1, 1, 0, 0]).bool(), step=1
    )
    h = case.hyper
    for weights, name in (
        ((1, 0, 0), "L_p"),
        ((0, 1, 0), "L_q"),
        ((0, 0, 1), "L_g"),
        ((h["w_p"], h["w_q"], h["w_g"]), "loss"),
    ):
        loss, grad = value_and_grad(SkyworkR1V2(margin=h["beta"], weights=weights), batch, logp)
        case.meets(loss, case.outputs[name])
        assert bool((grad[mask == 0] == 0).all())


def test_replayed_rows_keep_their_odds_and_fill_the_places_of_dead_ones():
    first = Books(3, 2, lambda s, n: [1.0, 0.0])
    sky = SkyworkR1V2()
    alive = sky.plan(first.sampler)
    assert len(alive) == 6 and len(first.sampler.memory["buffer"]) == 6
    first.pays = lambda s, n: [0.0] * n
    filled = sky.plan(first.sampler)
    old = [e for e in filled if e.past]
    assert len(filled) == 12 and len(old) == 6 and len({e.group for e in filled}) == 3 + 6
    assert sorted(e.weight for e in old) == sorted(e.weight for e in alive)
    batch = collate(filled)
    assert sky.keep(batch).tolist() == [e.past for e in filled] and len(first.sampler.memory["buffer"]) == 6


def test_a_buffer_survives_a_saved_run(tmp_path):
    options = dict(steps=4, prompts=3, tries=3, limits=QUEST)
    runs = [train(models.load("quest-novice"), envs.Quest(3, 8), SkyworkR1V2(), **options) for _ in range(2)]
    next(runs[0]), next(runs[0])
    runs[0].save(tmp_path / "run.pt")
    runs[1].load(tmp_path / "run.pt")
    a, b = (next(run) for run in runs)
    assert (a.loss, a.success, a.tokens) == (b.loss, b.success, b.tokens)
    row = demonstrate(models.load("quest-novice"), envs.Quest(3, 8), [1], lambda env: env.expert())[0]
    again = restored(stored(row), row.tokenizer, 7)
    assert (
        again.past
        and again.group == 7
        and again.text == row.text
        and again.logp.tolist() == row.logp.tolist()
    )
