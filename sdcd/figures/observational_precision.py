"""Precision on observational data (the paper's observational_precision figure)."""

import pandas as pd
from matplotlib.figure import Figure

from sdcd.figures._curves import curves_figure, small_and_large

EXPERIMENTS = ("observational",)


def draw(runs: pd.DataFrame) -> Figure:
    """Draw precision, the share of predicted edges that are true, over d.

    Parameters
    ----------
    runs : DataFrame
        Runs of the experiment (columns ``sdcd.experiments.RUN_COLUMNS``).

    Returns
    -------
    Figure
        Laid out as :mod:`sdcd.figures.observational`. The bands are from the authors' logs.
    """
    rows = [
        small_and_large(
            "precision", "precision of directed edges (higher is better)", limits=(0, 1.03)
        )
    ]
    return curves_figure(
        runs, rows, experiment="observational", note="Published: from the authors' logs."
    )
