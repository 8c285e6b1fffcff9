# The values of the acyclicity constraints on growing weights and graphs.


rule constraints:
    output:
        f"{RESULTS}/runs/constraint_asymptotics.csv",
    log:
        f"{RESULTS}/logs/constraints.log",
    benchmark:
        f"{RESULTS}/benchmarks/constraints.tsv"
    conda:
        "../../envs/sdcd.yaml"
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        max_d=PLAN.asymptotics["max_d"],
        draws=PLAN.asymptotics["draws"],
        code=code("constraints.py"),
    shell:
        "python workflow/scripts/constraints.py --max-d {params.max_d} --draws {params.draws}"
        " --out {output:q} 2> {log:q}"
