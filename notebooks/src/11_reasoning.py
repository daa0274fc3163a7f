# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 11 · Fast and slow reasoning
#
# **When is it worth to think before answering, and how does a policy learn to?** The survey (§3.5) borrows
# two words from psychology. *Fast* reasoning answers at once: cheap, and often wrong where the task is
# hard. *Slow* reasoning writes intermediate steps, checks them, searches among them: better, and dear. This
# chapter has one tiny policy that can do both. It measures what each mode is worth, repairs quick answers
# with votes and verifiers, trains slow thinking by reward and by search, hides thoughts in vectors, and
# then makes the policy stop thinking where that buys nothing.

# %%
import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import survey_taxonomy
import torch

from arl_mini import GRPO, collate, envs, evaluate, experiments, lab, models, train
from arl_mini.capabilities import reasoning, reasoning_latent, reasoning_rl
from arl_mini.experiments import ch11, ch11_latent, ch11_search

budget = lab.budget()
lab.style.use()
SEEDS = budget.pick(smoke=(10,), cpu=(10, 11, 12, 13, 14), gpu=(10, 11, 12, 13, 14))

# %% [markdown]
# Claims were written before the runs they speak of; some runs were cut in size, and one arm was
# dropped, before they were made. Those that train are recorded with three or five fresh seeds in
# `data/runs/11_reasoning`; to record some anew, name them in the next cell. To train one seed of
# one arm now, call `ch11.live("forks", "top 20 %", seed=0)`, or any other demonstration and arm named
# below.

# %%
again = ()  # such as ("rl", "forks", "latent")
for name in again:
    print(*experiments.record(f"{ch11.NAME}/{name}"), sep="\n")


def by_seed(name: str, number: str) -> pd.DataFrame:
    """What was measured after training: a row a seed, a column an arm."""
    found = experiments.recorded(f"{ch11.NAME}/{name}")
    rows = [f"seed {o['seed']}" for o in next(iter(found.outcomes.values()))]
    return pd.DataFrame({arm: found.values(arm, number) for arm in found.outcomes}, index=rows)


def claim(words: str, held, gap=()) -> None:
    """Prints whether a claim holds in every seed, and the mean of what it is about with its interval."""
    verdict = "holds" if bool(np.all(held)) else "FAILED"
    mean = f"; mean {evaluate.mean(gap)}" if len(gap) > 1 else ""
    print(f"{words}: {verdict} ({int(np.sum(held))} of {np.size(held)} seeds){mean}")

# %% [markdown]
# ## Two modes of one policy
#
# The world is `Chain`: add up to five digits from left to right, modulo 10. The policy may answer at once,
# or write the running sums first between `<think>` and `</think>`. Our start was taught the steps, then to
# answer at once, right answers both; its habit is to answer at once in seven tasks of ten.

# %%
start = models.load("chain-modes")
modes = ("thinking", "fast", "slow")  # how often it thinks, and how often either mode is right
card = {f"{d} sums": {m: start.card[f"depth_{d}_{m}"] for m in modes} for d in ch11.DEPTHS}
pd.DataFrame(card).T

# %% [markdown]
# The first token of a reply is the choice of the mode. We can take it out of the policy's hands.
# `slow(policy)` forces `<think>` behind the prompt; `fast(policy)` bars that token, and its probability
# goes to the others:
#
# $$\pi_{\text{fast}}(y_1 \mid x) = \frac{\pi(y_1 \mid x)}{1 - \pi(\texttt{<think>} \mid x)},
# \quad y_1 \ne \texttt{<think>}.$$
#
# (Qwen3, a hybrid model, forbids thinking by an empty thought put behind the prompt, and asks for it with a
# word in the prompt.) By hand, against the library, on real prompts:

# %% tags=["nbval-check-output"]
tried = evaluate.episodes(reasoning.fast(start), envs.Chain((3, 3)), 16, limits=ch11.LIMITS)
batch = collate(tried)
first = (batch.mask.cumsum(1) == 1) & (batch.mask > 0)
with torch.no_grad():
    free = models.score(start, batch).logp[first].exp()
thinks = torch.from_numpy(reasoning.mode_chance(start, envs.Chain((3, 3)), [e.seed for e in tried]))
assert torch.allclose(free / (1 - thinks), batch.old_logp[first].exp(), atol=1e-5)
print(f"it would think in {thinks.mean():.2f} of these tasks; barred, in none")

# %%
slow_tries = evaluate.episodes(reasoning.slow(start), envs.Chain((4, 4)), 2, limits=ch11.LIMITS)
lab.microscope([tried[0], *slow_tries])

# %% [markdown]
# ## Fast against slow, by depth
#
# **Claims**, over five sets of tasks: the gap in accuracy grows from one sum to four in every set (1), and
# at four sums slow − fast > 0.3 (2); slow costs at least three times the tokens there (3).

