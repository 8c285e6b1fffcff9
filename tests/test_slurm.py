"""The workflow on a real scheduler: a SLURM cluster that is this machine alone.

The cluster has no accounting, and its GPU is none. What is set on the command line besides a
profile is what only a test needs: the scale, and how often Snakemake asks for the state of jobs.
"""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from itertools import pairwise

import pytest
import yaml
from support.workflow import SMOKE, new_clone, snakemake

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
    """A copy of the clone in which scale smoke was run by SLURM, from start to report."""
    clone = new_clone(tmp_path_factory.mktemp("slurm") / "clone")
    config = ("--config", "scale=smoke", "gpu=false")
    run(cluster, clone, "slurm", *config)
    snakemake(clone, *SMOKE, "gpu=false", "--report", "results/smoke/report.html")
    return clone


def table(path, left_out=()):
    with open(path, newline="") as stream:
        rows = list(csv.DictReader(stream))
    return [{key: row[key] for key in row if key not in left_out} for row in rows]


def test_every_number_is_that_of_a_local_run(on_slurm, finished):
    """Data and fits byte for byte; tables of runs but for what was measured; figures of scores."""
    here, there = (clone / "results/smoke" for clone in (finished, on_slurm))
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


def test_each_job_was_submitted_once_and_ended_well(on_slurm, cluster):
    jobs = cluster.jobs()
    assert {job.state for job in jobs} == {"COMPLETED"}
    fits = [job.rule for job in jobs if job.rule.startswith("rule_fit_")]
    assert (
        len(fits) == len(set(fits)) == len(list((on_slurm / "results/smoke/fits").rglob("*.npz")))
    )


def test_jobs_of_a_gpu_method_queue_for_the_gpu(on_slurm, cluster):
    """One after the other; without CUDA such a fit is unavailable, which is a result."""
    change = {
        "method_options": {"SDCD-GPU": {"gpu": True, "min_d": 5}},
        "scales": {"smoke": {"method_options": {"SDCD-GPU": {"settings": {"epochs_1": 40}}}}},
    }
    (on_slurm / "gpu.yaml").write_text(yaml.safe_dump(change))
    before = len(cluster.jobs())
    config = ("--config", "scale=smoke", "--configfile", "config.yaml", "gpu.yaml")
    target = "results/smoke/runs/observational.csv"
    run(cluster, on_slurm, "gpu", *config, "--", target)
    jobs = [job for job in cluster.jobs()[before:] if "SDCD-GPU" in job.rule]
    assert len(jobs) == 4
    assert {job.gres for job in jobs} == {"gres:gpu:1"}
    assert {job.state for job in jobs} == {"COMPLETED"}
    for one, next_one in pairwise(sorted(jobs, key=lambda job: job.start)):
        assert one.end <= next_one.start
    for row in table(on_slurm / target):
        if row["method"] == "SDCD-GPU":
            assert row["status"] == "unavailable"
            assert "CUDA" in row["reason"]
    others = [job.rule for job in cluster.jobs()[before:] if "SDCD-GPU" not in job.rule]
    assert others == ["rule_collect_wildcards_observational"]
