# Every command of the project. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup demo demo-down test soak unit e2e lint generate manifests verify images cluster-up cluster-down bench-router bench-classify bench-policy bench-scaling bench-real bench-operator clean

export UV_PYTHON_DOWNLOADS := never
# Tests and tools start Python hundreds of times; without compiled files each start takes two to three times as long.
unexport PYTHONDONTWRITEBYTECODE
export WORKSLICE_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/workslice
export UV_CACHE_DIR ?= $(WORKSLICE_CACHE)/uv
PYTHON ?= python3.11
BIN := .venv/bin
UV_VERSION := 0.13.9
GOLDEN ?=
CHAOS_SECONDS ?= 600
# Empty: another storm each time; its number is printed.
CHAOS_SEED ?=
# The cluster of demo and end-to-end tests: embedded, kubeconfig (the one that KUBECONFIG names) or kind.
export CLUSTER ?= embedded
# Workers of pytest-xdist: one more than cores, since tests of time-outs wait; e2e/tests_on_all_cores.py says which runs what.
CORES := --numprocesses $(shell echo $$(( $$(nproc) < 3 ? $$(nproc) + 1 : 4 )))
# Further words for helm in `make manifests`, such as HELM='--set router.replicas=2'.
HELM ?=

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(BIN)/.ready ## Make the Python environment from the lock file

$(BIN)/.ready: pyproject.toml uv.lock
	@echo "== Python environment"
	@scripts/make-venv $(PYTHON)
	@test -x $(BIN)/uv || $(BIN)/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	$(BIN)/uv sync --frozen --all-extras
	@touch $@

demo: setup ## Do the main job in front of you: cluster, chart, pools, questions, a burst that scales
	$(BIN)/python -m demo

demo-down: setup ## Stop what `make demo` started
	$(BIN)/python -m demo.remove

test: lint verify prepare ## Everything: lint, types, generated files, unit, chart and end-to-end tests
	@echo "== the router's tests on its compiled modules, which its image has"
	$(BIN)/python -m workslice_cluster.compiled_router $(BIN)/pytest -q $(CORES) router/tests
	$(BIN)/pytest -q -m interpreted router/tests
	$(BIN)/pytest -v --durations=15 $(CORES) -m "not soak" crds/tests operator/tests charts/tests e2e

soak: prepare ## The end-to-end tests that wait for minutes on purpose: crashed engines, API outages, cordoned nodes
	$(BIN)/pytest -v --durations=15 -m soak e2e

.PHONY: chaos
chaos: setup ## Ten minutes of random faults against real routers and simulated engines (CHAOS_SECONDS, CHAOS_SEED)
	CHAOS_SECONDS=$(CHAOS_SECONDS) CHAOS_SEED=$(CHAOS_SEED) $(BIN)/pytest -v -s e2e/test_chaos.py

.PHONY: prepare
prepare: setup
	$(if $(filter embedded,$(CLUSTER)),$(BIN)/python -m workslice_cluster prepare)

unit: setup ## Unit, property and golden tests; no cluster, and none marked slow
	$(BIN)/pytest -q $(CORES) -m "not slow" crds/tests operator/tests router/tests charts/tests e2e/cluster/tests e2e/simulator/tests

e2e: prepare ## End-to-end tests on a real cluster with real vLLM (CLUSTER=kubeconfig or kind: another one)
	$(BIN)/pytest -v --durations=15 e2e

lint: setup ## ruff, mypy --strict, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench-router: setup ## CPU of the router beside nginx's and vllm-router's, in one run (CHECK=1 fails on a missed target)
	$(BIN)/python bench/router

bench-classify: setup ## How often the router's estimate sends a prompt to the wrong class (CHECK=1 fails on a missed target)
	$(BIN)/python -m workslice_cluster.compiled_router $(BIN)/python bench/classify

bench-policy: setup ## How long short and long requests wait under each routing policy, simulated (CHECK=1 fails on a missed target)
	$(BIN)/python bench/policy

bench-scaling: setup ## How long requests wait, and for how many replica-hours, under each autoscaler, simulated (CHECK=1 fails on a missed target)
	$(BIN)/python bench/scaling

bench-operator: prepare ## The operator with 1,000 pools and 10,000 fake pods on a real control plane; POOLS=50: fewer (CHECK=1 fails on a missed target)
	$(BIN)/python bench/operator

bench-real: setup ## The same on two real vLLM engines on the CPU, shared and split by class (CHECK=1 fails on a missed target)
	$(BIN)/python bench/real

generate: setup ## Write CRDs and reference pages from the code (GOLDEN=1: the golden manifests too)
	$(BIN)/python crds/generate.py
	$(BIN)/python docs/generate/reference.py
	$(if $(GOLDEN),UPDATE_GOLDEN=1 $(BIN)/pytest -q operator/tests/test_rendered_manifests.py charts/tests/test_chart_renders.py)

manifests: setup ## Render the chart to dist/install.yaml, for kubectl apply (HELM='--set …' for values)
	$(BIN)/python -m demo.install_manifests dist/install.yaml $(HELM)

verify: setup ## Fail when a generated file is stale or the lock does not fit pyproject.toml
	$(BIN)/uv lock --check
	$(BIN)/python crds/generate.py --check
	$(BIN)/python docs/generate/reference.py --check

images: setup ## Build the container images from images/*/Dockerfile
	$(BIN)/python -m workslice_cluster.images build

cluster-up: setup ## Start the embedded Kubernetes cluster
	$(BIN)/python -m workslice_cluster up

cluster-down: setup ## Stop it and leave nothing behind
	$(BIN)/python -m workslice_cluster down

clean: ## Remove the Python environment and caches of tools (not $WORKSLICE_CACHE)
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
