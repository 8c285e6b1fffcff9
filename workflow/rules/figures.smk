# Every figure that has its runs at this scale: fig_{name}, drawn by sdcd/figures/{name}.py.
for name, experiments in FIGURES.items():

    rule:
        name:
            f"fig_{name}"
        input:
            runs_of(experiments),
        output:
            png=report(
                f"{RESULTS}/figures/{name}.png",
                caption=f"../report/fig_{name}.rst",
                category="3. Figures",
                labels={"figure": name.replace("_", " ")},
            ),
            pdf=f"{RESULTS}/figures/{name}.pdf",
        log:
            f"{RESULTS}/logs/fig_{name}.log",
        benchmark:
            f"{RESULTS}/benchmarks/fig_{name}.tsv"
        # Seconds of work: on a cluster, done where Snakemake runs.
        localrule: True
        conda:
            "../../envs/sdcd.yaml"
        resources:
            mem_mb=2000,
            runtime=15,
        params:
            figure=name,
            code=code("figures.py", f"sdcd.figures.{name}", data=PUBLISHED),
        shell:
            "python workflow/scripts/figures.py --figure {params.figure} --out {output.png:q}"
            " {input:q} 2> {log:q}"
