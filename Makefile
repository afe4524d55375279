# make demo and make test do everything on a fresh clone with nothing but Python.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: install demo test lint types tests bench clean

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch numpy
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: install
	$(BIN)/python -m pirank.demo

test: install lint types tests

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

tests: install
	$(BIN)/python -m pytest

bench: install
	$(BIN)/python benchmarks/sorts.py
	$(BIN)/python benchmarks/metrics.py

clean:
	rm -rf .venv dist build .pytest_cache .mypy_cache .ruff_cache
