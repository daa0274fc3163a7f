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
# **When should a policy call a tool, which one, and what should it do when the tool fails?** Show it examples and it
# imitates them, also where they do not fit. Pay it for right answers and it finds out by itself.
#
# The survey (§3.2) tells the story in three stages, and so does this chapter: calls that are *shown*, in a prompt or for
# imitation (ReAct, Toolformer, FireAct); calls that *pay*, in tool-integrated reinforcement learning (ToolRL, ReTool,
# ToRL); and *many calls in a row*, which is still open. Nine small experiments, and two on what breaks.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import survey_taxonomy
import torch

from arl_mini import collate, envs, evaluate, experiments, lab, models, ops, train
from arl_mini.algorithms import GRPO, GiGPO, TurnGRPO
from arl_mini.capabilities.tools import call_stats, insert_calls, weighted_loss
from arl_mini.capabilities.tools_shown import Shown, by_head, by_tool
from arl_mini.experiments import ch08, ch08_choice, ch08_imitation
from arl_mini.imitate import imitate
from arl_mini.models.tokenizer import decode, encode
from arl_mini.rollout import Sampling, demonstrate, rollout

budget = lab.budget()
lab.style.use()

# %% [markdown]
# Each experiment is recorded in `data/runs/08_tool_use`. To see one made, name it with one of its arms in `now`: one seed
# is trained and measured here. (`python -m arl_mini.experiments 08_tool_use/which` records all its seeds anew.) Settings and
# thresholds were chosen with seeds below 10; what is recorded are seeds from 10 on.

# %%
now = ()  # such as (("which", "outcome RL"), ("hops", "GiGPO"))
for name, arm in now:
    experiment = experiments.EXPERIMENTS[f"08_tool_use/{name}"]
    trained = models.load(experiment.start)
    *_, last = experiment.arms[arm](trained, 0)
    print(name, arm, experiment.measure(trained) or last)

# %%
def recorded(name: str, number: str) -> pd.DataFrame:
    """What was measured in the end: a row a seed, a column an arm."""
    found, columns = experiments.recorded(f"08_tool_use/{name}"), {}
    for arm, outcomes in found.outcomes.items():
        last = [run[-1] | outcome["after"] for run, outcome in zip(found.curves[arm], outcomes)]
        columns[arm] = pd.Series({f"seed {o['seed']}": row[number] for o, row in zip(outcomes, last)})
    return pd.DataFrame(columns)


def beside(name: str, *numbers: str) -> str:
    """Several numbers of an experiment side by side, in words."""
    return pd.concat({number: recorded(name, number) for number in numbers}, axis=1).round(2).to_string()


def claim(words: str, held) -> None:
    """The verdict on a claim; `held` may have one entry a seed."""
    print("holds " if np.all(held) else "FAILED", "·", words)

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
# # Part one: calls that are shown
#
# ## 1 · ReAct: examples in the prompt
#
# **ReAct** (Yao et al. 2022) trains nothing. Its prompt holds a few transcripts in which somebody calls tools and reads what
# they answer; the model goes on in the same way. That needs a model that has read such transcripts. `calc-corpus` has. It
# first learned answers by tool and by head one at a time; then it read documents of two transcripts and a third in the same
# way, or of one transcript alone, nine of ten of these by head.
#
# The loop around the model is the whole method. By hand, token by token, against the library's engine:

# %%
reader = models.load("calc-corpus")
prompt = Shown(envs.Calc(("product",)), by_tool, examples=2)


def react(policy, env, seed: int) -> str:
    """Always the likeliest token; after </act> the world's answer is written into the text."""
    ids = [*encode(policy.tokenizer, policy.format.prompt(env.reset(seed)))]
    begun = len(ids)
    while True:
        with torch.no_grad():
            ids.append(int(policy(torch.tensor([ids]))[0, -1].argmax()))
        said = decode(policy.tokenizer, ids[begun:])
        if said.endswith(("</act>", "<end>")):
            reply = env.step(said)
            if reply.done:
                return decode(policy.tokenizer, ids)
            ids += encode(policy.tokenizer, policy.format.observation(reply.text))
            begun = len(ids)


engine = rollout(reader, prompt, range(6), sampling=Sampling(temperature=0), limits=ch08_imitation.LIMITS)
assert [react(reader, prompt, seed) for seed in range(6)] == [e.text for e in engine]
print(engine[0].text.replace("<user>", "\n<user>"))

