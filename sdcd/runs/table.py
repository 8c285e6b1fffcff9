"""Tables of runs as files: one row per fit, ours or the published logs'."""

import hashlib
import io
from pathlib import Path

from sdcd.errors import CorruptFile, InputError
from sdcd.files import atomic_path

RUN_COLUMNS = (
    *("experiment", "method", "d", "s", "fraction", "mechanism", "seed"),
    *("status", "reason", "shortened"),
    *("shd", "shd_cpdag", "aid", "precision", "recall", "f1", "average_precision"),
    *("n_edges", "is_dag", "seconds", "peak_rss_mb"),
    *("stage1_epochs", "stage1_mask_density", "stage1_mask_recall", "stage2_epochs", "last_gamma"),
)
"""Columns of a table of runs, ours or the published logs', one row per fit."""


def write_csv(path: str | Path, table, *, index: bool = False, **options) -> None:
    """Write a DataFrame as CSV, complete or not at all; ``options`` are those of its ``to_csv``."""
    with atomic_path(path) as temporary:
        table.to_csv(temporary, index=index, lineterminator="\n", **options)


def write_runs(path: str | Path, table) -> None:
    """Write a table of runs, or of a study (DataFrame), and beside it its SHA-256.

    A table that has lost its last rows looks like any other; the digest (``{path}.sha256``, as
    ``sha256sum --check`` reads it) tells :func:`read_runs`.
    """
    path = Path(path)
    text = table.to_csv(index=False, lineterminator="\n").encode()
    digest = hashlib.sha256(text).hexdigest()
    with atomic_path(path) as temporary:
        temporary.write_bytes(text)
    with atomic_path(f"{path}.sha256") as temporary:
        temporary.write_text(f"{digest}  {path.name}\n", encoding="utf-8")


def read_runs(path: str | Path):
    """Read a table of runs, or of a study, as :func:`write_runs` writes it.

    Returns
    -------
    pandas.DataFrame
        Only empty cells are missing values: the status ``nan`` is a text like any other.

    Raises
    ------
    InputError
        If there is no such file, or it is not what its digest says; without one it is taken as
        it is.
    """
    import pandas as pd

    try:
        text = Path(path).read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    beside = Path(f"{path}.sha256")
    if beside.exists():
        found, expected = hashlib.sha256(text).hexdigest(), beside.read_text().split()[:1]
        if [found] != expected:
            raise CorruptFile(f"{path}: changed or cut off since it was written")
    return pd.read_csv(io.BytesIO(text), keep_default_na=False, na_values=[""])
