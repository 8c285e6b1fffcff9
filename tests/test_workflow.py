"""The workflow as its user runs it: at scale smoke, in a copy of the clone."""

import csv
import json
import os
import re
import subprocess
import sys

import pytest
import yaml
from support.exhibited import draw
from support.workflow import ROOT, SMOKE, new_clone, planned, snakemake

from sdcd.errors import FAILURE_STATUSES
from sdcd.exhibits import FIGURES, TABLES, file_stem
from sdcd.experiments.plan import DERIVED, Experiment, make_plan
from sdcd.report.archive import export, import_archive
from sdcd.report.redraw import redraw
from sdcd.runs.table import RUN_COLUMNS, read_runs

pytestmark = pytest.mark.workflow


def timed(clone, *arguments):
    """Snakemake's output and its processor seconds, which other work leaves alone."""
    # By way of a process that has no other children.
    measure = (
        "import resource, subprocess, sys; end = subprocess.run(sys.argv[1:]); "
        "use = resource.getrusage(resource.RUSAGE_CHILDREN); "
        "print('\\ntook', use.ru_utime + use.ru_stime, use.ru_maxrss); sys.exit(end.returncode)"
    )
    end = subprocess.run(
        [sys.executable, "-c", measure, sys.executable, "-m", "snakemake", *arguments],
        cwd=clone,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert end.returncode == 0, end.stdout[-3000:]
    return end.stdout, float(re.search(r"^took (\S+)", end.stdout, flags=re.MULTILINE)[1])


def start_of_snakemake():
    """Processor seconds to start it: the measure of how fast this machine is."""
    return timed(ROOT, "--help")[1]


def built_on(*runs):
    """What is made from tables of runs, and from what is made of those."""
    runs = {*runs, *(name for name, (_, _, of) in DERIVED.items() if of in runs)}
    targets = {f"runs/{run}.csv" for run in runs}
    for kind, suffix, exhibits in (("figures", "png", FIGURES), ("tables", "csv", TABLES)):
        for rule, exhibit in exhibits.items():
            if set(exhibit.runs) & runs:
                targets.add(f"{kind}/{file_stem(rule)}.{suffix}")
    return targets | {"verdicts.csv", "report.html"}


def rows(clone, experiment):
    with open(clone / f"results/smoke/runs/{experiment}.csv", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="session")
def plan():
    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    schema = yaml.safe_load((ROOT / "workflow/schemas/config.schema.yaml").read_text())
    return make_plan({**config, "scale": "smoke"}, schema)


def test_every_fit_has_its_row(finished, plan):
    for name, experiment in plan.experiments.items():
        found = rows(finished, name)
        assert list(found[0]) == list(RUN_COLUMNS)
        fits = [
            (str(key.d), str(key.s), str(key.seed), method) for key, method in experiment.fits()
        ]
        assert [(row["d"], row["s"], row["seed"], row["method"]) for row in found] == fits
        for row in found:
            assert row["status"] in ("ok", *FAILURE_STATUSES)
            assert (row["status"] == "ok") == (row["shd"] != "") == (row["reason"] == "")
            assert "500 rows instead of 10,000" in row["shortened"]


def test_methods_end_well_at_toy_size(finished, plan):
    """Only AVICI, whose weights nobody has given, may fail; else the test shows the reasons."""
    reasons = {
        (row["method"], row["reason"])
        for name in plan.experiments
        for row in rows(finished, name)
        if row["status"] != "ok" and row["method"] != "AVICI"
    }
    assert reasons == set()


def test_sdcd_says_what_its_stages_did(finished):
    for row in rows(finished, "observational"):
        if row["method"] == "SDCD":
            assert float(row["stage1_epochs"]) == float(row["stage2_epochs"]) == 40
            assert 0 <= float(row["stage1_mask_density"]) < 1
            assert 0 <= float(row["stage1_mask_recall"]) <= 1
            assert row["last_gamma"] != ""


def test_every_figure_table_and_page_is_there(finished):
    results = finished / "results/smoke"
    made_from = ("observational", "interventional", "constraint_asymptotics", "sortability")
    expected = {*built_on(*made_from)}
    for target in expected:
        assert (results / target).stat().st_size > 0
    assert (results / "figures/observational.pdf").read_bytes().startswith(b"%PDF")
    assert (results / "figures/observational.png").read_bytes().startswith(b"\x89PNG")
    assert r"\toprule" in (results / "tables/observational.tex").read_text()
    assert "scale smoke" in (results / "report.html").read_text()
    assert "AVICI" in (results / "failures.csv").read_text()


def test_rule_script_log_and_benchmark_share_a_stem(finished):
    scripts = {path.stem for path in (finished / "workflow/scripts").glob("[!_]*.py")}
    rules = {path.stem for path in (finished / "workflow/rules").glob("*.smk")}
    rules -= {"common", "read_config"}
    # The steps of one's own tables are together in one file.
    rules -= {"own_data"}
    own = (finished / "workflow/rules/own_data.smk").read_text(encoding="utf-8")
    rules |= set(re.findall(r"^rule (\w+):", own, re.MULTILINE)) - {"own_data"}
    assert scripts == rules
    logs, benchmarks = (finished / "results/smoke" / name for name in ("logs", "benchmarks"))
    assert {p.stem for p in logs.iterdir()} == {p.stem for p in benchmarks.iterdir()}
    assert {"simulate", "fit", "collect", "constraints", "verdicts"} <= {
        path.stem for path in logs.iterdir()
    }


def test_every_fit_has_its_log(finished):
    for folder, suffix in (("logs", "log"), ("benchmarks", "tsv")):
        kept = finished / f"results/smoke/{folder}/fit"
        fits = finished / "results/smoke/fits"
        assert {path.relative_to(kept).with_suffix("") for path in kept.rglob(f"*.{suffix}")} == {
            path.relative_to(fits).with_suffix("") for path in fits.rglob("*.npz")
        }


def test_a_second_run_does_nothing(finished):
    start, (text, seconds) = start_of_snakemake(), timed(finished, "--cores", "2", *SMOKE)
    assert "Nothing to be done" in text
    # About four times the start of Snakemake.
    assert seconds < 15 * start


def test_the_report_is_one_file_that_needs_no_network(finished):
    report = (finished / "results/smoke/report.html").read_text()
    assert "SDCD, reproduced at scale smoke" in report
    assert "the SHD of the empty graph" in report
    shown = set(re.findall(r'id="((?:fig|table)_\w+)"', report))
    assert shown == {
        prefix + path.stem
        for kind, prefix, suffix in (("figures", "fig_", "png"), ("tables", "table_", "csv"))
        for path in (finished / "results/smoke" / kind).glob(f"*.{suffix}")
    }
    assert report.count('src="data:image/png;base64,') == len(
        [rule for rule in shown if rule.startswith("fig_")]
    )
    assert not re.search(r'<script|<link|src="(?!data:)', report)
    plan = json.loads((finished / "results/smoke/plan.json").read_text())
    assert plan["scale"] == "smoke" and plan["n_observational"] == 500


@pytest.mark.slow
def test_results_of_another_person_are_drawn_without_a_fit(finished, tmp_path):
    archive, clone = tmp_path / "smoke.tar.gz", new_clone(tmp_path / "clone")
    export(finished / "results/smoke", archive, graphs=True)
    import_archive(archive, clone / "results/smoke")
    drawn = planned(clone)
    assert {"report.html", "verdicts.csv", "figures/observational.png"} <= drawn
    assert not [name for name in drawn if name.startswith(("data/", "fits/", "runs/"))]
    # Without Snakemake, what it drew comes out again, byte for byte.
    for path in redraw(clone / "results/smoke", tmp_path / "again/report.html"):
        made = finished / "results/smoke" / path.relative_to(tmp_path / "again")
        assert path.read_bytes() == made.read_bytes(), path.name


def test_named_targets_make_one_thing(finished):
    assert planned(finished, "fig_observational", "--forcerun", "fig_observational", *SMOKE) == {
        "figures/observational.png"
    }
    assert planned(finished, "table_observational", "-R", "table_observational", *SMOKE) == {
        "tables/observational.csv"
    }


def test_an_edit_of_a_method_reruns_its_fits_and_what_is_built_on_them(clone):
    source = clone / "sdcd/baselines/nocurl.py"
    text = source.read_text()
    source.write_text("# A comment.\n" + text)
    assert planned(clone) == set()
    source.write_text(text + "\nEDITED = True\n")
    fits = {f"fits/observational/d{d}_s2_seed{seed}/NOCURL.npz" for d in (5, 6) for seed in (0, 1)}
    assert planned(clone) == fits | built_on("observational")


def test_an_edit_of_a_figure_redraws_it_alone(clone):
    source = clone / "sdcd/exhibits.py"
    source.write_text(
        source.read_text().replace('"wall time of a fit (s)", log', '"seconds", log', 1)
    )
    assert planned(clone) == {"figures/runtime.png", "report.html"}


def test_an_edit_of_the_metrics_scores_again_and_fits_nothing(clone, plan):
    with open(clone / "sdcd/metrics.py", "a") as stream:
        stream.write("\nEDITED = True\n")
    again = planned(clone)
    assert {f"runs/{name}.csv" for name in plan.experiments} <= again
    assert not [target for target in again if target.startswith(("fits/", "data/"))]


def test_a_setting_of_one_method_reruns_its_fits(clone):
    change = {"scales": {"smoke": {"method_options": {"NOCURL": {"settings": {"threshold": 0.4}}}}}}
    (clone / "mine.yaml").write_text(yaml.safe_dump(change))
    again = planned(clone, "--configfile", "config.yaml", "mine.yaml", *SMOKE)
    fits = {target for target in again if target.startswith("fits/")}
    assert fits == {
        f"fits/observational/d{d}_s2_seed{seed}/NOCURL.npz" for d in (5, 6) for seed in (0, 1)
    }
    assert again - fits == built_on("observational")


def test_more_seeds_are_fitted_and_no_other(clone, plan):
    grids = {"observational": [{"d": [5, 6], "s": [2], "seeds": [0, 1, 7]}]}
    (clone / "mine.yaml").write_text(yaml.safe_dump({"scales": {"smoke": {"grids": grids}}}))
    again = planned(clone, "--configfile", "config.yaml", "mine.yaml", *SMOKE)
    new = [f"observational/d{d}_s2_seed7" for d in (5, 6)]
    methods = plan.experiments["observational"].methods
    fits = {f"fits/{name}/{method}.npz" for name in new for method in methods}
    built = built_on("observational", "sortability")
    assert again == {f"data/{name}.npz" for name in new} | fits | built


def test_comments_in_scripts_and_rules_rerun_nothing(clone):
    for path in [*(clone / "workflow").rglob("*.py"), *(clone / "workflow").rglob("*.smk")]:
        path.write_text("# A comment.\n" + path.read_text())
    assert planned(clone) == set()


@pytest.mark.slow
def test_a_method_is_added_as_one_file_and_one_line(clone):
    """The template of docs/adding-a-method.md, with no other edit, reaches the figures' data."""
    page = (ROOT / "docs/adding-a-method.md").read_text()
    template = re.search(r"```python\n(.*?)```", page, flags=re.DOTALL).group(1)
    (clone / "sdcd/baselines/marginal.py").write_text(template)
    config = clone / "config.yaml"
    text = config.read_text()
    config.write_text(text.replace("\nmethods:\n", "\nmethods:\n  - marginal\n", 1))
    fits = {
        f"fits/observational/d{d}_s2_seed{seed}/marginal.npz" for d in (5, 6) for seed in (0, 1)
    }
    assert {name for name in planned(clone) if name.startswith(("fits/", "data/"))} == fits

    snakemake(clone, "fig_observational", "table_observational", *SMOKE)
    runs = read_runs(clone / "results/smoke/runs/observational.csv")
    added = runs[runs["method"] == "marginal"]
    assert len(added) == 4
    assert added["shd"].notna().all()
    (legend,) = draw("observational", runs).legends
    assert "marginal" in {text.get_text().split()[0] for text in legend.get_texts()}
    assert "marginal" in (clone / "results/smoke/tables/observational.tex").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["directory", "module"])
