"""Pieces shared by the linear methods: least squares through second moments, the DAG cut."""

import numpy as np

from sdcd.graphs import smallest_dag_threshold

BISECTION_RESOLUTION = 10 / 2**20
"""The cut that bisecting [0, 10] down to a half-width of 1e-5 ends at when nothing must be cut."""


def second_moments(X: np.ndarray) -> np.ndarray:
    """``S = X^T X / n`` in float64: (d, d) from (n, d)."""
    X = X.astype(np.float64)
    return X.T @ X / len(X)


def least_squares(W: np.ndarray, S: np.ndarray) -> tuple[float, np.ndarray]:
    """``(1/2n) ||X - X W||_F^2`` and its gradient, from ``S`` alone.

    Expanding the square gives ``0.5 tr((I - W)^T S (I - W))`` with gradient ``-S (I - W)``, which
    takes the number of rows out of every evaluation.
    """
    residual = np.eye(len(W)) - W
    gradient = -S @ residual
    return -0.5 * float(np.sum(residual * gradient)), gradient


def largest_dag(weights: np.ndarray) -> tuple[np.ndarray, float]:
    """The graph of the entries above the smallest cut that leaves no cycle, and that cut.

    The authors bisected the cut on [0, 10]; this is the exact value, but never below the
    resolution of their bisection, so that entries which they cut as zeros are cut here too.

    Parameters
    ----------
    weights : float (d, d)
        Non-negative.

    Returns
    -------
    adjacency : bool (d, d)
    threshold : float
    """
    threshold = max(smallest_dag_threshold(weights), BISECTION_RESOLUTION)
    return weights > threshold, threshold