# %%
tasks = budget.pick(smoke=16, cpu=64, gpu=128)
rows = [r | {"seed": s} for s in SEEDS for r in ch11.modes_by_depth(start, s, tasks)]
table = pd.DataFrame(rows).pivot_table(index="depth", columns="mode", values=["right", "tokens"])
print(table.round(2).to_string())
sets = pd.DataFrame(rows).pivot(index="seed", columns=["depth", "mode"], values=["right", "tokens"])
gap = {d: sets["right", d, "slow"] - sets["right", d, "fast"] for d in ch11.DEPTHS}
claim("1: the gap at four sums is larger than at one", gap[4] > gap[1])
claim("2: slow − fast > 0.3 at four sums", gap[4] > 0.3, gap[4])
claim("3: at least three times the tokens", sets["tokens", 4, "slow"] >= 3 * sets["tokens", 4, "fast"])

# %%
figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained")
for ax, number, words in zip(axes, ("right", "tokens"), ("right (share)", "tokens a reply")):
    for index, mode in enumerate(("fast", "slow")):
        ax.plot(table.index, table[number][mode], marker="o", label=mode, **lab.style.line(index))
    ax.set(xlabel="sums in the chain", ylabel=words, xticks=ch11.DEPTHS, ylim=(0, None))
axes[0].legend();

# %% [markdown]
# Both modes were taught right answers only; one token for a sum of two digits it can do, one token for five
# digits it cannot. A written step turns one hard question into two easy ones.
#
# ## Many quick answers: self-consistency
#
# A vote over several tries helps where errors are *independent*: right answers agree, wrong ones scatter.
# For this we use a second start, `chain-careless`. It slips in one written step of ten, at random, and a
# bias is planted as well: where a 9 is to be added it mostly adds 8. **Claims**, on chains of three and
# four sums, five sets of tasks: with eight slow tries the vote is at least 0.1 better than one try in every
# set (1); with eight fast ones it is not, in any set (2).

# %%
careless = models.load("chain-careless")
tasks = budget.pick(smoke=16, cpu=96, gpu=128)
found = {(name, s): ch11_search.votes(view, s, tasks) for s in SEEDS
         for name, view in (("slow", reasoning.slow(careless)), ("fast", reasoning.fast(careless)))}
table = pd.DataFrame(found).T
print(table.groupby(level=0).mean().round(3).to_string())
gain = (table.vote - table.one).unstack(0)
claim("1: slow, the vote gains at least 0.1", gain.slow >= 0.1, gain.slow)
claim("2: fast, it gains less than 0.1", gain.fast < 0.1, gain.fast)

# %% [markdown]
# Eight guesses are no better than one: the policy has no more to say than a flat distribution over digits.
# The share of votes that the winner got is also a confidence. Is it honest? The expected calibration error
# is the mean distance between confidence and accuracy over bins of answers.

# %%
agreed = {name: ch11_search.agreement(view, 0, budget.pick(smoke=32, cpu=256, gpu=256))
          for name, view in (("slow", reasoning.slow(careless)), ("fast", reasoning.fast(careless)))}
figure, ax = plt.subplots(figsize=(5, 3), layout="constrained")
lab.calibration(agreed, ax=ax)
ax.set_title("the winner's share of eight votes as a confidence")
print({name: round(evaluate.ece(*told), 3) for name, told in agreed.items()})

# %% [markdown]
# Slow votes are off by a tenth: where few agree, the winner is right more often than its share says. Eight
# guesses always have a winner, mostly with two or three votes, and it is right one time in ten: the
# agreement of guesses means nothing.
#
# ## Confidence, and a verifier of steps
#
# A vote cannot mend what all tries do wrong: the 8 for a 9. Neither can the policy's own confidence, the
# mean log-probability of a reply. A **verifier of steps** is trained to tell where confidence is misplaced.
# Ours begins as the policy's confidence in each step, and labels correct it:
#
# $$p_\phi(\text{step right}) = \sigma\big(a \ln \pi_\phi(\text{step} \mid \text{before}) + b\big), \qquad
# \text{score of a reply} = \prod_{\text{steps}} p_\phi.$$
#
# Labels come from a rule that knows the truth (people, in *Let's Verify Step by Step*), or from the policy
# itself: play on from each step eight times; the step counts as right if more than a fifth of these succeed
# (*Math-Shepherd*; there a single success will do, but here a guess succeeds one time in ten). After the
# first mistake there are no labels. By hand, on one reply with a slip:

# %%
view, world, limits = reasoning.slow(careless), ch11_search.LONG, ch11.LIMITS
reply = next(e for e in evaluate.episodes(view, world, 64, limits=limits) if not e.success)
rerolled, _ = reasoning.reroll_labels(view, world, [reply], 8, limits=limits)
truth, ends = reasoning.true_labels(reply), reasoning.step_ends(reply)
print(reply.text)
steps = [reply.pieces[t] for t in ends]
pd.DataFrame({"step": steps, "rule": truth[ends], "re-rolls that succeed": rerolled[0][ends]})

# %% [markdown]
# **Claims** for the best of eight slow tries, three fresh seeds, in each: verifier with labels by rule >
# log-probability > random (1); verifier with labels by re-rolls > log-probability (2). All choose among the
# same tries, so all have spent the same tokens; `tokens` is what the labels cost once.

# %% tags=["nbval-check-output"]
runs = experiments.recorded(f"{ch11.NAME}/verifier")
rows = {(arm, f"seed {o['seed']}"): run[-1] for arm, seeds in runs.curves.items()
        for run, o in zip(seeds, runs.outcomes[arm])}
table = pd.DataFrame(rows).T
print(table.drop(columns=["arm", "seed", "step"]).astype(float).round(3).to_string())
rule, rerolls = table.loc["labels by rule"], table.loc["labels by re-rolls"]
order = (rule["verifier"] > rule["log-prob"]) & (rule["log-prob"] > rule["random"])
claim("1: rule > log-probability > random", order)
more = (rerolls["verifier"] - rerolls["log-prob"]).astype(float)
claim("2: re-rolls > log-probability", more > 0, more)

# %%
ways = ["random", "log-prob", "vote", "verifier", "vote, weighed by the verifier", "any right"]
figure, ax = plt.subplots(figsize=(6.4, 2.6), layout="constrained")
for index, arm in enumerate(runs.curves):
    heights = table.loc[arm][ways].astype(float)
    at = np.arange(len(ways)) + (index - 0.5) * 0.36
    ax.barh(at, heights.mean(), height=0.34, color=lab.style.COLOURS[index], label=arm)
    ax.plot(heights.T, np.tile(at[:, None], len(heights)), ".", color=lab.style.GREY, markersize=5)
ax.set(yticks=np.arange(len(ways)), yticklabels=ways, xlim=(0, 1), xlabel="right (points: seeds)")
ax.invert_yaxis()
ax.legend(loc="center left", bbox_to_anchor=(1, 0.5));

# %% [markdown]
# Is it the thinking or the compute? Eight slow tries cost as many tokens as 26 fast ones. All ways, against
# the tokens that they sample for one task (the verifier is made live, its labels not counted):

# %%
steps, tasks = budget.pick(smoke=2, cpu=100, gpu=100), budget.pick(smoke=16, cpu=128, gpu=256)
verifier, _ = ch11_search.make_verifier(careless, 0, by_rule=True, steps=steps)
bought = pd.DataFrame(ch11_search.accuracy_vs_tokens(careless, verifier, 0, tasks))
figure, ax = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
for index, (way, rows) in enumerate(bought.groupby("way")):
    ax.plot(rows.tokens, rows.right, marker="o", label=way, **lab.style.line(index))
ax.set(xscale="log", xlabel="tokens a task", ylabel="right (share)", ylim=(0, 1))
ax.set_xticks([2, 4, 8, 16, 32, 64], labels=["2", "4", "8", "16", "32", "64"])
ax.minorticks_off()
ax.legend();

# %% [markdown]
# None of these numbers of guesses buys what one thought does; among thoughts, the verifier makes more of
# the same tokens than the vote.
#
# ## Slow thinking by reinforcement
#
# Nobody has to say "think". GRPO on the outcome alone (reward 1 for the right last digit) finds out that
# replies with a thought are paid more often. This is the small version of the curve that made DeepSeek-R1
# known. Here replies grow longer because longer ones are right; how much of the growth in large models is
# that, and how much GRPO's length bias (chapter 04), is disputed. **Claims**, five fresh seeds, in each:
# thinking and success both rise by at least 0.3 (1); a reply grows by at least 1.5 tokens (2). One seed
# live:

# %%
policy = models.load("chain-modes")
settings = ch11.CHAIN | dict(steps=budget.pick(smoke=2, cpu=25, gpu=25))
run = train(policy, ch11.MIXED, GRPO(), seed=0, **settings)
live = lab.live(run, title="When is thinking paid?", show=("success", "entropy", "tokens"))
live

# %%
records = await live.done()
now = ch11.measure_chains(policy)
print({name: round(value, 2) for name, value in now.items()})

