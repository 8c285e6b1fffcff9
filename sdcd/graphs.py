"""Graph algorithms: acyclicity, thresholds that make a DAG, Markov equivalence classes.

A graph is a square matrix: ``A[i, j] != 0`` means an edge i -> j, and both ``A[i, j]`` and
``A[j, i]`` non-zero an undirected edge i - j. The functions named ``edges`` take lists of edges,
for graphs whose matrix would not fit in memory.

==============================  ===================================================================
:func:`is_acyclic`              has it no directed cycle?
:func:`edges_acyclic`           the same for a list of edges
:func:`topological_order`       parents before children
:func:`smallest_dag_threshold`  the smallest t at which ``{abs(W) > t}`` is acyclic
:func:`dag_trim`                the heaviest edges that form a DAG, greedily (SDCD's last step)
:func:`dag_trim_edges`          the same for a list of edges
:func:`dag_to_cpdag`            the CPDAG of a DAG: its Markov equivalence class
:func:`pdag_to_cpdag`           the same for what a method may return instead of a DAG
:func:`consistent_extension`    one DAG of the class that a PDAG stands for
==============================  ===================================================================
"""

import heapq
from functools import cache

import numpy as np

from sdcd.errors import InputError


def is_acyclic(A: np.ndarray) -> bool:
    """Whether a graph has no directed cycle.

    A self-loop is a cycle, and so is an undirected edge (it is a pair of opposite edges).

    Parameters
    ----------
    A : array (d, d), any dtype
        ``A[i, j] != 0`` is an edge i -> j.

    Returns
    -------
    bool

    Notes
    -----
    A graph without self-loops is acyclic if each of its strongly connected components is one node
    (Tarjan): O(d^2) to read the matrix.
    """
    A = _square(A)
    return edges_acyclic(*np.nonzero(A), len(A))


def edges_acyclic(parents: np.ndarray, children: np.ndarray, d: int) -> bool:
    """:func:`is_acyclic` for a graph given as a list of edges: O(m + d).

    Parameters
    ----------
    parents, children : int (m,)
        Edge e points from ``parents[e]`` to ``children[e]``; no edge twice.
    d : int
        Number of nodes.

    Returns
    -------
    bool
    """
    if len(parents) > d * (d - 1) // 2 or np.any(parents == children):
        return False
    # Not at the top: listing the methods, as every job of a cluster does, imports this module.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(parents), dtype=np.int8), (parents, children)), shape=(d, d))
    n_components = connected_components(
        graph.tocsr(), directed=True, connection="strong", return_labels=False
    )
    return n_components == d


def topological_order(A: np.ndarray) -> np.ndarray:
    """Nodes of a DAG, parents before children; among possible next nodes the smallest first.

    Parameters
    ----------
    A : array (d, d)
        A directed acyclic graph.

    Returns
    -------
    int64 (d,)

    Raises
    ------
    InputError
        If the graph has a cycle.
    """
    from scipy.sparse import csr_array

    A = _square(A) != 0
    missing = A.sum(axis=0, dtype=np.int64)
    ready = np.flatnonzero(missing == 0).tolist()
    children = csr_array(A)
    order = []
    while ready:
        node = heapq.heappop(ready)
        order.append(node)
        for child in children.indices[children.indptr[node] : children.indptr[node + 1]]:
            missing[child] -= 1
            if missing[child] == 0:
                heapq.heappush(ready, int(child))
    if len(order) < len(A):
        raise InputError("the graph has a cycle, expected a directed acyclic graph")
    return np.array(order, dtype=np.int64)


