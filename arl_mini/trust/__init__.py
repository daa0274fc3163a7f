"""What keeps agents from doing harm: running what a policy wrote without running a risk."""

from .cpython import Hardened, Unavailable, Unconfined, missing
from .sandbox import Limits, Outcome, Subset

__all__ = ["Hardened", "Limits", "Outcome", "Subset", "Unavailable", "Unconfined", "missing"]
