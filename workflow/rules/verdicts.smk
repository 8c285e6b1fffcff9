# Does the paper reproduce? A verdict on every cell of its tables and every claim of its text.


rule verdicts:
    input:
        runs_of(AVAILABLE),
    output:
        f"{RESULTS}/verdicts.csv",
    log:
        f"{RESULTS}/logs/verdicts.log",
    benchmark:
        f"{RESULTS}/benchmarks/verdicts.tsv"
    # Seconds of work: on a cluster, done where Snakemake runs.
    localrule: True
    conda:
        "../../envs/sdcd.yaml"
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        code=code("verdicts.py", data=(*PUBLISHED, ROOT / "sdcd/verdicts/claims.csv")),
    shell:
        '"$SDCD_PYTHON" "$SDCD_SCRIPTS/verdicts.py" ' "--out {output:q} {input:q} 2> {log:q}"
