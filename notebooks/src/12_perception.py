# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 12 · Perception

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import survey_taxonomy
import torch

from arl_mini import envs, evaluate, experiments, lab, models, pictures

budget = lab.budget()
lab.style.use()

# %% [markdown]
# <sound and drawing>
# </sound and drawing>
