"""Make the table of one study of the acyclicity constraints."""

import argparse
import importlib
import json

import _script
import pandas as pd

from sdcd.experiments.plan import STUDIES
from sdcd.runs.table import write_runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", required=True, choices=STUDIES)
    parser.add_argument("--sizes", type=json.loads, default={}, help="as JSON; else the paper's")
    parser.add_argument("--out", required=True, help="where the .csv goes")
    a = parser.parse_args()

    module, function = STUDIES[a.study]
    records = getattr(importlib.import_module(module), function)(**a.sizes)
    write_runs(a.out, pd.DataFrame(records))


if __name__ == "__main__":
    _script.run(main)
