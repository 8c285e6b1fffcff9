"""Whatever goes wrong in a run: no finished fit is lost or made twice, no wrong number appears, and
the workflow ends well or says in one line what to do.
"""

import json
import os
import re
import shutil
import signal
import subprocess

import pytest
from support.tiny import TINY, add_slow_method, configure, finished, fits, rows, started, wait_for
from support.workflow import begin, copy_of, new_clone, planned, snakemake

from sdcd.experiments.progress import read_progress

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

TARGET = "results/tiny/runs/observational.csv"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A copy of the clone in which the tiny scale has been run."""
    clone = new_clone(tmp_path_factory.mktemp("faults") / "clone")
    configure(clone)
    snakemake(clone, *TINY, "--", TARGET)
    return clone


@pytest.fixture
def done(tiny, tmp_path):
    return copy_of(tiny, tmp_path / "clone")


def tiny_planned(clone):
    return planned(clone, *TINY, "--", TARGET, results="results/tiny")


def test_killed_while_its_jobs_go_on(tiny, tmp_path):
    """SIGKILL reaches Snakemake alone: what its jobs finish after that is kept, not made twice."""
    clone = new_clone(tmp_path / "clone")
    add_slow_method(clone, tmp_path / "slow")
    process = begin(clone, "--cores", "2", *TINY, "--", TARGET)
    wait_for(lambda: started(tmp_path / "slow") == 2)
    process.kill()
    process.wait()
    (tmp_path / "slow/go").touch()
    wait_for(lambda: finished(clone, "slow") == 2)
    code, text = snakemake(clone, *TINY, "--", TARGET, check=False)
    assert code != 0
    assert "--unlock" in text
    snakemake(clone, *TINY, "--unlock")
    snakemake(clone, *TINY, "--", TARGET)
    assert started(tmp_path / "slow") == 2
    assert [row["status"] for row in rows(clone, TARGET)] == ["ok"] * 4
    assert not (clone / "results/tiny/finished").exists()
    assert tiny_planned(clone) == set()


def test_power_failure(tiny, tmp_path):
    """Snakemake and its jobs are gone at once: finished fits stay, the others are made."""
    clone = new_clone(tmp_path / "clone")
    add_slow_method(clone, tmp_path / "slow")
    process = begin(clone, "--cores", "2", *TINY, "--", TARGET)
    record = clone / "results/tiny/fits/observational/d5_s2_seed0/sortnregress.json"
    wait_for(lambda: started(tmp_path / "slow") == 2 or record.exists())
    wait_for(lambda: started(tmp_path / "slow") >= 1)
    kept = fits(clone)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    (tmp_path / "slow/go").touch()
    snakemake(clone, *TINY, "--unlock")
    snakemake(clone, *TINY, "--", TARGET)
    assert [row["status"] for row in rows(clone, TARGET)] == ["ok"] * 4
    assert len(fits(clone)) == 4
    assert "slow" not in " ".join(map(str, kept))
    assert rows(clone, TARGET)[0]["shd"] == rows(tiny, TARGET)[0]["shd"]


def test_two_runs_at_once(tmp_path):
    clone = new_clone(tmp_path / "clone")
    add_slow_method(clone, tmp_path / "slow")
    process = begin(clone, "--cores", "2", *TINY, "--", TARGET)
    wait_for(lambda: started(tmp_path / "slow") >= 1)
    code, text = snakemake(clone, *TINY, "--", TARGET, check=False)
    assert read_progress(clone / "results/tiny").methods["slow"].running >= 1
    (tmp_path / "slow/go").touch()
    assert code != 0
    assert "no other Snakemake process is trying to create the same files" in " ".join(text.split())
    assert process.wait(600) == 0, (clone / "output.txt").read_text()
    assert started(tmp_path / "slow") == 2
    progress = read_progress(clone / "results/tiny")
    assert (progress.total("done"), progress.total("hours_left")) == (4, 0)
    assert tiny_planned(clone) == set()


def test_configuration_edited_in_the_middle(tmp_path):
    """The run ends as it began; the next one makes what the edit has made stale."""
    clone = new_clone(tmp_path / "clone")
    add_slow_method(clone, tmp_path / "slow")
    process = begin(clone, "--cores", "1", *TINY, "--", TARGET)
    wait_for(lambda: started(tmp_path / "slow") == 1)
    add_slow_method(clone, tmp_path / "slow", method_options={"slow": {"time_limit_s": 50}})
    (tmp_path / "slow/go").touch()
    assert process.wait(600) == 0, (clone / "output.txt").read_text()
    records = (clone / "results/tiny/fits").rglob("slow.json")
    assert [json.loads(path.read_text())["limits"]["time_s"] for path in records] == [100, 100]
    slow = [f"fits/observational/d5_s2_seed{seed}/slow.npz" for seed in (0, 1)]
    assert tiny_planned(clone) == {*slow, "runs/observational.csv"}


@pytest.mark.parametrize("kind", ["fits", "data"])
def test_broken_file(done, kind):
    """It is named, with what to do; then that file is made again, and what depends on it."""
    name = {"fits": "observational/d5_s2_seed0/NOTEARS", "data": "observational/d5_s2_seed0"}[kind]
    path = done / f"results/tiny/{kind}/{name}.npz"
    whole, before = path.read_bytes(), rows(done, TARGET)
    script = {"fits": "collect", "data": "fit"}[kind]
    line = (
        rf"^{script}\.py: results/tiny/{kind}/{name}\.npz: .*: delete that file and run snakemake"
    )
    for content in (b"", b"nothing", whole[: len(whole) // 2]):
        path.write_bytes(content)
        code, text = snakemake(done, *TINY, "--", TARGET, check=False)
        assert code != 0
        assert re.search(line, text, flags=re.MULTILINE), text[-3000:]
    path.unlink()
    # As a target of its own: for the same table, Snakemake would do without a missing data set.
    targets = ("--", f"results/tiny/{kind}/{name}.npz", TARGET)
    again = planned(done, *TINY, *targets, results="results/tiny")
    assert f"{kind}/{name}.npz" in again
    assert len([target for target in again if "seed1" in target]) == 0
    snakemake(done, *TINY, *targets)
    assert path.read_bytes() == whole
    same = [{k: v for k, v in row.items() if k not in ("seconds", "peak_rss_mb")} for row in before]
    for row, expected in zip(rows(done, TARGET), same, strict=True):
        assert row | expected == row


def test_table_that_lost_its_last_rows(done):
    """It looks like any other: its digest tells, before anything is drawn from it."""
    path = done / TARGET
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    code, text = snakemake(done, *TINY, "--", "fig_observational", check=False)
    assert code != 0
    assert f"figures.py: {TARGET}: changed or cut off since it was written: delete that" in text
    path.unlink()
    snakemake(done, *TINY, "--", "fig_observational")
    assert path.read_bytes() == whole
    assert (done / "results/tiny/figures/observational.png").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="root may mount")
def test_full_disk(tmp_path):
    """Nothing half-written is left or counted; with room the run is completed."""
    clone = new_clone(tmp_path / "clone")
    configure(clone)
    disk = clone / "results"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=68k", "tmpfs", disk], check=False)
    if mounted.returncode != 0:
        pytest.skip("tmpfs cannot be mounted here")
    try:
        code, text = snakemake(clone, *TINY, "--", TARGET, check=False)
        assert code != 0
        assert "Error: results/tiny: No space left on device: make room and run snakemake" in text
        made = set(fits(clone))
        for record in (disk / "tiny/fits").rglob("*.json"):
            assert json.loads(record.read_text())["status"] == "ok"
        subprocess.run(["mount", "-o", "remount,size=20m", disk], check=True)
        code, text = snakemake(clone, *TINY, "--", TARGET, check=False)
        assert code == 0, text[-3000:]
        assert [row["status"] for row in rows(clone, TARGET)] == ["ok"] * 4
        assert made <= set(fits(clone))
        assert list(disk.rglob(".*.npz")) == []
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def test_results_from_elsewhere(done, tmp_path):
    """Of moved or copied results Snakemake knows nothing: all count as up to date, as it says."""
    clone = new_clone(tmp_path / "another")
    configure(clone)
    shutil.copytree(done / "results", clone / "results")
    text = snakemake(clone, "-n", *TINY, "--", TARGET)
    assert "Warning: results/tiny: Snakemake does not know" in text
    assert "snakemake --touch --forceall" in text
    # Of another version: its records say so.
    path = clone / "results/tiny/fits/observational/d5_s2_seed1/NOTEARS.json"
    record = json.loads(path.read_text())
    other = {**record, "code": {**record["code"], "fingerprint": "0123456789abcdef"}}
    path.write_text(json.dumps(other))
    text = snakemake(clone, "-n", *TINY, "--", TARGET)
    assert "seed1/NOTEARS.json: made by other code (0123456789abcdef)" in text
    path.write_text(json.dumps(record))
    snakemake(clone, "--touch", "--forceall", *TINY, "--", TARGET)
    text = snakemake(clone, "-n", *TINY, "--", TARGET)
    assert "Warning: results" not in text
    # From now on Snakemake knows what they depend on.
    with open(clone / "sdcd/baselines/notears.py", "a") as stream:
        stream.write("\nEDITED = True\n")
    data = [f"fits/observational/d5_s2_seed{seed}/NOTEARS.npz" for seed in (0, 1)]
    assert tiny_planned(clone) == {*data, "runs/observational.csv"}


def test_without_snakemake_s_own_folder(done):
    """Deleted, it costs nothing but what it knew."""
    shutil.rmtree(done / ".snakemake")
    text = snakemake(done, *TINY, "--", TARGET)
    assert "Warning: results/tiny: Snakemake does not know" in text
    assert "with the same options settles that\n" in text
    assert "Nothing to be done" in text
