"""Where TRL has the algorithm: the same batch through its trainer's own code and through ours, loss and gradient."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from arl_mini import algorithms as a
from arl_mini import collate, envs, ops
from arl_mini.algorithms.dpo import mismatched
from arl_mini.bridges.trl import prompts
from arl_mini.models import TinyLM, score

from tests.algorithms.walkthrough import module
from . import peers

LENGTH = 24  # DrGRPO's constant



class Corrected(a.GRPO):
    """TRL's default since 2026: the KL of a token is multiplied by its importance ratio."""

    def loss(self, scores, batch):
        kl = self.ratio(scores, batch) * ops.kl_k3(scores.logp, batch.ref_logp)
        return self.reduce(self.surrogate(scores, batch) + self.beta * kl, batch)


# ours, then what TRL's trainer is set to
GRPO_FAMILY = {
    "GRPO": (a.GRPO(), dict(loss_type="grpo")),
    "GRPO with KL": (a.GRPO(beta=0.04), dict(loss_type="grpo", beta=0.04)),
    "GRPO with KL times ratio": (Corrected(beta=0.04), dict(loss_type="grpo", beta=0.04)),
    "DrGRPO": (a.DrGRPO(length=LENGTH), dict(loss_type="dr_grpo", max_completion_length=LENGTH)),
    "DAPO": (a.DAPO(), dict(loss_type="dapo", epsilon_high=0.28)),
    "LitePPO": (a.LitePPO(), dict(loss_type="bnpo")),
    "GSPO": (a.GSPO(clip_low=0.01, clip_high=0.02), dict(
        loss_type="grpo", importance_sampling_level="sequence", epsilon_low=0.01, epsilon_high=0.02)),
    "CISPO": (a.CISPO(clip_high=0.28), dict(loss_type="cispo", epsilon_high=1.28)),
    "SAPO": (module().SAPO(), dict(loss_type="sapo")),  # CONTRIBUTING.md's example
    "GMPO": (a.GMPO(clip_low=0.05, clip_high=0.05), dict(epsilon_low=0.05, epsilon_high=0.05)),
}  # fmt: skip


def settings(trl, kind: str, folder, **more):
    """A TRL configuration for a CPU that saves and reports nothing."""
    plain = dict(use_cpu=True, bf16=False, report_to=[], save_strategy="no", output_dir=str(folder))
    return getattr(trl, kind)(per_device_train_batch_size=4, **plain, **more)


def of_row(advantages: torch.Tensor) -> torch.Tensor:
    """(B, T) of completions with one number a row → (B,): that of the first token, which is always sampled."""
    return advantages[:, 0]


def loaded(trainer, policy: TinyLM):
    """The trainer's model with a policy's weights, without gradient, in evaluation mode."""
    trainer.model.load_state_dict(policy.to_hf().state_dict())
    trainer.model.zero_grad(set_to_none=True)
    return trainer.model.eval()


def agree(ours: tuple[float, dict], loss: float, gradient: dict) -> None:
    assert ours[0] == pytest.approx(loss, rel=2e-5, abs=1e-6)
    for name, mine in ours[1].items():
        torch.testing.assert_close(mine, gradient[name], rtol=1e-4, atol=2e-6, msg=lambda m, n=name: f"{n}: {m}")


def rewarded(policy, tried):
    """Episodes as a batch with random rewards and the log-probabilities of some reference."""
    rows = collate(tried)
    rewards = torch.zeros_like(rows.rewards)
    last = (rows.mask.cumsum(1) == rows.mask.sum(1, keepdim=True)) & (rows.mask > 0)
    paid = torch.rand(len(rows), generator=torch.Generator().manual_seed(0))
    rows = rows.set(rewards=torch.where(last, paid[:, None], rewards))
    with torch.no_grad():
        return rows.set(ref_logp=score(peers.moved(policy, 0.02, 9), rows).logp)


