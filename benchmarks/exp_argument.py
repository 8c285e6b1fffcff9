"""Was the paper's SDCD-exp the penalty h_exp(A) or h_exp(A * A)?

    python benchmarks/exp_argument.py --run 1     # first make missing fits for an hour
    python benchmarks/exp_argument.py             # the test, on the fits in reproduction/

Neither the paper nor its logs say. The test, written down before the fits above d = 20 were made:
both are fitted to the data sets of the second ablation. At each d the misfit of an argument is
|log(mean SHD / published SHD)|, on the data sets that both were fitted to, and the statistic is the
misfit of A minus that of A * A, summed over d. Data sets are drawn with replacement within each d.
If the central 95 % of the draws lie below 0, the published row was A; above, A * A; otherwise it
stays open. There are a million draws: with 10,000, a bound was as near to 0 as their own error.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from _rows import ROOT, TABLES

from sdcd.experiments.plan import make_plan
from sdcd.published import published_table
from sdcd.reproduction import ledger
from sdcd.reproduction.run import run
from sdcd.runs.table import write_csv

LEDGER = ROOT / "reproduction"
TABLE = TABLES / "exp_argument.csv"
ARGUMENTS = {"A": {}, "A * A": {"penalty": "exp_squared"}}
"""Settings of SDCD-exp for each argument of h_exp."""
DRAWS = 1_000_000


def main() -> None:
    """Make fits if asked, then test."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=float, default=0.0, metavar="HOURS")
    parser.add_argument("--folder", type=Path, default=LEDGER)
    options = parser.parse_args()
    plans = {argument: _plan(settings) for argument, settings in ARGUMENTS.items()}
    if options.run:
        for plan in plans.values():
            run(plan, options.folder, hours=options.run / 2, only=("SDCD-exp",))
    fits = ledger.read(options.folder)
    table = pd.concat(
        _runs(plan, fits).assign(argument=argument) for argument, plan in plans.items()
    ).pivot(index=["d", "seed"], columns="argument", values="shd")
    table = table.reindex(columns=list(ARGUMENTS)).dropna().astype(float)
    write_csv(TABLE, table, index=True)
    published = published_table("ablation_stage2").query("method == 'SDCD-exp'").set_index("d")
    means = (
        table.groupby("d")
        .mean()
        .assign(data_sets=table.groupby("d").size(), published=published["mean"])
    )
    print(means.round(1).to_string())
    estimate, low, high = misfit_difference(table, published["mean"])
    verdict = "A" if high < 0 else "A * A" if low > 0 else "open"
    print(f"misfit of A minus that of A * A: {estimate:.3f} [{low:.3f}, {high:.3f}]: {verdict}")


def misfit_difference(table: pd.DataFrame, published: pd.Series) -> tuple[float, float, float]:
    """The statistic with the central 95 % of its draws.

    ``table`` has SHD, a row for each (d, seed) and a column for each argument; ``published`` the
    mean SHD by d.
    """
    rng = np.random.default_rng(0)
    total = np.zeros(1 + DRAWS)
    for d, group in table.groupby("d"):
        shds = group[list(ARGUMENTS)].to_numpy()
        drawn = rng.integers(len(shds), size=(DRAWS, len(shds)))
        means = np.concatenate([shds.mean(axis=0)[None], shds[drawn].mean(axis=1)])
        misfit = np.abs(np.log(means / published[d]))
        total += misfit[:, 0] - misfit[:, 1]
    low, high = np.quantile(total[1:], [0.025, 0.975])
    return float(total[0]), float(low), float(high)


def _plan(settings: dict):
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    schema = (ROOT / "workflow/schemas/config.schema.yaml").read_text(encoding="utf-8")
    config["scale"] = "laptop"
    config["method_options"]["SDCD-exp"] = {"settings": settings}
    return make_plan(config, yaml.safe_load(schema))


def _runs(plan, fits: pd.DataFrame) -> pd.DataFrame:
    runs = ledger.table_of(plan.experiments["ablation_stage2"], plan.methods, fits)
    runs = runs[(runs["method"] == "SDCD-exp") & (runs["status"] == "ok")]
    return runs[["d", "seed", "shd"]]


if __name__ == "__main__":
    main()
