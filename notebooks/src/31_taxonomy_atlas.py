# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 31 · The survey as data
#
# **What does the field really look like, and how far can its own map be trusted?** The survey behind this course cites 568
# works and sorts some 500 methods twice, by capability and by task. Here it is as tables: 538 entries, each value with its
# source. The first half of this chapter asks the tables eight questions about the field. The second half asks how good
# the tables are: the survey, its list and the papers disagree in more than a hundred places, and most corrections can be
# recomputed.
#
# Nothing is trained here and no language model is used. All but the exercises runs without torch, all without network.

# %%
import re

import pandas as pd
import survey_taxonomy
from survey_taxonomy import pictures, planting, reading, rules
from survey_taxonomy.importing import parse_official, propose, render_official
from survey_taxonomy.values import Index

from arl_mini import lab

pd.options.display.max_colwidth = 120
tax = survey_taxonomy.load()
pd.Series({name: len(frame) for name, frame in tax.tables.items()}, name="rows").to_frame().T

# %% [markdown]
# ## The atlas
#
# All of it at once: pick a cell, a bar, a section, a facet, and every view shows what is left. A node of the lineage opens the
# loss of that algorithm in `arl_mini`. Here stands a still picture where no kernel runs; in JupyterLab it is live. For a
# browser without Python: `python -m survey_taxonomy export --html atlas.html`.

# %%
atlas = survey_taxonomy.Explorer(tax)
atlas

# %% [markdown]
# What you pick is there in Python too, and the other way round:

# %%
atlas.filters = {"capability": ["planning"], "task": ["gui"]}
print(atlas)
atlas.selection[["name", "year", "note"]].head(4)

# %%
atlas.filters = {}

# %% [markdown]
# ## Eight questions
#
# ### 1. Where does the field work, and where not?
#
# The survey has two axes, capability (§3) and task (§4), and never draws them against each other. An entry stands at a
# crossing if it is placed in both sections, or if its row or its reading says which capability it trains.

# %%
pictures.matrix(tax)

# %% tags=["nbval-check-output"]
counts = tax.matrix()
full = counts.stack().sort_values(ascending=False)
print("fullest:", ", ".join(f"{c} × {t} {n}" for (c, t), n in full.head(3).items()))
print("empty cells:", int((counts == 0).sum().sum()), "of", counts.size)
bare = [name for name in counts.index if counts.loc[name].sum() == 0]
print("capabilities without any task:", ", ".join(bare))

# %% [markdown]
# **Memory** is the surprise: 21 systems in Table 3, and not one of them stands in a task section. It is trained on
# question answering over long texts, and the survey files that under memory alone. An empty cell may be a gap of the field
# or a blind spot of the map; the matrix cannot tell them apart, it only says where to look. (Credit assignment is a class
# of its own only in this project's reading of §3.7.)
#
# ### 2. When did it happen?

# %%
pictures.timeline(tax)

# %% tags=["nbval-check-output"]
months = tax.works.loc[tax.works["arxiv"] != "", "first_public"]
print(months.value_counts().head(3).to_string())
print(f"{(months >= '2025-01').mean():.0%} of {len(months)} works with an arXiv id are of 2025 or later")

# %% [markdown]
# May and August 2025. Most of the map is less than a year older than the survey itself: few of these works have been
# repeated by others.
#
# ### 3. Which methods drop the KL term?

# %% tags=["nbval-check-output"]
dropped = tax.find(kind="algorithm", where={"kl": "none"})
printed = tax.claims[tax.claims["attribute"] == "kl"].set_index("entry_id")
against = dropped[dropped["entry_id"].map(printed["status"]) == "contradicted"]
print(len(dropped), "algorithms without a KL penalty:", ", ".join(dropped["name"]))
print(len(against), "of them are printed with one")

# %% [markdown]
# Half of the GRPO family (12 of 23 rows) trains without a reference policy, though the survey's Table 2 or its list says
# "Yes" for most of them. How that was found is below.
#
# ### 4. Who trains memory with RL?

# %%
tax.find(section="3.3", where={"rl_used": "yes"})[["name", "year", "note"]]

# %% [markdown]
# ### 5. What is the smallest model anyone trained?

