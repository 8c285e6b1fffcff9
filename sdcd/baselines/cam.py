"""CAM, causal additive models: greedy search for the order, then pruning."""

import numpy as np

from sdcd.errors import MethodFailure
from sdcd.methods import Graph, register
from sdcd.parameters import integer, number

ROWS_PER_PARENT = 20
"""A variable gets no further parent beyond one for so many rows."""


@register(
    name="CAM",
    data="observational",
    defaults={"p_value": 0.001, "splines": 10},
    ranges={"p_value": number(above=0, below=1), "splines": integer(4)},
    source="not in the paper: Bühlmann, Peters and Ernest 2014 with its 10 basis functions and "
    "p-value 0.001, without preliminary neighbourhood selection; least squares on B-splines and "
    "exact partial F-tests in place of mgcv's",
)
def cam(
    X: np.ndarray,
    intervened: np.ndarray,
    names: tuple[str, ...],
    seed: int,
    *,
    p_value: float,
    splines: int,
) -> Graph:
    """Add the edge that raises the likelihood of an additive model most, until no more fits; prune.

    The model is ``x_j = c_j + sum_i f_ij(x_i) + noise`` with Gaussian noise of its own variance for
    each variable. The search ends with all pairs connected, in an order; the complete graph of that
    order is pruned as SCORE's is, see :func:`sdcd.baselines._additive_pruning.prune`.

    Parameters
    ----------
    X : float32 (n, d)
        Values, on any scale.
    intervened : bool (n, d)
        All false; not used.
    names : tuple of d str
        Used in messages.
    seed : int
        Not used: the method is deterministic.
    p_value : float
        Largest p-value of an edge in the additive model of its child, exclusive.
    splines : int
        Basis functions per parent, before centring; at least 4.

    Returns
    -------
    Graph
        A DAG by construction. A weight is the F statistic of dropping the edge as a multiple of the
        critical value for ``p_value``, so that edges are those above 1.

    Raises
    ------
    MethodFailure
        ``error`` if a variable is constant; ``oom`` if the factors of the search, about
        ``4 d^3 (splines - 1)^2`` bytes, do not fit in memory.

    References
    ----------
    P. Bühlmann, J. Peters, J. Ernest. CAM: causal additive models, high-dimensional order search
    and penalized regression. Annals of Statistics 42, 2014.
    """
    from sdcd.baselines._additive_pruning import prune

    constant = np.flatnonzero(np.ptp(X, axis=0) == 0)
    if constant.size:
        raise MethodFailure("error", f"{names[constant[0]]!r} is constant")
    try:
        order, gains = causal_order(X, splines)
    except MemoryError:
        raise MethodFailure(
            "oom", f"no memory for the search's factors at d = {len(names)}"
        ) from None
    weights = prune(X, order, splines, p_value)
    return Graph(
        weights > 1,
        weights,
        {
            "order": order.tolist(),
            "edges_of_the_search": len(gains),
            "log_likelihood_per_row": float(np.sum(gains)),
            "threshold": 1.0,
        },
    )


