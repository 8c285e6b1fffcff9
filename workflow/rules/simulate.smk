# One data set: simulated anew from its name.


rule simulate:
    output:
        f"{RESULTS}/data/{{dataset}}.npz",
    log:
        f"{RESULTS}/logs/simulate/{{dataset}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/simulate/{{dataset}}.tsv"
    # Before all fits, of which the longest may be waiting for it.
    priority: 1_000_000
    conda:
        "../../envs/sdcd.yaml"
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        arguments=simulate_arguments,
        code=code("simulate.py"),
    shell:
        '"$SDCD_PYTHON" "$SDCD_SCRIPTS/simulate.py" '
        "{params.arguments:q} --out {output:q} 2> {log:q}"