# %% tags=["nbval-check-output"]
sizes = tax.model_sizes().merge(tax.entries, on="entry_id")
for task in ("search", "code", "gui", "mathematics"):
    here = sizes[sizes["tasks"].str.contains(task)].sort_values(["smallest", "name"])
    told = ", ".join(f"{r.name} {r.smallest:g} B" for r in here.head(3).itertuples(index=False))
    print(f"{task + ':':12} {told or 'no table of the survey says a size'}")

# %% [markdown]
# Half a billion parameters for code, 3 billion for GUI agents. Only the tables of search and code have a column for the base
# model; the two under mathematics stand in the search table too, those under GUI come from the text. The models of this
# course have about 0.12 million.
#
# ### 6. What are agents paid for?

# %% tags=["nbval-check-output"]
paid = tax.attribute("reward_type")
rows = tax.entries.assign(reward=tax.entries["entry_id"].map(paid), task=tax.entries["tasks"].str.split("; "))
rows = rows.dropna(subset="reward").explode("task")
print(pd.crosstab(rows["reward"], rows["task"])[["code", "mathematics"]].to_string())

# %% [markdown]
# Where a verifier exists (tests, proofs, answers), the result is paid most often; about a third of the methods pay for
# steps.
#
# ### 7. I have a task of many turns, no memory for a critic, and a reward at the end. Which algorithm?
#
# The chooser of the atlas asks this question by question. Whether a method needs a critic and what it changes is read from
# the class in `arl_mini` itself.

# %%
atlas.filters = {"kind": ["algorithm"], "critic": ["no", "optional"], "learns_from": ["own_tries"]}
fitting, atlas.filters = atlas.selection, {}
many = fitting["note"].str.contains("turn|traject|tree|branch|prefix|intermediate|episodes", case=False)
fitting.loc[many, ["name", "year", "note"]]

# %% [markdown]
# The family tree says how they came about. In grey before each name: what it changes against its parent.

# %%
pictures.lineage(tax)

# %% tags=["nbval-check-output"]
edges = tax.lineage()
children = edges["dst"].value_counts()
print(f"{len(edges)} edges; most children: " + ", ".join(f"{k} {n}" for k, n in children.head(3).items()))
print("a long line: REINFORCE → PPO → GRPO → ProRL → ProRL v2")
line = ["reinforce", "ppo", "grpo", "prorl", "prorl-v2"]
assert set(zip(line[1:], line)) <= set(zip(edges.src, edges.dst))

# %% [markdown]
# ### 8. Which of these can I run here?

# %%
levels = tax.entries["coverage"].value_counts()
algorithms = tax.find(section="2.7", kind="algorithm")["coverage"].value_counts()
pd.DataFrame({"all entries": levels, "algorithms of §2.7": algorithms}).fillna(0).astype(int)

# %%
pictures.icicle(tax)

# %% [markdown]
# Each claim of coverage is checked by reading sources: the class exists, the chapter exists, the test exists. And every leaf
# of the section tree holds entries, or the data says why not.

# %% tags=["nbval-check-output"]
realised = [rule for rule in rules.RULES if rule.__name__ in ("symbol_exists", "files_exist", "leaf_entries")]
index = Index(reading.read())
print({rule.__name__: len(list(rule(index))) for rule in realised})
leaves = tax.sections[tax.sections["is_leaf"]]
held = tax.placements.groupby("section_id")["entry_id"].nunique()
empty = leaves[~leaves["section_id"].isin(held.index)]
print(len(leaves), "leaves,", len(empty), "without an entry, of these without a reason:", int((empty["few"] == "").sum()))

# %% [markdown]
# ## How good is the map?
#
# ### Three layers
#
# Every value has up to three layers, never mixed: what a source *states* (with its place), what is *shown* here, and the
# *evidence* that leads from one to the other. One card shows all three.

# %%
tax.card("DAPO")

# %% [markdown]
# ### Stated against checked: the KL column, recomputed
#
# Take every algorithm for which a source prints "Yes" under KL penalty. Take every piece of evidence on KL: a settings file,
# a paper's sentence, a library's documentation. Count where the two contradict each other; nothing else goes in.
#
# **Claim, before counting: at least 12 printed "Yes" are contradicted by evidence.**

