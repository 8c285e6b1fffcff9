"""Ablation of stage 1, SHD (the paper's app:tab:empirical:ablation)."""

from pathlib import Path

import pandas as pd

from sdcd.tables import _layout
from sdcd.tables._cells import compare

EXPERIMENTS = ("ablation_stage1",)

CAPTION = (
    "SHD of SDCD and of its variants in stage 1, observational data, s = 4 edges per variable "
    "(2 at scale smoke). SDCD-warm: stage 2 starts from stage 1's input weights. "
    "SDCD-warm-nomask: the same without stage 1's mask. SDCD-no-s1: stage 2 only. "
    "SDCD-no-s1-2: the same with stage 1's alpha and beta. "
    "Lower is better; the lowest mean of ours in a column is bold."
)


def build(runs: pd.DataFrame) -> pd.DataFrame:
    """Cells of the table, ours beside the published: see :func:`sdcd.tables._cells.compare`."""
    return compare(runs, "ablation_stage1")


def write(table: pd.DataFrame, stem: str | Path) -> tuple[Path, Path, Path]:
    """Write the table as ``stem.csv``, ``stem.tex`` and ``stem.html``, in the paper's layout."""
    layout = _layout.by_setting(table, CAPTION, {"method": "method"}, columns="d")
    return _layout.write_all(layout, table, stem)
