"""Measure how much of the causal order sorting gives away, in data sets given by their names."""

import argparse
import itertools

import _script

from sdcd.experiments.datasets import from_short
from sdcd.runs.sortability import collect_sortability
from sdcd.runs.table import write_runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", required=True, type=from_short, help="names")
    parser.add_argument("--n-observational", type=int, default=10_000, help="rows")
    parser.add_argument("--n-per-intervention", type=int, default=500, help="rows")
    parser.add_argument("--out", required=True, help="where the .csv goes")
    a = parser.parse_args()

    table = collect_sortability(
        itertools.chain(*a.datasets),
        n_observational=a.n_observational,
        n_per_intervention=a.n_per_intervention,
    )
    write_runs(a.out, table)


if __name__ == "__main__":
    _script.run(main)
