# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 13 · Long horizons and credit
#
# **An episode of fourteen turns ends with a 1. Which turn earned it?** Paying all turns alike works, slowly,
# and the longer the episode the slower. The survey (§3.7) names two ways out: rewards for the *process*
# beside the outcome, learned or given by rules (EPO, Think-RM, SPO, AgentPRM, RLVMR), and preferences between
# *segments* in place of whole episodes (SDPO). For long tool use it also names groups of turns (GiGPO) and
# reward redistribution (SPA-RL), in §3.2; both are about the same question and belong here.
#
# Chapter 05 compared GiGPO's credit with a sampled truth. Here the truth is exact: worlds are small enough to
# compute, for the policy as it is, what each turn was worth. So every method can be held against it, before
# we ask whether it trains better.

# %%
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import survey_taxonomy
from arl_mini import GRPO, collate, envs, evaluate, experiments, lab, models, rollout, train
from arl_mini.algorithms import GiGPO
from arl_mini.capabilities.credit import Paid, StepCredit, peer_credit
from arl_mini.capabilities.credit_advice import Advised, StrategyGRPO
from arl_mini.capabilities.credit_exact import true_credit, words_before
from arl_mini.capabilities.credit_pairs import segment_pairs
from arl_mini.experiments import ch13, ch13_credit
from arl_mini.experiments.ch05 import room_and_key
from arl_mini.formal import bonus, shape, tmaze
from arl_mini.lab.credit_map import credit_map

budget = lab.budget()
lab.style.use()
SEEDS = budget.pick(smoke=(10,), cpu=(10, 11, 12), gpu=(10, 11, 12, 13, 14))

# %% [markdown]
# Recorded experiments lie in `data/runs/13_long_horizon_credit`. To record some of them anew, name them in
# `again`. To train one arm of one here and now, name both in `now`.

# %%
again = ()  # such as ("rules", "quest")
now = ()  # such as (("rules", "RLVMR"), ("segments", "one turn"), ("quest", "AgentPRM"))
for name in again:
    print(*experiments.record(f"{ch13.NAME}/{name}"), sep="\n")
for name, arm in now:
    experiment = experiments.EXPERIMENTS[f"{ch13.NAME}/{name}"]
    policy = models.load(experiment.start)
    print(*experiment.arms[arm](policy, 0), experiment.measure(policy), sep="\n")


# %%
def by_seed(name: str, number: str) -> pd.DataFrame:
    """What was measured after training: a row a seed, a column an arm."""
    found = experiments.recorded(f"{ch13.NAME}/{name}")
    return pd.DataFrame({arm: found.values(arm, number) for arm in found.outcomes}, index=seeds_of(found))


def last_updates(name: str, number: str, most: int = 6) -> pd.DataFrame:
    """The mean of a number over the last updates: a row a seed, a column an arm."""
    found = experiments.recorded(f"{ch13.NAME}/{name}")
    means = {arm: [np.mean([r[number] for r in run[-most:]]) for run in runs]
             for arm, runs in found.curves.items()}  # fmt: skip
    return pd.DataFrame(means, index=seeds_of(found))


def seeds_of(found) -> list[str]:
    """Names for the rows."""
    return [f"seed {outcome['seed']}" for outcome in next(iter(found.outcomes.values()))]


def claim(words: str, held) -> None:
    """The verdict on a claim; `held` may have one entry a seed."""
    print("holds " if np.all(held) else "FAILED", "·", words)

# %% [markdown]
# ## The problem
#
# In the T-maze of chapter 01 a cue is shown in the first cell; at the end of a corridor of $n$ cells the turn
# that it names pays 1, anything else −1. The start, `maze-novice`, walks to the junction of mazes of any
# length and turns there without regard to the cue. Its first step forward is right, and what does it hear of
# that? A return that was decided $n$ steps later.
#
# Policy gradient weighs $\nabla \log \pi$ of a turn with an estimate of what the turn was worth. Take three:
# the **return** that followed, the return less the **value** $V$ of the state, and the **exact advantage**
# $Q-V$. All three have the same mean (chapter 02). They differ in noise. The worlds have few enough histories
# to enumerate all episodes of this very language model, so mean and variance of its gradient at the first
# turn are exact.
#
# **Claim** (no seeds, all enumerated): with the return, signal over noise falls from 3 to 6 to 12 cells; with
# the exact advantage it stays the same within 1 %.

# %% tags=["nbval-check-output"]
walker = models.load("maze-novice")
ratio = pd.DataFrame({f"{n} cells": ch13_credit.signal_to_noise(walker, n) for n in (3, 6, 12)})
print(ratio.round(3).to_string())
falls = np.diff(ratio.loc["the return"]) < 0
exact = ratio.loc["exact advantage"]
same = exact.max() / exact.min() < 1.01
claim("falls with the return, stays with the exact advantage", falls.all() and same)

# %% [markdown]
# What does that cost? First without a network: a table with a row for each history, started as what the
# novice does, trained by REINFORCE with Adam on four episodes an update. In a table no cell learns from
# another, so corridors differ by their length alone. We count updates until the exact chance of success is
# 0.9. **Claims**: (1) with the return, the mean count rises from 3 to 6 to 12 cells; (2) with 12 cells, exact
# advantages need fewer updates, in every seed.

