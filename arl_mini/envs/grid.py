"""Grid: a small maze on the MiniGrid engine, seen from inside; walk, pick a key, open a door."""

import collections
import os
import random
from dataclasses import replace

from .base import Env, Reply, act, malformed, parse_act, within

COMMANDS = ("left", "right", "forward", "pick", "toggle")  # MiniGrid's actions 0, 1, 2, 3 and 5
GOALS = {"goal": "go to goal", "key": "pick key", "door": "open door"}
STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))  # MiniGrid's directions 0 to 3: right, down, left, up


class Grid(Env):
    """A maze of `size` by `size` cells, walls around it included, that the policy sees from where it stands.

    The task: ` go to goal . front free left wall right free . goal ahead 2 right 1`, then such a view after each command:
    what is next to it on three sides, and the things in the 7 by 7 cells before it that no wall hides. Commands: `left`,
    `right`, `forward`, `pick`, `toggle`, as in MiniGrid. Kinds of task: `goal` (stand on it), `key` (pick it up), `door`
    (pick the key up, open the locked door with it). In a share `walled` of the tasks of the first two a wall with one gap
    parts the maze; `door` always has the wall, with the door in the gap. The command `plan` answers with the next four
    commands of a shortest way and costs `hint` of the reward; None: there is no such command. Reward 1 for success;
    info['spl'] is the length of the shortest way over that of the way taken.

    A sample: `<user> go to goal . front free left wall right free . goal ahead 1<bot><act> forward</act>` and the reward
    is 1.
    """

    words = (
        " go to pick open toggle left right forward plan front ahead free wall goal key door holding nothing . error no "
        "say act"
    )

    def __init__(
        self, size: int = 6, kinds: tuple[str, ...] = ("goal", "key", "door"), walled: float = 0.5,
        limit: int = 24, hint: float | None = None,
    ):  # fmt: skip
        if not 5 <= size <= 9:
            raise ValueError(f"size must be 5 to 9, got {size}")
        if not kinds or set(kinds) - set(GOALS):
            raise ValueError(f"kinds must be among {', '.join(GOALS)}, got {kinds}")
        if not 0 <= walled <= 1 or limit < 1:
            raise ValueError(f"expected a share walled in [0, 1] and limit ≥ 1, got {walled} and {limit}")
        self.size, self.kinds, self.walled, self.limit, self.hint = size, kinds, walled, limit, hint

    def reset(self, seed: int) -> str:
        rng = random.Random(f"grid {seed}")
        while True:
            self.kind = rng.choice(self.kinds)
            self.engine = _engine(self.size, self.kind, self.kind == "door" or rng.random() < self.walled, rng)
            way = self.way()
            if way and len(way) <= self.limit:
                break
        self.shortest, self.turns, self.plans = len(way), 0, 0
        return f" {GOALS[self.kind]} .{self._look()}"

    def _look(self) -> str:
        """What is beside the agent, then up to two things in view, nearest first. The agent stands at (3, 6) and looks up."""
        from minigrid.core.constants import IDX_TO_OBJECT

        image = self.engine.gen_obs()["image"]
        names = [[IDX_TO_OBJECT[int(image[x, y, 0])] for y in range(7)] for x in range(7)]
        beside = {"front": names[3][5], "left": names[2][6], "right": names[4][6]}
        text = "".join(f" {side} {_seen(name)}" for side, name in beside.items())
        things = sorted(
            (6 - y + abs(x - 3), names[x][y], 6 - y, x - 3)
            for x in range(7) for y in range(7) if names[x][y] in GOALS and (x, y) != (3, 6)
        )  # fmt: skip
        for _, name, ahead, right in things[:2]:
            side = f" {'right' if right > 0 else 'left'} {abs(right)}" if right else ""
            text += f" . {name}{f' ahead {ahead}' if ahead else ''}{side}"
        return text + (" . holding key" if self.engine.carrying else "")

    def step(self, said: str) -> Reply:
        self.turns += 1
        reply = within(self._act(parse_act(said)), self.turns, self.limit)
        if not reply.truncated:
            return reply
        return replace(reply, reward=-self._paid(), info={**reply.info, "spl": 0.0})

    def _paid(self) -> float:
        return (self.hint or 0.0) * self.plans

    def _act(self, words: list[str] | None) -> Reply:
        info = {"kind": self.kind, "plans": self.plans}
        match words:
            case None:
                return malformed("say act", **info)
            case ["plan"] if self.hint is not None:
                self.plans += 1
                return Reply("".join(f" {c}" for c in self.way()[:4]), info=info | {"plans": self.plans})
            case [command] if command in COMMANDS:
                before = self._state()
                self.engine.step(self.engine.actions([0, 1, 2, 3, 5][COMMANDS.index(command)]))
                if self._reached():
                    spl = self.shortest / max(self.shortest, self.turns - self.plans)
                    return Reply(reward=1.0 - self._paid(), done=True, info=info | {"success": True, "spl": spl})
                return Reply(self._look(), info=info | ({"illegal": True} if self._state() == before else {}))
            case _:
                return Reply(" no", info=info | {"illegal": True})

    def _state(self) -> tuple:
        return (*map(int, self.engine.agent_pos), int(self.engine.agent_dir), self.engine.carrying is not None)

    def _reached(self) -> bool:
        if self.kind == "key":
            return self.engine.carrying is not None
        if self.kind == "door":
            return self.engine.grid.get(*self.engine.door).is_open
        return tuple(map(int, self.engine.agent_pos)) == self.engine.goal

    def way(self) -> list[str]:
        """The commands of a shortest way from here; [] where there is none."""
        if self.kind == "goal":
            return self._walk(lambda here, _: here == self.engine.goal) or []
        take = [] if self.engine.carrying else self._walk(lambda _, front: front == self.engine.key)
        if take is None or self.kind == "key":
            return [] if take is None else [*take, "pick"]
        if self.engine.carrying:
            there = self._walk(lambda _, front: front == self.engine.door)
            return [] if there is None else [*there, "toggle"]
        beyond = self._walk(lambda _, front: front == self.engine.door, after=take)
        return [] if beyond is None else [*take, "pick", *beyond, "toggle"]

    def _walk(self, there, after: list[str] | None = None) -> list[str] | None:
        """Shortest turns and steps to where there(cell, cell in front) holds.

        after: from where these commands lead, with the key taken there and no longer in the way.
        """
        x, y, facing, _ = self._state()
        taken = None if after is None else self.engine.key
        for command in after or ():
            (x, y), facing = self._moved((x, y), facing, command, None)
        edge, seen = collections.deque([((x, y), facing, [])]), {(x, y, facing)}
        while edge:
            here, facing, way = edge.popleft()
            if there(here, self._front(here, facing)):
                return way
            for command in COMMANDS[:3]:
                cell, turned = self._moved(here, facing, command, taken)
                if (*cell, turned) not in seen:
                    seen.add((*cell, turned))
                    edge.append((cell, turned, [*way, command]))
        return None

    @staticmethod
    def _front(here: tuple[int, int], facing: int) -> tuple[int, int]:
        return here[0] + STEPS[facing][0], here[1] + STEPS[facing][1]

    def _moved(self, here, facing: int, command: str, taken) -> tuple[tuple[int, int], int]:
        if command != "forward":
            return here, (facing + (1 if command == "right" else -1)) % 4
        front = self._front(here, facing)
        thing = self.engine.grid.get(*front)
        return (front if thing is None or thing.can_overlap() or front == taken else here), facing

    def expert(self) -> str:
        """The next command of a shortest way."""
        return act((self.way() or ["left"])[0])

    def random(self, rng: random.Random) -> str:
        """Walks at random, picks and toggles now and then."""
        return act(rng.choices(COMMANDS, (2, 2, 5, 1, 1))[0])

    def render_chat(self) -> str:
        return (
            "You are in a small maze. Commands: left and right turn you, forward moves you one cell, pick takes what is in "
            "front of you, toggle opens a door in front of you (you need the key). Write one command at a time between tags, "
            "such as <act> forward </act>. What you see comes back between <obs> and </obs>."
        )


