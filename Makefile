# make demo and make test do everything on a fresh clone with nothing but Python.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

# Measuring and testing on a GPU needs PyTorch for CUDA, which is not installed here.
GPU_PYTHON ?= python3
ON_GPU := PYTHONPATH=src $(GPU_PYTHON)
RESULTS ?= benchmarks/results

.PHONY: help install demo test test-gpu lint types tests docs bench bench-gpu clean

help:
	@echo "make demo     PiRank against five other losses on synthetic data: a table and a report, in minutes"
	@echo "make test     lint, types, tests, examples, documentation"
	@echo "make docs     the documentation, in site/index.html"
	@echo "make bench    measure time and memory on this machine"
	@echo "make test-gpu   the kernels' tests on a GPU, and make bench-gpu what they cost there"
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

test-gpu:
	$(ON_GPU) -c 'import sys, torch; sys.exit(not torch.cuda.is_available() and "no GPU: name a Python with PyTorch for CUDA, GPU_PYTHON=...")'
	$(ON_GPU) -m pytest -m "gpu or kernels" tests

bench-gpu:
	$(ON_GPU) benchmarks/training.py --queries 30000 --out $(RESULTS)/training.csv
	$(ON_GPU) benchmarks/gpu_losses.py --out $(RESULTS)/gpu-losses.csv
	$(ON_GPU) benchmarks/gpu_ragged.py --out $(RESULTS)/gpu-ragged.csv
	$(ON_GPU) benchmarks/gpu_sorts.py --out $(RESULTS)/gpu-sorts.csv
	$(ON_GPU) benchmarks/gpu_losses.py --draw --out $(RESULTS)/gpu-losses.csv
	$(ON_GPU) benchmarks/training.py --draw --out $(RESULTS)/training.csv

clean:
	rm -rf .venv dist build site .pytest_cache .mypy_cache .ruff_cache