# %%
few = budget.pick(smoke=(10,), cpu=(10, 11, 12, 13, 14), gpu=(10, 11, 12, 13, 14))
cells = budget.pick(smoke=(3, 6), cpu=(3, 6, 12), gpu=(3, 6, 12))
counts = {(weight, f"{n} cells"): [ch13_credit.updates_to(walker, n, weight, seed, tries=4) for seed in few]
          for weight in ("the return", "exact advantage") for n in cells}  # fmt: skip
counts = pd.DataFrame(counts, index=few)
print(counts.to_string())
claim("1: rises with the corridor", np.diff(counts["the return"].mean()) > 0)
last = f"{cells[-1]} cells"
fewer = counts["exact advantage"][last] < counts["the return"][last]
claim(f"2: fewer with exact advantages, {last}", fewer)

# %% [markdown]
# The corridor costs: 16 updates for 3 cells, 34 for 12 with the return, 27 with exact advantages, on average.
# In two of five seeds the return was as fast, so (2) failed: noise hurts on average, not in every run. And
# most of the way from 16 to 27 is no matter of credit at all: a policy that slips once in 25 steps must learn
# not to slip in twelve cells in place of three.
#
# (The network itself can be seen on its way to 0.9: `list(ch13.CORRIDORS["3 cells"](walker.copy(), 0))`, or
# `"6 cells"`, `"12 cells"`. There cells learn from each other; no claim rests on them.)
#
# ## What a turn is worth
#
# The exact credit of turn $k$ is $A_k = Q(h_k, a_k) - V(h_k)$, $h_k$ being all that was seen and done before.
# In a world without chance, $Q(h_k, a_k) = r_k + V(h_{k+1})$: a turn earns what the expected return *rises*
# by. Then credit telescopes,
#
# $$\sum_k A_k = R - V(h_0),$$
#
# so it is a way to share out the return, less what was expected before the first turn. All methods below
# either estimate $V$ and take differences, or do something simpler. By hand, from the table of exact values:

# %%
world = tmaze(ch13_credit.CELLS)
truth = true_credit(walker, world)
tries = rollout(walker, envs.Finite(world), range(4), 4, limits=ch13_credit.limits(ch13_credit.CELLS))
for episode, credits in zip(tries, truth(tries)):
    values = [truth.values[truth.place[words_before(episode, k)]] for k in range(episode.turns)]
    by_hand = np.diff([*values, 0.0]) + np.array([0.0] * (episode.turns - 1) + [episode.reward])
    assert np.allclose(by_hand, credits) and np.isclose(credits.sum(), episode.reward - values[0])
print("a try that won: ", truth([next(e for e in tries if e.success)])[0].round(2))
print("a try that lost:", truth([next(e for e in tries if not e.success)])[0].round(2))

# %% [markdown]
# Steps down the corridor earn next to nothing, the turn at the junction earns or costs all, and a walk into a
# wall costs what was still to be hoped for. Now the methods. One credit map, for one try; sky is credit,
# vermillion is blame, every row on its own scale.
#
# - **GRPO**: one number a try. **Equal parts**: $R - V(h_0)$ over the number of turns.
# - **GiGPO**: adds the comparison of turns from the same state, by the whole return that followed.
# - **Peers' differences**: the same groups used as a table of values: $\hat V(h)$ is the mean return of the
#   tries of the task that came through $h$, and a turn earns $\hat V(h_{k+1}) - \hat V(h_k)$. Taken from no
#   paper; it needs no further tries.
# - **VinePPO** and **SPO**: $\hat V$ from eight fresh re-rolls before each turn, or before every third.
# - **SPA-RL** and **AgentPRM**: a model predicts the outcome from the prefix, and differences are the credit.
#   SPA learns from how tries ended, AgentPRM from re-rolls. SPA's own model gives the parts themselves, and
#   its loss fixes their *sum* alone; the nearest thing here is a prediction that is taught at the end of a
#   try only ("sum alone").

# %%
fit = budget.pick(smoke=dict(tries=20, steps=3), cpu=dict(tries=160, steps=80), gpu=dict(tries=160, steps=80))
tried, shares = ch13_credit.maze_credit(walker, 0, fit=fit)
at = next(i for i, e in enumerate(tried) if not e.success and e.turns == ch13_credit.CELLS + 1)
said = [tried[at].said(k).removeprefix("<act> ").removesuffix("</act>") for k in range(tried[at].turns)]
credit_map(said, {name: rows[at] for name, rows in shares.items()}, truth="exact");

# %% [markdown]
# The same over all turns of all tries, recorded with three fresh seeds. Two numbers: the correlation with the
# exact credit, and the mean $|\text{credit} - \text{exact}|$ (rewards are ±1; a z-score has no unit, hence no
# error).
#
# **Claims**, in every seed: (1) SPA's error is smaller than that of equal parts; (2) so it is when only the
# sum is taught; (3) peers' differences correlate more with the exact credit than GiGPO does; (4) the model
# that SPA fits correlates more than the eight re-rolls.

# %% tags=["nbval-check-output"]
measured = experiments.recorded(f"{ch13.NAME}/credit").curves["measured"]
table = {}
for seed, run in zip((10, 11, 12), measured):
    for key, value in run[0].items():
        if key.endswith((" correlation", " error")):
            method, number = key.rsplit(" ", 1)
            table.setdefault((number, f"seed {seed}"), {})[method] = value