def test_it_runs_from_elsewhere_and_from_paths_with_spaces(how, tmp_path):
    clone = new_clone(tmp_path / "a clone")
    work = tmp_path / "work here"
    work.mkdir()
    target = "results/smoke/fits/observational/d5_s2_seed0/sortnregress.npz"
    options = ("--snakefile", str(clone / "Snakefile"))
    if how == "module":
        (work / "Snakefile").write_text(
            f"module paper:\n    snakefile: {str(clone / 'Snakefile')!r}\n\n"
            "use rule * from paper as paper_*\n"
        )
        options = ()
    snakemake(work, *options, *SMOKE, "--", target, "results/smoke/tables/pst_constraints.csv")
    assert (work / target).with_suffix(".json").exists()
    assert not (clone / "results").exists() and not (clone / ".snakemake").exists()


@pytest.mark.slow
def test_a_moved_clone_has_nothing_to_do(clone, tmp_path):
    assert planned(clone.rename(tmp_path / "moved")) == set()


@pytest.mark.slow
def test_failures_become_results_and_stop_nothing(clone):
    """A command that fails, one that is not there, and a limit that no fit can keep."""
    change = {
        "outside_methods": {
            "failing": {"command": ["sh", "-c", "echo it broke >&2; exit 3", "{input}{output}"]},
            "absent": {"command": ["no-such-program", "{input}", "{output}"]},
        },
        "methods": ["SDCD", "NOTEARS", "failing", "absent"],
        "scales": {
            "smoke": {
                "method_options": {"NOTEARS": {"time_limit_s": 0.001}},
                "grids": {"observational": [{"d": [5, 6], "s": [2], "seeds": 2}]},
            }
        },
    }
    (clone / "mine.yaml").write_text(yaml.safe_dump(change))
    arguments = ("--configfile", "config.yaml", "mine.yaml", *SMOKE)
    assert "report.html" in planned(clone, *arguments)
    output = snakemake(clone, "table_observational", "fig_observational", *arguments)
    found = {(row["method"], row["status"]) for row in rows(clone, "observational")}
    assert found == {
        ("SDCD", "ok"),
        ("NOTEARS", "timeout"),
        ("failing", "error"),
        ("absent", "unavailable"),
    }
    reasons = {row["method"]: row for row in rows(clone, "observational")}
    assert "it broke" in reasons["failing"]["reason"]
    assert "no-such-program" in reasons["absent"]["reason"]
    assert reasons["NOTEARS"]["reason"] == "time limit of 0.001 s passed"
    assert "time limit 0.001 s instead of 21,600 s" in reasons["NOTEARS"]["shortened"]
    assert reasons["NOTEARS"]["shd"] == ""
    table = (clone / "results/smoke/tables/observational.tex").read_text()
    assert "NA" in table
    assert "it broke" in table
    record = json.loads(
        (clone / "results/smoke/fits/observational/d5_s2_seed0/failing.json").read_text()
    )
    assert record["status"] == "error"
    # The run's last lines: each reason once, how often, and where to read on.
    last = output[output.index("failed fits (these are results") :].splitlines()
    log = "results/smoke/logs/fit/observational/d5_s2_seed0"
    assert last[1:3] == [
        "  4 x NOTEARS: timeout: time limit of 0.001 s passed",
        f"      {log}/NOTEARS.log",
    ]
    (failing,) = (n for n, line in enumerate(last) if line.startswith("  4 x failing: error: "))
    assert "it broke" in last[failing] and last[failing + 1].strip() == f"{log}/failing.log"
    assert [line for line in last if line.startswith("  4 x absent: unavailable: ")]
    # A failure is not tried again by itself.
    assert planned(clone, "table_observational", *arguments) == set()


