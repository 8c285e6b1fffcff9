"""Random-SortnRegress: a random order, then regressions; what an order is worth."""

import numpy as np

from sdcd.methods import Graph, register
from sdcd.parameters import number

PRELOAD = ("CausalDisco.baselines",)


@register(
    name="random-sortnregress",
    data="observational",
    defaults={"threshold": 0.3},
    ranges={"threshold": number(0)},
    source="not in the paper: Reisach et al. 2021, package CausalDisco; cut 0.3 as for "
    "sortnregress",
)
def random_sortnregress(
    X: np.ndarray, intervened: np.ndarray, names: tuple[str, ...], seed: int, *, threshold: float
) -> Graph:
    """Regress each variable on its predecessors in a random order.

    The control for every method that first finds an order: what is better than this is owed to the
    order, what is not is owed to the regressions. They are those of sortnregress, see
    :func:`sdcd.baselines._sort_regress.along_order`.

    Parameters
    ----------
    X : float32 (n, d)
        Standardised values.
    intervened : bool (n, d)
        All false; not used.
    names : tuple of d str
        Not used.
    seed : int
        Of the order, a uniformly random one.
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
    A. Reisach, C. Seiler, S. Weichwald. Beware of the Simulated DAG! NeurIPS 2021.
    """
    from sdcd.baselines._sort_regress import along_order

    order = np.random.default_rng(seed).permutation(X.shape[1])
    weights = np.abs(along_order(X, order))
    return Graph(weights > threshold, weights, {"order": order.tolist(), "threshold": threshold})