table = pd.DataFrame(table)
print(table.drop("exact").sort_index(axis=1).round(2).to_string(na_rep="–"))
right, error = table["correlation"], table["error"]
claim("1: SPA below equal parts", error.loc["SPA, every prefix"] < error.loc["equal parts"])
claim("2: with the sum alone, too", error.loc["SPA, sum alone"] < error.loc["equal parts"])
claim("3: peers' differences above GiGPO", right.loc["peers' differences"] > right.loc["GiGPO"])
claim("4: SPA above eight re-rolls", right.loc["SPA, every prefix"] > right.loc["re-rolls (VinePPO)"])

# %% [markdown]
# Eight re-rolls of ±1 leave a standard error of 0.35 on each value, so that their error is larger than that
# of equal parts, though they know better where credit belongs. A model averages over all tries that it has
# seen, and it asked for fewer: 160 here, against eight before each turn.
#
# Beware of the high numbers. The start turns without regard to the cue, so its values hardly change on the
# way, and a model needs to know little more than one number to be right. The next table has a column for a
# rule that knows nothing: all credit to the last turn. What is compared here is how little noise a method
# adds where nothing happened, not whether it finds a decisive turn in the middle.
#
# GiGPO is no better than GRPO here, and that is not for want of tries. Its second comparison is of *whole
# later returns*, and those are decided at the junction. The groups do know better: take differences of their
# means. **Claim**: from 4 to 64 tries a task, peers' differences gain at least 0.1 in correlation, GRPO and
# GiGPO less than 0.1, in every seed.

# %%
many = budget.pick(smoke=(4, 8), cpu=(4, 16, 64), gpu=(4, 16, 64))
with_tries = {(seed, n): ch13_credit.with_tries(walker, seed, n, tasks=4) for seed in SEEDS for n in many}
with_tries = pd.DataFrame(with_tries).T
print(with_tries.round(3).to_string())
gain = pd.DataFrame({seed: with_tries.loc[seed].iloc[-1] - with_tries.loc[seed].iloc[0] for seed in SEEDS})
held = (gain.loc["peers' differences"] >= 0.1) & (gain.loc[["GRPO", "GiGPO"]].max() < 0.1)
claim("differences gain, whole returns do not", held)

# %% [markdown]
# It failed by its threshold, in every seed: four tries already give differences 0.7 to 0.9, so that in seeds
# 10 and 12 they gained just less than 0.1, and in seed 11 GRPO gained as much from a poor start. The picture
# stands all the same: from 16 tries on it is 0.98 against 0.4. And the rule that knows nothing beats them
# all, 0.998: this maze, with this start, cannot tell a good method from a lucky rule.
#
# ## Does better credit train better?
#
# A quest of 8 rooms and 14 turns: find the key, take it, find the door, open it, reward 1. `quest-novice`
# does it in one of ten tries. The credit enters as a second advantage, of turns, beside GRPO's of tries:
#
# $$A_{it} = \frac{R_i - \mathrm{mean}_g R}{\mathrm{std}_g R} + \lambda\, \frac{p_{ik} - \mathrm{mean}_g p}{\mathrm{std}_g p}$$
#
# for the tokens $t$ of turn $k$; $p_{ik}$ is the credit, $g$ the tries of the task, $\lambda = 1$. By hand on
# a real batch, with peers' differences (the state is the room and whether the key is in hand):

# %%
novice = models.load("quest-novice")
pay = peer_credit(room_and_key)
batch = collate(rollout(novice, ch13.HOUSE, range(100, 112), 8, seed=1, limits=ch13.LONG))
paid, second = pay(batch.episodes), StepCredit(pay=pay).advantages(batch) - GRPO().advantages(batch)
for i, episode in enumerate(batch.episodes):
    peers = np.concatenate([p for p, e in zip(paid, batch.episodes) if e.group == episode.group])
    step = (paid[i] - peers.mean()) / (peers.std(ddof=1) + 1e-6)
    for k in range(episode.turns):
        at = (batch.turn[i] == k) & (batch.mask[i] > 0)
        assert np.allclose(second[i, at], step[k], atol=1e-3)
met = {(e.seed, room_and_key(e, k), i) for i, e in enumerate(batch.episodes) for k in range(e.turns)}
print(f"a state is met by {len(met) / len({key[:2] for key in met}):.1f} of 8 tries")
print(f"{batch.success.float().mean():.0%} of tries win")
won = [e for e in batch.episodes if e.success][:1]
group = won + [e for e in batch.episodes if won and e.group == won[0].group and e is not won[0]]
estimators = [GRPO(), GiGPO(state=room_and_key), StepCredit(pay=pay)]
lab.microscope(group or batch.episodes[:8], first=1, algorithms=estimators)

# %% [markdown]
# (Colour by *advantage* and switch the estimator.) One run live, with peers' differences:

# %%
steps = budget.pick(smoke=1, cpu=8, gpu=40)
settings = ch13.QUEST | dict(steps=steps, seed=0)
run = train(models.load("quest-novice"), ch13.HOUSE, StepCredit(pay=pay), **settings)
live = lab.live(run, title="a quest of 8 rooms, turns compared by their peers")
live

# %%
records = await live.done()

