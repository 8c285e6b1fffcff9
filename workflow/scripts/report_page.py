"""Write the report, one page that needs no other file, from a folder of results."""

import argparse
import json
from pathlib import Path

import _script

from sdcd.files import atomic_path, write_json
from sdcd.report.inputs import compared_runs, read_tables
from sdcd.report.overview import failures
from sdcd.report.page import page
from sdcd.runs.table import write_csv


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", required=True, type=json.loads, help="what was run, as JSON")
    parser.add_argument("--out", required=True, help="where the page goes; plan.json beside it")
    parser.add_argument("--failures", required=True, help="where the failures go, .csv")
    a = parser.parse_args()

    results = Path(a.out).parent
    write_json(results / "plan.json", a.plan)
    write_csv(a.failures, failures(compared_runs(read_tables(results, a.plan))))
    text = page(results)
    with atomic_path(a.out) as temporary:
        temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    _script.run(main)
