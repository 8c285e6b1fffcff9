"""Lists of pairs of variables, with whatever is known about each, in an order of one's own."""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from sdcd.files import atomic_path


def write_pairs(
    path: str | Path,
    names: Sequence[str],
    parents: np.ndarray,
    children: np.ndarray,
    columns: Mapping[str, np.ndarray],
) -> None:
    """Write a ``.csv`` with the columns ``parent``, ``child`` and further ones.

    Parameters
    ----------
    path : path
        The file.
    names : sequence of d str
        Of the variables.
    parents, children : int (m,)
        The pairs, in the order in which they are written.
    columns : mapping
        For each further column its name and the pairs' values, (d, d): numbers, of which NaN is an
        empty cell, or booleans, written as 1 and 0.
    """
    ends = zip(np.asarray(parents).tolist(), np.asarray(children).tolist(), strict=True)
    rows = (
        [names[i], names[j], *(_cell(matrix[i, j].item()) for matrix in columns.values())]
        for i, j in ends
    )
    write_rows(path, ["parent", "child", *columns], rows)


def write_rows(path: str | Path, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a ``.csv`` with this header and these rows."""
    with (
        atomic_path(path) as temporary,
        open(temporary, "w", newline="", encoding="utf-8") as stream,
    ):
        csv.writer(stream, lineterminator="\n").writerows([head, *rows])


def _cell(value: bool | int | float) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return "" if math.isnan(value) else repr(value)
