"""The stages of one fit of SDCD, edge by edge: what the method's picture is drawn from."""

from pathlib import Path

import numpy as np

from sdcd.experiments.plan import Experiment
from sdcd.runs.collect import fits_with_truth, shortened_in

COLUMNS = (
    *("method", "d", "s", "fraction", "seed", "shortened", "tau_1", "tau_2"),
    *("parent", "child", "true", "stage_1_weight", "selected", "stage_2_weight", "in_graph"),
)
"""Columns of the table; see :func:`collect_cartoon`."""


def collect_cartoon(experiment: Experiment, results: str | Path):
    """Every ordered pair of variables of an experiment's first fit, through the stages of SDCD.

    Parameters as for :func:`sdcd.runs.collect.collect`; the fit is of SDCD with a stage 1.

    Returns
    -------
    pandas.DataFrame
        Columns :data:`COLUMNS`, a row for each parent != child: both weights, and as 0 or 1 whether
        the edge is ``true``, ``selected`` by stage 1 for stage 2, and ``in_graph``. No rows if the
        fit failed, or has kept no weights of stage 1
        (:data:`sdcd.methods.variants.LARGEST_KEPT_STAGE_1`).

    Raises
    ------
    InputError
        If a file is missing or not what it should be.
    """
    import pandas as pd

    key, graph, record, truth = next(fits_with_truth(experiment, results))
    if graph is None or "stage_1_weights" not in graph.arrays:
        return pd.DataFrame(columns=list(COLUMNS))
    parents, children = np.nonzero(~np.eye(key.d, dtype=bool))
    edge = parents, children
    return pd.DataFrame(
        {
            "method": record["method"],
            "d": key.d,
            "s": key.s,
            "fraction": key.fraction,
            "seed": key.seed,
            "shortened": shortened_in(experiment.methods["SDCD"]["shortened"], record),
            "tau_1": record["params"]["tau_1"],
            "tau_2": record["params"]["tau_2"],
            "parent": parents,
            "child": children,
            "true": (truth[edge] != 0).astype(int),
            "stage_1_weight": graph.arrays["stage_1_weights"][edge],
            "selected": graph.arrays["selected"][edge].astype(int),
            "stage_2_weight": graph.weights[edge],
            "in_graph": (graph.adjacency[edge] != 0).astype(int),
        },
        columns=list(COLUMNS),
    )
