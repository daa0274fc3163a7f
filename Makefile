# `make help` lists the commands. Each sets up all it needs, in .venv and nowhere else.

PYTHON ?= python3
LAB_ARGS ?=
WORKERS ?= 2

VENV := .venv
PY := $(VENV)/bin/python
PYTEST := $(PY) -m pytest
PARALLEL := -n $(WORKERS) --dist loadfile
START := notebooks/00_start_here.ipynb
# The stamp is named after the folder: a checkout that was moved or copied is installed anew.
STAMP := $(VENV)/installed-$(shell pwd | cksum | cut -d' ' -f1)

# Jupyter, IPython and matplotlib keep their settings in .venv: nothing from, or into, the user's home.
export JUPYTER_CONFIG_DIR := $(CURDIR)/$(VENV)/home/jupyter
export JUPYTER_DATA_DIR := $(CURDIR)/$(VENV)/home/data
export JUPYTER_RUNTIME_DIR := $(CURDIR)/$(VENV)/home/runtime
export IPYTHONDIR := $(CURDIR)/$(VENV)/home/ipython
export MPLCONFIGDIR := $(CURDIR)/$(VENV)/home/matplotlib
unexport PYTHONPATH PYTHONHOME

NO_NEWS := {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": false}}
SETTINGS := $(VENV)/share/jupyter/lab/settings

.PHONY: help lab test verify notebooks browser
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' Makefile

lab: $(STAMP) ## JupyterLab, open on chapter 00 (headless: LAB_ARGS="--no-browser --port 8899")
	@$(if $(wildcard notebooks/*.ipynb),$(PY) -m jupyter trust notebooks/*.ipynb >/dev/null) # or saved pictures stay hidden
	$(PY) -m jupyterlab $(if $(filter 0,$(shell id -u)),--allow-root) --ServerApp.root_dir="$(CURDIR)" \
	  --LabApp.default_url=/lab/tree/$(START) --LanguageServerManager.autodetect=False $(LAB_ARGS)

test: $(STAMP) ## unit tests, then the taxonomy's checks, then every notebook at the smoke budget
	$(PYTEST) $(PARALLEL) -m "not slow and not gpu" tests
	$(if $(wildcard survey_taxonomy/__main__.py),$(PY) -m survey_taxonomy check)
	$(call run-notebooks,smoke,$(PARALLEL))

verify: $(STAMP) ## slow: long tests, every notebook at the cpu budget, speed against peers
	$(PYTEST) -m slow tests
	$(call run-notebooks,cpu)
	$(PY) -m tests.benchmarks.generation
	$(PY) -m tests.benchmarks.step

notebooks: $(STAMP) ## rebuild the notebooks, with outputs, from notebooks/src
	$(PY) -m notebooks.build

browser: $(STAMP) ## the tests that drive a real Chromium
	$(PYTEST) -m browser tests/browser

# One thread for each process: the tests run side by side, and small models gain nothing from more.
test verify browser: export OMP_NUM_THREADS := 1
test verify browser: export HF_HUB_OFFLINE := 1

run-notebooks = $(if $(wildcard notebooks/*.ipynb),\
	ARL_BUDGET=$(1) $(PYTEST) $(2) --nbval-lax --nbval-current-env notebooks,@echo "no notebooks yet")

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "arl_mini needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo missing)." >&2; \
	  echo "Name a newer one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@echo "Installing into $(VENV): some minutes the first time."
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --disable-pip-version-check -c constraints.txt -e ".[all]"
	@mkdir -p $(VENV)/home $(SETTINGS)
	$(PY) -m ipykernel install --sys-prefix --name python3 --display-name "Python 3 (arl_mini)"
	@echo '$(NO_NEWS)' > $(SETTINGS)/overrides.json
	@rm -f $(VENV)/installed-* && touch $@
