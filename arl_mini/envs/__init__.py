"""Worlds. Each is a small text game with the contract of `base.Env`."""

from .base import Env, Reply, act, check_env, malformed, parse_act
from .bootcamp import Bootcamp
from .calc import Calc
from .chain import Chain
from .craft import Craft
from .errand import Errand
from .finite import Finite
from .glimpse import Glimpse
from .grid import Grid
from .long_calc import LongCalc
from .maze import Maze, Place
from .mixed import Mixed
from .notes import Notes
from .pyfunc import PyFunc
from .quest import Quest
from .robots import Robots
from .taste import Taste
from .waves import Waves
from .wiki import Wiki

__all__ = [
    "Env", "Reply", "act", "check_env", "malformed", "parse_act", "Bootcamp", "Calc", "Chain", "Craft", "Errand", "Finite", "Glimpse", "Grid", "LongCalc", "Maze", "Mixed", "Notes", "Place",
    "PyFunc", "Quest", "Robots",
    "Taste",     "Waves", "Wiki",
]  # fmt: skip
