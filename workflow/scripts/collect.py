"""Collect an experiment's fits into a table of runs, one row per fit, scored against the truth."""

import argparse

import _script

from sdcd.experiments.plan import Experiment
from sdcd.runs.collect import collect
from sdcd.runs.table import write_runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiment", required=True, help="its grids and methods, as JSON")
    parser.add_argument("--results", required=True, help="folder with data/ and fits/")
    parser.add_argument("--out", required=True, help="where the .csv goes")
    a = parser.parse_args()

    runs = collect(Experiment.from_json(a.experiment), a.results)
    write_runs(a.out, runs)


if __name__ == "__main__":
    _script.run(main, advice=_script.DELETE_IT)
