"""What every algorithm changes, read from the classes themselves: which hooks and fields a class body has."""

import difflib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from .base import Algorithm

# Module → family, and the chapter that teaches it. A class from elsewhere is of its nearest ancestor's family.
ROOMS = {
    "policy_gradient": ("policy gradient", "02_policy_gradients"),
    "ppo": ("PPO", "02_policy_gradients"),
    "rerolls": ("PPO", "02_policy_gradients"),
    "dpo": ("DPO", "03_preferences"),
    "preference": ("DPO", "03_preferences"),
    "grpo": ("GRPO", "04_grpo"),
    "mixed": ("GRPO", "04_grpo"),
    "shaping": ("GRPO", "05_credit_and_sampling"),
    "credit": ("GRPO", "05_credit_and_sampling"),
    "sampling": ("GRPO", "05_credit_and_sampling"),
    "replay": ("GRPO", "05_credit_and_sampling"),
    "trees": ("GRPO", "05_credit_and_sampling"),
}
# What can be changed → the hooks and fields whose presence in a class body changes it.
KNOBS = {
    "sampler": ("plan", "explore", "after"),
    "pairs": ("pairs", "trim"),
    "reward": ("reward",),
    "filter": ("keep",),
    "advantage": ("advantages",),
    "critic": ("needs_critic",),
    "ratio level": ("ratio",),
    "clip": ("surrogate", "clip_low", "clip_high", "dual_clip"),
    "margin": ("margin", "worth", "penalty"),
    "reduction": ("reduce",),
    "KL": ("beta",),
    "loss": ("loss",),
}


@dataclass(frozen=True)
class Entry:
    """One algorithm: its class, the class it is the difference to, and what it changes of that."""

    cls: type[Algorithm]
    parent: type[Algorithm]
    family: str
    chapter: str  # "" where no chapter is known
    changes: tuple[str, ...]  # names of KNOBS; "extra loss" for a loss that calls its parent's; "buffer"
    paper: str  # arXiv number, or author and year

    @property
    def name(self) -> str:
        """The class name."""
        return self.cls.__name__


def entry(cls: type[Algorithm]) -> Entry:
    """What a class says of itself."""
    known = [ROOMS[m] for m in (c.__module__.rpartition(".")[2] for c in cls.__mro__) if m in ROOMS]
    family, chapter = known[0] if known else (cls.__name__, "")
    parent = next(c for c in cls.__mro__[1:] if issubclass(c, Algorithm))
    return Entry(cls, parent, family, chapter, tuple(_changes(cls)), _paper(cls))


def _changes(cls: type[Algorithm]) -> Iterator[str]:
    body = inspect.getsource(cls)
    for knob, names in KNOBS.items():
        if any(name in vars(cls) for name in names):
            yield "extra loss" if knob == "loss" and "super().loss(" in body else knob
    if ".memory" in body:
        yield "buffer"


def _paper(cls: type[Algorithm]) -> str:
    source = re.search(r"Source: (.*?)(?:\n    [A-Z]\w+ |$)", inspect.cleandoc(cls.__doc__ or ""), re.S)
    text = " ".join(source.group(1).split()) if source else ""
    number = re.search(r"arXiv (\d{4}\.\d{5})", text)
    return number.group(1) if number else text.partition(",")[0]


def entries() -> list[Entry]:
    """Every exported algorithm, in the order of `arl_mini.algorithms.__all__`."""
    from .. import algorithms

    named = (getattr(algorithms, name) for name in algorithms.__all__)
    return [entry(c) for c in named if inspect.isclass(c) and issubclass(c, Algorithm) and c is not Algorithm]


def formula(cls: type[Algorithm]) -> str:
    """The formula in a class's docstring: its second paragraph."""
    paragraphs = inspect.cleandoc(cls.__doc__ or "").split("\n\n")
    if len(paragraphs) < 2:
        raise ValueError(
            f"{cls.__name__} has no formula: its docstring needs one behind the first blank line"
        )
    return paragraphs[1]


@dataclass(frozen=True, repr=False)
class Comparison:
    """Two algorithms side by side, as text: formulas, fields, and the source lines that differ."""

    left: type[Algorithm]
    right: type[Algorithm]

    @property
    def settings(self) -> dict[str, tuple[object, object]]:
        """Fields whose defaults differ; None where a class lacks the field."""
        a, b = ({f.name: f.default for f in fields(c)} for c in (self.left, self.right))
        return {k: (a.get(k), b.get(k)) for k in {**a, **b} if a.get(k) != b.get(k)}

    @property
    def methods(self) -> dict[str, str]:
        """Name → unified diff, for each method that the two do not share."""
        names = [n for c in (self.left, self.right) for d in reversed(c.__mro__) if issubclass(d, Algorithm)
                 for n, x in vars(d).items() if inspect.isfunction(x) and not n.startswith("__")]  # fmt: skip
        pairs = {n: (getattr(self.left, n, None), getattr(self.right, n, None)) for n in names}
        return {n: _diff(*pair) for n, pair in pairs.items() if pair[0] is not pair[1]}

    def __repr__(self) -> str:
        parts = [f"{c.__name__}\n{_indented(formula(c))}" for c in (self.left, self.right)]
        if self.settings:
            parts.append(
                "fields\n" + _indented("\n".join(f"{k}: {a} → {b}" for k, (a, b) in self.settings.items()))
            )
        parts += [f"{name}\n{_indented(diff)}" for name, diff in self.methods.items()]
        return "\n\n".join(parts)


def compare(left: type[Algorithm], right: type[Algorithm]) -> Comparison:
    """How `right` differs from `left`: two formulas, fields with other defaults, source lines that differ."""
    return Comparison(left, right)


def _indented(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())


def _diff(left, right) -> str:
    """A unified diff of two functions' sources without docstrings; file and line of each in its head."""
    where, source = [], []
    for function in (left, right):
        if function is None:
            where.append("none")
            source.append([])
        else:
            lines, start = inspect.getsourcelines(function)
            where.append(f"{Path(inspect.getsourcefile(function)).name}:{start} {function.__qualname__}")
            source.append(inspect.cleandoc("\n" + _without_docstring("".join(lines), function)).splitlines())
    return "\n".join(difflib.unified_diff(*source, *where, lineterm="", n=9))


def _without_docstring(source: str, function) -> str:
    return re.sub(r'\n\s*""".*?"""', "", source, count=1, flags=re.S) if function.__doc__ else source