def _seen(name: str) -> str:
    return name if name in GOALS or name == "wall" else "free"


def _engine(size: int, kind: str, walled: bool, rng: random.Random):
    """A MiniGrid environment with this maze; attributes goal, key and door are the cells of the things, or None."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # MiniGrid's own import would greet on the screen
    try:
        import minigrid  # noqa: F401
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("Grid needs MiniGrid; hint: pip install 'arl-mini[worlds]'") from error
    from minigrid.core.grid import Grid as Cells
    from minigrid.core.mission import MissionSpace
    from minigrid.core.world_object import Door, Goal, Key, Wall
    from minigrid.minigrid_env import MiniGridEnv

    class Maze(MiniGridEnv):
        goal = key = door = None

        def _gen_grid(self, width, height):
            self.grid = Cells(width, height)
            self.grid.wall_rect(0, 0, width, height)
            free = [(x, y) for x in range(1, width - 1) for y in range(1, height - 1)]
            if walled:
                at, gap = rng.randrange(2, width - 2), rng.randrange(1, height - 1)
                for y in range(1, height - 1):
                    if y != gap or kind == "door":
                        self.grid.set(at, y, Door("yellow", is_locked=True) if y == gap else Wall())
                if kind == "door":
                    self.door = (at, gap)
                free = [cell for cell in free if cell[0] != at]
            near = [cell for cell in free if kind != "door" or cell[0] < at]
            self.agent_pos, self.agent_dir = rng.choice(near), rng.randrange(4)
            rest = [cell for cell in (near if kind == "door" else free) if cell != self.agent_pos]
            thing = rng.choice(rest)
            if kind == "goal":
                self.goal = thing
                self.grid.set(*thing, Goal())
            else:
                self.key = thing
                self.grid.set(*thing, Key("yellow"))

    engine = Maze(MissionSpace(lambda: ""), grid_size=size, max_steps=10**9)
    engine.reset(seed=0)
    return engine
