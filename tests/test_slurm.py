"""The workflow on a real scheduler: what became of the runs of ``support/slurm_runs.py``."""

import csv
import json
from itertools import pairwise

import pytest
from support.slurm_runs import GPU_FITS

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

MEASURED = ("seconds", "peak_rss_mb")


def table(path, left_out=()):
    with open(path, newline="") as stream:
        rows = list(csv.DictReader(stream))
    return [{key: row[key] for key in row if key not in left_out} for row in rows]


@pytest.mark.slurm("smoke")
def test_every_number_is_that_of_a_local_run(on_slurm, finished):
    """Data and fits byte for byte; tables of runs but for what was measured; figures of scores."""
    here, there = (clone / "results/smoke" for clone in (finished, on_slurm.clone))
    files = sorted(path.relative_to(there) for path in there.glob("*/**/*.npz"))
    assert len(files) > 15
    assert [
        name for name in files if (here / name).read_bytes() != (there / name).read_bytes()
    ] == []
    for name in ("observational", "interventional"):
        rows = table(here / f"runs/{name}.csv", MEASURED)
        found = table(there / f"runs/{name}.csv", MEASURED)
        assert len(found) > 4 and [row for row in found if row not in rows] == []
    figure = "figures/constraint_asymptotics.png"
    assert (here / figure).read_bytes() == (there / figure).read_bytes()
    assert "SDCD, reproduced at scale smoke" in (there / "report.html").read_text()


@pytest.mark.slurm("smoke")
def test_each_job_was_submitted_once_and_ended_well(on_slurm):
    assert {job["state"] for job in on_slurm.jobs} == {"COMPLETED"}
    fits = [job["rule"] for job in on_slurm.jobs if job["rule"].startswith("rule_fit_")]
    made = list((on_slurm.clone / "results/smoke/fits").rglob("*.npz"))
    assert len(fits) == len(set(fits)) == len(made)


@pytest.mark.slurm("gpu")
def test_jobs_of_a_gpu_method_queue_for_the_gpu(on_slurm):
    """One after the other; without CUDA such a fit is unavailable, which is a result."""
    jobs = [job for job in on_slurm.jobs if "SDCD-GPU" in job["rule"]]
    assert len(jobs) == 2
    assert {job["gres"] for job in jobs} == {"gres:gpu:1"}
    assert {job["state"] for job in jobs} == {"COMPLETED"}
    for one, next_one in pairwise(sorted(jobs, key=lambda job: job["start"])):
        assert one["end"] <= next_one["start"]
    for path in GPU_FITS:
        record = json.loads((on_slurm.clone / path).with_suffix(".json").read_text())
        assert record["status"] == "unavailable"
        assert "CUDA" in record["reason"]
    others = [job["rule"] for job in on_slurm.jobs if "SDCD-GPU" not in job["rule"]]
    assert [rule.startswith("rule_simulate") for rule in others] == [True]


# Faults: a run of two fits.


def ended_well(run):
    assert run.code == 0, run.output
    assert [record["status"] for record in run.records] == ["ok", "ok"]


def states(run):
    """States of the fits' jobs, by data set."""
    found = {}
    for job in run.jobs:
        found.setdefault(job["rule"].rpartition("observational_")[2], []).append(job["state"])
    assert len(found) == 2
    return found.values()


@pytest.mark.slurm("killed")
def test_snakemake_is_killed_and_its_jobs_go_on(on_slurm):
    """What they finish is kept, not made twice."""
    ended_well(on_slurm)
    assert on_slurm.started == 2


@pytest.mark.slurm("cancelled")
def test_a_job_is_cancelled(on_slurm):
    """It is submitted again; the other one is not touched."""
    ended_well(on_slurm)
    assert sorted(states(on_slurm)) == [["CANCELLED", "COMPLETED"], ["COMPLETED"]]
    assert on_slurm.started == 3


@pytest.mark.slurm("edited")
def test_the_configuration_is_edited_while_jobs_wait(on_slurm):
    """Jobs read the rules again when they start; all the same they run what was planned."""
    ended_well(on_slurm)
    assert [record["limits"]["time_s"] for record in on_slurm.records] == [100, 100]


@pytest.mark.slurm("memory")
def test_a_job_needs_more_memory_than_it_asked_for(on_slurm):
    """SLURM kills it, and its next attempt has more."""
    ended_well(on_slurm)
    for first, second in states(on_slurm):
        assert first in ("OUT_OF_MEMORY", "CANCELLED", "FAILED")
        assert second == "COMPLETED"


@pytest.mark.slurm("late")
def test_a_job_needs_more_time_than_it_asked_for(on_slurm):
    """Likewise."""
    ended_well(on_slurm)
    assert list(states(on_slurm)) == [["TIMEOUT", "COMPLETED"]] * 2


@pytest.mark.slurm("node")
def test_the_node_goes_down_and_comes_back(on_slurm):
    """SLURM itself starts the jobs again."""
    ended_well(on_slurm)
    assert on_slurm.started == 4
