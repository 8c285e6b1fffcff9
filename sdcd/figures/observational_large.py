"""SHD and training time with thousands of variables (the paper's observational-large figure)."""

import pandas as pd
from matplotlib.figure import Figure

from sdcd.figures._curves import Panel, curves_figure

EXPERIMENTS = ("observational_large",)


def draw(runs: pd.DataFrame) -> Figure:
    """Draw SHD (left) and wall time (right) over the number of variables.

    Parameters
    ----------
    runs : DataFrame
        Runs of the experiment (columns ``sdcd.experiments.RUN_COLUMNS``).

    Returns
    -------
    Figure
        The dashed line is the number of true edges. Bands: SHD from the table, time from the
        authors' logs.
    """
    rows = [
        [
            Panel("shd", "SHD (edges; lower is better)", "SHD", edges=True),
            Panel("seconds", "wall time of a fit (s)", "training time", log=True),
        ]
    ]
    return curves_figure(
        runs,
        rows,
        experiment="observational_large",
        note="Published time: the authors' logs, Nvidia A5000.",
    )
