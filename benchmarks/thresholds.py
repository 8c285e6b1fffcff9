"""Write the tables of docs/thresholds.md from the tables of thresholds of a run.

    python benchmarks/thresholds.py --results results/quick

`runs/thresholds_observational.csv` and `runs/thresholds_interventional.csv`, which the workflow
makes, go between the page's markers; a table whose runs are not there stays as it is.
"""

import argparse
from itertools import groupby
from pathlib import Path

import pandas as pd
from _page import markdown, write_tables
from _rows import ROOT

from sdcd.runs.table import read_runs
from sdcd.tables.thresholds import layout, summarise

PAGE = ROOT / "docs" / "thresholds.md"
KINDS = ("observational", "interventional")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "quick")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    found = {kind: options.results / "runs" / f"thresholds_{kind}.csv" for kind in KINDS}
    found = {kind: path for kind, path in found.items() if path.exists()}
    if not found:
        raise SystemExit(f"{options.results}/runs: no thresholds_*.csv")
    scale = f"Scale {options.results.resolve().name}."
    tables = {kind: [scale, "", *markdown_tables(read_runs(path))] for kind, path in found.items()}
    write_tables(options.page, tables)


def markdown_tables(table: pd.DataFrame) -> list[str]:
    """A table of thresholds as one Markdown table for each kind of data, and what was shortened."""
    shown = layout(summarise(table), "")
    rows = []
    for index, ((where, method), entries) in enumerate(shown.rows):
        texts = [entry[""].replace("*", r"\*") for entry in entries]
        texts = [f"**{t}**" if (index, k) in shown.best else t for k, t in enumerate(texts)]
        rows.append((where, [method, *texts]))
    lines = []
    for where, part in groupby(rows, lambda row: row[0]):
        lines += ["", *markdown([where, *shown.columns], [cells for _, cells in part])]
    starred = [note.replace("*", r"\*", 1) for note in shown.notes if note.startswith("*")]
    return [*lines[1:], *(line for note in starred for line in ("", note))]


if __name__ == "__main__":
    main()
