# Every table that has its runs at this scale: table_{name}, by sdcd/tables/{name}.py.
for name, experiments in TABLES.items():

    rule:
        name:
            f"table_{name}"
        input:
            runs_of(experiments),
        output:
            csv=f"{RESULTS}/tables/{name}.csv",
            tex=f"{RESULTS}/tables/{name}.tex",
            html=report(
                f"{RESULTS}/tables/{name}.html",
                caption=f"../report/table_{name}.rst",
                category="4. Tables",
                labels={"table": name.replace("_", " ")},
            ),
        log:
            f"{RESULTS}/logs/table_{name}.log",
        benchmark:
            f"{RESULTS}/benchmarks/table_{name}.tsv"
        # Seconds of work: on a cluster, done where Snakemake runs.
        localrule: True
        conda:
            "../../envs/sdcd.yaml"
        resources:
            mem_mb=2000,
            runtime=15,
        params:
            table=name,
            code=code("tables.py", f"sdcd.tables.{name}", data=PUBLISHED),
        shell:
            "python workflow/scripts/tables.py --table {params.table} --out {output.csv:q}"
            " {input:q} 2> {log:q}"
