"""Ablation of stage 2's constraint, SHD (the paper's app:tab:empirical:ablation2)."""

from pathlib import Path

import pandas as pd

from sdcd.tables import _layout
from sdcd.tables._cells import compare

EXPERIMENTS = ("ablation_stage2",)

CAPTION = (
    "SHD of SDCD with other acyclicity constraints in stage 2, observational data, s = 4 edges "
    "per variable (2 at scale smoke). SDCD penalises the spectral radius, SDCD-exp the trace of "
    "the exponential, SDCD-log the log-determinant. Lower is better; the lowest mean of ours in a "
    "column is bold."
)


def build(runs: pd.DataFrame) -> pd.DataFrame:
    """Cells of the table, ours beside the published: see :func:`sdcd.tables._cells.compare`."""
    return compare(runs, "ablation_stage2")


def write(table: pd.DataFrame, stem: str | Path) -> tuple[Path, Path, Path]:
    """Write the table as ``stem.csv``, ``stem.tex`` and ``stem.html``, in the paper's layout."""
    layout = _layout.by_setting(table, CAPTION, {"method": "method"}, columns="d")
    return _layout.write_all(layout, table, stem)
