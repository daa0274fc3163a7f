# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 01 · From one reply to a decision process
#
# **What changes when a language model stops writing one reply and starts to act?** The survey answers with two tuples
# (§2): the *degenerate* decision process of preference-based fine-tuning, which ends after one action, and the *partially
# observed* process of an agent. This chapter checks every equation of that section, (1) to (11), in worlds so small that
# nothing has to be estimated: all episodes are enumerated, and values and gradients are exact.
#
# Each formula stands beside the code that computes it. You will edit a world yourself, compute what an agent believes, see
# what memory is worth, and train one policy. Reading time: 40 minutes.

# %%
import time
from dataclasses import replace

import matplotlib.pyplot as plt
import pandas as pd
import torch

import survey_taxonomy
from arl_mini import Reinforce, envs, experiments, formal, lab, models, ops, train

budget = lab.budget()
lab.style.use()

# %% [markdown]
# ## One reply as a decision process
#
# In PBRFT (preference-based reinforcement fine-tuning: RLHF, DPO and their kin) a prompt comes in, a reply goes out, one
# number judges it. Written as a decision process:

# %%
lab.equation("survey-1")

# %% [markdown]
# The pieces are small. The state space is the prompt, every reply leads to the end, and the reward is one number:

# %%
lab.equation("survey-3")

# %%
lab.equation("survey-6")

# %%
lab.equation("survey-8")

# %% [markdown]
# A real case: `Taste` asks for words on a topic, and people like some words better. With three words and replies of at most
# three tokens there are 40 possible replies. We write down the reward of every one.

# %% tags=["nbval-check-output"]
taste, said = envs.Taste(), formal.Utterances(("warm", "cold", "soft", "<end>"), ("<end>",), 3)
replies = [said.tell(tokens) for tokens in said.complete]
r = [[taste.utility(topic, reply) for reply in replies] for topic in envs.taste.TOPICS]
pbrft = formal.PBRFT.from_rewards(r, prompts=envs.taste.TOPICS, replies=replies)
print(f"{len(pbrft.prompts)} prompts, {len(replies)} replies, best for tea: {replies[int(pbrft.r[0].argmax())]!r}")

# %% [markdown]
# The objective is the expected reward, with no time in it (Eq. 10). The agentic objective sums discounted rewards over an
# episode (Eq. 11).

# %%
lab.equation("survey-10")

# %%
lab.equation("survey-11")

# %% [markdown]
# **Claim.** For PBRFT both are the same number and have the same gradient, whatever γ is, and the advantage is R − V,
# whatever λ is. So the T = 1 and γ = 1 of Eq. (1) cost nothing: nothing follows that could be discounted.