# %% [markdown]
# **Claims, for products of two-digit numbers and three sets of 256 tasks, in each:** after two examples with calls it (1)
# calls in at least 0.3 more of the tasks than without examples, and (2) is right in at least 0.3 more of them.

# %% tags=["nbval-check-output"]
ways = {"alone": "no examples", "calls_shown": "two with calls", "answers_shown": "two without"}
rows = {words: {n: recorded("react", f"{way}_{n}")["prompt only"].mean() for n in ("calls", "success", "tokens")}
        for way, words in ways.items()}  # fmt: skip
print(pd.DataFrame(rows).T.round(2).to_string())
for number, words in (("calls", "1: calls"), ("success", "2: right")):
    more = recorded("react", f"calls_shown_{number}") - recorded("react", f"alone_{number}")
    claim(f"{words}, more with examples: {evaluate.mean(more['prompt only'])}", more["prompt only"] >= 0.3)

# %% [markdown]
# The same weights call in one task of eight or in all, as the prompt shows; after two examples without calls they hardly
# call at all. The price is paid in tokens: the examples are read again with every task.

# %% [markdown]
# ## 2 · Toolformer: the text itself asks for a call
#
# Nobody has to write traces with calls. **Toolformer** (Schick et al. 2023) takes plain texts, lets the model put calls in
# where it finds `<act>` likely, carries them out, and asks each time: *does the result make what follows likelier?*
#
# $$\text{gain} = \min\big(L(\text{no call}),\, L(\text{call, no result})\big) - L(\text{call, result}), \qquad
# L = -\sum_{j \ge i} w_{j-i} \log \pi(x_j \mid \ldots)$$
#
# $x_i$ is the token after the call; the weights $w_t \propto \max(0, 1 - 0.2\,t)$ add up to 1. A call stays if its gain
# is at least $\tau$; here $\tau = 0.5$ nats a token. Then the model is fine-tuned on the texts with these calls in them.

# %%
texts = demonstrate(novice, envs.Calc(), range(budget.pick(smoke=40, cpu=400, gpu=400)), by_head)
calls = insert_calls(novice, texts, ch08_imitation.CALCULATOR)
kind = np.array(["product" if " boxes" in text.text else "sum" for text in texts])
gains = {k: [c.gain for c in calls if kind[c.source] == k] for k in ("sum", "product")}
figure, ax = plt.subplots(figsize=(7, 2.6))
for (k, values), colour in zip(gains.items(), (lab.style.BLUE, lab.style.VERMILLION)):
    ax.hist(np.clip(values, -3, 3), np.linspace(-3, 3, 25), histtype="stepfilled", color=colour, alpha=0.7, label=f"{k}s")
ax.axvline(ch08_imitation.LEAST, color=lab.style.GREY, linestyle="--")
ax.set(xlabel="gain, nats a token, cut at ±3 (τ dashed)", ylabel="calls")
ax.legend();

# %% [markdown]
# The novice knows sums by heart: the result of a call tells it little that it did not know. Of a product it tells nearly
# all. And a call with a slip in it, `py 53*11` for 53 · 18, makes the right answer *less* likely. The gain of one call by
# hand:

# %%
def loss(call: str) -> float:
    """L of what follows, with something written before it."""
    tokens = texts[one.source].tokens
    row = [*tokens[: one.position], *encode(novice.tokenizer, call), *tokens[one.position :]]
    with torch.no_grad():
        logp = novice(torch.tensor([row]))[0].log_softmax(-1)
    first = len(row) - len(tokens) + one.position
    return weighted_loss(torch.stack([logp[i - 1, row[i]] for i in range(first, len(row))]))


one = calls[int(np.argmax([c.gain for c in calls]))]
losses = loss(""), loss(f"{one.call}<obs></obs>"), loss(f"{one.call}<obs>{one.result}</obs>")
assert abs(min(losses[:2]) - losses[2] - one.gain) < 1e-4
print(one.episode.text, "\nno call %.2f, call alone %.2f, call and result %.2f" % losses, f"→ gain {one.gain:.2f}")

# %% [markdown]
# Fine-tuning on what was kept, now:

# %%
kept = ch08_imitation.best_calls(calls, ch08_imitation.LEAST)
mixed = [kept[i].episode if i in kept else text for i, text in enumerate(texts)]
student = models.load("calc-novice")
for _ in imitate(student, mixed, **ch08_imitation.RETRAIN | dict(steps=budget.pick(smoke=2, cpu=60, gpu=60))):
    pass
