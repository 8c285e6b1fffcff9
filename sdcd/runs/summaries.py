"""From runs to cells: means and standard deviations over seeds, and differences by seed.

A *cell* is a setting and a method: the runs that share :data:`CELL` and differ in their seed. Runs
of ours and the published ones have the same columns, so every function here takes either.
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from scipy import stats

from sdcd.errors import InputError

SETTING = ("d", "s", "fraction", "mechanism")
"""What distinguishes one kind of data set from another."""

CELL = ("method", *SETTING)
"""What the runs of one cell share."""

METRICS = (
    *("shd", "shd_cpdag", "aid", "precision", "recall", "f1", "average_precision"),
    *("n_edges", "seconds", "peak_rss_mb"),
)
"""What can be averaged over seeds."""


def tidy(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs with the types that the functions of this module rely on.

    A table of runs read back from CSV has NaN for empty text. Here ``mechanism``, ``reason`` and
    ``shortened`` are text, ``fraction`` is a float (0 where it was missing: no interventions), and
    ``d``, ``s`` and ``seed`` are integers.

    Raises
    ------
    InputError
        If a column is missing, a key is not a number, or a run occurs twice.
    """
    needed = (*CELL, "seed", "status", "reason", "shortened")
    missing = [column for column in needed if column not in runs.columns]
    if missing:
        raise InputError(f"runs: column {missing[0]!r} is missing (found: {', '.join(runs)})")
    runs = runs.reset_index(drop=True).copy()
    for column in ("d", "s", "seed"):
        runs[column] = _numbers(runs, column, "an integer").astype(int)
    runs["fraction"] = runs["fraction"].astype(object).where(runs["fraction"].notna(), 0.0)
    runs["fraction"] = _numbers(runs, "fraction", "a number").astype(float)
    for column in ("mechanism", "reason", "shortened"):
        runs[column] = runs[column].astype(object).where(runs[column].notna(), "").astype(str)
    twice = runs.duplicated([*CELL, "seed"])
    if twice.any():
        first = runs[twice].iloc[0]
        raise InputError(
            f"runs: {first['method']} on d={first['d']}, s={first['s']}, "
            f"fraction={first['fraction']:g}, seed={first['seed']} occurs more than once"
        )
    return runs


def _numbers(runs: pd.DataFrame, column: str, expected: str) -> pd.Series:
    numbers = pd.to_numeric(runs[column], errors="coerce")
    if numbers.isna().any():
        row = int(numbers.isna().idxmax())
        raise InputError(
            f"runs: row {row + 1}, column {column!r} is {runs[column][row]!r}, expected {expected}"
        )
    return numbers


def summarise(runs: pd.DataFrame, metric: str = "shd") -> pd.DataFrame:
    """Mean and standard deviation of a metric over the seeds of each cell.

    Parameters
    ----------
    runs : DataFrame
        Runs, ours or published.
    metric : str, default "shd"
        One of :data:`METRICS`.

    Returns
    -------
    DataFrame
        One row per cell, in order of first appearance of the method, then by setting, with the
        columns :data:`CELL` and

        - ``mean``, ``sd``: over the finished runs; ``sd`` has ddof 1 and is NaN for one run;
        - ``n``: finished runs that have the metric; ``n_runs``: runs tried; ``n_failed``: those
          that did not finish;
        - ``status``: ``ok`` if any run finished, ``unavailable`` if the method could be run nowhere
          (all its runs have that status), else ``failed`` (shown as NA). A cell without runs has
          no row (shown as NT);
        - ``reason``: the reasons of its failed runs, each once;
        - ``shortened``: what was shortened in any of its runs, empty if nothing.
    """
    if metric not in METRICS:
        raise InputError(f"unknown metric {metric!r} (known: {', '.join(METRICS)})")
    runs = tidy(runs)
    if metric not in runs.columns:
        raise InputError(f"runs: column {metric!r} is missing (found: {', '.join(runs)})")
    ok = runs["status"] == "ok"
    runs["_value"] = pd.to_numeric(runs[metric]).astype(float).where(ok)
    runs["_ok"] = ok
    runs["_unavailable"] = runs["status"] == "unavailable"
    runs["_failure"] = runs["reason"].where(~ok, "")
    order = {name: rank for rank, name in enumerate(dict.fromkeys(runs["method"]))}
    cells = (
        runs.groupby(list(CELL), sort=False)
        .agg(
            mean=("_value", "mean"),
            sd=("_value", "std"),
            n=("_value", "count"),
            n_ok=("_ok", "sum"),
            n_runs=("_ok", "size"),
            n_unavailable=("_unavailable", "sum"),
            reason=("_failure", each_once),
            shortened=("shortened", each_once),
        )
        .reset_index()
    )
    cells["status"] = np.select(
        [cells["n_ok"] > 0, cells["n_unavailable"] == cells["n_runs"]],
        ["ok", "unavailable"],
        "failed",
    )
    cells["n_failed"] = cells["n_runs"] - cells["n_ok"]
    cells["_rank"] = cells["method"].map(order)
    cells = cells.sort_values(["_rank", *SETTING], ignore_index=True, kind="stable")
    columns = [*CELL, "mean", "sd", "n", "n_runs", "n_failed", "status", "reason", "shortened"]
    return cells[columns]


