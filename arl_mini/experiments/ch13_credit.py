"""Chapter 13, measured without a network's training: signal and noise, credit against exact credit."""

from collections.abc import Sequence

import numpy as np
import torch

from .. import envs
from ..algorithms import GRPO, GiGPO
from ..algorithms.rerolls import measured, turn_starts
from ..batch import Batch, Episode, collate
from ..capabilities import credit
from ..capabilities.credit_exact import Truth, true_credit
from ..formal import (
    Estimator,
    FiniteMDP,
    Laboratory,
    estimators,
    objective,
    policy_gradient,
    tmaze,
    value_iteration,
)
from ..rollout import Limits, branch, rollout

EXPERIMENTS = {}
CELLS = 6
FIT = dict(tries=160, steps=80)  # the tries that step reward models learn from, and their updates


def limits(cells: int) -> Limits:
    """Room for a maze with so many cells: a word a turn and its tags."""
    return Limits(turn_tokens=6, turns=cells + 1, total=24 + 8 * cells)


# --- signal and noise -------------------------------------------------------------------------------------

WEIGHTS = {
    "the return": estimators.to_go,
    "return − V": estimators.minus_value,
    "exact advantage": estimators.gae(0.0),  # the world is deterministic: r + V(s') − V(s) is Q − V
}


def signal_to_noise(policy, cells: int) -> dict[str, float]:
    """|mean| / standard deviation of one episode's gradient at the first turn, by what weighs log π."""
    truth = true_credit(policy, tmaze(cells))
    pi = torch.cat([truth.chances, torch.full_like(truth.chances[:1], 1 / 3)])
    lab = Laboratory(truth.told.mdp, pi.log())
    first = [i for i, history in enumerate(truth.told.histories) if len(history) == 1]
    found = {}
    for name, weight in WEIGHTS.items():
        moments = lab.enumerate(Estimator(name, policy_gradient(weight), True, ""))
        mean, variance = (x.view(len(pi), -1)[first] for x in (moments.mean, moments.variance))
        found[name] = float((mean.square().sum() / variance.sum()).sqrt())
    return found


def updates_to(
    policy,
    cells: int,
    weight: str,
    seed: int,
    *,
    goal: float = 0.9,
    tries: int = 16,
    lr: float = 0.1,
    most: int = 1000,
) -> int:
    """Updates of REINFORCE on a table until the exact chance of success is `goal`; `most` if it never is.

    The table has a row for each history and starts as what the policy does. An update (Adam, as in `train`)
    has `tries` sampled episodes, each action weighed as `WEIGHTS` says. So corridors differ by their length
    alone: no row learns from another.
    """
    truth = true_credit(policy, tmaze(cells))
    mdp, draws = truth.told.mdp, torch.Generator().manual_seed(seed)
    logits = torch.cat([truth.chances, torch.full_like(truth.chances[:1], 1 / 3)]).log()
    logits = torch.nn.Parameter(logits)
    adam = torch.optim.Adam([logits], lr=lr)
    estimator = Estimator(weight, policy_gradient(WEIGHTS[weight]), True, "")
    for update in range(most):
        if (1 + float(objective(mdp, logits.detach().softmax(-1)))) / 2 >= goal:  # rewards are ±1
            return update
        lab = Laboratory(mdp, logits.detach())
        gradient = lab.estimate(estimator, lab.sample_paths(draws, tries)).mean(0)
        logits.grad = -gradient.view_as(logits)
        adam.step()
    return most


# --- credit by method -------------------------------------------------------------------------------------


def history(episode: Episode, turn: int) -> bytes:
    """All that was said and shown before a turn: no two states are confused."""
    return episode.tokens[: turn_starts(episode)[turn]].tobytes()


def each_turn(batch: Batch, adv: torch.Tensor) -> list[np.ndarray]:
    """Advantages (B, T) as one number a turn of each row."""
    return [adv[i, turn_starts(e)].numpy() for i, e in enumerate(batch.episodes)]


def third_turns(episode: Episode) -> np.ndarray:
    """Where every third turn begins: segments between a token and a try."""
    return turn_starts(episode)[::3]


class Forks:
    """The one thing of a sampler that re-rolls need."""

    def __init__(self, policy, env, seed: int, cut: Limits):
        self.how = policy, env, seed, cut

    def fork(self, episodes: Sequence[Episode], positions: Sequence[int], tries: int) -> list[Episode]:
        policy, env, seed, cut = self.how
        return branch(policy, env, episodes, positions, tries, seed=seed, limits=cut)


def by_rerolls(
    policy, env, tried: Sequence[Episode], steps, rolls: int, seed: int, cut: Limits
) -> list[np.ndarray]:
    """VinePPO's credit, one number a turn, not whitened: each step's gain in the mean reward of re-rolls."""
    valued = measured(Forks(policy, env, seed, cut), tried, steps, rolls)
    found = []
    for episode in valued:
        starts, turns = np.asarray(steps(episode)), turn_starts(episode)
        gain = np.diff(np.append(episode.values[starts], 0.0)) + np.add.reduceat(episode.rewards, starts)
        found.append(gain[np.searchsorted(starts, turns, side="right") - 1])
    return found