# %% [markdown]
# Recorded: 16 updates of 8 × 8 tries from the same start, with
#
# - **GRPO** on the outcome alone; **GiGPO** with an honest state; **peers' differences**;
# - **AgentPRM**: before training, the novice tries 128 tasks; from three prefixes of each, two re-rolls tell
#   how it goes on; a step reward model is fitted to that and stays as it is.
#
# **Claims**, in every seed: (1) AgentPRM reaches success 0.3 (mean of three updates) in fewer updates than
# GRPO; (2) also when the tokens of its labels are counted; over the last six updates success is higher than
# GRPO's with GiGPO (3) and with peers' differences (4). Success is that of the tries that are trained on:
# each update draws new tasks.

# %% tags=["nbval-check-output"]
found = experiments.recorded(f"{ch13.NAME}/quest")


def first_at(run: list[dict], number: str, goal: float = 0.3, window: int = 3) -> float:
    """The number at the first record at which the mean of `window` updates is at the goal; inf if never."""
    means = pd.Series([r["success"] for r in run]).rolling(window).mean()
    return next((r[number] for r, m in zip(run, means) if m >= goal), np.inf)


reached = {number: pd.DataFrame({arm: [first_at(run, number) for run in runs]
                                 for arm, runs in found.curves.items()}, index=seeds_of(found))
           for number in ("step", "spent")}  # fmt: skip
late = last_updates("quest", "success")
for what, table in zip(("updates", "tokens"), reached.values()):
    print(f"{what} to 0.3 (–: not reached)")
    print(table.map(lambda x: f"{x:.0f}" if np.isfinite(x) else "–").to_string(), "\n")
print("success over the last six updates\n", late.round(2).to_string())
claim("1: AgentPRM in fewer updates", reached["step"]["AgentPRM"] < reached["step"]["GRPO"])
claim("2: in fewer tokens, labels counted", reached["spent"]["AgentPRM"] < reached["spent"]["GRPO"])
claim("3: GiGPO above GRPO", late["GiGPO"] > late["GRPO"])
claim("4: peers' differences above GRPO", late["peers' differences"] > late["GRPO"])
print("peers' differences − GRPO:", evaluate.mean(late["peers' differences"] - late["GRPO"]))

# %%
lab.curves(found.curves, y="success", smooth=4);

# %% [markdown]
# All four failed. GiGPO is level with GRPO or above it (it differs in two small things more: a KL term and a
# fine for malformed turns), peers' differences are not: a state is met by half of the tries, one try in ten
# wins, so most means are means of zeros. And one arm did worse than fail: AgentPRM ends at *zero* in two
# seeds of three. Its credit was nearly exact in the maze, where one number was enough; here the policy that
# it trains forgets to win. Look at what its second advantage is made of. In the first updates, about half of
# the groups have no winner at all:

# %% tags=["nbval-check-output"]
signal = {arm: [np.mean([r["signal_share"] for r in run[:5]]) for run in found.curves[arm]]
          for arm in ("GRPO", "AgentPRM")}  # fmt: skip
print("share of groups with winners and losers, updates 1 to 5")
print(pd.DataFrame(signal, index=seeds_of(found)).round(2).to_string())

# %% [markdown]
# In a group of losers little happened, and the model's differences are small: part progress, part its own
# error. Dividing by their standard deviation makes both as large as a real success, in every group; as
# winners die out, nothing else is left. (Peers' differences are *exactly* 0 in such a group.) If that is what
# happened, then leaving the division out should cure it. **Claim** (5), written after this and before the
# next runs: the same model, its differences centred but not divided ($\lambda = 3$: a chance of success rises
# by at most 1), ends above the divided one and above GRPO over the last six updates, on average over seeds.

# %% tags=["nbval-check-output"]
late["AgentPRM, undivided"] = last_updates("quest_undivided", "success")["AgentPRM, undivided"]
print(late.round(2).to_string())
for other in ("AgentPRM", "GRPO"):
    gap = evaluate.mean(late["AgentPRM, undivided"] - late[other])
    claim(f"5: undivided − {other}: {gap}", gap.mean > 0)

# %% [markdown]
# A little above the divided one, by one seed, and below GRPO: the division is not what did it. What did?
# Watch the policy and its judge together, for one of the seeds that ended at zero. `promised` is what the
# model expects before the last turn of a try; `refused` is the share of turns that the world could not carry
# out:

# %%
small = budget.pick(smoke=dict(tasks=4, steps=1), cpu=dict(tasks=128, steps=60), gpu=dict(tasks=128, steps=60))
steps = budget.pick(smoke=1, cpu=10, gpu=16)
watched = list(ch13.by_model(0, **small)(models.load("quest-novice"), 10, steps=steps))
pd.DataFrame(watched).set_index("step")[["success", "promised", "refused"]].T.round(2)

# %% [markdown]
# Success goes, promises rise. The policy says ` take key` in every room, the world answers ` no`, and the
# model is pleased. What had it seen? Of the tries that it was fitted to:

# %%
seen = rollout(novice, ch13.HOUSE, ch13.first_tasks(10, 128), seed=10, limits=ch13.LONG)
said = [(e, k) for e in seen for k in range(e.turns) if e.said(k) == envs.act("take key")]
obeyed = sum(not e.infos[k].get("illegal") for e, k in said)
print(f"` take key` was said {len(said)} times, {obeyed} times where a key lay")
rate = [np.mean([e.success for e in tries]) for tries in (seen, [e for e, _ in said])]
print(f"success: {rate[0]:.2f}; where it was said: {rate[1]:.2f}")

