# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 00 · Start here
#
# **Can a small network learn to act, and can you watch it happen?** In this chapter a transformer with 0.12 million
# weights walks through dark rooms, finds a key and opens a door. Nobody shows it how. It tries, is told once at the
# end whether it succeeded, and changes. That takes about a minute on two CPU cores.
#
# The survey that this course accompanies, *The Landscape of Agentic Reinforcement Learning for LLMs*
# ([arXiv 2509.02547](https://arxiv.org/abs/2509.02547)), starts from one change of view: a language model is not only
# something that writes one reply. It can be a *policy*: a part that decides, again and again, inside a loop with a
# world. This chapter shows the loop. The other chapters take it apart.
#
# You need Python and school algebra. Reading time: ten minutes.

# %%
import copy
import random
from dataclasses import dataclass, replace

import pandas as pd
import torch

from arl_mini import GRPO, RLOO, DrGRPO, Limits, Reinforce, envs, evaluate, experiments, lab, models, ops, rollout, train

budget = lab.budget()  # 'smoke' for tests, 'cpu' for reading, 'gpu' where there is one
lab.style.use()

# %% [markdown]
# ## A world you can play yourself
#
# `Quest` is a text game. `reset` tells the task, `step` answers what you say. An action stands between `<act>` and
# `</act>`. You see one room at a time: its name, its exits, and what lies there.

# %% tags=["nbval-check-output"]
world = envs.Quest(rooms=4)
print("task: ", world.reset(seed=7))
for said in ("<act> go north</act>", "<act> dance</act>", "please open the door"):
    print("you:  ", said)
    print("world:", world.step(said))

# %% [markdown]
# Two things to see. A silly command gets ` no`, and text without an action gets an error *as an observation*: a policy
# must be able to say anything without breaking the world. And the reward is 0 until the door opens; then it is 1.
#
# Someone who knows the map needs a few steps:

# %% tags=["nbval-check-output"]
text, reply = world.reset(seed=7), None
while reply is None or not reply.done:
    said = world.expert()
    reply = world.step(said)
    print(said, reply.text, f"reward {reply.reward:.0f}" if reply.done else "")

# %% [markdown]
# ## The policy
#
# The policy is a language model: given all tokens so far, it gives a probability to each next token. We load one that
# knows the *rules* but has no *plan*. It walks at random, and half of the time it ignores a key or a door. Its card
# says how it was made.

# %%
policy = models.load("quest-novice").to(budget.device)
pd.Series(policy.card).drop("about").to_frame("quest-novice")

# %%
limits = Limits(turn_tokens=12, turns=12, total=256)
before = evaluate.success(policy, envs.Quest(), tasks=budget.pick(smoke=32, cpu=256, gpu=256), limits=limits)
print("success within 12 turns, before training:", before)

# %% [markdown]
# Here are two of its attempts. Every token is either **sampled** (the policy chose it) or **forced** (the world wrote
# it: the task and the observations). Keep that difference in mind: training may only touch what the policy chose.

# %%
first_tries = evaluate.episodes(policy, envs.Quest(), 32, limits=limits)
lab.microscope(first_tries[1:3])

# %% [markdown]
# ## Learning from nothing but success
#
# The method is called GRPO, and its idea fits in three lines. Let the policy try the same task $G$ times. Call the
# rewards $R_1, \dots, R_G$. A try that did better than its siblings was better than usual for this policy, so make its
# tokens likelier; a worse one, less likely:
#
# $$A_i = \frac{R_i - \mathrm{mean}(R)}{\mathrm{std}(R)}, \qquad
# L = -\frac1G \sum_i \frac1{n_i} \sum_{t \,\in\, \text{sampled}} \frac{\pi_\theta(t)}{\pi_{\text{old}}(t)}\, A_i .$$
#
# $\pi_\theta(t)$ is the probability of token $t$ now, $\pi_{\text{old}}(t)$ when it was sampled, $n_i$ the number of
# sampled tokens of try $i$. (The full method also clips the ratio; chapter 04.) By hand, for eight tries:

# %% tags=["nbval-check-output"]
rewards = torch.tensor([0.0, 0, 1, 0, 0, 1, 0, 0])  # two of eight tries opened the door
by_hand = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
group = torch.zeros(8, dtype=torch.long)  # all eight belong to one task
assert torch.allclose(by_hand, ops.group_zscore(rewards, group))
print(by_hand.numpy().round(2))