def learned(policy, env, seed: int, cut: Limits, tries: int, steps: int) -> dict[str, credit.StepRewardModel]:
    """Three step reward models of one policy: outcomes at every look, at the end alone, and re-rolls."""
    seeds = range(5_000_000 + 10_000 * seed, 5_000_000 + 10_000 * seed + tries)
    tried = rollout(policy, env, seeds, seed=seed, limits=cut)
    few = tried[: tries // 5]
    labels = {
        "SPA, every prefix": credit.outcome_labels(tried),
        "SPA, sum alone": credit.outcome_labels(tried, every=False),
        "AgentPRM": credit.reroll_labels(policy, env, few, 8, seed=seed, limits=cut)[0],
    }
    return {
        name: credit.fit(policy, data, steps=steps, rows=32, lr=2e-3, seed=seed)
        for name, data in labels.items()
    }


def uniform(episodes: Sequence[Episode], truth: Truth) -> list[np.ndarray]:
    """The return, less what was expected, in equal parts."""
    return [np.full(e.turns, (e.reward - truth.value(e)) / e.turns) for e in episodes]


def maze_credit(
    policy, seed: int, tasks: int = 4, tries: int = 8, fit: dict = FIT
) -> tuple[list[Episode], dict[str, list[np.ndarray]]]:
    """Tries of a T-maze, and what each method credits their turns with; the exact credit is among them."""
    world, cut = tmaze(CELLS), limits(CELLS)
    env, truth = envs.Finite(world), true_credit(policy, world)
    seeds = range(1_000_000 * (seed + 1), 1_000_000 * (seed + 1) + tasks)
    tried = [
        e
        for e in rollout(policy, env, seeds, tries, seed=seed, limits=cut)
        if not np.isnan(truth([e])[0]).any()
    ]
    batch = collate(tried)
    found = {
        "exact": truth(tried),
        "GRPO": each_turn(batch, GRPO().advantages(batch)),
        "equal parts": uniform(tried, truth),
        "GiGPO": each_turn(batch, GiGPO(state=history, gamma=1.0, fine=0.0).advantages(batch)),
        "peers' differences": credit.peer_credit(history)(tried),
        "re-rolls (VinePPO)": by_rerolls(policy, env, tried, turn_starts, 8, seed, cut),
        "re-rolls by three turns (SPO)": by_rerolls(policy, env, tried, third_turns, 8, seed, cut),
    }
    for name, model in learned(policy, env, seed, cut, **fit).items():
        found[name] = [2 * c for c in model(tried)]  # a chance of success to a reward of ±1
    return tried, found


def compared(found: dict[str, list[np.ndarray]]) -> dict[str, dict[str, float]]:
    """Of each method, all turns: correlation with the exact credit, and mean |credit − exact| in reward."""
    exact = np.concatenate(found["exact"])
    table = {}
    for name, rows in found.items():
        flat = np.concatenate(rows)
        scores = name in ("GRPO", "GiGPO")  # z-scores have no unit
        error = float("nan") if scores else float(np.abs(flat - exact).mean())
        table[name] = {"correlation": float(np.corrcoef(flat, exact)[0, 1]), "error": error}
    return table


def with_tries(policy, seed: int, tries: int, tasks: int = 8) -> dict[str, float]:
    """Correlation with the exact credit of what groups of so many tries give, and of "all to the last turn"."""
    world, cut = tmaze(CELLS), limits(CELLS)
    truth, first = true_credit(policy, world), 1_000_000 * (seed + 1)
    tried = rollout(policy, envs.Finite(world), range(first, first + tasks), tries, seed=seed, limits=cut)
    tried = [e for e in tried if not np.isnan(truth([e])[0]).any()]
    batch, exact = collate(tried), np.concatenate(truth(tried))
    kinds = {"GRPO": GRPO(), "GiGPO": GiGPO(state=history, gamma=1.0, fine=0.0)}
    flat = {name: np.concatenate(each_turn(batch, kind.advantages(batch))) for name, kind in kinds.items()}
    flat["peers' differences"] = np.concatenate(credit.peer_credit(history)(tried))
    flat["last turn alone"] = np.concatenate([np.append(np.zeros(e.turns - 1), e.reward) for e in tried])
    return {name: float(np.corrcoef(x, exact)[0, 1]) for name, x in flat.items()}


# --- a reward that can be farmed, exactly -----------------------------------------------------------------


def carry(gamma: float = 0.95) -> FiniteMDP:
    """Three rooms in a row, the key in the first, the door in the last; 1 for opening it with the key.

    States (room, place of the key: 0 to 2, or held). Actions west, east, take, drop, open; what cannot be
    done changes nothing.
    """
    states = [(room, key) for room in range(3) for key in (0, 1, 2, "held")]
    actions = ("west", "east", "take", "drop", "open")
    n = len(states)
    P, R = torch.zeros(n + 1, 5, n + 1), torch.zeros(n + 1, 5)
    P[n, :, n] = 1
    for s, (room, key) in enumerate(states):
        held = key == "held"
        after = {
            "west": (max(room - 1, 0), key), "east": (min(room + 1, 2), key),
            "take": (room, "held" if key == room else key), "drop": (room, room if held else key),
        }  # fmt: skip
        for a, action in enumerate(actions):
            opened = action == "open" and held and room == 2
            P[s, a, n if opened else states.index(after.get(action, (room, key)))] = 1
            R[s, a] = float(opened)
    start = torch.zeros(n + 1)
    start[states.index((1, 0))] = 1
    names = tuple(f"room {room}, key {key}" for room, key in states) + ("end",)
    return FiniteMDP(P, R, start, gamma, None, names, actions)


def held(mdp: FiniteMDP) -> torch.Tensor:
    """(S,) 1 in states in which the key is held."""
    return torch.tensor([float(name.endswith("held")) for name in mdp.states], dtype=torch.float64)


def best_way(mdp: FiniteMDP, steps: int = 10) -> list[str]:
    """The actions that the best policy of a deterministic world takes from its start, at most `steps`."""
    policy, s, way = value_iteration(mdp).policy, int(mdp.start.argmax()), []
    while not bool(mdp.terminal[s]) and len(way) < steps:
        a = int(policy[s].argmax())
        way.append(mdp.actions[a])
        s = int(mdp.P[s, a].argmax())
    return way
