"""The verdicts as a table."""

from pathlib import Path

import pandas as pd

from sdcd.errors import InputError
from sdcd.files import atomic_path

VERDICTS = ("reproduced", "not reproduced", "inconclusive", "not run")
"""The four answers."""

COLUMNS = (
    "kind",
    "id",
    "experiment",
    "place",
    "statement",
    "method",
    "d",
    "s",
    "fraction",
    "mechanism",
    "metric",
    "published",
    "published_sd",
    "published_n",
    "ours",
    "ours_sd",
    "ours_n",
    "shortened",
    "test",
    "threshold",
    "estimate",
    "low",
    "high",
    "effect_size",
    "p_support",
    "p_refute",
    "verdict",
    "seeds_needed",
    "note",
    "contradiction",
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


def write(verdicts: pd.DataFrame, path: str | Path) -> None:
    """Write every column as CSV."""
    with atomic_path(path) as temporary:
        verdicts.to_csv(temporary, index=False, lineterminator="\n")


def read(path: str | Path) -> pd.DataFrame:
    """The table that :func:`write` wrote; :class:`~sdcd.errors.InputError` if it is none."""
    table = pd.read_csv(path, keep_default_na=False, na_values=[""])
    missing = [column for column in COLUMNS if column not in table]
    if missing:
        raise InputError(f"{path}: column {missing[0]!r} is missing, expected a table of verdicts")
    return table