# %% tags=["nbval-check-output"]
rl = experiments.recorded(f"{ch11.NAME}/rl")
print("made by:", rl.command)
numbers = ("success", "thinking", "tokens")
table = pd.DataFrame({(when, n): rl.values("GRPO", n, when) for when in ("before", "after") for n in numbers})
table.index = [f"seed {o['seed']}" for o in rl.outcomes["GRPO"]]
print(table.round(2).to_string())
rise = table["after"] - table["before"]
claim("1: thinking and success rise by 0.3", (rise.thinking >= 0.3) & (rise.success >= 0.3), rise.success)
claim("2: 1.5 tokens more", rise.tokens >= 1.5, rise.tokens)

# %%
figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained")
for ax, number, words in zip(axes, ("thinking", "length"), ("thinking (share)", "tokens a reply")):
    lab.curves({"GRPO": rl.curves["GRPO"]}, y=number, ax=ax, ylabel=words)

# %% [markdown]
# ## Few tokens carry the learning: the 80/20 rule
#
# At most tokens of a thought the policy is sure. The few with high entropy are forks: here above all the
# first token, where it chooses between thinking and a digit. The 80/20 work trains on the fifth with the
# highest entropy alone:
#
# $$L = \frac{1}{\sum_i n_i} \sum_{i,t} m_{i,t}\, \mathbb{1}[H_{i,t} \ge \tau_{20\%}]\; \ell_{i,t}$$
#
# ($\ell$: GRPO's clipped loss of a token; $m = 1$ where it was sampled; $H$: entropy; $\tau_{20\%}$: what a
# fifth of the sampled tokens reach.) By hand, against the library's mask, on a real batch:

# %% tags=["nbval-check-output"]
batch = collate(evaluate.episodes(start, ch11.MIXED, 16, 8, limits=ch11.LIMITS))
with torch.no_grad():
    entropy = models.score(start, batch).entropy
kept = reasoning_rl.entropy_mask(entropy, batch.mask, 0.2)
ranked = entropy[batch.mask > 0].sort(descending=True).values
n = math.ceil(0.2 * len(ranked))
assert kept.sum() == n and torch.equal(entropy[kept > 0].sort(descending=True).values, ranked[:n])
opens = (batch.mask.cumsum(1) == 1) & (batch.mask > 0)
print(f"{n} of {len(ranked)} sampled tokens are kept; {(kept * opens).sum() / n:.0%} are first tokens")

# %% [markdown]
# **Claims**, five fresh seeds, in each: trained on the top 20 % alone, success ends at most 0.03 below that
# of training on all tokens (1); trained on the bottom 80 %, it ends lower than on the top 20 % (2).

# %% tags=["nbval-check-output"]
success = by_seed("forks", "success")
print(success.round(3).to_string())
claim("1: top 20 % at most 0.03 below all", success["top 20 %"] >= success["all tokens"] - 0.03)
less = success["top 20 %"] - success["bottom 80 %"]
claim("2: bottom 80 % below top 20 %", less > 0, less)

# %%
forks = experiments.recorded(f"{ch11.NAME}/forks")
figure, ax = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
lab.curves(forks.curves, y="success", smooth=3, ax=ax);

# %% [markdown]
# The other four fifths teach as well, only more slowly. They are not free of forks: a fifth of the tokens
# has no room for all first tokens (83 places, 128 replies), and the rest of these is trained there.
#
# ## Slow thinking by search
#
# The other way to a slow thinker: let a **search** write good chains, and imitate those. From
# `chain-careless`, a beam of two beginnings a task grows four ways at each step; a step verifier (labels by
# rule) says which two stay. rStar-Math and Marco-o1 do this with tree search. Chains that end right are
# imitated for 60 updates. Beside it: GRPO, and imitation of right replies that were merely sampled, for
# 8,000 tokens. **Claim**, three fresh seeds, in each: the search reaches at least 0.9 of GRPO's gain with
# fewer sampled tokens, those for the labels counted.

# %% tags=["nbval-check-output"]
search = experiments.recorded(f"{ch11.NAME}/search")
success, before = by_seed("search", "success"), search.values("GRPO", "success", "before")[0]
spent = {arm: [sum(r["generated"] for r in run) for run in seeds] for arm, seeds in search.curves.items()}
tokens = pd.DataFrame(spent, index=success.index)
print(f"success ({before:.2f} before) and tokens sampled")
print(pd.concat({"success": success.round(3), "tokens": tokens}, axis=1).to_string())
share = (success["search"] - before) / (success["GRPO"] - before)
claim("0.9 of the gain, fewer tokens", (share >= 0.9) & (tokens["search"] < tokens["GRPO"]), share)
print("thinking afterwards\n" + by_seed("search", "thinking").round(2).to_string())