# %% [markdown]
# And if all eight fail, or all succeed? Then nothing was better than usual, every advantage is 0, and the group teaches
# nothing. The share of groups that do teach, `signal_share`, is the number to watch in every run.
#
# Where does the push land? Below are eight tries of one task. Colour them by *gradient share*, switch the *estimator*, or set the
# reward at the end of a failed try to 1 and see what happens to its siblings. (Chapters 02 and 04 explain the estimators.)

# %%
many = rollout(models.load("quest-novice"), envs.Quest(), range(8), 8, limits=limits)
task = next(e.group for e in many if e.success)
won, lost = ([e for e in many if e.group == task and e.success is result] for result in (True, False))
lab.microscope([won[0], *lost, *won[1:]], first=2, algorithms=[GRPO(), Reinforce(), RLOO(), DrGRPO()])

# %% [markdown]
# ## Watch it learn
#
# **The claim, written before the run:** trained for 60 updates, each on 16 tasks with 8 tries, the policy solves at least
# 30 percentage points more of 256 unseen tasks than before, and at least 70 % of them, for every random seed.
#
# One seed trains here, live, beside the range of five that were recorded. Press *Stop* when you have seen enough: the cells
# below go on with what was learned. Or *Pause*, change the learning rate, *Fork*, and see both ways side by side.

# %%
settings = experiments.ch00.QUEST | dict(steps=budget.pick(smoke=2, cpu=60, gpu=60))
run = train(policy, envs.Quest(), GRPO(), seed=0, **settings)
quest = experiments.recorded("00_start_here/quest")
live = lab.live(run, title="Quest", show=("success", "signal_share", "entropy"),
                beside={"recorded seeds": quest.curves["GRPO"]})  # fmt: skip
live

# %%
records = await live.done()

# %%
tasks = budget.pick(smoke=32, cpu=256, gpu=256)
after = evaluate.success(policy, envs.Quest(), tasks, limits=limits)
print(f"success within 12 turns: {before} before, {after} after {len(records)} updates")
pd.DataFrame([r.numbers() for r in records]).set_index("step").iloc[[0, -1]].T.round(3)

# %% [markdown]
# The same 32 tasks again, with the policy as it is now. First one that it failed before and solves now, then one that it still
# fails: look for doors that it passes without a key, and for what it does when it is lost.

# %%
tries = evaluate.episodes(policy, envs.Quest(), 32, limits=limits)
learned = [e for e, first in zip(tries, first_tries) if e.success and not first.success]
failed = [e for e in tries if not e.success]
print(f"of {len(tries)} tasks: {len(learned)} newly solved, {len(failed)} not solved")
lab.microscope(learned[:1] + failed[:1])

# %% [markdown]
# ## One seed is an anecdote
#
# Reinforcement learning is noisy: another seed draws other tasks and other tries. So every claim in this course rests on
# several seeds, recorded beforehand with fresh seeds that nobody tuned on, and is recomputed here.

# %%
print("made by:", quest.command)
lab.curves({"GRPO": quest.curves["GRPO"]}, y="success", smooth=5);

# %% tags=["nbval-check-output"]
outcomes = pd.DataFrame({w: quest.values("GRPO", "success", w) for w in ("before", "after")})
outcomes.index = [f"seed {o['seed']}" for o in quest.outcomes["GRPO"]]
outcomes["gain"] = outcomes.after - outcomes.before
print(outcomes.round(3).to_string())
rose = (outcomes.gain >= 0.3).all() and (outcomes.after >= 0.7).all()
print("claim (gain ≥ 0.30 and success ≥ 0.70 in every seed):", "holds" if rose else "FAILED")

# %% [markdown]
# ## Why "agentic"?
#
# The same weights can be used as a one-shot answerer or as an agent. `Calc` asks for products of two-digit numbers, far
# beyond what this model can compute in its head. It may call a calculator in the middle of its answer: what comes back is
# forced into its context, and it goes on writing. We take the tool away and give it back; the weights do not change.
#
# **Claim:** with the loop, at least 10 percentage points more products are right.

# %%
calculator = models.load("calc-novice")
with_tool, without = (
    evaluate.success(calculator, envs.Calc(("product",), tool=tool), budget.pick(smoke=64, cpu=512, gpu=512))
    for tool in (True, False)
)
print("products right with the tool:   ", with_tool)
print("products right without the tool:", without)
print("claim:", "holds" if with_tool.mean >= without.mean + 0.1 else "FAILED")