# %% [markdown]
# It took the words for the deed, because in these tries they were never said in vain. A learned process
# reward is an opinion about tries like those it was fitted to, and a policy that is paid by it goes and finds
# others.
#
# The cure is in the paper: AgentPRM retrains its model as the policy changes. Here, after each update, the
# model takes three steps on how the tries of that update ended; they are there already and cost no tokens.
# **Claim** (6), written after a trial with seed 10, for seeds 11, 12 and 13: over the last six updates
# success is above 0.15 and refused turns are below 0.3, in every seed.

# %% tags=["nbval-check-output"]
fresh = {number: last_updates("quest_refitted", number)["AgentPRM, refitted"]
         for number in ("success", "promised", "refused")}  # fmt: skip
fresh = pd.DataFrame(fresh)
print(fresh.round(2).to_string())
claim("6: refitted, it is not farmed", (fresh["success"] > 0.15) & (fresh["refused"] < 0.3))

# %% [markdown]
# Promises stay close to what is kept, and nobody stands still and asks for keys. Compared with GRPO in the
# same seeds (11 and 12, above) it is level, no better, and it has spent the tokens of nine updates of GRPO on
# its labels.
#
# ## Rules: turns that say what they are for
#
# **RLVMR** lets each turn name its purpose with a tag, and lets a program check whether the purpose was met.
# In `Errand` a turn may begin with ` explore`, ` plan` or ` reflect`. The start, `errand-novice`, names any
# of them and mostly does what is meant: go to an unseen room, make for a key or door that was seen, go back.

# %%
thinker = models.load("errand-novice")
lab.microscope(evaluate.episodes(thinker, envs.Errand(), 1, limits=ch13.LONG), first=1)

# %% [markdown]
# The rules: *explore* is paid 1 for a new room, *plan* for a try that succeeds in the end, *reflect* if the
# turn before failed and this one does not; a refused turn costs 1. Turns are compared with turns *of the same
# tag* ($\lambda = 0.5$). Against GRPO on the outcome alone, 16 updates from the same start, in every seed,
# **claims**: (1) a smaller share of turns repeats what was said before in the same room with the same things
# in hand; (2) success is not more than 0.03 lower.

# %% tags=["nbval-check-output"]
columns = ("repeated", "refused", "success", "explore", "plan", "reflect")
habits = pd.concat({name: by_seed("rules", name) for name in columns}, axis=1)
print(habits.round(2).to_string())
before = experiments.recorded(f"{ch13.NAME}/rules").outcomes["GRPO"][0]["before"]
print("the start:", {name: round(before[name], 2) for name in columns})
claim("1: fewer repeats", habits["repeated"]["RLVMR"] < habits["repeated"]["GRPO"])
claim("2: success not more than 0.03 lower", habits["success"]["RLVMR"] >= habits["success"]["GRPO"] - 0.03)

# %%
found = experiments.recorded(f"{ch13.NAME}/rules")
lab.curves(found.curves, y="repeated", smooth=3, ylabel="repeated (share of turns)");

# %% [markdown]
# What the rules pay for, they get: refused turns are less than half of GRPO's in every seed (both have more
# than the start). Repeats are fewer and success is higher in two seeds. In seed 12 the first two updates met
# few winners, and from the third on there is none at all: the outcome has nothing more to say, and the policy
# goes on pleasing the rules without it. A process reward beside the outcome must leave enough of the outcome
# to hear.
#
# ## Segments: what is preferred to what
#
# Preferences need no reward model, but a preference between two long episodes says little about any turn.
# **SDPO** goes back to a turn before things went wrong, plays on until it goes well, and compares the
# *segments* in which the two differ. Here: 600 tries of the novice; each failure is taken back to its middle
# turn and re-rolled four times; where one succeeds, the two make a pair that shares its first half.

# %%
pairs = ch13.mended(0, tasks=budget.pick(smoke=8, cpu=60, gpu=600))
print(len(pairs), "pairs")
for chosen, rejected in segment_pairs(pairs)[:2]:
    turns = sorted({int(k) for k in chosen.turn[chosen.mask > 0]})
    for name, e in (("chosen", chosen), ("rejected", rejected)):
        words = [e.said(k).removeprefix("<act> ").removesuffix("</act>") for k in turns]
        print(f"turns {turns[0]} to {turns[-1]}, {name:8}: {', '.join(words)}")

# %% [markdown]
# The same pairs, the same 20 updates of 24 pairs, compared in three ways: all turns from the branch on
# (DPO on trajectories: the shared half cancels), three turns, one turn. **Claims** (mean over seeds):
# success after three turns is higher than after whole trajectories (1), and than after single turns (2).

# %% tags=["nbval-check-output"]
success = by_seed("segments", "success")
print(success.round(3).to_string())
start = experiments.recorded(f"{ch13.NAME}/segments").values("one turn", "success", when="before")
print("before:", start)
for number, other in enumerate(("to the end (DPO)", "one turn"), 1):
    gap = evaluate.mean(success["three turns (SDPO)"] - success[other])
    claim(f"{number}: three turns − {other}: {gap}", gap.mean > 0)

