# make demo and make test do everything on a fresh clone with nothing but Python.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: help install demo test lint types tests docs bench clean

help:
	@echo "make demo     PiRank against five other losses on synthetic data: a table and a report, in minutes"
	@echo "make test     lint, types, tests, examples, documentation"
	@echo "make docs     the documentation, in site/index.html"
	@echo "make bench    measure time and memory on this machine"
	@echo "make install  the environment that all of these use, in .venv; they make it themselves"
	@echo "make clean    remove what was made"

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed: make PYTHON=python3.12")'
	@echo "Setting up .venv, once"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) install -c constraints.txt -e '.[dev]'
	touch $@

demo: install
	$(BIN)/pirank compare --quick --out runs/demo

test: install lint types tests

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

tests: install
	$(BIN)/python -m pytest

docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"

bench: install
	$(BIN)/python benchmarks/sorts.py
	$(BIN)/python benchmarks/metrics.py

clean:
	rm -rf .venv dist build site .pytest_cache .mypy_cache .ruff_cache