def pair_with_published(runs: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """SHD of runs beside that of their published twins: the logged runs of the same cell and seed.

    Returns
    -------
    DataFrame
        One row per pair in which both runs have it: :data:`CELL`, ``seed``, ``ours``,
        ``published``, ``difference`` (ours - published).
    """
    keys = [*CELL, "seed"]
    ours = _finished(runs, "shd").rename(columns={"shd": "ours"})
    theirs = _finished(published, "shd").rename(columns={"shd": "published"})
    pairs = ours[[*keys, "ours"]].merge(theirs[[*keys, "published"]], on=keys)
    pairs["difference"] = pairs["ours"] - pairs["published"]
    return pairs


def pair_methods(runs: pd.DataFrame, first: str, second: str, metric: str = "shd") -> pd.DataFrame:
    """Two methods on the same data sets: one row per data set on which both have the metric.

    Columns are :data:`SETTING`, ``seed``, ``first``, ``second`` and ``difference``, which is
    first - second.
    """
    keys = [*SETTING, "seed"]
    finished = _finished(runs, metric)
    a = finished[finished["method"] == first].rename(columns={metric: "first"})
    b = finished[finished["method"] == second].rename(columns={metric: "second"})
    pairs = a[[*keys, "first"]].merge(b[[*keys, "second"]], on=keys)
    pairs["difference"] = pairs["first"] - pairs["second"]
    return pairs


def paired_differences(runs: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Mean difference in SHD by seed between our runs and their published twins, for each cell.

    Returns
    -------
    DataFrame
        One row per cell with at least one pair: :data:`CELL`, ``n_pairs``, ``difference`` (mean of
        ours - published), ``difference_sd`` (ddof 1), and ``low``, ``high``: the 95 % confidence
        interval of the mean difference from Student's t (NaN for one pair).
    """
    pairs = pair_with_published(runs, published)
    cells = (
        pairs.groupby(list(CELL), sort=False)["difference"]
        .agg(n_pairs="count", difference="mean", difference_sd="std")
        .reset_index()
    )
    half = half_width(cells["difference_sd"].to_numpy(), cells["n_pairs"].to_numpy())
    cells["low"] = cells["difference"] - half
    cells["high"] = cells["difference"] + half
    return cells


def half_width(sd: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Half the width of Student's 95 % confidence interval of a mean; NaN where n < 2."""
    sd, n = np.asarray(sd, dtype=float), np.asarray(n, dtype=float)
    enough = np.where(n > 1, n, np.nan)
    return stats.t.ppf(0.975, enough - 1) * sd / np.sqrt(enough)


def _finished(runs: pd.DataFrame, metric: str) -> pd.DataFrame:
    runs = tidy(runs)
    runs[metric] = pd.to_numeric(runs[metric]).astype(float)
    return runs[(runs["status"] == "ok") & runs[metric].notna()]


def each_once(texts: Iterable[str]) -> str:
    """Texts in their order, each once and none empty, with ``; `` between them."""
    return "; ".join(dict.fromkeys(filter(None, texts)))


def shortened_by_method(table: pd.DataFrame) -> list[str]:
    """What was shortened, as ``SCORE: max_rows = 2,000 instead of 10,000``.

    ``table`` has the columns ``method`` and ``shortened`` (text).
    """
    groups = table[table["shortened"] != ""].groupby("shortened", sort=False)["method"]
    return [f"{', '.join(dict.fromkeys(methods))}: {what}" for what, methods in groups]