# %% [markdown]
# It calls the tool in about a quarter of the tasks only: it was shown mostly guesses. Chapter 08 trains it to use the tool
# when it needs it.
#
# ## A record is all there is
#
# `train(...)` is an iterator. There is no trainer class with hooks to learn: you ask for the next record, or you do not.
# So you can stop, save, go back, and try another future from the same point.

# %%
start = train(models.load("quest-novice"), envs.Quest(), GRPO(), seed=0, **settings | dict(steps=4))
next(start)
saved = copy.deepcopy(start.state_dict())


def future(lr: float) -> list[float]:
    """Two more updates from the saved point, with another learning rate."""
    fork = train(models.load("quest-novice"), envs.Quest(), GRPO(), seed=0, **settings | dict(steps=3))
    fork.load_state_dict(copy.deepcopy(saved))
    fork.optimizer.param_groups[0]["lr"] = lr
    return [record.loss for record in fork]


assert future(1e-3) == future(1e-3)  # the same future twice, to the last bit
print("lr 0.001:", future(1e-3), "\nlr 0.003:", future(3e-3))

# %% [markdown]
# ## What breaks: training on the world's words
#
# A famous mistake: forget which tokens were forced, and train on all of them. The code below plants it: the mask becomes 1
# everywhere behind the prompt. Nothing crashes. What do you expect to happen to the policy?
#
# (Of what the world wrote, we know the probability only by asking the policy afterwards: `models.score` does that.)

# %%
@dataclass(frozen=True)
class MaskBug(GRPO):
    """GRPO on every token behind the prompt, the world's words included."""

    policy: object = None

    def reward(self, batch):
        everything = batch.set(mask=(batch.turn >= 0).float())
        return everything.set(old_logp=models.score(self.policy, everything).logp)


sick = models.load("quest-novice")
few = settings | dict(steps=len(records[:25]))
broken = list(train(sick, envs.Quest(), MaskBug(policy=sick), seed=0, **few))
lab.curves({"GRPO": records[:25], "with the mask bug": broken}, y="success", smooth=3);

# %% [markdown]
# The run with the bug collapses. Why? A microscope view of the last episodes shows it: commands grow into lists of words that only
# the world says. Then we let both policies write on after their own action, where the world would answer.

# %%
lab.microscope(broken[-1].episodes[:2])

# %%
for name, chosen in (("healthy", policy), ("with the bug", sick)):
    chosen.format = replace(models.TINY, stops=("<end>",))  # nobody answers: it may go on
    (alone,) = rollout(chosen, envs.Quest(), [1], limits=Limits(turn_tokens=24, turns=1, total=64))
    chosen.format = models.TINY
    print(f"{name}: {alone.said(0)}\n")
healthy = records[len(broken) - 1]
behind = torch.cat([torch.as_tensor(e.mask[e.turn >= 0]) for e in first_tries])
print(f"behind the prompt the world wrote {(behind == 0).float().mean():.0%} of the tokens")
print(f"malformed turns: {broken[-1].malformed:.2f} with the bug, {healthy.malformed:.2f} without")

# %% [markdown]
# The gradient flowed into tokens that the policy never chose. Here they are the majority of what stands
# behind the prompt: most of every update pushed on the wrong words. The cure is one line (`mask` as the engine wrote it), and
# the library has a test that the gradient at a forced token is exactly zero.
#
# ## On a GPU
#
# The same code trains a language model: SmolLM2-135M-Instruct with adapters of rank 8, in the world Quest told in English, by GRPO.
# The cell runs at the `gpu` budget only, and the environment variable `ARL_REAL_MODEL` names another model. No claim rests on it. A
# model that never succeeds learns nothing from success: where the signal stays at 0, take a larger one.

# %%
if budget.name == "gpu":
    for record in experiments.ch00.REAL(experiments.real.policy(), seed=0):
        print(f"{record.step:3}  reward {record.reward:.3f}  malformed turns {record.malformed:.2f}  signal {record.signal_share:.2f}")

