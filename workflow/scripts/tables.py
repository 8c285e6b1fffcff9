"""Make one table of the paper from its tables of runs, as CSV, LaTeX and HTML."""

import argparse
import importlib
from pathlib import Path

import _script

from sdcd.runs.table import read_runs


def main() -> None:
    """Read the arguments, build, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", required=True, help="a module of sdcd.tables")
    parser.add_argument(
        "--out", required=True, help="where the .csv goes; .tex and .html beside it"
    )
    parser.add_argument("runs", nargs="*", help="tables of runs, .csv, as the table takes them")
    a = parser.parse_args()

    module = importlib.import_module(f"sdcd.tables.{a.table}")
    module.write(module.build(*map(read_runs, a.runs)), Path(a.out).with_suffix(""))


if __name__ == "__main__":
    _script.run(main, advice=_script.DELETE_IT)
