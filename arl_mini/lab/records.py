"""Reading plain records: any object or mapping with numbers in it is one."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Mapping
from numbers import Real
from typing import Any


def fields(record: Any) -> dict[str, Any]:
    """The fields of a mapping, a dataclass, a named tuple or any object with attributes, by name."""
    if isinstance(record, Mapping):
        return dict(record)
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    if hasattr(record, "_asdict"):
        return record._asdict()
    if hasattr(record, "__dict__"):
        return dict(vars(record))
    raise TypeError(f"a record is a {type(record).__name__}, expected a mapping or an object with attributes "
                    "such as step, reward, success")


def number(value: Any) -> float | None:
    """`value` as a float if it is one number (also a scalar tensor or array), else None."""
    if isinstance(value, Real):
        return float(value)
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        return float(value.item())
    return None


def numbers(record: Any) -> dict[str, float]:
    """Every number of a record by name; a mapping of numbers inside gives "outer inner" (phase times)."""
    found = {}
    for name, value in fields(record).items():
        if isinstance(value, Mapping):
            found.update({f"{name} {key}": number(v) for key, v in value.items() if number(v) is not None})
        elif (single := number(value)) is not None:
            found[name] = single
    return found


def value(record: Any, name: str) -> float:
    """One number of a record; NaN where the field holds None.

    Raises KeyError naming the numbers there are, if the record has no such field.
    """
    found = fields(record)
    if name not in found and isinstance(getattr(type(record), name, None), property):
        found[name] = getattr(record, name)
    if name not in found:
        found = numbers(record)
    if name not in found:
        raise KeyError(f"records have no {name!r}; their numbers are: {', '.join(found) or 'none'}")
    single = number(found[name])
    if single is None and found[name] is not None:
        raise TypeError(f"{name!r} of a record is a {type(found[name]).__name__}, expected a number")
    return math.nan if single is None else single


def without_episodes(record: Any) -> Any:
    """A copy of `record` whose `episodes` are gone, so that a long run does not fill the memory."""
    if "episodes" not in fields(record):
        return record
    if isinstance(record, Mapping):
        return {**record, "episodes": ()}
    if dataclasses.is_dataclass(record):
        return dataclasses.replace(record, episodes=())
    if hasattr(record, "_replace"):
        return record._replace(episodes=())
    light = copy.copy(record)
    light.episodes = ()
    return light


def moving_mean(values: list[float], window: int) -> list[float]:
    """Mean of the last `window` values at each place, NaN left out; it never looks ahead."""
    if window <= 1:
        return list(values)
    means = []
    for end in range(1, len(values) + 1):
        seen = [v for v in values[max(0, end - window):end] if not math.isnan(v)]
        means.append(sum(seen) / len(seen) if seen else math.nan)
    return means
