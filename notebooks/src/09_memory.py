# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 09 · Memory
#
# **What should a policy keep when it cannot keep everything?** A language model remembers what stands in its context, and
# nothing else. When a task is longer than the context, something outside must hold the past: a store to search, a note, a graph, a
# few vectors. Each needs decisions: what to write, what to throw away, what to look up. This chapter lets reinforcement
# learning make them.
#
# The survey (§3.3) sorts memory by what it is made of and asks where RL already steers it: *RAG-style* stores (first fixed
# rules, then RL over retrieval, then RL over writes), *token-level* memory that the policy writes itself (text it can read, or
# latent vectors), and *structured* memory, such as graphs, which so far mostly follows hand-made rules. Every leaf is here, small.

# %%
import math

import matplotlib.pyplot as plt
import pandas as pd
import survey_taxonomy
import torch

from arl_mini import collate, envs, evaluate, experiments, lab, models
from arl_mini.capabilities import memory
from arl_mini.experiments import ch09

budget = lab.budget()
lab.style.use()
live_all = False  # True: every demonstration below is trained here too, one seed each

# %% [markdown]
# ## A stream longer than the context
#
# `Notes` tells, line by line, who is where; later lines replace earlier ones, and some lines are chatter. A stream has 24 lines of
# three words, the context holds 40. The simplest thing to do is what every chat window does in the end: show the last lines that
# fit. (Where a context shows a question, its subject is written as ` it` everywhere. To match names is a skill of its own, which
# takes a model of this size thousands of supervised updates; it is not what this chapter is about.)

# %% tags=["nbval-check-output"]
world = envs.Notes()
print("context:", world.reset(seed=7))
print("true:", world.expert(), " by the window alone:", world.reading())
window = {lines: ch09.share(ch09.perfect(envs.Notes(lines), 1000)) for lines in (24, 96)}
for lines, right in window.items():
    print(f"a perfect reader of the window of {lines} lines is right in {right:.3f}")

# %% [markdown]
# So a window of 40 tokens sets a ceiling, whatever the reader and however it was trained; on streams four times as long it is low.
# Every memory below works within the same 40 tokens a context. What it is compared with is always the *perfect* reader of a
# baseline's context: no training could lift the baseline above that.
#
# All demonstrations on `Notes` start from one checkpoint. It can *read* (find the last line about the subject in a short context),
# and it knows every command of every memory, but uses them by chance.

# %%
novice = models.load("notes-novice")
pd.Series(novice.card).drop("about").to_frame("notes-novice")

# %% [markdown]
# ## One episode, many contexts, one reward
#
# MemAgent reads a long text in segments. After each, the policy writes a *note*; the next context shows the note, the next
# segment and the question, and nothing else. The note is text, so it can be read by people too.

# %%
note = memory.SegmentMemory(envs.Notes(24))
parts = memory.contexts(novice, note, [9], 1, limits=ch09.CONTEXT)
for number, context in enumerate(parts[0]):
    print(number, context.text)

# %% [markdown]
# Seven contexts, and a reward only in the last: was the answer right? How can the second note learn from it? The way of
# MemAgent is short: treat each context as a row of its own, and give every row the advantage of its *episode*. With $R_i$ the
# reward of episode $i$, $K_i$ its number of contexts, $N$ episodes and $B=\sum_i K_i$ rows in the batch:
#
# $$A_i = \frac{R_i - \mathrm{mean}_g(R)}{\mathrm{std}_g(R)}, \qquad A_{i,c} = A_i\,\frac{1}{K_i}\,\frac{B}{N} .$$
#
# Mean and std are over the *episodes* of a group, so a long episode does not count more often, and its contexts share one weight
# between them ($\sum_c 1/K_i = 1$). (That weight is ours; MemAgent takes the mean over all tokens of a group.) By hand on real
# episodes, against the library:

# %%
quick = memory.SegmentMemory(envs.Notes(8))
parts = memory.contexts(novice, quick, range(8), 8, limits=ch09.CONTEXT)
batch = collate(memory.shared(parts))
library = memory.SharedGRPO().advantages(batch).sum(1) / batch.mask.sum(1)
rewards = torch.tensor([sum(c.reward for c in episode) for episode in parts]).view(8, 8)
z = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-6)
count = torch.tensor([len(episode) for episode in parts])
by_hand = (z.flatten() / count * len(batch) / len(parts)).repeat_interleave(count)
assert torch.allclose(library, by_hand, atol=1e-5)
print(f"{len(parts)} episodes, {len(batch)} rows; sum of the advantages {by_hand.sum():.4f}")

# %% [markdown]
# There is one more thing to see. A row knows nothing of the other rows, in training as in sampling: the note is the *only* way
# from one context to the next. Whatever the policy wants to know later, it must write down.

# %% [markdown]
# ## A note, rewritten again and again
#
# **Claims, written before the recorded runs.** The note is trained on streams of 24 lines, 20 updates of 16 tasks with 8 tries.
# Then it gets streams four times as long, with no further training. In every seed: (1) accuracy by note drops by less than
# 0.15; (2) for the window the same step costs its perfect reader more than 0.3; (3) on the long streams the note is ahead of
# that reader by at least 0.3.
#
# One seed, live:

# %%
policy = models.load("notes-novice")
steps, prompts = budget.pick(smoke=1, cpu=20, gpu=20), budget.pick(smoke=2, cpu=16, gpu=16)
run = ch09.EXPERIMENTS["09_memory/note"].arms["note"](policy, 0, steps=steps, prompts=prompts)
seeds = experiments.recorded("09_memory/note").curves["note"]
shown = ("success", "signal_share", "entropy")
live = lab.live(run, title="A note of the stream", show=shown, beside={"recorded seeds": seeds})
live

# %%
records = await live.done()

# %%
tasks = budget.pick(smoke=8, cpu=128, gpu=256)
for lines in (24, 96):
    longer = memory.SegmentMemory(envs.Notes(lines))
    after, before = (ch09.share(ch09.asked(ch09.play(p, longer, tasks))) for p in (policy, novice))
    print(f"{lines} lines: right in {before:.2f} before, {after:.2f} after {len(records)} updates")
lab.microscope(memory.shared(ch09.play(policy, note, 1))[:4], first=4)

# %% [markdown]
# All recorded seeds:

# %% tags=["nbval-check-output"]
def outcomes(name: str, arm: str) -> pd.DataFrame:
    """What was measured after training, a row for each seed."""
    found = experiments.recorded(name).outcomes[arm]
    return pd.DataFrame([o["after"] for o in found], index=[f"seed {o['seed']}" for o in found])


notes = outcomes("09_memory/note", "note")
print(notes.round(3).to_string())
drop, ahead = notes.note_24 - notes.note_96, notes.note_96 - window[96]
print(f"drop by window: {window[24] - window[96]:.3f}  by note:", evaluate.mean(drop))
print("ahead on long streams:", evaluate.mean(ahead))
claims = (drop < 0.15).all(), window[24] - window[96] > 0.3, (ahead >= 0.3).all()
for number, holds in enumerate(claims, 1):
    print(f"claim {number}:", "holds" if holds else "FAILED")

# %% [markdown]
# (`shown` and `surprise` come up at the end of the chapter.) A note that is kept well does not care how long ago something was
# said. What it costs: one context for every four lines, so the long stream takes 25 contexts, while the window always takes
# one. Memory buys reach with compute, and within each context the size stays the same: that is the promise of MemAgent and
# MEM1.
#
# ## A store: rules, then RL over retrieval, then RL over writes
#
# **Rules.** Keep every line; when a question comes, search the store with the question's words and show the two best lines. The
# search is BM25, by SQLite's full-text index. Nothing is learned. What can go wrong?

# %% tags=["nbval-check-output"]
fixed = memory.Retrieve(envs.Notes(), fixed=("{question}", 2))
fixed.reset(4)
print("told:   ", [" ".join(line) for line in fixed.notes.stream if fixed.notes.now[1] in line])
print("context:", fixed.step("").text)
print("true:   ", fixed.expert(), " read from the context:", fixed.reading())

