"""GRaSP, greedy relaxations of the sparsest permutation, with the Gaussian BIC (causal-learn)."""

import numpy as np

from sdcd.errors import MethodFailure
from sdcd.methods import Graph, register
from sdcd.parameters import integer, number

PRELOAD = ("causallearn.search.PermutationBased.GRaSP",)


@register(
    name="GRaSP",
    data="observational",
    defaults={"penalty_discount": 2.0, "depth": 3},
    ranges={"penalty_discount": number(above=0), "depth": integer(1)},
    source="not in the paper: Lam et al. 2022, package causal-learn with its depth 3; penalty "
    "discount 2, one score for BOSS, GRaSP and FLOP (the package's own default is 4)",
)
def grasp(
    X: np.ndarray,
    intervened: np.ndarray,
    names: tuple[str, ...],
    seed: int,
    *,
    penalty_discount: float,
    depth: int,
) -> Graph:
    """Search the orders of the variables for the DAG with the best Gaussian BIC.

    From a random order, by moving a variable and those of its ancestors that stand between before
    one of its parents ("tucks"): depth-first, up to ``depth`` tucks deep while they do not change
    the score, until none raises it. See :func:`sdcd.baselines._gaussian_score.bic`.

    Parameters
    ----------
    X : float32 (n, d)
        Values, on any scale.
    intervened : bool (n, d)
        All false; not used.
    names : tuple of d str
        Used in messages.
    seed : int
        Of the first order and of the sequence in which tucks are tried.
    penalty_discount : float
        Factor of the penalty, 2; 1 is the BIC.
    depth : int
        Of the search, 3.

    Returns
    -------
    Graph
        The CPDAG of the DAG found, without weights.

    Raises
    ------
    MethodFailure
        ``unavailable`` if causal-learn is not installed; ``error`` if the covariance is singular.

    References
    ----------
    W.-Y. Lam, B. Andrews, J. Ramsey. Greedy relaxations of the sparsest permutation algorithm.
    UAI 2022.
    """
    from sdcd.baselines import _causal_learn
    from sdcd.baselines._gaussian_score import bic, covariance

    try:
        from causallearn.search.PermutationBased.GRaSP import grasp as search
    except ImportError as error:
        raise MethodFailure("unavailable", f"{error}; {_causal_learn.INSTALL}") from None
    S = covariance(X, names, "GRaSP")
    # The package's lambda stands before log(n), not before log(n) / 2.
    with _causal_learn.contained(seed):
        found = search(
            X.astype(np.float64),
            score_func="local_score_BIC_from_cov",
            depth=depth,
            parameters={"lambda_value": penalty_discount / 2},
            verbose=False,
        )
    A = _causal_learn.adjacency(found.graph)
    return Graph(A, None, {"score": bic(A, S, len(X), penalty_discount)})
