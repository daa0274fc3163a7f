# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 12 · Perception
#
# **Can a policy learn where to look?** A model that is shown a picture once and asked once can only answer *about* it. A
# policy can act on it: look closer, crop, mark, draw, listen again, and use what comes back in its next thought. The survey
# (§3.6) calls this the way from passive perception to active visual cognition, and sorts it by what drives the action:
# *grounding* (where is the evidence?), *tools* (what do I do to the picture?), *generation* (can I imagine it first?); sound
# comes last. This chapter trains a small one of each.
#
# The pictures are real: handwritten digits of 8×8 pixels that scikit-learn ships, on a canvas of 24×24. The policy is the small
# transformer of the other chapters, with eyes of 0.01 million weights.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import survey_taxonomy
import torch
from sklearn.neighbors import KNeighborsClassifier

from arl_mini import collate, envs, evaluate, experiments, lab, models, pictures
from arl_mini.capabilities import perception
from arl_mini.experiments import ch12

budget = lab.budget()
lab.style.use()

# %% [markdown]
# Claims were written before the runs they speak of; each run has three fresh seeds and lies in `data/runs/12_perception`. Three of
# the demonstrations train live below. To record others anew, name them in the next cell.

# %%
again = ()  # such as ("partial", "box", "views", "shortcut")
for name in again:
    print(*experiments.record(f"12_perception/{name}"), sep="\n")


def by_seed(name: str, number: str, when: str = "after") -> pd.DataFrame:
    """What was measured: a row a seed, a column an arm."""
    found = experiments.recorded(f"12_perception/{name}")
    rows = [f"seed {o['seed']}" for o in next(iter(found.outcomes.values()))]
    return pd.DataFrame({arm: found.values(arm, number, when) for arm in found.outcomes}, index=rows)


def claim(words: str, held) -> None:
    """Prints in how many seeds a claim holds."""
    verdict = "holds" if bool(np.all(held)) else "FAILED"
    print(f"{words}: {verdict} ({int(np.sum(held))} of {np.size(held)} seeds)")

# %% [markdown]
# ## A picture is a row of tokens
#
# `Glimpse` puts digits on a canvas and asks about them. What the policy gets is the canvas made three times smaller; a tool can
# bring any 8×8 pixels of it in full size. Left: the canvas. Middle: what is shown. Right: what a look at the right place brings.

# %%
world = envs.Glimpse(digits=2, tools=("look",))
task = world.reset(seed=8)
look = world.step(world.expert()).text
views = {"canvas": world.canvas, "shown": pictures.assemble(task), "looked at": pictures.assemble(look)}
figure, axes = plt.subplots(1, 3, figsize=(7, 2.3))
for ax, (title, picture) in zip(axes, views.items()):
    ax.imshow(picture, cmap="gray")
    ax.set(title=f"{title}, {picture.shape[0]}×{picture.shape[1]}", xticks=[], yticks=[])
    ax.grid(False)

# %% [markdown]
# In the text of the world a picture is a row of *patches* of 4×4 pixels: row and column of the patch, then sixteen grey levels
# from 0 to 7. The tokenizer makes **one token** of each; its id holds the pixels. So the tokens of an episode carry its pictures, in
# the prompt and in every observation, and engine, batch and loss need not know of them.

# %% tags=["nbval-check-output"]
print(task)
ids = models.tokenizer.encode(models.load("glimpse-novice").tokenizer, task)
print(len(ids), "tokens; the last one is number", ids[-1])

# %% [markdown]
# A word is looked up in a table. A patch $x$ (16 numbers from 0 to 1) goes through a small network, the *patch encoder*, and gets
# a vector for its row $r$ and one for its column $c$:
#
# $$e(x, r, c) = W_2\,\mathrm{silu}(W_1 x + b) + u_r + v_c .$$
#
# All of it is trained together with the rest and saved in the checkpoint. (ViT does the same with a linear map.) By hand, against the library:

# %%
novice = models.load("glimpse-novice")
eyes, (row, column, levels) = novice.eyes, pictures.read(task)[-1]
x = torch.tensor(levels.ravel() / 7, dtype=torch.float32)
hidden = eyes.first @ x + eyes.bias
by_hand = eyes.second @ (hidden * hidden.sigmoid()) + eyes.row[row] + eyes.column[column]
looked_up = models.patches.read(torch.tensor([ids[-1]]), novice.embed, eyes)[0]
assert torch.allclose(by_hand, looked_up, atol=1e-5)
print(f"{sum(p.numel() for p in eyes.parameters()):,} of {novice.card['parameters']:,} weights are eyes")

# %% [markdown]
# And does training see what the engine saw, pictures that came back in mid-episode included? The engine's log-probabilities
# against those of the loss:

# %%
limits = ch12.TURNS
batch = collate(evaluate.episodes(novice, world, 32, tries=4, limits=limits))
with torch.no_grad():
    gap = (models.score(novice, batch).logp - batch.old_logp).abs().max()
assert gap < 1e-5
print(f"largest difference {gap:.1e} nats over {int(batch.mask.sum())} sampled tokens")

# %% [markdown]
# **How much is there to see?** A nearest-neighbour reader from scikit-learn, given 2,000 tasks with one digit made of 600 images,
# reads other images this well from what is shown:

# %%
def tasks(env: envs.Glimpse, first: int, n: int) -> tuple[np.ndarray, list[str]]:
    """Pixels and answers of n tasks: the picture as shown, or a look at the right place where there is one."""
    pixels, answers = [], []
    for seed in range(first, first + n):
        text = env.reset(seed)
        text = env.step(env.expert()).text if env.tools else text
        pixels.append(pictures.assemble(text).ravel())
        answers.append(env.answer)
    return np.array(pixels), answers