# %% [markdown]
# The search ends above GRPO with little more than a quarter of its tokens. It was told more: a rule that
# knows every step; and each of its replies was made to think. (Labels by re-rolls cost 20,000 tokens, see
# the table above, more than GRPO's whole training. An arm with them, claimed to reach 0.9 of the gain as
# well, was dropped for that before it ran.) Right replies that were merely sampled hold lucky guesses, too,
# and those are imitated as well: thinking ends at 0.89 to 0.95.
#
# ## Thoughts that are not written: latent reasoning
#
# A written step passes one token on. **Coconut** passes a *hidden state* on: the last state, with the
# model's last norm (and here scaled to the length of an embedding: both are in $N$), is fed back as the next
# input, and no token is read in between.
#
# $$z_1 = N(h_{\texttt{<think>}}), \qquad z_{j+1} = N(h_{z_j}), \qquad \text{then tokens again.}$$
#
# A curriculum moves there: in stage $s$ the first $s$ written steps are left out and $s$ vectors stand in
# their place. Our engine feeds tokens only, so the layers are run by hand here; that they are the model's
# own is asserted first.

# %%
shown = ch11_latent.written(start, range(4))
rows = torch.tensor([e.tokens.tolist() for e in shown])
states = reasoning_latent.states(start, start.embed[rows])
assert torch.allclose(states, start.hidden(rows), atol=1e-4)
before, after = reasoning_latent.parted(start, shown, dropped=2)
x = reasoning_latent.LatentThought(start, k=2).inputs(before)
print(shown[0].text, "→", tuple(before.shape), "tokens before,", x.shape[1] - before.shape[1],
      "vectors,", tuple(after.shape), "tokens after")

# %% [markdown]
# Chains of three sums, 120 updates in two stages, all from `chain-modes`. **Claims**, three fresh seeds, in
# each, at equal visible tokens: latent thoughts are at least 0.3 above leaving the steps out (1) and above
# fillers, as many positions without feedback (2); and at most 0.05 below written steps (3). One seed of the
# latent arm, live:

# %%
policy = models.load("chain-modes")
arm = ch11_latent.Stages(latent=True)
untrained = ch11_latent.readable(arm.thought(policy, 2))
rows = list(arm(policy, seed=0, each=budget.pick(smoke=1, cpu=40, gpu=40)))
print(f"{rows[-1]['step']} updates, right {rows[-1]['right']:.2f} with {rows[-1]['visible']} visible tokens")
held = ch11_latent.readable(arm.thought(policy, 2))
for when, shares in (("before", untrained), ("after", held)):
    print(f"a vector's likeliest token is the step left out, {when}:", [round(share, 2) for share in shares])

# %% tags=["nbval-check-output"]
latent = experiments.recorded(f"{ch11.NAME}/latent")
names = [f"seed {o['seed']}" for o in latent.outcomes["latent"]]
ends = {arm: [run[-1] for run in seeds] for arm, seeds in latent.curves.items()}
right = pd.DataFrame({arm: [r["right"] for r in rows] for arm, rows in ends.items()}, index=names)
print(right.round(3).to_string())
print("visible tokens:", {arm: rows[0]["visible"] for arm, rows in ends.items()})
for number, other in enumerate(("left out", "filler"), 1):
    more = right["latent"] - right[other]
    claim(f"{number}: latent − {other} > 0.3", more > 0.3, more)
claim("3: at most 0.05 below written", right["latent"] >= right["written"] - 0.05)

# %% [markdown]
# With as few visible tokens as steps left out, latent thoughts do as well as written steps. Fillers do not:
# for this small model, places to compute in are not enough, the state must come back in. And what is in the
# vectors? Read through the model's own head, the likeliest token of each is the step that was left out: the
# step is there, unwritten. (In the first vector it was from the start, since the state behind `<think>`
# foretells the first step; the second had to learn it.)
#
# Between the two stands **Soft Thinking**: no training; each thought is the *mixture* of all next tokens'
# embeddings, weighed by their probabilities. The more uncertain the policy (here: the higher the
# temperature), the more a drawn token throws away. **Claim**: at temperature 2, mixtures are right more
# often than drawn tokens, on each of five sets.

# %%
tasks = budget.pick(smoke=16, cpu=128, gpu=256)
rows = [r | {"seed": s} for s in SEEDS for r in ch11_latent.soft_against_hard(start, s, tasks=tasks)]
soft = pd.DataFrame(rows).set_index(["seed", "temperature"])
print(soft.groupby(level="temperature").mean().round(3).to_string())
hot = soft.xs(2.0, level="temperature")
more = hot["mixtures"] - hot["drawn tokens"]
claim("mixtures > drawn tokens at temperature 2", more > 0, more)

