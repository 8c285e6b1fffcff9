"""How much of each SHD is the threshold's doing, interventional data. Not in the paper."""

from pathlib import Path

import pandas as pd

from sdcd.tables import _thresholds

EXPERIMENTS = ("thresholds_interventional",)

CAPTION = _thresholds.CAPTION.format(kind="interventional")

build = _thresholds.summarise


def write(table: pd.DataFrame, stem: str | Path) -> tuple[Path, Path, Path]:
    """Write the table as ``stem.csv``, ``stem.tex`` and ``stem.html``."""
    return _thresholds.write(table, stem, CAPTION)
