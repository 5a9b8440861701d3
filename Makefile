# Everything starts here: `make demo` shows the product, `make test` proves it. Both do all set-up by themselves.

SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
PACKAGES := libs/common libs/cli services/proxy services/judge services/trainer services/weights services/orchestrator
SOURCES := $(PACKAGES:%=%/src) services/weights/vllm-plugin/src
ADAPTERS := libs/common/src/drivetrain/common/harnesses/adapters
HARNESSES := claude-code codex pi openclaw mini-swe-agent
MORE_HARNESSES := opencode qwen-code gemini-cli cline aider nanobot browser-use hermes openhands terminus-2
VLLM_READY := .venv-vllm/.ready
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup demo test test-all test-fast test-k8s lint format bench clean

help: ## show this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: .venv/.ready $(VLLM_READY) ## create both virtual environments

demo: setup ## talk to a model, correct it, watch it learn (ARGS="--seed 1" for options)
	@$(BIN)/drivetrain demo $(ARGS)

test: setup .venv-tools/.ready $(HARNESSES:%=.harness/%.ready) .cache/tokenizers/.ready ## run the suite against real servers
	$(BIN)/python -m pytest -m "not long" $(ARGS)

test-all: setup .venv-tools/.ready $(HARNESSES:%=.harness/%.ready) $(MORE_HARNESSES:%=.harness/%.tried) .cache/tokenizers/.ready ## the same, and the long tests (thousands of made-up requests)
	$(BIN)/python -m pytest $(ARGS)

test-fast: .venv/.ready .venv-tools/.ready .cache/tokenizers/.ready ## run what needs no vLLM and no harness
	$(BIN)/python -m pytest -m "not vllm and not slow and not long" $(ARGS)

test-k8s: .venv/.ready ## the contract of the backends on the cluster that KUBECONFIG names
	@test -n "$$KUBECONFIG" || { echo "set KUBECONFIG: make test-k8s runs on a real cluster"; exit 2; }
	$(BIN)/python -m pytest tests/contract/test_backend_contract.py -k kubernetes $(ARGS)

lint: .venv/.ready ## style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(SOURCES)
	$(BIN)/mypy tests conftest.py
	$(BIN)/lint-imports

format: .venv/.ready ## rewrite to the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup $(if $(filter proxy,$(NAME)),.venv-peers/.ready) $(if $(filter exactness,$(NAME)),.cache/tokenizers/.ready) ## run a benchmark: make bench NAME=loop (or proxy, exactness, judge, weights)
	$(BIN)/python -m benchmarks.$(NAME) $(ARGS)

clean: ## remove the virtual environments and caches
	rm -rf .venv .venv-vllm .venv-tools .venv-peers .harness .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

.venv/.ready: constraints.txt requirements-dev.txt scripts/setup-project.sh $(PACKAGES:%=%/pyproject.toml)
	PYTHON=$(PYTHON) scripts/setup-project.sh $(PACKAGES)
	@touch $@

$(VLLM_READY): constraints-vllm.txt scripts/setup-vllm.sh services/weights/vllm-plugin/pyproject.toml
	PYTHON=$(PYTHON) scripts/setup-vllm.sh
	@touch $@

.harness/%.ready: $(ADAPTERS)/%.toml .venv/.ready
	DRIVETRAIN_HOME=$(CURDIR)/.harness $(BIN)/drivetrain harness install $*
	@touch $@

# Those that install: three want Python 3.12, one a Chromium, one tmux
.harness/%.tried: $(ADAPTERS)/%.toml .venv/.ready
	-DRIVETRAIN_HOME=$(CURDIR)/.harness $(BIN)/drivetrain harness install $*
	@touch $@

.cache/tokenizers/.ready: scripts/setup-tokenizers.sh scripts/tokenizers.sha256
	scripts/setup-tokenizers.sh
	@touch $@

.venv-tools/.ready: scripts/setup-tools.sh deploy/tools.txt
	PYTHON=$(PYTHON) scripts/setup-tools.sh
	@touch $@

.venv-peers/.ready: scripts/setup-peers.sh benchmarks/proxy/peers.txt
	PYTHON=$(PYTHON) scripts/setup-peers.sh
	@touch $@