measures = {"before": ch08_imitation.measure_calls(novice), "after": ch08_imitation.measure_calls(student)}
pd.DataFrame(measures).round(3)

# %% [markdown]
# **Claims, in every seed:** (1) a call is kept in at least 0.5 more of the products than of the sums; (2) products right:
# at least 0.3 above the novice; (3) the filter leaves sums alone: where every text keeps its best call, whatever it gains, at
# least 0.3 more of the sums are answered with a call.

# %% tags=["nbval-check-output"]
found = experiments.recorded("08_tool_use/toolformer")
print(beside("toolformer", "product_success", "sum_calls"))
first = pd.DataFrame([run[0] for run in found.curves["calls that help"]])
claim("1: calls kept, products over sums", first["kept_product"] - first["kept_sum"] >= 0.5)
before = found.values("calls that help", "product_success", "before")
claim("2: products right, over the novice", recorded("toolformer", "product_success")["calls that help"] - before >= 0.3)
sums = recorded("toolformer", "sum_calls")
claim("3: calls on sums without the filter", sums["every call"] - sums["calls that help"] >= 0.3)

# %% [markdown]
# Nobody marked where a call helps; but the texts had to hold right answers, also to products. Without any calls the same fine-tuning does harm: plain texts teach to answer products at once, and
# the calls that the novice made now and then are gone.

# %% [markdown]
# ## 3 · FireAct: imitate an expert's traces
#
# The plainest way: collect traces of an expert who always calls, and fine-tune (**FireAct**, **AgentTuning**). Then no
# examples are needed in the prompt. Start: the reader of experiment 1, 40 updates.
#
# **Claims:** products right (1) more often than after two examples in the prompt, in every seed, (2) with less than half of
# the tokens in a task, prompt and answer together.

# %% tags=["nbval-check-output"]
shown, traces = recorded("react", "calls_shown_success")["prompt only"], recorded("react", "alone_success")["traces"]
tokens = recorded("react", "calls_shown_tokens")["prompt only"], recorded("react", "alone_tokens")["traces"]
columns = {"two examples": shown, "traces": traces, "tokens, two examples": tokens[0], "tokens, traces": tokens[1]}
print(pd.DataFrame(columns).round(3).to_string())
claim(f"1: traces − examples: {evaluate.mean(traces - shown)}", traces > shown)
claim("2: less than half of the tokens", tokens[1] < 0.5 * tokens[0])

# %% [markdown]
# # Part two: calls that pay
#
# ## What is trained, and what is not
#
# The observation is part of the sequence, but nobody's choice. The objective of tool-integrated RL is that of chapter 00
# with the sum over *sampled* tokens only:
#
# $$L = -\frac1G\sum_i \frac1{n_i}\sum_t m_{i,t}\, r_{i,t}\, A_i, \qquad
# m_{i,t} = \begin{cases}1 & \text{the policy sampled the token}\\ 0 & \text{it was forced.}\end{cases}$$
#
# $r_{i,t}$ is the ratio of the token's probability now to that when it was sampled, $A_i$ the advantage of try $i$, $n_i$ its number
# of sampled tokens. (GRPO's clip is left out: before the first step every ratio is 1.) By hand, on sixteen real episodes,
# against the library:

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
# ## 4 · Imitation against outcome reward
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
# What it does now. Turning to `abacus` is no invention: those from whom the novice learned did it one time in ten, and it
# did so in 14 % of such tasks. RL selected it, because reward followed.

# %%
puzzled = [e for e in records[-1].episodes if e.infos[-1]["failed"] and e.infos[-1]["kind"] == "product"]
lab.microscope(list({e.seed: e for e in puzzled}.values())[:3])

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
by_seed = pd.DataFrame(rows, index=[f"seed {o['seed']}" for o in failing.outcomes["outcome RL"]])
by_seed.round(3)

# %% tags=["nbval-check-output"]
gap = evaluate.mean(by_seed["outcome RL", "success"] - by_seed["imitation", "success"])
print("outcome RL − imitation:", gap)
first = bool((by_seed["outcome RL", "success"] - by_seed["imitation", "success"] >= 0.15).all())
second = bool((by_seed["outcome RL", "switch_share"] > 0.9).all())
print("claim 1 (at least 0.15 in every seed):", "holds" if first else "FAILED")
print("claim 2 (turns to the other tool in more than 0.9):", "holds" if second else "FAILED")