# %% [markdown]
# What can be said is that whole trajectories do harm: success falls from one in ten to one in forty. Three
# turns or one turn do less of it, and the two cannot be told apart with three seeds (look at the interval;
# "holds" is about the mean). None of the three beats the start. A guess, not measured here: twenty updates on
# 61 to 88 pairs is too much, and DPO lowers the likelihood of the chosen side, too (chapter 03), the more so
# the more tokens are compared.
#
# ## A strategist over a frozen actor
#
# **EPO** trains a model that gives strategic advice to another one which stays as it is. The gradient
# then has to credit a few words a turn, not all of them. Ours: the strategist says the first word of each
# turn (the tag), the actor, `errand-novice` with frozen weights, says the rest. Both read everything.
# Untrained, the strategist is a copy of the actor, so the two together are the actor alone, its own words and
# all. In the strategist's episode the actor's words are forced tokens, like any observation.
#
# **Claims**, recorded, 16 updates, in every seed: on the advice of the trained strategist the actor succeeds
# more often than alone (1), and at least 0.1 more often (2).

# %% tags=["nbval-check-output"]
def advised(name: str) -> pd.DataFrame:
    """Success without and with advice, and the words said, as shares of turns."""
    found = experiments.recorded(f"{ch13.NAME}/{name}")
    numbers = ("on its advice", "says explore", "says plan", "says reflect")
    after = [[o["after"].get(number, 0.0) for number in numbers] for o in found.outcomes["strategist"]]
    alone = found.values("strategist", "on its advice", when="before")
    return pd.DataFrame(after, columns=numbers, index=seeds_of(found)).assign(alone=alone)


led = advised("advice")
print(led.round(2).to_string())
claim("1: on advice above alone", led["on its advice"] > led["alone"])
claim("2: at least 0.1 above", led["on its advice"] - led["alone"] >= 0.1)

# %% [markdown]
# The gain is small (GRPO on the actor's own weights, above, ended at 0.20 to 0.27 after as many updates), and
# (2) failed in two seeds of three: the strategist learned to say ` plan`, hardly anything else. Why? Ask what
# GRPO, and peers' differences, make of each word in the start's own tries:

# %%
tasks = budget.pick(smoke=4, cpu=40, gpu=40)
batch = collate(rollout(thinker, envs.Errand(), range(tasks), 12, seed=3, limits=ch13.LONG))
kinds = {"GRPO": GRPO(), "peers' differences": StepCredit(pay=peer_credit(ch13.place))}
pd.DataFrame(ch13.by_word(batch, kinds)).round(3)

# %% [markdown]
# *Plan* is the best word on average: it takes keys and opens doors. *Explore* comes out below, for it helps
# only as long as there is something to find, and a word that is pushed down everywhere is soon not tried any
# more. So "plan" is the first lesson, "explore first" the second, and the strategist stops after the first.
# What is worth what *here*, in this room, with or without the key, is a question of credit by turns.
# **Claim** (3), written after the first runs and before the next ones: with turns of advice compared by their
# peers' differences (the state is the room and what is in hand), the actor succeeds at least 0.1 more often
# than alone, in every seed. One run live (success there is that of an update's 64 tries), then the recorded
# ones, measured on held-out tasks:

# %%
team = Advised(models.load("errand-novice"), thinker)
steps = budget.pick(smoke=1, cpu=8, gpu=40)
algorithm = StrategyGRPO(pay=peer_credit(ch13.place))
advice = list(train(team, envs.Errand(), algorithm, **ch13.QUEST | dict(steps=steps, seed=0)))
print(f"success {advice[0].success:.2f} → {advice[-1].success:.2f}; trained tokens a turn:",
      advice[0].tokens / sum(e.turns for e in advice[0].episodes))  # fmt: skip
lab.microscope(sorted(advice[-1].episodes, key=lambda e: -e.reward), first=1)

# %% tags=["nbval-check-output"]
by_turns = advised("advice_by_turns")
print(by_turns.round(2).to_string())
claim("3: at least 0.1 above, turns compared", by_turns["on its advice"] - by_turns["alone"] >= 0.1)

# %% [markdown]
# It failed again, and in the same way. Is there anything to gain at all? Let a script give the advice:
# *explore* until the key was seen (or, with the key in hand, the door), *plan* from there on. The actor is
# the same.

# %%
tasks = budget.pick(smoke=8, cpu=96, gpu=256)
for name, words in (("the script", ch13.careful_word), ("always plan", lambda env: "plan")):
    print(f"{name}: success {ch13.on_words(thinker, words, tasks):.2f}")

# %% [markdown]
# There is. Two thirds can be had, "always plan" is a shelf at one in five, and the outcome leads to the
# shelf. EPO supports the outcome with process rewards; ours are the rules of RLVMR above, with turns compared
# among those of the same word, so that no word is pushed as such, only where it does its work. **Claim** (4),
# written before its runs: on such advice the actor succeeds at least 0.1 more often than alone, in every
# seed.

# %% tags=["nbval-check-output"]
by_rules = advised("advice_by_rules")
print(by_rules.round(2).to_string())
claim("4: at least 0.1 above, with rules", by_rules["on its advice"] - by_rules["alone"] >= 0.1)

# %% [markdown]
# It failed a third time, and worse: in two seeds the strategist stopped saying any of the three words, and
# success ended at zero. So what *can* be had here, two thirds, was not learned in sixteen updates by any of
# three kinds of credit: each found the shelf, or a way around its judge, first. EPO's strategist starts from
# a language model that knows what advice is for; ours starts from three words said at random.
#
# ## What breaks: paid for picking up
#
# "It needs the key, so let us pay 0.5 for picking it up." In `carry`, three rooms in a row, everything is
# exact: the best policy, before and after.

