"""Any method's graph as a DAG."""

import numpy as np

from sdcd.errors import MethodFailure
from sdcd.graphs import consistent_extension, dag_trim, is_acyclic
from sdcd.methods.contract import Graph


def as_dag(graph: Graph) -> np.ndarray:
    """The DAG that pruning and order search start from: the graph itself, if it is one.

    Otherwise, with weights, its edges in decreasing order of weight, except those that would close
    a cycle (:func:`sdcd.graphs.dag_trim`); without, a DAG of the class that it stands for
    (:func:`sdcd.graphs.consistent_extension`).

    Returns
    -------
    int8 (d, d)

    Raises
    ------
    MethodFailure
        ``error`` if a graph without weights has cycles that no choice of directions avoids.
    """
    A = graph.adjacency
    if is_acyclic(A):
        return A
    if graph.weights is not None:
        return dag_trim(np.abs(graph.weights) * (A != 0), threshold=0.0)
    extension = consistent_extension(A)
    if extension is None:
        raise MethodFailure(
            "error",
            f"the graph ({np.count_nonzero(A)} edges) stands for no DAG and has no weights "
            "by which to make it one, so nothing can be built on it",
        )
    return extension
