"""Recall on observational data (the paper's observational_recall figure)."""

import pandas as pd
from matplotlib.figure import Figure

from sdcd.figures._curves import curves_figure, small_and_large

EXPERIMENTS = ("observational",)


def draw(runs: pd.DataFrame) -> Figure:
    """Draw recall, the share of true edges that were predicted, over d.

    Parameters
    ----------
    runs : DataFrame
        Runs of the experiment (columns ``sdcd.experiments.RUN_COLUMNS``).

    Returns
    -------
    Figure
        Laid out as :mod:`sdcd.figures.observational`. The bands are from the authors' logs.
    """
    label = "recall of directed edges (higher is better)"
    rows = [small_and_large("recall", label, limits=(0, 1.03))]
    return curves_figure(
        runs, rows, experiment="observational", note="Published: from the authors' logs."
    )
