# One method on one data set. A method's failure is a result of this rule, not a failure of the job.


rule fit:
    input:
        data=f"{RESULTS}/data/{{dataset}}.npz",
        first_stage=parts_of,
    output:
        graph=f"{RESULTS}/fits/{{dataset}}/{{method}}.npz",
        record=f"{RESULTS}/fits/{{dataset}}/{{method}}.json",
    log:
        f"{RESULTS}/logs/fit/{{dataset}}/{{method}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/fit/{{dataset}}/{{method}}.tsv"
    # The longest first: none of them is left alone at the end.
    priority: fit_priority
    # An attempt that needs more than it may use ends with an error and is tried again with more.
    retries: FULL_ATTEMPT - 1
    conda:
        "../../envs/sdcd.yaml"
    threads: lambda wildcards: method_of(wildcards).threads
    resources:
        mem_mb=lambda wildcards, attempt: fit_allowance(wildcards, attempt).mem_mb,
        runtime=lambda wildcards, attempt: fit_allowance(wildcards, attempt).runtime_min,
        attempt_s=lambda wildcards, attempt: ceil(fit_allowance(wildcards, attempt).time_limit_s),
        attempt_mb=lambda wildcards, attempt: ceil(
            fit_allowance(wildcards, attempt).memory_limit_mb
        ),
        attempt=lambda wildcards, attempt: attempt,
        gpu=lambda wildcards: int(method_of(wildcards).gpu),
    params:
        arguments=fit_arguments,
        code=fit_code,
    shell:
        '"$SDCD_PYTHON" "$SDCD_SCRIPTS/fit.py" '
        "--data {input.data:q} {params.arguments:q} --code {params.code}"
        " --attempt {resources.attempt}"
        " --attempt-s {resources.attempt_s} --attempt-mb {resources.attempt_mb}"
        " --threads {threads} --log {log:q} --out {output.graph:q} 2>> {log:q}"


# Where a method is scattered: its first stage for some of the variables, by the same command.
use rule fit as stage_1 with:
    input:
        data=f"{RESULTS}/data/{{dataset}}.npz",
    output:
        graph=f"{RESULTS}/stage_1/{{dataset}}/{{method}}/{{targets}}.npz",
        record=f"{RESULTS}/stage_1/{{dataset}}/{{method}}/{{targets}}.json",
    log:
        f"{RESULTS}/logs/stage_1/{{dataset}}/{{method}}/{{targets}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/stage_1/{{dataset}}/{{method}}/{{targets}}.tsv"
    params:
        arguments=first_stage_arguments,
        code=fit_code,