# %% [markdown]
# The store holds all versions of a fact, and chatter too; all match the question equally well, so the older ones come first.
# (Other rules, newest first and six lines instead of two, are measured below.)
#
# **RL over retrieval** (the idea of reflective memory management): the policy writes the query and says how many lines it
# wants, up to six. Questions are ` where is` and ` where was`. A second arm pays a price of 0.005 for each line shown.
#
# **Claims,** on held-out streams and subjects that were told of more than once: (1) with the fixed query even a perfect reader
# answers fewer than 0.6 of ` where is` right; (2) in every seed the policy, with its own query and its own reading, is at least
# 0.2 ahead of that reader, on ` is` and on ` was`. (About the price, no claim.)

# %% tags=["nbval-check-output"]
query = outcomes("09_memory/retrieval", "RL query")
print(query[["is", "was", "is_lines", "asks_name", "asks_in", "wants"]].round(3).T.to_string())
rules = {"fixed, 2 lines": ("{question}", 2, False), "newest first, 2": ("{question}", 2, True),
         "fixed, 6": ("{question}", 6, False), "newest first, 6": ("{question}", 6, True),
         "the learned query, 6": ("{name} in", 6, False)}  # fmt: skip
best = {}
for kind, notes_of in (("is", ch09.IS), ("was", ch09.WAS)):
    worlds = {r: memory.Retrieve(notes_of, newest=new, fixed=(q, n)) for r, (q, n, new) in rules.items()}
    best[kind] = {r: ch09.updated(ch09.perfect(world)) for r, world in worlds.items()}
print("perfect readers:", pd.DataFrame(best).round(3).to_string(), sep="\n")
gains = {kind: query[kind] - best[kind]["fixed, 2 lines"] for kind in ("is", "was")}
for kind, gain in gains.items():
    print(f"own − fixed, {kind}:", evaluate.mean(gain))
print("claim 1:", "holds" if best["is"]["fixed, 2 lines"] < 0.6 else "FAILED")
print("claim 2:", "holds" if all((gain >= 0.2).all() for gain in gains.values()) else "FAILED")
priced = outcomes("09_memory/retrieval", "at a price")
print("at a price, is:", priced["is"].round(2).tolist(), " lines:", priced["is_lines"].round(1).tolist())

# %% [markdown]
# `asks_name` and its neighbours tell what the searches hold after training: the subject, and ` in`, which chatter lacks. Nobody
# told it. It always wants six lines, with the price too: 0.03 for six lines is little against an answer. (A price can also kill
# searching before it has paid: in trial runs from a start that read less well, the same 0.005 did.)
#
# The claims hold against the rule that they name, which shows two lines. The rules with six lines were measured after the
# recordings, and they change the picture. With six lines the unlearned query is, under a perfect reader, level with the policy
# on ` was`, and behind it on ` is` by less than a third of the gain above; with newest first it beats the policy on both. So
# most of the gain is the number of lines, and a better rule needs no RL here. What the policy shows is that it finds a good
# search from the reward alone. What it misses on ` was` is reading: its six lines nearly always hold the answer.
#
# Below are a few searches of the start, which often writes no word at all after `search`. Switch `live_all` on at the top, and
# the policy is trained here first; `demonstration` trains any arm of any experiment of this chapter.

# %%
def demonstration(name: str, arm: str, **changes):
    """The policy after one seed of training here, if `live_all`; else the start."""
    experiment = ch09.EXPERIMENTS[name]
    policy = models.load(experiment.start)
    made = list(experiment.arms[arm](policy, 0, **changes)) if live_all else []
    return policy, made


searcher, _ = demonstration("09_memory/retrieval", "RL query")
print("searches", "after training:" if live_all else "of the start:")
for context, *_ in ch09.play(searcher, ch09.QUERY, 6):
    print("  ", context.text)

# %% [markdown]
# **RL over writes** (Memory-R1). Now the store itself is managed. For every line the policy sees the two stored lines that fit
# best, and says `add`, `update N`, `delete N` or `noop`. The reward is the answer, minus 0.01 for each entry kept. One seed,
# live:

# %%
manager = models.load("notes-novice")
steps, prompts = budget.pick(smoke=1, cpu=20, gpu=20), budget.pick(smoke=1, cpu=8, gpu=8)
run = ch09.EXPERIMENTS["09_memory/writes"].arms["all asked"](manager, 0, steps=steps, prompts=prompts)
seeds = experiments.recorded("09_memory/writes").curves["all asked"]
shown = ("success", "reward", "entropy")
live = lab.live(run, title="Four operations", show=shown, beside={"recorded seeds": seeds})
live

# %%
records = await live.done()

# %% [markdown]
# **Claims,** in every seed, on streams of 24 lines: (1) on subjects that were told of more than once, its own store is at least
# 0.2 ahead of append-only under a perfect reader with the same two lines in view; (2) it keeps at most half as many entries.

# %% tags=["nbval-check-output"]
writes = outcomes("09_memory/writes", "all asked")
print(writes[["own", "size"]].round(3).to_string())
append, newest = (
    ch09.updated(ch09.perfect(memory.Retrieve(ch09.IS, newest=new, fixed=("{name} in", 2))))
    for new in (False, True)
)
gain = writes.own - append
print(f"append-only, perfect reader: {append:.3f}, 24 entries; newest first: {newest:.3f}")
print("own − append-only:", evaluate.mean(gain))
print("claim 1:", "holds" if (gain >= 0.2).all() else "FAILED")
print("claim 2:", "holds" if (writes["size"] <= 12).all() else "FAILED")

# %% [markdown]
# Append-only here means what the managed store does too: among equals the older line first. Newest first (measured after the
# recordings, no part of the claim) is as good as the managed store on these questions. What managing buys against it is size:
# about five entries instead of 24. What it does with a line now, all recorded seeds:

# %%
kinds, verbs = ("new", "change", "end", "chatter"), ("add", "update", "delete", "noop")
before = pd.Series(experiments.recorded("09_memory/writes").outcomes["all asked"][0]["before"])
figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), sharey=True)
for ax, numbers, title in zip(axes, (before, writes.mean()), ("the start", "after RL")):
    left = pd.Series(0.0, index=kinds)
    for verb, colour in zip(verbs, lab.style.COLOURS):
        share = pd.Series({kind: numbers.get(f"{kind}_{verb}", 0.0) for kind in kinds})
        ax.barh(kinds, share, left=left, label=verb, color=colour)
        left += share
    ax.set(title=title, xlabel="share of lines of this kind")
axes[1].legend(ncols=1, bbox_to_anchor=(1, 1));

# %% [markdown]
# ## A graph that knows when
#
# `update` forgets. After it, ` where was ada ?` has no answer any more. A graph whose edges have a *time of validity* (Zep) loses
# nothing: an edge is closed, not overwritten.

# %% tags=["nbval-check-output"]
graph = memory.GraphMemory()
graph.insert("ada", "in", "hall", time=0)
graph.close("ada", "in", time=5)
graph.insert("ada", "in", "cave", time=5)
print("now:   ", [e.object for e in graph.at("ada", "in", 9)])
print("before:", [e.object for e in graph.before("ada", "in", 9)])
print("at 3:  ", [e.object for e in graph.at("ada", "in", 3)])

# %% [markdown]
# In the systems that the survey lists here, rules by hand or a prompted model decide what becomes an edge; RL over structured
# memory it calls prospective. Here the policy chooses for each line between `insert`, `close` (end what was true, then insert),
# `link` (a remark without time) and `skip`. The hand rule: close on a change, insert what is new, link chatter.
#
# **Claims,** in every seed: (1) on ` where was`, the learned graph is more often right than RL over retrieval; (2) over both
# questions it loses at most 0.02 against the hand rule, read by the same weights; (3) with fewer edges. It is trained on
# streams of 12 lines with two questions about people and twice the usual chatter, so that an edge ended by chatter hurts, and
# measured on the usual 24 lines (128 streams, 61 of them ask ` where was`). The first recording, plain GRPO:

