"""The shipped checkpoints, and how each was made.

    python -m arl_mini.warmstarts                      lists them
    python -m arl_mini.warmstarts quest-novice         makes one anew, into data/checkpoints

A warm start knows the atoms, not the strategy: first clean demonstrations teach how the world works, then a few
updates on a poor habit leave the strategy for reinforcement learning to find. Each card holds the command, what the
policy can do, and how many of its groups give a signal. Every file of this folder adds its recipes, in a dict `RECIPES`.
"""

from importlib import import_module
from pkgutil import iter_modules

from .kinds import Recipe, Stage, make

__all__ = ["RECIPES", "Recipe", "Stage", "make"]

RECIPES: dict[str, Recipe] = {}
for file in sorted(module.name for module in iter_modules(__path__)):
    if file not in ("kinds", "__main__"):
        RECIPES |= import_module(f"{__name__}.{file}").RECIPES
