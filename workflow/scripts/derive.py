"""Make one table from the matrices of an experiment's fits."""

import argparse
import importlib

import _script

from sdcd.experiments.plan import DERIVED, Experiment
from sdcd.runs.table import write_runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", required=True, choices=DERIVED)
    parser.add_argument("--experiment", required=True, help="its grids and methods, as JSON")
    parser.add_argument("--results", required=True, help="folder with data/ and fits/")
    parser.add_argument("--out", required=True, help="where the .csv goes")
    a = parser.parse_args()

    module, function, _ = DERIVED[a.table]
    make = getattr(importlib.import_module(module), function)
    write_runs(a.out, make(Experiment.from_json(a.experiment), a.results))


if __name__ == "__main__":
    _script.run(main, advice=_script.DELETE_IT)