shown = {"canvas in 8×8": envs.Glimpse(), "in 12×12": envs.Glimpse(scale=2)}
shown["a look"] = envs.Glimpse(tools=("look",))
seen = budget.pick(smoke=200, cpu=2000, gpu=2000)
right = {name: KNeighborsClassifier(5).fit(*tasks(env, 0, seen)).score(*tasks(env, evaluate.HELD_OUT, 400))
         for name, env in shown.items()}
pd.Series(right, name="right").round(2).to_frame()

# %% [markdown]
# From afar a reader that compares with two thousand examples gets half of the digits. A look leaves little open.

# %% [markdown]
# ## Passive perception, with a reward for almost
#
# First the classical setting: one picture, one answer. *What is the last digit of the sum of the digits?* The start,
# `glimpse-reader`, has seen 600 of the images; reinforcement draws on 800 others, and what follows is measured on 397 of neither.
# It names the digits from left to right and then the sum, ` 7 5 = 2`.
#
# A right sum of several digits is rare, and a wrong one says nothing about which digit was misread. **STAR-R1** therefore
# pays for parts that are right. Here: half a point for the share of digits named right, half for the sum.
#
# **Claim:** over training, the mean success is higher with partial credit, in every seed.

# %%
partial = experiments.recorded("12_perception/partial")
figure, ax = plt.subplots(figsize=(6, 2.8))
lab.curves(partial.curves, y="success", smooth=5, ax=ax);

# %% tags=["nbval-check-output"]
area = {arm: [np.mean([r["success"] for r in run]) for run in runs] for arm, runs in partial.curves.items()}
gap = np.subtract(area["partial"], area["exact"])
print("mean success in training, partial − exact:", evaluate.mean(gap))
print("held out:", {arm: str(evaluate.mean(partial.values(arm, "success"))) for arm in area})
claim("partial credit learns faster", gap > 0)
signal = {arm: np.mean([r["signal_share"] for run in runs for r in run]) for arm, runs in partial.curves.items()}
print("share of groups with signal:", {arm: round(float(value), 2) for arm, value in signal.items()})

# %% [markdown]
# It does not. Partial credit does what it is for, more groups have tries that differ; but in 30 updates neither arm learned to read better.
# A reward says that a digit was wrong, never which one it was, and a new digit shape takes many such hints.
#
# A second setting, chosen after the first had failed: 48 tasks with four tries each, as many tries in all. In so small a group the tries
# differ less often by the sum alone, so partial credit should have more to add. **Claim:** as above, with three seeds more. (Single pilot
# runs on the way here: 100 updates ended alike; canvases of three digits, which the start never saw, left both arms at chance; twice the
# learning rate made both worse.)

# %% tags=["nbval-check-output"]
fours = experiments.recorded("12_perception/partial_fours")
area = {arm: [np.mean([r["success"] for r in run]) for run in runs] for arm, runs in fours.curves.items()}
gap = np.subtract(area["partial"], area["exact"])
print("mean success in training, partial − exact:", evaluate.mean(gap))
print("held out:", {arm: str(evaluate.mean(fours.values(arm, "success"))) for arm in area})
claim("in groups of four, partial credit learns faster", gap > 0)
signal = {arm: np.mean([r["signal_share"] for run in runs for r in run]) for arm, runs in fours.curves.items()}
print("share of groups with signal:", {arm: round(float(value), 2) for arm, value in signal.items()})

# %% [markdown]
# More groups have signal again, and in one seed of three the curve is still no higher; the interval contains 0. Held out, both arms stay at the start's
# 0.40. So two settings say: at this size partial credit brings more signal, and no difference in success that can be told from chance.

# %% [markdown]
# ### A box, paid by overlap
#
# *Where is the 7?* The answer is four tokens, left, top, right and bottom (a = 0 … y = 24). Exact boxes are rare at first, so
# **Visual-RFT** and **VLM-R1** pay the *intersection over union* of the box told, $b$, and the box wanted, $b^*$:
#
# $$\mathrm{IoU}(b, b^*) = \frac{|b \cap b^*|}{|b \cup b^*|} .$$
#
# **Claim:** the mean IoU rises by 0.15 over the start, in every seed.

# %% tags=["nbval-check-output"]
box = by_seed("box", "iou"), by_seed("box", "iou", "before")
print(pd.DataFrame({"start": box[1]["IoU"], "paid by IoU": box[0]["IoU"]}).round(3).to_string())
print("gain:", evaluate.mean(box[0]["IoU"] - box[1]["IoU"]))
claim("mean IoU rises by 0.15", box[0]["IoU"] - box[1]["IoU"] >= 0.15)

# %% [markdown]
# It rises in every seed, by about half of what was claimed. Why so slowly? Whose box does the start draw?

# %%
{name: round(value, 2) for name, value in ch12.which_box(models.load("glimpse-reader")).items()}

# %% [markdown]
# Its boxes are good, but it boxes the digit asked for hardly more often than the other one. So what is left to learn is not where the ink ends but
# *which* digit is meant, and an overlap reward pays the same for a fine box around the wrong digit as for no box at all.
#
# If that is the reason, the claim should hold where no other digit stands on the canvas. A second setting, chosen after the first had failed:
# one digit, 40 updates, three seeds more; two pilot runs with other seeds had risen.
#
# **Claim:** there the mean IoU rises by 0.15 over the start, in every seed.

# %% tags=["nbval-check-output"]
alone = {when: by_seed("box_alone", "iou", when)["IoU"] for when in ("before", "after")}
print(pd.DataFrame({"start": alone["before"], "paid by IoU": alone["after"]}).round(3).to_string())
print("gain:", evaluate.mean(alone["after"] - alone["before"]))
claim("one digit alone: mean IoU rises by 0.15", alone["after"] - alone["before"] >= 0.15)

# %% [markdown]
# It does, by twice as much as asked, in half the updates. The overlap reward finds the edges, and it did not find *which*. (A part of the gain may be
# another: in the lessons a box was always asked for beside a second digit, so the start meets this canvas for the first time.)

