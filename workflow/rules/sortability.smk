# How much of the causal order sorting gives away, in every data set of the scale, simulated once more
# before standardisation.


rule sortability:
    output:
        f"{RESULTS}/runs/sortability.csv",
    log:
        f"{RESULTS}/logs/sortability.log",
    benchmark:
        f"{RESULTS}/benchmarks/sortability.tsv"
    conda:
        "../../envs/sdcd.yaml"
    resources:
        mem_mb=4000,
        runtime=120,
    params:
        datasets=lambda wildcards: in_short(PLAN.datasets()),
        rows=["--n-observational", PLAN.n_observational]
        + ["--n-per-intervention", PLAN.n_per_intervention],
        code=code("sortability.py"),
    shell:
        '"$SDCD_PYTHON" "$SDCD_SCRIPTS/sortability.py" '
        "{params.rows:q} --out {output:q} --datasets {params.datasets:q} 2> {log:q}"