# %% [markdown]
# Best of all, where drawing is what does the harm, is not to draw: the likeliest token of each step needs no
# mixture. A mixture keeps what else was likely, and this world never needs a second thought.
#
# ## When does thinking pay? A price on tokens
#
# So far tokens were free. Let each sampled token cost $c$: the reward is *right* $- c\,n$. Slow thinking
# pays where it buys more accuracy than it costs:
#
# $$p_{\text{slow}}(d) - p_{\text{fast}}(d) > c\,(n_{\text{slow}}(d) - n_{\text{fast}}(d)).$$
#
# With $c = 0.08$ and the accuracies above it pays from two sums on. Does the policy find that out?
# **Claims**, three fresh seeds, in each: after 60 updates the rate of thinking rises with depth, Spearman's
# correlation above 0.8 (1); the pay is higher than that of the same training with either mode fixed (2).

# %% tags=["nbval-check-output"]
adaptive = experiments.recorded(f"{ch11.NAME}/adaptive")
rates = pd.DataFrame({d: by_seed("adaptive", f"thinking_{d}")["free"] for d in ch11.DEPTHS})
print("thinking, by depth\n" + rates.round(3).to_string())
arms = {"free": "free", "always fast": "fast", "always slow": "slow"}  # arm → the mode it is paid in
pay = pd.DataFrame({arm: by_seed("adaptive", mode)[arm] for arm, mode in arms.items()})
print("pay\n" + pay.round(3).to_string())
claim("1: Spearman > 0.8", [ch11.spearman(ch11.DEPTHS, row) > 0.8 for row in rates.to_numpy()])
more = pay["free"] - pay[["always fast", "always slow"]].max(axis=1)
claim("2: free above both", more > 0, more)
started = adaptive.outcomes["free"][0]["before"]
print("the start, before any training:", {mode: round(started[mode], 3) for mode in ("free", "fast", "slow")})
print("free − the start made to think (no claim beforehand):", evaluate.mean(pay["free"] - started["slow"]))
runs = adaptive.curves.items()
signal = {arm: np.mean([r["signal_share"] for run in seeds for r in run]) for arm, seeds in runs}
print("groups with contrast:", {arm: f"{share:.0%}" for arm, share in signal.items()})

# %%
figure, ax = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
before = [adaptive.values("free", f"thinking_{d}", "before")[0] for d in ch11.DEPTHS]
ax.plot(ch11.DEPTHS, before, label="before", **lab.style.line(1))
for _, row in rates.iterrows():
    ax.plot(ch11.DEPTHS, row, marker="o", **lab.style.line(0))
ax.plot([], [], label="after, a line a seed", **lab.style.line(0))
ax.set(xlabel="sums in the chain", ylabel="chance of thinking", xticks=ch11.DEPTHS, ylim=(-0.03, 1.03))
ax.legend();

# %% [markdown]
# It stopped thinking about single sums, where a thought of no steps costs two tokens and buys hardly
# anything, and thinks about nearly all chains of three and four. Two sums are on the way. The gain over
# always thinking is small, as it must be: it is earned on a quarter of the tasks, two tokens each. And part
# of claim 2 is owed to a weak opponent: the start, made to think always, earns more than the arm that was
# trained so, and the lead over *it* is not sure with three seeds. (Where all replies are right and equally
# long, few groups have any contrast, and training has little but noise to follow.)

# %% [markdown]
# ## Overthinking, and two cures
#
# `chain-doubting` writes its sums, then the same sums again, up to four times. **ThinkPrune** sets a limit
# of tokens beyond which a right answer earns nothing, and lets it shrink (24, 16, 8). The second cure is a
# small price on *right* answers. The control is GRPO with neither. **Claims**, three fresh seeds, in each:
# the shrinking limit cuts tokens by at least 40 % with accuracy at most 0.03 lower than at the start (1),
# and ends with fewer tokens than plain GRPO (2).

# %% tags=["nbval-check-output"]
doubting = experiments.recorded(f"{ch11.NAME}/overthinking")
tokens, success = by_seed("overthinking", "tokens"), by_seed("overthinking", "success")
before = doubting.outcomes["no limit"][0]["before"]
print({name: round(value, 2) for name, value in before.items()}, "before")
print(pd.concat({"tokens": tokens, "success": success}, axis=1).round(2).to_string())
cut, lost = 1 - tokens["shrinking limit"] / before["tokens"], before["success"] - success["shrinking limit"]
claim("1: 40 % fewer tokens, at most 0.03 lost", (cut >= 0.4) & (lost <= 0.03), cut)
claim("2: fewer tokens than plain GRPO", tokens["shrinking limit"] < tokens["no limit"])

# %%
figure, ax = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
lab.curves(doubting.curves, y="length", ylabel="tokens a reply", ax=ax);

# %% [markdown]
# Both cures remove the re-checks; they were harmless and useless here, so nothing is lost. Plain GRPO
# shortens replies too, by 28 to 42 %, without being asked: of the cut in claim 1 that much is no cure's
# doing. (A guess at the reason: GRPO divides by a reply's length, so a right short reply gets more weight a
# token; chapter 04 measures this bias.)
#
# ## What breaks: a price on wrong answers too
#
# It looks harmless to subtract a price from every reply. Take four tries of one hard task, two right and
# two wrong, a short and a long one of each, and compute the group's advantages by hand:

# %%
right, length = torch.tensor([1.0, 1.0, 0.0, 0.0]), torch.tensor([5.0, 8.0, 2.0, 8.0])
columns = {"right": right, "tokens": length}
for words, only in (("price on all", False), ("price on right ones", True)):
    paid = reasoning_rl.length_reward(right, length, 0.08, only_right=only)
    columns[words] = (paid - paid.mean()) / (paid.std() + 1e-6)
pd.DataFrame(columns).round(2)

# %% [markdown]
# With a price on all, of two wrong answers the short one is preferred: a step towards short and wrong. In a
# group where *all* are wrong that is the only signal there is. `chain-atoms` thinks in 4 % of tasks and is
# then right in about half of them: its groups are mostly all wrong. **Claims**, five fresh seeds, in each:
# with a price on every answer thinking dies out (below 0.02) and success ends below where it began (1);
# with the same price on right answers success ends above 0.8 (2).

# %% tags=["nbval-check-output"]
penalty = experiments.recorded(f"{ch11.NAME}/penalty")
ends = {number: by_seed("penalty", number) for number in ("success", "thinking")}
print(pd.concat(ends, axis=1).round(2).to_string())
began = penalty.outcomes["on every answer"][0]["before"]
dead = (ends["thinking"]["on every answer"] < 0.02) & (ends["success"]["on every answer"] < began["success"])
claim("1: on every answer, thinking dies and success falls", dead)
claim("2: on right answers, success above 0.8", ends["success"]["on right answers"] > 0.8)

# %%
figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained")
for ax, number, words in zip(axes, ("success", "length"), (None, "tokens a reply")):
    lab.curves(penalty.curves, y=number, ylabel=words, ax=ax)
axes[1].get_legend().remove()

# %% [markdown]
# Thinking dies in every seed, as the argument says, and stays in four of five with the price on right
# answers. Both claims failed all the same. The first: success did not fall. Pushed to be short, the policy
# learned some short sums by heart, up to 0.25; it is stuck there, far below 0.9. The second: seed 14 ended
# without thinking, and there even training without any price got no further than 0.37. Why? Count the
# replies that think:

# %% tags=["nbval-check-output"]
at = (1, 5, 10, 15, 20, 25)
counts = {(arm, f"seed {10 + k}"): [round(128 * run[n - 1]["thinking"]) for n in at]
          for arm, seeds in penalty.curves.items() for k, run in enumerate(seeds) if k in (3, 4)}  # fmt: skip
print(pd.DataFrame(counts, index=at).T.rename_axis(columns="replies of 128 that think, update").to_string())
gap = ends["success"]["on right answers"] - ends["success"]["on every answer"]
print("success, right answers − every answer (no claim beforehand):", evaluate.mean(gap))

# %% [markdown]
# In seed 14 at most 7 replies of 128 think in any of the first ten updates: too few to be paid and noticed.
# What a policy hardly ever does, reward can hardly reinforce; a price makes that worse. (In pilots, the
# price on every answer even taught it to end its reply at once, without any answer: the shortest of all.)
# Exercise 11.5 has this bug.
#
# ## On a GPU
#
# With the `gpu` budget the next cell trains SmolLM2-135M-Instruct on the same world, asked for in words,
# with a small price on the tokens of right answers. A larger hybrid model (Qwen3-0.6B: set
# `ARL_REAL_MODEL`) can be asked to think or not; `reasoning.View(policy, opening="<think></think>")` is its
# fast mode.

# %%
if budget.name == "gpu":
    for record in ch11.REAL(experiments.real.policy(), seed=0):
        print(record.step, round(record.success, 2), record.tokens)

# %% [markdown]
# ## Where this stands
#
# - **Fast.** *Self-consistency* votes over sampled chains; *Tree of Thoughts* and *Graph of Thoughts*
#   search among partial ones (chapter 07 has such searches). *Let's Verify Step by Step* and
#   *Math-Shepherd* choose by a verifier of steps.
# - **Slow.** *OpenAI o1*, *DeepSeek-R1*, *SimpleRL-Zoo* and *DAPO* get long thoughts from outcome rewards;
#   the *80/20 rule* says which tokens matter; *Yue et al.* ask whether anything new is learned (chapter
#   28). *Marco-o1*, *HuatuoGPT-o1*, *rStar-Math* and *ReST-MCTS\** write chains by search. *Coconut* and
#   *Soft Thinking* think without words.
# - **When.** *Qwen3* has two modes in one model; *L1* trains to a length that is asked for, *ThinkPrune*
#   under a shrinking limit, *TL;DR* on a mixture of short and long data. The survey names *overthinking*
#   and instability as the open problems of slow thinking in agents, and switching by difficulty as the way
#   on. (Two methods are called LCPO: L1's is a reward, that of chapter 03 a preference loss.)