# %% [markdown]
# ### The same question in two views
#
# *Which stands left of the other, 7 or 5?* ` 7 left 5`. Mirror the canvas and the answer must turn around. **SVQA-R1** (Spatial-GRPO) tries
# both views and pays for agreement:
#
# $$R_i = r_i + \alpha\, c_i, \qquad c_i = 1 \text{ where the answers to a view and to its mirror image are opposite.}$$
#
# The baseline tries both views as well, without the bonus ($\alpha = 0$): same tasks, same number of tries.
#
# **Claim:** with the bonus ($\alpha = 1$) the share of held-out pairs with opposite answers rises above the start, in every seed. (The
# baseline stands beside it, without a claim.)

# %% tags=["nbval-check-output"]
views = by_seed("views", "consistent")
start = by_seed("views", "consistent", "before")["two views"].iloc[0]
print(f"opposite answers at the start {start:.3f}")
print(views.round(3).to_string())
print("right answers:", {arm: str(evaluate.mean(x)) for arm, x in by_seed("views", "success").items()})
print("with the bonus − start:", evaluate.mean(views["view consistency"] - start))
print("with the bonus − without:", evaluate.mean(views["view consistency"] - views["two views"]))
claim("more answers turn with the picture than at the start", views["view consistency"] > start)

# %% [markdown]
# The claim holds as written, and says little. Both intervals contain 0, and a share of 256 pairs is itself uncertain by 0.03 (one standard
# error): a gain as small as this may be chance. And without the bonus the answers turn nearly as often. Where right answers are known, a
# policy that is right in both views is consistent anyway; the bonus should matter where they are not.

# %% [markdown]
# ## Looking closer, as an action
#
# Now the small overview, two digits, and the question which digit stands at the left (or at the right). `<act> look 2 3</act>` brings the
# 8×8 pixels from there. The start can look and can read, but three times of four it answers at once, and when it looks, it often looks anywhere.
#
# The reward is 1 for the right answer and nothing else: nobody marks where to look, as in **Ground-R1** and **DeepEyes** (which adds a bonus for
# a right answer that used its tool). **GRIT** also pays for boxes in the thought, for their form. In a second arm we pay for their place: half a
# point for a look that covers what was asked for (IoU at least 0.5), $R_i = r_i + \alpha g_i$.
# By hand, against the library:

# %%
grounded = perception.Grounded(bonus=0.5)
landed = torch.tensor([perception.ground_reward(e) for e in batch.episodes])
paid = batch.reward + 0.5 * landed
by_hand = torch.stack([(r - paid[batch.group == g].mean()) / (paid[batch.group == g].std() + 1e-6)
                       for r, g in zip(paid, batch.group)])
library = grounded.advantages(grounded.reward(batch))
assert torch.allclose(library[batch.mask > 0], by_hand[:, None].expand_as(library)[batch.mask > 0], atol=1e-4)
print(f"{int(landed.sum())} of {len(batch)} tries have a look that lands; {int(batch.success.sum())} are right")

# %% [markdown]
# **Claims.** (1) With outcome reward alone, looking beats answering at once by at least 0.15 in every seed. "At once" is the better
# of two passive arms: reinforcement without the tool, 80 updates for 50 (five sixths of the tokens, pictures counted), and imitation of 3,072 right
# answers in 120 updates. (2) Though only answers are
# paid, looks land on the digit that was asked for: at least twice as often as looks at random places, in every seed.
#
# One seed, live:

# %%
policy = models.load("glimpse-novice")
arm = ch12.EXPERIMENTS["12_perception/looks"].arms["outcome only"]
run = arm(policy, seed=0, steps=budget.pick(smoke=2, cpu=40, gpu=40))
live = lab.live(run, title="Two digits from afar, with a look", show=("success", "turns", "entropy"))
live

# %%
records = await live.done()
measured = {"start": ch12.measure_looks(novice), f"after {len(records)} updates": ch12.measure_looks(policy)}
pd.DataFrame(measured).round(3)

# %%
lab.microscope(records[-1].episodes, first=2)

# %% tags=["nbval-check-output"]
success, landed = by_seed("looks", "success"), by_seed("looks", "landed")
spent = experiments.recorded("12_perception/looks").curves
print("tokens in all:", {arm: f"{sum(r['positions'] for r in spent[arm][0]):,}" for arm in ("passive", "outcome only")})
chance = ch12.landing_chance(ch12.LOOKS)
print(success.round(3).to_string())
print(f"looks that land: at random places {chance:.3f}, at the start {by_seed('looks', 'landed', 'before').iloc[0, -1]:.3f}")
print(landed[["outcome only", "grounded"]].round(3).to_string())
best = success[["passive", "passive, shown answers"]].max(axis=1)
print("outcome only − best passive:", evaluate.mean(success["outcome only"] - best))
claim("1. looking beats answering at once by 0.15", success["outcome only"] - best >= 0.15)
claim("2. looks land twice as often as chance", landed["outcome only"] >= 2 * chance)

# %% [markdown]
# Claim 2 asked for little: the lessons had taught the right place, so the start's looks land in nearly half of the cases. What reward added
# is the other half, and the habit to look at all. Paying for the place as well (*grounded*) adds little here. Imitation of three thousand
# right answers brings the passive policy to 0.2, twice chance: two digits in 8×8 pixels are hard to read in so short a lesson.

# %% [markdown]
# ## Tools, and the courage to use them badly at first
#
# A tool that one cannot handle yet costs success, so reinforcement drops it before it can learn it. **Pixel Reasoner** calls this a learning
# trap, and pays for curiosity while few tries of a group use a tool:
#
# $$R_i = r_i + \alpha \max(H - \rho_g,\, 0)\,\mathbb 1[n_i > 0] - \beta \max(n_i - N,\, 0) .$$
#
# $n_i$ counts the tool calls of try $i$, $\rho_g$ is the share of its group's tries that called one. The bonus fades by itself:
# where more than $H$ = 0.3 of the tries call, it is 0. By hand, against the library:

# %%
shy = models.load("glimpse-shy")
dark = collate(evaluate.episodes(shy, ch12.TOOLS, 24, tries=8, limits=limits))
curious, calls = perception.Curious(), torch.tensor([perception.tool_calls(e) for e in dark.episodes])
rate = torch.stack([(calls[dark.group == g] > 0).float().mean() for g in dark.group])
by_hand = dark.reward + curious.bonus * (curious.least - rate).clamp(min=0) * (calls > 0)
by_hand = by_hand - curious.price * (calls - curious.most).clamp(min=0)
assert torch.allclose(curious.reward(dark).reward, by_hand, atol=1e-5)
print(f"{int((calls > 0).sum())} of {len(dark)} tries call a tool")

# %% [markdown]
# The canvas is dark now, and there are three tools: `crop` (8×8 pixels in full size), `contrast` (the whole canvas, brightened), `count`.
# The start, `glimpse-shy`, calls one in every seventh task, and then mostly guesses: at first a call makes it *worse* (0.11 right after a
# call, 0.25 at once: the table below, column *start*).
#
# **Claims.** (1) With outcome reward alone, tool use is below 0.05 in the end, in at least two of three seeds. (2) With the bonus, success is
# at least 0.2 above training without tools, in every seed.

# %%
brave = models.load("glimpse-shy")
arm = ch12.EXPERIMENTS["12_perception/tools"].arms["curious"]
run = arm(brave, seed=0, steps=budget.pick(smoke=2, cpu=50, gpu=50))
live = lab.live(run, title="Three tools and a fading bonus", show=("success", "turns", "entropy"))
live

# %%
await live.done()
pd.DataFrame({"start": ch12.measure_tools(shy), "curious, live": ch12.measure_tools(brave)}).round(3)

# %% tags=["nbval-check-output"]
calls, right = by_seed("tools", "call_share"), by_seed("tools", "success")
print("share of tasks with a tool call\n" + calls[["outcome only", "curious"]].round(3).to_string())
print("right\n" + right.round(3).to_string())
dies = calls["outcome only"] < 0.05
print(f"1. without the bonus tool use dies: {'holds' if dies.sum() >= 2 else 'FAILED'} ({dies.sum()} of {len(dies)} seeds)")
print("curious − no tools:", evaluate.mean(right["curious"] - right["no tools"]))
spent = experiments.recorded("12_perception/tools").curves
tokens = {arm: np.mean([sum(r["positions"] for r in run) for run in runs]) for arm, runs in spent.items()}
print("tokens in training, pictures counted:", {arm: f"{mean:,.0f}" for arm, mean in tokens.items()})
claim("2. with it, success is 0.2 above no tools", right["curious"] - right["no tools"] >= 0.2)

# %% [markdown]
# In one seed outcome reward alone did find the tool, late; in the others it was gone before it could help. The bonus made the difference
# between a lottery and a habit, and it ended by itself. Of the three tools `crop` stayed: it is the one that shows more. The arms have as
# many updates, not as many tokens: a call brings a picture, and the curious read 1.4 times as many. More updates would hardly have helped
# the others, whose curves below do not rise.

# %%
tools = experiments.recorded("12_perception/tools")
figure, axes = plt.subplots(1, 2, figsize=(8, 2.8))
for ax, number in zip(axes, ("turns", "success")):
    lab.curves(tools.curves, y=number, smooth=5, ax=ax)

# %% [markdown]
# ## A shortcut, and its cure
#
# A task may hold words that give the answer away. *hint 4, name the digit*: in training the hint is right nine times of ten, more often
# than the eyes of the start. So the reward teaches to copy it. **Visionary-R1** makes the model describe the picture first; **PAPO** (chapter 04)
# adds a term that pushes up what the answer owes to the picture: a copy of each try, with 60 % of its patches blank, should find the answer
# less likely.
#
# How much of what can be won by looking is won by looking? *Reliance* = (right − right in the dark) / (1 − chance).
#
# **Claims**, on tasks whose hint is right in 7 of 10: (1) where the hint is wrong, PAPO ($\gamma = 0.1$) is right more often than GRPO, by
# at least 0.05 in every seed; (2) its reliance on the picture is higher, in every seed.

# %% tags=["nbval-check-output"]
wrong, total, blind = (by_seed("shortcut", name) for name in ("disagree", "success", "blind"))
told = {"start": by_seed("shortcut", "disagree", "before")["GRPO"], "GRPO": wrong["GRPO"], "PAPO": wrong["PAPO"]}
print("right where the hint is wrong\n" + pd.DataFrame(told).round(3).to_string())
reliance = (total - blind) / (1 - 0.1)
print("reliance\n" + reliance[["GRPO", "PAPO"]].round(3).to_string())
print("PAPO − GRPO where the hint is wrong:", evaluate.mean(wrong["PAPO"] - wrong["GRPO"]))
claim("1. PAPO resists a wrong hint", wrong["PAPO"] - wrong["GRPO"] >= 0.05)
claim("2. PAPO relies more on the picture", reliance["PAPO"] > reliance["GRPO"])
copied = by_seed("shortcut", "copied")
print("wrong hints copied\n" + copied.round(3).to_string())

# %% [markdown]
# Both claims hold in two of three seeds and fail in one. GRPO and PAPO both learn the shortcut; PAPO copies less of it. Why not much less?
# A likely reason: a copied hint is as likely with the picture as without, so at such a try PAPO's term is near zero, and has little to pull
# on: it strengthens what already depends on the picture. With $\gamma = 0.3$ and no entropy terms (last column) it pulls harder, and copies
# least, at a price that is shown below under *What breaks*.

