# Tables made from the matrices of an experiment's fits: their weights cut at other thresholds, and the
# stages of one fit.


rule derive:
    input:
        lambda wildcards: list(fits_of(FROM_FITS[wildcards.derived])),
    output:
        f"{RESULTS}/runs/{{derived}}.csv",
    log:
        f"{RESULTS}/logs/derive/{{derived}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/derive/{{derived}}.tsv"
    conda:
        "../../envs/sdcd.yaml"
    resources:
        mem_mb=4000,
        runtime=120,
    params:
        experiment=lambda wildcards: FROM_FITS[wildcards.derived].to_json(),
        results=lambda wildcards, output: Path(output[0]).parent.parent,
        code=lambda wildcards: code_now("derive.py", DERIVED[wildcards.derived][0]),
    shell:
        '"$SDCD_PYTHON" "$SDCD_SCRIPTS/derive.py" '
        "--table {wildcards.derived}"
        " --experiment {params.experiment:q} --results {params.results:q} --out {output:q} 2> {log:q}"
