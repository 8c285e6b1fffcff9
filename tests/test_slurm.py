"""The workflow on a real scheduler: a SLURM cluster that is this machine alone.

The cluster has no accounting, and its GPU is none. What is set on the command line besides a
profile is what only a test needs: the scale, and how often Snakemake asks for the state of jobs.
"""

import csv
import json
import shutil
from itertools import pairwise

import pytest
import yaml
from support.tiny import TINY, add_slow_method, configure, started, wait_for
from support.workflow import SMOKE, begin, new_clone, snakemake

pytestmark = [pytest.mark.workflow, pytest.mark.slow, pytest.mark.slurm]

ASKING = (
    "--slurm-status-command=squeue",
    "--slurm-init-seconds-before-status-checks=3",
    "--seconds-between-status-checks=3",
    "--latency-wait=10",
)
MEASURED = ("seconds", "peak_rss_mb")


def run(cluster, clone, profile, *arguments, **options):
    """Snakemake with a profile on the cluster."""
    arguments = ("--profile", profile, *ASKING, *arguments)
    return snakemake(clone, *arguments, environment=cluster.environment, **options)


@pytest.fixture(scope="module")
def on_slurm(cluster, tmp_path_factory):
    """A copy of the clone in which scale smoke was run by SLURM, from start to report; the jobs."""
    before = len(cluster.jobs())
    clone = new_clone(tmp_path_factory.mktemp("slurm") / "clone")
    config = ("--config", "scale=smoke", "gpu=false")
    run(cluster, clone, "slurm", *config)
    snakemake(clone, *SMOKE, "gpu=false", "--report", "results/smoke/report.html")
    return clone, cluster.jobs()[before:]


def table(path, left_out=()):
    with open(path, newline="") as stream:
        rows = list(csv.DictReader(stream))
    return [{key: row[key] for key in row if key not in left_out} for row in rows]


def test_every_number_is_that_of_a_local_run(on_slurm, finished):
    """Data and fits byte for byte; tables of runs but for what was measured; figures of scores."""
    here, there = (clone / "results/smoke" for clone in (finished, on_slurm[0]))
    files = sorted(path.relative_to(here) for path in here.glob("*/**/*.npz"))
    assert files == sorted(path.relative_to(there) for path in there.glob("*/**/*.npz"))
    assert len(files) > 60
    assert [
        name for name in files if (here / name).read_bytes() != (there / name).read_bytes()
    ] == []
    names = sorted(path.name for path in (here / "runs").glob("*.csv"))
    assert names == sorted(path.name for path in (there / "runs").glob("*.csv"))
    for name in names:
        if name != "constraint_costs.csv":
            assert table(here / "runs" / name, MEASURED) == table(there / "runs" / name, MEASURED)
    for name in ("observational", "interventional", "constraint_asymptotics"):
        figure = f"figures/{name}.png"
        assert (here / figure).read_bytes() == (there / figure).read_bytes()
    report = (there / "report.html").read_text()
    assert "observational.png" in report
    assert "verdicts.html" in report


def test_each_job_was_submitted_once_and_ended_well(on_slurm):
    clone, jobs = on_slurm
    assert {job.state for job in jobs} == {"COMPLETED"}
    fits = [job.rule for job in jobs if job.rule.startswith("rule_fit_")]
    assert len(fits) == len(set(fits)) == len(list((clone / "results/smoke/fits").rglob("*.npz")))


def test_jobs_of_a_gpu_method_queue_for_the_gpu(on_slurm, cluster):
    """One after the other; without CUDA such a fit is unavailable, which is a result."""
    change = {
        "method_options": {"SDCD-GPU": {"gpu": True, "min_d": 5}},
        "scales": {"smoke": {"method_options": {"SDCD-GPU": {"settings": {"epochs_1": 40}}}}},
    }
    clone, _ = on_slurm
    (clone / "gpu.yaml").write_text(yaml.safe_dump(change))
    before = len(cluster.jobs())
    config = ("--configfile", "config.yaml", "gpu.yaml", "--config", "scale=smoke", "gpu=true")
    target = "results/smoke/runs/observational.csv"
    run(cluster, clone, "gpu", *config, "--", target)
    jobs = [job for job in cluster.jobs()[before:] if "SDCD-GPU" in job.rule]
    assert len(jobs) == 4
    assert {job.gres for job in jobs} == {"gres:gpu:1"}
    assert {job.state for job in jobs} == {"COMPLETED"}
    for one, next_one in pairwise(sorted(jobs, key=lambda job: job.start)):
        assert one.end <= next_one.start
    for row in table(clone / target):
        if row["method"] == "SDCD-GPU":
            assert row["status"] == "unavailable"
            assert "CUDA" in row["reason"]
    others = [job.rule for job in cluster.jobs()[before:] if "SDCD-GPU" not in job.rule]
    assert others == ["rule_collect_wildcards_observational"]


