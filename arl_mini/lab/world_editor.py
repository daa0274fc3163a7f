"""A world of four states and two actions that a reader edits, and a policy that climbs in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import Any

from .stage import bundle, is_static
from .world_map import world_svg

LOOKS = "●■▲◆"
ANYWHERE = "any"
CSS = """<style>
.arl-world { max-width: 760px; color: var(--jp-ui-font-color1, inherit); }
.arl-world .arl-trouble { border-left: 4px solid #D55E00; padding: 2px 0 2px 12px; }
.arl-world :focus-visible { outline: 2px solid #3A95CC; outline-offset: 1px; }
</style>"""


@dataclass(frozen=True)
class Move:
    """What one action does in one state: with `chance` to state `to`, else to state `other`; pays `reward`."""

    to: int
    reward: float = 0.0
    chance: float = 1.0
    other: int = 3


@dataclass(frozen=True)
class World:
    """Four states, two actions, and what each state shows. Plain data: whoever solves it builds the tensors.

    moves: 8, those of state 0 first. looks: states of the same look cannot be told apart. begin: the state of
    the start, None: any state in which something can still happen. horizon: actions until the episode is cut.
    Raises ValueError for a wrong number of moves or looks, and for a chance outside [0, 1].
    """

    moves: tuple[Move, ...]
    looks: tuple[str, ...]
    begin: int | None = 0
    horizon: int = 4
    gamma: float = 1.0
    states: tuple[str, ...] = ("A", "B", "C", "D")
    actions: tuple[str, ...] = ("left", "right")

    def __post_init__(self):
        if len(self.moves) != 8 or len(self.looks) != 4:
            raise ValueError(f"expected 8 moves and 4 looks, got {len(self.moves)} and {len(self.looks)}")
        for number, move in enumerate(self.moves):
            if not 0 <= move.chance <= 1 or not {move.to, move.other} <= {0, 1, 2, 3}:
                raise ValueError(f"move {self.actions[number % 2]!r} in {self.states[number // 2]!r} is {move}, "
                                 "expected a chance in [0, 1] and states 0 to 3")

    @cached_property
    def P(self) -> list[list[list[float]]]:
        """P[s][a][s']: the chance that action a leads from s to s'."""
        table = [[[0.0] * 4, [0.0] * 4] for _ in range(4)]
        for number, move in enumerate(self.moves):
            row = table[number // 2][number % 2]
            row[move.to] += move.chance
            row[move.other] += 1 - move.chance
        return table

    @cached_property
    def R(self) -> list[list[float]]:
        """R[s][a]."""
        return [[move.reward for move in self.moves[2 * s : 2 * s + 2]] for s in range(4)]

    def over(self, s: int) -> bool:
        """Whether state s is an end: both actions stay there and pay nothing."""
        return all(self.P[s][a][s] == 1 and not self.R[s][a] for a in range(2))

    @cached_property
    def start(self) -> list[float]:
        """The chance of each first state."""
        first = [s for s in range(4) if not self.over(s)] or [0] if self.begin is None else [self.begin]
        return [1 / len(first) if s in first else 0.0 for s in range(4)]

    @property
    def rows(self) -> list[int]:
        """The row of a policy table that each state uses: states of one look share one."""
        return [self.row(s) for s in range(4)]

    def row(self, s: int) -> int:
        """The row of state s."""
        return list(dict.fromkeys(self.looks)).index(self.looks[s])

    def seen_as(self, looks: str) -> World:
        """The same world showing other things: `world.seen_as("●■▲◆")` tells all states apart."""
        return replace(self, looks=tuple(looks))


FORK = World(
    (Move(1, chance=0.8, other=2), Move(3, 0.2),
     Move(3, -1.0), Move(3, 1.0), Move(3, 1.0), Move(3, -1.0), Move(3), Move(3)),
    ("●", "■", "■", "◆"),
)  # fmt: skip


@dataclass(frozen=True)
class Solved:
    """What is known of a world and a policy table θ (a row a look, two logits), as plain numbers.

    objective: J of softmax(θ). policy, gradient: a row a look, two numbers. values: V of each state under the
    policy. best: name → J of the best policy of some kind.
    """

    objective: float
    policy: Sequence[Sequence[float]]
    gradient: Sequence[Sequence[float]]
    values: Sequence[float]
    best: Mapping[str, float]


Solve = Callable[[World, list[list[float]]], Solved]


class WorldEditor:
    """A world under edit. Made by `world_editor()`; see there.

    Attributes: world, theta (a row a look), solved (of the last world that could be solved), trouble (why the
    present one could not, or ""), widget (None where the page stands still).
    """

    def __init__(self, solve: Solve, world: World, static: bool):
        self._solve, self.trouble = solve, ""
        self.world, self.theta = world, _flat(world)
        self.solved = solve(world, self.theta)
        self.widget = None if static else self._controls()

    def change(self, **fields: Any) -> None:
        """Other `looks`, `moves`, `horizon`, `gamma` or `begin`; the policy starts anew where looks change."""
        self.world = replace(self.world, **fields)
        if "looks" in fields:
            self.theta = _flat(self.world)
        self._refresh()

    def climb(self, steps: int = 1, rate: float = 1.0) -> None:
        """θ ← θ + rate · ∇J, so many times."""
        for _ in range(steps):
            if self.trouble:
                break
            pairs = zip(self.theta, self.solved.gradient)
            self.theta = [[t + rate * g for t, g in zip(row, slope)] for row, slope in pairs]
            self._refresh(draw=False)
        self._draw()

    def forget(self) -> None:
        """Back to θ = 0, the policy that tosses a coin."""
        self.theta = _flat(self.world)
        self._refresh()

    def svg(self) -> str:
        """The picture of the world as it is."""
        return world_svg(self.world, self.solved)

    def _refresh(self, draw: bool = True) -> None:
        try:
            self.solved, self.trouble = self._solve(self.world, self.theta), ""
        except Exception as error:  # a callback has nowhere to raise: the reader must see it
            self.trouble = f"{type(error).__name__}: {error}"
        if draw:
            self._draw()

    def _draw(self) -> None:
        if self.widget is None:
            return
        trouble = f'<div class="arl-trouble" role="alert">{escape(self.trouble)}</div>'
        self._view.value = CSS + (trouble if self.trouble else self.svg())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        best = ", ".join(f"{name} {value:.3f}" for name, value in self.solved.best.items())
        plain = f"looks {' '.join(self.world.looks)}: J now {self.solved.objective:.3f}, {best}"
        return bundle(self.widget, {"image/svg+xml": self.svg(), "text/plain": plain})

    def _controls(self) -> Any:
        import ipywidgets as w

        self._view = w.HTML(CSS + self.svg())
        heads = ("in · does", "goes to", "with chance", "else to", "reward")
        cells = [w.HTML(f"<b>{words}</b>") for words in heads]
        for number in range(8):
            cells += self._move_row(number)
        grid = w.GridBox(cells, layout=w.Layout(
            grid_template_columns="84px 76px 96px 76px 84px", grid_gap="2px 8px", align_items="center"))
        buttons = [self._button("Climb 1", lambda: self.climb(1)), self._button("Climb 50", lambda: self.climb(50)),
                   self._button("Forget", self.forget)]
        side = w.VBox([w.HTML("<b>looks like</b>"), *map(self._look, range(4)), w.HTML("<b>episode</b>"),
                       *self._episode(), w.HTML("<b>policy</b>"), *buttons])
        root = w.VBox([self._view, w.HBox([grid, side], layout=w.Layout(flex_flow="row wrap"))])
        root.add_class("arl-world")
        self._view.add_class("arl-world-view")
        return root

    def _move_row(self, number: int) -> list[Any]:
        import ipywidgets as w

        move, full = self.world.moves[number], w.Layout(width="100%")
        name = f"{self.world.states[number // 2]} {self.world.actions[number % 2]}"
        places = [(state, index) for index, state in enumerate(self.world.states)]
        controls = {
            "to": self._cycle(places, move.to, lambda new: self._move(number, "to", new)),
            "chance": w.BoundedFloatText(move.chance, min=0, max=1, step=0.1, layout=full),
            "other": self._cycle(places, move.other, lambda new: self._move(number, "other", new)),
            "reward": w.FloatText(move.reward, step=0.1, layout=full),
        }
        for field, control in controls.items():
            control.tooltip = f"{name}: {field}"
            control.add_class(f"arl-world-{field}-{number}")
            if field in ("chance", "reward"):
                control.observe(lambda change, field=field: self._move(number, field, change["new"]), "value")
        return [w.Label(name.replace(" ", " · ")), *controls.values()]

    @staticmethod
    def _cycle(options: Sequence[tuple[str, Any]], value: Any, act: Callable[[Any], None]) -> Any:
        """A button that goes to the next option; a list would lose its keys to the notebook's shortcuts."""
        import ipywidgets as w

        at = [option for _, option in options].index(value)
        button = w.Button(description=options[at][0], layout=w.Layout(width="100%"))

        def turn(_: Any) -> None:
            nonlocal at
            at = (at + 1) % len(options)
            button.description = options[at][0]
            act(options[at][1])

        button.on_click(turn)
        return button

    def _move(self, number: int, field: str, value: Any) -> None:
        moves = list(self.world.moves)
        moves[number] = replace(moves[number], **{field: value})
        self.change(moves=tuple(moves))

    def _look(self, s: int) -> Any:
        name, looks = self.world.states[s], dict.fromkeys((*LOOKS, *self.world.looks))

        def show(look: str) -> None:
            self.change(looks=(*self.world.looks[:s], look, *self.world.looks[s + 1 :]))

        button = self._cycle([(f"{name} {look}", look) for look in looks], self.world.looks[s], show)
        button.tooltip, button.layout.width = f"what {name} shows", "150px"
        button.add_class(f"arl-world-look-{s}")
        return button

    def _episode(self) -> list[Any]:
        import ipywidgets as w

        wide = w.Layout(width="150px")
        places = [*((f"begins in {n}", i) for i, n in enumerate(self.world.states)), (f"begins in {ANYWHERE}", None)]
        begin = self._cycle(places, self.world.begin, lambda new: self.change(begin=new))
        begin.layout.width = "150px"
        begin.add_class("arl-world-begin")
        horizon = w.BoundedIntText(self.world.horizon, min=1, max=6, description="horizon", layout=wide)
        gamma = w.BoundedFloatText(self.world.gamma, min=0, max=1, step=0.05, description="γ", layout=wide)
        for control, field in ((horizon, "horizon"), (gamma, "gamma")):
            control.add_class(f"arl-world-{field}")
            control.observe(lambda change, field=field: self.change(**{field: change["new"]}), "value")
        return [begin, horizon, gamma]

    @staticmethod
    def _button(words: str, act: Callable[[], None]) -> Any:
        import ipywidgets as w

        button = w.Button(description=words, layout=w.Layout(width="150px"))
        button.add_class(f"arl-world-{words.lower().replace(' ', '-')}")
        button.on_click(lambda _: act())
        return button


def _flat(world: World) -> list[list[float]]:
    return [[0.0, 0.0] for _ in dict.fromkeys(world.looks)]


def world_editor(solve: Solve, world: World = FORK, static: bool | None = None) -> WorldEditor:
    """Edit a four-state world and see policy, value and gradient follow; show the result in a cell.

    Args:
        solve: solve(world, theta) → `Solved`; theta has a row of two logits for each look. Called at every
            change; what it raises is shown to the reader.
        world: where the reader begins; the default has a fork whose two ends look alike.
        static: no widget; by default where ARL_STATIC=1 or there is no Jupyter kernel.

    What `solve` raises for the first world is raised here.
    """
    return WorldEditor(solve, world, is_static() if static is None else static)
