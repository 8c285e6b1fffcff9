# One data set: simulated anew from its name.


def simulate_arguments(wildcards):
    key = DatasetKey.parse(wildcards.dataset)
    arguments = ["--family", key.family, "--d", key.d, "--s", key.s, "--seed", key.seed]
    arguments += ["--n-observational", PLAN.n_observational]
    if key.family == "interventional":
        arguments += ["--fraction", f"{key.fraction:g}"]
        arguments += ["--n-per-intervention", PLAN.n_per_intervention]
    if key.family == "dcdi":
        arguments += ["--mechanism", key.mechanism]
    return arguments


rule simulate:
    output:
        f"{RESULTS}/data/{{dataset}}.npz",
    log:
        f"{RESULTS}/logs/simulate/{{dataset}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/simulate/{{dataset}}.tsv"
    conda:
        "../../envs/sdcd.yaml"
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        arguments=simulate_arguments,
        code=code("simulate.py"),
    shell:
        "python workflow/scripts/simulate.py {params.arguments:q} --out {output:q} 2> {log:q}"
