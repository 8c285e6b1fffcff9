# What was run, at which cost, and what failed.


rule overview:
    input:
        runs_of(PLAN.experiments),
    output:
        html=report(
            f"{RESULTS}/overview.html",
            caption="../report/overview.rst",
            category="1. Overview",
            labels={"page": "What was run"},
        ),
        failures=f"{RESULTS}/failures.csv",
    log:
        f"{RESULTS}/logs/overview.log",
    benchmark:
        f"{RESULTS}/benchmarks/overview.tsv"
    # Seconds of work: on a cluster, done where Snakemake runs.
    localrule: True
    conda:
        "../../envs/sdcd.yaml"
    resources:
        mem_mb=2000,
        runtime=15,
    params:
        scale=PLAN.scale,
        code=code("overview.py"),
    shell:
        "python workflow/scripts/overview.py --scale {params.scale:q} --out {output.html:q}"
        " --failures {output.failures:q} {input:q} 2> {log:q}"


# The page that a reader opens first, and the plan that it is made from.
rule report_page:
    input:
        runs_of(AVAILABLE),
        figures(),
        [table.with_suffix(".html") for table in map(Path, tables())],
        f"{RESULTS}/verdicts.csv",
    output:
        html=f"{RESULTS}/report.html",
        plan=f"{RESULTS}/plan.json",
    log:
        f"{RESULTS}/logs/report_page.log",
    benchmark:
        f"{RESULTS}/benchmarks/report_page.tsv"
    # Seconds of work: on a cluster, done where Snakemake runs.
    localrule: True
    conda:
        "../../envs/sdcd.yaml"
    resources:
        mem_mb=2000,
        runtime=15,
    params:
        # A function: in a string, Snakemake would take the braces of an outside command for wildcards.
        plan=lambda wildcards: PLAN.to_json(),
        code=code("report.py", data=CAPTIONS),
    shell:
        "python workflow/scripts/report.py --plan {params.plan:q} --out {output.html:q} 2> {log:q}"
