# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 08 · Tool use
#
# **When should a policy call a tool, and what should it do when the tool fails?** Show it good examples and it imitates
# them, also where they do not fit. Pay it for right answers and it finds out by itself. This chapter puts the two side by
# side with a calculator that is down in three tasks of ten, then puts a price on every call.
#
# The survey (§3.2) tells the story in three stages: tool calls *prompted or imitated* (ReAct, Toolformer, FireAct),
# tool-integrated *reinforcement learning* (ToolRL, ReTool, ToRL), and long-horizon use, which is still open. Here are the
# first two, small enough to watch. The rest of the chapter's demonstrations follow in a later edition.

# %%
import matplotlib.pyplot as plt
import pandas as pd
import survey_taxonomy
import torch

from arl_mini import GRPO, collate, envs, evaluate, experiments, lab, models, ops, train
from arl_mini.algorithms import GiGPO, TurnGRPO

budget = lab.budget()
lab.style.use()

# %% [markdown]
# ## A tool in the middle of an answer
#
# `Calc` asks small questions. A sum of two digits is easy to know by heart; a product of two two-digit numbers is not.
# While it answers, the policy may write `<act> py 47*83</act>`. The engine stops the row there, asks the tool, and *forces*
# the answer into the row's own context; then sampling goes on. The tool is a real evaluator for whole numbers.
#
# The tool `py` can be down for a whole task. Then a second tool, `abacus`, still works.

# %% tags=["nbval-check-output"]
world = envs.Calc(("product",), failing=0.3)
print("task:  ", world.reset(seed=3))
said = world.expert()
while True:
    reply = world.step(said)
    print("policy:", said, "\nworld: ", reply.text or f"reward {reply.reward:.0f}")
    if reply.done:
        break
    said = world.expert()

# %% [markdown]
# The expert turns to the other tool. Our start rarely does; else it asks the dead tool again, or guesses. It
# knows how to call, how to copy an answer, how to add two digits; but its habit, taught last, is to answer at once.

# %%
novice = models.load("calc-novice")
pd.Series(novice.card).drop("about").to_frame("calc-novice")

# %%
limits = experiments.ch08.CALC["limits"]
lab.microscope(evaluate.episodes(novice, envs.Calc(("product",), failing=0.3), 4, limits=limits), first=4)

# %% [markdown]
# ## What is trained, and what is not
#
# The observation is part of the sequence, but nobody's choice. The objective of tool-integrated RL is that of chapter 00
# with the sum over *sampled* tokens only:
#
# $$L = -\frac1G\sum_i \frac1{n_i}\sum_t m_{i,t}\, r_{i,t}\, A_i, \qquad
# m_{i,t} = \begin{cases}1 & \text{the policy sampled the token}\\ 0 & \text{it was forced.}\end{cases}$$
#
# $r_{i,t}$ is the ratio of the token's probability now to that when it was sampled, $A_i$ the advantage of try $i$, $n_i$ its number
# of sampled tokens. By hand, on sixteen real episodes, against the library:

# %%
batch = collate(evaluate.episodes(novice, envs.Calc(failing=0.3), 4, tries=4, limits=limits))
batch = batch.set(advantages=GRPO().advantages(batch))
with torch.no_grad():
    scores = models.score(novice, batch)
ratio = (scores.logp - batch.old_logp).exp()
rows = zip(batch.mask, ratio, batch.advantages)
by_hand = -sum((m * r * a).sum() / m.sum() for m, r, a in rows) / len(batch)
assert torch.isclose(by_hand, GRPO().loss(scores, batch), atol=1e-6)
forced = (batch.turn >= 0).sum() - batch.mask.sum()
print(f"{batch.mask.sum():.0f} tokens sampled, {forced:.0f} forced by the world")

