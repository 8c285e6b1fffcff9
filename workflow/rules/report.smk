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
    conda:
        "../../envs/sdcd.yaml"
    resources:
        mem_mb=2000,
        runtime=15,
    params:
        scale=PLAN.scale,
        code=code("overview.py"),
    shell:
        "python workflow/scripts/overview.py --scale {params.scale} --out {output.html:q}"
        " --failures {output.failures:q} {input:q} 2> {log:q}"