# %%
lab.curves({"outcome RL": failing.curves["outcome RL"]}, y="success", smooth=5);

# %% [markdown]
# Imitation of clean traces never meets a tool that is down, so it cannot teach what to do then; the little that the novice knew
# of it is gone (14 % → 4 %). Traces of an expert who met the dead tool would show it; the gap is one of data, not of the loss.
# What does the imitator do? It calls, as it was shown, and calls again. With a tool that works it is as good as RL, or better. (In a first version of this
# world every call failed by chance and asking again was the right thing to do. There imitation did almost as well as RL, for
# the wrong reason: it had learned to call, so it called again. A test must tell habit from insight.)

# %%
columns = {"product_success": "right, tool works", "product_failing_success": "right, tool down in 30 %",
           "product_failing_calls": "calls a task, tool down in 30 %"}
compared = {arm: {words: pd.Series(failing.values(arm, name)).mean() for name, words in columns.items()}
        for arm in ("imitation", "outcome RL")}
pd.DataFrame(compared).round(3)

# %% [markdown]
# ## 5 · When: a price for every call
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
# ## 6 · Which: two tools, tasks for either
#
# `Mixed` asks for a number or for a fact, and has the calculator and a search engine at hand in both. `mixed-novice` can use
# either, but takes one of them blindly; with the wrong one it gives up and guesses.

# %%
lab.microscope(evaluate.episodes(models.load("mixed-novice"), envs.Mixed(), 3, limits=ch08_choice.MIXED["limits"]), first=3)

# %% [markdown]
# Traces as one finds them are like that: not all who leave them chose well. Three ways to go on, with 256 episodes an update: imitate
# **all traces**; imitate only the **right traces**, those that ended with the right answer; **outcome RL**. Imitation gets 40
# updates, RL 20.
#
# **Claims, of tasks that need a tool, in every seed:** outcome RL begins with the right tool (1) in more than 0.9 and (2)
# more often than imitation of all traces.

# %% tags=["nbval-check-output"]
right = recorded("which", "right_tool")
correct = {kind: recorded("which", f"{kind}_success").mean() for kind in ("sum", "product", "fact")}
print(right.round(2).to_string(), "\n\nright answers, means over seeds")
print(pd.DataFrame(correct).T.round(2).to_string())
claim("1: the right tool in more than 0.9", right["outcome RL"] > 0.9)
claim("2: more often than traces", right["outcome RL"] > right["traces"])

# %% [markdown]
# Who imitates everything keeps the habit. But imitation of the *right* traces chooses as well as RL and is right more often:
# to keep what ended well is selection by outcome too, done by whoever collects the traces, and here an expert writes the
# rest of them. Outcome RL had nobody's traces, only its own tries.

# %% [markdown]
# ## 7 · From almost no calls
#
# Do we need traces at all? **ToolRL** and **ToRL** start from models that were never shown how to solve tasks with the tool.
# We make the novice shy: imitation of answers by head, with a call in 1 % of tasks, or in none. Then outcome reward alone.
#
# **Claims, from 1 %, in every seed:** in the end (1) it calls in more than 0.8 of the products, (2) more than 0.7 are right.

# %% tags=["nbval-check-output"]
found = experiments.recorded("08_tool_use/few")
print(beside("few", "call_share", "success"))
claim("1: calls", recorded("few", "call_share")["1 % call"] > 0.8)
claim("2: right", recorded("few", "success")["1 % call"] > 0.7)

# %%
lab.curves(found.curves, y="call_share", smooth=3);

# %% [markdown]
# One shown call in a hundred is enough, none is not: outcome reward selects, and there must be something that succeeds. (Before
# RL, in seeds 10 and 11 with 4,096 tasks each: after 1 % it calls in 6 tasks of 1,000 and four in ten of these end right. After
# none it still calls in 2 of 1,000, but has unlearned to copy what it is told: none ended right.)
#
# (ToolRL also pays a little for the right *form* of a call. That helps a model that does not know the form; this one does.)

