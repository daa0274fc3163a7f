"""Dynamic sampling of DAPO against a sampler that keeps books."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from arl_mini.algorithms import DAPO
from arl_mini.algorithms.base import Sampler
from arl_mini.batch import Episode, collate
from tests.algorithms.rows import f64, value_and_grad
from tests.core.drawn import CHECKED
from tests.oracles.reading import cases


def episode(seed: int, group: int, reward: float) -> Episode:
    """One prompt token, one sampled token with the reward."""
    zero = np.zeros(2, np.float32)
    mask = np.array([0, 1], np.float32)
    return Episode(np.array([1, 2]), mask, np.array([-1, 0]), zero, reward * mask, seed=seed, group=group)


class Books:
    """Plays the run's part: task seed s has the rewards `pays(s)`; notes what was asked for."""

    def __init__(self, prompts: int, tries: int, pays):
        self.next, self.asked, self.pays = 0, [], pays
        self.sampler = Sampler(prompts, tries, self.fresh, self.rollout)

    def fresh(self, n):
        assert n > 0
        self.next += n
        return list(range(self.next - n, self.next))

    def rollout(self, seeds, tries):
        self.asked.append(list(seeds))
        base = 1000 * len(self.asked)
        return [episode(s, base + i, r) for i, s in enumerate(seeds) for r in self.pays(s)[:tries]]


def groups(episodes) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for e in episodes:
        found.setdefault(e.group, []).append(e.reward)
    return found


@CHECKED
@given(st.lists(st.booleans(), min_size=40, max_size=40), st.integers(1, 4), st.integers(2, 4), st.integers(1, 6))
def test_refills_until_full_or_the_cap(alive, prompts, tries, rounds):
    """Task s has contrast where alive[s]; each round asks for exactly what is missing."""
    books = Books(prompts, tries, lambda s: [1.0, *[0.0] * 3] if alive[s] else [1.0] * 4)
    kept = groups(DAPO(rounds=rounds).plan(books.sampler))
    have, expected = 0, []
    for _ in range(rounds):  # the same by counting
        if have == prompts:
            break
        start = sum(expected)
        expected.append(prompts - have)
        have += sum(alive[start : start + prompts - have])
    assert [len(seeds) for seeds in books.asked] == expected
    assert sorted(s for seeds in books.asked for s in seeds) == list(range(sum(expected)))  # nobody twice
    if have:
        assert len(kept) == have <= prompts
        assert all(len(rewards) == tries and len(set(rewards)) > 1 for rewards in kept.values())


def test_never_keeps_a_dead_group_beside_a_live_one():
    books = Books(3, 2, lambda s: [0.0, 1.0] if s == 7 else [0.0, 0.0])
    kept = DAPO(rounds=5).plan(books.sampler)
    assert {e.seed for e in kept} == {7} and len(books.asked) == 5


def test_where_no_prompt_has_contrast_the_last_round_goes_on_and_teaches_nothing():
    books = Books(2, 3, lambda s: [0.1] * 3)
    algorithm = DAPO(rounds=4)
    kept = algorithm.plan(books.sampler)
    assert len(books.asked) == 4 and [e.seed for e in kept] == [6, 6, 6, 7, 7, 7]
    batch = collate(kept)
    batch = batch.set(mask=batch.mask.double(), old_logp=batch.old_logp.double())
    batch = batch.set(advantages=algorithm.advantages(batch).double())
    loss, grad = value_and_grad(algorithm, batch, f64(torch.full((6, 2), -0.4)))
    assert loss == 0.0 and bool((grad == 0).all())


def test_a_single_round_when_all_have_contrast():
    books = Books(4, 4, lambda s: [0.0, 1.0, 0.0, float(s)])
    assert len(DAPO().plan(books.sampler)) == 16 and len(books.asked) == 1


def test_contrast_is_any_difference_not_a_threshold():
    books = Books(1, 2, lambda s: [0.3, 0.3 + 1e-6])
    assert len(DAPO(rounds=2).plan(books.sampler)) == 2 and len(books.asked) == 1


@pytest.mark.parametrize("case", cases("dapo", "dapo-filter"))
def test_which_groups_are_kept(case):
    """The released recipe keeps groups of one; a group of one has advantage 0 here, so it is no contrast."""
    pays = {int(g): rewards for g, rewards in case.inputs["metric_by_group"].items()}
    books = Books(len(pays), 4, pays.__getitem__)
    kept = {e.seed for e in DAPO(rounds=1).plan(books.sampler)}
    assert kept == {g for g in case.outputs["kept_groups"] if len(pays[g]) > 1}