# %% tags=["nbval-check-output"]
def against_the_rule(edges: pd.DataFrame) -> None:
    """The three claims on one recording."""
    print(edges.round(3).to_string())
    against = edges.own_was - query["was"]
    loss = (edges.rule_is + edges.rule_was) / 2 - (edges.own_is + edges.own_was) / 2
    print("was, graph − retrieval:", evaluate.mean(against), " hand rule − graph:", evaluate.mean(loss))
    print("claim 1:", "holds" if (against > 0).all() else "FAILED")
    print("claim 2:", "holds" if (loss <= 0.02).all() else "FAILED")
    print("claim 3:", "holds" if (edges.own_edges < edges.rule_edges).all() else "FAILED")


against_the_rule(outcomes("09_memory/graph", "RL graph"))

# %% [markdown]
# The numbers of the three seeds are nearly the same, and close to those of one habit: say `close` at every line. (A script that
# does so is measured below.) `close` is right for every fact, so it soon drives out the rest; that it is wrong for chatter can
# no longer be found out, for nothing else is tried. So a second recording, same seeds, same claims: 32 updates instead of 20,
# steps of 7e-4 instead of 5e-4, and a KL term of 0.05 that holds the policy near its start, which tries everything.

# %%
always = ch09.perfect(memory.Graph(ch09.BOTH, rule=lambda world: "close"), 128)
shares = {kind: round(ch09.share(always, kind=kind), 3) for kind in ("is", "was")}
print("always close:", shares, f"edges: {ch09.sizes(always):.1f}")

# %% tags=["nbval-check-output"]
against_the_rule(outcomes("09_memory/graph_kl", "RL graph, KL"))

# %% [markdown]
# The second run leaves the habit and passes the edge count, and two claims fail all the same. The *structure* is not to blame:
# under the hand rule the same weights answer ` where was` in every case; from lines that a search found, which hold the answer
# nearly always, they read it in 0.85 to 0.89. The *control* is: held near a start that does everything, the policy still takes
# a wrong operation now and then, and a wrong `close` among two dozen lines loses a fact. The survey calls RL over structured
# memory an open field; at this size, a rule of three lines wins.

# %%
grower, _ = demonstration("09_memory/graph_kl", "RL graph, KL")
(episode,) = ch09.play(grower, memory.Graph(envs.Notes(12, kinds=("was",))), 1)
print("one stream,", "after training:" if live_all else "by the start:")
for context in episode[:6] + episode[-1:]:
    print("  ", context.text)

# %% [markdown]
# ## Summaries at a limit, and folding
#
# An agent's own past grows too. In `Quest` every turn adds ten tokens. **ReSum** lets the agent write a summary when the
# context is full, and goes on from it; **Context Folding** lets it fold away a stretch of turns when *it* likes and keep one
# line. The same quest, four ways, all from one start, each trained for as many updates on as many episodes:
#
# - *whole*: everything stays in the context; *cut*: every two turns it begins anew, with nothing but the task and the room;
# - *summary*: at the cut the policy writes at most five words, which replace the last ones;
# - *folding*: `<act> fold WORDS</act>` at any time, the last five words stay; after three turns without a fold it is cut.
#
# The start has been shown all four ways by a careful player who keeps the key and the last two (room, way) pairs; then, for a few
# updates, a player half of whose moves are chance and half of whose summaries are empty.

# %%
world = memory.Summed()
text = world.reset(3)
for _ in range(8):
    said = world.shown()  # the demonstrator's turn, by a player who remembers all
    reply = world.step(said)
    print(text, said, "| a new context" if "fresh" in reply.info else "")
    text = reply.text

# %% [markdown]
# **Claims,** in every seed: (1) summaries and (2) folding lose at most 0.05 of the success of the whole context; (3) both need at
# most half of its tokens (the longest context of an episode, mean over episodes). Against *cut*, no claim: see the numbers.

# %% tags=["nbval-check-output"]
ways = {name: outcomes(f"09_memory/quest_{name}", name) for name in ch09.QUESTS}
print(pd.concat(ways, axis=1).round(3).to_string())
for name in ways:
    start = experiments.recorded(f"09_memory/quest_{name}").values(name, "success", "before")
    print(f"{name} at the start: {start[0]:.2f}")