# %% [markdown]
# ## 8 · What a tool makes reachable
#
# Is a tool only a short cut? Our reader cannot multiply three-digit numbers by head. **Lin and Xu (2025)** make an
# argument about *support*: outcome RL makes likelier what the policy does now and then, but an answer of probability zero
# stays there. A call puts answers into reach that no number of tries finds without it, and in few tokens. (Their ASPO,
# which pays for early calls in the advantage, is in chapter 05.)
#
# The reader of experiment 1 has seen three-digit products with and without the tool. Nothing is trained.
#
# **Claims, in each of three sets of tasks:** (1) one try with the tool is right in more than 0.75 of cases; (2) 256 tries
# without it find the answer in less than 0.1 of the tasks. (The first threshold was 0.8; it was lowered when the reader was
# made, before these runs, of which one would have missed it.)

# %% tags=["nbval-check-output"]
found = experiments.recorded("08_tool_use/reach")
reach = pd.DataFrame([run[-1] for run in found.curves["as it is"]], index=[f"set {i}" for i in (1, 2, 3)])
print(reach.drop(columns=["arm", "seed", "step"], errors="ignore").round(3).T.to_string())
claim("1: one try with the tool", reach["tool_1"] > 0.75)
claim("2: 256 tries without", reach["text_256"] < 0.1)

# %%
figure, ax = plt.subplots(figsize=(5, 2.8))
ks = [4**n for n in range(5)]
ax.plot(ks, [reach[f"text_{k}"].mean() for k in ks], "o-", color=lab.style.BLUE, label="without the tool")
ax.axhline(reach["tool_1"].mean(), color=lab.style.VERMILLION, linestyle="--", label="one try with it")
ax.set(xscale="log", xticks=ks, xticklabels=ks, xlabel="tries", ylabel="found in one of them", ylim=(0, 1.02))
ax.legend();

# %% [markdown]
# (A softmax gives nothing a probability of exactly zero, and 256 tries did find one product of 32 in two of the sets. What
# counts is what a budget of tries can find. 256 answers by head cost 1,800 tokens, one call and its answer 17.)

# %% [markdown]
# # Part three: many calls in a row
#
# ## 9 · Which of the calls earned it?
#
# A question of three hops, ` what is job of ruler of birthplace of ada ?`, takes seven turns in `Wiki`: three times search
# and open, then the answer. `wiki-novice` can read and follow links, but in three turns of ten it does anything: it
# searches for the wrong word, opens the wrong passage, answers too early. (Colour the tokens by *advantage* and switch the
# estimator.)

# %%
wiki, limits = models.load("wiki-novice"), ch08_choice.WIKI["limits"]
tried = evaluate.episodes(wiki, ch08_choice.THREE_HOPS, budget.pick(smoke=24, cpu=64, gpu=64), tries=8, limits=limits)
winner = max((e for e in tried if e.success), key=lambda e: e.turns)
group = [winner, *(e for e in tried if e.group == winner.group and e is not winner)]
lab.microscope(group, first=1, algorithms=[GRPO(), GiGPO(), TurnGRPO(judge=ch08_choice.nearer)])

# %% [markdown]
# Three ways to share out the credit, at equal tries:
#
# - **GRPO**: the outcome, the same for every turn.
# - **GiGPO** (chapter 05): beside that, turns of the task's tries that were taken after the same observation are compared.
# - **Turn reward** (`TurnGRPO`, after MT-GRPO): beside that, 1 for each turn that brings the answer nearer: the first to find, or to open,
#   the next passage of the chain. It takes a judge that knows the chain.
#
# (Both also take the mean over all tokens, as their papers do; GRPO takes it try by try.)
#
# **Claims, means over seeds with their 95 % intervals:** against GRPO, (1) success over all updates is higher with GiGPO and (2)
# with turn reward; in the end there are fewer wasted turns for each success with (3) GiGPO and (4) turn reward.

# %% tags=["nbval-check-output"]
found = experiments.recorded("08_tool_use/hops")
wasted = recorded("hops", "wasted")
area = {arm: [np.mean([r["success"] for r in run]) for run in runs] for arm, runs in found.curves.items()}
area = pd.DataFrame(area, index=wasted.index)
print(area.round(2).to_string(), "\n\n" + beside("hops", "success", "wasted", "turns"))
for number, arm in ((1, "GiGPO"), (2, "turn reward")):
    gap = evaluate.mean(area[arm] - area["GRPO"])
    claim(f"{number}: success over all updates, {arm} − GRPO: {gap}", gap.low > 0)