# Faults: a run of few fits, and only up to those, since each level takes a look at the jobs more.

FITS = [f"results/tiny/fits/observational/d5_s2_seed{seed}/slow.npz" for seed in (0, 1)]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """A copy of the clone with the data sets of the tiny scale."""
    clone = new_clone(tmp_path_factory.mktemp("faults") / "clone")
    configure(clone)
    data = [f"results/tiny/data/observational/d5_s2_seed{seed}.npz" for seed in (0, 1)]
    snakemake(clone, *TINY, "--", *data)
    return clone


@pytest.fixture
def tiny(simulated, tmp_path):
    """That clone without fits, and with a method that ends when a test lets it."""
    shutil.rmtree(simulated / "results/tiny/fits", ignore_errors=True)
    add_slow_method(simulated, tmp_path / "slow")
    return simulated


def start(cluster, clone, *arguments):
    arguments = ("--profile", "slurm", *ASKING, *TINY, "gpu=false", *arguments, "--", *FITS)
    return begin(clone, *arguments, environment=cluster.environment)


def ended_well(process, clone):
    assert process.wait(600) == 0, (clone / "output.txt").read_text()[-5000:]
    for path in FITS:
        assert json.loads((clone / path).with_suffix(".json").read_text())["status"] == "ok"


def states(cluster, before):
    """States of the fits' jobs since then, by data set."""
    found = {}
    for job in cluster.jobs()[before:]:
        found.setdefault(job.rule.rpartition("observational_")[2], []).append(job.state)
    return found


def test_snakemake_is_killed_and_its_jobs_go_on(cluster, tiny, tmp_path):
    """What they finish is kept, not made twice."""
    process = start(cluster, tiny)
    wait_for(lambda: started(tmp_path / "slow") == 2)
    process.kill()
    process.wait()
    (tmp_path / "slow/go").touch()
    wait_for(lambda: len(list((tiny / "results/tiny/fits").rglob("*.finished.json"))) == 2)
    snakemake(tiny, *TINY, "--unlock")
    ended_well(start(cluster, tiny), tiny)
    assert started(tmp_path / "slow") == 2


def test_a_job_is_cancelled(cluster, tiny, tmp_path):
    """It is submitted again; the other one is not touched."""
    before = len(cluster.jobs())
    process = start(cluster, tiny)
    wait_for(lambda: started(tmp_path / "slow") == 2)
    cancelled = cluster.jobs()[before]
    cluster.run("scancel", cancelled.number)
    (tmp_path / "slow/go").touch()
    ended_well(process, tiny)
    assert sorted(states(cluster, before).values()) == [["CANCELLED", "COMPLETED"], ["COMPLETED"]]
    assert started(tmp_path / "slow") == 3


def test_the_configuration_is_edited_while_jobs_wait(cluster, tiny, tmp_path):
    """Jobs read the rules again when they start; all the same they run what was planned."""
    process = start(cluster, tiny, "--jobs", "1")
    wait_for(lambda: started(tmp_path / "slow") == 1)
    add_slow_method(tiny, tmp_path / "slow", method_options={"slow": {"time_limit_s": 50}})
    (tmp_path / "slow/go").touch()
    ended_well(process, tiny)
    for path in FITS:
        record = json.loads((tiny / path).with_suffix(".json").read_text())
        assert record["limits"]["time_s"] == 100


def test_a_job_needs_more_memory_than_it_asked_for(cluster, tiny, tmp_path):
    """SLURM kills it, and its next attempt has more."""
    (tmp_path / "slow/go").touch()
    (tmp_path / "slow/megabytes").write_text("600")
    before = len(cluster.jobs())
    process = start(cluster, tiny, "--set-resources", "fit:mem_mb=500 if attempt == 1 else 3000")
    ended_well(process, tiny)
    for first, second in states(cluster, before).values():
        assert first in ("OUT_OF_MEMORY", "CANCELLED", "FAILED")
        assert second == "COMPLETED"


def test_the_node_goes_down_and_comes_back(cluster, tiny, tmp_path):
    """SLURM itself starts the jobs again."""
    process = start(cluster, tiny)
    wait_for(lambda: started(tmp_path / "slow") == 2)
    cluster.kill_node()
    wait_for(lambda: cluster.state().startswith("down"))
    cluster.start_node()
    (tmp_path / "slow/go").touch()
    ended_well(process, tiny)
    assert started(tmp_path / "slow") == 4