whole = ways["whole"]
for name in ("cut", "summary", "folding"):
    print(f"{name} − whole:", evaluate.mean(ways[name].success - whole.success))
for number, name in enumerate(("summary", "folding"), 1):
    enough = (ways[name].success >= whole.success - 0.05).all()
    print(f"claim {number}:", "holds" if enough else "FAILED")
short = all((ways[name].tokens <= whole.tokens / 2).all() for name in ("summary", "folding"))
print("claim 3:", "holds" if short else "FAILED")

# %% [markdown]
# Look at the starts first: they are far apart. Summaries are at 0.82 before any RL and hardly gain; whole, cut and folding learn
# much. So what RL teaches here is mostly to play, and a good summary was in the warm start.
#
# With two fifths of the tokens, summaries do as well as the whole context on average, but one seed misses the margin, and 128
# quests a seed cannot tell 0.05 from nothing (an interval of one share is about ± 0.07 wide). Folding is a little behind,
# cutting more. Quest is kind to a short memory: a key in view says that you do not hold it yet, and an `open door` too many
# costs one turn. What a context should keep shows only where the world does not repeat it. Below a quest by folding, by the
# start unless `live_all` is on: its lines need not be true, they may name rooms in which it never was.

# %%
folder, _ = demonstration("09_memory/quest_folding", "folding")
tried = ch09.play(folder, ch09.QUESTS["folding"], 8, ch09.PART)
lab.microscope(memory.shared([max(tried, key=len)])[:3], first=3)

# %% [markdown]
# ## Soft tokens
#
# A note need not be words. **MemoryLLM** carries latent tokens; **MemGen** learns when to weave them in. Here a segment is read as
# *[4 soft tokens | question and lines | 4 write tokens]*, and the last hidden states at the write tokens are the soft tokens of
# the next segment. That was taught with supervision (the checkpoint `notes-latent`). RL trains only a *gate*: write the new soft
# tokens, or keep the old ones, at a price of 0.1 times the share of segments written.
#
# **Claims,** in every seed: (1) with the gate always open, the soft tokens are at least 0.2 ahead of none at all; (2) the
# trained gate opens more often on segments that tell of the subject than on others, by at least 0.2.

# %%
carrier = models.load("notes-latent")
gate = list(ch09.GateArm()(carrier, 0, steps=budget.pick(smoke=1, cpu=30, gpu=30)))
print(pd.DataFrame(gate).set_index("step").iloc[[0, -1]].round(3).to_string())

# %% tags=["nbval-check-output"]
latent = outcomes("09_memory/latent", "RL gate")
print(latent.round(3).to_string())
print("always open − never:", evaluate.mean(latent.always - latent.never))
print("opens, told − else:", evaluate.mean(latent.opens_told - latent.opens_else))
print("claim 1:", "holds" if (latent.always - latent.never >= 0.2).all() else "FAILED")
print("claim 2:", "holds" if (latent.opens_told - latent.opens_else >= 0.2).all() else "FAILED")

# %% [markdown]
# The gate has learned what to look for. But look at the reward: with the gate always open it would be $1 - 0.1 = 0.9$. GRPO
# divides advantages by the group's standard deviation. Where all eight tries are right, only the price differs, and the
# division blows that difference up to the size of a right answer. The same run with advantages that are centred and *not*
# divided:

# %% tags=["nbval-check-output"]
centred = outcomes("09_memory/gate_centred", "centred")
for name, found in (("divided", latent), ("centred", centred)):
    print(f"{name}: right {found.learned.mean():.2f}, opens {found.opens.mean():.2f}, "
          f"reward {(found.learned - 0.1 * found.opens).mean():.2f}")  # fmt: skip

# %% [markdown]
# Undivided, it opens always and earns more; it never learns to tell segments apart, for too little depends on it. MemGen's trigger
# pays where recall costs real compute; here it would have to be worth more than it is.

