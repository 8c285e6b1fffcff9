"""SHD on observational data, every method (the paper's app:tab:empirical:observational)."""

from pathlib import Path

import pandas as pd

from sdcd.tables import _layout
from sdcd.tables._cells import compare

EXPERIMENTS = ("observational",)

CAPTION = (
    "SHD on observational data with s = 4 edges per variable (2 at scale smoke), for an "
    "increasing number of variables d. Lower is better; the lowest mean of ours in a row is bold."
)


def build(runs: pd.DataFrame) -> pd.DataFrame:
    """Cells of the table, ours beside the published: see :func:`sdcd.tables._cells.compare`."""
    return compare(runs, "observational")


def write(table: pd.DataFrame, stem: str | Path) -> tuple[Path, Path, Path]:
    """Write the table as ``stem.csv``, ``stem.tex`` and ``stem.html``, in the paper's layout."""
    layout = _layout.by_setting(table, CAPTION, {"d": "d"})
    return _layout.write_all(layout, table, stem)
