"""A table of the paper: SHD of every cell, ours beside the published."""

from collections.abc import Mapping

import pandas as pd

from sdcd.tables.comparison import compare
from sdcd.tables.layout import Layout, by_setting


def make(
    runs: pd.DataFrame,
    *,
    caption: str,
    experiment: str,
    keys: Mapping[str, str],
    columns: str = "method",
) -> tuple[pd.DataFrame, Layout]:
    """The cells of an experiment, as numbers and as printed.

    Parameters
    ----------
    runs : DataFrame
        Runs of ours of the experiment (none is allowed).
    caption : str
        What the table shows.
    experiment : str
        One of :data:`sdcd.published.EXPERIMENTS`.
    keys, columns
        What the rows and the columns are: see :func:`sdcd.tables.layout.by_setting`.

    Returns
    -------
    DataFrame
        See :func:`sdcd.tables.comparison.compare`.
    Layout
        The same as text, in the paper's arrangement.
    """
    cells = compare(runs, experiment)
    return cells, by_setting(cells, caption, keys, columns)