def smallest_dag_threshold(weights: np.ndarray) -> float:
    """The smallest t >= 0 for which the graph ``{abs(weights) > t}`` is acyclic.

    Acyclicity is monotone in t and changes only at the weights themselves, so t is 0 or one of
    them, found exactly by bisection over the sorted distinct values. The graph at the returned
    value itself is acyclic. Self-loops count as cycles.

    Parameters
    ----------
    weights : float (d, d)
        Finite edge weights of either sign.

    Returns
    -------
    float
        0 if the graph of the non-zero weights is already a DAG.

    Raises
    ------
    InputError
        If a weight is NaN or infinite.
    """
    weights = np.abs(_square(weights)).astype(np.float64, copy=False)
    _require_finite(weights)
    d = len(weights)
    parents, children = np.nonzero(weights)
    values = weights[parents, children]
    if len(values) > d * (d - 1) // 2:
        # A DAG has at most d (d - 1) / 2 edges: the threshold is not below the next weight.
        most = d * (d - 1) // 2
        floor = np.partition(values, len(values) - most - 1)[len(values) - most - 1]
    else:
        floor = 0.0
    candidates = np.unique(np.append(values[values >= floor], floor))
    low, high = 0, len(candidates) - 1  # acyclic at `high`: no weight is above the largest
    while low < high:
        middle = (low + high) // 2
        above = values > candidates[middle]
        if edges_acyclic(parents[above], children[above], d):
            high = middle
        else:
            low = middle + 1
    return float(candidates[high])


def dag_trim(weights: np.ndarray, threshold: float) -> np.ndarray:
    """SDCD's last step: heavy edges in decreasing order of weight, if they close no cycle.

    Parameters
    ----------
    weights : float (d, d)
        Non-negative edge weights (SDCD's ``A[i, j] = ||W[i, j, :]||_2``).
    threshold : float
        Edges need ``weights >= threshold`` (the paper's tau_2) and a weight above zero.

    Returns
    -------
    int8 (d, d)
        The adjacency matrix of a DAG.

    Raises
    ------
    InputError
        If a weight is NaN or infinite.

    Notes
    -----
    See :func:`dag_trim_edges` for the order among equal weights and the cost. Source: the paper's
    algorithm "DAGTrim", appendix.
    """
    weights = _square(weights)
    _require_finite(weights)
    parents, children = np.nonzero((weights >= threshold) & (weights > 0))
    kept = dag_trim_edges(
        parents, children, weights[parents, children], len(weights), threshold=threshold
    )
    A = np.zeros(weights.shape, dtype=np.int8)
    A[parents[kept], children[kept]] = 1
    return A


def dag_trim_edges(
    parents: np.ndarray, children: np.ndarray, weights: np.ndarray, d: int, threshold: float
) -> np.ndarray:
    """:func:`dag_trim` for a graph given as a list of edges.

    Parameters
    ----------
    parents, children : int (m,)
        Edge e points from ``parents[e]`` to ``children[e]``.
    weights : float (m,)
        Non-negative weight of each edge.
    d : int
        Number of nodes.
    threshold : float
        Edges need ``weights >= threshold`` and a weight above zero.

    Returns
    -------
    bool (m,)
        Which edges were kept. Together they are acyclic, and none of the others that pass the
        threshold can be added without closing a cycle with heavier edges.

    Raises
    ------
    InputError
        If a weight is NaN or infinite, an index is outside 0..d-1, or lengths differ.

    Notes
    -----
    Equal weights are taken in order of (parent, child), so the result depends on the graph alone,
    not on the order of the list. Each edge is tested against a topological order that is repaired
    as edges arrive (Pearce and Kelly 2006): only the nodes between its two ends in that order are
    searched. Memory O(d + m).
    """
    parents, children = (np.asarray(x, dtype=np.int64) for x in (parents, children))
    weights = np.asarray(weights, dtype=np.float64)
    if not parents.shape == children.shape == weights.shape or parents.ndim != 1:
        raise InputError(
            f"edges have {parents.shape} parents, {children.shape} children and {weights.shape} "
            "weights, expected three vectors of one length"
        )
    for ends in (parents, children):
        if len(ends) and (ends.min() < 0 or ends.max() >= d):
            raise InputError(f"an edge has an end outside the nodes 0 to {d - 1}")
    _require_finite(weights)

    candidates = np.flatnonzero((weights >= threshold) & (weights > 0))
    by_weight = np.lexsort((children[candidates], parents[candidates], -weights[candidates]))
    candidates = candidates[by_weight]
    # Compiling takes seconds: more than the few edges of a small graph do.
    insert = _insert_edges if len(candidates) < 20_000 else _insert_edges_compiled()
    kept = np.zeros(len(weights), dtype=bool)
    kept[candidates[insert(parents[candidates], children[candidates], d)]] = True
    return kept


