"""Recall on interventional data (the paper's interventional_full_recall)."""

import pandas as pd
from matplotlib.figure import Figure

from sdcd.figures._boxes import boxes_figure

EXPERIMENTS = ("interventional",)


def draw(runs: pd.DataFrame) -> Figure:
    """Draw box plots of recall over the fraction of variables intervened on, for every method.

    Parameters
    ----------
    runs : DataFrame
        Runs of the interventional experiment (columns ``sdcd.experiments.RUN_COLUMNS``).

    Returns
    -------
    Figure
        Columns are d, rows s; see :func:`sdcd.figures._boxes.boxes_figure`.
    """
    return boxes_figure(runs, "recall", "recall of directed edges", limits=(0, 1.03))
