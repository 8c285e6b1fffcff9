"""GIES: greedy interventional equivalence search with the Gaussian BIC."""

import numpy as np

from sdcd.errors import MethodFailure
from sdcd.methods import Graph, register

PRELOAD = ("sdcd.baselines._gies_search:warm_up", "sdcd.graphs")

_BLOCK = 64
"""Regimes whose products of rows are held at a time."""


@register(
    name="GIES",
    data="interventional",
    defaults={"extract_dag": False},
    source="Hauser & Bühlmann 2012, package gies with its defaults, as in the SDCD paper's run",
)
def gies(
    X: np.ndarray, intervened: np.ndarray, names: tuple[str, ...], seed: int, *, extract_dag: bool
) -> Graph:
    """Greedily maximise the Gaussian BIC over interventional Markov equivalence classes.

    Rows with the same targets form a regime. With ``N_k`` the number of rows in the regimes that
    do not target k, and ``v(k, Pa)`` the variance left when k is regressed on Pa in those,

        score(G) = - sum_k [ N_k / 2 (1 + log v(k, Pa_k)) + log(n) / 2 (|Pa_k| + 1) ]

    is raised by inserting, deleting and turning edges, phase by phase, until no phase gains more
    than 0.001 by any operator.

    Parameters
    ----------
    X : float32 (n, d)
        Values.
    intervened : bool (n, d)
        Each variable must be left alone in at least one row.
    names : tuple of d str
        Used in messages.
    seed : int
        Not used: the method is deterministic.
    extract_dag : bool
        False, as run: the essential graph itself, with its undirected edges. True: one DAG of the
        class that it stands for.

    Returns
    -------
    Graph
        Without weights: the method has none.

    Raises
    ------
    MethodFailure
        ``error`` if some variable is intervened on in every row; if the search meets parents that
        determine a variable, or one that is constant; or if the essential graph has no consistent
        DAG and one was asked for.

    Notes
    -----
    Operators, their order among equal gains and the rule for stopping are those of the package
    ``gies`` 0.0.3, with which the paper was run, and so is the graph; see
    :mod:`sdcd.baselines._gies_search` for how they are found. Covariances are summed in float64.
    The number of cliques among a variable's undirected neighbours enters the cost, and may be
    exponential in the size of an undirected component; on the paper's data few edges are
    undirected.

    References
    ----------
    A. Hauser, P. Bühlmann. Characterization and greedy learning of interventional Markov
    equivalence classes of directed acyclic graphs. JMLR 13, 2012.
    """
    from sdcd.baselines._gies_search import search

    always = np.flatnonzero(intervened.all(axis=0))
    if always.size:
        raise MethodFailure("error", f"every row intervenes on {names[always[0]]!r}")
    targets, regime = np.unique(intervened, axis=0, return_inverse=True)
    cov, group, rows = _covariances(X, targets, regime.ravel())
    separated = np.logical_or(targets.T @ ~targets, (~targets).T @ targets)
    essential, score, counts = search(cov, group, rows, 0.5 * np.log(len(X)), separated)
    if counts["determined"] >= 0:
        name = names[counts["determined"]]
        raise MethodFailure(
            "error", f"{name!r} is constant or a linear function of other variables"
        )
    adjacency = essential
    if extract_dag:
        from sdcd.graphs import consistent_extension

        adjacency = consistent_extension(essential)
        if adjacency is None:
            raise MethodFailure("error", "the essential graph has no consistent DAG")
    return Graph(
        adjacency=adjacency,
        diagnostics={
            "bic": score,
            "regimes": len(targets),
            "undirected_edges": int((essential & essential.T).sum()) // 2,
            "steps": counts["steps"],
            "local_scores": counts["scores"],
        },
    )


def _covariances(
    X: np.ndarray, targets: np.ndarray, regime: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Covariances within regimes, pooled over those that leave a variable alone.

    ``targets`` is bool (regimes, d), ``regime`` int (n,). Returns float64 (groups, d, d), one for
    each set of regimes that some variable is left alone in; int64 (d,), each variable's group; and
    float64 (d,), its number of rows.
    """
    d = X.shape[1]
    usable, group = np.unique(~targets, axis=1, return_inverse=True)
    usable = usable.T.astype(float)
    sizes = np.bincount(regime, minlength=len(targets))
    rows = usable @ sizes
    order = np.argsort(regime, kind="stable")
    ends = np.cumsum(sizes)
    pooled = np.zeros((len(usable), d * d))
    for start in range(0, len(targets), _BLOCK):
        stop = min(start + _BLOCK, len(targets))
        products = np.empty((stop - start, d, d))
        for e in range(start, stop):
            values = X[order[ends[e] - sizes[e] : ends[e]]].astype(np.float64)
            values -= values.mean(axis=0)
            np.matmul(values.T, values, out=products[e - start])
        pooled += usable[:, start:stop] @ products.reshape(stop - start, -1)
    cov = pooled.reshape(-1, d, d) / rows[:, None, None]
    return cov, group.ravel(), rows[group.ravel()]
