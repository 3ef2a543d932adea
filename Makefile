# One command per intent; `make` alone lists them. Needs Python 3.11 or newer, and make.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
STAMP := .venv/.installed
TEST_STAMP := .venv/.installed-test

page = $(2) > docs/$(1).new && mv docs/$(1).new docs/$(1).md || { rm -f docs/$(1).new; exit 1; }

.DEFAULT_GOAL := help
.PHONY: help setup setup-test demo test test-quick test-oldest test-newest check format claims bench docs clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv and install covec into it

setup-test: $(TEST_STAMP) ## the same, with what the tests need

demo: setup ## the whole main job on the embedded model: a report, and text steered with a concept
	$(BIN)/covec demo

test: setup-test ## all checks and tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 2

test-quick: setup-test ## the tests of the rooms alone: soon done, and no embedded model
	$(BIN)/pytest -n 2 --quick

test-oldest: .venv-oldest/.installed ## the tests with the lowest supported versions (6 GB in .venv-oldest; Python 3.11)
	.venv-oldest/bin/pytest -n 2

test-newest: | .venv-newest/bin/python ## the tests with the newest releases there are (6 GB in .venv-newest)
	.venv-newest/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager --editable '.[test]'
	.venv-newest/bin/pytest -n 2

check: test ## the same as test; it is what CI runs

format: setup-test ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

claims: setup-test ## run every claim of the catalog and record the results
	$(BIN)/covec claims --all

bench: setup-test ## race the peers, each in an environment of its own (1 GB each); RACE=capture runs one race
	$(BIN)/python benchmarks/bench.py $(RACE)

docs: setup-test ## write the generated pages again, and build the site into site/
	$(call page,json,$(BIN)/python -m covec.cli.schemas)
	$(call page,families,PYTHONPATH=tests $(BIN)/python -m families.table)
	$(call page,contract,$(BIN)/python -m covec.checks.page)
	$(call page,benchmarks,$(BIN)/python benchmarks/page.py)
	$(BIN)/python docs/tables.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "the site: site/index.html"

clean: ## remove .venv, caches and outputs
	rm -rf .venv .venv-* covec-demo site build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

%/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "covec needs Python 3.11 or newer; say which with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $*

$(STAMP): pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) install --quiet --constraint constraints.txt --editable .
	@touch $@

$(TEST_STAMP): $(STAMP)
	$(PIP) install --quiet --constraint constraints.txt --editable '.[test,docs]'
	@touch $@

.venv-oldest/.installed: pyproject.toml constraints-oldest.txt | .venv-oldest/bin/python
	.venv-oldest/bin/python -m pip install --quiet --constraint constraints-oldest.txt --editable '.[test]'
	@touch $@