# %% tags=["nbval-check-output"]
printed = tax.statements[tax.statements["attribute"] == "kl"]
yes = set(printed.loc[printed["stated"] == "Yes", "entry_id"])
proof = tax.evidence[(tax.evidence["attribute"] == "kl") & tax.evidence["entry_id"].isin(yes)]
against = proof[proof["says"] == "none"]
print(f"printed Yes: {len(yes)}; with evidence: {proof['entry_id'].nunique()}; contradicted: {against['entry_id'].nunique()}")
print("claim (at least 12):", "holds" if against["entry_id"].nunique() >= 12 else "FAILED")

# %%
passages = against.merge(tax.entries[["entry_id", "name"]], on="entry_id")
passages[["name", "kind", "passage"]].head(6)

# %% [markdown]
# SimPO, the 14th of question 3, is printed "Scaled". Of the 17 with evidence, nine have a line in a settings file and five
# one in a library's documentation. What could not be read stays `unverified` and is shown as stated: 12 of the printed "Yes".
#
# ### Two editions
#
# The survey's text (version 3) and the official list were written by the same authors, two months apart.

# %% tags=["nbval-check-output"]
seen = tax.editions()
both, v3, listed = seen.in_v3 & seen.in_list, seen.in_v3 & ~seen.in_list, ~seen.in_v3 & seen.in_list
print(f"{len(seen)} merged rows: {both.sum()} in both, {v3.sum()} only in the survey, {listed.sum()} only in the list")
differ = tax.differences()
print(len(differ), "cells mean different things, for instance:")
print(differ[differ["attribute"].isin(["group", "capability", "reward_type"])].head(4).to_string(index=False))

# %% [markdown]
# ### How each fault was found
#
# Every correction names the rule that finds it when the raw data is fed in. `reading` means that no rule can: a person
# read two texts.

# %% tags=["nbval-check-output"]
found = tax.corrections["rule"].where(tax.corrections["rule"] == "reading", "a rule")
print(pd.crosstab(tax.corrections["issue"], found, margins=True).sort_values("All", ascending=False).head(9).to_string())

# %% [markdown]
# Wrong citations, for example: where the text names a method and cites a number, the number must be that method's paper.

# %%
cited = tax.corrections[tax.corrections["rule"] == "citation_name"]
cited[["correction_id", "stated", "corrected"]].head(4)

# %% [markdown]
# ### A laboratory for checks
#
# A check that never fails proves nothing. Eight faults of the kinds that really stood in the sources are planted, one at a
# time, in a copy of the data. **Claim: each is named by its rule at the right record, and nothing else is said.**

# %% tags=["nbval-check-output"]
planted = planting.lab(reading.read())
print(planted[["fault", "rule", "named", "false_alarms"]].to_string(index=False))
held = planted["named"].all() and (planted["false_alarms"] == 0).all()
print(f"claim: {planted['named'].sum()} of {len(planted)} named,", "holds" if held else "FAILED")

# %% [markdown]
# The message says where: file, line, field.

# %%
copy = reading.read().copy()
planting.FAULTS[4].plant(copy)
print(rules.run(Index(copy))[0])

# %% [markdown]
# ## What breaks: an importer that follows upstream
#
# A copy of the official list, found in public, carries a line of advertising under §2.7. An importer that reads whatever
# stands there makes it a method. Here is a small list in that format, with such a line.

# %%
upstream = """# A list

## Sec2.7 Agentic RL: Algorithms

| Method | Year | Clip | KL Penalty | Link | Resource |
|---|---|---|---|---|---|
| **_GRPO family_** ||||||
| DAPO | 2025 | Yes | Yes | [Paper](https://arxiv.org/abs/2503.14476) | - |
| GSPO | 2025 | Yes | Yes | [Paper](https://arxiv.org/pdf/2507.18071) | - |
| BestRL <img src=x onerror=alert(1)> | 2026 | Yes | No | [Paper](https://arxiv.org.evil.example/abs/2503.14476) | - |
Buy [GPU hours](https://evil.example/?ref=github.com) from us!
"""

