"""Pictures and widgets from plain records; nothing here knows how training works."""

from . import style
from .budget import Budget, budget
from .check import check
from .curves import curves
from .live import Live, live
from .microscope import Microscope, microscope

__all__ = ["Budget", "Live", "Microscope", "budget", "check", "curves", "live", "microscope", "style"]
