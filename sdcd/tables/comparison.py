"""The cells of a table: ours, the published, and their difference by seed."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from sdcd import published
from sdcd.runs import summaries

COLUMNS = (
    *summaries.CELL,
    *("mean", "sd", "n", "status", "reason", "shortened"),
    *("published_mean", "published_sd", "published_n", "published_status", "decimals"),
    *("difference", "low", "high", "n_pairs"),
)
"""Columns of a table of cells; see :func:`compare`."""


def compare(
    runs: pd.DataFrame, experiment: str, settings: Sequence[str] = summaries.SETTING
) -> pd.DataFrame:
    """SHD of every cell that either we or the paper have.

    Parameters
    ----------
    runs : DataFrame
        Runs of ours of the experiment (none is allowed).
    experiment : str
        One of :data:`sdcd.published.EXPERIMENTS`.
    settings : sequence of str
        Columns that order the rows.

    Returns
    -------
    DataFrame
        Columns :data:`COLUMNS`, the paper's methods first and in its order, then ours. ``mean``,
        ``sd``, ``n``, ``status``, ``reason`` and ``shortened`` are of our runs as
        :func:`sdcd.runs.summaries.summarise` gives them, with status ``not_run`` where there are
        none.
        ``published_*`` are the paper's (status ``absent`` where its table has no such cell), and
        ``difference``, ``low``, ``high``, ``n_pairs`` the mean of ours - published over the seeds
        that both have, with its 95 % confidence interval.
    """
    cell = list(summaries.CELL)
    ours = summaries.summarise(runs)
    renamed = {name: f"published_{name}" for name in ("mean", "sd", "n", "status")}
    theirs = published.published_table(experiment).rename(columns=renamed)
    cells = theirs.merge(ours, on=cell, how="outer")
    cells["status"] = cells["status"].fillna("not_run")
    cells["published_status"] = cells["published_status"].fillna("absent")
    cells["decimals"] = cells["decimals"].fillna(1).astype(int)
    cells["n"] = cells["n"].fillna(0).astype(int)
    for column in ("reason", "shortened"):
        cells[column] = cells[column].fillna("")
    if published.has_twins(experiment):
        differences = summaries.paired_differences(runs, published.published_runs(experiment))
        cells = cells.merge(differences, on=cell, how="left")
        cells["n_pairs"] = cells["n_pairs"].fillna(0).astype(int)
    else:
        cells = cells.assign(difference=np.nan, low=np.nan, high=np.nan, n_pairs=0)
    rank = {name: i for i, name in enumerate(dict.fromkeys([*theirs["method"], *ours["method"]]))}
    cells["_rank"] = cells["method"].map(rank)
    return cells.sort_values(["_rank", *settings], ignore_index=True)[list(COLUMNS)]


def ours_text(row: pd.Series) -> str:
    """Our entry of a cell: ``14.7 ± 5.5 (5)``, with a star if shortened; NA; not run; empty."""
    words = {"not_run": "", "failed": "NA", "unavailable": "not run"}
    if row["status"] in words:
        return words[row["status"]]
    star = "*" if row["shortened"] else ""
    return f"{_mean_and_sd(row['mean'], row['sd'], row['decimals'])} ({row['n']}){star}"


def published_text(row: pd.Series) -> str:
    """The paper's entry of a cell, as printed: mean ± sd, NA or NT; empty where it has none."""
    words = {"absent": "", "failed": "NA", "not_tested": "NT"}
    if row["published_status"] in words:
        return words[row["published_status"]]
    return _mean_and_sd(row["published_mean"], row["published_sd"], row["decimals"])


def _mean_and_sd(mean: float, sd: float, decimals: int) -> str:
    return f"{mean:.{decimals}f}" + ("" if np.isnan(sd) else f" ± {sd:.{decimals}f}")


def difference_text(row: pd.Series) -> str:
    """Mean difference by seed and the number of pairs; empty where no twin exists."""
    return f"{signed(row['difference'], 1)} ({row['n_pairs']})" if row["n_pairs"] else ""


def interval_text(row: pd.Series) -> str:
    """95 % confidence interval of the mean difference by seed; empty for fewer than two pairs."""
    if row["n_pairs"] < 2:
        return ""
    return f"[{signed(row['low'], 1)}, {signed(row['high'], 1)}]"


def signed(value: float, digits: int) -> str:
    """A number with its sign, but for zero."""
    text = f"{value:+.{digits}f}".replace("-", "−")
    return text if text.strip("+−0.") else text[1:]
