# `make help` explains every target. Any of these can be given on the command line:
#   VENV    the virtual environment that is made and used
#   PYTHON  the interpreter it is made with
#   EXTRAS  which optional dependencies of pyproject.toml to install, instead of those a target needs
#   ARGS    more arguments for pytest, ruff or the benchmarks
VENV ?= .venv
PYTHON ?= $(shell command -v python3.11 || command -v python3)
ARGS ?=

BIN := $(VENV)/bin
# oneDNN picks kernels by batch size, so a cut batch would differ from a whole one in the last digits.
QUIET := TF_ENABLE_ONEDNN_OPTS=0 TF_CPP_MIN_LOG_LEVEL=2

# A stamp per set of extras: nothing is installed twice, and a change of pyproject.toml installs again.
FOR_DEMO := tf1,examples
FOR_TEST := tf1,examples,test
FOR_LINT := tf1,examples,dev
READY_FOR_DEMO := $(VENV)/extras/$(or $(EXTRAS),$(FOR_DEMO))
READY_FOR_TEST := $(VENV)/extras/$(or $(EXTRAS),$(FOR_TEST))
READY_FOR_LINT := $(VENV)/extras/$(or $(EXTRAS),$(FOR_LINT))

.DEFAULT_GOAL := help
.PHONY: help demo test test-all numerics lint format bench corpus clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/extras/%: pyproject.toml | $(BIN)/python
	@echo "installing whale-tf[$*] into $(VENV), once; this takes a few minutes" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$*]"
	@mkdir -p $(@D) && touch $@

demo: $(READY_FOR_DEMO) ## Train the digits example on one device, then on two, and print both
	@echo "== one device"
	@$(QUIET) $(BIN)/whale run --devices 1 examples/digits_cnn.py
	@echo; echo "== two devices"
	@$(QUIET) $(BIN)/whale run --devices 2 examples/digits_cnn.py

test: $(READY_FOR_TEST) ## Run the whole suite, with a covering subset of the numerics matrix
	$(QUIET) $(BIN)/python -m pytest tests $(ARGS)

test-all: $(READY_FOR_TEST) ## Run the whole suite with the whole numerics matrix (long)
	$(QUIET) $(BIN)/python -m pytest tests --full $(ARGS)

numerics: $(READY_FOR_TEST) ## Run only the numerics suite: one device against several
	$(QUIET) $(BIN)/python -m pytest tests/numerics $(ARGS)

lint: $(READY_FOR_LINT) ## Check style, types and who imports whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

format: $(READY_FOR_LINT) ## Rewrite the code in the project's format
	$(BIN)/ruff check --fix $(ARGS) .
	$(BIN)/ruff format .

bench: $(READY_FOR_TEST) ## Measure speed and memory, and print the table
	$(QUIET) $(BIN)/python -m benchmarks.run $(ARGS)

corpus: $(READY_FOR_TEST) ## Run the public scripts found in CORPUS_HOME=DIRECTORY
	@test -n "$(CORPUS_HOME)" || { echo "usage: make corpus CORPUS_HOME=DIRECTORY" >&2; exit 2; }
	$(QUIET) $(BIN)/python tests/corpus/run.py --home "$(CORPUS_HOME)" $(ARGS)

clean: ## Remove the virtual environment and everything that was made
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
