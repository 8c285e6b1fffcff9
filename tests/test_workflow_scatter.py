"""Stage 1 in jobs of their own: the same fit, block by block, and what reruns or goes on."""

import csv
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from sdcd.cli import main

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "workflow/scripts/fit.py"
LEFT_OUT = (".git", ".venv*", "results", ".snakemake", ".*_cache", ".hypothesis")
EPOCHS = {"epochs_1": 40, "epochs_2": 40}
FITS = "fits/observational/d7_s2_seed0"
PARTS = "stage_1/observational/d7_s2_seed0/SDCD"


def config(options, **changes):
    scale = {
        "n_observational": 500,
        "n_per_intervention": 50,
        "time_limit_s": 100,
        "memory_limit_mb": 4000,
        "method_options": {"SDCD": options},
        "grids": {"observational": [{"d": [7], "s": [2], "seeds": 1}]},
    }
    return {"scale": "tiny", "methods": ["SDCD"], "scales": {"tiny": scale}, **changes}


SCATTERED = {"settings": EPOCHS, "scatter": {"targets_per_job": 3, "min_d": 7}}


def snakemake(clone, content, *arguments):
    (clone / "mine.yaml").write_text(yaml.safe_dump(content))
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--configfile"]
    end = subprocess.run(
        [*command, "config.yaml", "mine.yaml", *arguments],
        cwd=clone,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert end.returncode == 0, end.stdout[-3000:]
    return end.stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A copy of the clone with a scattered fit, and the same fit by one job, block by block."""
    clone = tmp_path_factory.mktemp("scatter") / "clone"
    shutil.copytree(ROOT, clone, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
    snakemake(clone, config(SCATTERED), "--", "results/tiny/runs/observational.csv")
    together = config({"settings": {**EPOCHS, "target_block": 3}}, results="together")
    snakemake(clone, together, "--", f"together/tiny/{FITS}/SDCD.npz")
    return clone


@pytest.mark.workflow
@pytest.mark.slow
def test_a_scattered_fit_is_the_fit_in_blocks_byte_for_byte(clone):
    scattered, together = (clone / f"{name}/tiny/{FITS}" for name in ("results", "together"))
    assert (scattered / "SDCD.npz").read_bytes() == (together / "SDCD.npz").read_bytes()
    parts = [
        json.loads((clone / f"results/tiny/{PARTS}/{name}.json").read_text())
        for name in ("0-2", "3-5", "6-6")
    ]
    records = [json.loads((path / "SDCD.json").read_text()) for path in (scattered, together)]
    assert records[0]["epochs"] == records[1]["epochs"]
    assert records[0]["diagnostics"] == records[1]["diagnostics"]
    assert records[0]["diagnostics"]["stage_1_blocks"] == [3, 3, 1]
    # Every second counts, whoever spent it.
    seconds = [part["seconds"] for part in parts]
    assert records[0]["first_stage"] == {"parts": 3, "seconds": seconds}
    assert 0 < sum(seconds) < records[0]["seconds"]
    assert [part["targets"] for part in parts] == [[0, 2], [3, 5], [6, 6]]
    with open(clone / "results/tiny/runs/observational.csv", newline="") as stream:
        (row,) = csv.DictReader(stream)
    assert "stage 1 stops early in 3 parts" in row["shortened"]
    assert float(row["seconds"]) == records[0]["seconds"]
    assert not list(clone.glob("results/**/*.checkpoint.npz"))


@pytest.mark.workflow
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value", "blocks"),
    [("alpha_1", 0.02, 3), ("alpha_2", 0.001, 0), ("epochs_1", 40, None)],
)
def test_blocks_rerun_when_a_setting_of_stage_1_changes(clone, name, value, blocks):
    options = {**SCATTERED, "settings": {**EPOCHS, name: value}}
    target = f"results/tiny/{FITS}/SDCD.npz"
    text = snakemake(clone, config(options), "-n", "--", target)
    if blocks is None:
        assert "Nothing to be done" in text
        return
    counts = {rule: int(n) for rule, n in re.findall(r"^(\w+) +(\d+)$", text, re.MULTILINE)}
    assert counts.get("stage_1", 0) == blocks and counts["fit"] == 1
    assert "simulate" not in counts


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.npz"
    arguments = ["--d", "6", "--s", "1", "--n-observational", "600", "-o", str(path)]
    assert main(["simulate", *arguments]) == 0
    return path


def fit(data, out, *arguments):
    command = [sys.executable, SCRIPT, "--data", data, "--method", "SDCD", "--out", out]
    settings = {"epochs_1": 300, "patience": 300, "checkpoint_interval": 0.0}
    command += ["--settings", json.dumps(settings), "--targets", "2-5", *arguments]
    return subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True)


def test_a_killed_block_goes_on_from_its_own_checkpoint(data, tmp_path):
    whole, cut = tmp_path / "whole.npz", tmp_path / "cut.npz"
    assert fit(data, whole).wait() == 0
    record = json.loads(whole.with_suffix(".json").read_text())
    assert "resumed_after_s" not in record["diagnostics"]
    stale = tmp_path / f"cut.{'0' * 16}.checkpoint.npz"
    another = tmp_path / f"cut.x.{'0' * 16}.checkpoint.npz"
    for path in (stale, another):
        path.write_text("")

    def checkpoints():
        return set(tmp_path.glob("cut.*.checkpoint.npz")) - {another}

    process = fit(data, cut)
    deadline = time.monotonic() + 60
    while not checkpoints() - {stale} and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (kept,) = checkpoints()
    assert kept != stale
    # Under an edited method, it would start anew; here it does not.
    content = kept.read_bytes()
    assert fit(data, cut).wait() == 0
    assert cut.read_bytes() == whole.read_bytes()
    record = json.loads(cut.with_suffix(".json").read_text())
    assert 0 < record["diagnostics"]["resumed_after_s"] < record["seconds"]
    assert not checkpoints()
    kept.write_bytes(content)
    assert fit(data, cut, "--code", "edited").wait() == 0
    record = json.loads(cut.with_suffix(".json").read_text())
    assert "resumed_after_s" not in record["diagnostics"]
    assert not checkpoints() and another.exists()