def test_a_wrong_key_ends_in_one_line_before_any_job(clone):
    (clone / "mine.yaml").write_text("scales: {smoke: {n_observational: -3}}\n")
    arguments = ("--configfile", "config.yaml", "mine.yaml", *SMOKE)
    code, text = snakemake(clone, *arguments, check=False)
    assert code != 0
    usual = ("Config file", "Using workflow specific profile")
    lines = [line for line in text.splitlines() if not line.startswith(usual)]
    assert lines == [
        "Error: config key scales.smoke.n_observational: found -3, expected a number of rows "
        "(a whole number from 10 on)"
    ]


def test_results_may_be_called_like_a_date(tmp_path):
    clone = new_clone(tmp_path / "clone")
    (clone / "mine.yaml").write_text("results: 2024-06-01\n")
    arguments = ("--configfile", "config.yaml", "mine.yaml", *SMOKE)
    assert "report.html" in planned(clone, *arguments, results="2024-06-01/smoke")


def test_the_linter_has_nothing_to_say():
    assert "good condition" in snakemake(ROOT, "--lint")


@pytest.mark.slow
@pytest.mark.parametrize(("profile", "fits"), [("slurm", 3583), ("gpu", 3648)])
def test_profiles_plan_the_paper_in_seconds_and_within_a_gigabyte(profile, fits, tmp_path):
    clone = new_clone(tmp_path / "clone")
    start, (text, seconds) = start_of_snakemake(), timed(clone, "--profile", profile, "-n")
    assert re.search(rf"^fit +{fits}$", text, flags=re.MULTILINE)
    assert ("gpu=1" in text) == (profile == "gpu")
    # About eight times the start of Snakemake, which is some ten seconds.
    assert seconds < 25 * start
    kib = int(re.search(r"^took \S+ (\d+)$", text, flags=re.MULTILINE)[1])
    assert kib < 1024**2


