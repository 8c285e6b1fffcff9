"""Make one table of the paper from its tables of runs, as CSV and LaTeX."""

import argparse
import importlib
import json
from pathlib import Path

import _script

from sdcd.runs.table import read_runs
from sdcd.tables import layout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--module", required=True, help="a module with a function make")
    parser.add_argument("--options", type=json.loads, default={}, help="its arguments, as JSON")
    parser.add_argument("--out", required=True, help="where the .csv goes; .tex beside it")
    parser.add_argument("runs", nargs="*", help="tables of runs, .csv, as the table takes them")
    a = parser.parse_args()

    make = importlib.import_module(a.module).make
    layout.write(*make(*map(read_runs, a.runs), **a.options), Path(a.out).with_suffix(""))


if __name__ == "__main__":
    _script.run(main, advice=_script.DELETE_IT)
