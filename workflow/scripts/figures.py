"""Draw one figure of the paper from its tables of runs, as PNG and PDF."""

import argparse
import importlib
import json
from pathlib import Path

import _script

from sdcd.figures import style
from sdcd.runs.table import read_runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--module", required=True, help="a module with a function draw")
    parser.add_argument("--options", type=json.loads, default={}, help="its arguments, as JSON")
    parser.add_argument("--out", required=True, help="where the .png goes; .pdf beside it")
    parser.add_argument("runs", nargs="*", help="tables of runs, .csv, as the figure takes them")
    a = parser.parse_args()

    draw = importlib.import_module(a.module).draw
    style.save(draw(*map(read_runs, a.runs), **a.options), Path(a.out).with_suffix(""))


if __name__ == "__main__":
    _script.run(main, advice=_script.DELETE_IT)
