# All fits of one experiment as a table of runs, scored against the true graphs.


rule collect:
    input:
        lambda wildcards: list(fits_of(PLAN.experiments[wildcards.experiment])),
    output:
        f"{RESULTS}/runs/{{experiment}}.csv",
    log:
        f"{RESULTS}/logs/collect/{{experiment}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/collect/{{experiment}}.tsv"
    conda:
        "../../envs/sdcd.yaml"
    resources:
        mem_mb=4000,
        runtime=120,
    params:
        experiment=lambda wildcards: PLAN.experiments[wildcards.experiment].to_json(),
        results=lambda wildcards, output: Path(output[0]).parent.parent,
        code=code("collect.py"),
    shell:
        '"$SDCD_PYTHON" "$SDCD_SCRIPTS/collect.py" '
        "--experiment {params.experiment:q}"
        " --results {params.results:q} --out {output:q} 2> {log:q}"