# %% [markdown]
# ## Drawing before answering
#
# So far the policy looked at a picture, or looked again. It may also *make* one, on its way to an answer. Visual Planning (Xu et
# al. 2025) lets a model plan in a sequence of images, without a word, and rewards each for progress. Here it is one picture, and an answer after it.
#
# `Maze` is a picture of 6×6 cells. Four paths run down and cross on bridges (┼). Which number does the path from A reach? The
# policy may answer at once, or first draw a picture of its own, 36 tokens with A's path alone, which then stands in its
# context. Reward 1 for the right number, whatever was drawn.

# %% tags=["nbval-check-output"]
from arl_mini import GRPO, train
from arl_mini.capabilities.drawing import OneLevel, valid_path
from arl_mini.capabilities.sound import SOUNDS, Voice, recognise, word_errors
from arl_mini.experiments import ch12_audio, ch12_draw

maze = envs.Maze()
maze.reset(seed=56)
for cells, own in zip(maze.cells, maze.own):
    print(" ".join(cells), "     ", " ".join(own))
print("answer:", maze.answer, "  a valid path:", valid_path(sum(maze.own, []), maze.cells))

# %% [markdown]
# Why should drawing help? A cell of the drawing follows from its neighbours: does the path come in from above, or from the side? Each
# token is one small step. An answer at once must follow the whole path inside two layers. Chapter 11 says the same of steps in
# words.
#
# The start can draw; it draws in two mazes of ten and else guesses. Three ways from there:
#
# - **draws**: GRPO, 20 updates, drawings allowed;
# - **answers**: the same, but a reply with a drawing is malformed;
# - **taught answers**: 150 supervised updates on *right* answers. If a policy of this size can learn to answer at once, then here.
#
# A drawing with its answer has 40 tokens, an answer 2. So the two that answer at once also get 20 tries and a vote. (In training the arms have as
# many updates, not as many tokens: *draws* reads 1.8 times as many as *answers*, pictures counted.)
#
# **Claims, before the runs:** (1) *draws* ends at least 0.3 above the other two, one try each; (2) and at least 0.3 above their
# votes; (3) after RL an answer under a valid drawing is right at least 0.3 more often than under another.

# %%
train_maze = False  # True: train one seed now, some ten seconds
if train_maze or budget.name == "smoke":
    drawer, steps = models.load("paths-novice"), budget.pick(smoke=1, cpu=20, gpu=40)
    run = experiments.EXPERIMENTS["12_perception/maze"].arms["draws"](drawer, seed=0, steps=steps)
    print([round(record.success, 2) for record in run])

# %% tags=["nbval-check-output"]
right, votes = by_seed("maze", "success"), by_seed("maze", "vote")
others = ["answers", "taught answers"]
print("right\n" + right.round(3).to_string(), "\n\nvote of 20 answers\n" + votes[others].round(3).to_string())
gap = right["draws"] - right[others].max(axis=1)
print("\ndraws − the better of the other two:", evaluate.mean(gap))
claim("1. drawing beats answering at once", gap >= 0.3)
claim("2. drawing beats a vote of as many tokens", right["draws"] - votes[others].max(axis=1) >= 0.3)
drawings = experiments.recorded("12_perception/maze")
kinds = ("valid", "right_when_valid", "right_when_not")
shown = pd.DataFrame({kind: drawings.values("draws", kind) for kind in kinds}, index=right.index)
print("\n" + shown.round(3).to_string())
claim("3. valid drawings are right more often", shown.right_when_valid - shown.right_when_not >= 0.3)

# %% [markdown]
# Answering at once stays at chance, taught or not: to follow a path through five rows inside two layers is hard, and these updates do not
# find how. A valid drawing almost always ends in the right number. But reward was paid for the number alone, and drawings did not become
# valid more often (0.67 of them at the start): some are a cell too long, some take another path, and in about half of those the number is
# right all the same. Visual Planning pays for each drawn step that makes progress.
#
# ## Imagine, then place: two levels of one picture
#
# T2I-R1 (Jiang et al. 2025) sees two chains of thought in the making of an image: a *semantic* one, words that plan what stands
# where, and a *token* one, the patches themselves. One reward for the finished image trains both in the same GRPO update.
#
# `Place` in small: "sun above tree, cat left of tree". The policy gives each thing a cell in `<think>`, then draws 3×3 cells. It is
# paid for the picture alone: each thing there once, both relations true. The start is careless on both levels: it plans
# without regard to the relations, or draws a thing elsewhere than planned. Which level should the reward reach?
#
# $$A_{i,t} = \frac{R_i - \operatorname{mean}_g R}{\operatorname{std}_g R}\cdot
# \begin{cases}1 & t \text{ belongs to a level that is trained}\\ 0 & \text{else}\end{cases}$$
#
# GRPO as it is trains both; `OneLevel` trains the plan or the picture. By hand, on real replies:

# %%
placer = models.load("place-novice")
batch = collate(evaluate.episodes(placer, envs.Place(), 4, tries=4, limits=ch12_draw.PLACED))
whole, drawn = GRPO().advantages(batch), torch.zeros_like(batch.mask)
for row, episode in enumerate(batch.episodes):
    drawn[row, episode.pieces.index("</think>") + 1 :] = 1
assert torch.equal(OneLevel(level="picture").advantages(batch), whole * drawn)
assert torch.equal(OneLevel(level="plan").advantages(batch), whole * (1 - drawn))
lab.microscope(batch.episodes, first=2, algorithms=[GRPO(), OneLevel(level="plan"), OneLevel(level="picture")])

# %% [markdown]
# **Claims, before the runs**, after 25 updates: (1) both levels end at least 0.2 above either alone; (2) the plan alone leaves the share of
# pictures drawn as planned within 0.15 of the start's; (3) the picture alone leaves the share of fitting plans within 0.15.

# %%
train_place = False  # True: train one seed now
if train_place or budget.name == "smoke":
    steps = budget.pick(smoke=1, cpu=25, gpu=60)
    run = experiments.EXPERIMENTS["12_perception/place"].arms["both"](placer, seed=0, steps=steps)
    print([round(record.success, 2) for record in run])

