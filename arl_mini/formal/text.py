"""A_agent = A_text ∪ A_action: reading one turn of a language model as text and a (possibly nested) action.

    turn   := text | text action
    action := <act> verb arg … action … </act>

Text is free and changes nothing outside. An action acts on the world, or asks it something; it may hold
further actions, which are its parts: `<act> open <act> find key </act> </act>`; without a verb it is just
their sequence.
"""

import re
from dataclasses import dataclass

ACT, ACT_END = "<act>", "</act>"
PIECE = re.compile(rf"({re.escape(ACT)}|{re.escape(ACT_END)})")


class ActionError(ValueError):
    """A turn that opens an action but does not write it well. A world answers it with an observation."""


@dataclass(frozen=True)
class AgentAction:
    """One turn. text: what stands before the action; verb, args, parts: the action, all empty for text alone.

    Survey Eq. (5), which names the delimiters <action_start> and <action_end>; here they are <act> and
    </act>. The survey lets A_action be a tuple (a₁, …, a_k) of actions: those are `parts`.
    """

    text: str = ""
    verb: str = ""
    args: tuple[str, ...] = ()
    parts: tuple["AgentAction", ...] = ()

    @classmethod
    def parse(cls, said: str) -> "AgentAction":
        """Reads one turn. Survey Eq. (5).

        Raises ActionError, saying where, for an action that is empty or not closed, a closing tag without an
        action, and words after an action: a turn ends with the action it takes.
        """
        pieces = [p for p in PIECE.split(said) if p.strip()]
        text = "" if not pieces or pieces[0] in (ACT, ACT_END) else pieces.pop(0).strip()
        if not pieces:
            return cls(text)
        if pieces[0] == ACT_END:
            raise ActionError(f"{said!r}: {ACT_END} closes nothing; expected {ACT} before it")
        action, rest = _action(pieces[1:], said)
        if rest:
            raise ActionError(
                f"{said!r}: {' '.join(rest).strip()!r} stands after the action, where the turn ends"
            )
        return cls(text, action.verb, action.args, action.parts)

    @property
    def is_text(self) -> bool:
        """True in A_text: the turn changes the context and nothing else."""
        return not self.verb and not self.parts

    @property
    def command(self) -> str:
        """'verb arg …' of this action, without its parts."""
        return " ".join((self.verb, *self.args)).strip()

    def primitives(self) -> tuple["AgentAction", ...]:
        """The actions without parts, in the order of carrying out: parts before what holds them."""
        inner = tuple(leaf for part in self.parts for leaf in part.primitives())
        own = (AgentAction("", self.verb, self.args),) if self.verb else ()
        return inner + own

    def __str__(self) -> str:
        """The turn as it is written; `parse` reads it back."""
        if self.is_text:
            return self.text
        inside = " ".join(filter(None, (self.command, *map(str, self.parts))))
        return " ".join(filter(None, (self.text, f"{ACT} {inside} {ACT_END}")))


def _action(pieces: list[str], said: str) -> tuple[AgentAction, list[str]]:
    """Reads behind `<act>` up to its `</act>`; returns the action and what is left."""
    words, parts = [], []
    while pieces:
        piece, pieces = pieces[0], pieces[1:]
        if piece == ACT_END:
            if not words and not parts:
                raise ActionError(
                    f"{said!r}: {ACT} {ACT_END} holds no verb; expected {ACT} verb arg … {ACT_END}"
                )
            verb, *args = words or [""]
            return AgentAction("", verb, tuple(args), tuple(parts)), pieces
        if piece == ACT:
            part, pieces = _action(pieces, said)
            parts.append(part)
        elif parts:
            raise ActionError(f"{said!r}: {piece.strip()!r} follows a part; expected words before parts")
        else:
            words = piece.split()
    raise ActionError(f"{said!r}: {ACT} is not closed; expected {ACT_END} at the end of the action")
