# Every figure that has its runs at this scale. sdcd/exhibits.py has them by the name of their rule, such
# as fig_observational: what each is drawn from, by which module, with which options.
for rule_name, exhibit in available(FIGURES, SHOWN).items():

    rule:
        name:
            rule_name
        input:
            runs_of(exhibit.runs),
        output:
            png=f"{RESULTS}/figures/{file_stem(rule_name)}.png",
            pdf=f"{RESULTS}/figures/{file_stem(rule_name)}.pdf",
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
            options=as_json(exhibit.options),
            code=code("figures.py", exhibit.module, data=PUBLISHED),
        shell:
            '"$SDCD_PYTHON" "$SDCD_SCRIPTS/figures.py" '
            "--module {params.module} --options {params.options:q}"
            " --out {output.png:q} {input:q} 2> {log:q}"
