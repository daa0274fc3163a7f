"""Soft tokens: a memory of k vectors that a model writes as it reads, and a learned gate that says when to
write."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ... import ops
from ...envs.notes import Notes, read
from ...models.tiny import TinyLM, _causal
from ...models.tokenizer import encode

BLANK, WRITE = (" sa", " sb", " sc", " sd"), (" wa", " wb", " wc", " wd")
UPDATE, KEEP = " update", " keep"
SOFT = "".join((*BLANK, *WRITE, UPDATE, KEEP))  # the reserved words, for a vocabulary


@dataclass(frozen=True)
class Streams:
    """B streams of Notes cut into S segments. tokens (B, S, T): ` where is it ?` and the lines of a segment.

    question (B, 4) the question alone; truth (B, S + 1): token of the right answer after 0 … S segments; told
    (B, S): whether a segment changes the right answer (it tells of the subject, and not only what was true before).
    """

    tokens: Tensor
    question: Tensor
    truth: Tensor
    told: Tensor

    @classmethod
    def draw(cls, policy: TinyLM, notes: Notes, seeds: Sequence[int], per: int = 4) -> "Streams":
        """The streams of these seeds; the questions must be of one length (kind `is`)."""
        tokens, question, truth, about = [], [], [], []
        for seed in seeds:
            notes.reset(seed)
            parts = [notes.stream[i : i + per] for i in range(0, notes.lines, per)]
            answers = [read(notes.stream[: i * per], notes.now) for i in range(len(parts) + 1)]
            texts = [notes.ask(part) for part in parts]
            tokens.append([encode(policy.tokenizer, asked + lines) for lines, asked in texts])
            question.append(encode(policy.tokenizer, texts[0][1]))
            truth.append([encode(policy.tokenizer, f" {answer}")[0] for answer in answers])
            about.append([before != after for before, after in zip(answers, answers[1:])])
        return cls(*(torch.tensor(x, device=policy.device) for x in (tokens, question, truth, about)))


class LatentMemory:
    """k soft tokens carried between segments (in the spirit of MemoryLLM), and a gate ` update` or ` keep`
    (MemGen's trigger).

    A segment is read as [k soft tokens | question and lines | k write tokens]; the last hidden states at the
    write tokens, normalised, are the soft tokens after it. Nothing else passes on. All of it is one `TinyLM`:
    the first soft tokens and the write tokens are embeddings of reserved words, the gate is the model's own
    choice between two words.
    """

    def __init__(self, policy: TinyLM, slots: int = 4):
        if not 1 <= slots <= len(BLANK):
            raise ValueError(f"slots must be 1 to {len(BLANK)}, got {slots}")
        self.policy, self.slots = policy, slots
        ids = {w: encode(policy.tokenizer, w)[0] for w in (*BLANK, *WRITE, UPDATE, KEEP)}
        self.blank, self.write = ([ids[w] for w in words[:slots]] for words in (BLANK, WRITE))
        self.choice = [ids[KEEP], ids[UPDATE]]

    def start(self, rows: int) -> Tensor:
        """(B, k, width) the memory of nothing."""
        return self.policy.embed[self.blank].expand(rows, -1, -1)

    def states(self, memory: Tensor, tokens: Tensor) -> Tensor:
        """(B, k + T, width) last hidden states of the soft tokens followed by tokens (B, T)."""
        x = torch.cat((memory, self.policy.embed[tokens]), 1)
        B, T, width = x.shape
        turn = self.policy._turn(torch.arange(T, device=x.device).repeat(B), T)
        x = x.flatten(0, 1)
        for block in self.policy.blocks:
            q, kv = block.project(x, turn)
            x = block.finish(x, _causal(q.view(B, T, -1), kv.view(B, T, -1), block))
        return x.view(B, T, width)

    def absorb(self, memory: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The memory after a segment (B, k, width), and what the gate sees (B, width)."""
        written = torch.tensor(self.write, device=tokens.device).expand(len(tokens), -1)
        states = self.states(memory, torch.cat((tokens, written), 1))
        seen = F.rms_norm(states[:, -1], self.policy.norm.shape, self.policy.norm, 1e-6)
        new = F.rms_norm(states[:, -self.slots :], states.shape[2:]) * self.policy.embed.detach().std()
        return new, seen

    def answers(self, memory: Tensor, question: Tensor) -> Tensor:
        """(B, vocab) logits of the answer."""
        return self.policy.head(self.states(memory, question)[:, -1])

    def run(
        self, streams: Streams, gate: str = "learned", rng: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Reads the streams segment by segment. gate: 'always', 'never', or 'learned', then drawn with `rng`.

        Returns the final memory (B, k, width), what the gate chose (B, S) of 0 and 1, and what it saw (B, S,
        width).
        """
        if gate not in ("always", "never", "learned"):
            raise ValueError(f"a gate is 'always', 'never' or 'learned', got {gate!r}")
        memory, chosen, sights = self.start(len(streams.tokens)), [], []
        for segment in range(streams.tokens.shape[1]):
            new, seen = self.absorb(memory, streams.tokens[:, segment])
            chance = (seen @ self.policy.embed[self.choice].T).softmax(1)[:, 1] if gate == "learned" else None
            opened = torch.full_like(seen[:, 0], float(gate == "always"))
            if chance is not None:
                opened = (torch.rand(len(chance), generator=rng) < chance.cpu()).to(seen)
            memory = torch.where(opened[:, None, None] > 0, new, memory)
            chosen.append(opened)
            sights.append(seen)
        return memory, torch.stack(chosen, 1), torch.stack(sights, 1)

    def right(self, streams: Streams, memory: Tensor) -> Tensor:
        """(B,) 1.0 where the likeliest answer at the end is the right one."""
        logits = self.answers(memory, streams.question)
        logits[:, self.choice] = -torch.inf  # no answers, whatever the gate has learned
        return (logits.argmax(1) == streams.truth[:, -1]).float()


def teach(
    memory: LatentMemory, notes: Notes, *, steps: int, rows: int = 64, lr: float = 2e-3, seed: int = 0
) -> Iterator[float]:
    """Supervised: the answer is asked after every segment, through all of them; the gate is always open.
    Yields the loss."""
    optimizer = torch.optim.AdamW(memory.policy.parameters(), lr=lr, weight_decay=0.01)
    for step in range(steps):
        rng = np.random.default_rng([seed, step])
        streams = Streams.draw(memory.policy, notes, rng.integers(2**30, size=rows).tolist())
        state, losses = memory.start(rows), []
        for segment in range(streams.tokens.shape[1]):
            state, _ = memory.absorb(state, streams.tokens[:, segment])
            losses.append(
                F.cross_entropy(memory.answers(state, streams.question), streams.truth[:, segment + 1])
            )
        loss = torch.stack(losses).mean()
        for part in optimizer.param_groups:
            part["lr"] = lr * min(1.0, (step + 1) / 20) * (0.55 + 0.45 * np.cos(np.pi * step / steps))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(memory.policy.parameters(), 1.0)
        optimizer.step()
        yield float(loss.detach())


def learn_gate(
    memory: LatentMemory, notes: Notes, *, steps: int, prompts: int = 16, tries: int = 8, lr: float = 0.01, price: float = 0.1,
    divide: bool = True, seed: int = 0,
) -> Iterator[dict[str, float]]:  # fmt: skip
    """GRPO on the gate alone: reward 1 for the right answer, minus price times the share of segments written.

    divide: by the group's standard deviation, as GRPO does; without, as Dr.GRPO.

    Only the embeddings of ` update` and ` keep` are trained, so what the soft tokens hold stays as it was
    taught. Yields reward, success, and how often the gate opened on segments that tell of the subject and on
    others.
    """
    embed, rows = memory.policy.embed, torch.tensor(memory.choice)
    words = embed.detach()[rows].clone().requires_grad_()
    optimizer = torch.optim.Adam([words], lr=lr)
    for step in range(steps):
        rng = np.random.default_rng([seed, step])
        seeds = np.repeat(rng.integers(2**30, size=prompts), tries).tolist()
        streams = Streams.draw(memory.policy, notes, seeds)
        with torch.no_grad():
            draws = torch.Generator().manual_seed(int(rng.integers(2**62)))
            final, opened, seen = memory.run(streams, "learned", draws)
            right = memory.right(streams, final)
        reward = right - price * opened.mean(1)
        adv = (ops.group_zscore if divide else ops.group_center)(
            reward, torch.arange(prompts).repeat_interleave(tries)
        )
        logp = (seen @ words.T).log_softmax(2)  # (B, S, 2)
        chosen = torch.where(opened > 0, logp[..., 1], logp[..., 0])
        loss = -(adv[:, None] * chosen).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            embed[rows] = words
        told = streams.told.float()
        opens = {
            "opens_told": float((opened * told).sum() / told.sum()),
            "opens_else": float((opened * (1 - told)).sum() / (1 - told).sum()),
        }
        yield {"step": step + 1, "reward": float(reward.mean()), "success": float(right.mean()), **opens}