# %% tags=["nbval-check-output"]
naive = [re.split(r"[\[|]", line.strip("| "))[0].strip() for line in upstream.splitlines() if "](" in line]
print("every line with a link is a method:", naive)
proposal = propose(parse_official(upstream), reading.read())
print("proposed as new:", [row["name"] for row in proposal.new], "| its links refused:", proposal.new[0]["refused_links"])
print("proposed changes:", len(proposal.changed))
for finding in proposal.findings:
    print(f"  line {finding.line}: {finding.rule}")

# %% [markdown]
# The line is no row and is reported as strange; the row with markup is escaped, its look-alike host refused; and nothing is
# merged: the result is a *proposal*, a file that a person reads. The commit is pinned, because a branch can move between
# reading and merging. `DAPO` and `GSPO` match by arXiv id and propose no change, though both print a wrong KL: that is
# known, and answered by a correction.
#
# Text that goes out can be read back: parse(render(x)) = x.

# %%
listing = parse_official(upstream)
assert parse_official(render_official(listing)).sections == listing.sections

# %% [markdown]
# ## Where this stands
#
# - **The survey** (Zhang et al. 2025) and its **official list** are the sources. Text of version 5 after §3.2 was not read:
#   for paragraphs new there, the data has headings and slides only, and says so.
# - **Explorers of surveys** exist: *SurVis* (Beck et al. 2016) and the *Text Visualization Browser* (Kucher and Kerren 2015)
#   browse a collection, *TOBY* (Chakraborti et al. 2023) a hierarchy with recommendations. Stated and checked values in
#   separate layers, each with its evidence, are what is new here as far as we know.
# - **TRL's paper index** ties papers to settings of one library; much of our KL evidence comes from it.
# - **RL101** (davidkimai/RL101) is another course from this survey, as Markdown.
#
# The literature of the section with the most recent debates, as each chapter ends with it:

# %%
survey_taxonomy.table("6.4")

# %% [markdown]
# **What does not transfer.** Counts reflect what 25 authors chose to list, not the field. Capabilities marked `own_reading` are
# ours. That a link still answers was not checked. An empty cell may be a blind spot.
#
# ## Exercises
#
# **31.1 Ids and dates.** `suspicious(works)` gets dicts with `id`, `arxiv`, `first_public` ("2025-03") and `year`, and returns
# the ids of works that cannot be right: no such arXiv id (four digits after the point up to 2014, five since), another month than
# the id says, or an edition older than the id.

# %%
def suspicious(works: list[dict]) -> list[str]:
    """Ids of works whose dates contradict each other."""
    found = []
    for work in works:
        match = re.fullmatch(r"(\d\d)(\d\d)\.(\d{4,5})", work["arxiv"])
        good = match and 1 <= int(match[2]) <= 12 and (len(match[3]) == 5) == (int(match[1]) >= 15)
        good = good and work["first_public"] == f"20{match[1]}-{match[2]}" and work["year"] >= 2000 + int(match[1])
        if not good:
            found.append(work["id"])
    return found


lab.check("31.1", suspicious)

# %% [markdown]
# **31.2 A gap, argued.** `gaps(entries)` gets dicts with `id`, `capabilities`, `tasks`. Return `(capability, task, id, id)` for each
# empty cell whose row and whose column both have entries: one entry that shows the capability is trained somewhere, one
# that shows the task is worked on.

# %%
def gaps(entries: list[dict]) -> list[tuple]:
    """Empty cells with neighbours, each with two entries that show it."""
    rows = {c: e["id"] for e in entries for c in e["capabilities"]}
    columns = {t: e["id"] for e in entries for t in e["tasks"]}
    filled = {(c, t) for e in entries for c in e["capabilities"] for t in e["tasks"]}
    return [(c, t, rows[c], columns[t]) for c in rows for t in columns if (c, t) not in filled]


lab.check("31.2", gaps)

# %% [markdown]
# Now argue one: which gap of the real matrix would you fill first, and why is it a gap of the field and not of the map?

# %%
lists = {name: tax.entries[name].str.split("; ") for name in ("capabilities", "tasks")}
real = tax.entries.assign(**lists).rename(columns={"entry_id": "id"})[["id", "capabilities", "tasks"]].to_dict("records")
pd.DataFrame([g for g in gaps(real) if all(g)], columns=["capability", "task", "trained in", "worked on in"]).head(6)

