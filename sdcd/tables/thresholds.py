"""SHD as returned, SHD at other cuts of the weights, and average precision: not in the paper."""

import math

import pandas as pd

from sdcd.runs.summaries import each_once, shortened_by_method
from sdcd.tables.layout import Layout

SETTING = ("d", "s", "fraction")
"""What distinguishes one kind of data set from another."""

HEADINGS = ("SHD", "best SHD", "one cut for all", "average precision", "edges", "data sets")
"""Columns of the table, after the data and the method."""

NOTES = (
    "SHD: of the graph that the method returned. Best SHD: the lowest at any threshold, chosen for "
    "each data set with the truth at hand, which no user could do. One cut for all: the lowest "
    "mean at one threshold (in brackets) for all data sets of the row, chosen likewise.",
    "Weights are in units of each method's own; SDCD's are cut by DAG trim, all others plainly. "
    "–: the method gives no weights.",
    "Empty graph: its SHD is the number of true edges, its average precision that of chance.",
)


def make(table: pd.DataFrame, *, caption: str) -> tuple[pd.DataFrame, Layout]:
    """Means over data sets, as numbers (:func:`summarise`) and as printed (:func:`layout`)."""
    cells = summarise(table)
    return cells, layout(cells, caption)


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Means over the data sets of each setting and method.

    Parameters
    ----------
    table : DataFrame
        A table of thresholds (columns ``sdcd.runs.thresholds.COLUMNS``).

    Returns
    -------
    DataFrame
        One row per setting and method, by setting and then by SHD, lowest first: :data:`SETTING`,
        ``method``, ``n`` (data sets); means ``shd``, ``n_edges`` and ``average_precision`` of the
        graph and weights as returned, ``best_shd`` with a threshold for each data set; ``one_shd``,
        the lowest mean at one ``one_threshold`` of the grid for all of them, of several the
        smallest; ``shortened``. NaN where a method has no weights.
    """
    keys = [*SETTING, "method"]
    table = table.assign(shortened=table["shortened"].fillna(""))
    own = table[table["point"] == "own"].groupby(keys, sort=False)
    cells = own.agg(
        n=("shd", "size"),
        shd=("shd", "mean"),
        n_edges=("n_edges", "mean"),
        average_precision=("average_precision", "mean"),
        shortened=("shortened", each_once),
    ).astype({"average_precision": float})
    cells["best_shd"] = table[table["point"] == "best"].groupby(keys)["shd"].mean()
    grid = table[table["point"] == "grid"].groupby([*keys, "threshold"])["shd"].mean()
    lowest = grid.reset_index().sort_values([*keys, "shd", "threshold"], kind="stable")
    lowest = lowest.drop_duplicates(keys).set_index(keys)
    cells["one_shd"], cells["one_threshold"] = lowest["shd"], lowest["threshold"]
    order = [*keys, "n", "shd", "best_shd", "one_shd", "one_threshold"]
    order += ["average_precision", "n_edges", "shortened"]
    cells = cells.reset_index()[order]
    return cells.sort_values([*SETTING, "shd"], kind="stable", ignore_index=True)


def layout(cells: pd.DataFrame, caption: str) -> Layout:
    """What :func:`summarise` returns as a printable table; the best of each setting is bold."""
    from sdcd.methods.pruned import base_of

    interventions = (cells["fraction"] > 0).any()
    rows, best = [], set()
    for (d, s, fraction), group in cells.groupby(list(SETTING), sort=False):
        where = f"d = {d}, s = {s}" + (f", fraction {fraction:g}" if interventions else "")
        for column, (name, lowest) in enumerate(
            (("shd", True), ("best_shd", True), ("one_shd", True), ("average_precision", False))
        ):
            values = group[name].reset_index(drop=True)
            target = values.min() if lowest else values.max()
            best |= {(len(rows) + int(at), column) for at in values.index[values == target]}
        for row in group.itertuples():
            star = "*" if row.shortened else ""
            rows.append(((where, row.method), [{"": text} for text in _texts(row, star)]))
        empty = (f"{s * d}", "", "", f"{s / (d - 1):.2f}", "0", "")
        rows.append(((where, "empty graph"), [{"": text} for text in empty]))
    notes = list(NOTES)
    extra = [name for name in dict.fromkeys(cells["method"]) if base_of(name)]
    if extra:
        notes.append(
            f"{', '.join(extra)}: held-out pruning, whose weights rank the edges that stay above "
            "all others."
        )
    notes += [f"* shortened: {text}." for text in shortened_by_method(cells)]
    return Layout(caption, ["data", "method"], HEADINGS, rows, notes, frozenset(best))


def _texts(row, star: str) -> tuple[str, ...]:
    one = _number(row.one_shd, 1)
    if not math.isnan(row.one_threshold):
        one += f" ({row.one_threshold:.3g})"
    return (
        _number(row.shd, 1) + star,
        _number(row.best_shd, 1),
        one,
        _number(row.average_precision, 2),
        _number(row.n_edges, 0),
        str(row.n),
    )


def _number(value: float, digits: int) -> str:
    return "–" if math.isnan(value) else f"{value:.{digits}f}"
