# make reproduce   set up what is missing, then the paper at scale quick, with a report
# make look        the report of the runs kept in reproduction/, without a fit
# make test        set up what is missing, then all checks and the tests but for the slow ones
# make test-slow   the slow ones
# make docs        the documentation as a site
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

# The report of the runs that are kept in reproduction/, without a fit.
look: set-up
	@$(BIN)/python -m sdcd.reproduction look

# Two processes, each test file in one of them.
test: check
	$(BIN)/python -m pytest -m "not slow" --numprocesses 2 --dist loadfile --durations 30

# What takes long: faults and kills of the workflow, SLURM, the larger comparisons with oracles.
test-slow: set-up
	$(BIN)/python -m pytest -m slow --durations 30

check: set-up
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo
	$(BIN)/snakefmt --check Snakefile workflow/rules
	$(BIN)/snakemake --lint

# The documentation as a site in build/site.
docs: set-up
	$(BIN)/mkdocs build --strict --quiet
	@echo "docs: $(CURDIR)/build/site/index.html"

set-up:
	@VENV=$(VENV) PYTHON=$(PYTHON) envs/set_up.sh