@pytest.fixture(scope="module")
def batch():
    """A policy and sixteen episodes of Calc with forced tokens in the middle."""
    policy, tried = peers.episodes()
    assert any("down" in e.text for e in tried)
    return policy, rewarded(policy, tried)


@pytest.fixture(scope="module")
def grpo_trainers(batch, tmp_path_factory):
    """TRL's GRPO and GMPO trainers on the exported policy."""
    import trl
    from trl.experimental.gmpo import GMPOConfig, GMPOTrainer

    policy, _ = batch
    folder, data = tmp_path_factory.mktemp("trl"), prompts(envs.Calc(), range(4))
    known = dict(reward_funcs=lambda completions, **_: [0.0], train_dataset=data, processing_class=policy.tokenizer)
    trl.GMPOConfig = GMPOConfig
    plain = trl.GRPOTrainer(policy.to_hf(), args=settings(trl, "GRPOConfig", folder, num_generations=4), **known)
    geometric = GMPOTrainer(policy.to_hf(), args=settings(trl, "GMPOConfig", folder, num_generations=4), **known)
    return {"GMPO": geometric, "": plain}


@pytest.mark.parametrize("name", GRPO_FAMILY)
def test_grpo_family(batch, grpo_trainers, name):
    algorithm, theirs = GRPO_FAMILY[name]
    policy, rows = batch
    now = peers.moved(policy, 0.05, 2)
    rows = rows.set(advantages=algorithm.advantages(rows))
    scores = score(now, rows)
    assert (rows.mask * (scores.logp - rows.old_logp).abs() > 0.2).any(), "the ratio must leave the clip range"
    trainer = grpo_trainers.get(name, grpo_trainers[""])
    defaults = dict(loss_type="grpo", beta=0.0, epsilon_low=0.2, epsilon_high=0.2, importance_sampling_level="token")
    for setting, value in (defaults | theirs).items():
        setattr(trainer, setting, value)
    trainer.args.use_bias_correction_kl = isinstance(algorithm, Corrected)
    llama = loaded(trainer, now)
    inputs = peers.grpo_inputs(rows)
    if name == "GMPO":
        inputs["advantages"] = of_row(inputs["advantages"])
    loss = trainer._compute_loss(llama, inputs)
    loss.backward()
    agree(peers.ours(now, algorithm, rows), loss.item(), peers.gradients(llama))


def test_rloo(tmp_path):
    """On-policy: TRL's clipped ratio of whole rows then has the gradient of the log-probability."""
    import trl

    now, tried = peers.episodes("chain-atoms", envs.Chain())
    rows = rewarded(now, tried)
    rows = rows.set(advantages=a.RLOO().advantages(rows))
    trainer = trl.RLOOTrainer(
        now.to_hf(), reward_funcs=lambda completions, **_: [0.0], train_dataset=prompts(envs.Chain(), range(4)),
        args=settings(trl, "RLOOConfig", tmp_path, num_generations=4, beta=0.0), processing_class=now.tokenizer,
    )  # fmt: skip
    now = peers.moved(now, 0.0, 0)
    llama = loaded(trainer, now)
    inputs = peers.grpo_inputs(rows) | {"old_logps": score(now, rows).logp.detach().sum(1)}
    trainer._compute_loss(llama, inputs | {"advantages": of_row(inputs["advantages"])}).backward()
    _, gradient = peers.ours(now, a.RLOO(), rows)
    for name, theirs in peers.gradients(llama).items():
        torch.testing.assert_close(gradient[name], theirs, rtol=1e-4, atol=2e-6)


@pytest.fixture(scope="module")
def pairs():
    return peers.pair_batch()


