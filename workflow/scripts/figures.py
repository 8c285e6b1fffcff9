"""Draw one figure of the paper from its tables of runs, as PNG and PDF."""

import argparse
import importlib
from pathlib import Path

import _script

from sdcd.figures import style
from sdcd.runs.table import read_runs


def main() -> None:
    """Read the arguments, draw, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figure", required=True, help="a module of sdcd.figures")
    parser.add_argument("--out", required=True, help="where the .png goes; .pdf beside it")
    parser.add_argument("runs", nargs="*", help="tables of runs, .csv, as the figure takes them")
    a = parser.parse_args()

    module = importlib.import_module(f"sdcd.figures.{a.figure}")
    figure = module.draw(*map(read_runs, a.runs))
    style.save(figure, Path(a.out).with_suffix(""))


if __name__ == "__main__":
    _script.run(main, advice=_script.DELETE_IT)
