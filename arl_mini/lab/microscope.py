"""Looking at episodes token by token: what was sampled, what was forced, and what an update makes of each."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any, Protocol

from .colouring import BY_NAME, COLOURINGS, full
from .episode_page import CSS, KEY, Columns, call_tokens, credit_table, episode_html, heading, legend
from .stage import bundle, is_static

# Who computes columns by default; found by name when asked for, so the lab knows nothing of algorithms.
DISSECT = __package__.rpartition(".")[0] + ".dissect"
COLUMNS = ("mask", "turn", "logp", "rewards")
HERE = Path(__file__)


class Study(Protocol):
    """Whoever computes the columns of tokens. The numbers of a row are nan where there is none.

    policies, algorithms: names to choose from, possibly none. columns(episodes, policy, algorithm) → name →
    rows; the names are those of `lab.colouring`, and "" stands for no policy, no algorithm. edited(episode,
    place, text, reward) → a copy; ValueError where that cannot be.
    """

    policies: Sequence[str]
    algorithms: Sequence[str]

    def columns(self, episodes: Sequence[Any], policy: str = "", algorithm: str = "") -> Columns: ...

    def edited(self, episode: Any, place: int, text: str | None = None,
               reward: float | None = None) -> Any: ...


class Given:
    """The study of episodes that nobody scores again: their own columns, and those of a batch."""

    policies = algorithms = ()

    def __init__(self, batch: Any = None):
        self._batch = batch

    def columns(self, episodes: Sequence[Any], policy: str = "", algorithm: str = "") -> Columns:
        """mask, log p and reward of the episodes; KL, entropy, value, advantage where the batch has them."""
        width = max(len(episode.mask) for episode in episodes)
        rows = {"mask": [[float(x) for x in e.mask] for e in episodes]}
        for name, field in (("logp", "logp"), ("reward", "rewards")):
            rows[name] = [_at_sampled(getattr(e, field), e.mask) for e in episodes]
        fields = {"value": "values", "advantage": "advantages", "entropy": "entropy"}
        found = {name: getattr(self._batch, field, None) for name, field in fields.items()}
        found["kl"] = _k3(self._batch)
        for name, column in found.items():
            if column is not None:
                rows[name] = [_at_sampled(row, e.mask) for row, e in zip(column.tolist(), episodes)]
        padded = ([row + [math.nan] * (width - len(row)) for row in column] for column in rows.values())
        return dict(zip(rows, padded))

    def edited(self, episode: Any, place: int, text: str | None = None, reward: float | None = None) -> Any:
        """Not possible: nothing would follow from it."""
        raise ValueError("nothing to see change here; hint: microscope(episodes, algorithms=[…])")


def _at_sampled(column: Sequence[float], mask: Sequence[float]) -> list[float]:
    return [float(x) if own and x is not None else math.nan for x, own in zip(column, mask)]


def _k3(batch: Any) -> Any:
    """k3 estimate of the KL of the policy that sampled to the reference, from the columns of a batch."""
    ref = getattr(batch, "ref_logp", None)
    return None if ref is None else (ref - batch.old_logp).expm1() - (ref - batch.old_logp)


class Microscope:
    """Episodes under the microscope; where the page stands still, the first few. Made by `microscope()`.

    Attributes: episodes (as edited), study, edits (how many), widget (None where the page stands still).
    """

    def __init__(self, episodes: Sequence[Any], first: int, study: Study, colour: str, static: bool):
        self._original, self.first, self.study = list(episodes), first, study
        self.episodes, self.edits = list(episodes), 0
        self.policy = study.policies[0] if study.policies else ""
        self.algorithm = study.algorithms[0] if study.algorithms else ""
        # All estimators at once: one that does not fit these episodes is an error of this call, not of a
        # later click.
        each = [study.columns(self.episodes, self.policy, name) for name in study.algorithms or ("",)]
        shown = each[0]
        if colour and colour not in shown:
            raise ValueError(f"no column {colour!r} to colour by; there are {', '.join(shown)}")
        self.colour = colour or ("advantage" if "advantage" in shown else "mask")
        self.widget = None if static else self._controls(shown)

    def html(self, index: int) -> str:
        """Episode `index` as HTML, without the style sheet."""
        return self._html(index, self.study.columns(self.episodes, self.policy, self.algorithm))

    def page(self) -> str:
        """The first episodes as one piece of HTML with style sheet and key, in the first colour."""
        columns = self.study.columns(self.episodes, self.policy, self.algorithm)
        shown = range(min(self.first, len(self.episodes)))
        names = self.study.algorithms
        credit = {name: self.study.columns(self.episodes, self.policy, name) for name in names}
        tables = [credit_table(self.episodes[i], _at(credit, i)) if credit else "" for i in shown]
        body = "".join(self._html(i, columns) + tables[i] for i in shown)
        plain, top = self.colour == "mask", self._top(columns)
        key = f'<div class="arl-plain">{KEY}</div>' if plain else KEY + legend(self.colour, top)
        under = f"<div><small>estimator: <b>{escape(self.algorithm)}</b></small></div>" if names else ""
        return f'<div class="arl-scope"><style>{CSS.read_text("utf-8")}</style>{key}{under}{body}</div>'

    def _html(self, index: int, columns: Columns) -> str:
        name = f"episode {index + 1} of {len(self.episodes)}"
        row = {k: rows[index] for k, rows in columns.items()}
        return episode_html(self.episodes[index], name, row, self.colour, self._top(columns))

    def _top(self, columns: Columns) -> float:
        return full(BY_NAME[self.colour].kind, columns[self.colour])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        plain = "\n".join(heading(e, f"episode {i + 1}") + "\n" + "".join(e.pieces)
                          for i, e in enumerate(self.episodes[:self.first]))
        return bundle(self.widget, {"text/html": self.page(), "text/plain": plain})

    # The widget, and what it asks for.

    def _controls(self, columns: Columns) -> Any:
        import ipywidgets as w

        self._rows = [self._row(index) for index in range(len(self.episodes))]
        view = self._packed(self.policy, self.algorithm, columns)
        self.view = _widget_class()(page=self._page(), view=view)
        self.view.on_msg(lambda _, content, buffers: self.answer(content))
        return w.VBox([self.view]).add_class("arl-scope")

    def answer(self, asked: Mapping[str, Any]) -> None:
        """Does what the widget asks: a "view", an "edit" (row, at, and text or reward) or "undo"."""
        try:
            if asked["ask"] == "edit":
                episode, place = self.episodes[asked["row"]], asked["at"]
                changed = self.study.edited(episode, place, asked.get("text"), asked.get("reward"))
                self.episodes[asked["row"]], self.edits = changed, self.edits + 1
                self._rows[asked["row"]] = self._row(asked["row"])
            elif asked["ask"] == "undo":
                self.episodes, self.edits = list(self._original), 0
                self._rows = [self._row(index) for index in range(len(self.episodes))]
            view = self._packed(asked["policy"], asked["algorithm"])
        except Exception as error:  # a callback has nowhere to raise: the reader must see it
            self.view.send({"trouble": f"{type(error).__name__}: {error}"})
            return
        if asked["ask"] == "view":
            self.view.send({"view": {k: v for k, v in view.items() if k not in ("data", "was")}},
                           [view["data"], view["was"]])
        else:
            with self.view.hold_sync():
                self.view.page, self.view.view = self._page(), view

    def _packed(self, policy: str, algorithm: str, columns: Columns | None = None) -> dict[str, Any]:
        """One view as the widget wants it: names, numbers as float32, and the numbers before the edits."""
        import numpy as np

        columns = dict(self.study.columns(self.episodes, policy, algorithm) if columns is None else columns)
        was = self.study.columns(self._original, policy, algorithm) if self.edits else {}
        if "share" in was:
            columns["moved"] = np.asarray(columns["share"]) - np.asarray(was["share"])
        names = [name for name in columns if name in BY_NAME]
        return {"policy": policy, "algorithm": algorithm, "edits": self.edits, "names": names,
                "tops": {name: full(BY_NAME[name].kind, columns[name]) for name in names},
                "data": _bytes(columns, names), "was": _bytes(was, [n for n in names if n in was])}

    def _row(self, index: int) -> dict[str, Any]:
        """Everything about an episode that is not a column."""
        episode, groups = self.episodes[index], [getattr(e, "group", None) for e in self._original]
        group, pieces, sampled = groups[index], list(episode.pieces), [bool(x) for x in episode.mask]
        task, tried = list(dict.fromkeys(groups)).index(group) + 1, groups[:index + 1].count(group)
        try_of = f"task {task}, try {tried} " if len(set(groups)) > 1 else ""
        mark, reward = ("✓" if getattr(episode, "success", None) else "✗"), sum(map(float, episode.rewards))
        return {"label": f"{index + 1} · {try_of}{mark} reward {reward:.3g}",
                "heading": heading(episode, f"episode {index + 1} of {len(groups)}"), "group": str(group),
                "first": index == 0 or group != groups[index - 1], "pieces": pieces,
                "mask": [int(x) for x in sampled], "turn": [int(x) for x in episode.turn],
                "rewards": [float(x) for x in episode.rewards], "calls": sorted(call_tokens(pieces, sampled))}

    def _page(self) -> dict[str, Any]:
        """All rows, and what there is to choose from."""
        width = max(len(row["pieces"]) for row in self._rows)
        return {"rows": list(self._rows), "width": width, "edits": self.edits,
                "colourings": [asdict(c) for c in COLOURINGS], "policies": list(self.study.policies),
                "algorithms": list(self.study.algorithms), "colour": self.colour, "policy": self.policy,
                "algorithm": self.algorithm, "editable": bool(self.study.algorithms or self.study.policies)}


def _at(views: Mapping[str, Columns], index: int) -> dict[str, dict[str, Sequence[float]]]:
    return {name: {k: rows[index] for k, rows in columns.items()} for name, columns in views.items()}


def _bytes(columns: Columns, names: Sequence[str]) -> bytes:
    import numpy as np

    return b"".join(np.asarray(columns[name], dtype=np.float32).tobytes() for name in names)


@functools.cache
def _widget_class() -> type:
    import anywidget
    import traitlets

    class MicroscopeView(anywidget.AnyWidget):
        _esm = HERE.with_name("microscope.js")
        _css = CSS.read_text("utf-8") + HERE.with_name("microscope_widget.css").read_text("utf-8")
        page = traitlets.Dict().tag(sync=True)
        view = traitlets.Dict().tag(sync=True)

    return MicroscopeView


def _check(episodes: Sequence[Any]) -> None:
    if not len(episodes):
        raise ValueError("microscope() got no episodes")
    for place, episode in enumerate(episodes):
        needed = ("pieces", *COLUMNS, "terminated", "truncated")
        missing = [name for name in needed if not hasattr(episode, name)]
        if missing:
            raise TypeError(f"episode {place} is a {type(episode).__name__} without {', '.join(missing)}")
        lengths = {name: len(getattr(episode, name)) for name in ("pieces", *COLUMNS)}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"episode {place}: expected one entry a token, got {lengths}")


def _study(policy: Any, ref: Any, critic: Any, algorithms: Any, batch: Any) -> Study:
    if policy is None and not algorithms:
        return Given(batch)
    dissect = importlib.import_module(DISSECT)
    policies = {} if policy is None else policy if isinstance(policy, Mapping) else {"policy": policy}
    named = algorithms if isinstance(algorithms, Mapping) else dissect.names(algorithms)
    return dissect.Dissection(policies, named, ref, critic)


def microscope(episodes: Any, first: int = 3, static: bool | None = None, *, policy: Any = None,
               ref: Any = None, critic: Any = None, algorithms: Any = (), colour: str = "",
               study: Study | None = None) -> Microscope:
    """Look at `episodes` token by token; show the result in a cell.

    `lab.microscope(episodes, algorithms=[Reinforce(), RLOO(), GRPO()])` lets a reader switch the estimator on
    the same episodes and edit a reward. `policy={"before": a, "after": b}` sets two policies side by side.

    Args:
        episodes: plain objects with, per token, `pieces` (text), `mask` (1 sampled, 0 forced), `turn` (−1 in
            the prompt), `logp` and `rewards`; `terminated`, `truncated`; if known, `success` and `group`.
            Or a batch with such `episodes`; without policy and algorithms its own columns are shown.
        first: how many a page that stands still shows.
        static: no widget; by default where ARL_STATIC=1 or there is no Jupyter kernel.
        policy: scores the tokens again: log p, entropy, ratio to who sampled. A dict names several.
        ref: the reference policy of KL terms; by default the policy that sampled.
        critic: value head of the (first) policy; by default V = 0.
        algorithms: list, or dict of names. Advantage, clip and gradient share come from their hooks and loss.
        colour: the column to begin with: "advantage", "share", "ratio", "kl", "entropy", "value", "logp" …
        study: computes the columns instead of `arl_mini.dissect`; see `Study`.

    Raises ValueError for no episodes, columns of unequal length, an unknown colour, or an algorithm that does
    not fit; TypeError for what is no episode.
    """
    batch = episodes if hasattr(episodes, "episodes") else None
    if batch is not None and not len(batch.episodes):
        raise ValueError("the batch has no episodes: the text of tokens is unknown; hint: collate(episodes)")
    episodes = episodes if batch is None else batch.episodes
    _check(episodes)
    study = _study(policy, ref, critic, algorithms, batch) if study is None else study
    return Microscope(episodes, first, study, colour, is_static() if static is None else static)