@pytest.mark.parametrize(
    "algorithm, theirs",
    [
        (a.DPO(beta=0.3), dict(loss_type=["sigmoid"], beta=0.3)),
        (a.IPO(beta=0.3), dict(loss_type=["ipo"], beta=0.3)),
    ],
    ids=("DPO", "IPO"),
)
def test_dpo_family(pairs, algorithm, theirs, tmp_path):
    import trl
    from datasets import Dataset

    policy, reference, batch = pairs
    data = Dataset.from_list([{"prompt": " 1", "chosen": " 2", "rejected": " 3"}] * 4)
    trainer = trl.DPOTrainer(
        policy.to_hf(), ref_model=reference.to_hf(), args=settings(trl, "DPOConfig", tmp_path, **theirs),
        train_dataset=data, processing_class=policy.tokenizer,
    )  # fmt: skip
    llama = loaded(trainer, policy)
    chosen_first = batch.rows(torch.cat(ops.pair_rows(batch.pair, batch.chosen)))
    loss = trainer._compute_loss(llama, peers.model_inputs(chosen_first), False)
    loss.backward()
    agree(peers.ours(policy, algorithm, batch), loss.item(), peers.gradients(llama))


def by_their_formula(policy, batch, formula) -> tuple[float, dict]:
    """Loss and gradient of formula(mean log-probability of the chosen rows (P,), of the rejected ones)."""
    policy.zero_grad(set_to_none=True)
    means = ops.row_mean(score(policy, batch).logp, batch.mask)
    loss = formula(*(means[rows] for rows in ops.pair_rows(batch.pair, batch.chosen)))
    loss.backward()
    return loss.item(), {name: weight.grad for name, weight in policy.named_parameters()}


def test_simpo(pairs):
    from trl.experimental.cpo import CPOTrainer

    policy, _, batch = pairs
    known = SimpleNamespace(device="cpu")
    trainer = SimpleNamespace(
        alpha=0.0, beta=2.0, loss_type="simpo", simpo_gamma=0.5, label_smoothing=0.1, accelerator=known
    )
    theirs = by_their_formula(policy, batch, lambda w, l: CPOTrainer.cpo_loss(trainer, w, l)[0].mean())
    agree(peers.ours(policy, a.SimPO(beta=2.0, gamma=0.5, smoothing=0.1), batch), *theirs)


def test_orpo(pairs):
    """The odds ratio; TRL's likelihood counts the prompt as well, ours the reply alone."""
    from trl.experimental.orpo import ORPOTrainer

    class Odds(a.ORPO):
        def nll(self, logp, mask):
            return torch.zeros(())

    policy, _, batch = pairs
    trainer = SimpleNamespace(beta=0.1, accelerator=SimpleNamespace(device="cpu"))
    theirs = by_their_formula(policy, batch, lambda w, l: -ORPOTrainer.odds_ratio_loss(trainer, w, l)[0].mean())
    agree(peers.ours(policy, Odds(lam=0.1), batch), *theirs)


def test_kto(tmp_path):
    import trl
    from datasets import Dataset

    reference, tried = peers.episodes()
    rows = [replace(e, pair=i, chosen=i % 3 == 0) for i, e in enumerate(tried[::2])]
    batch = collate(rows + mismatched(rows))
    with torch.no_grad():
        batch = batch.set(ref_logp=score(reference, batch).logp)
    policy, algorithm = peers.moved(reference, 0.05, 3), a.KTO(beta=0.3, desirable=1.5)
    data = Dataset.from_list([{"prompt": " 1", "completion": " 2", "label": bool(i % 2)} for i in range(4)])
    trainer = trl.KTOTrainer(
        policy.to_hf(), ref_model=reference.to_hf(), train_dataset=data, processing_class=policy.tokenizer,
        args=settings(trl, "KTOConfig", tmp_path, beta=0.3, desirable_weight=1.5),
    )  # fmt: skip
    labelled, others = (peers.model_inputs(batch.rows(kind)) for kind in (batch.pair >= 0, batch.pair < 0))
    inputs = labelled | {f"KL_{name}": column for name, column in others.items()}
    llama = loaded(trainer, policy)
    loss = trainer._compute_loss(llama, inputs | {"label": batch.chosen[batch.pair >= 0]}, False)
    loss.backward()
    agree(peers.ours(policy, algorithm, batch), loss.item(), peers.gradients(llama))
