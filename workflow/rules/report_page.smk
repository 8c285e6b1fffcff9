# The page that a reader opens first, the plan that it is made from, and what failed.


rule report_page:
    input:
        runs_of(AVAILABLE),
        figures(),
        tables(),
        f"{RESULTS}/verdicts.csv",
    output:
        html=f"{RESULTS}/report.html",
        plan=f"{RESULTS}/plan.json",
        failures=f"{RESULTS}/failures.csv",
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
        plan=as_json(asdict(PLAN)),
        code=code("report_page.py", data=TEMPLATES),
    shell:
        '"$SDCD_PYTHON" "$SDCD_SCRIPTS/report_page.py" '
        "--plan {params.plan:q} --out {output.html:q}"
        " --failures {output.failures:q} 2> {log:q}"