def causal_order(X: np.ndarray, splines: int) -> tuple[np.ndarray, np.ndarray]:
    """Greedy search over DAGs, edge by edge.

    For each child the normal equations of its additive model are kept in factored form: of every
    variable that could become a parent, what its basis adds to the span of the present parents'.
    So the gain of an edge costs the solution of a system as large as one basis.

    Parameters
    ----------
    X : float (n, d)
        No column constant.
    splines : int
        Basis functions per parent, before centring.

    Returns
    -------
    order : int64 (d,)
        A topological order of the DAG found, sources first.
    gains : float64 (edges,)
        Of the edges in the order in which they were added: growth of the log-likelihood per row,
        ``log sd_before - log sd_after`` of the child.
    """
    from sdcd.baselines._additive_pruning import centred_splines
    from sdcd.graphs import topological_order

    n, d = X.shape
    X = X.astype(np.float64)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    basis = np.hstack([centred_splines(X[:, j], splines) for j in range(d)])
    children = _Children(basis, X, splines - 1)
    most_parents = max(1, n // ROWS_PER_PARENT)

    adjacency = np.zeros((d, d), dtype=bool)
    reaches = np.eye(d, dtype=bool)
    gain = np.stack([children.gains(j) for j in range(d)], axis=1)
    np.fill_diagonal(gain, -np.inf)
    found = []
    while (gain > -np.inf).any():
        parent, child = np.unravel_index(int(np.argmax(gain)), gain.shape)
        found.append(gain[parent, child])
        adjacency[parent, child] = True
        # All that reaches the parent now reaches what the child reaches; the way back is closed.
        reaches |= np.outer(reaches[:, parent], reaches[child])
        gain[reaches.T] = -np.inf
        children.add(parent, child)
        open_to = gain[:, child] > -np.inf
        open_to[parent] = False
        if adjacency[:, child].sum() >= most_parents:
            open_to[:] = False
        gain[:, child] = np.where(open_to, children.gains(child), -np.inf)
    return topological_order(adjacency), np.array(found)


class _Children:
    """The additive models of all variables, each with the parents that it has so far.

    Attributes
    ----------
    rows : list of list of float64 (k, d k)
        For each child and each of its parents, in the order in which they came: rows of the
        Cholesky factor of the Gram matrix of all bases, those of the parents first.
    blocks : float64 (d, d, k, k)
        ``blocks[j, i]``: Gram matrix of basis i without its projection on the parents of j.
    moments : float64 (d, d k)
        Of what is left of the child with what is left of each basis.
    variances : float64 (d,)
        Left of each child.
    """

    def __init__(self, basis: np.ndarray, X: np.ndarray, k: int):
        n, self.d = X.shape
        self.k = k
        self.gram = basis.T @ basis / n
        self.moments = X.T @ basis / n
        self.variances = np.mean(X**2, axis=0)
        own = self.gram.reshape(self.d, k, self.d, k)
        diagonal = own[np.arange(self.d), :, np.arange(self.d)]
        self.blocks = np.repeat(diagonal[None], self.d, axis=0)
        # Below this an eigenvalue of a block is rounding.
        self.smallest = 1e-10 * np.linalg.eigvalsh(diagonal).max()
        self.rows: list[list[np.ndarray]] = [[] for _ in range(self.d)]

    def gains(self, child: int) -> np.ndarray:
        """Growth of the child's log-likelihood per row by each variable as a further parent."""
        moments = self.moments[child].reshape(self.d, self.k)
        values, vectors = np.linalg.eigh(self.blocks[child])
        along = np.einsum("dab,da->db", vectors, moments)
        used = values > self.smallest
        explained = np.sum(np.where(used, along**2 / np.where(used, values, 1.0), 0.0), axis=1)
        left = np.maximum(self.variances[child] - explained, np.finfo(float).tiny)
        return 0.5 * (np.log(self.variances[child]) - np.log(left))

    def add(self, parent: int, child: int) -> None:
        """Make ``parent`` a parent of ``child``."""
        of = slice(parent * self.k, (parent + 1) * self.k)
        new = self.gram[of].copy()
        for rows in self.rows[child]:
            new -= rows[:, of].T @ rows
        values, vectors = np.linalg.eigh(self.blocks[child, parent])
        used = values > self.smallest
        new = (vectors[:, used] / np.sqrt(values[used])).T @ new
        explained = (vectors[:, used] / np.sqrt(values[used])).T @ self.moments[child, of]
        self.rows[child].append(new)
        self.moments[child] -= explained @ new
        remaining = self.variances[child] - explained @ explained
        self.variances[child] = max(remaining, np.finfo(float).tiny)
        per_basis = new.reshape(-1, self.d, self.k)
        self.blocks[child] -= np.einsum("rda,rdb->dab", per_basis, per_basis)
