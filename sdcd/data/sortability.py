"""How much of the causal order can be read off a data set by sorting its variables.

A sortability of 1 means that along every directed path of the true graph the sorted quantity grows,
0 that it falls, 1/2 that it says nothing. Simulations in which it is far from 1/2 reward methods
that, knowingly or not, sort.

References
----------
A. Reisach, C. Seiler, S. Weichwald. Beware of the Simulated DAG! NeurIPS 2021.
A. Reisach, M. Tami, C. Seiler, A. Chambaz, S. Weichwald. A scale-invariant sorting criterion to
find a causal order in additive noise models. NeurIPS 2023.
"""

import numpy as np

from sdcd.errors import InputError
from sdcd.graphs import is_acyclic


def var_sortability(X: np.ndarray, adjacency: np.ndarray) -> float:
    """Sortability by variance: see :func:`sortability`.

    On standardised data all variances are one up to rounding, and this is meaningless: give the
    values before standardisation.

    Parameters
    ----------
    X : float (n, d)
    adjacency : array (d, d)
        The true DAG.
    """
    return sortability(np.var(X, axis=0, dtype=np.float64), adjacency)


def r2_sortability(X: np.ndarray, adjacency: np.ndarray) -> float:
    """Sortability by :func:`r2_given_others`, which no standardisation changes.

    Parameters
    ----------
    X : float (n, d)
    adjacency : array (d, d)
        The true DAG.
    """
    return sortability(r2_given_others(X), adjacency)


def r2_given_others(X: np.ndarray) -> np.ndarray:
    """Share of each variable's variance that the best linear predictor from all others explains.

    ``R^2_j = 1 - 1 / (C^-1)_jj`` with C the correlation matrix; where C is singular, by each
    variable's own regression, and so 1 for a variable that others determine.

    Parameters
    ----------
    X : float (n, d)
        No column constant.

    Returns
    -------
    float64 (d,)
    """
    C = np.corrcoef(X.astype(np.float64), rowvar=False)
    if np.linalg.cond(C) < 1e12:
        return 1 - 1 / np.diag(np.linalg.inv(C))
    others = ~np.eye(len(C), dtype=bool)
    return np.array(
        [C[j, o] @ np.linalg.pinv(C[np.ix_(o, o)]) @ C[o, j] for j, o in enumerate(others)]
    )


def sortability(values: np.ndarray, adjacency: np.ndarray) -> float:
    """Share of the directed paths of a DAG along which ``values`` grow from start to end.

    Each pair of nodes counts once for every length, in edges, of which there is a path from one to
    the other; equal values count one half.

    Parameters
    ----------
    values : float (d,)
        One for each variable.
    adjacency : array (d, d)
        A DAG.

    Returns
    -------
    float
        From 0 to 1; NaN without edges.

    Raises
    ------
    InputError
        If the graph has a cycle.
    """
    A = np.asarray(adjacency) != 0
    if not is_acyclic(A):
        raise InputError("sortability: the graph has a cycle, expected a directed acyclic graph")
    growth = values[None, :] - values[:, None]
    agreement = (1 + np.sign(growth)) / 2
    paths, agreeing, reached = 0, 0.0, A
    step = A.astype(np.float64)
    while reached.any():
        paths += int(reached.sum())
        agreeing += float(agreement[reached].sum())
        reached = (reached.astype(np.float64) @ step) > 0
    return agreeing / paths if paths else float("nan")
