"""Compare all fits of a person's own table: a page, and the numbers on it as tables."""

import argparse
import json
from pathlib import Path

import _script

from sdcd.report.own_page import write


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", required=True, type=json.loads, help="what was run, as JSON")
    parser.add_argument("--results", required=True, help="folder with data/ and fits/")
    parser.add_argument("--out", required=True, help="where the page goes; tables beside it")
    a = parser.parse_args()

    write(a.study, Path(a.results), Path(a.out))


if __name__ == "__main__":
    _script.run(main, advice=_script.DELETE_IT)
