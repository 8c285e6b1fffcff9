# Studies of the acyclicity constraints alone, as tables.


rule constraints:
    output:
        f"{RESULTS}/runs/{{study}}.csv",
    log:
        f"{RESULTS}/logs/constraints/{{study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/constraints/{{study}}.tsv"
    # Minutes on one core: started early, they do not hold up the end.
    priority: 50
    conda:
        "../../envs/sdcd.yaml"
    resources:
        mem_mb=4000,
        runtime=240,
    params:
        sizes=lambda wildcards: json.dumps(PLAN.studies[wildcards.study], sort_keys=True),
        code=lambda wildcards: code_now("constraints.py", STUDIES[wildcards.study][0]),
    shell:
        '"$SDCD_PYTHON" "$SDCD_SCRIPTS/constraints.py" '
        "--study {wildcards.study} --sizes {params.sizes:q}"
        " --out {output:q} 2> {log:q}"