def dag_to_cpdag(A: np.ndarray) -> np.ndarray:
    """The CPDAG (essential graph) of a DAG's Markov equivalence class.

    An edge is directed in the CPDAG if all DAGs with the same skeleton and v-structures direct it
    alike, else undirected.

    Parameters
    ----------
    A : array (d, d)
        A directed acyclic graph.

    Returns
    -------
    int8 (d, d)
        i -> j as ``[i, j] = 1, [j, i] = 0``; i - j as both 1.

    Raises
    ------
    InputError
        If the graph has a cycle.

    Notes
    -----
    Chickering (1995), "A transformational characterization of equivalent Bayesian network
    structures": edges are labelled compelled or reversible node by node in topological order. Of
    the edges into y, the one from its last parent x decides. If all other parents of y are parents
    of x, and all compelled edges into x come from parents of y, then those parents' edges into y
    are compelled and the others reversible; else all are compelled.
    """
    A = _square(A)
    order = topological_order(A)
    rank = np.empty(len(A), dtype=np.int64)
    rank[order] = np.arange(len(A))
    parents = [set(np.flatnonzero(column).tolist()) for column in A.T]
    compelled: list[set[int]] = [set() for _ in order]
    C = (A != 0).astype(np.int8)
    for y in order.tolist():
        if not parents[y]:
            continue
        x = max(parents[y], key=rank.__getitem__)
        shielded = parents[y] - {x} <= parents[x]
        if shielded and compelled[x] <= parents[y]:
            compelled[y] = compelled[x]
        else:
            compelled[y] = parents[y]
        C[y, list(parents[y] - compelled[y])] = 1
    return C


def pdag_to_cpdag(A: np.ndarray) -> np.ndarray:
    """The graph on which SHD-CPDAG compares what a method returned.

    Parameters
    ----------
    A : array (d, d)
        Any graph, cyclic or not, with undirected edges (both entries non-zero) or without.

    Returns
    -------
    int8 (d, d)
        * If A is a DAG: its CPDAG.
        * If A has undirected edges that can be directed without a cycle or a new v-structure (a
          PDAG with a consistent extension; every essential graph is one, GIES's interventional
          ones included): the CPDAG of those extensions. They all have A's skeleton and
          v-structures, so there is one such CPDAG, and a CPDAG is its own.
        * Otherwise (a directed cycle, a self-loop, or undirected edges that admit no extension) A
          stands for no Markov equivalence class and is returned as it is, entries 0 and 1: its own
          entries are compared with the true CPDAG.
    """
    A = _square(A)
    extension = consistent_extension(A)
    return (A != 0).astype(np.int8) if extension is None else dag_to_cpdag(extension)


def consistent_extension(A: np.ndarray) -> np.ndarray | None:
    """A DAG that directs a PDAG's undirected edges without a cycle or a new v-structure.

    Parameters
    ----------
    A : array (d, d)
        A graph with directed and undirected edges.

    Returns
    -------
    int8 (d, d) or None
        A DAG with A's skeleton, directed edges and v-structures; ``None`` if there is none.
        A itself if A is a DAG.

    Notes
    -----
    Dor and Tarsi (1992): repeatedly remove a node x with no edge out of it, whose undirected
    neighbours are each adjacent to all of x's other neighbours, and direct its edges into it. Any
    such node will do; the smallest is taken.
    """
    A = _square(A) != 0
    if A.diagonal().any():
        return None
    G = A.astype(np.int8)
    adjacent = [set(np.flatnonzero(row).tolist()) for row in A | A.T]
    undirected = [set(np.flatnonzero(row).tolist()) for row in A & A.T]
    children = [set(np.flatnonzero(row).tolist()) for row in A & ~A.T]

    def removable(x: int) -> bool:
        return not children[x] and all(adjacent[x] - {y} <= adjacent[y] for y in undirected[x])

    # Removing x can make only nodes adjacent to x removable: nothing else changed for the others.
    waiting = list(range(len(A)))
    removed = np.zeros(len(A), dtype=bool)
    while waiting:
        x = heapq.heappop(waiting)
        if removed[x] or not removable(x):
            continue
        removed[x] = True
        for y in undirected[x]:
            G[x, y] = 0
        for y in adjacent[x]:
            adjacent[y].discard(x)
            undirected[y].discard(x)
            children[y].discard(x)
            heapq.heappush(waiting, y)
    return G if removed.all() else None


