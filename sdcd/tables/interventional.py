"""SHD on interventional data (the paper's app:tab:empirical:interventional)."""

from pathlib import Path

import pandas as pd

from sdcd.tables import _layout
from sdcd.tables._cells import compare

EXPERIMENTS = ("interventional",)

CAPTION = (
    "SHD with an increasing fraction of variables intervened on, by edges per variable s and "
    "number of variables d; δ is the edge density, s d of d (d - 1) / 2. Lower is better; the "
    "lowest mean of ours in a row is bold."
)


def build(runs: pd.DataFrame) -> pd.DataFrame:
    """Cells of the table, ours beside the published: see :func:`sdcd.tables._cells.compare`."""
    return compare(runs, "interventional")


def write(table: pd.DataFrame, stem: str | Path) -> tuple[Path, Path, Path]:
    """Write the table as ``stem.csv``, ``stem.tex`` and ``stem.html``, in the paper's layout."""
    layout = _layout.by_setting(
        table, CAPTION, {"s": "s", "d": "d", "density": "δ", "fraction": "fraction intervened on"}
    )
    return _layout.write_all(layout, table, stem)