for number, arm in ((3, "GiGPO"), (4, "turn reward")):
    gap = evaluate.mean(wasted[arm] - wasted["GRPO"])
    claim(f"{number}: wasted turns a success, {arm} − GRPO: {gap}", gap.high < 0)

# %%
lab.curves(found.curves, y="success", smooth=5);

# %% [markdown]
# Claim 2 holds, the others failed. Of claim 4 only the interval failed: wasted turns are fewer with the turn reward in every
# seed, by 0.9 to 1.4 in three seeds and by 12 and 15 in two, and a mean over gaps like these is not worth much. But why do
# runs on the outcome differ so much from seed to seed? Look at what the novice's wins are:

# %%
won = [e for e in tried if e.success]
followed = np.mean([sum(ch08_choice.advances(e)) == 7 for e in won])
print(f"{len(won)} of {len(tried)} tries won; {followed:.0%} of these had followed the whole chain")

# %% [markdown]
# Most are lucky guesses: there are eight jobs and six regions to choose from. Credit from the outcome, shared out over turns
# or not, first pays those who guess early, and some runs are slow to get away from that. GiGPO's seed 12 never did: it ends
# with less than four turns a task. The turn reward is not fooled, but it takes a judge who knows the chain. A real search has
# none. To learn one, as **SPA-RL** does, without punishing useful detours, is what the survey names as open.

# %% [markdown]
# # What breaks
#
# ## 10 · Paying for the call instead of the answer
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
# reward rose nearly all the way; only the success curve tells. The survey asks for credit over tool sequences that neither
# punishes useful exploration nor invites such hacks; a price for calls, or a reward for outcomes alone, is safe
# against this one.

# %% [markdown]
# ## 11 · The tool's words in the loss
#
# The mask of Part two is easily lost: rebuild it from text, or take "all tokens behind the prompt", and the policy is
# trained on what the *tool* said. Nothing crashes, and the reward goes up all the same. What is the harm?
#
# The runs below train products from the novice: **sampled tokens** (right), **results too** (the same, with the results in
# the loss), and an **imitation** of expert traces with the same bug. We measure how little a real result was expected
# (loss, nats a token), and let each policy write on where nobody stops it at `</act>`: does it write a result by itself?
#
# **Claims, in every seed:** (1) with results in the loss of RL, real results surprise the policy at least 1.5 nats a token less
# than with the right mask; (2) after the imitation it invents a result in more than half of the tasks; (3) with the right
# mask never.

# %% tags=["nbval-check-output"]
outcomes = experiments.recorded("08_tool_use/leak").outcomes
means = {arm: pd.DataFrame([o["after"] for o in found]).mean() for arm, found in outcomes.items()}
table = pd.DataFrame({"novice": outcomes["results too"][0]["before"]} | means)
print(table.drop("call_share").round(2).T.to_string())
surprise, made_up = recorded("leak", "result_loss"), recorded("leak", "invented")
claim("1: surprise", surprise["sampled tokens"] - surprise["results too"] >= 1.5)
claim("2: invents after imitation", made_up["imitation, results too"] > 0.5)
claim("3: never with the right mask", made_up["sampled tokens"] == 0)

# %% [markdown]
# Success is the same: the engine stops each turn at `</act>`, and a result is four digits long at most. What changed is what
# the policy *believes*. With the right mask nobody asked it what the tool will say, and real results surprise it even more
# than they surprised the novice. With the leak they surprise it less, and the entropy at results *rises*, to nearly that of
# a random digit (ln 10 = 2.3 nats): from falsely sure to rightly unsure. (A result here includes its tags `<obs>` and
# `</obs>`, which no right mask ever trains: about 11 nats a tag. Of the digits alone, in seed 10: loss 5.0 with the right mask, 2.6
# with the leak; entropy 1.1 and 2.0. `("leak", "results too")` in `now` measures it again.) Where results are long and can be foreseen, such as
# web pages, we would expect it to fall, and their many tokens to outweigh the policy's few.
#
# RL with the leak invents no result in these 60 updates: it hardly ever writes the closing tag. The imitation went further.
# Left alone it writes call, result and answer in one go, and no tool was asked:

# %%
liar = models.load("calc-novice")
for _ in ch08_choice.copied(liar, seed=0, steps=budget.pick(smoke=2, cpu=80, gpu=80)):
    pass
for episode in ch08_choice.unstopped(liar, 4):
    world = envs.Calc(("product",))
    world.reset(episode.seed)
    print(f"{episode.said(0)[:70]:70}  in truth {envs.calc.evaluate(world.expression)}")

