# Tables of one's own (own_data in config.yaml): read, fitted by every method, and compared on a page.
# Target: own_data.


rule own_data:
    input:
        [f"{OWN}/{name}/report.html" for name in STUDIES_OF_OWN_DATA],


rule own_table:
    input:
        lambda wildcards: STUDIES_OF_OWN_DATA[wildcards.own].data,
    output:
        data=f"{OWN}/data/{{own}}.npz",
        about=f"{OWN}/data/{{own}}.json",
    log:
        f"{OWN}/logs/own_table/{{own}}.log",
    benchmark:
        f"{OWN}/benchmarks/own_table/{{own}}.tsv"
    priority: 1_000_000
    conda:
        "../../envs/sdcd.yaml"
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        reading=lambda wildcards: json.dumps(
            STUDIES_OF_OWN_DATA[wildcards.own].reading, sort_keys=True
        ),
        code=own_table_code,
    shell:
        '"$SDCD_PYTHON" "$SDCD_SCRIPTS/own_table.py" '
        "--data {input:q} --reading {params.reading:q} --out {output.data:q} 2> {log:q}"


rule own_truth:
    input:
        data=f"{OWN}/data/{{own}}.npz",
        truth=lambda wildcards: STUDIES_OF_OWN_DATA[wildcards.own].truth,
    output:
        graph=f"{OWN}/truth/{{own}}.npz",
        about=f"{OWN}/truth/{{own}}.json",
    log:
        f"{OWN}/logs/own_truth/{{own}}.log",
    benchmark:
        f"{OWN}/benchmarks/own_truth/{{own}}.tsv"
    # Before the fits: a wrong list is said at once.
    priority: 1_000_000
    conda:
        "../../envs/sdcd.yaml"
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        code=code("own_truth.py"),
    shell:
        '"$SDCD_PYTHON" "$SDCD_SCRIPTS/own_truth.py" '
        "--data {input.data:q} --truth {input.truth:q} --out {output.graph:q} 2> {log:q}"


rule own_knowledge:
    input:
        data=f"{OWN}/data/{{own}}.npz",
        files=lambda wildcards: list(STUDIES_OF_OWN_DATA[wildcards.own].knowledge.values()),
    output:
        f"{OWN}/knowledge/{{own}}.json",
    log:
        f"{OWN}/logs/own_knowledge/{{own}}.log",
    benchmark:
        f"{OWN}/benchmarks/own_knowledge/{{own}}.tsv"
    # Before the fits: a wrong list is said at once.
    priority: 1_000_000
    conda:
        "../../envs/sdcd.yaml"
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        files=lambda wildcards: json.dumps(
            STUDIES_OF_OWN_DATA[wildcards.own].knowledge, sort_keys=True
        ),
        code=code("own_knowledge.py"),
    shell:
        '"$SDCD_PYTHON" "$SDCD_SCRIPTS/own_knowledge.py" '
        "--data {input.data:q} --files {params.files:q} --out {output:q} 2> {log:q}"


# The rule of the paper's fits, for all rows with a seed, or for a resample of them.
use rule fit as own_fit with:
    input:
        data=f"{OWN}/data/{{own}}.npz",
        knowledge=own_knowledge_of,
    output:
        graph=f"{OWN}/fits/{{own}}/{{run}}/{{method}}.npz",
        record=f"{OWN}/fits/{{own}}/{{run}}/{{method}}.json",
    log:
        f"{OWN}/logs/fit/{{own}}/{{run}}/{{method}}.log",
    benchmark:
        f"{OWN}/benchmarks/fit/{{own}}/{{run}}/{{method}}.tsv"
    params:
        arguments=own_fit_arguments,
        code=own_fit_code,
        resampling=own_resampling_code,


rule own_report:
    input:
        own_files,
    output:
        f"{OWN}/{{own}}/report.html",
    log:
        f"{OWN}/logs/own_report/{{own}}.log",
    benchmark:
        f"{OWN}/benchmarks/own_report/{{own}}.tsv"
    conda:
        "../../envs/sdcd.yaml"
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        study=lambda wildcards: STUDIES_OF_OWN_DATA[wildcards.own].to_json(),
        results=lambda wildcards, output: Path(output[0]).parent.parent,
        code=code("own_report.py", data=TEMPLATES),
    shell:
        '"$SDCD_PYTHON" "$SDCD_SCRIPTS/own_report.py" '
        "--study {params.study:q} --results {params.results:q} --out {output:q} 2> {log:q}"
