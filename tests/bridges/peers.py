"""One batch for our loss and TRL's: episodes with forced tokens, and a policy some updates away from them."""

import copy

import numpy as np
import torch

from arl_mini import collate, envs, models, rollout
from arl_mini.batch import Episode, pairs
from arl_mini.models import TinyLM, score
from arl_mini.models.tokenizer import encode


def moved(policy: TinyLM, by: float, seed: int) -> TinyLM:
    """A copy with noise of relative size `by` on every weight."""
    other, random = policy.copy(), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in other.parameters():
            weight.requires_grad_(True)
            weight += by * weight.std() * torch.randn(weight.shape, generator=random)
    return other


def episodes(start: str = "calc-novice", env: envs.Env = envs.Calc(failing=0.3)):
    """The policy that wrote them and four tries of four tasks; those of Calc have a tool's answers in the middle."""
    policy = models.load(start)
    return policy, rollout(policy, env, range(4), 4, seed=1)


def ours(policy: TinyLM, algorithm, batch) -> tuple[float, dict]:
    """Our loss and its gradient, by name of the weight."""
    policy.zero_grad(set_to_none=True)
    loss = algorithm.loss(score(policy, batch), batch)
    loss.backward()
    return loss.item(), {name: weight.grad for name, weight in policy.named_parameters()}


def gradients(llama) -> dict:
    """The gradient of an exported policy in our layout, by name of the weight."""
    twin = copy.deepcopy(llama)
    for there, here in zip(twin.parameters(), llama.parameters(), strict=True):
        there.data = here.grad.clone()
    return dict(TinyLM.from_hf(twin).named_parameters())


def padded(rows: list, side: str = "right", fill=0) -> torch.Tensor:
    """Ragged rows as one tensor, padded at the left or the right."""
    width = max(len(row) for row in rows)
    blank = [torch.full((width - len(row),), fill, dtype=row.dtype) for row in rows]
    return torch.stack([torch.cat((b, r) if side == "left" else (r, b)) for b, r in zip(blank, rows)])


def grpo_inputs(batch) -> dict:
    """A batch as TRL's GRPOTrainer prepares it: prompts padded left, completions right, tool tokens masked."""
    starts = (batch.turn < 0).long()
    starts = torch.tensor([int(row[:n].sum()) for row, n in zip(starts, batch.lengths)])

    def completions(column) -> torch.Tensor:
        return padded([row[s:n] for row, s, n in zip(column, starts, batch.lengths)])

    asked = [row[:s] for row, s in zip(batch.tokens, starts)]
    ones = [torch.ones(len(row), dtype=torch.long) for row in asked]
    inputs = {
        "prompt_ids": padded(asked, "left"), "prompt_mask": padded(ones, "left"),
        "completion_ids": completions(batch.tokens), "completion_mask": completions(torch.ones_like(batch.tokens)),
        "tool_mask": completions(batch.mask), "advantages": completions(batch.advantages),
        "old_per_token_logps": completions(batch.old_logp), "num_items_in_batch": batch.mask.sum(),
    }  # fmt: skip
    return inputs | ({"ref_per_token_logps": completions(batch.ref_logp)} if batch.ref_logp is not None else {})


def pair_batch():
    """A policy, its reference and a batch of four preferences between tries of one task."""
    reference, tried = episodes()
    chosen, rejected = tried[0::4], tried[1::4]
    batch = collate(pairs(list(zip(chosen, rejected))))
    with torch.no_grad():
        batch = batch.set(ref_logp=score(reference, batch).logp)
    return moved(reference, 0.05, 3), reference, batch


def model_inputs(batch) -> dict:
    """A batch as TRL's preference trainers prepare it."""
    real = torch.arange(batch.tokens.shape[1])[None] < batch.lengths[:, None]
    return {"input_ids": batch.tokens, "attention_mask": real.long(), "completion_mask": batch.mask.long()}


def episode(tokenizer, parts: list[tuple[str, int]]) -> Episode:
    """(text, 1 where the policy says it) parts as an episode."""
    ids = [list(encode(tokenizer, text)) for text, _ in parts]
    mask = np.repeat([m for _, m in parts], [len(i) for i in ids]).astype(np.float32)
    tokens, zero = np.array(sum(ids, [])), np.zeros_like(mask)
    return Episode(tokens, mask, np.where(mask, 0, -1), zero, zero, tokenizer=tokenizer)
