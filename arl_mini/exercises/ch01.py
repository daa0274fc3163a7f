"""Chapter 01: what is believed, what a step pays, what an action holds, what an advantage is."""

import math
import random
import re
from numbers import Real

import torch
from torch import Tensor

from .. import formal
from ..lab.check import Trial, same, show
from . import Exercise, Wrong, changed, numbers

# --- 01.1 -------------------------------------------------------------------------------------------------


def _distributions(rng: random.Random, *shape: int) -> Tensor:
    """Random rows that sum to one; about a third of the entries are 0."""
    weight = torch.tensor([rng.choice((0.0, rng.random(), rng.random())) for _ in range(math.prod(shape))])
    weight = weight.double().view(shape)
    weight[..., rng.randrange(shape[-1])] += 0.1  # no row is empty
    return weight / weight.sum(-1, keepdim=True)


def _bayes(P: Tensor, O: Tensor, belief: Tensor, action: int, seen: int) -> list[float]:
    """P(s' | what was seen): every way s → s' that could have happened, weighed one by one."""
    S = len(belief)
    ways = {(s, t): float(belief[s] * P[s, action, t] * O[action, t, seen]) for s in range(S) for t in range(S)}
    total = sum(ways.values())
    return [sum(w for (_, t), w in ways.items() if t == after) / total for after in range(S)] if total else []


def check_belief(trial: Trial) -> str:
    rng, tried = trial.rng, 0
    while tried < 60:
        S, A, Z = 2 + tried // 20, rng.randint(1, 3), rng.randint(2, 3)
        P, O = _distributions(rng, S, A, S), _distributions(rng, A, S, Z)
        belief, action, seen = _distributions(rng, S), rng.randrange(A), rng.randrange(Z)
        expected = _bayes(P, O, belief, action, seen)
        if not expected:
            continue
        tried += 1
        trial.begin(
            f"{S} states, belief {_short(belief)}, action {action}, observation {seen}; "
            f"P[:, {action}] = {_short(P[:, action])}, O[{action}, :, {seen}] = {_short(O[action, :, seen])}",
            _short(expected),
            "First move the belief with P, then weigh each new state by how likely it shows what was seen.",
        )
        came = trial.answer(P.clone(), O.clone(), belief.clone(), action, seen)
        found = numbers(trial, came, (S,))
        if not torch.allclose(found, torch.tensor(expected).double(), atol=1e-6):
            off = abs(float(found.sum()) - 1) > 1e-6
            trial.fail(_short(found), "A belief sums to one: divide by the sum." if off else "")
    return "60 random worlds of 2 to 4 states, against Bayes' rule way by way"


def _short(x) -> str:
    """Numbers with three digits."""
    x = torch.as_tensor(x)
    return str([_short(row) for row in x]).replace("'", "") if x.dim() > 1 else str([round(v, 3) for v in x.tolist()])


def belief_update(P, O, belief, action, observation):
    """P (S, A, S), O (A, S, Z), belief (S,) → (S,)"""
    weight = (belief @ P[:, action]) * O[action, :, observation]
    return weight / weight.sum()


# --- 01.2 -------------------------------------------------------------------------------------------------


def check_reward(trial: Trial) -> str:
    rng = trial.rng
    pays = {
        (False, False): "a step that does neither pays 0",
        (False, True): "progress alone pays r_sub",
        (True, False): "completion pays r_task",
        (True, True): "a step that completes pays r_task alone, so that r_sub cannot change what completing is worth",
    }
    for index in range(100):
        # Each case with r_sub above and below r_task, and with either of them 0 or negative.
        task, sub = (rng.choice((0.0, 1.0, round(rng.uniform(-2, 2), 2))) for _ in range(2))
        case = list(pays)[index % 4]
        expected = task if case[0] else sub if case[1] else 0.0
        trial.begin(f"reward(completes={case[0]}, progresses={case[1]}, r_task={task}, r_sub={sub})",
                    f"{expected}", f"{pays[case][0].upper()}{pays[case][1:]}.")  # fmt: skip
        came = trial.answer(*case, task, sub)
        if not isinstance(came, Real) or not same(float(came), expected):
            trial.fail(show(came))
    return "100 steps, all four cases, r_sub above and below r_task"


def reward(completes: bool, progresses: bool, r_task: float, r_sub: float) -> float:
    """What a step pays."""
    if completes:
        return r_task
    return r_sub if progresses else 0.0


# --- 01.3 -------------------------------------------------------------------------------------------------

VERBS = ("open", "find", "go", "take", "ask")
BAD = {
    "An action that is not closed is an error.": ("<act> open door", "so <act> open <act> find key </act>"),
    "An action without verb and without parts is an error.": ("<act> </act>", "<act></act>", "<act> go <act> </act> </act>"),
    "A closing tag that closes nothing is an error.": ("go north </act>", "</act>", "<act> go </act> </act>"),
    "A turn ends with its action: words behind it are an error.": ("<act> go </act> and then", "<act> a </act><act> b </act>"),
}  # fmt: skip