# %% tags=["nbval-check-output"]
numbers = {"success": "right picture", "plan_fits": "the plan fits", "as_planned": "drawn as planned"}
found = {number: by_seed("place", number) for number in numbers}
before = {number: by_seed("place", number, "before")["both"].iloc[0] for number in numbers}
means = pd.DataFrame({words: {"start": before[n], **found[n].mean()} for n, words in numbers.items()})
print("mean of the seeds\n" + means.round(3).to_string())
gain = found["success"]["both"] - found["success"][["plan", "picture"]].max(axis=1)
print("both − the better of the two alone:", evaluate.mean(gain))
claim("1. both levels beat either alone", gain >= 0.2)
moved = (found["as_planned"]["plan"] - before["as_planned"]).abs()
claim("2. the plan alone leaves the drawing as it was", moved <= 0.15)
moved = (found["plan_fits"]["picture"] - before["plan_fits"]).abs()
claim("3. the picture alone leaves the plans as they were", moved <= 0.15)

# %% [markdown]
# A right picture needs a fitting plan *and* a hand that follows it. Credit for one level mends one factor of the product; the other
# stays where it was. The picture alone has a second way to please: it learns to leave a plan that does not fit. In two of three
# seeds it draws *less* often as planned than the start, and is right more often.
#
# ## Listening: how many tones rise?
#
# Sound is a picture too, once its spectrum is drawn over time. `Waves` computes a tune of one to five tones sample by sample (8,000 a
# second), adds noise, and takes the Fourier transform of every 32 ms. The log-power in 16 bands of pitch, cut into patches of
# 4×4, goes through the eyes of this chapter's first half.

# %%
tune = envs.Waves((5, 5))
tune.reset(seed=30)
figure, axes = plt.subplots(2, 1, figsize=(7, 3.6), layout="constrained")
axes[0].plot(np.arange(320) / 8, tune.record()[:320], lw=0.8, color=lab.style.BLUE)
axes[0].set(ylabel="pressure", xlabel="the first 40 ms")
axes[1].imshow(tune.spectrum(), aspect="auto", cmap="cividis", extent=(0, 5, 0, 16))
axes[1].set_xticks(np.arange(5) + 0.5, tune.moves)
axes[1].grid(False)
axes[1].set(ylabel="band of pitch", xlabel="tone, 128 ms each");

# %% [markdown]
# The policy answers ` 2` at once, or writes what it hears tone by tone with the count so far, ` up 1 down 1 up 2`, and then the
# number. SARI (Wen et al. 2025) reports for real audio that explicit, structured reasoning, warmed up by imitation and trained by
# GRPO, answers better. The start writes in two tunes of ten and else guesses.
#
# **Claims, before the runs**, after 16 updates, for tunes of four or five tones: (1) *steps* (written or not, as the policy likes) ends at
# least 0.2 above *direct* (steps are malformed); (2) and at least 0.2 above a vote of six direct answers, which have as many
# tokens. Without a claim stands *taught direct*: 150 supervised updates on right answers.

# %%
train_waves = False  # True: train one seed now, some ten seconds
if train_waves or budget.name == "smoke":
    listener, steps = models.load("waves-novice"), budget.pick(smoke=1, cpu=16, gpu=60)
    run = experiments.EXPERIMENTS["12_perception/waves"].arms["steps"](listener, seed=0, steps=steps)
    print([round(record.success, 2) for record in run])

# %% tags=["nbval-check-output"]
long, votes = by_seed("waves", "long_success"), by_seed("waves", "long_vote")
print("right, four or five tones\n" + long.round(3).to_string())
print("\nvote of six direct answers\n" + votes[["direct", "taught direct"]].round(3).to_string())
print("\nsteps − direct:", evaluate.mean(long["steps"] - long["direct"]))
claim("1. written steps beat direct answers", long["steps"] - long["direct"] >= 0.2)
claim("2. written steps beat a vote of as many tokens", long["steps"] - votes["direct"] >= 0.2)

# %% [markdown]
# *Taught direct* is the surprise. Shown right answers, the same network counts the tones in one go, as well as with steps or better:
# attention looks at all tones at once, so counting is no long calculation. What steps change here is what *reward* can find.
# Each written step is a thing the start already does; a right number without them is a lucky guess, and a guess teaches little.
# In the maze, where a path must be followed, teaching the answers did not help either.
#
# ## One part of a voice, tuned on what a listener misses
#
# A speech model is a chain of parts. One decides *how long each sound lasts*; no gradient of what a listener understands reaches
# it, so it is usually trained to copy human durations. DMOSpeech 2 (Li et al. 2025) tunes that part by GRPO and pays it by a
# recogniser's errors and the likeness of the speaker.
#
# `Voice` in small. Eight sounds of two partials each, four loud, four soft. A synthesiser computes the samples, a room adds noise,
# and a recogniser (spectral templates, Viterbi search) writes down what it hears. The policy says one digit a sound: its frames
# of 16 ms. The recording has room for three frames a sound; what comes later is cut. The start copies a reader who stresses what is
# loud anyway. Reward and error rate:
#
# $$R = 1 - \mathrm{WER}, \qquad \mathrm{WER} = \frac{\text{fewest words to change, drop or add}}{\text{words said}}$$

# %% tags=["nbval-check-output"]
room = Voice()
print("said:", room.reset(seed=5))
replies = {"a reader": room.reader(), "even": room.write([3] * 6), "soft ones long": room.expert()}
for who, reply in replies.items():
    frames = [int(word) for word in reply.removesuffix("<end>").split()]
    heard = recognise(room.record(frames))
    print(f"{who:15}{frames}  {word_errors(room.said, heard)} of 6 wrong, heard: {' '.join(heard)}")

# %% [markdown]
# **Claims, before the runs**, after 40 updates: (1) the word error rate is at least 30 % below the start's; (2) the share of time that
# soft sounds get has risen by at least 0.1. One seed, live:

# %%
speaker = models.load("voice-novice")
settings = ch12_audio.SPEAK | dict(steps=budget.pick(smoke=2, cpu=40, gpu=60))
run = train(speaker, Voice(), GRPO(), seed=0, **settings)
live = lab.live(run, title="Durations by GRPO", show=("reward", "success", "entropy"))
live

# %%
spoken = await live.done()
rates = [1 - record.reward for record in spoken]
print(f"{len(spoken)} updates; word error rate {rates[0]:.2f} at first, {rates[-1]:.2f} at last")

# %% tags=["nbval-check-output"]
error, share = by_seed("voice", "error"), by_seed("voice", "soft_share")
start, early = (by_seed("voice", number, "before")["tuned"] for number in ("error", "soft_share"))
expert = ch12_audio.scripted_error(lambda world: world.expert())
scripted = {"even durations": ch12_audio.even_error(3), "soft ones long": expert}
print(pd.DataFrame({"start": start, "after GRPO": error["tuned"], **scripted}).round(3).to_string())
print("the error falls by, as a share:", evaluate.mean(1 - error["tuned"] / start))
claim("1. at least 30 % fewer errors", error["tuned"] <= 0.7 * start)
claim("2. soft sounds get more of the time", share["tuned"] - early >= 0.1)

# %% [markdown]
# It halves the errors and stops at even durations (a little above them, for it still samples). From there a longer soft sound alone cuts
# the last one short, and a shorter loud one alone gains nothing: better durations need two changes at once, and there is little
# entropy left to find them.

# %%
def given(policy) -> list[float]:
    """Mean frames that a policy gives each sound, on held-out texts."""
    spent = {sound: [0] for sound in SOUNDS}
    for episode in evaluate.episodes(policy, room, 128, limits=ch12_audio.SPOKEN):
        room.reset(episode.seed)
        if not episode.infos[-1].get("malformed"):
            for sound, frames in zip(room.said, episode.said(0).removesuffix("<end>").split()):
                spent[sound].append(int(frames))
    return [sum(frames) / max(1, len(frames) - 1) for frames in spent.values()]


figure, ax = plt.subplots(figsize=(7, 2.6))
ax.bar(np.arange(8), given(models.load("voice-novice")), 0.38, label="start", color=lab.style.GREY)
ax.bar(np.arange(8) + 0.4, given(speaker), 0.38, label="after GRPO", color=lab.style.BLUE)
names = [f"{sound}\n{'loud' if loud == 1 else 'soft'}" for sound, (_, _, loud, _) in SOUNDS.items()]
ax.set_xticks(np.arange(8) + 0.2, names)
ax.set(ylabel="frames of 16 ms")
ax.legend(ncols=2, loc="lower right", bbox_to_anchor=(1, 1));

# %% [markdown]
# **What breaks: a listener with all the time in the world.** The room in the recording is part of the reward, though no formula shows it. Take
# it away (`Voice(pace=None)`): the recogniser is paid for what it hears, and slowness costs nothing.
# **Claim, before the runs:** the voice becomes at least 1.3 times as slow as with the limit.

# %% tags=["nbval-check-output"]
slow = by_seed("voice", "frames")
print("frames a text of six sounds\n" + slow.round(1).to_string())
claim("without a limit it drawls", slow["endless"] >= 1.3 * slow["tuned"])

# %% [markdown]
# **What does not transfer, of drawing and sound.** Our pictures are 36 words, and a drawing follows from its neighbours by a handful of
# rules; the generators of Visual Planning and T2I-R1 make pixels, and other models judge them, not a rule. Our tones are pure and
# our listener knows the noise in advance. The voice has eight sounds and one trained part, and no speaker to resemble.

# %% [markdown]
# ## What breaks
#
# **A box that covers everything.** Suppose the reward is the share of the digit that the box covers: it sounds like partial credit, and is easy to
# write. What will the box become?

# %% tags=["nbval-check-output"]
columns = [(arm, number) for arm in ("IoU", "covered") for number in ("iou", "covered", "area")]
hacked = pd.DataFrame({(arm, number): by_seed("box", number)[arm] for arm, number in columns})
print(hacked.round(2).to_string())
whole = pictures.iou((0, 0, 24, 24), (4, 4, 10, 12))
print(f"the whole canvas: covers 1.00, IoU with a digit of 6×8 pixels {whole:.2f}")
grown = hacked["covered", "area"] >= 1.5 * by_seed("box", "area", "before")["covered"]
claim("paid for covering, boxes grow by half and more", grown)
claim("and their IoU ends below that of boxes paid by IoU", hacked["covered", "iou"] < hacked["IoU", "iou"])

# %% [markdown]
# In two of three seeds the policy found it within 50 updates, in one not yet: so the claims fail as written, and the hack is still there to
# be found. The boxes that grew are not the whole canvas yet but wide bands (a rerun of seed 12: from column 6 to the right edge on average;
# three of ten cover half or more of *both* digits, of the start's none): who does not know which digit is meant covers what there is. The
# IoU charges for the area, so that does not pay there.

# %% [markdown]
# **A distance without an end.** PAPO's term pays for making the copy's answer unlikely, and nothing stops it: the KL has no upper bound. The two
# entropy terms of the paper are there for that. Without them, and with $\gamma = 0.3$:

# %% tags=["nbval-check-output"]
print("right\n" + total.round(3).to_string())
claim("PAPO with γ = 0.3 and no entropy terms ends below GRPO", total["PAPO, unbounded"] < total["GRPO"])

# %% [markdown]
# In one seed a third of the success is gone, in two it is a few hundredths. Two things were changed at once, the weight of the term and its brakes:
# these runs do not say which of them did it.

# %% [markdown]
# ## On a GPU
#
# No vision-language model ships with this course, and the patch encoder fits the tiny model alone. But the picture is text as well, and a
# language model reads it as such: 64 digits from 0 to 7 for the overview. With `budget = "gpu"` SmolLM2-135M trains on that world.

