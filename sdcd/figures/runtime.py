"""Training times on observational data (the paper's app:fig:empirical:runtime)."""

import pandas as pd
from matplotlib.figure import Figure

from sdcd.figures._curves import curves_figure, small_and_large

EXPERIMENTS = ("observational",)


def draw(runs: pd.DataFrame) -> Figure:
    """Draw the wall time of a fit over the number of variables.

    Parameters
    ----------
    runs : DataFrame
        Runs of the experiment (columns ``sdcd.experiments.RUN_COLUMNS``).

    Returns
    -------
    Figure
        Laid out as :mod:`sdcd.figures.observational`, logarithmic in time. The bands are the
        authors' logged times, on other hardware than ours: they show how time grows, not who is
        faster.
    """
    rows = [small_and_large("seconds", "wall time of a fit (s)", log=True)]
    return curves_figure(
        runs,
        rows,
        experiment="observational",
        note="Published: the authors' logs, 4 cores of an AMD 3960x, SDCD-GPU an Nvidia A5000.",
    )
