"""Set fits on the replayed data sets beside the authors' logged runs, paired by seed.

    python benchmarks/against_logs.py                 # results/logs_sdcd, logs_baselines, quick
    python benchmarks/against_logs.py results/paper   # or any other results

`benchmarks/against_logs.yaml` says how the runs are made; of a fit that is in several of the
results, the first counts. `docs/benchmarks/against_logs.csv` gets
one row per method, setting and metric: `difference` is ours minus the log's, averaged over the
seeds that have both, `low` and `high` its 95 % interval (Student's t). Where the authors logged no
run of a method but printed a mean, that is what SHD is compared with (`twins` is then 0, the
interval Welch's). `log_sd` is the spread of the logs, or the printed one, between data sets.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from _rows import ROOT, TABLES

from sdcd.experiments.plan import FAMILIES
from sdcd.published import has_twins, published_runs, published_table
from sdcd.runs.table import read_runs, write_csv
from sdcd.statistics import of_sample, welch

TABLE = TABLES / "against_logs.csv"
SETTING = ["method", "d", "s", "fraction", "mechanism"]
METRICS = (
    *("shd", "precision", "recall", "n_edges", "seconds"),
    *("stage1_epochs", "stage1_mask_density", "stage1_mask_recall"),
)


def rows(experiment: str, ours: pd.DataFrame) -> list[dict]:
    """The table's rows for one experiment."""
    if not has_twins(experiment):
        return []
    logs = published_runs(experiment, complete=True)
    printed = published_table(experiment)
    found = []
    for setting, runs in ours.fillna({"mechanism": ""}).groupby(SETTING, sort=False):
        cell = dict(zip(SETTING, setting, strict=True))
        pairs = runs.merge(_cell(logs, cell), on="seed", suffixes=("", "_log"))
        failed = int((runs["status"] != "ok").sum())
        head = {"experiment": experiment, **cell, "runs": len(runs), "failed": failed}
        if pairs.empty:
            found += _beside_printed(head, runs, _cell(printed, cell))
        for metric in METRICS if len(pairs) else ():
            pair = pairs[[metric, f"{metric}_log"]].astype(float).dropna()
            if len(pair):
                found.append({**head, **_paired(metric, *pair.to_numpy().T)})
    return found


def _cell(table, cell):
    same = [table[key].fillna("") == value for key, value in cell.items()]
    return table[np.logical_and.reduce(same)]


def _paired(metric, ours, log):
    difference = of_sample(ours - log)
    return {
        "metric": metric,
        "twins": len(ours),
        "ours": ours.mean(),
        "log": log.mean(),
        "log_sd": of_sample(log).sd,
        **_estimate(difference),
    }


def _beside_printed(head, runs, printed):
    shd = runs["shd"].dropna().to_numpy(float)
    if printed.empty or not len(shd) or np.isnan(printed["mean"].iloc[0]):
        return []
    mean, sd, n = printed[["mean", "sd", "n"]].iloc[0]
    row = {"metric": "shd", "twins": 0, "ours": shd.mean(), "log": mean, "log_sd": sd}
    return [{**head, **row, **_estimate(welch(shd, mean, sd, int(n)))}]


def _estimate(difference):
    low, high = difference.interval()
    return {"difference": difference.value, "low": low, "high": high}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = [ROOT / "results" / scale for scale in ("logs_sdcd", "logs_baselines", "quick")]
    parser.add_argument("results", nargs="*", type=Path, default=default)
    parser.add_argument("--out", type=Path, default=TABLE)
    arguments = parser.parse_args()
    found = []
    for experiment in FAMILIES:
        paths = [results / f"runs/{experiment}.csv" for results in arguments.results]
        if runs := [read_runs(path) for path in paths if path.exists()]:
            found += rows(experiment, pd.concat(runs).drop_duplicates([*SETTING, "seed"]))
    table = pd.DataFrame(found)
    write_csv(arguments.out, table.round(4))
    shown = table[table["metric"].isin(["shd", "seconds"])]
    print(shown.to_string(index=False, float_format="{:.2f}".format))


if __name__ == "__main__":
    main()
