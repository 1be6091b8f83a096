# Everything a person does with this repository. `make` alone lists it.
# A fresh clone needs Python 3.11 or newer, git and make; the rest is installed into $(VENV), once.

VENV   ?= .venv
PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v "$$p"; break; }; done)
ARGS   ?=

PY  := $(VENV)/bin/python
# One more -q than is polite: pip warns about its configuration, errors are still shown. --no-compile leaves the
# byte code to the first import, which compiles only what is used: a third of the time of an installation.
PIP := $(PY) -m pip install -qq --no-compile --prefer-binary --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help install install-dev up test fuzz lint format bench schema docs docs-check image clean

help: ## List what there is (default)
	@awk 'BEGIN {FS = ":.*## "; print "make <target> [ARGS=\"…\"]\n"} \
		/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.runs ## Install what running needs into .venv (once)

install-dev: $(VENV)/.develops ## Install what testing needs as well (once)

up: install ## Start broker, projector, API, SQL replica and the agent of this machine
	@exec $(PY) -m fleetfold up $(ARGS)

test: install-dev ## Run every test
	@$(PY) -m pytest $(ARGS)

fuzz: $(VENV)/.fuzzes ## Hold what is served to each dialect's document (minutes; ARGS="fuse" for one)
	@$(PY) -m tests.conformance.documents $(ARGS)

lint: install-dev ## Check style, types, floors and documents
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports
	$(PY) docs/check.py

format: install-dev ## Bring every file into the one format
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

bench: install-dev ## Measure and print a report
	@$(PY) -m bench $(ARGS)

schema: install-dev ## Write the OpenAPI and AsyncAPI documents to docs/schema
	@$(PY) -m api.schema docs/schema

docs: install-dev ## Rewrite the generated parts of the documents
	@$(PY) docs/generate.py $(ARGS)

docs-check: install-dev ## Check links, commands and generated parts of the documents
	@$(PY) docs/check.py

image: ## Build the two container images (needs Docker; BASE=… names another Python image)
	docker build $(if $(BASE),--build-arg BASE=$(BASE)) -f docker/nats.Dockerfile -t fleetfold-nats:2.15 docker
	docker build $(if $(BASE),--build-arg BASE=$(BASE)) -t fleetfold:latest .

clean: ## Remove what was installed, built and cached (never the data)
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The newest pip, taken with the Python's own one where it has one, is installed and works in half the time that the
# pip of Python 3.11 needs; without one, a whole environment is made first.
$(VENV)/bin/pip:
	@test -n "$(PYTHON)" || { echo "fleetfold needs Python 3.11 or newer: install it, or name one: make up PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "Making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --without-pip $(VENV) && \
		$(PYTHON) -m pip --python $(PY) install -qq --no-compile pip 2>/dev/null || \
		{ $(PYTHON) -m venv --clear $(VENV) && $(PIP) --upgrade pip; }

# The stamps are older than pyproject.toml when a dependency changed, and then pip runs again.
$(VENV)/.runs: pyproject.toml | $(VENV)/bin/pip
	@echo "Installing fleetfold and what it needs into $(VENV) (about 100 MB, once)"
	@$(PIP) -e .
	@touch $@

$(VENV)/.develops: pyproject.toml | $(VENV)/bin/pip
	@echo "Installing fleetfold and what its tests need into $(VENV) (about 150 MB, once)"
	@$(PIP) -e '.[dev]'
	@touch $(VENV)/.runs $@

$(VENV)/.fuzzes: pyproject.toml | $(VENV)/.develops
	@$(PIP) -e '.[dev,fuzz]'
	@touch $@
