"""What a glance at the curve misses, in plain words."""

from __future__ import annotations

import math
from collections.abc import Sequence

WINDOW = 5  # updates that must agree, so that one odd update raises no alarm


def alarms(latest: Sequence[dict[str, float]]) -> list[str]:
    """Sentences about what is going wrong in `latest`, the numbers of the newest records, oldest first."""
    if not latest:
        return []
    found = [f"{name} is {latest[-1][name]}: the run is broken from here on"
             for name in ("loss", "grad_norm", "reward") if not math.isfinite(latest[-1].get(name, 0.0))]
    recent = latest[-WINDOW:]
    if len(recent) < WINDOW:
        return found
    signal = [numbers["signal_share"] for numbers in recent if "signal_share" in numbers]
    if len(signal) == WINDOW and (dead := 1 - sum(signal) / WINDOW) >= 0.8:
        found.append(f"{dead:.0%} of groups have no signal: the tasks are too easy or too hard")
    entropy = [numbers["entropy"] for numbers in recent if "entropy" in numbers]
    if len(entropy) == WINDOW and max(entropy) < 0.02:
        found.append(f"entropy fell to {entropy[-1]:.2g}: the policy has collapsed to one answer")
    return found