# %% tags=["nbval-check-output"]
plain = ch13_credit.carry()
hand = ch13_credit.held(plain)
took = (plain.P > 0) * (1 - hand)[:, None, None] * hand  # moves into states with the key in hand
paid = {"outcome": plain, "0.5 for taking": bonus(plain, took, 0.5), "potential": shape(plain, 0.5 * hand)}
for name, mdp in paid.items():
    print(f"{name:15}", ", ".join(ch13_credit.best_way(mdp)))

# %% [markdown]
# Take, drop, take, drop: it is paid each time, and the door stays shut. The cure is not a smaller number but
# another form: pay the *rise* of a potential $\Phi$, here 0.5 while the key is in hand. What taking earns,
# dropping costs, and no circle pays.

# %%
lab.equation("potential-shaping")

# %% [markdown]
# The same happens to a language model. `Errand` allows `drop key`, and the novice was taught to do it
# sometimes. GRPO on the outcome and the process reward together, live:

# %%
steps = budget.pick(smoke=1, cpu=10, gpu=40)
farmed = {}
for name, pays in (("for taking", ch13.for_taking), ("potential", ch13.for_holding)):
    settings = ch13.QUEST | dict(steps=steps, seed=0)
    run = train(models.load("errand-novice"), envs.Errand(), Paid(pay=pays), **settings)
    farmed[name] = [r.numbers() | ch13.takes(r.episodes) for r in run]
figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained")
lab.curves(farmed, y="takes", smooth=3, ylabel="keys picked up (a try)", ax=axes[0])
lab.curves(farmed, y="success", smooth=3, ax=axes[1]);

# %% [markdown]
# Paid for taking, it comes to take the key about twice a try, which is only possible for those who drop it,
# and no door is opened any more. With the potential, it takes the key less than once a try, and success rises.
#
# In GRPO the potential changes nothing at all: its payments sum to $\Phi(\text{end}) - \Phi(\text{start}) =
# 0$ in every try, so advantages are the outcome's.

# %%
batch = collate(rollout(thinker, envs.Errand(), range(8), 8, limits=ch13.LONG))
shaped, outcome = Paid(pay=ch13.for_holding), GRPO()
gap = (shaped.advantages(shaped.reward(batch)) - outcome.advantages(batch)).abs().max()
print(f"largest difference of advantages: {gap:.1e}")

# %% [markdown]
# So a potential is of no use to a method that pays all turns alike; it *is* credit, for those that look at
# turns. The differences of a step reward model above are of this form, with $\Phi$ the predicted outcome, and
# AgentPRM was farmed all the same: there each turn was judged by its own difference alone, and who raises
# $\Phi$ by words and loses it at the end pays only with the last turn. A potential is safe inside a return;
# as a verdict on single turns it is as good as its prediction.
#
# ## On a GPU
#
# The same quest in English, told to SmolLM2-135M-Instruct with adapters, by GiGPO (and by GRPO, for
# comparison). The cell runs at the `gpu` budget only; no claim rests on it.

# %%
if budget.name == "gpu":
    for algorithm in (ch13.REAL.algorithm, GRPO(beta=0.01)):
        run = replace(ch13.REAL, algorithm=algorithm)(experiments.real.policy(), seed=0)
        for record in run:
            print(type(algorithm).__name__, record.step, f"{record.reward:.3f}", record.signal_share)

# %% [markdown]
# ## Where this stands
#
# - **AgentPRM** (Choudhury 2025) fits a process reward model to Monte-Carlo returns of the agent's own
#   rollouts, averaged where they meet in the same state and action, trains the policy on the model's verdict
#   by online DPO, and begins anew. Ours re-rolls from chosen turns, puts the verdict beside the outcome, and
#   was tried with the model fitted once and fitted anew.
# - **SPA-RL** predicts contributions whose sum is the outcome. **SPO** estimates advantages of segments by
#   re-rolls at their borders. **Think-RM** lets the reward model reason in words first; a model of our size
#   cannot.
# - **RLVMR** (the survey's text spells it "RIVMR") pays tags by rules. **EPO** trains the adviser. **SDPO**
#   compares segments; **DMPO** (chapter 03's family) weighs early turns more, **ETO** compares whole
#   trajectories.
# - **GiGPO** compares turns from equal states. **SWEET-RL** gives the critic what the actor cannot see;
#   **ARIA** groups similar utterances to share their rewards; **RAGEN** (chapter 05) studies what breaks in
#   multi-turn training.
# - For reinforcement learning at large, the survey points to Pignatelli et al.'s survey of temporal credit
#   assignment.

# %%
survey_taxonomy.table("3.7")

# %% [markdown]
# **What does not transfer.** Exact credit exists in worlds that can be enumerated, nowhere else. Re-rolls
# need a world that can be copied and costs nothing; where an episode costs dollars or cannot be undone,
# labels by re-roll are out of reach. Our states repeat exactly, so peers meet; in open text they do not, and
# one needs a notion of "the same state". And the tags here carry meaning because the start was taught to obey
# them.
#
# ## Exercises
#
# **13.1 GAE by turns.** `turn_gae(rewards, values, mask, turn, gamma, lam)` gets one row, token by token:
# rewards stand where turns end, `turn` is −1 in the prompt, `mask` 0 at forced tokens. A turn is one step:
# its reward is the sum over its tokens, its value the one at its first sampled token. Return one number a
# token: the turn's advantage where sampled, 0 where forced.