# %% [markdown]
# **31.3 An entry with evidence.** `add(printed, paper, found)` gets a row as a list prints it, its paper, and what you found in the
# released settings: no KL penalty, though the row says "Yes". Return the records to add,
# `{"works": [...], "entries": [...], "evidence": [...], "corrections": [...]}`, so that every check passes and what was
# printed stays as it is. `survey_taxonomy/data` has 538 examples.

# %%
def add(printed: dict, paper: dict, found: dict) -> dict[str, list[dict]]:
    """Work, entry, evidence and correction of a row that prints a wrong KL penalty."""
    key, month = printed["name"].lower(), f"20{paper['arxiv'][:2]}-{paper['arxiv'][2:4]}"
    place = dict(source=printed["source"], at=printed["at"])
    work = dict(id=key, kind="paper", **paper, year=int(month[:4]), first_public=month, venue="arXiv")
    work |= dict(found=place)
    proof = dict(id=f"{key}-kl", entry=key, attribute="kl", says="none", seen=True)
    proof |= dict(kind=found["kind"], url=found["url"], passage=found["passage"])
    claim = dict(attribute="kl", resolved="none", status="contradicted", evidence=[proof["id"]])
    row = dict(section=printed["section"], role="table_row", **place, cells=printed["cells"])
    entry = dict(id=key, name=printed["name"], kind="algorithm", work=key, note="Made up.")
    entry |= dict(placements=[row], claims=[claim])
    fix = dict(id="X01", target=dict(entry=key, field="kl"), issue="wrong_value", stated="Yes")
    fix |= dict(corrected="none", evidence=[proof["id"]], confidence="high", status="checked")
    fix |= dict(rule="evidence_agrees", upstream="none")
    return {"works": [work], "entries": [entry], "evidence": [proof], "corrections": [fix]}


lab.check("31.3", add)

# %% [markdown]
# **31.4 There and back.** Rows are written as `"|" + "|".join(cells) + "|"`, with a backslash before each bar and each backslash
# inside a cell. Write `parse(line)` with parse(render(cells)) = cells, for empty cells too.

# %%
def parse(line: str) -> list[str]:
    """The cells of a row."""
    cells, escaped = [""], False
    for letter in line[1:-1]:
        if not escaped and letter == "|":
            cells.append("")
        elif not escaped and letter == "\\":
            escaped = True
        else:
            cells[-1] += letter
            escaped = False
    return cells


lab.check("31.4", parse)

# %% [markdown]
# **31.5 Find the bug.** An importer keeps https links whose host is known. Its author wrote
# `[url for url in links if any(host in url for host in hosts)]`. What gets through? (The version below is mended; put the
# author's line in to see what the check says.)

# %%
from urllib.parse import urlsplit


def accepted(links: list[str], hosts: tuple[str, ...]) -> list[str]:
    """Links an importer may keep: https, and the host itself is known."""
    parts = [(url, urlsplit(url)) for url in links]
    return [url for url, p in parts if p.scheme == "https" and p.hostname in hosts and "@" not in p.netloc]


lab.check("31.5", accepted)

# %% [markdown]
# ## In short
#
# - The field crowds in a few cells: perception × vision, tool use × search, reasoning × mathematics. Memory stands alone.
# - A table in a survey is a claim. Keep what it states, what you show, and why, in three layers.
# - A check is worth what it catches: plant the faults you found.
# - Text from outside is a proposal, never data.
#
# **References.** Zhang et al. 2025, arXiv 2509.02547 (CC BY 4.0), all sections and Tables 2–10. Official list
# Awesome-AgenticLLM-RL-Papers at commit 3006129. Yu et al. 2025 (DAPO), arXiv 2503.14476. Shao et al. 2024 (GRPO), arXiv
# 2402.03300. Beck, Koch and Weiskopf 2016 (SurVis), IEEE TVCG 22(1). Kucher and Kerren 2015 (Text Visualization
# Browser), PacificVis. Chakraborti et al. 2023 (TOBY), arXiv 2306.10051.
