"""The paper, from simulated data to the report: see README.md and config.yaml."""

from pathlib import Path

from snakemake.utils import min_version

min_version("9.20")


include: "workflow/rules/read_config.smk"


# Of this repository, also with --directory and as a module; --configfile adds one's own.
configfile: Path(workflow.current_basedir.get_path_or_uri(secret_free=False)) / "config.yaml"


include: "workflow/rules/common.smk"


onstart:
    start_of_run()


onsuccess:
    end_of_run()


onerror:
    end_of_run()


rule all:
    input:
        f"{RESULTS}/report.html",
        f"{RESULTS}/verdicts.csv",
        figures(),
        tables(),


include: "workflow/rules/simulate.smk"
include: "workflow/rules/fit.smk"
include: "workflow/rules/collect.smk"
include: "workflow/rules/derive.smk"
include: "workflow/rules/constraints.smk"
include: "workflow/rules/sortability.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/verdicts.smk"
include: "workflow/rules/report_page.smk"
include: "workflow/rules/own_data.smk"