# %%
survey_taxonomy.table("3.5")

# %% [markdown]
# **What does not transfer.** Here "slow" is forced by arithmetic: five digits cannot be added in one token
# by a network of two layers. Real chains mix recall, style, search and checking, and longer is not always
# better. Our thoughts have one right form, so a verifier of steps has an easy life, and a latent vector
# need not hold more than a digit; on grade-school mathematics Coconut stayed behind written chains. The
# 80/20 rule is cleaner here than it can be in a language model: nearly all forks are one token. And the
# slips that the verifier finds were planted.
#
# ## Exercises

# %% [markdown]
# **11.1 A vote that may abstain.** `decide(answers, need)` gets the answers of several tries (None: no
# valid answer) and returns the one that leads *alone* and has at least the share `need` of *all* tries;
# else None.

# %%
def decide(answers: list, need: float):
    """The winner, or None."""
    votes = {a: answers.count(a) for a in answers if a is not None}
    top = max(votes.values(), default=0)
    leaders = [a for a, count in votes.items() if count == top]
    return leaders[0] if len(leaders) == 1 and top >= need * len(answers) - 1e-9 else None


lab.check("11.1", decide)

# %% [markdown]
# **11.2 The uncertain fifth.** `forks(entropy, mask, share)` gets two tensors (B, T) and returns one: 1 at
# the share of all sampled tokens of the batch (rounded up) with the highest entropy, 0 elsewhere, forced
# tokens included.

# %%
def forks(entropy, mask, share):
    """1 at the tokens that are trained, (B, T)."""
    n = int(mask.sum())
    ranked = entropy.masked_fill(mask == 0, -torch.inf).flatten().argsort(descending=True)
    kept = torch.zeros(mask.numel())
    kept[ranked[: math.ceil(share * n - 1e-9)]] = 1.0
    return kept.view_as(mask)


lab.check("11.2", forks)

# %% [markdown]
# **11.3 The price at which thinking stops to pay.** The fast mode is right with chance `fast` and takes
# `short` tokens, the slow one `slow` and `long`. Return the price a token at which both earn the same. The
# check simulates both.

# %%
def break_even(fast: float, short: int, slow: float, long: int) -> float:
    """Reward a token."""
    return (slow - fast) / (long - short)


lab.check("11.3", break_even)

# %% [markdown]
# **11.4 Calibration.** `ece(confidence, right, bins)`: put answers into bins of equal width by their
# confidence (1.0 goes into the last); return the mean distance between mean confidence and share right,
# each bin with its part of the answers.

# %%
def ece(confidence: list[float], right: list[bool], bins: int) -> float:
    """Expected calibration error."""
    total = 0.0
    for b in range(bins):
        rows = [i for i, p in enumerate(confidence) if min(int(p * bins), bins - 1) == b]
        total += abs(sum(confidence[i] - right[i] for i in rows))
    return total / len(right)


lab.check("11.4", ece)

# %% [markdown]
# **11.5 Find the bug.** Advantages of a group (reward minus the group's mean) when tokens of right answers
# have a price. (The version below is mended; leave out `* right` to see what the check says of the bug.)

# %%
def shaped(right, length, price):
    """Advantages of a group of tries."""
    reward = right - price * length * right
    return reward - reward.mean()


lab.check("11.5", shaped)

# %% [markdown]
# ## In short
#
# - Written steps turn one hard question into easy ones; what they are worth grows with depth, and so does
#   what they cost.
# - Votes mend independent slips, a verifier of steps mends common ones; neither mends a policy that only
#   guesses.
# - Reward for right answers makes a policy think; a few uncertain tokens carry that; a search can write the
#   chains too.
# - Price thinking on right answers, or limit it, and the policy thinks where it pays. Price it on all, and
#   it falls silent.
#
# Next: [12 · Perception](12_perception.ipynb), where the evidence is a picture or a sound.
#
# **References.** Zhang et al. 2025, arXiv 2509.02547, §3.5. Self-consistency 2203.11171. Let's Verify
# 2305.20050. Math-Shepherd 2312.08935. Calibration 1706.04599. DeepSeek-R1 2501.12948. DAPO 2503.14476.
# 80/20 rule 2506.01939. Marco-o1 2411.14405. rStar-Math 2501.04519. Coconut 2412.06769. Fillers 2310.02226.
# Soft Thinking 2505.15778. Qwen3 2505.09388. L1 2503.04697. ThinkPrune 2504.01296. TL;DR 2506.02678.
# Thinking-optimal scaling 2502.18080. Yue et al. 2504.13837.
