"""Who leads on each kind of data set, and who cannot be told from the leader."""

import numpy as np
import pandas as pd

from sdcd.runs.summaries import SETTING, each_once, half_width, pair_methods, tidy

MEANS = ("shd", "shd_cpdag", "aid", "average_precision", "seconds")
"""What is averaged beside the ranks."""

COLUMNS = (
    *(*SETTING, "method", "n_datasets", "n", "n_failed", *MEANS, "rank", "rank_low", "rank_high"),
    *("shortened", "behind", "behind_low", "behind_high", "first", "leads"),
)
"""Columns of :func:`standings`."""


def standings(runs: pd.DataFrame) -> pd.DataFrame:
    """Every method's rank on each kind of data set, and how far it is behind the first.

    On each data set the methods that were run on it are ranked by SHD, the lowest first,
    equals sharing the mean of their ranks; a failed fit is behind all that finished. First is the
    method with the lowest mean rank of those that finished the most data sets, unless one that
    never failed is ahead of it: on three data sets or more that both finished, the 95 % interval of
    the mean difference of the two (Student's t, paired) lies below 0. A method leads with the first
    if its interval does not lie above 0. With fewer than two data sets there is no interval, and
    nobody leads.

    Parameters
    ----------
    runs : DataFrame
        Runs of one experiment.

    Returns
    -------
    DataFrame
        One row for each kind of data set and method, in order of the rank, those on a single data
        set last; columns :data:`COLUMNS`: ``n`` is the number of data sets that the method finished
        of ``n_datasets``, ``n_failed`` on how many it failed, the means :data:`MEANS` are over
        those it finished (NaN where the method has none), ``rank_low`` and ``rank_high``
        the 95 % interval of the mean ``rank``, within the ranks that there are, ``behind`` the
        mean difference to the ``first`` with its interval.
    """
    runs = tidy(runs)
    for column in MEANS:
        runs[column] = pd.to_numeric(runs[column]).astype(float).where(runs["status"] == "ok")
    per_dataset = runs.groupby([*SETTING, "seed"])["shd"]
    runs["_rank"] = per_dataset.rank(method="average", na_option="bottom")
    found = []
    for setting, cell in runs.groupby(list(SETTING), sort=True):
        rows = []
        for method, of_method in cell.groupby("method", sort=False):
            n = len(of_method)
            rank = of_method["_rank"].mean()
            half = float(half_width(of_method["_rank"].std(), n))
            rows.append(
                {
                    **dict(zip(SETTING, setting, strict=True)),
                    "method": method,
                    "n_datasets": cell["seed"].nunique(),
                    "n": int(of_method["shd"].count()),
                    "n_failed": int((of_method["status"] != "ok").sum()),
                    **of_method[list(MEANS)].mean().to_dict(),
                    "rank": rank,
                    "rank_low": np.clip(rank - half, 1, cell["method"].nunique()),
                    "rank_high": np.clip(rank + half, 1, cell["method"].nunique()),
                    "shortened": each_once(of_method["shortened"]),
                }
            )
        table = pd.DataFrame(rows)
        table["_single"] = (table["n"] < 2) & (table["n_datasets"] > 1)
        table = table.sort_values(["_single", "rank", "method"], ignore_index=True)
        found.append(_behind_the_first(table.drop(columns="_single"), cell))
    if not found:
        return pd.DataFrame(columns=list(COLUMNS))
    return pd.concat(found, ignore_index=True)


def _behind_the_first(table: pd.DataFrame, cell: pd.DataFrame) -> pd.DataFrame:
    cell, table = cell.drop(columns="_rank"), table.set_index("method")
    first, before = table["n"].idxmax(), []
    while True:
        behind = _behind(table.index, cell, first)
        before.append(first)
        # Ranks of methods that were run on other data sets do not compare; differences do.
        may = (table["n_failed"] == 0) & (behind["_pairs"] > 2) & ~table.index.isin(before)
        ahead = behind["behind_high"][may]
        if not (ahead < 0).any():
            break
        first = ahead.idxmin()
    table = table.join(behind).reset_index()
    table["first"] = table["method"] == first
    table["leads"] = table["behind_low"] <= 0
    return table[list(COLUMNS)]


def _behind(methods: pd.Index, cell: pd.DataFrame, first: str) -> pd.DataFrame:
    rows = []
    for method in methods:
        pairs = pair_methods(cell, method, first)["difference"]
        half = float(half_width(pairs.std(), len(pairs)))
        rows.append((pairs.mean(), pairs.mean() - half, pairs.mean() + half, len(pairs)))
    return pd.DataFrame(rows, methods, ["behind", "behind_low", "behind_high", "_pairs"])
