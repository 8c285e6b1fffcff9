"""The Gaussian BIC that the searches over orders maximise, and the data it is defined for."""

import numpy as np

from sdcd.errors import MethodFailure
from sdcd.graphs import consistent_extension

SINGULAR = 1e-9
"""Smallest eigenvalue of a correlation matrix that counts as singular; values are float32."""


def covariance(X: np.ndarray, names: tuple[str, ...], method: str) -> np.ndarray:
    """The covariance of the columns, float64 (d, d), refused if it has no inverse.

    Raises
    ------
    MethodFailure
        ``error`` if a variable is constant or a combination of others.
    """
    X = X.astype(np.float64)
    centred = X - X.mean(axis=0)
    S = centred.T @ centred / len(X)
    sd = np.sqrt(np.diag(S))
    if (sd == 0).any():
        raise MethodFailure("error", f"{method}: {names[int(np.argmin(sd))]!r} is constant")
    smallest = np.linalg.eigvalsh(S / np.outer(sd, sd))[0]
    if smallest < SINGULAR:
        raise MethodFailure(
            "error",
            f"{method}: the correlation matrix of {X.shape[1]} variables in {len(X)} rows is "
            f"singular (smallest eigenvalue {smallest:.1g}), expected one with an inverse",
        )
    return S


def bic(cpdag: np.ndarray, S: np.ndarray, n: int, penalty_discount: float) -> float:
    """Penalised log-likelihood of the class that a CPDAG stands for; larger is better.

        - 1/2 sum_j [ n (1 + log v_j) + c log(n) (|Pa_j| + 1) ],

    with v_j the variance that is left of j by its parents in any DAG of the class, and c the
    penalty discount; c = 1 is the BIC.

    Parameters
    ----------
    cpdag : array (d, d)
        With a consistent DAG; a DAG is one too.
    S : float64 (d, d)
        Covariance.
    n : int
        Rows.

    Returns
    -------
    float
        -inf if no DAG is consistent with the graph.
    """
    A = consistent_extension(np.asarray(cpdag))
    if A is None:
        return -np.inf
    total = 0.0
    for j in range(len(S)):
        parents = np.flatnonzero(A[:, j])
        cross = S[parents, j]
        left = S[j, j] - cross @ np.linalg.solve(S[np.ix_(parents, parents)], cross)
        total += n * (1 + np.log(left)) + penalty_discount * np.log(n) * (len(parents) + 1)
    return -0.5 * float(total)
