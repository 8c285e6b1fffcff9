"""F1 and SHD-CPDAG on observational data (the paper's observational-f1-cpdag figure)."""

import pandas as pd
from matplotlib.figure import Figure

from sdcd.figures._curves import curves_figure, small_and_large

EXPERIMENTS = ("observational",)


def draw(runs: pd.DataFrame) -> Figure:
    """Draw F1 (upper row) and SHD-CPDAG (lower row) over the number of variables.

    Parameters
    ----------
    runs : DataFrame
        Runs of the experiment (columns ``sdcd.experiments.RUN_COLUMNS``).

    Returns
    -------
    Figure
        Laid out as :mod:`sdcd.figures.observational`. The bands of F1 are from the authors' logs,
        which have no SHD-CPDAG.
    """
    rows = [
        small_and_large("f1", "F1 of directed edges (higher is better)", limits=(0, 1.03)),
        small_and_large("shd_cpdag", "SHD-CPDAG (edges; lower is better)", log=True),
    ]
    return curves_figure(
        runs,
        rows,
        experiment="observational",
        note="Published F1: from the authors' logs. They hold no SHD-CPDAG.",
    )
