"""How much of each SHD is the threshold's doing, observational data. Not in the paper."""

from pathlib import Path

import pandas as pd

from sdcd.tables import _thresholds

EXPERIMENTS = ("thresholds_observational",)

CAPTION = _thresholds.CAPTION.format(kind="observational")

build = _thresholds.summarise


def write(table: pd.DataFrame, stem: str | Path) -> tuple[Path, Path, Path]:
    """Write the table as ``stem.csv``, ``stem.tex`` and ``stem.html``."""
    return _thresholds.write(table, stem, CAPTION)
