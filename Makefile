# Each target first sets up the environment if needed.
# make reproduce   reproduce the paper at scale quick and write a report
# make look        write a report from the runs kept in reproduction/, without fitting anything
# make test        run the linters and the fast tests
# make test-slow   run the slow tests
# make docs        build the documentation site
# SCALE, CORES, PYTHON and VENV can be set: make reproduce SCALE=smoke CORES=4 PYTHON=python3.12

SCALE = quick
CORES = all
PYTHON = python3
VENV = .venv

RESULTS = results/$(SCALE)
BIN = $(VENV)/bin
# As if the environment were activated.
export PATH := $(abspath $(BIN)):$(PATH)
SNAKEMAKE = $(BIN)/snakemake --cores $(CORES) --config scale=$(SCALE) results=results

.PHONY: reproduce look test test-slow check docs set-up

reproduce: set-up
	@$(SNAKEMAKE)
	@echo
	@echo "report:  $(CURDIR)/$(RESULTS)/report.html"
	@echo "figures: $(CURDIR)/$(RESULTS)/figures"
	@echo "tables:  $(CURDIR)/$(RESULTS)/tables"

# A report from the runs kept in reproduction/, without fitting anything.
look: set-up
	@$(BIN)/python -m sdcd.reproduction look

# In two processes; all tests of a file run in the same one.
test: check
	$(BIN)/python -m pytest -m "not slow" --numprocesses 2 --dist loadfile --durations 30

# Slow tests: faults in and kills of the workflow, SLURM, the larger comparisons with other packages.
test-slow: set-up
	$(BIN)/python -m pytest -m slow --durations 30

check: set-up
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo
	$(BIN)/snakefmt --check Snakefile workflow/rules
	$(BIN)/snakemake --lint

# Build the documentation site in build/site.
docs: set-up
	$(BIN)/mkdocs build --strict --quiet
	@echo "docs: $(CURDIR)/build/site/index.html"

set-up:
	@VENV=$(VENV) PYTHON=$(PYTHON) envs/set_up.sh