# %% [markdown]
# ## Imitation against outcome reward
#
# Both start from the novice and make 80 updates of 256 episodes.
#
# - **Imitation**: an expert's traces, recorded when the tool worked. (FireAct and AgentTuning in the survey's terms.)
# - **Outcome RL**: its own tries with the failing tool; reward 1 for the right answer, nothing else. No reward for calling.
#
# **Claims, written before the runs, for products and a tool that is down in 30 % of tasks:**
#
# 1. Outcome RL ends at least 0.15 above imitation, in every seed.
# 2. Where the first tool is down, RL turns to the other one in more than 0.9 of tasks, in every seed.
#
# One seed of the RL, live:

# %%
policy = models.load("calc-novice")
settings = experiments.ch08.CALC | dict(steps=budget.pick(smoke=2, cpu=80, gpu=80))
run = train(policy, envs.Calc(failing=0.3), GRPO(), seed=0, **settings)
live = lab.live(run, title="Calc with a failing tool", show=("success", "turns", "entropy"))
live

# %%
records = await live.done()


def measured(policy) -> pd.Series:
    """What the policy does on held-out products with the failing tool."""
    wanted = {"success": "right", "call_share": "calls", "switch_share": "turns to the other tool"}
    found = experiments.ch08.measure_calc(policy)
    return pd.Series({words: found.get(f"product_failing_{name}") for name, words in wanted.items()})


table = pd.DataFrame({"novice": measured(novice), f"after {len(records)} updates": measured(policy)})
table.round(3)

# %% [markdown]
# What it does now. Turning to `abacus` is no invention: the novice did it in 14 % of such tasks. RL
# selected it, because reward followed.

# %%
puzzled = [e for e in records[-1].episodes if e.infos[-1]["failed"] and e.infos[-1]["kind"] == "product"]
lab.microscope(puzzled[:3])

# %% [markdown]
# All five recorded seeds of both ways. The mechanism first: how often does it turn to the other tool?

# %%
failing = experiments.recorded("08_tool_use/failing")
print("made by:", failing.command)
rows = {}
for arm in ("imitation", "outcome RL"):
    for number in ("success", "switch_share"):
        values = [o["after"].get(f"product_failing_{number}", float("nan")) for o in failing.outcomes[arm]]
        rows[arm, number] = values
recorded = pd.DataFrame(rows, index=[f"seed {o['seed']}" for o in failing.outcomes["outcome RL"]])
recorded.round(3)

# %% tags=["nbval-check-output"]
gap = evaluate.mean(recorded["outcome RL", "success"] - recorded["imitation", "success"])
print("outcome RL − imitation:", gap)
first = bool((recorded["outcome RL", "success"] - recorded["imitation", "success"] >= 0.15).all())
second = bool((recorded["outcome RL", "switch_share"] > 0.9).all())
print("claim 1 (at least 0.15 in every seed):", "holds" if first else "FAILED")
print("claim 2 (turns to the other tool in more than 0.9):", "holds" if second else "FAILED")

# %%
lab.curves({"outcome RL": failing.curves["outcome RL"]}, y="success", smooth=5);

# %% [markdown]
# Imitation of clean traces never meets a tool that is down, so it cannot teach what to do then. What does the imitator do? It
# calls, as it was shown, and calls again. With a tool that works it is as good as RL, or better. (In a first version of this
# world every call failed by chance and asking again was the right thing to do. There imitation did almost as well as RL, for
# the wrong reason: it had learned to call, so it called again. A test must tell habit from insight.)

# %%
columns = {"product_success": "right, tool works", "product_failing_success": "right, tool down in 30 %",
           "product_failing_calls": "calls a task, tool down in 30 %"}
compared = {arm: {words: pd.Series(failing.values(arm, name)).mean() for name, words in columns.items()}
        for arm in ("imitation", "outcome RL")}
pd.DataFrame(compared).round(3)

