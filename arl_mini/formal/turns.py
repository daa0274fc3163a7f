"""One world as a language model meets it: turns made of tokens.

Turn level: the policy chooses whole utterances; each is text, which leaves the world alone, or an action.
Token level: the policy chooses one token after the other. `token_level` and `turn_policy` carry worlds and
policies from one to the other; objective and gradient are the same.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from .mdp import FiniteMDP
from .pomdp import FinitePOMDP
from .text import ActionError, AgentAction

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Utterances:
    """Every turn of at most `length` tokens: it ends with a token of `ends`, or is cut at `length`.

    No utterance is the beginning of another, and every sequence of tokens begins with exactly one, so a
    policy over tokens is a policy over utterances and the probabilities of all utterances sum to 1.
    """

    vocabulary: tuple[str, ...]
    ends: Collection[str]
    length: int

    def __post_init__(self):
        if self.length < 1 or not set(self.ends) <= set(self.vocabulary):
            raise ValueError(
                f"expected length ≥ 1 and ends in {self.vocabulary}, got {self.length} and {self.ends}"
            )

    @cached_property
    def _both(self) -> tuple[tuple[Tokens, ...], tuple[Tokens, ...]]:
        prefixes, complete = [()], []
        for prefix in prefixes:  # grows while it is walked
            for token, word in enumerate(self.vocabulary):
                longer = (*prefix, token)
                over = word in self.ends or len(longer) == self.length
                (complete if over else prefixes).append(longer)
        return tuple(prefixes), tuple(complete)

    @property
    def prefixes(self) -> tuple[Tokens, ...]:
        """The K unfinished beginnings, the empty one first."""
        return self._both[0]

    @property
    def complete(self) -> tuple[Tokens, ...]:
        """The Y finished utterances."""
        return self._both[1]

    def tell(self, tokens: Tokens) -> str:
        """Tokens as text."""
        return " ".join(self.vocabulary[t] for t in tokens)


def commands_of(said: str, actions: Sequence[str]) -> tuple[int, ...]:
    """What an utterance carries out, in order, as the world's actions; () for text, malformed or unknown."""
    try:
        leaves = [leaf.command for leaf in AgentAction.parse(said).primitives()]
    except ActionError:
        return ()
    return tuple(map(actions.index, leaves)) if set(leaves) <= set(actions) else ()


def compose(mdp: FiniteMDP, actions: Sequence[int]) -> tuple[Tensor, Tensor]:
    """(a₁, …, a_k) as one action: P (S, S) of where all of them lead, R (S,) of what they pay together.

    Without discount inside, for it is one step of the policy. No action at all stays where it is and pays
    nothing.
    """
    P, R = torch.eye(len(mdp.states), dtype=torch.float64), torch.zeros(len(mdp.states), dtype=torch.float64)
    for a in actions:
        P, R = P @ mdp.P[:, a], R + P @ mdp.R[:, a]
    return P, R


def speak(
    pomdp: FinitePOMDP,
    utterances: Utterances,
    meaning: Callable[[str, Sequence[str]], tuple[int, ...]] = commands_of,
) -> FinitePOMDP:
    """The world at turn level: s_{t+1} ~ P(· | s_t, a_t) with a_t ∈ A_text ∪ A_action. Survey Eq. (7).

    meaning(said, actions): the world's actions that a turn carries out, () for text; what is seen then is
    what the last of them shows. Text takes a turn, pays nothing and leaves the state as it is; what is seen
    then is what that state shows at a start. It does change the history, and so what a policy may do next:
    the survey's "does not alter the state" holds for the world, not for the context.
    """
    world, said = pomdp.mdp, tuple(utterances.tell(y) for y in utterances.complete)
    if isinstance(world.gamma, Tensor):
        raise ValueError("speak needs one γ for the whole world, got a table")
    taken = [meaning(text, world.actions) for text in said]
    P, R = (torch.stack(column, 1) for column in zip(*(compose(world, t) for t in taken)))
    O = torch.stack([pomdp.O[t[-1]] if t else pomdp.O_start for t in taken])  # noqa: E741
    return FinitePOMDP(replace(world, P=P, R=R, actions=said), O, pomdp.O_start, pomdp.observations)


def token_level(turns: FiniteMDP, utterances: Utterances, per_token: bool = False) -> FiniteMDP:
    """The same world one token at a time: state s·K + k is turn state s with prefix k said.

    turns: actions are `utterances.complete`, horizon None (that of `history_mdp(speak(…))`: its states are
    then token histories). A token inside a turn pays nothing and is not discounted; the last token of a turn
    pays and moves.
    per_token: γ at every token instead, which makes long turns worth less: another objective.
    """
    if len(turns.actions) != len(utterances.complete) or turns.horizon is not None:
        raise ValueError(
            f"expected a world with {len(utterances.complete)} utterances as actions and no horizon, got "
            f"{len(turns.actions)} and horizon {turns.horizon}; hint: history_mdp(speak(world, utterances))"
        )
    S, K, V = len(turns.states), len(utterances.prefixes), len(utterances.vocabulary)
    P, R = torch.zeros(S, K, V, S, K, dtype=torch.float64), torch.zeros(S, K, V, dtype=torch.float64)
    gamma = torch.ones(S, K, V, dtype=torch.float64)  # inside a turn
    number = {tokens: k for k, tokens in enumerate(utterances.prefixes)}
    finished = {tokens: y for y, tokens in enumerate(utterances.complete)}
    s = torch.arange(S)
    for k, prefix in enumerate(utterances.prefixes):
        for v in range(V):
            longer = (*prefix, v)
            if longer in number:
                P[s, k, v, s, number[longer]] = 1
            else:
                y = finished[longer]
                P[:, k, v, :, 0], R[:, k, v] = turns.P[:, y], turns.R[:, y]
                gamma[:, k, v] = turns.discounts[:, y]
    over = turns.terminal
    P[over], gamma[over] = 0.0, 1.0
    P[over] = P[over] + torch.eye(S * K).double().view(S, K, 1, S, K)[over]
    start = torch.zeros(S, K, dtype=torch.float64)
    start[:, 0] = turns.start
    names = tuple(f"{state} | {utterances.tell(p)}" for state in turns.states for p in utterances.prefixes)
    n = S * K
    one = per_token or not isinstance(turns.gamma, Tensor) and turns.gamma == 1.0
    gamma = turns.gamma if one else gamma.view(n, V)
    return FiniteMDP(P.view(n, V, n), R.view(n, V), start.view(n), gamma, None, names, utterances.vocabulary)


def turn_policy(tokens: Tensor, utterances: Utterances) -> Tensor:
    """π(y | s) = Π_j π(y_j | s, y_<j): a token policy (S·K, V) as one over utterances (S, Y)."""
    K = len(utterances.prefixes)
    if tokens.shape[0] % K or tokens.shape[1] != len(utterances.vocabulary):
        raise ValueError(
            f"token policy has shape {tuple(tokens.shape)}, expected (S·{K}, {len(utterances.vocabulary)})"
        )
    table = tokens.view(-1, K, tokens.shape[1])
    number = {p: k for k, p in enumerate(utterances.prefixes)}
    columns = []
    for y in utterances.complete:
        steps = [table[:, number[y[:j]], token] for j, token in enumerate(y)]
        columns.append(torch.stack(steps).prod(0))
    return torch.stack(columns, 1)
