# Everything happens in .venv, which is made here and kept up to date. Debian and Ubuntu need
# python3-venv, python3-dev, g++ and make; CMake comes from PyPI where it isn't installed.
#
#   make demo    install unladen and let it tell a story
#   make test    lint, types and tests against the installed package
#   make oracle  10,000 random strings a kind through tokenizers, sentencepiece and ours
#   make bench   PEER=/path/to/llama-bench MODELS="a.gguf b.gguf": speed beside llama.cpp's
#   make clean   remove what the others made

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: demo test oracle bench clean
.DEFAULT_GOAL := demo

PYTHON ?= python3
BIN := .venv/bin
SOURCES := CMakeLists.txt pyproject.toml README.md LICENSE \
           $(shell find src -type f ! -name '*.so' ! -name '*.pyc')

# Ninja builds in parallel by itself; where it is absent, Make is told to.
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc 2>/dev/null || echo 2)

demo: .venv/installed
	@echo "$$ unladen run tiny 'Once upon a time' --temp 0" >&2
	@$(BIN)/unladen run tiny 'Once upon a time' --temp 0
	@echo

test: .venv/installed .venv/tested-with
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2

oracle: .venv/installed .venv/tested-with
	UNLADEN_ORACLE_STRINGS=10000 $(BIN)/python -m pytest tests/tokenizer/test_oracles.py

bench: .venv/installed
	@test -n "$(PEER)" -a -n "$(MODELS)" || { echo 'error: PEER and MODELS are wanted' >&2; \
	    echo 'hint: make bench PEER=/path/to/llama-bench MODELS="a.gguf b.gguf"' >&2; exit 2; }
	$(BIN)/python benchmarks/compare.py --peer $(PEER) $(MODELS) $(BENCH)

clean:
	rm -rf .venv dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests tools -name __pycache__ -prune -exec rm -rf {} +

.venv/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "error: unladen needs Python 3.11 or newer" >&2; exit 1; }
	@header=$$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h; \
	    test -e "$$header" || { echo "error: $$header is missing" >&2; \
	    echo "hint: install python3-dev" >&2; exit 1; }
	$(PYTHON) -m venv .venv >&2
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1' >&2
	@touch $@

# A real install, as from PyPI: what is tested is what users get.
.venv/installed: .venv/made $(SOURCES)
	@echo "building and installing unladen (log: .venv/install.log)" >&2
	@rm -f .venv/install.log
	@$(BIN)/python -m pip install --quiet --log .venv/install.log . >&2
	@touch $@

.venv/tested-with: .venv/made pyproject.toml
	$(BIN)/python -m pip install --quiet --group test --group lint --group oracle --group gpu >&2
	@touch $@