# %%
def turn_gae(rewards, values, mask, turn, gamma, lam) -> list[float]:
    """Advantages of one row."""
    advantage, later, after = {}, 0.0, 0.0
    for k in reversed(range(max(turn) + 1)):
        at = [t for t in range(len(mask)) if mask[t] and turn[t] == k]
        value = values[at[0]]
        later = sum(rewards[t] for t in at) + gamma * after - value + gamma * lam * later
        advantage[k], after = later, value
    return [advantage[k] if m else 0.0 for m, k in zip(mask, turn)]


lab.check("13.1", turn_gae)

# %% [markdown]
# **13.2 Redistribution.** `redistribute(before, ret)` gets predictions of the return before each turn and the
# true return. A turn earns what the prediction rises by; what was expected before the first turn is shared in
# equal parts, so that the parts sum to the return.

# %%
def redistribute(before: list[float], ret: float) -> list[float]:
    """What each turn earned."""
    after, share = [*before[1:], ret], before[0] / len(before)
    return [a - b + share for a, b in zip(after, before)]


lab.check("13.2", redistribute)

# %% [markdown]
# **13.3 Segments.** `segment(a, b, most)` gets two tries of a task, each `(sayings, success)`. Return the
# turns to prefer and the turns to prefer them to: from the first turn that differs, equally many, at most
# `most`; None where outcomes are equal or no turn differs.

# %%
def segment(a, b, most):
    """(chosen, rejected) or None."""
    if a[1] == b[1]:
        return None
    chosen, rejected = (a[0], b[0]) if a[1] else (b[0], a[0])
    start = next((k for k, (x, y) in enumerate(zip(chosen, rejected)) if x != y), None)
    if start is None:
        return None
    stop = min(start + most, len(chosen), len(rejected))
    return chosen[start:stop], rejected[start:stop]


lab.check("13.3", segment)

# %% [markdown]
# **13.4 Farm it.** `cycle(moves, paid)` gets a small world, `moves[state][action]` being the next state, and
# what each `(state, action)` pays, in whole numbers. Return a circle of (state, action) that pays more than 0
# in sum, or None where there is none. Half of the worlds are paid by a potential difference.

# %%
def cycle(moves: dict, paid: dict):
    """A circle that pays, or None: the best ways of 1, 2, … moves from each state, until one is back."""
    for start in moves:
        best = {start: (0, [])}
        for _ in moves:
            further = {}
            for s, (earned, way) in best.items():
                for a, t in moves[s].items():
                    total = earned + paid[s, a]
                    if t not in further or total > further[t][0]:
                        further[t] = (total, [*way, (s, a)])
            best = further
            if start in best and best[start][0] > 0:
                return best[start][1]
    return None


lab.check("13.4", cycle)

# %% [markdown]
# **13.5 Find the bug.** `shaped(phi)` gets the potential before each turn and returns what a potential
# difference pays each turn, for episodes that may end anywhere, also by a limit of turns. (The version below
# is mended; write `phi[-1]` for `0.0` to see what the check says of the bug: it pays for ending with the key
# in hand.)

# %%
def shaped(phi: list[float]) -> list[float]:
    """What each turn is paid."""
    after = [*phi[1:], 0.0]
    return [b - a for a, b in zip(phi, after)]


lab.check("13.5", shaped)

# %% [markdown]
# ## In short
#
# - The longer the way, the fainter the signal of the outcome at its first step; exact credit does not fade.
# - Credit by differences of a prediction leaves turns alone where nothing happened, whether the prediction
#   comes from a model or from the group's own tries. Comparing whole later returns does not, however many
#   tries there are. In a maze whose last turn decides all, a rule that pays the last turn is as good.
# - None of these kinds of credit trained better than the outcome in the quest: where one try in ten wins, 16
#   updates of 64 tries are short, and a judge that is fitted once is farmed before they are over. Fit it anew
#   as the policy changes.
# - A process reward is farmed where going in a circle pays. The differences of a potential, summed in a
#   return, never pay for a circle.
#
# Next: [31 · The survey as data](31_taxonomy_atlas.ipynb).
#
# **References.** Zhang et al. 2025, arXiv 2509.02547, §3.7. Choudhury 2025 (AgentPRM), arXiv 2502.10325. Wang
# et al. 2025 (SPA-RL), arXiv 2505.20732. Arjona-Medina et al. 2018 (RUDDER), arXiv 1806.07857. Zhang et al.
# 2025 (RLVMR), arXiv 2507.22844. Kong et al. 2025 (SDPO), arXiv 2501.01821. Liu et al. 2025 (EPO), arXiv
# 2502.12486. Guo et al. 2025 (SPO), arXiv 2505.23564. Hong et al. 2025 (Think-RM), arXiv 2505.16265. Feng et
# al. 2025 (GiGPO), arXiv 2505.10978. Kazemnejad et al. 2024 (VinePPO), arXiv 2410.01679. Ng, Harada and
# Russell 1999. Pignatelli et al. 2023, arXiv 2312.01072.
