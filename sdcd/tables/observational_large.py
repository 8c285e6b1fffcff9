"""SHD with thousands of variables (the paper's app:tab:empirical:observational-large)."""

from pathlib import Path

import pandas as pd

from sdcd.tables import _layout
from sdcd.tables._cells import compare

EXPERIMENTS = ("observational_large",)

CAPTION = (
    "SHD of SDCD on observational data with thousands of variables, s = 4 edges per variable. "
    "Lower is better."
)


def build(runs: pd.DataFrame) -> pd.DataFrame:
    """Cells of the table, ours beside the published: see :func:`sdcd.tables._cells.compare`."""
    return compare(runs, "observational_large")


def write(table: pd.DataFrame, stem: str | Path) -> tuple[Path, Path, Path]:
    """Write the table as ``stem.csv``, ``stem.tex`` and ``stem.html``, in the paper's layout."""
    layout = _layout.by_setting(table, CAPTION, {"d": "d"})
    return _layout.write_all(layout, table, stem)