# %% [markdown]
# ## Where this stands
#
# - The loop of text, action and observation is that of **ReAct** (Yao et al. 2022); here it is trained, not prompted.
# - **RLHF** (Christiano et al. 2017; Ouyang et al. 2022) and **DPO** (Rafailov et al. 2023) improve single replies by
#   preferences. Chapter 01 shows that they are the one-step special case of what you just saw; chapter 03 trains them.
# - **PPO** (Schulman et al. 2017) and **GRPO** (Shao et al. 2024) are the optimisers; chapters 02 and 04.
# - **o1, o3 and DeepSeek-R1** made reinforcement learning from verified outcomes famous. This chapter has the loop of
#   R1, not its scale.
# - The survey sorts the field twice: by *capability* (planning, tools, memory, self-improvement, reasoning,
#   perception) and by *task* (search, code, mathematics, GUI, vision, robots, several agents). It leaves out value
#   alignment as such, multi-agent learning without language models, and tuning to a fixed benchmark.
#
# **What does not transfer.** A model this small has no language and no knowledge: "agent" here means the loop, not the
# competence. It learned the rules from shown episodes, as the card says. With large models a curve like the one above
# takes hours on many GPUs, and the starting competence comes from pre-training.
#
# ## Exercises
#
# Each check runs your answer on random inputs and tells you what came out wrong.
#
# **00.1 Count what was chosen.** Write `count(episode)` that returns how many tokens the policy sampled and how many were
# forced, the prompt included.

# %%
def count(episode) -> tuple[int, int]:
    """(sampled, forced)"""
    return int(episode.mask.sum()), int((episode.mask == 0).sum())


lab.check("00.1", count)

# %% [markdown]
# **00.2 Stop when it is good enough.** Write `until(run, goal)` that trains until a record's `success` reaches `goal`
# and returns the records so far, without asking for one more.

# %%
def until(run, goal: float) -> list:
    """Records up to and with the first that reaches the goal."""
    seen = []
    for record in run:
        seen.append(record)
        if record.success >= goal:
            break
    return seen


lab.check("00.2", until)

# %% [markdown]
# **00.3 Build a world.** Write a world in ten lines that passes `check_env`: guess a number from 0 to 9, with the replies
# ` higher` and ` lower`. The check runs the contract: same seed, same replies; nothing one can say raises; the
# expert wins; a constant answer does not always win.

# %%
class Guess(envs.Env):
    """Guess a digit."""

    words = " guess higher lower error say act"

    def reset(self, seed: int) -> str:
        self.secret, self.low, self.high = random.Random(seed).randrange(10), 0, 9
        return " guess"

    def step(self, said: str) -> envs.Reply:
        match envs.parse_act(said):
            case ["guess", digit] if digit.isdecimal() and len(digit) == 1:
                digit = int(digit)
            case _:
                return envs.malformed("say act")
        if digit == self.secret:
            return envs.Reply(reward=1.0, done=True, info={"success": True})
        higher = digit < self.secret
        self.low, self.high = (digit + 1, self.high) if higher else (self.low, digit - 1)
        return envs.Reply(" higher" if higher else " lower")

    def expert(self) -> str:
        return envs.act(f"guess {(self.low + self.high) // 2}")


lab.check("00.3", Guess)

# %% [markdown]
# **00.4 Find the bug.** This loop plays one episode without the library. A first version had `context = reply.text` in it and
# the policy never found the door. Why? (The version below is mended; put the line back to see what the check says.)

# %%
def play(world, speak, seed: int, turns: int) -> tuple[float, bool]:
    """Reward and success of one episode; `speak(context)` answers all that went before."""
    context, total = world.reset(seed), 0.0
    for _ in range(turns):
        said = speak(context)
        reply = world.step(said)
        context += said + reply.text
        total += reply.reward
        if reply.done or reply.truncated:
            return total, bool(reply.info.get("success"))
    return total, False


lab.check("00.4", play)

# %% [markdown]
# ## In short
#
# - A policy acts in a loop; what it samples is trained, what the world writes is not.
# - GRPO compares tries of the same task; groups whose tries all end alike teach nothing.
# - One seed is an anecdote: claims come before the run and rest on several seeds.
#
# Next: [01 · From one reply to a decision process](01_mdp_pomdp.ipynb) writes this loop down exactly.
#
# **References.** Zhang et al. 2025, *The Landscape of Agentic Reinforcement Learning for LLMs: A Survey*, arXiv 2509.02547,
# §1, §7. Shao et al. 2024, *DeepSeekMath*, arXiv 2402.03300. Yao et al. 2022, *ReAct*, arXiv 2210.03629. Guo et al. 2025,
# *DeepSeek-R1*, arXiv 2501.12948. Christiano et al. 2017, arXiv 1706.03741. Ouyang et al. 2022, arXiv 2203.02155. Rafailov
# et al. 2023, arXiv 2305.18290. Schulman et al. 2017, arXiv 1707.06347.
