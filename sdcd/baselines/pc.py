"""PC, the constraint-based search, with tests of partial correlation (package causal-learn)."""

import numpy as np

from sdcd.errors import MethodFailure
from sdcd.methods import Graph, register
from sdcd.parameters import integer, number

PRELOAD = ("causallearn.search.ConstraintBased.PC",)


@register(
    name="PC",
    data="observational",
    defaults={"alpha": 0.05, "max_conditions": -1},
    ranges={"alpha": number(above=0, below=1), "max_conditions": integer(-1)},
    source="not in the paper: Spirtes and Glymour 1991, package causal-learn with its defaults "
    "(stable, Fisher's z, level 0.05)",
)
def pc(
    X: np.ndarray,
    intervened: np.ndarray,
    names: tuple[str, ...],
    seed: int,
    *,
    alpha: float,
    max_conditions: int,
) -> Graph:
    """Remove the edges between what is independent given some of its neighbours, then direct.

    The order-independent ("stable") search for the skeleton; colliders from the separating sets,
    where two claims about an edge contradict each other the first one standing; then the rules of
    Meek. Independent means that Fisher's z-test of the partial correlation does not reject at
    ``alpha``: right for linear Gaussian data.

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
    alpha : float
        Level of the tests, 0.05.
    max_conditions : int
        Largest number of variables conditioned on; -1, the default, for no bound.

    Returns
    -------
    Graph
        With undirected edges, without weights. On finite data it may stand for no DAG.

    Raises
    ------
    MethodFailure
        ``unavailable`` if causal-learn is not installed; ``error`` if the covariance is singular.

    References
    ----------
    P. Spirtes, C. Glymour. An algorithm for fast recovery of sparse causal graphs. Social Science
    Computer Review 9, 1991.
    D. Colombo, M. Maathuis. Order-independent constraint-based causal structure learning. JMLR 15,
    2014.
    """
    from sdcd.baselines import _causal_learn
    from sdcd.baselines._gaussian_score import covariance

    try:
        from causallearn.search.ConstraintBased.PC import pc as search
    except ImportError as error:
        raise MethodFailure("unavailable", f"{error}; {_causal_learn.INSTALL}") from None
    covariance(X, names, "PC")
    with _causal_learn.contained(seed):
        found = search(
            X.astype(np.float64),
            alpha=alpha,
            max_k=None if max_conditions < 0 else max_conditions,
            verbose=False,
            show_progress=False,
        )
    marks = found.G.graph
    contradictions = int(((marks == _causal_learn.HEAD) & (marks.T == _causal_learn.HEAD)).sum())
    return Graph(
        _causal_learn.adjacency(marks), None, {"edges_with_two_heads": contradictions // 2}
    )
