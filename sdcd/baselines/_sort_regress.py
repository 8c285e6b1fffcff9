"""Regress along an order: the second half of the sortnregress family and of DirectLiNGAM."""

import numpy as np

from sdcd.errors import MethodFailure


def along_order(X: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Coefficients of each variable on those before it, by least squares and an adaptive lasso.

    For each variable k with predecessors C, least squares with intercept gives beta, and the point
    with the smallest BIC on the lasso path of x_k on ``x_i * |beta_i|`` gives the coefficients c:
    ``W[i, k] = c_i |beta_i|``.

    Parameters
    ----------
    X : float (n, d)
    order : int (d,)
        The variables, sources first.

    Returns
    -------
    float64 (d, d)

    Raises
    ------
    MethodFailure
        ``unavailable`` if CausalDisco is not installed; ``error`` if the BIC is undefined because
        there are no more rows than predecessors.
    """
    try:
        from CausalDisco.baselines import sort_regress
    except ImportError as error:
        raise MethodFailure(
            "unavailable", f"{error}; install with: pip install -e '.[baselines]'"
        ) from None
    n, d = X.shape
    if n <= d:
        raise MethodFailure("error", f"{n} rows, expected more than the {d} variables")
    return sort_regress(X, np.argsort(order))
