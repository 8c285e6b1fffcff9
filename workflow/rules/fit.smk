# One method on one data set. A method's failure is a result of this rule, not a failure of the job.


def method_of(wildcards):
    return PLAN.methods[wildcards.method]


def fit_arguments(wildcards):
    method = method_of(wildcards)
    arguments = ["--method", method.name, "--settings", json.dumps(method.settings, sort_keys=True)]
    arguments += ["--time-limit-s", method.time_limit_s]
    arguments += ["--memory-limit-mb", method.memory_limit_mb]
    if method.outside is not None:
        arguments += ["--outside", json.dumps(method.outside, sort_keys=True)]
    return arguments


def fit_code(wildcards):
    method = method_of(wildcards)
    modules = [] if method.outside else [registered_methods()[method.name].module]
    return code("fit.py", *modules)


def fit_grant(wildcards, attempt):
    method = method_of(wildcards)
    key = DatasetKey.parse(wildcards.dataset)
    limits = method.time_limit_s, method.memory_limit_mb
    return grant(method.name, key.d, PLAN.n_rows(key), *limits, attempt)


rule fit:
    input:
        f"{RESULTS}/data/{{dataset}}.npz",
    output:
        graph=f"{RESULTS}/fits/{{dataset}}/{{method}}.npz",
        record=f"{RESULTS}/fits/{{dataset}}/{{method}}.json",
    log:
        f"{RESULTS}/logs/fit/{{dataset}}/{{method}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/fit/{{dataset}}/{{method}}.tsv"
    # An attempt that needs more than it was granted ends with an error and is tried again with more.
    retries: 2
    conda:
        "../../envs/sdcd.yaml"
    threads: lambda wildcards: method_of(wildcards).threads
    resources:
        mem_mb=lambda wildcards, attempt: fit_grant(wildcards, attempt).mem_mb,
        runtime=lambda wildcards, attempt: fit_grant(wildcards, attempt).runtime_min,
        granted_s=lambda wildcards, attempt: int(fit_grant(wildcards, attempt).time_limit_s),
        granted_mb=lambda wildcards, attempt: int(fit_grant(wildcards, attempt).memory_limit_mb),
        gpu=lambda wildcards: int(method_of(wildcards).gpu),
    params:
        arguments=fit_arguments,
        code=fit_code,
    shell:
        "python workflow/scripts/fit.py --data {input:q} {params.arguments:q}"
        " --granted-s {resources.granted_s} --granted-mb {resources.granted_mb}"
        " --threads {threads} --log {log:q} --out {output.graph:q} 2>> {log:q}"
