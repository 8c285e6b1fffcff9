"""SHD on the simulations of the DCDI paper (the paper's app:tab:empirical:dcdi)."""

from pathlib import Path

import pandas as pd

from sdcd.tables import _layout
from sdcd.tables._cells import compare

EXPERIMENTS = ("dcdi_simulations",)

CAPTION = (
    "SHD on the DCDI paper's simulations: linear (L), nonlinear additive (NL-Add) and nonlinear "
    "non-additive (NL-NN) mechanisms; δ is the expected edge density. Ours are new draws of the "
    "same generator, so that no run has a published twin. Lower is better; the lowest mean of ours "
    "in a row is bold."
)


def build(runs: pd.DataFrame) -> pd.DataFrame:
    """Cells of the table, ours beside the published: see :func:`sdcd.tables._cells.compare`."""
    return compare(runs, "dcdi_simulations")


def write(table: pd.DataFrame, stem: str | Path) -> tuple[Path, Path, Path]:
    """Write the table as ``stem.csv``, ``stem.tex`` and ``stem.html``, in the paper's layout."""
    layout = _layout.by_setting(
        table, CAPTION, {"s": "s", "d": "d", "density": "δ", "mechanism": "mechanism"}
    )
    return _layout.write_all(layout, table, stem)
