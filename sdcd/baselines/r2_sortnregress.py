"""R2-SortnRegress: sort by how well the others predict each variable, then regress."""

import numpy as np

from sdcd.methods import Graph, register
from sdcd.parameters import number

PRELOAD = ("CausalDisco.baselines",)


@register(
    name="R2-sortnregress",
    data="observational",
    defaults={"threshold": 0.3},
    ranges={"threshold": number(0)},
    source="not in the paper: Reisach et al. 2023, package CausalDisco; cut 0.3 as for "
    "sortnregress",
)
def r2_sortnregress(
    X: np.ndarray, intervened: np.ndarray, names: tuple[str, ...], seed: int, *, threshold: float
) -> Graph:
    """Order the variables by their R^2 given all others, then regress each on its predecessors.

    Standardising removes the variances that sortnregress sorts by, not these:

        R^2_j = 1 - 1 / (C^-1)_jj,     C the correlation matrix.

    Then as sortnregress: :func:`sdcd.baselines._sort_regress.along_order`, and
    i -> k iff ``|W[i, k]| > threshold``.

    Parameters
    ----------
    X : float32 (n, d)
        Values, on any scale for the order; standardised for the cut.
    intervened : bool (n, d)
        All false; not used.
    names : tuple of d str
        Not used.
    seed : int
        Not used: the method is deterministic.
    threshold : float
        Smallest absolute weight of an edge, exclusive.

    Returns
    -------
    Graph
        A DAG by construction; ``weights`` is ``|W|``, before the threshold.

    Raises
    ------
    MethodFailure
        ``unavailable`` if CausalDisco is not installed; ``error`` if there are no more rows than
        variables.

    References
    ----------
    A. Reisach, M. Tami, C. Seiler, A. Chambaz, S. Weichwald. A scale-invariant sorting criterion to
    find a causal order in additive noise models. NeurIPS 2023.
    """
    from sdcd.baselines._sort_regress import along_order
    from sdcd.data.sortability import r2_given_others

    order = np.argsort(r2_given_others(X), kind="stable")
    weights = np.abs(along_order(X, order))
    return Graph(weights > threshold, weights, {"order": order.tolist(), "threshold": threshold})
