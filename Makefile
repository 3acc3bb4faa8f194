# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup run test test-all test-long test-processors lint types links format docs bench clean

setup: $(VENV)/.ready

$(VENV)/.ready: requirements.txt pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Closecall needs Python 3.11 or newer; $(PYTHON) is older. Name another: make PYTHON=python3.12 ..."; exit 2; }
	@$(PYTHON) -m venv $(VENV) || \
		{ echo "$(PYTHON) cannot make a virtual environment (on Debian: apt install python3-venv)."; exit 2; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip uninstall --quiet --quiet --quiet --disable-pip-version-check --yes marginalia
	@rm -rf marginalia.egg-info
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	$(BIN)/python -m closecall.core.warmup
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

$(VENV)/.ready-docs: $(VENV)/.ready requirements-docs.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	@touch $@

run: setup
	$(BIN)/closecall demo $(ARGS)

# `test` keeps every promise in a few minutes; `test-all`, which continuous integration runs, tries more cases of
# each; `test-long` takes hours. See tests/scale.py. `test-processors` runs the tests as other processors would.
test: SCALE := quick
test-all: SCALE := all
test-long: SCALE := long
test-long: test-processors
test test-all test-long: $(VENV)/.ready-dev
	$(BIN)/python -m tests.chromium
	$(BIN)/python -m tests.postgres
	$(BIN)/python -m pytest -n auto --dist loadgroup --scale=$(SCALE) $(ARGS)

test-processors: $(VENV)/.ready-dev
	$(BIN)/python -m tests.processors -n auto --dist loadgroup tests/contract tests/unit $(ARGS)

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(MAKE) --no-print-directory types

types: $(VENV)/.ready-dev links
	$(BIN)/mypy

# The folders under their import name, for programs that read the sources without importing them.
links:
	@mkdir -p build/types/closecall
	@for part in app core storage; do ln -sfn ../../../$$part build/types/closecall/$$part; done

format: $(VENV)/.ready-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Into site/; any warning is an error.
docs: $(VENV)/.ready-docs links
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: setup
	$(BIN)/closecall bench $(ARGS)

clean:
	rm -rf $(VENV) build site *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
