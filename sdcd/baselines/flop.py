"""FLOP: discrete search over orders with fast Cholesky updates (package flopsearch)."""

import numpy as np

from sdcd.errors import MethodFailure
from sdcd.methods import Graph, register
from sdcd.parameters import integer, number

PRELOAD = ("flopsearch",)

UNDIRECTED = 2
"""The package's code of an undirected edge; 1 is a directed one."""


@register(
    name="FLOP",
    data="observational",
    defaults={"penalty_discount": 2.0, "restarts": 50, "repeats": 3},
    ranges={"penalty_discount": number(above=0), "restarts": integer(0), "repeats": integer(1)},
    source="not in the paper: Wienöbst et al. 2025, package flopsearch: penalty 2 and 50 restarts "
    "as it recommends; repeated three times because it takes no seed",
)
def flop(
    X: np.ndarray,
    intervened: np.ndarray,
    names: tuple[str, ...],
    seed: int,
    *,
    penalty_discount: float,
    restarts: int,
    repeats: int,
) -> Graph:
    """Search the orders of the variables for the DAG with the best Gaussian BIC.

    Local search over orders, then ``restarts`` times again from a perturbed best order; all of it
    ``repeats`` times, of which the graph with the best score is returned
    (:func:`sdcd.baselines._gaussian_score.bic`).

    The package draws its random numbers from the system and takes no seed. So two fits of the same
    data can differ: this is the one method here that is not a function of its arguments.
    ``diagnostics`` says how much: the ``scores`` of the repeats and how many ``distinct_graphs``
    they are.

    Parameters
    ----------
    X : float32 (n, d)
        Values, on any scale.
    intervened : bool (n, d)
        All false; not used.
    names : tuple of d str
        Used in messages.
    seed : int
        Without effect: see above.
    penalty_discount : float
        Factor of the penalty, 2; 1 is the BIC.
    restarts, repeats : int
        50 and 3.

    Returns
    -------
    Graph
        A CPDAG, without weights.

    Raises
    ------
    MethodFailure
        ``unavailable`` if flopsearch is not installed; ``error`` if the covariance is singular, or
        the package gives up.

    References
    ----------
    M. Wienöbst, L. Henckel, S. Weichwald. Embracing discrete search: a reasonable approach to
    causal structure learning. arXiv 2510.04970, 2025.
    """
    from sdcd.baselines._gaussian_score import bic, covariance

    try:
        from flopsearch import flop as search
    except ImportError as error:
        raise MethodFailure(
            "unavailable", f"{error}; install with: pip install -e '.[baselines]'"
        ) from None
    S = covariance(X, names, "FLOP")
    values = np.ascontiguousarray(X, dtype=np.float64)
    found = []
    for _ in range(repeats):
        try:
            marks = search(values, float(penalty_discount), restarts=restarts)
        except RuntimeError as error:
            raise MethodFailure("error", " ".join(str(error).split())) from None
        found.append((marks != 0) | (marks.T == UNDIRECTED))
    scores = [bic(A, S, len(X), penalty_discount) for A in found]
    return Graph(
        found[int(np.argmax(scores))],
        None,
        {
            "score": max(scores),
            "scores": scores,
            "distinct_graphs": len({A.tobytes() for A in found}),
            "seeded": False,
        },
    )