# %% [markdown]
# ## On a GPU
#
# The same code trains a language model: SmolLM2-135M-Instruct with adapters of rank 8, on products told in English with the
# calculator, by GRPO. The cell runs at the `gpu` budget only, and the environment variable `ARL_REAL_MODEL` names another
# model. No claim rests on it. A model that never succeeds learns nothing from success: where the signal stays at 0, take a
# larger one.

# %%
if budget.name == "gpu":
    for record in ch08.REAL(experiments.real.policy(), seed=0):
        print(f"{record.step:3}  reward {record.reward:.3f}  malformed turns {record.malformed:.2f}  signal {record.signal_share:.2f}")

# %% [markdown]
# ## Where this stands
#
# - **ReAct** (Yao et al. 2022) interleaves thought, call and observation by prompting (1). **Search-o1** does so in long
#   reasoning. Our reader writes no thoughts.
# - **Toolformer** (Schick et al. 2023) lets texts choose their calls (2). **FireAct** and **AgentTuning** imitate traces (3, and
#   the imitation arm of 4).
# - **ToolRL**, **ReTool**, **ToRL** and **ARTIST** train on outcomes with the tool in the loop (4, 7). **AutoTIR** also on whether
#   and which (6), with a reward for the choice itself; ours pays the outcome alone.
# - **OTC-PO** prices calls (5); its reward is not ours to the letter (it scales the outcome), the idea is. **ASPO** argues from
#   support (8; its advantage is in chapter 05).
# - **GiGPO** and **SPA-RL** work on credit over many calls (9, chapters 05 and 13). **rStar2-Agent** keeps the cleanest of the
#   right traces, **DeepEyes** makes looking closer a tool call (chapter 12).
#
# All works that the survey places in §3.2, with what this project has of them:

# %%
survey_taxonomy.table("3.2")

# %% [markdown]
# **What does not transfer.** "Emergence" here is selection among behaviours that a warm start already had: one shown call in a
# hundred was enough, none was not. The reader follows examples because its last lessons were such pairs; prompting a large
# model into a *new* tool is another thing. A calculator never lies, and a search engine over 24 passages hardly ever.
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
# **08.5 Toolformer's filter.** `kept_calls(calls, least)` gets for each call three lists of log-probabilities of the tokens that
# follow: without the call, with the call but no result, with both. It returns the places of the calls to keep.

# %%
def kept_calls(calls, least: float) -> list[int]:
    """The places of the calls whose gain is at least `least`."""
    loss = lambda logps: weighted_loss(torch.tensor(logps))
    return [i for i, (none, empty, full) in enumerate(calls) if min(loss(none), loss(empty)) - loss(full) >= least]


lab.check("08.5", kept_calls)

# %% [markdown]
# ## In short
#
# - A tool's answer is forced into the row; only what the policy sampled is trained. With the tool's words in the loss it
#   learns to foresee results, and by imitation to write them itself.
# - Examples and traces teach *that* one calls; texts filtered by gain also where. Outcome reward teaches which tool, what to do
#   if it fails and, with a price, when; it needs a call now and then to select, and one in a hundred was enough.
# - A tool reaches what no number of tries finds without it.
# - What you pay for is what you get: answers, calls, or spam.
#
# Next: [09 · Memory](09_memory.ipynb): what to keep of a long stream.
#
# **References.** Zhang et al. 2025, arXiv 2509.02547, §3.2. Yao et al. 2022 (ReAct), arXiv 2210.03629. Schick et al. 2023
# (Toolformer), arXiv 2302.04761. Chen et al. 2023 (FireAct), arXiv 2310.05915. Zeng et al. 2023 (AgentTuning), arXiv
# 2310.12823. Qian et al. 2025 (ToolRL), arXiv 2504.13958. Li et al. 2025 (ToRL), arXiv 2503.23383. Feng et al. 2025 (ReTool),
# arXiv 2504.11536. AutoTIR 2025, arXiv 2507.21836. Wang et al. 2025 (OTC), arXiv 2504.14870. Lin and Xu 2025 (ASPO), arXiv 2508.19201.
# Feng et al. 2025 (GiGPO), arXiv 2505.10978. Zeng et al. 2025 (MT-GRPO), arXiv 2505.11821. SPA-RL 2025, arXiv 2505.20732.
