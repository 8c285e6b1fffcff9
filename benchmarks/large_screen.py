"""A screen of 50,000 cells and 2,000 genes from a sparse ``.h5ad``: memory, and the time of a fit.

    python benchmarks/large_screen.py                 # about an hour on one core; docs/benchmarks
    python benchmarks/large_screen.py --cells 5000 --genes 300    # a quick look, printed only

Makes a sparse matrix of counts (nine in ten are zero; neither time nor memory depends on the rest
of their values), lets ``sdcd fit --normalise`` read, summarise and fit it for a few epochs of each
stage, and writes a row of `docs/benchmarks/large_screen.csv`:

- `file_mb`, `read_s`: the file, and processor seconds until it is read, normalised and described;
- `peak_mb`: the most that the command and its processes had resident at a time, pages that they
  share counted in each of them (10^6 bytes), looked at ten times a second;
- `read_peak_mb`: the same until the fit begins;
- `stage_1_epoch_s`: processor seconds of an epoch of stage 1, from two fits, with two and with one;
- `projected_h`: hours of the whole fit on one core, with `projected_epochs` of the two stages, an
  epoch of stage 2 as `scaling.csv` has it for 8 candidate parents, times the share of rows.
"""

import argparse
import contextlib
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
from _rows import TABLES, read_rows, write_rows

TABLE = TABLES / "large_screen.csv"
EPOCHS = ((1, 1), (2, 1))
PROJECTED = (1201, 2000)
"""Epochs of the fit at d = 1,000 that was run to its end: see docs/benchmarks."""


def write_screen(path: Path, n: int, d: int) -> None:
    """A sparse ``.h5ad`` with 100 perturbed genes, or a tenth of them, in two rows of five."""
    import anndata
    import pandas as pd
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    rates = rng.gamma(0.5, 0.25, d) + 0.01
    depth = rng.lognormal(0, 0.3, n)
    blocks = [
        sp.csr_matrix(rng.poisson(depth[start : start + 1000, None] * rates).astype(np.float32))
        for start in range(0, n, 1000)
    ]
    names = [f"G{j}" for j in range(d)]
    targets = np.array([*names[: min(100, d // 10)]])
    labels = np.where(np.arange(n) % 5 < 2, targets[rng.integers(len(targets), size=n)], "control")
    screen = anndata.AnnData(
        sp.vstack(blocks, format="csr"),
        obs=pd.DataFrame({"perturbation": labels}, index=[f"C{r}" for r in range(n)]),
        var=pd.DataFrame(index=names),
    )
    screen.write_h5ad(path, compression="gzip")


def measured(command: list[str]) -> dict[str, object]:
    """Run ``sdcd fit``; its memory before and in the fit, and its processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = psutil.Popen(command, stderr=subprocess.PIPE, text=True)
    lines, peaks = [], {"read": 0.0, "all": 0.0}

    def listen():
        for line in process.stderr:
            lines.append(line.rstrip())
            print("   ", lines[-1][:150], flush=True)

    listener = threading.Thread(target=listen)
    listener.start()
    read_s = None
    while process.poll() is None:
        with contextlib.suppress(psutil.Error):
            family = [process, *process.children(recursive=True)]
            resident = sum(each.memory_info().rss for each in family) / 1e6
            peaks["all"] = max(peaks["all"], resident)
            if len(family) == 1:
                peaks["read"] = max(peaks["read"], resident)
                if not lines:
                    read_s = sum(process.cpu_times()[:2])
        time.sleep(0.1)
    listener.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: {lines[-1] if lines else process.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu_s": cpu, "read_s": read_s, **peaks}


def _epoch_of_stage_2(d: int) -> float:
    """Seconds for 10,000 rows, of the nearest number of variables."""
    rows = [row for row in read_rows(TABLES / "scaling.csv") if row["stage"] == "2"]
    return float(min(rows, key=lambda row: abs(int(row["d"]) - d))["seconds_per_epoch"])


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=50_000)
    parser.add_argument("--genes", type=int, default=2_000)
    a = parser.parse_args()
    row = {"n": a.cells, "d": a.genes}
    with tempfile.TemporaryDirectory() as folder:
        screen, fit = Path(folder) / "screen.h5ad", Path(folder) / "fit.npz"
        write_screen(screen, a.cells, a.genes)
        row["file_mb"] = round(screen.stat().st_size / 1e6, 1)
        command = [sys.executable, "-m", "sdcd.cli", "fit", str(screen), "-o", str(fit)]
        command += ["--normalise", "--perturbation-column", "perturbation"]
        command += ["--no-picture", "--no-progress"]
        runs = []
        for first, second in EPOCHS:
            print(f"{first} and {second} epochs", flush=True)
            epochs = ["--set", f"epochs_1={first}", "--set", f"epochs_2={second}"]
            runs.append(measured([*command, *epochs]))
            runs[-1]["seconds"] = json.loads(fit.with_suffix(".json").read_text())["seconds"]
            print("  ", runs[-1], flush=True)
    once, twice = runs
    row["read_s"] = round(once["read_s"], 1)
    row["read_peak_mb"] = round(max(run["read"] for run in runs))
    row["peak_mb"] = round(max(run["all"] for run in runs))
    first = twice["cpu_s"] - once["cpu_s"]
    second = _epoch_of_stage_2(a.genes) * a.cells / 10_000
    row["stage_1_epoch_s"] = round(first, 1)
    row["projected_epochs"] = "+".join(map(str, PROJECTED))
    seconds = once["read_s"] + PROJECTED[0] * first + PROJECTED[1] * second
    row["projected_h"] = round(seconds / 3600, 1)
    print(json.dumps(row, indent=1))
    if (a.cells, a.genes) == (50_000, 2_000):
        write_rows(TABLE, [row])


if __name__ == "__main__":
    main()
