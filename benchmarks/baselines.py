"""Milliseconds per step of DAGMA and NOBEARS before and after they were compiled.

    python benchmarks/baselines.py [--before 2d01ea2] [--core 0] [--rows DAGMA:10 NOBEARS:20 ...]

"Before" is the package as it was in that commit, where DAGMA was the package ``dagma`` (which has
to be installed: ``pip install 'sdcd[test]'``) and NOBEARS was torch. Before and after take turns,
each in a process of its own, on one core with one thread; seconds are processor time. Of a fit
with a given number of steps, that of a fit with one step is taken off, so that reading, compiling
and starting do not count. Data: the paper's, 10,000 rows, s = 4, seed 0. Rows are written to
`docs/benchmarks/baselines.csv` as they come.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from _rows import ROOT, TABLES, package_of, processor, put_row, single_threaded

TABLE = TABLES / "baselines.csv"
PUBLISHED_STEPS = {"DAGMA": 230_000, "NOBEARS": 20_200}
ROWS = ("DAGMA:10", "DAGMA:20", "DAGMA:50", "NOBEARS:10", "NOBEARS:20", "NOBEARS:50",
        "NOBEARS:100", "NOBEARS:500")  # fmt: skip
WORKER = """
import json, sys, time
from sdcd.methods.registry import method
from sdcd.simulation.paper import simulate

name, d, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
X = simulate(d, 4, 0).X
chosen = method(name)

def seconds(steps):
    if name == "DAGMA":
        settings = {"stages": 1, "last_iterations": steps}
    else:
        settings = {"initial_steps": 0, "rounds": 1, "steps_per_round": steps}
    start = time.process_time()
    chosen.fit(X, None, None, 0, **chosen.parameters(settings))
    return time.process_time() - start

seconds(1)
print(1000 * (seconds(steps + 1) - seconds(1)) / steps)
"""


def milliseconds(tree: Path, name: str, d: int, steps: int, core: int) -> float:
    """Per step, of the package in ``tree``."""
    done = subprocess.run(
        [sys.executable, "-c", WORKER, name, str(d), str(steps)],
        check=True,
        env={**single_threaded(), "PYTHONPATH": str(tree)},
        cwd=tree,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--before", default="2d01ea2", help="a commit")
    parser.add_argument("--core", type=int, default=min(os.sched_getaffinity(0)))
    parser.add_argument("--rows", nargs="+", default=ROWS, metavar="METHOD:d")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        package_of(arguments.before, Path(folder))
        for row in arguments.rows:
            name, d = row.split(":")
            steps = max(4, 1000 // int(d))
            turns = ((Path(folder), steps), (ROOT, (10 if steps > 4 else 1) * steps)) * 2
            times = [milliseconds(tree, name, int(d), k, arguments.core) for tree, k in turns]
            before, after = (times[0] + times[2]) / 2, (times[1] + times[3]) / 2
            count = PUBLISHED_STEPS[name]
            names = ("before_ms", "after_ms", "before_ms_again", "after_ms_again")
            found = {
                "method": name, "d": d, "n": 10_000,
                **dict(zip(names, (f"{t:.4g}" for t in times), strict=True)),
                "ratio": f"{before / after:.1f}", "published_steps": count,
                "before_hours": f"{before * count / 3.6e6:.3g}",
                "after_hours": f"{after * count / 3.6e6:.3g}", "processor": processor(),
            }  # fmt: skip
            put_row(TABLE, found, ("method", "d"), lambda row: (row["method"], int(row["d"])))


if __name__ == "__main__":
    main()
