"""Compare this project's SDCD with the authors' package: same data, same core, same run.

    python benchmarks/compare_reference.py            # every row of docs/benchmarks/reference.csv
    python benchmarks/compare_reference.py --d 10     # one of them

Sets up the reference (PyPI ``sdcd`` 0.1.4, which needs older numpy and pandas) in an environment of
its own, `.venv-reference`. For each d, one core runs ours, the reference, ours again, so that a
drift of the machine's speed shows as a difference between our two runs. Seconds are those of the
processor, with one thread, from data in memory to graph: what else the machine does counts little.
Up to d = 20 the reference runs to its end; above, its milliseconds per epoch are measured and
multiplied by the number of epochs that our run took, without its validation passes, which favours
it. One row per d goes to `docs/benchmarks/reference.csv`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

import numpy as np
from _rows import ROOT, TABLES, put_row, single_threaded

from sdcd.data.dataset import read_dataset
from sdcd.estimator import SDCD
from sdcd.estimator.engine_numba import warm_up
from sdcd.metrics import score

ENVIRONMENT = ROOT / ".venv-reference"
REQUIREMENTS = ["sdcd==0.1.4", "torch==2.13.0", "numpy<2", "pandas<2", "setuptools<81"]
TABLE = TABLES / "reference.csv"
FULL_UP_TO = 20


def reference_python() -> Path:
    """The reference environment's interpreter; the environment is made on first use."""
    python = ENVIRONMENT / "bin" / "python"
    done = ENVIRONMENT / "installed"
    if not done.exists():
        venv.create(ENVIRONMENT, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *REQUIREMENTS], check=True)
        done.touch()
    return python


def on_one_core(command, core):
    environment = {**single_threaded(), "WANDB_MODE": "disabled"}
    if command[0] != sys.executable:
        # The reference's environment must not find this package, which has the same name.
        environment.pop("PYTHONPATH", None)
    subprocess.run(
        [str(part) for part in command],
        check=True,
        env=environment,
        stdout=sys.stderr,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )


def fit_ours(data, out):
    """Fit and save; in a process of its own, on one core."""
    dataset = read_dataset(data)
    warm_up()
    start = time.process_time()
    model = SDCD(threads=1).fit(dataset.X, dataset.intervened)
    seconds = time.process_time() - start
    adjacency = model.adjacency_.tolist()
    Path(out).write_text(
        json.dumps({"seconds": seconds, "adjacency": adjacency, "epochs": model.epochs_})
    )


def run_ours(data, folder, core):
    out = folder / "ours.json"
    on_one_core([sys.executable, __file__, "--fit", data, out], core)
    return json.loads(out.read_text())


def run_reference(data, folder, core, mode):
    out = folder / "reference.json"
    worker = ROOT / "benchmarks" / "reference_worker.py"
    on_one_core([reference_python(), worker, data, out, mode], core)
    return json.loads(out.read_text())


def compare(d, seed, core):
    """One row of the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = folder / "data.npz"
        command = [sys.executable, "-m", "sdcd.cli", "simulate", "--d", d, "--s", 4]
        on_one_core([*command, "--seed", seed, "-o", data], core)
        full = d <= FULL_UP_TO
        first = run_ours(data, folder, core)
        reference = run_reference(data, folder, core, "full" if full else "epochs")
        second = run_ours(data, folder, core)
        truth = read_dataset(data).adjacency
        epochs = first["epochs"]
        if full:
            seconds = reference["seconds"]
            reference_shd = score(np.array(reference["adjacency"]), None, truth)["shd"]
        else:
            seconds = (
                epochs["stage1"] * reference["stage_1_ms"]
                + epochs["stage2"] * reference["stage_2_ms"]
            ) / 1000
            reference_shd = ""
        ours = (first["seconds"] + second["seconds"]) / 2
        return {
            "d": d,
            "seed": seed,
            "reference": "run" if full else "projected",
            "reference_seconds": round(seconds, 1),
            "ours_seconds": round(first["seconds"], 2),
            "ours_seconds_again": round(second["seconds"], 2),
            "ratio": round(seconds / ours, 1),
            "reference_shd": reference_shd,
            "ours_shd": score(np.array(first["adjacency"]), None, truth)["shd"],
            "epochs_stage_1": epochs["stage1"],
            "epochs_stage_2": epochs["stage2"],
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--d", type=int, nargs="+", default=[10, 20, 50, 100, 200])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--core", type=int, default=min(os.sched_getaffinity(0)))
    parser.add_argument("--fit", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fit:
        fit_ours(*arguments.fit)
        return
    reference_python()
    for d in arguments.d:
        row = compare(d, arguments.seed, arguments.core)
        put_row(TABLE, row, ("d", "seed"), lambda row: (int(row["d"]), int(row["seed"])))


if __name__ == "__main__":
    main()
