"""Whether data can be won by sorting: sortability of each kind of data set. Not in the paper."""

import math

import pandas as pd

from sdcd.tables.layout import Layout

KIND = ("family", "mechanism", "d", "s")
"""What data sets of one kind share."""

QUANTITIES = {
    "var_sortability": "by variance, before standardisation",
    "r2_sortability": "by R² given all others",
}
"""What is sorted by: column and heading."""

FAMILIES = {"observational": "observational", "interventional": "interventional", "dcdi": "DCDI"}
"""Families of data sets as the table calls them."""

NOTES = (
    "Mean over data sets, and in brackets the lowest and the highest. Rows without interventions.",
    "Variance: what a method would see of data that were not standardised; all data here are "
    "standardised. R² of a variable, the share of its variance that the best linear predictor from "
    "all others explains, is the same before and after.",
    "Each pair of variables counts once for each length of the paths from one to the other. Far "
    "from 0.5, in either direction, the data are not neutral: a method can win, or lose, by how it "
    "sorts.",
)


def make(table: pd.DataFrame, *, caption: str) -> tuple[pd.DataFrame, Layout]:
    """Means over data sets, as numbers (:func:`summarise`) and as printed (:func:`layout`)."""
    cells = summarise(table)
    return cells, layout(cells, caption)


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Mean, lowest and highest sortability of each kind of data set.

    Parameters
    ----------
    table : DataFrame
        Columns ``sdcd.runs.sortability.COLUMNS``.

    Returns
    -------
    DataFrame
        One row for each :data:`KIND`: observational, interventional, DCDI's, then by mechanism, d
        and s; ``n_datasets``, and for each of :data:`QUANTITIES` its mean, ``{name}_low`` and
        ``{name}_high``.
    """
    table = table.assign(mechanism=table["mechanism"].fillna("").astype(str))
    groups = table.groupby(list(KIND))
    cells = groups.size().rename("n_datasets").to_frame()
    for name in QUANTITIES:
        values = groups[name]
        cells[name], cells[f"{name}_low"] = values.mean(), values.min()
        cells[f"{name}_high"] = values.max()
    cells = cells.reset_index()
    order = cells["family"].map(list(FAMILIES).index)
    return cells.iloc[order.argsort(kind="stable")].reset_index(drop=True)


def layout(cells: pd.DataFrame, caption: str) -> Layout:
    """What :func:`summarise` returns, a row for each kind of data set."""
    rows = []
    for row in cells.to_dict("records"):
        kind = " ".join(filter(None, [FAMILIES[row["family"]], row["mechanism"]]))
        texts = [str(row["n_datasets"]), *(_with_range(row, name) for name in QUANTITIES)]
        keys = (f"{kind}, d = {row['d']}, s = {row['s']}",)
        rows.append((keys, [{"": text} for text in texts]))
    return Layout(caption, ["data"], ["data sets", *QUANTITIES.values()], rows, list(NOTES))


def _with_range(row, name: str) -> str:
    if math.isnan(row[name]):
        return "–"
    if row["n_datasets"] == 1:
        return f"{row[name]:.2f}"
    return f"{row[name]:.2f} [{row[f'{name}_low']:.2f}, {row[f'{name}_high']:.2f}]"
