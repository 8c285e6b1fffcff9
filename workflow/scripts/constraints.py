"""Evaluate the acyclicity constraints on growing weights and on growing graphs."""

import argparse

import _script
import pandas as pd

from sdcd.asymptotics import constraint_asymptotics
from sdcd.files import atomic_path


def main() -> None:
    """Read the arguments, evaluate, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-d", type=int, default=1000, help="largest number of variables")
    parser.add_argument("--draws", type=int, default=10, help="matrices of noise at each point")
    parser.add_argument("--out", required=True, help="where the .csv goes")
    a = parser.parse_args()

    records = constraint_asymptotics(max_d=a.max_d, draws=a.draws)
    with atomic_path(a.out) as temporary:
        pd.DataFrame(records).to_csv(temporary, index=False, lineterminator="\n")


if __name__ == "__main__":
    _script.run(main)