# %%
curves = experiments.recorded("09_memory/latent").curves["RL gate"]
figure, axes = plt.subplots(1, 2, figsize=(8, 2.6), sharey=True)
for ax, number in zip(axes, ("opens_told", "opens_else")):
    lab.curves({"RL gate": curves}, y=number, ax=ax)
    of = "segments that tell of the subject" if number == "opens_told" else "all other segments"
    ax.set(ylabel="gate opens", title=of)

# %% [markdown]
# ## What breaks: a memory that knows the exam
#
# The reward looks at answers only. The note was trained with the question in view, so nothing ever paid for keeping anything else.
# Now the stream is heard with one question in view, and then *another* is asked first. What is in the note?
#
# **Claim,** in every seed: the note that answers the question it was shown in at least 0.9 of cases answers the other one in at
# most 0.35.

# %% tags=["nbval-check-output"]
print(notes[["shown", "surprise"]].round(3).to_string())
store = writes["all"]
print("the store, which never knew a question beforehand:", store.round(3).tolist())
print("claim:", "holds" if ((notes.shown >= 0.9) & (notes.surprise <= 0.35)).all() else "FAILED")

# %% [markdown]
# It holds the answer key and nothing else. That is no accident of this note: it is what the reward asked for. The store had to
# keep everybody, because its questions came after the writing. Whoever evaluates a memory should ask about what the training
# did not.
#
# A second weakness: a memory believes what it is told. One false line, slipped in at the end of the stream, goes into the note as
# readily as a true one. (Chapter 25 attacks memories in earnest.)

# %%
poisoned = memory.SegmentMemory(ch09.Poisoned())
told = ch09.asked(ch09.play(policy, poisoned, budget.pick(smoke=8, cpu=128, gpu=256)))
lied = sum(info["lied"] for info in told) / len(told)
print(f"repeats the lie in {lied:.2f} of tasks, says the truth in {ch09.share(told):.2f}")

# %% [markdown]
# ## Where this stands
#
# - **Fixed rules**: MemoryBank (with a forgetting curve, exercise 09.4), MemGPT and HippoRAG store and retrieve by design.
# - **RL over retrieval**: Reflective Memory Management (the survey's "Prospect") tunes which memories are shown; here the query.
# - **RL over writes**: Memory-R1's four operations are those above; Mem-α learns to build several stores; Memory-as-Action makes
#   editing one's own context an action, as our folding does.
# - **Token-level, readable**: MemAgent (the note and its shared advantage), MEM1 (one state, rewritten every turn), ReSum (summary
#   at the limit), Context Folding (branch and return; it adds process rewards, we do not).
# - **Token-level, latent**: MemoryLLM and M+ keep latent tokens in every layer, Memory³ sparse key-values; MemGen learns when to
#   recall. Ours is one layer of four vectors and a gate.
# - **Structured**: Zep's validity times are those above; A-MEM, G-Memory and Mem0 link notes, teams and facts, by rules or prompts.
#
# All works that the survey places in §3.3, with what this project has of them:

# %%
survey_taxonomy.table("3.3")

# %% [markdown]
# **What does not transfer.** Retrieval over 24 lines is easy: no paraphrase, no embedding, every word known. The warm start
# could already read and knew each command, so RL had to find *when*, not *how*. Soft tokens in a model this small are a
# recurrent network in disguise; that large models can be taught to use them is another matter. And a stream of who-is-where has
# a right answer to everything; what is worth keeping from a real conversation has not.
#
# ## Exercises
#
# **09.1 Four operations.** `operate(program)` runs `("add", text)`, `("update", number, text)`, `("delete", number)` and
# `("noop",)` and returns the store, number → text. Numbers count from 1 and are given once; what is not there is neither
# updated nor deleted.

# %%
def operate(program: list[tuple]) -> dict[int, str]:
    """The store after the program."""
    store, given = {}, 0
    for verb, *rest in program:
        if verb == "add":
            given += 1
            store[given] = rest[0]
        elif verb == "update" and rest[0] in store:
            store[rest[0]] = rest[1]
        elif verb == "delete":
            store.pop(rest[0], None)
    return store


lab.check("09.1", operate)

