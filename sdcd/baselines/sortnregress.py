"""sortnregress: regress each variable on those of smaller variance (package CausalDisco)."""

import numpy as np

from sdcd.errors import MethodFailure
from sdcd.methods import Graph, register
from sdcd.parameters import number

PRELOAD = ("CausalDisco.baselines",)


@register(
    name="sortnregress",
    data="observational",
    defaults={"threshold": 0.3},
    ranges={
        "threshold": number(0),
    },
    source="Reisach et al. 2021, package CausalDisco; cut 0.3 as in the SDCD paper's run",
)
def sortnregress(
    X: np.ndarray, intervened: np.ndarray, names: tuple[str, ...], seed: int, *, threshold: float
) -> Graph:
    """Order the variables by variance, then regress each on its predecessors.

    For each variable k with predecessors C, least squares with intercept gives beta, and the point
    with the smallest BIC on the lasso path of x_k on ``x_i * |beta_i|`` gives the coefficients c:

        W[i, k] = c_i |beta_i|,     i -> k  iff  |W[i, k]| > threshold

    On standardised data all variances are one and the order is that of the rounding errors of the
    float32 variances. They depend on how the values lie in memory: here in rows.

    Parameters
    ----------
    X : float32 (n, d)
        Standardised values.
    intervened : bool (n, d)
        All false; not used.
    names : tuple of d str
        Not used.
    seed : int
        Not used: the method is deterministic.
    threshold : float
        Smallest absolute weight of an edge, exclusive; 0.3 as run.

    Returns
    -------
    Graph
        A DAG by construction; ``weights`` is ``|W|``, before the threshold.

    Raises
    ------
    MethodFailure
        ``unavailable`` if CausalDisco is not installed.

    References
    ----------
    A. Reisach, C. Seiler, S. Weichwald. Beware of the Simulated DAG! NeurIPS 2021.
    """
    try:
        from CausalDisco.baselines import var_sort_regress
    except ImportError as error:
        raise MethodFailure(
            "unavailable", f"{error}; install with: pip install -e '.[baselines]'"
        ) from None
    weights = np.abs(var_sort_regress(X))
    return Graph(adjacency=weights > threshold, weights=weights)