# %% tags=["nbval-check-output"]
theta = torch.randn(5, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
policy = formal.softmax_policy(theta)
J_trad = formal.bandit_objective(pbrft.r, policy[:4])
for gamma in (0.0, 0.5, 1.0):
    J_agent = formal.objective(replace(pbrft, gamma=gamma), policy)
    print(f"γ = {gamma}: J_agent {J_agent:.6f}, equal to J_trad: {abs(float(J_agent - J_trad)) < 1e-12}")
value = formal.exact_value(pbrft, policy)[0]
reward, mask = pbrft.r[0, 3].view(1, 1).float(), torch.ones(1, 1)
for lam in (0.0, 0.7, 1.0):
    assert torch.isclose(ops.gae(reward, value.view(1, 1).float(), mask, 0.9, lam), reward - value.float())

# %% [markdown]
# The policy gradient by hand. For a softmax table, moving the logit of a reply changes J by how often it is given, times how
# much better than average it is:

# %%
by_hand = 0.25 * policy[:4] * (pbrft.r - (policy[:4] * pbrft.r).sum(1, keepdim=True))  # 4 prompts, equally likely
assert torch.allclose(by_hand, formal.exact_gradient(pbrft, theta)[:4], atol=1e-14)
lab.equation("policy-gradient-theorem")

# %% [markdown]
# ## The agent's world
#
# An agent acts many times. Each action moves a state it may not see; it sees an observation.

# %%
lab.equation("survey-2")

# %%
lab.equation("survey-4")

# %% [markdown]
# The value of a state under a policy follows from the states after it. All exact numbers below come from this one line:

# %%
lab.equation("bellman")

# %% [markdown]
# ## Table 1 of the survey, live: one task as PBRFT and as agentic RL
#
# The Tiger (Kaelbling et al. 1998): a tiger sits behind one of two doors. Opening the other door pays 10, the tiger's door
# −100. Listening costs 1 and tells the right side in 85 % of cases. Five actions at most, γ = 0.95.
#
# As **PBRFT** the model must reply at once: a whole plan of five actions, judged by one number. Nothing comes back in
# between. As an **agent** it acts, hears, and acts again.

# %%
tiger = formal.tiger()
told = formal.history_mdp(tiger)  # the same world, its states are what the agent has seen and done
clock, times = formal.rows(told.histories, len)  # a plan can look at the clock only
plans = torch.cartesian_prod(*[torch.arange(3)] * len(times))
onehot = torch.nn.functional.one_hot(plans, 3).double()
r = torch.stack([formal.objective(told.mdp, plan[clock]) for plan in onehot])
as_pbrft = formal.PBRFT.from_rewards(r)
best = {name: float(mdp.start @ formal.value_iteration(mdp).values)
        for name, mdp in (("PBRFT", as_pbrft), ("agentic RL", told.mdp))}
best

# %%
pd.DataFrame(
    [
        ("states", len(as_pbrft.prompts), f"{len(tiger.mdp.states)}, hidden; {len(told.histories)} histories"),
        ("actions", f"{len(r)} whole replies", f"{len(tiger.mdp.actions)} a step"),
        ("transition", "every reply ends it", "P(s' | s, a)"),
        ("observed", "the prompt", ", ".join(tiger.observations)),
        ("reward", "one r(a) for the reply", "one R(s, a) each step"),
        ("horizon and γ", "T = 1, γ = 1", f"T = {tiger.mdp.horizon}, γ = {tiger.mdp.gamma}"),
        ("best objective", f"{best['PBRFT']:.3f}", f"{best['agentic RL']:.3f}"),
    ],
    columns=["", "PBRFT", "agentic RL"],
).set_index("")

# %% [markdown]
# The best reply is to listen five times and never open: −4.5. The same five steps, with what is heard coming back, are
# worth +3.3. No better optimiser would close that gap: it lies in the decision process.
#
# ## Partial observation costs, memory pays
#
# The survey writes the policy as a function of $o_t$. For the Tiger that is not enough: one growl is wrong in 15 % of
# cases, so an agent should count. What it has heard so far, summed up, is a *belief*: a distribution over hidden states.

# %%
lab.equation("belief-update")

# %% tags=["nbval-check-output"]
belief = formal.belief_start(tiger, tiger.observations.index("silence"))
for heard in ("hear-left", "hear-left", "hear-right", "hear-left"):
    by_hand = belief[:2] * torch.tensor([0.85, 0.15] if heard == "hear-left" else [0.15, 0.85])  # the tiger stays
    belief = formal.belief_update(tiger, belief, 0, tiger.observations.index(heard))
    assert torch.allclose(belief[:2], by_hand / by_hand.sum())
    print(f"{heard:10} P(tiger left) = {belief[0]:.4f}")

# %% [markdown]
# A growl on the other side cancels one on this side. So histories can be merged by belief, and nothing is lost.
#
# **Claims (exact):** merging leaves the optimum as it is to 1e-10, and the best policy that sees its history or belief is
# worth at least 1 more than the best one that sees $o_t$ alone.

# %%
rows = []
for horizon in range(1, 7):
    seen, merged = formal.history_mdp(tiger, horizon), formal.belief_mdp(tiger, horizon)
    look, _ = formal.rows(seen.histories, formal.last_observation)
    optimum = [float(m.mdp.start @ formal.value_iteration(m.mdp).values) for m in (seen, merged)]
    rows.append({"horizon": horizon, "last observation": formal.best_by_enumeration(seen.mdp, look)[0],
                 "history": optimum[0], "belief": optimum[1],
                 "histories": len(seen.histories), "beliefs": len(merged.histories)})
memory = pd.DataFrame(rows).set_index("horizon")
memory.round(3)

# %% tags=["nbval-check-output"]
same = bool((memory.history - memory.belief).abs().max() < 1e-10)
gap = float(memory.belief[5] - memory["last observation"][5])
print("history = belief:", same, f"\nmemory is worth {gap:.2f} at horizon 5:", "holds" if gap >= 1 else "FAILED")

# %%
_, ax = plt.subplots(layout="constrained")
for index, name in enumerate(("belief", "last observation")):
    ax.plot(memory.index, memory[name], marker="o", label=name, **lab.style.line(index))
ax.set(xlabel="actions at most", ylabel="best expected return")
ax.legend();

# %% [markdown]
# ## Edit a world
#
# Four states, two actions. `left` in A leads to B, or with 20 % to C; B and C pay opposite things. By default B and C look
# alike (■): the policy has one row for both. Change where actions lead, what they pay, what each state looks like, where
# and how long an episode runs. At the right you see $\pi$ by look, $\partial J / \partial \theta$, and four numbers:
# J now, the best fixed rule by look, the best with memory, and the best for someone who sees the state. *Climb* follows
# the exact gradient.
#
# The lab knows nothing of decision processes; it asks this function:

# %%
def solve(world, theta) -> lab.Solved:
    """Everything the editor shows, exactly."""
    mdp = formal.FiniteMDP(world.P, world.R, world.start, world.gamma, world.horizon, world.states, world.actions)
    pomdp, rows = formal.FinitePOMDP.seen(mdp, list(world.looks)), torch.tensor(world.rows)
    theta = torch.tensor(theta, dtype=torch.float64)
    policy = formal.softmax_policy(theta, rows)
    remembering = formal.belief_mdp(pomdp).mdp
    best = {"fixed by look": formal.best_by_enumeration(mdp, rows)[0]}
    for name, known in (("remembering", remembering), ("seeing all", mdp)):
        best[name] = float(known.start @ formal.value_iteration(known).values)
    J, gradient = formal.objective(mdp, policy), formal.exact_gradient(mdp, theta, rows)
    values = formal.exact_value(mdp, policy)
    return lab.Solved(float(J), formal.softmax_policy(theta).tolist(), gradient.tolist(), values.tolist(), best)


editor = lab.world_editor(solve)
editor.climb(50)
editor

# %% [markdown]
# Fifty steps uphill bring J from 0.10 to 0.57; memory does not help here, for A looks the same whichever way chance went,
# and then ■ is all there is to see. Now let A look like B instead. Memory helps at once: *the first step* is different.

# %%
alike = lab.world_editor(solve, lab.FORK.seen_as("●●▲◆"))
alike.climb(50)
alike

# %% [markdown]
# Something odd: J now (0.286) is above "fixed by look" (0.200). Where states cannot be told apart, tossing a coin can beat
# every fixed rule. That never happens when the state is seen.
#
# ## Text and actions
#
# An agent's action space is $A_{text} \cup A_{action}$. In this course an action stands between `<act>` and `</act>`, and
# it may hold others.

# %%
lab.equation("survey-5")

# %% tags=["nbval-check-output"]
turn = formal.AgentAction.parse("I need the key first. <act> open door <act> find key </act> </act>")
print("text:", turn.text, "\ncarried out:", [leaf.command for leaf in turn.primitives()])
for bad in ("<act> open door", "<act> </act>", "<act> go </act> and then"):
    try:
        formal.AgentAction.parse(bad)
    except formal.ActionError as error:
        print("refused:", error)

# %% [markdown]
# Text leaves the world as it is; an action moves it. The survey says that text "does not alter the state". True of the world,
# not of the context: what was written is in the history, and the next step may depend on it.

# %%
lab.equation("survey-7")

# %% [markdown]
# A language model chooses tokens, not turns. A turn's probability is the product over its tokens:

# %%
lab.equation("turn-policy")

# %% [markdown]
# **Claim (exact).** One world, told turn by turn and token by token: same objective, same gradient, to 1e-10. So nothing
# is lost by training on tokens, provided γ counts turns.

# %% tags=["nbval-check-output"]
small = formal.random_pomdp(torch.Generator().manual_seed(1), states=2, horizon=2)
speech = formal.Utterances(("a0", "a1", "hm", "<end>"), ("<end>",), 2)
spoken = formal.speak(small, speech, lambda text, actions: tuple(actions.index(w) for w in text.split() if w in actions))
turns = formal.history_mdp(spoken).mdp
tokens = formal.token_level(turns, speech)
theta = torch.randn(tokens.R.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).requires_grad_()
J = (formal.objective(tokens, theta.softmax(-1)),
     formal.objective(turns, formal.turn_policy(theta.softmax(-1), speech)))
by_token, by_turn = (torch.autograd.grad(j, theta)[0] for j in J)
print(f"{len(turns.states)} turn states, {len(tokens.states)} token states, {len(speech.complete)} utterances")
print("same objective:", torch.allclose(*J, rtol=0, atol=1e-10), " same gradient:", torch.allclose(by_token, by_turn, atol=1e-10))

# %% [markdown]
# ## What a step pays
#
# Eq. (9) pays for completion, for progress, or nothing. What does a step pay that does both? The survey leaves it open; the
# library pays $r_{task}$ alone unless told otherwise.

# %%
lab.equation("survey-9")

# %% [markdown]
# A sub-reward is meant to help. Does it change what is best? `walk` has a prize of 1 one step to the left and of 2 three
# steps to the right. We add two kinds of help. **Claim (exact):** a potential leaves the best policy as it is; a bonus for
# every step towards the right does not.

# %%
lab.equation("potential-shaping")

# %% tags=["nbval-check-output"]
world = formal.walk(near=1, far=3, gamma=0.9)
potential = torch.tensor([0.0, 0.5, 1.0, 0.0])  # nearer to the large prize is better; 0 at the end
progress = torch.zeros(4, 2, 4)
progress[0, 1, 1] = progress[1, 1, 2] = 1  # a step to the right
for name, changed in (("plain", world), ("potential", formal.shape(world, potential)),
                      ("bonus 1", formal.bonus(world, progress, 1.0))):
    solution = formal.value_iteration(changed)
    best = [changed.actions[a] for a in solution.policy[:3].argmax(1)]
    print(f"{name:10} best action from left to right: {', '.join(best)}")

# %% [markdown]
# With the bonus the best policy turns round in front of the prize: it walks back and forth and is paid each time it steps to
# the right. Nobody taught it to; that is what was asked for.
#
# ## γ decides what is worth waiting for
#
# From the start, left pays 1 after one step and right pays 2 after three: right is better iff $2\gamma^2 > 1$, that is
# $\gamma > \sqrt{1/2} \approx 0.707$.
#
# **Claims:** (1) exact: the best first action flips there; (2) a policy trained by Q-learning, which sees samples only,
# lands on the same side at γ = 0.6 and γ = 0.99.

# %%
lab.equation("q-learning")

# %%
gammas = torch.linspace(0.4, 1.0, 61, dtype=torch.float64)
start = int(formal.walk().start.argmax())
looking = torch.stack([
    formal.backup(w, formal.value_iteration(w).values)[start] for w in (formal.walk(gamma=float(g)) for g in gammas)
])
_, ax = plt.subplots(layout="constrained")
for index, name in enumerate(("left: 1, soon", "right: 2, later")):
    ax.plot(gammas, looking[:, index], label=name, **lab.style.line(index))
ax.axvline(0.5**0.5, color=lab.style.GREY, linewidth=1)
ax.set(xlabel="γ", ylabel="value of the first action")
ax.legend();

# %% tags=["nbval-check-output"]
flip = float(gammas[(looking[:, 1] > looking[:, 0]).nonzero()[0, 0]])
print(f"right is better from γ = {flip:.2f}; by hand {0.5**0.5:.3f}")
for gamma in (0.6, 0.99):
    learner = formal.q_learning(formal.walk(gamma=gamma), torch.Generator().manual_seed(0), explore=0.5)
    for _, Q in zip(range(300), learner):
        pass
    print(f"γ = {gamma}: Q-learning goes {('left', 'right')[int(Q[start].argmax())]} after 300 episodes")

# %% [markdown]
# ## A context is a choice of memory
#
# Now a network. In the T-maze a cue (`cue-up` or `cue-down`) shows at the start only; five cells later, at the junction, the
# policy must turn where the cue pointed. The right choice pays +1, anything else −1. Whoever sees the last observation alone stands
# at a junction that looks the same in both mazes. **Exactly:**

# %% tags=["nbval-check-output"]
maze = formal.tmaze(5)
looks = maze.O_start.argmax(1)  # (S,): what each state shows
without, rule = formal.best_by_enumeration(maze.mdp, looks)
remembering = formal.history_mdp(maze).mdp
whole = float(remembering.start @ formal.value_iteration(remembering).values)
for name, J in (("last observation", without), ("whole history", whole)):
    print(f"{name:16} best J {J:+.1f}, success {(J + 1) / 2:.2f}")

# %% [markdown]
# A transformer's context is its history, so it *can* do better than 0.5. Does it, from ±1 at the end alone? It must find
# out that a token five turns back matters. The start walks to the junction and turns there without a thought of the cue.
#
# The comparison: the same network, the same start and updates, in a maze whose cue looks like the corridor. That is what is
# left of the maze for a context that lost the cue. (A policy that is shown one observation at a time would need a fresh
# context each turn; its exact optimum, success 0.50, stands above, and no training can pass it.)
#
# **Claim, written before the recorded runs:** after 40 updates of REINFORCE success is at least 0.9 with the cue in the
# context and at most 0.6 without, in every seed.

# %%
novice = models.load("tmaze-novice")
settings = experiments.ch01.TMAZE | dict(steps=budget.pick(smoke=2, cpu=40, gpu=40))
run = train(novice, envs.Finite(maze), Reinforce(), seed=0, **settings)
live = lab.live(run, title="T-maze, cue in context", show=("success", "reward"))
live

# %%
records = await live.done()
lab.microscope(records[-1].episodes[:2])

# %%
tmaze = experiments.recorded("01_mdp_pomdp/tmaze")
print("made by:", tmaze.command)
lab.curves(tmaze.curves, y="success", smooth=3);

# %% tags=["nbval-check-output"]
outcomes = pd.DataFrame({"cue in context": tmaze.values("cue in context", "success"),
                         "cue lost": tmaze.values("cue lost", "success_without_cue")})
outcomes.index = [f"seed {o['seed']}" for o in tmaze.outcomes["cue lost"]]
print(outcomes.round(3).to_string())
held = bool((outcomes["cue in context"] >= 0.9).all() and (outcomes["cue lost"] <= 0.6).all())
print("claim (≥ 0.9 with the cue, ≤ 0.6 without, in every seed):", "holds" if held else "FAILED")

# %% [markdown]
# "The state of a language model" is a choice of what its context keeps. Chapter 09 comes back to it.
#
# ## The estimator laboratory
#
# Real training cannot enumerate: it samples, and every algorithm of this course is a way to estimate $\nabla J$. In a small
# world we know the exact gradient, so each estimator can be tried against it: does its mean hit (bias), and how far do its
# estimates scatter (variance)? Mean and variance are exact too: all groups of four episodes, weighted by probability.
#
# The world: an easy prompt and a hard one, seven replies of one or two tokens, reward 0 or 1.

# %%
said = formal.Utterances(("a", "b", "<end>"), ("<end>",), 2)
prompts = formal.PBRFT.from_rewards([[1, 1, 0, 1, 1, 1, 0], [0, 0, 1, 0, 0, 0, 0]], [0.4, 0.6])
bench_world = formal.token_level(prompts, said)
theta = torch.randn(bench_world.R.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
bench = formal.Laboratory(bench_world, theta)
names = ("REINFORCE", "constant baseline", "value baseline", "leave one out", "group mean", "GRPO z-score")
moments = {name: bench.enumerate(formal.estimator(name), group=4) for name in names}
table = pd.DataFrame({
    name: {"bias / ‖∇J‖": float(m.bias.norm() / m.exact.norm()),
           "cosine": float(torch.cosine_similarity(m.mean, m.exact, dim=0)), "variance": float(m.variance.sum()),
           "error after 1 group": m.error_after(1), "after 100": m.error_after(100), "after 10,000": m.error_after(10_000)}
    for name, m in moments.items()
}).T
table.round(3)

# %%
counts = (1, 4, 16, 64, 256, 1024)
figure, ax = plt.subplots(layout="constrained")
for index, name in enumerate(("REINFORCE", "leave one out", "group mean", "GRPO z-score")):
    curve = bench.error_curve(formal.estimator(name), torch.Generator().manual_seed(index), counts[:budget.pick(
        smoke=3, cpu=6, gpu=6)], group=4, repeats=20)
    ax.loglog(counts, [moments[name].error_after(n) for n in counts], label=name, **lab.style.line(index))
    ax.scatter([c["groups"] for c in curve], [c["measured"] for c in curve], s=14, color=lab.style.COLOURS[index])
ax.set(xlabel="groups of 4 episodes", ylabel="distance to the exact gradient")
ax.legend();

# %% tags=["nbval-check-output"]
bias = {name: float(m.bias.norm() / m.exact.norm()) for name, m in moments.items()}
for name in names:
    print(f"{name:18} relative bias {bias[name]:.3f}")
assert abs(bias["group mean"] - 1 / 4) < 1e-9 and max(bias[n] for n in names[:4]) < 1e-9

# %% [markdown]
# Lines are exact, dots were sampled. The unbiased ones fall as $1/\sqrt n$ for ever; a baseline moves the line down. The
# *group mean* stops at 25 % of the gradient: its baseline contains the action's own reward, so it shrinks the gradient by
# 1 − 1/4: a factor that the learning rate absorbs. GRPO's division by the standard deviation multiplies the gradient of
# each prompt by a number of its own. Here the two numbers are nearly the same, so the mean is 47 % too long but still points
# uphill (cosine 1.000). That is this world, not a law. Chapters 02 and 04 take both up.
#
# ## What breaks: a world that looks at the clock
#
# A group baseline compares tries of *the same task*. Suppose a world lets something slip in that is not in the seed: the
# wall clock, a global random number, a set's order. Nothing crashes. But two tries of one task are two different tasks,
# and a replayed episode does not replay.

# %%
class Clocked(envs.Finite):
    """A T-maze in which the cue depends on when one asks."""

    def reset(self, seed: int) -> str:
        return super().reset(seed + time.perf_counter_ns() // 1000)


try:
    envs.check_env(Clocked(maze))
    print("nothing found")
except AssertionError as broken:
    print("found:", type(broken).__name__)

# %% [markdown]
# `check_env` plays every task twice and compares. Written by hand it is one line:

# %%
def replays(world) -> bool:
    """Whether the same seeds give the same tasks."""
    return all(world.reset(seed) == world.reset(seed) for seed in range(20))


print("Finite replays:", replays(envs.Finite(maze)), "  Clocked replays:", replays(Clocked(maze)))

# %% [markdown]
# ## Where this stands
#
# - **RLHF** (Christiano et al. 2017; Ouyang et al. 2022) and **DPO** (Rafailov et al. 2023) are the left column of Table 1:
#   one prompt, one reply, one preference. Chapter 03.
# - **DeepSeek-R1** (Guo et al. 2025), o1 and o3 reason at length before they answer: long text, but one action for the
#   world, with a rule as r(a).
# - **ReAct** (Yao et al. 2022) made the right column practical: text and actions in one stream.
# - The **Tiger** and its beliefs are from Kaelbling, Littman and Cassandra (1998), the **T-maze** from Bakker (2002),
#   shaping from Ng, Harada and Russell (1999). Pignatelli et al. (2023) survey how credit is given over many steps.
#
# Where we read the survey in one of several ways: (2) omits T and the start distribution; a policy of a POMDP needs
# history or belief, not $o_t$ alone; text does change the context; 0 < γ < 1 would exclude the usual γ = 1; (9) does not say
# what a step pays that progresses and completes. Each card above says how the library reads it.
#
# Of the methods that the survey's §2 names, these are here or talked about:

# %%
named = survey_taxonomy.table("2").frame
named[named.here != ""].set_index("method")

# %% [markdown]
# **What does not transfer.** Exact beliefs and enumeration: a real agent knows neither P nor O, and its worlds have more
# histories than atoms. What does transfer is the bookkeeping: what is a state, what is seen, what is paid, what is
# discounted, and who chose which token.
#
# ## Exercises
#
# **01.1 Believe.** Write `belief_update(P, O, belief, action, observation)`: P (S, A, S), O (A, S, Z), belief (S,). What is
# believed after the action and the observation?

# %%
def belief_update(P, O, belief, action, observation):
    """The belief after acting and seeing, (S,)."""
    weight = (belief @ P[:, action]) * O[action, :, observation]
    return weight / weight.sum()


lab.check("01.1", belief_update)

# %% [markdown]
# **01.2 Pay.** Complete Eq. (9): write `reward(completes, progresses, r_task, r_sub)`. A step that does both pays r_task
# alone.

# %%
def reward(completes: bool, progresses: bool, r_task: float, r_sub: float) -> float:
    """What a step pays."""
    if completes:
        return r_task
    return r_sub if progresses else 0.0


lab.check("01.2", reward)

# %% [markdown]
# **01.3 Read.** Write `commands(said)`: the commands of a turn in the order they are carried out, parts before what holds
# them, and `ValueError` for an action that is empty, not closed, or followed by words. The library's parser is a fair
# solution; write your own.

# %%
def commands(said: str) -> list[str]:
    """The commands of a turn."""
    return [leaf.command for leaf in formal.AgentAction.parse(said).primitives()]


lab.check("01.3", commands)

# %% [markdown]
# **01.4 One step is R − V.** Write GAE for one finished episode, $A_t = \delta_t + \gamma\lambda A_{t+1}$ with
# $\delta_t = r_t + \gamma V(s_{t+1}) - V(s_t)$. The check tries episodes of one step first: there it must be R − V for
# every γ and λ, which is survey Eq. (14) to the letter.

# %%
def gae(rewards: list, values: list, gamma: float, lam: float) -> list:
    """Advantages, one a step."""
    advantages, ahead, after = [], 0.0, 0.0
    for r, v in zip(reversed(rewards), reversed(values)):
        ahead = r + gamma * after - v + gamma * lam * ahead
        advantages.insert(0, ahead)
        after = v
    return advantages


lab.check("01.4", gae)

# %% [markdown]
# **01.5 Find the bug.** A colleague saves memory: one vector V, written over state by state. With γ < 1 and many steps to go
# it gives the right values. With few it does not. Why? (The version below is mended; to see what the check says of the
# colleague's, put `for s in range(len(P)): V[s] = (policy[s] * (R[s] + gamma * P[s] @ V)).sum()` for the last line of the loop.)

# %%
def value(P, R, policy, gamma: float, horizon: int):
    """V (S,) with `horizon` steps to go; P (S, A, S), R (S, A), policy (S, A)."""
    V = torch.zeros(len(P)).double()
    for _ in range(horizon):
        V = (policy * (R + gamma * P @ V)).sum(1)
    return V


lab.check("01.5", value)

# %% [markdown]
# ## In short
#
# - PBRFT is a decision process with one step: γ, λ and bootstrapping change nothing there.
# - An agent's process is partially observed. What its context keeps decides what it can do: 0.50 or 1.00 in the T-maze.
# - Token level and turn level are the same problem if γ counts turns.
# - A potential cannot change what is best; a bonus can. γ can, too.
# - Estimators differ in bias and variance; in a small world both are known exactly.
#
# Next: [02 · Policy gradients](02_policy_gradients.ipynb) builds the estimators of this bench one by one.
#
# **References.** Zhang et al. 2025, arXiv 2509.02547, §2.1–2.6, Table 1. Kaelbling, Littman, Cassandra 1998, *Artificial
# Intelligence* 101. Bakker 2002, *NIPS* 14. Ng, Harada, Russell 1999, *ICML*. Sutton et al. 2000, *NIPS* 12. Watkins 1989,
# thesis, Cambridge. Pignatelli et al. 2023, arXiv 2312.01072. Christiano et al. 2017, arXiv 1706.03741. Ouyang et al. 2022,
# arXiv 2203.02155. Rafailov et al. 2023, arXiv 2305.18290. Guo et al. 2025, arXiv 2501.12948. Yao et al. 2022, arXiv
# 2210.03629.
