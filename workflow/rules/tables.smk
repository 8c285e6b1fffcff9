# Every table that has its runs at this scale. sdcd/exhibits.py has them by the name of their rule, such as
# table_observational: what each is made from, by which module, with which options.
for rule_name, exhibit in available(TABLES, SHOWN).items():

    rule:
        name:
            rule_name
        input:
            runs_of(exhibit.runs),
        output:
            csv=f"{RESULTS}/tables/{file_stem(rule_name)}.csv",
            tex=f"{RESULTS}/tables/{file_stem(rule_name)}.tex",
        log:
            f"{RESULTS}/logs/{rule_name}.log",
        benchmark:
            f"{RESULTS}/benchmarks/{rule_name}.tsv"
        # Seconds of work: on a cluster, done where Snakemake runs.
        localrule: True
        conda:
            "../../envs/sdcd.yaml"
        resources:
            mem_mb=2000,
            runtime=15,
        params:
            module=exhibit.module,
            options=as_json({"caption": exhibit.caption, **exhibit.options}),
            code=code("tables.py", exhibit.module, data=PUBLISHED),
        shell:
            '"$SDCD_PYTHON" "$SDCD_SCRIPTS/tables.py" '
            "--module {params.module} --options {params.options:q}"
            " --out {output.csv:q} {input:q} 2> {log:q}"
