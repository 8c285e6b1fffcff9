"""Verdicts by the rules of an earlier commit and by those of today, on the same runs.

    python benchmarks/verdicts_before_after.py                  # the published logs
    python benchmarks/verdicts_before_after.py results/quick    # and the runs of a scale

The runs are the authors' logs in place of ours, the same with every run of one method failed, for
each method in turn, and the tables ``runs/*.csv`` of the folders that are named. The earlier rules
are those of ``--before``, taken from git. `docs/benchmarks/verdicts_before_after.csv` gets one row
for each claim, and for each cell whose verdict changes; of the runs in which a method was made to
fail only what changes.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from _rows import ROOT, TABLES, package_of

from sdcd.published import EXPERIMENTS, published_runs
from sdcd.runs.table import RUN_COLUMNS, read_runs, write_csv, write_runs

TABLE = TABLES / "verdicts_before_after.csv"
BEFORE = "2d01ea2"
"""The last commit with the earlier rules."""

JUDGE = """
import sys
from pathlib import Path
from sdcd.runs.table import read_runs
from sdcd.verdicts import judge

for folder in map(Path, sys.argv[1:]):
    runs = {path.stem: read_runs(path) for path in sorted(folder.glob("*.csv"))}
    judge(runs).to_csv(folder / "verdicts.out", index=False)
"""

VALUES = [
    column
    for column in RUN_COLUMNS[RUN_COLUMNS.index("shd") :]
    if column not in ("seconds", "peak_rss_mb")
]


def sets_of_runs(results):
    """Tables of runs by what they are called: the logs, those with a failing method, results."""
    logs = {name: published_runs(name) for name in EXPERIMENTS}
    found = {"logs": logs}
    methods = dict.fromkeys(name for table in logs.values() for name in table["method"])
    for method in methods:
        found[f"logs, {method} failed"] = {
            name: _failing(table, method) for name, table in logs.items()
        }
    for folder in results:
        tables = {path.stem: read_runs(path) for path in sorted((folder / "runs").glob("*.csv"))}
        found[folder.name] = {
            name: table
            for name, table in tables.items()
            if name in (*EXPERIMENTS, "optimisation_behaviours", "constraint_costs")
        }
    return found


def _failing(table, method):
    table = table.copy()
    chosen = table["method"] == method
    table[VALUES] = table[VALUES].astype(object)
    table.loc[chosen, VALUES] = np.nan
    table.loc[chosen, ["status", "reason"]] = ["timeout", "made to fail"]
    return table


def judged_by(package, folders):
    """Every folder's runs judged by the package in a folder, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(package)}
    command = [sys.executable, "-P", "-c", JUDGE, *folders]
    subprocess.run(command, env=environment, check=True)
    paths = (folder / "verdicts.out" for folder in folders)
    return [pd.read_csv(path, keep_default_na=False).set_index("id") for path in paths]


def compared(name, before, after):
    """The rows of one set of runs."""
    after = after.reindex(before.index)
    table = pd.DataFrame(
        {
            "runs": name,
            "kind": after["kind"],
            "id": after.index,
            "before": before["verdict"],
            "after": after["verdict"],
            "note": after["note"],
        }
    )
    changed = table["before"] != table["after"]
    real = "failed" not in name
    return table[changed | (real & (table["kind"] == "claim"))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="*", type=Path, help="folders of results")
    parser.add_argument("--before", default=BEFORE, help="commit with the earlier rules")
    parser.add_argument("--out", type=Path, default=TABLE)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        package_of(arguments.before, folder / "earlier")
        sets = sets_of_runs(arguments.results)
        folders = []
        for number, tables in enumerate(sets.values()):
            folders.append(folder / str(number))
            folders[-1].mkdir()
            for name, table in tables.items():
                write_runs(folders[-1] / f"{name}.csv", table)
        before = judged_by(folder / "earlier", folders)
        after = judged_by(ROOT, folders)
    rows = [compared(*each) for each in zip(sets, before, after, strict=True)]
    table = pd.concat(rows, ignore_index=True)
    write_csv(arguments.out, table)
    changed = table[table["before"] != table["after"]]
    counts = changed.groupby(["runs", "kind", "before", "after"], sort=False).size()
    print(counts.rename("count").reset_index().to_string(index=False))


if __name__ == "__main__":
    main()
