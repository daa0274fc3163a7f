"""Looking ahead: what the policy would say next, and how it would go on, without touching the episode itself.

A `Row` is an episode under way with its world. Everything here works on copies of both, so it needs a world that can
be copied and stepped for nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..batch import Episode
from ..envs.base import Env, Reply, check_reply
from ..models.tokenizer import encode
from ..rollout import Limits, Row, Sampling, run


@dataclass(frozen=True)
class Candidate:
    """One turn that might be taken. logp: log-probability of all its tokens (nats), 0 where nobody sampled it."""

    said: str
    logp: float
    reply: Reply
    row: Row  # after the turn; its episode holds the observation, ready for the next one

    @property
    def over(self) -> bool:
        """Whether the episode ends here."""
        return self.row.episode.terminated or self.row.episode.truncated


class _OneTurn(Env):
    """A world that stops after one turn and keeps the reply to it."""

    def __init__(self, env: Env):
        self.env, self.reply = env, Reply(truncated=True)  # what stays where a limit cuts the turn itself

    def step(self, said: str) -> Reply:
        self.reply = check_reply(self.env.step(said), self.env, said)
        return replace(self.reply, truncated=True)


def propose(
    policy,
    rows: Sequence[Row],
    tries: int = 1,
    *,
    seed: int = 0,
    sampling: Sampling = Sampling(),
    limits: Limits = Limits(),
) -> list[list[Candidate]]:
    """`tries` next turns of each row, sampled in one batch; each is played in a copy of the row's world.

    Random numbers depend on (seed, place of the row, try). limits.turns and limits.total count the whole episode.
    """
    begun = [Row(_OneTurn(row.env.clone()), row.episode) for row in rows for _ in range(tries)]
    streams = [(seed, i, k) for i in range(len(rows)) for k in range(tries)]
    made = run(policy, begun, streams, sampling=sampling, limits=limits)
    flat = [_candidate(policy, b, e, limits) for b, e in zip(begun, made, strict=True)]
    return [flat[i : i + tries] for i in range(0, len(flat), tries)]


def _candidate(policy, begun: Row, made: Episode, limits: Limits) -> Candidate:
    """The candidate of a row that was run for one turn."""
    reply = begun.env.reply
    over = made.terminated or reply.done or reply.truncated or made.turns >= limits.turns or len(made) >= limits.total
    said, logp = made.said(made.turns - 1), float(made.logp[len(begun.episode) :].sum())
    episode = made if over else _answered(policy, made, said, reply)
    if not over and len(episode) >= limits.total:
        episode = replace(episode, truncated=True)
    return Candidate(said, logp, reply, Row(begun.env.env, episode))


def _answered(policy, episode: Episode, said: str, reply: Reply) -> Episode:
    """The episode, still open, with the world's reply forced behind its last turn."""
    whole = said.endswith(policy.format.stops)
    grown = _longer(episode, policy.format.observation(reply.text, whole), episode.turns - 1, mask=0)
    return replace(grown, terminated=False, truncated=False)


def _longer(episode: Episode, text: str, turn: int, mask: int) -> Episode:
    """The episode with a text behind it that nobody sampled: logp 0, and no reward yet."""
    ids = np.array(encode(episode.tokenizer, text), np.int64)
    zeros = np.zeros(len(ids), np.float32)
    more = {"tokens": ids, "mask": zeros + mask, "turn": np.full(len(ids), turn), "logp": zeros, "rewards": zeros}
    return replace(episode, **{name: np.concatenate([getattr(episode, name), part]) for name, part in more.items()})


def follow(policy, row: Row, said: str) -> Candidate:
    """The row after a turn that somebody else says; mask 1 and logp 0 on its tokens."""
    env, old = row.env.clone(), row.episode
    reply = check_reply(env.step(said), env, said)
    turn = old.turns if row.begun == len(old) else old.turns - 1
    grown = _longer(old, said, turn, mask=1)
    grown.rewards[-1] = reply.reward
    grown = replace(
        grown,
        infos=[*old.infos, reply.info],
        success=bool(reply.info.get("success", grown.reward > 0)),
        terminated=reply.done,
        truncated=reply.truncated and not reply.done,
    )
    over = reply.done or reply.truncated
    return Candidate(said, 0.0, reply, Row(env, grown if over else _answered(policy, grown, said, reply)))


def reroll(
    policy,
    rows: Sequence[Row],
    tries: int,
    *,
    seed: int = 0,
    sampling: Sampling = Sampling(),
    limits: Limits = Limits(),
) -> list[list[Episode]]:
    """`tries` ways in which each row may go on to its end, in one batch; a row that is over stays as it is."""
    open_rows = [i for i, row in enumerate(rows) if not (row.episode.terminated or row.episode.truncated)]
    copies = [
        Row(rows[i].env.clone(), replace(rows[i].episode, group=i)) for i in open_rows for _ in range(tries)
    ]
    streams = [(seed, i, k) for i in open_rows for k in range(tries)]
    made = run(policy, copies, streams, sampling=sampling, limits=limits) if copies else []
    by_row = {i: made[n * tries : (n + 1) * tries] for n, i in enumerate(open_rows)}
    return [by_row.get(i, [row.episode] * tries) for i, row in enumerate(rows)]


def worth(policy, rows: Sequence[Row], tries: int, **how) -> list[float]:
    """Monte-Carlo value of each row: mean reward still to come over `tries` re-rolls. how: as for `reroll`."""
    ends = reroll(policy, rows, tries, **how)
    return [float(np.mean([e.reward for e in es])) - row.episode.reward for es, row in zip(ends, rows, strict=True)]