@pytest.mark.parametrize(
    "script", sorted(path.name for path in (ROOT / "workflow/scripts").glob("[!_]*.py"))
)
def test_scripts_run_alone(script, tmp_path):
    """From any folder, without the package on the search path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    end = subprocess.run(
        [sys.executable, ROOT / "workflow/scripts" / script, "--help"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert end.returncode == 0, end.stderr
    assert "usage: " + script in end.stdout


def test_a_script_says_bad_input_in_one_line(tmp_path):
    script = ROOT / "workflow/scripts/fit.py"
    arguments = ["--data", "none.npz", "--method", "GIES", "--out", "fit.npz"]
    end = subprocess.run(
        [sys.executable, script, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert end.returncode == 2
    assert end.stderr == "fit.py: none.npz: no such file\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("script", "options"),
    [("collect.py", []), ("derive.py", ["--table", "thresholds_observational"])],
)
def test_a_script_says_what_to_do_about_a_broken_file_of_the_workflow(script, options, tmp_path):
    bounds = dict.fromkeys(("min_d", "max_d", "max_seeds", "fewer_seeds"))
    grid = {"d": [5], "s": [2], "seeds": 1}
    experiment = Experiment("observational", [grid], {"GIES": {**bounds, "shortened": ""}})
    data = tmp_path / "data/observational/d5_s2_seed0.npz"
    data.parent.mkdir(parents=True)
    data.write_bytes(b"nothing")
    options = [
        *options,
        "--experiment",
        experiment.to_json(),
        "--results",
        tmp_path,
        "--out",
        "x.csv",
    ]
    command = [sys.executable, ROOT / "workflow/scripts" / script, *options]
    end = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert end.returncode == 2
    assert end.stderr.startswith(f"{script}: {data}: not a readable .npz")
    assert end.stderr.endswith(": delete that file and run snakemake again\n")


def test_a_fit_that_needs_more_in_the_next_attempt_leaves_nothing(finished, tmp_path):
    """It is tried again by the workflow, with more."""
    script = ROOT / "workflow/scripts/fit.py"
    data = finished / "results/smoke/data/observational/d5_s2_seed0.npz"
    limits = ["--attempt-s", "0.001", "--time-limit-s", "100"]
    out = tmp_path / "fit.npz"
    end = subprocess.run(
        [sys.executable, script, "--data", data, "--method", "GIES", "--out", out, *limits],
        capture_output=True,
        text=True,
        check=False,
    )
    assert end.returncode == 75
    assert "needs more in the next attempt" in end.stderr
    assert list(tmp_path.iterdir()) == []
