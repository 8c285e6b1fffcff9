"""What the workflow costs besides its fits, as a table.

    python benchmarks/orchestration.py --out docs/benchmarks/orchestration.csv
    python benchmarks/orchestration.py --results results/quick --cores 2

measures, in this order: planning the paper's grid (``snakemake -n``); what a job of a scheduler
costs before its script starts (Snakemake's executor for SLURM starts Snakemake twice in each job);
what a fit costs besides the method; and, with ``--results``, which share of a finished run was
fits. Processor seconds do not depend on what else the machine does; wall seconds do.
"""

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from _rows import ROOT, write_rows

COLUMNS = ("what", "value", "unit", "how")
REPEATS = 3
NOTHING = {
    "sortnregress": {},
    "SDCD": {"epochs_1": 1, "epochs_2": 1},
    "DCDI-G": {"max_epochs": 1},
}
"""Methods, with settings under which they do next to nothing."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", help="folder of a scale that was run, such as results/quick")
    parser.add_argument("--cores", type=int, default=2, help="it was run on (2)")
    parser.add_argument("--out", help="write the table here too, .csv")
    a = parser.parse_args()

    rows = [*planning(), *start_of_a_job()]
    for method, settings in NOTHING.items():
        rows += around_a_fit(method, settings)
    if a.results:
        rows += share_of_fits(Path(a.results), a.cores)
    print(*(", ".join(map(str, row)) for row in rows), sep="\n")
    if a.out:
        write_rows(Path(a.out), (dict(zip(COLUMNS, row, strict=True)) for row in rows))


def planning() -> list[tuple]:
    """Time and memory of planning the paper's grid."""
    command = ["snakemake", "-n", "--quiet", "rules", "--config", "scale=paper"]
    runs = [measured(command) for _ in range(REPEATS)]
    cpu, wall, memory = (min(values) for values in zip(*(run[:3] for run in runs), strict=True))
    fits = int(re.search(r"^fit +(\d+)$", runs[0][3], re.MULTILINE).group(1))
    how = "snakemake -n --quiet rules --config scale=paper"
    return [
        ("fits planned", fits, "fits", how),
        ("planning", round(cpu, 1), "processor s", how),
        ("planning", round(wall, 1), "wall s", how),
        ("planning", round(memory), "MB at most", how),
    ]


def start_of_a_job() -> list[tuple]:
    """What Snakemake takes to find out what one job is, as each job of a scheduler does twice."""
    target = "results/smoke/data/observational/d5_s2_seed0.npz"
    command = ["snakemake", "-n", "--config", "scale=smoke", "--", target]
    cpu = min(measured(command)[0] for _ in range(REPEATS))
    how = "2 x snakemake -n of one data set, the least of three"
    return [("start of a job of SLURM", round(2 * cpu, 2), "processor s", how)]


def around_a_fit(method: str, settings: dict) -> list[tuple]:
    """What workflow/scripts/fit.py takes for a fit that does next to nothing."""
    with tempfile.TemporaryDirectory(prefix="sdcd-") as folder:
        data, out = f"{folder}/data.npz", f"{folder}/fit.npz"
        script = [sys.executable, "workflow/scripts/simulate.py"]
        measured([*script, "--d", "5", "--s", "2", "--seed", "0", "--out", data])
        script = [sys.executable, "workflow/scripts/fit.py", "--data", data, "--out", out]
        fit = [*script, "--method", method, "--settings", json.dumps(settings)]
        # Once before, for what is compiled once.
        cpu = min([measured(fit) for _ in range(1 + REPEATS)][1:])[0]
    how = f"workflow/scripts/fit.py --method {method}, n = 10000, d = 5, the least of three"
    return [(f"start and end of a fit of {method}", round(cpu, 2), "processor s", how)]


def share_of_fits(results: Path, cores: int) -> list[tuple]:
    """Seconds of fits and of the studies of constraints over all that the run's cores had."""
    jobs, ends, fits, studies = 0.0, [], 0.0, 0.0
    for path in (results / "benchmarks").rglob("*.tsv"):
        with open(path, newline="") as stream:
            seconds = float(next(csv.DictReader(stream, delimiter="\t"))["s"])
        jobs += seconds
        studies += seconds if path.parent.name == "constraints" else 0.0
        ends.append((path.stat().st_mtime - seconds, path.stat().st_mtime))
    for path in (results / "fits").rglob("*.json"):
        record = json.loads(path.read_text())
        fits += record["seconds"] * record["threads"]
    wall = max(end for _, end in ends) - min(start for start, _ in ends)
    how = f"{len(ends)} jobs of {results.name} on {cores} cores"
    return [
        ("run, from its first job's start to its last job's end", round(wall), "wall s", how),
        ("fits, of all jobs' seconds", round(100 * fits / jobs, 1), "%", how),
        ("fits, of the run's core-seconds", round(100 * fits / wall / cores, 1), "%", how),
        (
            "fits and studies of constraints, of the run's core-seconds",
            round(100 * (fits + studies) / wall / cores, 1),
            "%",
            how,
        ),
    ]


def measured(command: list[str]) -> tuple[float, float, float, str]:
    """Processor and wall seconds, peak memory (10^6 bytes) of a command, and what it printed."""
    program = [sys.executable, "-m", *command] if command[0] == "snakemake" else command
    reporter = (
        "import json, resource, subprocess, sys, time; start = time.perf_counter(); "
        "end = subprocess.run(sys.argv[2:]); wall = time.perf_counter() - start; "
        "use = resource.getrusage(resource.RUSAGE_CHILDREN); "
        "json.dump([use.ru_utime + use.ru_stime, wall, use.ru_maxrss * 1024 / 1e6], "
        "open(sys.argv[1], 'w')); sys.exit(end.returncode)"
    )
    with tempfile.NamedTemporaryFile(suffix=".json") as numbers:
        end = subprocess.run(
            [sys.executable, "-c", reporter, numbers.name, *program],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if end.returncode != 0:
            sys.exit(f"orchestration.py: {' '.join(command)}: {end.stdout[-1000:]}")
        return (*json.loads(Path(numbers.name).read_text()), end.stdout)


if __name__ == "__main__":
    main()
