"""Precision and recall with thousands of variables (the paper's large-precision-recall figure)."""

import pandas as pd
from matplotlib.figure import Figure

from sdcd.figures._curves import Panel, curves_figure

EXPERIMENTS = ("observational_large",)


def draw(runs: pd.DataFrame) -> Figure:
    """Draw precision (left) and recall (right) of directed edges over the number of variables.

    Parameters
    ----------
    runs : DataFrame
        Runs of the experiment (columns ``sdcd.experiments.RUN_COLUMNS``).

    Returns
    -------
    Figure
        Laid out as :mod:`sdcd.figures.observational_large`. The bands are from the authors' logs.
    """
    rows = [
        [
            Panel("precision", "precision (higher is better)", "precision", limits=(0, 1.03)),
            Panel("recall", "recall (higher is better)", "recall", limits=(0, 1.03)),
        ]
    ]
    return curves_figure(
        runs, rows, experiment="observational_large", note="Published: from the authors' logs."
    )
