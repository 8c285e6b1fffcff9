"""How far a learned graph is from the true one.

Graphs are (d, d) matrices, ``A[i, j] != 0`` for an edge i -> j. A learned graph need not be a DAG:
an undirected edge i - j has both entries set and counts as the two directed edges that it is
stored as, one of which is wrong if the truth has i -> j. The diagonal is part of the graph, so a
self-loop is one wrong edge.

A ratio with nothing in its denominator is undefined, and NaN, not 0 or 1: precision without
predicted edges, recall and average precision without true edges, F1 without either.
"""

import os
from functools import cache

import numpy as np

from sdcd.errors import InputError
from sdcd.graphs import consistent_extension, is_acyclic, pdag_to_cpdag


def score(
    adjacency: np.ndarray, weights: np.ndarray | None, truth: np.ndarray
) -> dict[str, float | int | bool | None]:
    """All metrics of one learned graph.

    Parameters
    ----------
    adjacency : array (d, d)
        Learned graph.
    weights : float (d, d) or None
        Strength of each edge, if the method has them.
    truth : array (d, d)
        True graph.

    Returns
    -------
    dict
        ``shd`` and ``shd_cpdag`` (int), ``aid``, ``precision``, ``recall`` and ``f1`` (float, NaN
        where undefined), ``n_edges`` (int), ``average_precision`` (float, NaN where undefined;
        ``None`` without weights), ``is_dag`` (bool).

    Raises
    ------
    InputError
        If a matrix is not square, shapes differ, or a weight is NaN.
    """
    return {
        "shd": shd(adjacency, truth),
        "shd_cpdag": shd_cpdag(adjacency, truth),
        "aid": aid(adjacency, truth),
        "precision": precision(adjacency, truth),
        "recall": recall(adjacency, truth),
        "f1": f1(adjacency, truth),
        "n_edges": n_edges(adjacency),
        "average_precision": average_precision(weights, truth),
        "is_dag": is_acyclic(adjacency),
    }


def shd(adjacency: np.ndarray, truth: np.ndarray) -> int:
    """Structural Hamming distance: node pairs whose connection differs.

    Each pair counts once whether the edge is missing, extra, reversed, or undirected in one graph
    and directed in the other; so does a self-loop that only one graph has. With
    ``D = (adjacency != truth)`` and no self-loops this is ``sum(D) - sum(D & D.T) / 2``.

    Parameters
    ----------
    adjacency, truth : array (d, d)
        The two graphs; the distance is symmetric.

    Returns
    -------
    int
    """
    A, T = _pair(adjacency, truth)
    differs = A != T
    return int(np.triu(differs | differs.T).sum())


def shd_cpdag(adjacency: np.ndarray, truth: np.ndarray) -> int:
    """SHD between the CPDAGs of two graphs: zero if they are Markov equivalent.

    Parameters
    ----------
    adjacency, truth : array (d, d)
        The two graphs. What stands in for the CPDAG of a graph that is not a DAG is defined by
        :func:`sdcd.graphs.pdag_to_cpdag`: an essential graph counts as the class that it stands
        for, a cyclic graph by its own entries.

    Returns
    -------
    int
    """
    A, T = _pair(adjacency, truth)
    return shd(pdag_to_cpdag(A), pdag_to_cpdag(T))


def aid(adjacency: np.ndarray, truth: np.ndarray) -> float:
    """Ancestor adjustment identification distance: how many effects would come out wrong.

    The share of the d (d - 1) ordered pairs (t, y) for which what the learned graph says about the
    effect of t on y is wrong in the true one: that there is none, or that adjusting for the
    ancestors of t identifies it, or, where it has undirected edges, that it is not identified.
    0 is a graph from which every effect would come out right. Unlike SHD it is not symmetric, and a
    reversed edge can spoil many effects or none.

    Parameters
    ----------
    adjacency : array (d, d)
        Learned graph.
    truth : array (d, d)
        True graph.

    Returns
    -------
    float
        From 0 to 1. NaN where it is not defined: if either graph is neither a DAG nor a graph that
        stands for DAGs, with directed and undirected edges of which no cycle has a direction, or if
        there are no two variables.

    Notes
    -----
    Source: L. Henckel, T. Würtzen, S. Weichwald. Adjustment identification distance: a gadjid for
    causal structure learning. UAI 2024; by their package ``gadjid``, O(d (d + m)) for m edges. A
    learned graph that has directed more edges than the CPDAG of its class, as an interventional
    essential graph does, is taken at its word.
    """
    A, T = _pair(adjacency, truth)
    if len(A) < 2 or not (_identifies(A) and _identifies(T)):
        return float("nan")
    distance, _ = _gadjid().ancestor_aid(_coded(T), _coded(A), "from row to column")
    return float(distance)