# %%
if budget.name == "gpu":
    for record in ch12.REAL(experiments.real.policy(), seed=0):
        print(record.step, round(record.reward, 2), round(record.turns, 2))

# %% [markdown]
# ## Where this stands
#
# - **Visual-RFT**, **Vision-R1**, **VLM-R1** and **STAR-R1** bring verifiable rewards, IoU and partial credit among them, to models that look
#   once. **SVQA-R1** adds the mirrored view, **Visionary-R1** and **PAPO** guard against answers that do not need the picture.
# - **GRIT** and **Ground-R1** put places into the chain of thought; **DeepEyes** and **Chain-of-Focus** look closer, and nobody shows them in
#   training by reward where. **VisTA**, **Pixel Reasoner** and **VTool-R1** choose among tools.
# - **Visual Planning**, **GoT-R1** and **T2I-R1** draw before they answer, or plan before they draw; **SARI**, **R1-AQA**, **EchoInk-R1** and
#   **DMOSpeech 2** do with sound what the others do with pictures.
#
# The works that the survey places in §3.6, with what this project has of them:

# %%
survey_taxonomy.table("3.6")

# %% [markdown]
# **What does not transfer.** Digits of 8×8 pixels need no pre-training, and one of 25 places is soon found: grounding comes easily here. Our
# policy met the tools in its lessons; a large model must be taught them or brings them along. A curiosity bonus that works in 50 updates says nothing
# about a model with a language prior, which can do much without looking. And grey levels as text are a poor way to show a language model a picture.
#
# ## Exercises

# %% [markdown]
# **12.1 Overlap.** Write `iou(told, wanted)` for two boxes `(left, top, right, bottom)`, where right and bottom are the first pixels outside. A
# box whose edges are in the wrong order holds nothing.

# %%
def iou(told, wanted) -> float:
    """Pixels in both over pixels in either."""
    return pictures.iou(told, wanted)


lab.check("12.1", iou)

# %% [markdown]
# **12.2 A crop at the border.** `crop(picture, box)` returns the pixels in a box. The policy may point anywhere: the result always has the size
# of the box, and is black where the box leaves the picture.

# %%
def crop(picture, box):
    """An array (bottom − top, right − left)."""
    return pictures.crop(picture, box)


lab.check("12.2", crop)

# %% [markdown]
# **12.3 Does it look?** `reader(hint, picture)` names a class; `tasks` is a list of `(hint, picture, class)`. Write `reliance`: how much of what can
# be won by looking does it win by looking? 0 for a reader of hints, 1 for one that is right with the picture and at chance without.

# %%
def reliance(reader, tasks, classes: int) -> float:
    """(right − right in the dark) / (1 − 1/classes)."""
    right = np.mean([reader(hint, picture) == label for hint, picture, label in tasks])
    blind = np.mean([reader(hint, 0 * picture) == label for hint, picture, label in tasks])
    return perception.reliance(right, blind, 1 / classes)


lab.check("12.3", reliance)

# %% [markdown]
# **12.4 Find the bug.** With this reward no curious try ever got a bonus, and the tools were dropped as if there were none. (The version below
# is mended; put `calls >= 0` for `calls > 0` to see what the check says of the bug.)

# %%
def curious_reward(reward, calls, group, bonus, least, price, most):
    """Pixel Reasoner's reward, (B,)."""
    eager = perception.curiosity(calls > 0, group, least)
    return reward + bonus * eager - price * (calls - most).clamp(min=0)


lab.check("12.4", curious_reward)

# %% [markdown]
# **12.5 Word error rate.** Write `word_error_rate(said, heard)`: the fewest words to change, drop or add that turn one list into the
# other, divided by the words said. The check tries all alignments, one by one.

# %%
def word_error_rate(said: list[str], heard: list[str]) -> float:
    """The fewest changes, for each word said."""
    return word_errors(said, heard) / len(said)


lab.check("12.5", word_error_rate)

# %% [markdown]
# **12.6 Find the bug.** For credit on two levels each token needs its level: 'plan' up to the policy's first `</think>`, and with it; then
# 'picture'; None for what the policy did not sample. (The version below is mended; drop `sampled and` in the second `if` to see
# what the check says of the bug.)

# %%
def levels(tokens: list[str], mask: list[int]) -> list[str | None]:
    """'plan', 'picture' or None, for each token."""
    found, level = [], "plan"
    for token, sampled in zip(tokens, mask):
        found.append(level if sampled else None)
        if sampled and token == "</think>":
            level = "picture"
    return found


lab.check("12.6", levels)

# %% [markdown]
# ## In short
#
# - A picture is a row of tokens whose vectors an encoder makes from pixels; a look is an observation like any other.
# - Looking pays where the overview does not suffice; outcome reward alone finds the places.
# - What hinders tools is the time before they help: pay for that, and let the pay fade.
# - Rewards for pictures can be hacked like all others: by a box as large as the canvas, by a hint, by a distance without an end.
#
# **References.** Zhang et al. 2025, arXiv 2509.02547, §3.6. Liu et al. 2025 (Visual-RFT), arXiv 2503.01785. Li et al. 2025 (STAR-R1), arXiv
# 2505.15804. Shen et al. 2025 (VLM-R1), arXiv 2504.07615. Wang and Ling 2025 (SVQA-R1), arXiv 2506.01371. Fan et al. 2025 (GRIT), arXiv
# 2505.15879. Zheng et al. 2025 (DeepEyes), arXiv 2505.14362. Su et al. 2025 (Pixel Reasoner), arXiv 2505.15966. Wang et al. 2025 (PAPO), arXiv
# 2507.06448. Xia et al. 2025 (Visionary-R1), arXiv 2505.14677. Dosovitskiy et al. 2021 (ViT), arXiv 2010.11929.
