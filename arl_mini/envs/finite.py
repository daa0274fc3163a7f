"""Finite: any finite decision process as a text world, so that what is trained can be compared with what is exact."""

import random

from .base import Env, Reply, act, parse_act


class Finite(Env):
    """A finite MDP or POMDP (`arl_mini.formal`) that a policy walks by writing the names of actions.

    The task is the first observation, ` cue-up`; each action `<act> forward</act>` is answered by the next
    observation, ` corridor`. An MDP shows its state. The reward is that of the model at every step (not discounted). The
    episode is done in a terminal state or after `horizon` actions (`limit` where the model has none). Success
    means a total reward of at least `goal`; None: of the largest single reward of the model. A malformed turn changes
    nothing and costs the model's worst reward (or 0): saying nothing must not be a way out.

    A sample (`tmaze(2)`): `<user> cue-up<bot><act> forward</act><obs> corridor</obs><act> forward</act>
    <obs> junction</obs><act> up</act>` and the reward is 1.
    """

    def __init__(self, model, limit: int = 30, goal: float | None = None):
        mdp = getattr(model, "mdp", model)
        self.states, self.actions = mdp.states, mdp.actions
        self.P, self.R, self.start = mdp.P.tolist(), mdp.R.tolist(), mdp.start.tolist()
        self.terminal = mdp.terminal.tolist()
        self.names = getattr(model, "observations", mdp.states)
        self.shows = model.O.tolist() if model is not mdp else None  # [action][state][observation]
        self.shows_first = model.O_start.tolist() if model is not mdp else None
        self.limit = mdp.horizon or limit
        self.goal = max(map(max, self.R)) if goal is None else goal
        self.words = f" error say act {' '.join(self.actions)} {' '.join(self.names)}"

    def reset(self, seed: int) -> str:
        self.rng = random.Random(f"finite {seed}")
        self.state, self.turns, self.total = self._draw(self.start), 0, 0.0
        return self._look(self.shows_first)

    def _draw(self, weights: list[float]) -> int:
        return self.rng.choices(range(len(weights)), weights)[0]

    def _look(self, shows: list[list[float]] | None) -> str:
        """The name of what the present state shows."""
        seen = self.state if shows is None else self._draw(shows[self.state])
        return f" {self.names[seen]}"

    def step(self, said: str) -> Reply:
        words = parse_act(said)
        if words is None or len(words) != 1 or words[0] not in self.actions:
            self.turns += 1
            over = self.turns >= self.limit
            info = {"malformed": True, "success": False}
            return Reply(" error say act", min(0.0, *map(min, self.R)), truncated=over, info=info)
        action = self.actions.index(words[0])
        reward = self.R[self.state][action]
        self.state = self._draw(self.P[self.state][action])
        self.turns, self.total = self.turns + 1, self.total + reward
        done = self.terminal[self.state] or self.turns >= self.limit
        text = self._look(self.shows and self.shows[action])
        return Reply(text, reward, done, info={"success": done and self.total >= self.goal - 1e-9})

    def expert(self) -> str:
        """The best action for someone who sees the state, by backward induction on the total reward."""
        value = [0.0] * len(self.states)
        for _ in range(self.limit - self.turns):
            q = [
                [r + sum(p * v for p, v in zip(to, value)) for r, to in zip(self.R[s], self.P[s])]
                for s in range(len(self.states))
            ]
            value = [max(row) for row in q]
        return act(self.actions[q[self.state].index(max(q[self.state]))])

    def random(self, rng: random.Random) -> str:
        """Any action."""
        return act(rng.choice(self.actions))
