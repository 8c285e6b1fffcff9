"""What SDCD loses when it is run otherwise than as published.

    python benchmarks/off_settings.py            # all fits: about 15 minutes on a core
    python benchmarks/off_settings.py --page     # none: the table of docs/rivals.md again

The paper's data sets, replayed, each fitted as published and with one thing changed, or all of
them. Rows are drawn from the values before standardisation, and standardised after that, as a
person does who is given them. One row per fit goes to `docs/benchmarks/off_settings.csv` as soon
as it is there; those that have their row are passed over. Seconds are the processor's.
"""

import argparse
import time
from itertools import product

import numpy as np
import pandas as pd
from _page import markdown, write_tables
from _rows import ROOT, TABLES, read_rows, write_rows

from sdcd.estimator import SDCD
from sdcd.fits.child import preload
from sdcd.methods.registry import method
from sdcd.metrics import score
from sdcd.runs.summaries import half_width
from sdcd.simulation import simulate

TABLE = TABLES / "off_settings.csv"
PAGE = ROOT / "docs" / "rivals.md"
DATA = (("observational", 20), ("observational", 30), ("interventional", 20))
"""Kinds of data, with s = 4; interventional: on every variable."""
SEEDS = range(5)
WAYS = {
    "as published": {},
    "threshold 0.5": {"tau_2": 0.5},
    "not standardised": {"standardise": False},
    "1,000 rows": {"rows": 1000},
    "all rows drawn with replacement": {"resample": True},
    "1,000 rows, drawn with replacement to as many as published": {"rows": 1000, "resample": True},
    "1,000 rows, threshold 0.5": {"rows": 1000, "tau_2": 0.5},
    "all of these": {"rows": 1000, "resample": True, "tau_2": 0.5, "standardise": False},
}
"""What is changed, in words and as arguments of :func:`drawn` and the setting ``tau_2``."""
METRICS = ("shd", "precision", "recall", "n_edges", "average_precision")
COLUMNS = (*("way", "family", "d", "s", "seed", "n"), *METRICS, *("shd_cut_at_half", "seconds"))


def drawn(
    values: np.ndarray,
    random: np.random.Generator,
    *,
    rows: int | None = None,
    resample: bool = False,
    standardise: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """The rows that a person has: float32 values, and which rows of ``values`` (n, d) they are.

    ``rows`` of them without replacement, all by default; with ``resample``, as many as ``values``
    has, drawn from these with replacement; then standardised as the paper's data are.
    """
    n = len(values)
    chosen = np.arange(n) if rows is None else np.sort(random.choice(n, rows, replace=False))
    if resample:
        chosen = random.choice(chosen, n)
    X = values[chosen]
    if standardise:
        mean, sd = X.mean(axis=0, dtype=np.float64), X.std(axis=0, ddof=1, dtype=np.float64)
        X = ((X.astype(np.float64) - mean) / sd).astype(np.float32)
    return X, chosen


def run(way: str, family: str, d: int, seed: int) -> dict:
    """One row of the table."""
    options = dict(WAYS[way])
    settings = {"tau_2": options.pop("tau_2")} if "tau_2" in options else {}
    fraction = 1.0 if family == "interventional" else None
    data = simulate(d, 4, seed, fraction=fraction, standardise=False)
    X, chosen = drawn(data.X, np.random.default_rng(seed), **options)
    start = time.process_time()
    model = SDCD(seed=0, **settings).fit(X, data.intervened[chosen])
    seconds = time.process_time() - start
    row = {"way": way, "family": family, "d": d, "s": 4, "seed": seed, "n": len(X)}
    scores = score(model.adjacency_, model.weights_, data.adjacency)
    row |= {name: scores[name] for name in METRICS} | {"seconds": round(seconds, 2)}
    # What was learned as published, cut elsewhere after that.
    cut = model.adjacency_ * (model.weights_ >= 0.5)
    row["shd_cut_at_half"] = score(cut, None, data.adjacency)["shd"]
    return row


def main() -> None:
    """Make the fits that are missing, then the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    rows = read_rows(TABLE)
    done = {(row["way"], row["family"], int(row["d"]), int(row["seed"])) for row in rows}
    if not options.page:
        preload(method("SDCD"))
        for seed, (family, d), way in product(SEEDS, DATA, WAYS):
            if (way, family, d, seed) not in done:
                rows.append(run(way, family, d, seed))
                write_rows(TABLE, rows, COLUMNS)
                print(rows[-1], flush=True)
    write_tables(PAGE, {"off its settings": table_of(pd.read_csv(TABLE))})


def table_of(table: pd.DataFrame) -> list[str]:
    """Mean SHD of each way, its difference by data set to that as published, and the edges.

    Of each kind the data sets count that were fitted in every way; of fewer than three there is no
    interval.
    """
    ways = table.groupby(["family", "d", "seed"])["way"].transform("nunique")
    table = table[ways == len(WAYS)]
    seeds = table.groupby(["family", "d"])["seed"].nunique()
    kinds = [f"{family}, d = {d} (n = {seeds.get((family, d), 0)})" for family, d in DATA]
    found = []
    for way in WAYS:
        cells = [way]
        for family, d in DATA:
            rows = table[(table["family"] == family) & (table["d"] == d)].set_index("seed")
            own, base = (rows[rows["way"] == name] for name in (way, "as published"))
            text = f"{own['shd'].mean():.1f}"
            if way != "as published":
                change = own["shd"] - base["shd"]
                half = float(half_width(change.std(), change.count()))
                low, high = change.mean() - half, change.mean() + half
                text += f" ({change.mean():+.1f}"
                text += ")" if len(change) < 3 else f", {low:.1f} to {high:.1f})"
            cells += [text, f"{own['n_edges'].mean():.0f}"]
        found.append(cells)
    return markdown(["SDCD run with", *(text for kind in kinds for text in (kind, "edges"))], found)


if __name__ == "__main__":
    main()
