"""BOSS, the best order score search, with the Gaussian BIC (package causal-learn)."""

import numpy as np

from sdcd.errors import MethodFailure
from sdcd.methods import Graph, register
from sdcd.parameters import number

PRELOAD = ("causallearn.search.PermutationBased.BOSS",)


@register(
    name="BOSS",
    data="observational",
    defaults={"penalty_discount": 2.0},
    ranges={"penalty_discount": number(above=0)},
    source="not in the paper: Andrews et al. 2023, package causal-learn; penalty discount 2, "
    "one score for BOSS, GRaSP and FLOP (the package's own default is 4)",
)
def boss(
    X: np.ndarray,
    intervened: np.ndarray,
    names: tuple[str, ...],
    seed: int,
    *,
    penalty_discount: float,
) -> Graph:
    """Search the orders of the variables for the DAG with the best Gaussian BIC.

    Each variable in turn is moved to the place in the order that raises the score most, its parents
    being those that growing and shrinking selects among the variables before it; until no move
    raises the score. See :func:`sdcd.baselines._gaussian_score.bic`.

    Parameters
    ----------
    X : float32 (n, d)
        Values, on any scale.
    intervened : bool (n, d)
        All false; not used.
    names : tuple of d str
        Used in messages.
    seed : int
        Of the sequence in which variables are moved.
    penalty_discount : float
        Factor of the penalty, 2; 1 is the BIC.

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
    B. Andrews, J. Ramsey, R. Sanchez Romero, J. Camchong, E. Kummerfeld. Fast scalable and accurate
    discovery of DAGs using the best order score search and grow-shrink trees. NeurIPS 2023.
    """
    from sdcd.baselines import _causal_learn
    from sdcd.baselines._gaussian_score import bic, covariance

    try:
        from causallearn.search.PermutationBased.BOSS import boss as search
    except ImportError as error:
        raise MethodFailure("unavailable", f"{error}; {_causal_learn.INSTALL}") from None
    S = covariance(X, names, "BOSS")
    # The package's lambda stands before log(n), not before log(n) / 2.
    with _causal_learn.contained(seed):
        found = search(
            X.astype(np.float64),
            score_func="local_score_BIC_from_cov",
            parameters={"lambda_value": penalty_discount / 2},
            verbose=False,
        )
    A = _causal_learn.adjacency(found.graph)
    return Graph(A, None, {"score": bic(A, S, len(X), penalty_discount)})
