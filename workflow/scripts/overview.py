"""Write the page that says what was run, at which cost, and what failed."""

import argparse

import _script
import pandas as pd

from sdcd.files import atomic_path
from sdcd.report.overview import failures, page
from sdcd.runs.table import read_runs


def main() -> None:
    """Read the arguments, summarise, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", required=True, help="name of the scale")
    parser.add_argument("--out", required=True, help="where the page goes, .html")
    parser.add_argument("--failures", required=True, help="where the table of failures goes, .csv")
    parser.add_argument("runs", nargs="+", help="tables of runs, .csv")
    a = parser.parse_args()

    tables = [read_runs(path) for path in a.runs]
    with atomic_path(a.failures) as temporary:
        failures(pd.concat(tables)).to_csv(temporary, index=False, lineterminator="\n")
    with atomic_path(a.out) as temporary:
        temporary.write_text(page(tables, a.scale), encoding="utf-8")


if __name__ == "__main__":
    _script.run(main, advice=_script.DELETE_IT)
