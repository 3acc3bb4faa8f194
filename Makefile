# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
# The program starts itself again in many processes, in the tests above all: each would compile all sources again.
unexport PYTHONDONTWRITEBYTECODE
HAS_NODE := command -v node >/dev/null && command -v npm >/dev/null
WITHOUT_NODE := echo "node and npm are not installed: the pages' scripts (app/components) are NOT checked."; test "$$CI" != true
# package.json pins both tools, and neither needs another package: a lock file would say nothing more.
INSTALL_SCRIPTS := npm install --silent --no-package-lock --no-audit --no-fund

.PHONY: setup run test test-all test-long test-processors test-planted test-programs label-studio libreoffice test-scripts lint lint-scripts types links format \
	format-scripts docs bench clean

setup: $(VENV)/.ready

$(VENV)/.ready: requirements.txt pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Closecall needs Python 3.11 or newer; $(PYTHON) is older. Name another: make PYTHON=python3.12 ..."; exit 2; }
	@$(PYTHON) -m venv $(VENV) || \
		{ echo "$(PYTHON) cannot make a virtual environment (on Debian: apt install python3-venv)."; exit 2; }
	@echo "Installing packages into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@$(BIN)/python -m pip uninstall --quiet --quiet --quiet --disable-pip-version-check --yes marginalia
	@rm -rf marginalia.egg-info
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@echo "Compiling, once, for this processor ..."
	@$(BIN)/python -m closecall.core.warmup
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
# each; `test-long` takes hours, and insists on programs that the others do without. See tests/scale.py.
# `test-processors` runs the tests as other processors would; `test-planted` checks that the quick tests find bugs
# that are put in; `test-programs` kills the server while programs use its HTTP API.
test: SCALE := quick
test-all: SCALE := all
test-long: SCALE := long
test-long: label-studio libreoffice test-processors test-planted test-programs
test test-all test-long: $(VENV)/.ready-dev test-scripts
	$(BIN)/python -m tests.chromium
	$(BIN)/python -m tests.postgres
	$(BIN)/python -m tests.proxies
	$(BIN)/python -m pytest -n auto --dist loadgroup --scale=$(SCALE) $(ARGS)

# A gigabyte, in an environment of its own below build/.
label-studio: $(VENV)/.ready-dev
	$(BIN)/python -m tests.peers.label_studio

# Debian's package, of a few hundred megabytes.
libreoffice: $(VENV)/.ready-dev
	$(BIN)/python -m tests.peers.libreoffice

test-processors: $(VENV)/.ready-dev
	$(BIN)/python -m tests.processors -n auto --dist loadgroup tests/contract tests/unit $(ARGS)

test-planted: $(VENV)/.ready-dev
	$(BIN)/python -m tests.planted $(ARGS)

test-programs: $(VENV)/.ready-dev
	$(BIN)/python -m tests.programs $(ARGS)

lint: $(VENV)/.ready-dev lint-scripts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(MAKE) --no-print-directory types

types: $(VENV)/.ready-dev links
	$(BIN)/mypy

# The folders under their import name, for programs that read the sources without importing them.
links:
	@mkdir -p build/types/closecall
	@for part in app client core storage; do ln -sfn ../../../$$part build/types/closecall/$$part; done

format: $(VENV)/.ready-dev format-scripts
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Into site/; any warning is an error.
docs: $(VENV)/.ready-docs links
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The pages' scripts, where node is; only who changes them needs it. `CI=true` insists.
test-scripts:
	@if $(HAS_NODE); then npm run --silent test; else $(WITHOUT_NODE); fi

lint-scripts:
	@if $(HAS_NODE); then $(INSTALL_SCRIPTS) && npm run --silent lint; else $(WITHOUT_NODE); fi

format-scripts:
	@if $(HAS_NODE); then $(INSTALL_SCRIPTS) && npm run --silent format; else $(WITHOUT_NODE); fi

bench: setup
	$(BIN)/closecall bench $(ARGS)

clean:
	rm -rf $(VENV) node_modules build site *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
