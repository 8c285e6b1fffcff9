"""How much of each SHD is the threshold's doing, interventional data. Not in the paper."""

from pathlib import Path

import pandas as pd

from sdcd.tables import _thresholds

EXPERIMENTS = ("thresholds_interventional",)

CAPTION = (
    "Not in the paper. SHD on interventional data as each method returned its graph, and with its "
    "weights cut at other thresholds; average precision ranks the weights without any. Means over "
    "data sets; the best of each kind of data is bold."
)

build = _thresholds.summarise


def write(table: pd.DataFrame, stem: str | Path) -> tuple[Path, Path, Path]:
    """Write the table as ``stem.csv``, ``stem.tex`` and ``stem.html``."""
    return _thresholds.write(table, stem, CAPTION)