def _turn(rng: random.Random, depth: int) -> tuple[str, list[str]]:
    """A random action of at most so many levels as text, and its commands in the order of carrying out."""
    verb = " ".join((rng.choice(VERBS), *rng.sample("xyz", rng.randint(0, 2))))
    parts = [_turn(rng, depth - 1) for _ in range(rng.randint(0, 2) if depth else 0)]
    if parts and rng.random() < 0.3:
        verb = ""
    inside = " ".join(filter(None, (verb, *(text for text, _ in parts))))
    return f"<act> {inside} </act>", [c for _, inner in parts for c in inner] + [verb] * bool(verb)


def check_commands(trial: Trial) -> str:
    rng = trial.rng
    for index in range(80):
        text, expected = _turn(rng, index // 20)
        said = rng.choice(("", "I think so. ")) + text
        if index % 20 == 7:
            said, expected = "just words, no action", []
        trial.begin(f"commands({said!r})", show(expected),
                    "Parts come before the action that holds them; text in front of an action is no command.")  # fmt: skip
        came = trial.answer(said)
        if not isinstance(came, list) or not same(came, expected):
            trial.fail(show(came))
    for hint, texts in BAD.items():
        for said in texts:
            trial.begin(f"commands({said!r})", "a ValueError", hint)
            try:
                came = trial.answer(said)
            except ValueError:
                continue
            trial.fail(show(came))
    return f"80 turns of up to 4 levels and {sum(map(len, BAD.values()))} malformed ones"


def commands(said: str) -> list[str]:
    """The commands of a turn, parts before what holds them; ValueError for a malformed action."""
    return [leaf.command for leaf in formal.AgentAction.parse(said).primitives()]


def commands_by_regex(said):
    return [command.strip() for command in re.findall(r"<act>([^<]*)</act>", said)]


def commands_from_outside(said):
    formal.AgentAction.parse(said)
    return [piece.strip() for piece in re.split(r"</?act>", said.partition("<act>")[2]) if piece.strip()]


def commands_forgiving(said):
    missing = said.count("<act>") - said.count("</act>")
    return commands(said + " </act>" * missing)


# --- 01.4 -------------------------------------------------------------------------------------------------


def check_gae(trial: Trial) -> str:
    rng = trial.rng
    for index in range(80):
        T = 1 + index // 20
        rewards, values = ([round(rng.uniform(-2, 2), 2) for _ in range(T)] for _ in range(2))
        gamma, lam = (rng.choice((0.0, 1.0, round(rng.random(), 2))) for _ in range(2))
        ahead = [*values[1:], 0.0]
        deltas = [r + gamma * v_next - v for r, v, v_next in zip(rewards, values, ahead)]
        expected = [sum((gamma * lam) ** k * d for k, d in enumerate(deltas[t:])) for t in range(T)]
        hint = "With one step nothing follows: A = R − V, whatever γ and λ are."
        if T > 1:
            hint = "A_t = δ_t + γλ A_{t+1} with δ_t = r_t + γ V(s_{t+1}) − V(s_t), and V = 0 behind the end."
        trial.begin(f"gae({rewards}, {values}, gamma={gamma}, lam={lam})", _short(expected), hint)
        came = numbers(trial, trial.answer(list(rewards), list(values), gamma, lam), (T,))
        if not torch.allclose(came, torch.tensor(expected).double(), atol=1e-9):
            trial.fail(_short(came))
    return "80 episodes of 1 to 4 steps; those of one step gave R − V for every γ and λ"


def gae(rewards: list, values: list, gamma: float, lam: float) -> list:
    """Advantages of one finished episode."""
    advantages, ahead, after = [], 0.0, 0.0
    for r, v in zip(reversed(rewards), reversed(values)):
        ahead = r + gamma * after - v + gamma * lam * ahead
        advantages.insert(0, ahead)
        after = v
    return advantages


# --- 01.5 -------------------------------------------------------------------------------------------------


def _ahead(P: Tensor, R: Tensor, policy: Tensor, gamma: float, horizon: int, state: int) -> float:
    """V of one state: every action and every next state, one by one."""
    if horizon == 0:
        return 0.0
    after = [_ahead(P, R, policy, gamma, horizon - 1, s) for s in range(len(P))]
    ways = [float(R[state, a]) + gamma * sum(float(p) * v for p, v in zip(P[state, a], after)) for a in range(R.shape[1])]
    return sum(float(p) * way for p, way in zip(policy[state], ways))


def check_value(trial: Trial) -> str:
    rng = trial.rng
    for index in range(60):
        S, A, horizon = rng.randint(2, 3), rng.randint(1, 2), 1 + index // 15
        P, policy = _distributions(rng, S, A, S), _distributions(rng, S, A)
        R = torch.tensor([[round(rng.uniform(-1, 1), 1) for _ in range(A)] for _ in range(S)]).double()
        gamma = rng.choice((1.0, round(rng.uniform(0.5, 1), 2)))
        expected = [_ahead(P, R, policy, gamma, horizon, s) for s in range(S)]
        hint = "With one step to go V is the mean reward of the policy: no γ, no next state."
        if horizon > 1:
            hint = "V with h steps to go needs V with h − 1 steps to go, of every state, also of those done before."
        shown = f"value(P={_short(P)}, R={_short(R)}, policy={_short(policy)}, gamma={gamma}, horizon={horizon})"
        trial.begin(shown, _short(expected), hint)
        came = numbers(trial, trial.answer(P.clone(), R.clone(), policy.clone(), gamma, horizon), (S,))
        if not torch.allclose(came, torch.tensor(expected).double(), atol=1e-9):
            trial.fail(_short(came))
    return "60 random worlds with 1 to 4 steps to go"


def value(P, R, policy, gamma: float, horizon: int):
    """V (S,) with `horizon` steps to go; P (S, A, S), R (S, A), policy (S, A)."""
    V = torch.zeros(len(P)).double()
    for _ in range(horizon):
        V = (policy * (R + gamma * P @ V)).sum(1)
    return V


def value_in_place(P, R, policy, gamma, horizon):
    V = torch.zeros(len(P)).double()
    for _ in range(horizon):
        for s in range(len(V)):
            V[s] = (policy[s] * (R[s] + gamma * P[s] @ V)).sum()
    return V


# fmt: off
EXERCISES = (
    Exercise(
        "01.1", "belief_update(P, O, belief, action, observation) is the belief after acting and seeing.",
        check_belief, belief_update,
        (
            Wrong(changed(belief_update, "weight / weight.sum()", "weight"), "does not divide by the sum",
                  "sums to one"),
            Wrong(changed(belief_update, "(belief @ P[:, action])", "belief"), "forgets that the world moves",
                  "First move the belief"),
            Wrong(changed(belief_update, "(belief @ P[:, action]) * O[action, :, observation]",
                          "(belief * O[action, :, observation]) @ P[:, action]"),
                  "weighs the state before the action", "weigh each new state"),
            Wrong(changed(belief_update, "belief @ P[:, action]", "P[:, action] @ belief"),
                  "multiplies from the wrong side", "First move the belief"),
        ),
    ),
    Exercise(
        "01.2", "reward(completes, progresses, r_task, r_sub) is Eq. (9), completion before progress.",
        check_reward, reward,
        (
            Wrong(lambda c, p, task, sub: task * c + sub * p, "pays both", "A step that completes pays r_task alone"),
            Wrong(lambda c, p, task, sub: max(task * c, sub * p), "pays the larger of the two", "pays r_"),
            Wrong(lambda c, p, task, sub: sub if p else task if c else 0.0, "asks for progress first",
                  "A step that completes pays r_task alone"),
            Wrong(lambda c, p, task, sub: task if c else sub, "pays r_sub where there was no progress",
                  "A step that does neither pays 0"),
        ),
    ),
    Exercise(
        "01.3", "commands(said) lists what a turn carries out, parts first, and raises ValueError if malformed.",
        check_commands, commands,
        (
            Wrong(commands_by_regex, "sees the innermost action only", "Parts come before"),
            Wrong(commands_from_outside, "lists the outer action first", "Parts come before"),
            Wrong(commands_forgiving, "closes what was left open", "not closed is an error"),
        ),
    ),
    Exercise(
        "01.4", "gae(rewards, values, gamma, lam) gives R − V for one step, and the advantages of longer episodes.",
        check_gae, gae,
        (
            Wrong(changed(gae, "ahead, after = [], 0.0, 0.0", "ahead, after = [], 0.0, values[-1]"),
                  "expects more after the end", "With one step nothing follows"),
            Wrong(changed(gae, "gamma * lam * ahead", "lam * ahead"), "forgets γ between the steps", "δ_t"),
            Wrong(changed(gae, "advantages.insert(0, ahead)", "advantages.append(ahead)"),
                  "returns the last step first", "δ_t"),
            Wrong(changed(gae, " - v + ", " + "), "forgets V", "A = R − V"),
        ),
    ),
    Exercise(
        "01.5", "value(P, R, policy, gamma, horizon): V of a policy with so many steps to go, without its bug.",
        check_value, value,
        (
            Wrong(value_in_place, "looks ahead into values it has just overwritten", "no γ, no next state"),
            Wrong(changed(value, "range(horizon)", "range(horizon + 1)"), "takes one step too many", "no γ, no next state"),
            Wrong(changed(value, "gamma * P @ V", "P @ V"), "forgets γ", "h − 1 steps to go"),
            Wrong(changed(value, "(policy * (R + gamma * P @ V)).sum(1)", "(R + gamma * P @ V).amax(1)"),
                  "takes the best action instead of the policy's", "mean reward of the policy"),
        ),
    ),
)