# %% [markdown]
# ## A price for every call
#
# A call costs time and money. With a reward of 1 for the right answer *minus 0.1 for each call* (the idea of OTC), a policy
# should call only where a call buys more than 0.1 of success: for products, not for sums.
#
# **Claims:** against the same training without a price, in every seed: (1) calls on one-digit sums fall by more than half;
# (2) accuracy on sums stays within 0.02 or better; (3) products still call in more than 0.9 of tasks.

# %% tags=["nbval-check-output"]
price = experiments.recorded("08_tool_use/price")
wanted = ["sum_calls", "sum_success", "product_call_share", "product_success"]
seeds = [f"seed {o['seed']}" for o in price.outcomes["free"]]
tables = {arm: pd.DataFrame({w: price.values(arm, w) for w in wanted}, index=seeds) for arm in price.outcomes}
both = pd.concat(tables, axis=1)
print(both["free"].round(3).to_string(), "\n\nprice 0.1")
print(both["price 0.1"].round(3).to_string())
fewer = bool((both["price 0.1"].sum_calls < 0.5 * both["free"].sum_calls).all())
accurate = bool((both["price 0.1"].sum_success >= both["free"].sum_success - 0.02).all())
still = bool((both["price 0.1"].product_call_share > 0.9).all())
for number, held in enumerate((fewer, accurate, still), 1):
    print(f"claim {number}:", "holds" if held else "FAILED")

# %%
figure, axes = plt.subplots(1, 2, figsize=(8, 3), sharey=True)
for ax, arm in zip(axes, price.outcomes):
    calls = [pd.Series(price.values(arm, f"{kind}_calls")).mean() for kind in ("sum", "product")]
    ax.bar(["sums", "products"], calls, color=[lab.style.BLUE, lab.style.VERMILLION], width=0.6)
    ax.set(title=arm, ylabel="calls a task" if arm == "free" else "")

# %% [markdown]
# ## What breaks: paying for the call instead of the answer
#
# It is tempting to reward tool use itself: "+0.3 for each call, to encourage it". The world below does, for products, with a tool
# that is down in 30 % of tasks. An episode ends with the seventh call. What will a policy do?

# %%
spammer = models.load("calc-novice")
few = settings | dict(steps=budget.pick(smoke=2, cpu=60, gpu=60))
world = envs.Calc(("product",), failing=0.3, price=-0.3)
paid = list(train(spammer, world, GRPO(), seed=0, **few))
figure, axes = plt.subplots(1, 2, figsize=(8, 3))
for ax, number in zip(axes, ("reward", "success")):
    lab.curves({"+0.3 a call": paid}, y=number, smooth=3, ax=ax)

# %%
calls = [sum(e.infos[-1]["calls"] for e in r.episodes) / len(r.episodes) for r in paid]
best = max(r.success for r in paid)
print(f"calls a task: {calls[0]:.1f} at first, {calls[-1]:.1f} in the end")
print(f"right: {paid[0].success:.2f} at first, {best:.2f} at best, {paid[-1].success:.2f} in the end")
lab.microscope(paid[-1].episodes, first=2, algorithms=[GRPO(), TurnGRPO(), GiGPO(beta=0)])

# %% [markdown]
# (Colour the tokens by *advantage* and switch the estimator: credit moves from turn to turn, but no way to share it out mends a
# reward that pays for the wrong thing.)
#
# First both curves rise: calls help. Then it finds that calling again pays more than answering, and stops answering. The
# reward kept rising all the way; only the success curve tells. The survey asks for credit over tool sequences that neither
# punishes useful exploration nor invites such hacks; a price for calls, or a reward for outcomes alone, is safe
# against this one.
#
# ## Where this stands
#
# - **ReAct** (Yao et al. 2022) interleaves thought, call and observation by prompting; our action format is its trained
#   heir. **Toolformer** (Schick et al. 2023), **FireAct** and **AgentTuning** imitate traces: the imitation arm above.
# - **ToolRL**, **ReTool**, **ToRL**, **ARTIST** and **AutoTIR** train on outcomes with the tool in the loop: the second arm.
# - **OTC-PO** prices calls; its reward is not ours to the letter (it scales the outcome), the idea is.
# - **GiGPO** and **SPA-RL** work on credit over many calls (chapters 05 and 13).
#
# All works that the survey places in §3.2, with what this project has of them:

