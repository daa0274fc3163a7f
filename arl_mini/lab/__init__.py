"""Pictures and widgets from plain records; nothing here knows how training works."""

from . import style
from .budget import Budget, budget
from .charts import calibration, pass_at_k, phase_portrait, reward_against_kl
from .check import check
from .curves import curves
from .equation import EquationCard, equation
from .lens import Lens, lens
from .lineage import Lineage, lineage
from .live import Live, live
from .microscope import Microscope, microscope
from .world_editor import FORK, Move, Solved, World, WorldEditor, world_editor

__all__ = [
    "Budget", "EquationCard", "FORK", "Lens", "Lineage", "Live", "Microscope", "Move", "Solved", "World",
    "WorldEditor", "budget", "calibration", "check", "curves", "equation", "lens", "lineage", "live", "microscope",
    "pass_at_k", "phase_portrait", "reward_against_kl", "style", "world_editor",
]  # fmt: skip
