"""Supervised training: what it makes likelier, what it leaves alone, what fixes it."""

import numpy as np
import pytest
import torch

from arl_mini import demonstrate, imitate
from arl_mini.batch import collate
from arl_mini.models import score
from tests.core.stage import Echo, chatty, token


def shown(policy, turns=2):
    return demonstrate(policy, Echo(turns), range(6), lambda env: env.expert())


def likelihood(policy, episodes) -> float:
    batch = collate(episodes)
    with torch.no_grad():
        return float(score(policy, batch).logp.sum() / batch.mask.sum())


def test_what_was_shown_becomes_likely():
    policy = chatty(1)
    episodes = shown(policy)
    before = likelihood(policy, episodes)
    losses = list(imitate(policy, episodes, steps=40, rows=16, lr=1e-2))
    assert losses[0] == pytest.approx(-before, rel=0.05) and len(losses) == 40
    assert likelihood(policy, episodes) > -0.1 > before


def test_the_loss_is_the_mean_over_what_was_said():
    policy = chatty(1)
    episodes = shown(policy)
    wanted = -likelihood(policy, episodes)
    assert next(imitate(policy, lambda step: episodes, steps=1)) == pytest.approx(wanted, rel=1e-5)


def test_forced_tokens_are_not_learned():
    """The observation ` red` follows <obs> in every episode; nobody is taught to say it."""
    policy = chatty(1)
    before = policy.copy()
    list(imitate(policy, shown(policy), steps=30, rows=16, lr=1e-2))
    prompt = torch.tensor([shown(policy)[0].tokens[:9].tolist()])  # ends with <obs>
    assert int(prompt[0, -1]) == token("<obs>")
    with torch.no_grad():
        red = [float(p(prompt)[0, -1].softmax(0)[token(" red")]) for p in (before, policy)]
    assert red[1] < max(0.05, 2 * red[0])


def test_a_seed_fixes_it():
    def run(seed):
        policy = chatty(1)
        return list(imitate(policy, shown(policy), steps=5, rows=4, seed=seed)), policy.embed.detach().clone()

    one, again, other = run(3), run(3), run(4)
    assert one[0] == again[0] and torch.equal(one[1], again[1]) and not torch.equal(one[1], other[1])


def test_fresh_episodes_a_step():
    policy, asked = chatty(1), []

    def fresh(step):
        asked.append(step)
        return shown(policy, 1 + step % 2)

    assert len(list(imitate(policy, fresh, steps=4))) == 4 and asked == [0, 1, 2, 3]


def test_nothing_happens_until_it_is_iterated():
    policy = chatty(1)
    before = policy.embed.detach().clone()
    run = imitate(policy, shown(policy), steps=2)
    assert torch.equal(policy.embed, before)
    next(run)
    assert not torch.equal(policy.embed, before)


def test_the_learning_rate_rises_and_falls(monkeypatch):
    rates, step = [], torch.optim.AdamW.step
    monkeypatch.setattr(
        torch.optim.AdamW, "step", lambda self, *a: rates.append(self.param_groups[0]["lr"]) or step(self, *a)
    )
    policy = chatty(1)
    list(imitate(policy, shown(policy), steps=60, rows=2, lr=1.0e-3))
    assert rates[0] == pytest.approx(1e-3 / 20, rel=0.01) and int(np.argmax(rates)) in (18, 19, 20)
    assert rates[-1] == pytest.approx(1e-4, rel=0.02) and all(a > b for a, b in zip(rates[20:], rates[21:]))
