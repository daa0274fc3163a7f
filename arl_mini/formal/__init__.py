"""Section 2 of the survey, exactly: decision processes small enough to enumerate.

    world = tiger()                               # a POMDP
    told = history_mdp(world)                     # the same as an MDP over what was seen and done
    value_iteration(told.mdp).values              # the best that can be done
    exact_gradient(told.mdp, logits)              # ∇J of a softmax policy over histories

One idea carries the package: whatever a policy acts on (states, histories, beliefs, tokens) becomes the state
of a `FiniteMDP`, and then the same few functions give values, objective, gradient and optimum.
"""

from .contexts import last_observation, memory, rows, whole, window
from .equations import Equation, card, equation, orphans, registry
from .estimators import CATALOGUE, clipped, estimator, grpo, kl_value_moments, minus_value, policy_gradient
from .exact import (
    action_value,
    advantage,
    backup,
    bandit_objective,
    exact_gradient,
    exact_value,
    objective,
    occupancy,
    softmax_policy,
    theorem_gradient,
)  # fmt: skip
from .laboratory import Draws, Estimator, Laboratory, Moments
from .mdp import PBRFT, FiniteMDP, clock_rows, clocked
from .models import random_mdp, random_pomdp, tiger, tmaze, walk
from .paths import Paths, enumerate_paths, path_objective
from .pomdp import (
    FinitePOMDP,
    Unrolled,
    belief_mdp,
    belief_start,
    belief_update,
    history_mdp,
    joint_objective,
)
from .preferences import bradley_terry, dpo_loss, kl_optimum
from .rewards import Reward, bonus, expected, shape, with_reward
from .solve import Solution, best_by_enumeration, greedy, policy_iteration, q_learning, value_iteration
from .text import ActionError, AgentAction
from .turns import Utterances, commands_of, compose, speak, token_level, turn_policy

__all__ = [
    "ActionError", "AgentAction", "CATALOGUE", "Draws", "Equation", "Estimator", "FiniteMDP",
    "FinitePOMDP", "Laboratory", "Moments", "PBRFT", "Paths", "Reward", "Solution", "Unrolled",
    "Utterances", "action_value", "advantage", "backup", "bandit_objective", "belief_mdp", "belief_start",
    "belief_update", "best_by_enumeration", "bonus", "bradley_terry", "card", "clipped", "clock_rows",
    "clocked", "commands_of", "compose", "dpo_loss", "enumerate_paths", "equation", "estimator",
    "exact_gradient", "exact_value", "expected", "greedy", "grpo", "history_mdp", "joint_objective",
    "kl_optimum", "kl_value_moments", "last_observation", "memory", "minus_value", "objective",
    "occupancy", "orphans", "path_objective", "policy_gradient", "policy_iteration", "q_learning",
    "random_mdp", "random_pomdp", "registry", "rows", "shape", "softmax_policy", "speak",
    "theorem_gradient", "tiger", "tmaze", "token_level", "turn_policy", "value_iteration", "walk",
    "whole", "window", "with_reward",
]  # fmt: skip