# %% [markdown]
# **09.2 Share an advantage.** `split(rewards, owner)`: episode `i` of a group has reward `rewards[i]`; context `c` belongs to
# episode `owner[c]`. Return $(R_i - \mathrm{mean}\,R)/K_i$ for each context: mean over episodes, weights that sum to one per
# episode.

# %%
def split(rewards: list[float], owner: list[int]) -> list[float]:
    """One advantage a context."""
    mean = sum(rewards) / len(rewards)
    return [(rewards[i] - mean) / owner.count(i) for i in owner]


lab.check("09.2", split)

# %% [markdown]
# **09.3 What held when.** `held(edges, subject, time)` gets edges `(subject, object, start, end)`; `end` is `None` while an
# edge is open. Return the objects of the subject's edges that hold at `time`. An edge holds at its start and no longer at its
# end.

# %%
def held(edges: list[tuple], subject: str, time: int) -> list[str]:
    """Objects, in the order of the edges."""
    return [o for s, o, start, end in edges if s == subject and start <= time and (end is None or time < end)]


lab.check("09.3", held)

# %% [markdown]
# **09.4 A forgetting curve.** MemoryBank lets a memory fade as $e^{-t/S}$: $t$ is the time since it was last stored or recalled,
# $S$ how often that happened. `retention(log, now)` computes it from the log of those times.

# %%
def retention(log: list[int], now: int) -> float:
    """How much is left at time `now`."""
    return math.exp(-(now - log[-1]) / len(log))


lab.check("09.4", retention)

# %% [markdown]
# **09.5 Find the bug.** This split of episodes into rows runs, the loss is finite, and the policy never learns: `signal_share`
# is 0. Each try is `(task, how many contexts, reward)`, each row `(group, reward, weight)`. (The version below is mended; put
# `(number, reward, 1 / count)` in it to see what the check says.)

# %%
def rows(tries: list[tuple]) -> list[tuple]:
    """A row for each context."""
    made = []
    for number, (task, count, reward) in enumerate(tries):
        made += [(task, reward, 1 / count)] * count
    return made


lab.check("09.5", rows)

# %% [markdown]
# ## On a GPU
#
# The same loop on a real language model: SmolLM2-135M with adapters keeps a note of a stream in English. On a CPU this cell
# does nothing.

# %%
if budget.name == "gpu":
    for record in ch09.REAL(experiments.real.policy(), seed=0):
        print(record.step, round(record.success, 3), round(record.malformed, 3))

# %% [markdown]
# ## In short
#
# - A context is a row; all rows of an episode share its advantage. That is enough to learn what to write down.
# - Two old lines fail where facts change; a learned query mends that, and so do six lines or "newest first". Measure against the best
#   rule, not the first. Learned writes keep a fifth of the lines. A graph with time does best under a hand rule.
# - `update` forgets the past, `close` keeps it. Summaries and folding do with less than half of the context; that they lose nothing
#   could not be shown.
# - A price inside a group whose tries are all right is blown up by GRPO's division; look at the reward, not at the behaviour alone.
# - A memory learns to keep what the reward asks about, and nothing else.
#
# Next: [10 · Self-improvement](10_self_improvement.ipynb).
#
# **References.** Zhang et al. 2025, arXiv 2509.02547, §3.3. Zhong et al. 2024 (MemoryBank), arXiv 2305.10250. Packer et al.
# 2023 (MemGPT), arXiv 2310.08560. Tan et al. 2025 (Reflective Memory Management), arXiv 2503.08026. Yan et al. 2025
# (Memory-R1), arXiv 2508.19828. Wang et al. 2025 (Mem-α), arXiv 2509.25911. Yu et al. 2025 (MemAgent), arXiv 2507.02259. Zhou
# et al. 2025 (MEM1), arXiv 2506.15841. Wu et al. 2025 (ReSum), arXiv 2509.13313. Sun et al. 2025 (Context Folding), arXiv
# 2510.11967. Wang et al. 2024 (MemoryLLM), arXiv 2402.04624. Zhang et al. 2025 (MemGen), arXiv 2509.24704. Rasmussen et al.
# 2025 (Zep), arXiv 2501.13956.