# %%
survey_taxonomy.table("3.2")

# %% [markdown]
# **What does not transfer.** "Emergence" here is selection among behaviours that the warm start already had: it called in
# three tasks of ten and turned to `abacus` in 14 % of those where it met a dead tool. A model this small cannot be prompted
# into a new tool. And a calculator never lies.
#
# ## Exercises

# %% [markdown]
# **08.1 A safe evaluator.** Write `evaluate_text(text)` that returns the value of an arithmetic expression of whole numbers
# with `+ - * // %` and parentheses, and raises `ValueError` for anything else: names, calls, `9**9**9`, more than 60
# letters, numbers beyond 10¹². A policy writes what it likes. The library's is one solution; write your own.

# %%
def evaluate_text(text: str) -> int:
    """The value of an arithmetic expression, or ValueError."""
    return envs.calc.evaluate(text)


lab.check("08.1", evaluate_text)

# %% [markdown]
# **08.2 Fair to those who try again.** With a price on every call, a policy pays for the tool's failures. Write
# `reward(success, calls, busy)`: right beats wrong for up to six calls, calling for nothing never pays, and calls that
# the tool did not answer neither cost nor pay.

# %%
def reward(success: bool, calls: int, busy: int) -> float:
    """calls: how many were made; busy: how many of them the tool did not answer."""
    return float(success) - 0.1 * (calls - busy)


lab.check("08.2", reward)

# %% [markdown]
# **08.3 The mask.** `mask_of(segments)` gets a list of `(who, tokens)`, where who is 'task', 'policy' or 'tool', and returns one
# 0 or 1 for each token: 1 where the policy wrote it. Beware: a policy can write `<obs>` itself.

# %%
def mask_of(segments) -> list[int]:
    """1 for each token that the policy wrote, whatever the token is."""
    return [int(who == "policy") for who, tokens in segments for _ in tokens]


lab.check("08.3", mask_of)

# %% [markdown]
# **08.4 Find the bug.** This loss trains on something it should not. The check compares your gradient with a naive loop. (The
# version below is mended; put `(batch.turn >= 0).to(logp.dtype)` for `own` to see what the check says of the bug.)

# %%
def tool_loss(logp, batch):
    """GRPO's clipped surrogate on the tokens that the policy owns."""
    own = batch.mask
    adv = ops.per_token(ops.group_zscore(batch.reward, batch.group), own)
    ratio = ops.ratio(logp, batch.old_logp)
    return ops.sequence_mean(ops.clipped_surrogate(ratio, adv, 0.2, 0.2), own)


lab.check("08.4", tool_loss)

# %% [markdown]
# ## In short
#
# - A tool's answer is forced into the row; only what the policy sampled is trained.
# - Imitation copies the traces it saw; outcome reward selects what works in the world as it is, failures included.
# - What you pay for is what you get: answers, calls, or spam.
#
# Next: [31 · The survey as data](31_taxonomy_atlas.ipynb), a map of the works that the survey names.
#
# **References.** Zhang et al. 2025, arXiv 2509.02547, §3.2. Yao et al. 2022, arXiv 2210.03629. Schick et al. 2023, arXiv
# 2302.04761. Chen et al. 2023 (FireAct), arXiv 2310.05915. Zeng et al. 2023 (AgentTuning), arXiv 2310.12823. Qian et al. 2025
# (ToolRL), arXiv 2504.13958. Feng et al. 2025 (ReTool), arXiv 2504.11536. Wang et al. 2025 (OTC), arXiv 2504.14870. Feng et
# al. 2025 (GiGPO), arXiv 2505.10978.
