"""A gate with a price: before the work begins, the policy chooses how much to spend on it."""

from collections.abc import Callable, Sequence

from ..envs.base import Env, Reply, act, malformed, parse_act


class Gate(Env):
    """One turn: the task of another world is shown, and `<act> choose MODE</act>` says how it is to be worked on.

    outcome(seed, mode) → (reward, cost): what that mode earns on the task and what it spends; the policy is paid
    reward − price × cost. Who works, and whether it is looked up or run, is the caller's affair: usually a table
    of a frozen worker's outcomes, measured beforehand. best(seed) is the mode with the highest pay.
    """

    def __init__(
        self, env: Env, outcome: Callable[[int, str], tuple[float, float]], modes: Sequence[str], price: float
    ):
        if len(modes) < 2 or price < 0:
            raise ValueError(f"expected two modes or more and price ≥ 0, got {list(modes)} and {price}")
        self.env, self.outcome, self.modes, self.price = env, outcome, tuple(modes), price
        self.words = f"{env.words} choose {' '.join(modes)} error say act no"

    def __deepcopy__(self, memo) -> "Gate":
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))  # the other world is only asked for its task; the table is never changed
        twin.env = self.env.clone()
        return twin

    def reset(self, seed: int) -> str:
        self.seed = seed
        return self.env.reset(seed)

    def pay(self, mode: str) -> float:
        """What a mode pays on this task, its cost taken off."""
        reward, cost = self.outcome(self.seed, mode)
        return reward - self.price * cost

    def step(self, said: str) -> Reply:
        match parse_act(said):
            case ["choose", mode] if mode in self.modes:
                reward, cost = self.outcome(self.seed, mode)
                info = {"mode": mode, "cost": cost, "worked": reward, "success": self.pay(mode) >= self.pay(self.best())}
                return Reply(reward=self.pay(mode), done=True, info=info)
            case None:
                return malformed("say act")
            case _:
                return Reply(" no", info={"illegal": True})

    def best(self) -> str:
        """The mode that pays most on this task; of equals the first."""
        return max(self.modes, key=self.pay)

    def expert(self) -> str:
        """Chooses what pays most."""
        return act(f"choose {self.best()}")

    def random(self, rng) -> str:
        """Any mode."""
        return act(f"choose {rng.choice(self.modes)}")
