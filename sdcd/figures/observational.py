"""SHD on observational data with increasing d (the paper's fig:observational)."""

import pandas as pd
from matplotlib.figure import Figure

from sdcd.figures._curves import curves_figure, small_and_large

EXPERIMENTS = ("observational",)


def draw(runs: pd.DataFrame) -> Figure:
    """Draw SHD over the number of variables, a curve for each method, on the published bands.

    Parameters
    ----------
    runs : DataFrame
        Runs of the experiment (columns ``sdcd.experiments.RUN_COLUMNS``).

    Returns
    -------
    Figure
        Panels for d up to 50 and above, logarithmic in SHD; error bars are sd over seeds; the
        dashed line is the number of true edges, which is the SHD of the empty graph. A cell in
        which every run failed has its marker in the strip NA. Runs that were shortened are hollow.
    """
    rows = [small_and_large("shd", "SHD (edges; lower is better)", log=True, edges=True)]
    return curves_figure(runs, rows, experiment="observational")
