"""Judge every cell of the paper's tables and every claim of its text by our runs."""

import argparse
from pathlib import Path

import _script

from sdcd.runs.table import read_runs
from sdcd.verdicts import judge, write


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="where the .csv goes")
    parser.add_argument("runs", nargs="*", help="tables of runs, .csv, called as the experiments")
    a = parser.parse_args()

    runs = {Path(path).stem: read_runs(path) for path in a.runs}
    write(judge(runs), a.out)


if __name__ == "__main__":
    _script.run(main, advice=_script.DELETE_IT)