def _square(A: np.ndarray) -> np.ndarray:
    A = np.asarray(A)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise InputError(f"a graph has shape {A.shape}, expected a square matrix")
    return A


def _require_finite(weights: np.ndarray) -> None:
    finite = np.isfinite(weights)
    if not finite.all():
        where = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise InputError(f"edge weight {where} is {weights[where]}, expected finite weights")


def _insert_edges(parents: np.ndarray, children: np.ndarray, d: int) -> np.ndarray:
    """Insert edges one by one, skipping those that close a cycle: bool (m,), True where kept.

    Numba compiles this for large graphs, so it keeps to scalars and arrays.
    """
    m = len(parents)
    kept = np.zeros(m, dtype=np.bool_)
    position = np.arange(d)  # of each node in the current topological order
    # Kept edges as linked lists: the newest edge out of (into) each node, and the one before it.
    newest_out = np.full(d, -1)
    newest_in = np.full(d, -1)
    previous_out = np.full(m, -1)
    previous_in = np.full(m, -1)
    reached = np.full(d, -1)  # 2 e if found forward for edge e, 2 e + 1 if found backward
    forward = np.empty(d, dtype=np.int64)
    backward = np.empty(d, dtype=np.int64)
    for e in range(m):
        x = parents[e]
        y = children[e]
        if x == y:
            continue
        if position[x] > position[y]:
            # Forward from y and backward from x by turns, among the nodes between their positions:
            # if the two searches meet, the edge would close a cycle. One that runs dry settles that
            # there is none; the other is still completed, for the repair of the order.
            first = position[y]
            last = position[x]
            n_forward = 1
            n_backward = 1
            forward[0] = y
            backward[0] = x
            reached[y] = 2 * e
            reached[x] = 2 * e + 1
            i = 0
            j = 0
            cycle = False
            while (i < n_forward or j < n_backward) and not cycle:
                if i < n_forward:
                    edge = newest_out[forward[i]]
                    i += 1
                    while edge >= 0 and not cycle:
                        node = children[edge]
                        edge = previous_out[edge]
                        if reached[node] == 2 * e + 1:
                            cycle = True
                        elif reached[node] != 2 * e and position[node] < last:
                            reached[node] = 2 * e
                            forward[n_forward] = node
                            n_forward += 1
                if j < n_backward:
                    edge = newest_in[backward[j]]
                    j += 1
                    while edge >= 0 and not cycle:
                        node = parents[edge]
                        edge = previous_in[edge]
                        if reached[node] == 2 * e:
                            cycle = True
                        elif reached[node] != 2 * e + 1 and position[node] > first:
                            reached[node] = 2 * e + 1
                            backward[n_backward] = node
                            n_backward += 1
            if cycle:
                continue
            # The nodes found share out the positions they hold now: those before x come first.
            before = backward[:n_backward]
            after = forward[:n_forward]
            before = before[np.argsort(position[before])]
            after = after[np.argsort(position[after])]
            places = np.sort(np.concatenate((position[before], position[after])))
            position[before] = places[:n_backward]
            position[after] = places[n_backward:]
        kept[e] = True
        previous_out[e] = newest_out[x]
        newest_out[x] = e
        previous_in[e] = newest_in[y]
        newest_in[y] = e
    return kept


@cache
def _insert_edges_compiled():
    import numba

    return numba.njit(_insert_edges)