def _identifies(A: np.ndarray) -> bool:
    """Whether a graph is a DAG, or a chain graph with a consistent DAG."""
    if is_acyclic(A):
        return True
    if A.diagonal().any():
        return False
    from scipy.sparse.csgraph import connected_components

    n, component = connected_components(A & A.T, directed=False)
    parents, children = component[np.stack(np.nonzero(A & ~A.T))]
    between = np.zeros((n, n), dtype=bool)
    between[parents, children] = True
    # A directed edge inside a component is a self-loop here.
    return is_acyclic(between) and consistent_extension(A) is not None


def _coded(A: np.ndarray) -> np.ndarray:
    """The package's code: 1 a directed edge, 2 an undirected one, once."""
    undirected = A & A.T
    return (A & ~undirected).astype(np.int8) + 2 * np.triu(undirected).astype(np.int8)


@cache
def _gadjid():
    """The package, its pool of threads started with one unless the caller's setting says more."""
    import gadjid

    before = os.environ.get("RAYON_NUM_THREADS")
    os.environ.setdefault("RAYON_NUM_THREADS", "1")
    try:
        two = np.zeros((2, 2), dtype=np.int8)
        gadjid.ancestor_aid(two, two, "from row to column")
    finally:
        if before is None:
            del os.environ["RAYON_NUM_THREADS"]
    return gadjid


def precision(adjacency: np.ndarray, truth: np.ndarray) -> float:
    """Share of predicted directed edges that are true; NaN if none is predicted."""
    A, T = _pair(adjacency, truth)
    return _ratio((A & T).sum(), A.sum())


def recall(adjacency: np.ndarray, truth: np.ndarray) -> float:
    """Share of true directed edges that are predicted; NaN if there is none."""
    A, T = _pair(adjacency, truth)
    return _ratio((A & T).sum(), T.sum())


def f1(adjacency: np.ndarray, truth: np.ndarray) -> float:
    """Harmonic mean of precision and recall, as ``2 TP / (predicted + true)``.

    In this form it is 0 where only one of the two is undefined, and NaN where both are.
    """
    A, T = _pair(adjacency, truth)
    return _ratio(2 * (A & T).sum(), A.sum() + T.sum())


def n_edges(adjacency: np.ndarray) -> int:
    """Number of directed edges, an undirected one counting as two."""
    return int(np.count_nonzero(adjacency))


def average_precision(weights: np.ndarray | None, truth: np.ndarray) -> float | None:
    """Area under the precision-recall curve of the edges ranked by weight; needs no threshold.

    The sum over distinct weights, in decreasing order, of precision at that cut times the recall
    gained by it (no interpolation), over all ordered pairs i != j. Pairs of equal weight, those of
    weight 0 included, enter together, so their order does not matter; a constant matrix scores the
    density of the true graph.

    Parameters
    ----------
    weights : float (d, d) or None
        Strength of each edge; the absolute value ranks. The diagonal is ignored.
    truth : array (d, d)
        True graph.

    Returns
    -------
    float or None
        NaN if there is no true edge, ``None`` if ``weights`` is.

    Raises
    ------
    InputError
        If a weight is NaN.
    """
    if weights is None:
        return None
    strength = np.abs(np.asarray(weights))
    if np.isnan(strength).any():
        raise InputError("weights hold NaN, expected numbers")
    _, T = _pair(strength, truth)
    off_diagonal = ~np.eye(len(T), dtype=bool)
    T = T & off_diagonal
    n_true, n_pairs = int(T.sum()), T.size - len(T)
    if n_true == 0:
        return float("nan")

    ranked = (strength > 0) & off_diagonal
    values, hits = strength[ranked], T[ranked]
    order = np.argsort(-values)
    values, hits = values[order], np.cumsum(hits[order])
    last_of_tie = np.flatnonzero(np.append(values[1:] != values[:-1], len(values) > 0))
    true_positives = np.append(hits[last_of_tie], n_true)
    predicted = np.append(last_of_tie + 1, n_pairs)
    gained = np.diff(true_positives, prepend=0)
    return float((true_positives / predicted) @ gained / n_true)


def _pair(adjacency: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    A, T = np.asarray(adjacency), np.asarray(truth)
    if A.shape != T.shape or A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise InputError(
            f"the graph has shape {A.shape} and the true graph {T.shape}, "
            "expected two square matrices of one size"
        )
    return A != 0, T != 0


def _ratio(part: int, whole: int) -> float:
    return float(part / whole) if whole else float("nan")
