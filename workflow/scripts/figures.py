"""Draw one figure of the paper from its tables of runs, as PNG and PDF."""

import argparse
import importlib

import _script
import pandas as pd

from sdcd.figures import style


def main() -> None:
    """Read the arguments, draw, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figure", required=True, help="a module of sdcd.figures")
    parser.add_argument("--out", required=True, help="path without .png and .pdf")
    parser.add_argument("runs", nargs="*", help="tables of runs, .csv, as the figure takes them")
    a = parser.parse_args()

    module = importlib.import_module(f"sdcd.figures.{a.figure}")
    figure = module.draw(*map(pd.read_csv, a.runs))
    style.save(figure, a.out)


if __name__ == "__main__":
    _script.run(main)
