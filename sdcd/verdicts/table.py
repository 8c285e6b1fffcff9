"""The verdicts as a table: its columns, its four answers, and what is counted from it."""

from pathlib import Path

import pandas as pd

from sdcd.errors import InputError
from sdcd.runs.table import write_csv
from sdcd.statistics import ALPHA

VERDICTS = ("reproduced", "not reproduced", "inconclusive", "not run")
"""The four answers."""

COLUMNS = (
    *("kind", "id", "experiment", "place", "statement"),
    *("method", "d", "s", "fraction", "mechanism", "metric"),
    *("published", "published_sd", "published_n"),
    *("ours", "ours_sd", "ours_n", "ours_failed", "shortened"),
    *("test", "threshold", "estimate", "low", "high", "effect_size", "p_support", "p_refute"),
    *("verdict", "half_margin", "seeds_needed", "note", "contradiction"),
)
"""Columns of a table of verdicts: see :func:`sdcd.verdicts.judge`."""


def count(verdicts: pd.DataFrame) -> pd.DataFrame:
    """How many cells of each table, and claims, got each verdict.

    Returns
    -------
    DataFrame
        Indexed by ``table`` (an experiment, or ``claims``), one column for each of
        :data:`VERDICTS`.
    """
    table = verdicts["experiment"].where(verdicts["kind"] == "cell", "claims")
    counts = pd.crosstab(table, verdicts["verdict"])
    order = list(dict.fromkeys(table))
    counts = counts.reindex(index=order, columns=list(VERDICTS), fill_value=0)
    return counts.rename_axis(index="table", columns=None)


def count_half_margin(verdicts: pd.DataFrame) -> pd.DataFrame:
    """How many reproduced cells would be so with half the margin.

    Returns
    -------
    DataFrame
        Indexed by ``table`` (an experiment), for its cells with a test: ``reproduced``, and of
        those ``paired`` (judged on the same data sets, wholly or in part) and ``half_margin``
        (reproduced within half a standard deviation as well).
    """
    cells = verdicts[(verdicts["kind"] == "cell") & (verdicts["verdict"] == "reproduced")]
    cells = cells[cells["test"].fillna("") != ""]
    groups = {
        "reproduced": cells["test"].notna(),
        "paired": cells["test"].str.startswith("paired"),
        "half_margin": cells["half_margin"] == "reproduced",
    }
    counts = pd.DataFrame({name: kept.astype(int) for name, kept in groups.items()})
    counts = counts.groupby(cells["experiment"], sort=False).sum()
    return counts.rename_axis(index="table")


def margin_sentence(verdicts: pd.DataFrame) -> str:
    """What a reader must know about the margin of the cells, in words; plain text."""
    counts = count_half_margin(verdicts).sum()
    if not len(counts) or not counts["reproduced"]:
        return ""
    return (
        "The margin of a cell, one standard deviation between data sets, is generous where the "
        "test is paired: two runs on the same data differ by much less than two data sets do. "
        f"Of {counts['reproduced']} reproduced cells with a value ({counts['paired']} of them "
        f"paired), {counts['half_margin']} also pass with half a standard deviation."
    )


def decide(p_support: float, p_refute: float, beyond: bool) -> str:
    """The verdict on a cell with a test, from its adjusted p values.

    Parameters
    ----------
    p_support, p_refute : float
        Adjusted p values for and against; NaN decides nothing.
    beyond : bool
        Whether the estimate is at least as large as the margin.
    """
    if p_support < ALPHA:
        return "reproduced"
    return "not reproduced" if beyond and p_refute < ALPHA else "inconclusive"


def write(verdicts: pd.DataFrame, path: str | Path) -> None:
    """Write every column as CSV."""
    write_csv(path, verdicts)


def read(path: str | Path) -> pd.DataFrame:
    """The table that :func:`write` wrote; :class:`~sdcd.errors.InputError` if it is none."""
    table = pd.read_csv(path, keep_default_na=False, na_values=[""])
    missing = [column for column in COLUMNS if column not in table]
    if missing:
        raise InputError(f"{path}: column {missing[0]!r} is missing, expected a table of verdicts")
    return table
